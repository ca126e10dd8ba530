#!/usr/bin/env python3
"""Checks what lessons say about the peak of their memory: kinds of tensors, and layers.

  test_peaks.py --build DIR [--count N] [--seed N]

First, small runs whose peaks are worked out here from the formulas of the layers. Then N random configurations
(tests/fuzz/configurations.py): at every memory sample of the trace, the parts of each category add up to its bytes; at
the peak of each phase, they add up to the peak that the allocator has counted, and no category exceeds its own peak.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parents[1] / 'fuzz'))
from configurations import FAMILIES, draw_configuration  # noqa: E402

f32 = 4    # bytes


class Model:
    """The bytes of a GPT-2's tensors, for microbatches of b sequences. Keys are (category, kind, layer)."""

    def __init__(self, layers, hidden, heads, sequence, vocabulary, b):
        self.layers, self.h, self.a, self.s, self.v, self.b = layers, hidden, heads, sequence, vocabulary, b
        self.u = b * sequence * hidden * f32    # one activation (b, s, h)

    def flags(self, batch, microbatches):
        return (f'--layers {self.layers} --hidden {self.h} --heads {self.a} --sequence {self.s} --vocab {self.v} '
                f'--batch {batch} --microbatches {microbatches}')

    def of_layer(self, layer, probabilities=False):
        """What a block keeps of one microbatch for its backward pass."""
        rows = self.b * self.s
        kept = {'layernorm input': 2 * self.u, 'layernorm output': 2 * self.u, 'layernorm statistics': 4 * rows * f32,
                'qkv': 3 * self.u, 'attention output': self.u, 'GELU input': 4 * self.u, 'GELU output': 4 * self.u}
        if probabilities:
            kept['attention probabilities'] = self.a * rows * self.s * f32
        else:
            kept['attention log-sum-exps'] = self.a * rows * f32
        return Counter({('activations', kind, layer): size for kind, size in kept.items()})

    def of_head(self):
        rows = self.b * self.s
        return Counter({('activations', 'layernorm input', -1): self.u, ('activations', 'layernorm output', -1): self.u,
                        ('activations', 'layernorm statistics', -1): 2 * rows * f32,
                        ('activations', 'logits', -1): rows * self.v * f32})

    def losses(self):
        return Counter({('activations', 'losses', -1): 2 * self.b * self.s * f32})

    def gradient(self, layer, width=1):
        return Counter({('activations', 'gradients of activations', layer): width * self.u})

    def weights(self, category, layers, embedding=True, head=True):
        h, parts = self.h, Counter()
        for layer in layers:
            parts += Counter({(category, kind, layer): f32 * size for kind, size in {
                'layernorms': 4 * h, 'qkv': 3 * h * h + 3 * h, 'attention projection': h * h + h,
                'MLP, h to 4h': 4 * h * h + 4 * h, 'MLP, 4h to h': 4 * h * h + h}.items()})
        if embedding:
            parts += Counter({(category, 'token table', -1): f32 * self.v * h,
                              (category, 'position table', -1): f32 * self.s * h})
        if head:
            parts += Counter({(category, 'layernorms', -1): f32 * 2 * h, (category, 'head', -1): f32 * self.v * h})
        return parts

    def moments(self, layers, embedding=True, head=True, shards=1):
        parts = Counter()
        for (_, _, layer), size in self.weights('optimizer', layers, embedding, head).items():
            parts['optimizer', 'Adam moments', layer] += 2 * size // shards
        return parts

    def count(self):
        return sum(self.weights('', range(self.layers)).values()) // f32


def times(n, parts):
    return Counter({part: n * size for part, size in parts.items()})


def run(build, lesson, flags, folder):
    """Runs a lesson; returns its report."""
    file = folder.with_suffix('.json')
    done = subprocess.run([build / 'lessons' / lesson, *flags, '--quiet', '--trace', folder, '--report', file],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f'{lesson} {" ".join(flags)}: exit code {done.returncode}: {done.stderr}')
    return json.loads(file.read_text())


def peak_of(report, rank):
    """The parts at the peak of a rank's last phase."""
    entry = [entry for entry in report['memory'] if entry['rank'] == rank][-1]['memory_at_peak']
    parts = Counter()
    for kind in entry['kinds']:
        for layer, size in kind['layers'].items():
            parts[kind['category'], kind['kind'], int(layer)] += size
        parts[kind['category'], kind['kind'], -1] += kind['bytes'] - sum(kind['layers'].values())
    return +parts


def compare(what, seen, expected, without=()):
    expected = +expected
    seen = Counter({part: size for part, size in seen.items() if part[0] not in without})
    wrong = [f'{part}: {seen[part]} bytes instead of {expected[part]}'
             for part in sorted({*seen, *expected}) if seen[part] != expected[part]]
    return [f'{what}: {line}' for line in wrong]


# Each of these peaks is at the backward pass of the head's matrix product: what the forward pass keeps, and the gradient
# of its input on top; the losses are freed when the gradient of the logits overwrites the logits. (The next candidate is
# the last block, with 5 b s h elements of gradients, but without logits.) h is a multiple of 64, so that flat buckets
# need no padding between tensors.

def one_device(build, scratch):
    """One device, which keeps attention's probabilities; the gradients are in one flat bucket."""
    model = Model(layers=3, hidden=64, heads=4, sequence=16, vocabulary=256, b=2)
    report = run(build, 'lesson_14_mixed_precision', ['--precision', 'f32', '--recompute', 'none', '--steps', '2',
                                                      *model.flags(4, 2).split()], scratch)
    expected = (model.weights('parameters', range(3)) + model.moments(range(3)) + model.of_head() + model.gradient(-1) +
                Counter({('gradients', 'buckets', -1): f32 * model.count()}))
    for layer in range(3):
        expected += model.of_layer(layer, probabilities=True)
    return compare('one device', peak_of(report, 0), expected)


def gpipe(build, scratch):
    """Two stages of GPipe, which keep all m microbatches. Stage 0's peak is in its last block: the gradient that it
    received, and the one of the MLP's inner activation, 4 h wide."""
    m = 4
    model = Model(layers=4, hidden=64, heads=4, sequence=16, vocabulary=256, b=2)
    report = run(build, 'lesson_08_gpipe', ['--ranks', '2', '--steps', '2', *model.flags(2 * m, m).split()], scratch)
    last, first = model.of_head(), Counter()
    for layer in (0, 1):
        first += model.of_layer(layer)
        last += model.of_layer(layer + 2)
    states = [sum((model.weights(category, layers, embedding=stage == 0, head=stage == 1)
                   for category in ('parameters', 'gradients')), model.moments(layers, stage == 0, stage == 1))
              for stage, layers in enumerate(((0, 1), (2, 3)))]
    return [*compare('GPipe, stage 1', peak_of(report, 1), states[1] + times(m, last) + times(m - 1, model.losses()) +
                     model.gradient(-1)),
            *compare('GPipe, stage 0', peak_of(report, 0), states[0] + times(m, first) + model.gradient(-1) +
                     model.gradient(1, width=4), without=['communication'])]


def zero_3(build, scratch):
    """ZeRO-3 with a single bucket: shards of everything, and all parameters and gradients in full."""
    model = Model(layers=2, hidden=64, heads=4, sequence=16, vocabulary=256, b=2)
    report = run(build, 'lesson_05_zero_3', ['--ranks', '2', '--steps', '2', '--prefetch', '0', '--bucket', '100000000',
                                             *model.flags(4, 1).split()], scratch)
    count = model.count()
    assert count % 2 == 0
    expected = Counter({('parameters', 'shards', -1): f32 * count // 2, ('parameters', 'gathered buckets', -1): f32 * count,
                        ('gradients', 'shards', -1): f32 * count // 2, ('gradients', 'full', -1): f32 * count})
    expected += model.of_head() + model.gradient(-1) + model.of_layer(0) + model.of_layer(1)
    problems = []
    moments = 0
    for rank in (0, 1):    # a shard ends within a layer, so only both ranks' moments together are known by layer
        seen = peak_of(report, rank)
        problems += compare(f'ZeRO-3, rank {rank}', seen, expected, without=['optimizer'])
        moments += sum(size for part, size in seen.items() if part[:2] == ('optimizer', 'Adam moments'))
    if moments != 2 * f32 * count:
        problems.append(f'ZeRO-3: {moments} bytes of moments instead of {2 * f32 * count}')
    return problems


def check_sums(build, configuration, scratch, parity):
    report = run(build, configuration.lesson, [*configuration.words(), *parity], scratch)
    problems = []
    for entry in report['memory']:
        where = f'{configuration}: rank {entry["rank"]}, phase {entry["phase"]!r}'
        peak = entry.get('memory_at_peak')
        if peak is None:
            problems.append(f'{where}: nothing about the peak')
            continue
        sums = Counter()
        for kind in peak['kinds']:
            sums[kind['category']] += kind['bytes']
            if kind['bytes'] <= 0 or sum(kind['layers'].values()) > kind['bytes']:
                problems.append(f'{where}: {kind}')
        if sum(sums.values()) != entry['peak_total'] or peak['total'] != entry['peak_total']:
            problems.append(f'{where}: parts of {sum(sums.values())} bytes for a peak of {entry["peak_total"]}')
        problems += [f'{where}: {size} bytes of {category} at the peak, and at most {entry["peak"][category]} ever'
                     for category, size in sums.items() if size > entry['peak'][category]]
    for file in scratch.glob('rank*.json'):
        problems += check_samples(file, configuration)
    return problems


def check_samples(file, configuration):
    parts, now, states, samples = [], {}, [], 0
    for line in file.read_text().splitlines():
        if '"memory' not in line:
            continue
        event = json.loads(line.rstrip(','))
        if event['name'] == 'memory state':
            args = event['args']
            parts += args['parts']
            now = {**now, **dict(zip(args['bytes'][::2], args['bytes'][1::2]))}
            states.append(now)
        elif event['name'] == 'memory':
            samples += 1
            sums = Counter()
            for part, size in states[event['state']].items():
                sums[parts[part][0]] += size
            if +sums != +Counter(event['args']):
                return [f'{configuration}: {file.name}: {+sums} for {event}']
    return [] if samples > 0 else [f'{configuration}: {file.name} has no samples']


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--build', type=Path, required=True)
    parser.add_argument('--count', type=int, default=30)
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args()
    problems = []
    with tempfile.TemporaryDirectory(prefix='lockstep-peaks-') as scratch:
        for number, check in enumerate((one_device, gpipe, zero_3)):
            problems += check(options.build, Path(scratch) / f'run{number}')
        kinds = list(FAMILIES)
        for number in range(options.count):
            drawn = draw_configuration(kinds[number % len(kinds)], f'{options.seed}.{number}', ('threads',))
            parity = ['--parity', 'off'] if FAMILIES[kinds[number % len(kinds)]].trains else []
            problems += check_sums(options.build, drawn, Path(scratch) / f'drawn{number}', parity)
    print('\n'.join([*problems, f'3 peaks by hand and {options.count} random configurations, {len(problems)} problems']))
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
