"""What a published run and a modelled one must have in common before their figures are set side by side.

A setup is a dictionary from facets, the keys of RULES, to what a run has. The flags of a modelled run match as many
facets as they can. For what remains, a rule lists the pairs that may be compared, with the reason, which the page
prints; any other difference refuses the row.
"""

import dataclasses

ANY = object()  # as the modelled side of a pair


@dataclasses.dataclass(frozen=True)
class Rule:
    because: str  # why a row is refused
    # (published, modelled): why the row may be compared all the same
    listed: dict = dataclasses.field(default_factory=dict)


RULES = {
    'machine': Rule('rates of that machine are not known'),
    'precision': Rule('no cluster has rates of such products',
                      {('fp16', 'bf16'): 'the same rates on these cards'}),
    'recomputation': Rule('a backward pass that repeats other parts has other times'),
    'attention': Rule('the masked half of the scores is half of the work',
                      {('in full', 'at a fitted rate'): 'the rate of the cluster is fitted to kernels that compute the '
                                                        'scores in full'}),
    'vocabulary': Rule('the head has another size'),
    'sums of gradients': Rule(
        'the share that overlaps is not known',
        {('after the backward pass', 'beside it'): 'only the sum of the last bucket, of at least 256 MiB, comes after '
                                                   'it: too fast by at most the time of the other sums',
         ('by FSDP', 'by ZeRO-1'): 'the same bytes; FSDP keeps the gathered parameters from forward to backward '
                                   'there'}),
    'tensor-parallel messages': Rule('products in pieces that overlap with their messages are not modelled'),
    'messages between stages': Rule(
        'other bytes cross the network',
        {('1/t from each rank, gathered in the node', 'whole, from each rank'): 'more bytes cross the network here'}),
    'kernels': Rule('such kernels are not modelled',
                    {('fused, Megatron', 'as in Megatron-DeepSpeed'): 'the constants of attention and of launches are '
                                                                      'fitted to the latter',
                     ('compiled', 'flash attention'): 'element-wise kernels are fused in both',
                     ('fused, flash attention', 'flash attention'): 'the same kind'}),
    'schedule': Rule('another order of the microbatches has another bubble',
                     {('interleaved, chunks not given', ANY): 'assumed; the columns show how much depends on it'}),
    'blocks per stage': Rule('other stages are the slowest',
                             {('one less on the first and the last', 'as even as possible'):
                              'the embedding and the head are not balanced here'}),
    'context parallelism': Rule('other messages', {('gathers keys and values', 'ring'): 'a ring passes them on step '
                                                                                       'by step, beside attention'}),
}


@dataclasses.dataclass(frozen=True)
class Difference:
    facet: str
    published: object
    modelled: object
    refuses: bool
    why: str


def differences(published, modelled):
    """Returns the differences between two setups, in the order of RULES. A facet that only one of them has, or that has
    no rule, is a mistake in the page."""
    if published.keys() != modelled.keys() or not published.keys() <= RULES.keys():
        raise ValueError(f'facets {sorted(published)} and {sorted(modelled)}; rules for {sorted(RULES)}')
    found = []
    for facet, rule in RULES.items():
        pair = published.get(facet), modelled.get(facet)
        if pair[0] != pair[1]:
            why = rule.listed.get(pair, rule.listed.get((pair[0], ANY)))
            found.append(Difference(facet, *pair, why is None, why or rule.because))
    return found


# What the presets model, whatever the flags.
MODELLED = {
    'a100': {'machine': 'A100 80 GB', 'attention': 'at a fitted rate', 'kernels': 'as in Megatron-DeepSpeed'},
    'h100': {'machine': 'H100 80 GB, 700 W', 'attention': 'half', 'kernels': 'flash attention'},
}


def modelled_setup(cluster, flags, facets):
    """Returns the setup of a run of the planner, for these facets. `flags` are those of planner.py, complete."""
    schedule = {'1f1b': '1F1B', 'interleaved': f"interleaved, {flags.get('chunks')} chunks"}
    setup = {**MODELLED[cluster],
             'precision': flags['precision'],
             'recomputation': flags['recompute'],
             'vocabulary': flags['vocab'],
             'sums of gradients': 'none' if flags['dp'] == 1 else 'by ZeRO-1' if flags['zero'] == 1 else 'beside it',
             'tensor-parallel messages': 'none' if flags['tp'] == 1 else 'blocking',
             'messages between stages': 'none' if flags['pp'] == 1 else 'whole, from each rank'
                                        if flags['sequence-parallel'] == 'off' else '1/t from each rank',
             'schedule': 'no pipeline' if flags['pp'] == 1 else schedule[flags['schedule']],
             'blocks per stage': 'as even as possible',
             'context parallelism': 'none' if flags['cp'] == 1 else 'ring'}
    return {facet: setup[facet] for facet in facets}
