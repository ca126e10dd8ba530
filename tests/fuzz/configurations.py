"""Draws random configurations of the lessons: possible ones, and ones with a value that is impossible."""

import random
from dataclasses import dataclass, field


@dataclass
class Configuration:
    lesson: str
    flags: dict                # by flag; the value is None for a flag without one
    axes: dict                 # sizes of the mesh's axes
    impossible: str = ''       # the flag whose value is impossible
    by_data: tuple = ()        # the figures that depend on the data, so that the meta device has others
    keeps: str = '--save'      # the flag that keeps the trained model

    @property
    def ranks(self):
        product = 1
        for size in self.axes.values():
            product *= size
        return product

    def words(self):
        return [word for flag, value in self.flags.items() for word in ((flag,) if value is None else (flag, str(value)))]

    def __str__(self):
        return ' '.join([self.lesson, *self.words()])


@dataclass
class Family:
    """What distinguishes a lesson's configurations from those of the others."""
    lesson: str
    axes: dict                                       # by axis, how often each size is drawn
    flags: dict = field(default_factory=dict)        # the lesson's own flags, by functions of (draw, model)
    precisions: tuple = ('f32', 'f32', 'bf16')       # () for a lesson without --precision
    clips: bool = False
    sweeps: bool = False                             # whether --microbatches may be a list
    sharded_sequence: bool = False                   # whether tp must divide --sequence
    trains: bool = True                              # whether the lesson trains a model
    by_data: tuple = ()                              # see Configuration
    chunks: int = 1                                  # the most stages per rank
    keeps: str = '--save'                            # --export if the lesson can't resume
    replays: bool = True                             # whether runs record their operations


def _bucket(draw, model):
    return int(10 ** draw.uniform(2, 6))


def _prefetch(draw, model):
    return ','.join(map(str, sorted(draw.sample(range(4), draw.randint(1, 2)))))


def _shard(draw, model):
    replicas = model['--dp'] * model.get('--cp', 1)
    rows = [size for size in range(2, replicas + 1) if replicas % size == 0]
    return draw.choice(rows) if model['--zero'] > 0 and rows and draw.random() < 0.5 else False


def _place(draw, model):
    ranks = list(range(model['--pp']))
    draw.shuffle(ranks)
    return ','.join(map(str, ranks)) if '--search' not in model and draw.random() < 0.6 else False


def _shares(draw, model):
    if '--search' in model or draw.random() < 0.3:
        return False
    replicas, microbatches = model['--dp'], model['--dp'] * int(model['--microbatches'])
    ends = [0, *sorted(draw.sample(range(1, microbatches), replicas - 1)), microbatches]
    return ','.join(str(last - first) for first, last in zip(ends, ends[1:]))


def _absence(draw, model):
    replicas = model.get('--dp', 1)
    if replicas == 1 or model['--steps'] == 1:    # nothing is predicted for a step in which members change
        return 'none'
    step = draw.randrange(model['--steps'])
    returns = f'-{draw.randrange(step + 1, model["--steps"])}' if step + 1 < model['--steps'] and draw.random() < 0.7 else ''
    return f'{draw.randrange(replicas)}@{step}{returns}'


def _experts_among(draw, model):
    dp = model['--dp']
    return 1 if model['--tp'] > 1 else draw.choice([size for size in range(1, dp + 1) if dp % size == 0] + [dp])


def _experts_over_replicas(draw, model):
    replicas = model['--dp'] * model['--cp']
    return draw.choice([size for size in range(1, replicas + 1) if replicas % size == 0] + [replicas])


def _recompute(draw, model):
    return draw.choice(('selective', 'full') if model.get('--cp', 1) > 1 else ('none', 'selective', 'full'))


def _schedule_of_mesh(draw, model):
    if model['--zero'] > 1:
        return False    # 1F1B only
    words = ['gpipe', '1f1b', 'interleaved', 'breadth-first', 'zb-h1', 'zb-h2', 'zb-v', 'automatic']
    if int(model['--microbatches']) >= 2 * model['--pp']:
        words.append('dualpipe-v')
    return draw.choice([False, *words])


def _chunks_of_mesh(draw, model):
    return draw.choice((False, 2, 3)) if model.get('--schedule') in ('interleaved', 'breadth-first', 'zb-h1') else False


def _every(draw, model):
    return draw.choice([every for every in range(1, model['--steps'] + 1) if model['--steps'] % every == 0])


def _fragments(draw, model):
    most = model['--layers'] + 2
    return draw.choice([size for size in range(1, most + 1) if model['--every'] % size == 0])


def _pipedream(draw, model):
    model.pop('--tied', None)    # not with PipeDream
    return 'pipedream'


SHARED_LINKS = ('a100', 'h100', 'b200')    # clusters whose ranks share links, which takes threads
SWITCHES = ('h100', 'b200')    # of these, those whose switch can add, which the library's collectives use
FEW = (1, 2, 2, 3, 4, 5, 8)
FAMILIES = {
    'collectives': Family('lesson_01_collectives', {'': (2, 3, 4, 5, 6, 7, 8)}, {
        '--algorithm': lambda draw, model: draw.choice((
            'ring', 'naive', 'tree', 'recursive_doubling', 'rabenseifner', 'hierarchical', 'double_tree', 'rings', 'auto')),
        '--elements': lambda draw, model: int(10 ** draw.uniform(0, 5))}, trains=False),
    'data parallel': Family('lesson_02_data_parallel', {'dp': FEW}, {
        '--overlap': lambda draw, model: draw.choice(('all', 'none', 'bucket', 'overlap')), '--bucket': _bucket}),
    'ZeRO-1': Family('lesson_03_zero_1', {'dp': FEW}, {'--bucket': _bucket}),
    'ZeRO-2': Family('lesson_04_zero_2', {'dp': FEW}, {'--bucket': _bucket}),
    'ZeRO-3': Family('lesson_05_zero_3', {'dp': FEW}, {'--bucket': _bucket, '--prefetch': _prefetch}),
    'tensor parallel': Family('lesson_06_tensor_parallel', {'tp': FEW}),
    'sequence parallel': Family('lesson_07_sequence_parallel', {'tp': FEW}, {
        '--regather': lambda draw, model: draw.random() < 0.5}, sharded_sequence=True),
    'expert parallel': Family('lesson_12_expert_parallel', {'dp': FEW, 'tp': (1, 1, 2, 3)}, {
        '--experts-over': lambda draw, model: 'tp' if model['--tp'] > 1 else 'dp',
        '--ep': _experts_among,
        '--experts': lambda draw, model: draw.choice((120, 240)),    # any number of ranks divides it
        '--top-k': lambda draw, model: draw.randint(1, 4),
        '--capacity': lambda draw, model: draw.choice((0, 0, 0.1, 1, 1.25, 2)),
        '--balance': lambda draw, model: draw.choice((0, 0.01, 0.1)),
        '--balance-over': lambda draw, model: draw.choice(('microbatch', 'microbatch' if model['--capacity'] else 'batch'))}, by_data=('all_to_all', 'activations', 'communication')),
    'GPipe': Family('lesson_08_gpipe', {'pp': FEW}, {
        '--executor': lambda draw, model: draw.choice(('scheduled', 'scheduled', 'naive'))}, precisions=(), clips=True, sweeps=True),
    '1F1B': Family('lesson_09_1f1b', {'pp': FEW}, {
        '--compare': lambda draw, model: draw.randint(0, model['--steps'])}, precisions=(), clips=True),
    'interleaved': Family('lesson_10_interleaved', {'pp': FEW}, {
        '--chunks': lambda draw, model: draw.choice((False, 2, 3)),
        '--schedule': lambda draw, model: draw.choice((False, 'interleaved', 'breadth-first'))},
        precisions=(), clips=True, chunks=3),
    'zero bubble': Family('lesson_11_zero_bubble', {'pp': FEW}, {
        '--schedule': lambda draw, model: draw.choice((False, 'zb-h1', 'zb-h2', 'zb-v', 'automatic'))},
        precisions=(), clips=True, chunks=2),
    'ring attention': Family('lesson_13_ring_attention', {'cp': FEW}, {
        '--layout': lambda draw, model: draw.choice(('contiguous', 'zigzag')),
        '--method': lambda draw, model: draw.choice(('ring', 'ring', 'ulysses', 'gather'))}),
    'striped attention': Family('lesson_13_ring_attention', {'cp': FEW}, {
        '--layout': lambda draw, model: 'striped',
        '--method': lambda draw, model: draw.choice(('ring', 'gather'))}),
    'mixed precision': Family('lesson_14_mixed_precision', {'dp': (1, 2, 3, 4)}, {
        '--recompute': lambda draw, model: draw.choice(('none', 'selective', 'full')), '--bucket': _bucket},
        precisions=('f32', 'bf16', 'f16')),
    'unlike machines': Family('lesson_19_unlike_machines', {'dp': (1, 2, 2, 3), 'pp': (1, 2, 2, 3, 4)}, {
        '--search': lambda draw, model: draw.random() < 0.3 and model['--layers'] > 2,
        '--alone': lambda draw, model: draw.random() < 0.1 and model['--layers'] > 2,
        '--place': _place, '--shares': _shares, '--bucket': _bucket}, precisions=(), clips=True),
    '3D': Family('lesson_15_3d', {'dp': (1, 2, 2, 3, 4), 'pp': (1, 2, 2, 3), 'tp': (1, 2, 2)}, {
        '--zero': lambda draw, model: draw.randint(0, 3), '--shard': _shard, '--bucket': _bucket,
        '--sequence-parallel': lambda draw, model: draw.random() < 0.5, '--schedule': _schedule_of_mesh,
        '--chunks': _chunks_of_mesh}, clips=True, sharded_sequence=True, chunks=3),
    'all axes': Family('lesson_16_all_axes', {'dp': (1, 2, 2, 3), 'pp': (1, 1, 2), 'cp': (1, 2, 2, 3), 'tp': (1, 2, 2)}, {
        '--layout': lambda draw, model: draw.choice(('contiguous', 'zigzag')),
        '--method': lambda draw, model: draw.choice(('ring', 'ring', 'ulysses', 'gather')), '--recompute': _recompute,
        '--experts': lambda draw, model: draw.choice((0, 36, 72)), '--ep': _experts_over_replicas,
        '--top-k': lambda draw, model: draw.randint(1, 4),
        '--capacity': lambda draw, model: draw.choice((0, 0, 0.5, 1, 1.25)),
        '--zero': lambda draw, model: 0 if model['--experts'] else draw.randint(0, 3), '--shard': _shard, '--bucket': _bucket,
        '--sequence-parallel': lambda draw, model: draw.choice(('on', 'on', 'off'))}, clips=True, sharded_sequence=True,
        by_data=('all_to_all', 'activations', 'communication')),
    'when ranks die': Family('lesson_20_when_ranks_die', {'dp': (1, 2, 2, 3, 4), 'pp': (1,)}, {
        '--faults': _absence, '--how': lambda draw, model: 'planned', '--interval': lambda draw, model: draw.randint(1, 3), '--bucket': _bucket}, precisions=(), replays=False),
    'choosing': Family('lesson_17_choosing', {'dp': (1, 2, 2), 'pp': (1, 2, 2, 3), 'cp': (1, 1, 2), 'tp': (1, 1, 2)}, {
        '--layout': lambda draw, model: draw.choice(('contiguous', 'zigzag')),
        '--method': lambda draw, model: draw.choice(('ring', 'ring', 'ulysses', 'gather')), '--recompute': _recompute,
        '--experts': lambda draw, model: draw.choice((0, 0, 36)), '--ep': _experts_over_replicas,
        '--top-k': lambda draw, model: draw.randint(1, 4),
        '--capacity': lambda draw, model: draw.choice((0, 0, 0.5, 1, 1.25)) if model['--experts'] else False,
        '--zero': lambda draw, model: 0 if model['--experts'] else draw.choice((0, 1, 1, 2, 3)), '--shard': _shard,
        '--bucket': _bucket, '--sequence-parallel': lambda draw, model: draw.choice(('on', 'off')),
        '--schedule': _schedule_of_mesh, '--chunks': _chunks_of_mesh}, clips=True, sharded_sequence=True, chunks=3,
        by_data=('all_to_all', 'activations', 'communication')),
    'DiLoCo': Family('lesson_18_low_communication', {'dp': FEW}, {
        '--method': lambda draw, model: draw.choice(('data-parallel', 'diloco', 'diloco')), '--every': _every,
        '--inner': lambda draw, model: draw.choice(('adamw', 'adamw', 'sgd')),
        '--outer-rate': lambda draw, model: draw.choice((0.1, 0.7, 1)),
        '--outer-momentum': lambda draw, model: draw.choice((0, 0.9))}, precisions=(), keeps='--export'),
    'streaming DiLoCo': Family('lesson_18_low_communication', {'dp': FEW}, {
        '--method': lambda draw, model: 'streaming', '--every': _every, '--fragments': _fragments,
        '--delay': lambda draw, model: draw.randint(0, model['--every'] - 1),
        '--mix': lambda draw, model: draw.choice((0, 0.25, 0.5))}, precisions=(), keeps='--export'),
    'PipeDream': Family('lesson_18_low_communication', {'dp': (1,), 'pp': FEW}, {'--method': _pipedream}, precisions=(),
        keeps='--export'),
}


MOST_BYTES_OF_EXPERTS = 2**30
REPLAYED = [kind for kind, family in FAMILIES.items() if family.replays]


def draw_configuration(kind, seed, launches, model=None):
    """Returns the possible configuration that `kind` and `seed` determine. `model` is that of --model if it is given."""
    draw = random.Random(f'{kind} {seed}')
    family = FAMILIES[kind]
    axes = {axis: draw.choice(sizes) for axis, sizes in family.axes.items()}
    flags = {'--seed': draw.randint(1, 1000), '--steps': draw.randint(1, 3)}
    if family.trains:
        _draw_model(draw, family, axes, flags)
    if len(axes) > 1:
        flags.update({f'--{axis}': size for axis, size in axes.items()})
    for flag, value in family.flags.items():
        drawn = value(draw, flags)
        if drawn is not False:
            flags[flag] = None if drawn is True else drawn
    configuration = Configuration(family.lesson, flags, axes, by_data=family.by_data, keeps=family.keeps)
    flags['--ranks'] = configuration.ranks
    flags['--launch'] = draw.choice(launches)
    flags['--clock'] = draw.choice(('wall', 'modelled'))
    if flags['--clock'] == 'modelled':
        real = SHARED_LINKS if flags['--launch'] == 'threads' else ()
        flags['--cluster'] = draw.choice(('free', 'classroom', 'ethernet', 'mixed', *real))
    counts_own = '--algorithm' in flags or flags.get('--precision', 'f32') != 'f32'    # MPI has no 16-bit floats
    if flags['--launch'] == 'mpi' and flags['--clock'] == 'wall' and not counts_own and draw.random() < 0.3:
        flags['--comm'] = 'native'
    if flags['--clock'] == 'wall':
        flags.pop('--search', None)
        flags.pop('--alone', None)
    if 'pp' in axes and draw.random() < 0.5 and '--search' not in flags:
        flags['--split'] = _split(draw, flags['--layers'], axes['pp'] * _chunks(family, flags))
    if flags['--clock'] == 'modelled' and draw.random() < 0.2:
        flags['--slow'] = f'{draw.randrange(configuration.ranks)}={draw.uniform(0.5, 3):.2g}'
    if family.trains:
        _make_llama(random.Random(f'model {kind} {seed}'), axes, flags, model)
    for width in (8, 4, 2):
        if bytes_of_experts(configuration) > MOST_BYTES_OF_EXPERTS:
            flags['--hidden'] = width * flags['--heads']
            if '--mlp-width' in flags:
                flags['--mlp-width'] = axes.get('tp', 1) * max(1, flags['--hidden'] // axes.get('tp', 1))
    return configuration


def bytes_of_experts(configuration):
    """Returns the bytes of all experts' parameters, gradients and moments, in f32 and on all ranks together."""
    flags, axes = configuration.flags, configuration.axes
    hidden = flags.get('--hidden', 0)
    width = 3 * flags['--mlp-width'] if '--mlp-width' in flags else 2 * 4 * hidden    # of all matrices
    copies = axes.get('dp', 1) * axes.get('cp', 1) // flags.get('--ep', 1)
    return 16 * flags.get('--layers', 0) * flags.get('--experts', 0) * hidden * width * copies


def _make_llama(draw, axes, flags, model):
    """Replaces the GPT-2 by a Llama of the same size, in some of the configurations or as `model` says."""
    drawn = draw.choice(('gpt2', 'gpt2', 'gpt2', 'llama', 'llama'))
    if (model or drawn) != 'llama':
        return
    tp, heads = axes.get('tp', 1), flags['--heads']
    divided = tp * (axes.get('cp', 1) if flags.get('--method') == 'ulysses' else 1)
    groups = [size for size in range(1, heads // divided + 1) if heads // divided % size == 0]
    flags['--model'] = 'llama'
    flags['--hidden'] += flags['--hidden'] // heads % 2 * heads    # heads of an even width
    flags['--kv-heads'] = divided * draw.choice(groups)
    flags['--mlp-width'] = tp * draw.randint(1, 3 * flags['--hidden'] // tp + 1)
    if flags.get('--recompute') != 'none' and draw.random() < 0.5:
        flags['--documents'] = draw.choice((1, 3, 8, 20, 100))
        if '--layout' in flags and flags.get('--method') != 'ulysses' and draw.random() < 0.5:
            flags['--layout'] = 'balanced'


def _chunks(family, flags):
    """Returns the stages per rank that a pipeline has with these flags."""
    two = ('interleaved', 'breadth-first', 'zb-v', 'dualpipe-v')    # have at least two
    least = 2 if flags.get('--schedule', 'interleaved' if family is FAMILIES['interleaved'] else '') in two else 1
    return flags.get('--chunks', least)


def _split(draw, layers, stages):
    """Returns a random division of the blocks into stages."""
    ends = [0, *sorted(draw.sample(range(1, layers), stages - 1)), layers]
    return ','.join(str(last - first) for first, last in zip(ends, ends[1:]))


def _draw_model(draw, family, axes, flags):
    tp, pp, dp = (axes.get(axis, 1) for axis in ('tp', 'pp', 'dp'))
    cp = axes.get('cp', 1)    # Ulysses divides the heads, zigzag the sequence into 2 cp chunks
    heads = tp * cp * draw.choice((1, 1, 2, 3))
    microbatches = draw.sample((1, 2, 3, 4, 6), 2 if family.sweeps and draw.random() < 0.3 else 1)
    batch = dp * draw.randint(1, 3)
    for m in microbatches:
        batch *= m
    sequence = draw.randint(2, 40)
    if family.sharded_sequence:
        sequence = tp * draw.randint(1, 8)
    if 'cp' in axes:
        sequence = 2 * cp * (tp if family.sharded_sequence else 1) * draw.randint(1, 8)
    flags.update({
        '--layers': pp * family.chunks + draw.randint(0, 4),
        '--heads': heads,
        '--hidden': heads * draw.choice((2, 4, 5, 8, 16)),
        '--sequence': sequence,
        '--vocab': draw.choice((256, 256, 257, 300, 391)),
        '--microbatches': ','.join(map(str, microbatches)),
        '--batch': batch})
    if family.precisions:
        flags['--precision'] = draw.choice(family.precisions)
    flags['--steps'] = max(flags['--steps'], len(microbatches))
    if draw.random() < 0.4:
        flags['--tied'] = None
    if family.clips and draw.random() < 0.4:
        flags['--clip'] = draw.choice((0.1, 1, 10))


def make_impossible(configuration, seed):
    """Changes one value so that the configuration is impossible."""
    draw = random.Random(f'impossible {seed}')
    flags, axes = configuration.flags, configuration.axes
    ways = {'--heads': flags['--hidden'] + 1, '--vocab': draw.randint(1, 255), '--steps': 0, '--sequence': 0,
            '--ranks': 0, '--microbatches': flags['--batch'] + 1, '--layers': 0, '--batch': 0, '--cluster': 'al00'}
    if '--model' in flags:
        ways['--heads'] = flags['--hidden'] + 1
        ways['--kv-heads'] = flags['--heads'] + 1
        ways['--model'] = 'gpt2'    # has no --kv-heads
    if '--precision' in flags:
        ways['--precision'] = 'fp32'
    if axes.get('dp', 1) > 1:
        ways['--batch'] = flags['--batch'] + draw.randint(1, axes['dp'] - 1)
    if axes.get('tp', 1) > 1:
        ways['--heads'] = flags['--heads'] + draw.randint(1, axes['tp'] - 1)
        if '--regather' in flags or flags.get('--sequence-parallel', 'off') in (None, 'on'):
            ways['--sequence'] = flags['--sequence'] + draw.randint(1, axes['tp'] - 1)
    if axes.get('cp', 1) > 1:
        ways['--sequence'] = flags['--sequence'] + draw.randint(1, axes['cp'] - 1)
    if flags.get('--experts', 0) > 0:
        ways['--top-k'] = flags['--experts'] + 1
        if flags['--ep'] > 1 or flags.get('--experts-over') == 'tp':
            ways['--experts'] = flags['--experts'] + 1    # 37, 73, 121 and 241 have no small divisors
    if axes.get('pp', 1) > 1:
        ways['--layers'] = draw.randint(1, axes['pp'] - 1)
    if '--split' in flags:
        blocks = flags['--split'].split(',')
        ways['--split'] = ','.join(draw.choice(([*blocks, '1'], [*blocks[:-1], '0'], [*blocks[:-1], str(int(blocks[-1]) + 1)])))
    if len(axes) > 1 and 'tp' in axes:
        ways['--tp'] = flags['--ranks'] + 1
    if '--zero' in flags:
        ways['--zero'] = 4
        if flags['--zero'] > 0 and axes['dp'] > 1:
            ways['--shard'] = axes['dp'] * axes.get('cp', 1) + 1
    configuration.impossible = draw.choice(sorted(ways))
    if configuration.impossible == '--ranks':
        flags.pop('--slow', None)    # may name a rank that the recommended number lacks
    flags[configuration.impossible] = ways[configuration.impossible]
    return configuration
