"""Random clusters for runs on the modelled clock."""

import json
import random


def draw_cluster(draw, file, in_switch=False, shared=False, library=True, groups=False):
    """Writes a cluster file: nodes of a few ranks, any rates, sometimes links with segments or protocols, and measured
    rates; or one node whose switch can add. With `shared`, messages share ports, cards, uplinks or the links to a spine.
    With `library`, collectives may choose their algorithm by cost, and so add in another order on another cluster. With `groups`, some ranks may have other devices.
    """
    def link():
        if draw.random() < 0.2:
            protocols = [{'name': f'protocol {i}', 'latency_seconds': 10 ** draw.uniform(-10, -5),
                          'bandwidth': 10 ** draw.uniform(8, 12)} for i in range(draw.randint(1, 3))]
            if len(protocols) > 1:
                protocols[0]['up_to_bytes'] = draw.randint(100, 100000)
            return {'protocols': protocols}
        one = {'latency_seconds': 10 ** draw.uniform(-10, -5), 'bandwidth': draw.choice([None, 10 ** draw.uniform(8, 12)])}
        if draw.random() < 0.3:
            one['segments'] = [{'from_bytes': draw.randint(100, 100000), 'latency_seconds': 10 ** draw.uniform(-10, -5),
                                'bandwidth': 10 ** draw.uniform(8, 12)}]
        return one

    cluster = {'name': 'random', 'nodes': 64, 'ranks_per_node': draw.choice([1, 2, 3, 4, 64]),
               'flops': 10 ** draw.uniform(10, 14), 'memory_bandwidth': draw.choice([None, 10 ** draw.uniform(10, 13)]),
               'launch_seconds': draw.choice([0, 10 ** draw.uniform(-10, -5)]), 'within': link(), 'between': link()}
    if in_switch:
        cluster |= {'ranks_per_node': 64, 'in_switch': link()}
    if draw.random() < 0.3:
        def table():
            return {'m': [16, 256], 'n': [64], 'k': [16, 128], 'flops': [10 ** draw.uniform(9, 13) for _ in range(4)]}
        cluster['rates'] = {'products': table(), 'attention': table(), 'memory_share': draw.uniform(0.1, 1)}
    if shared:
        def bandwidth():
            return 10 ** draw.uniform(8, 11)
        cluster['shared'] = {}
        if draw.random() < 0.7:
            cluster['shared']['port'] = bandwidth()
        if draw.random() < 0.7:
            cards = draw.randint(1, 4)
            of_rank = {'of_rank': [draw.randrange(cards) for _ in range(cluster['ranks_per_node'])]}
            cluster['shared']['cards'] = {'per_node': cards, 'bandwidth': bandwidth(), **(of_rank if draw.random() < 0.5 else {})}
        if draw.random() < 0.4:
            cluster['shared']['uplink'] = bandwidth()
        if 'cards' in cluster['shared'] and draw.random() < 0.5:
            cluster['shared']['leaves'] = {'nodes': draw.randint(1, 3), 'by_rail': draw.random() < 0.5,
                                           'oversubscription': draw.choice([1, 2, 4])}
        if draw.random() < 0.4:
            cluster['shared']['kernels_beside_collectives'] = draw.uniform(1, 3)
    if draw.random() < 0.3 and library:
        cluster['collectives'] = 'library'
    if groups:
        _add_groups(random.Random(json.dumps(cluster)), cluster)
    file.write_text(json.dumps(cluster))
    return file


def _add_groups(draw, cluster):
    """Gives some of the first ranks, or whole nodes, other devices, in half of the clusters. They may differ in a single
    value, in rates where the others run at the peak, or the other way around."""
    ranks = list(range(min(16, 64 * cluster['ranks_per_node'])))
    draw.shuffle(ranks)
    groups = []
    for i in range(draw.choice([0, 0, 1, 2])):
        taken = {rank for group in groups for rank in group['ranks']}
        chosen = [rank for rank in ranks if rank not in taken][:draw.randint(1, 5)]
        if draw.random() < 0.4:
            nodes = {rank // cluster['ranks_per_node'] for rank in chosen}
            chosen = [rank for rank in ranks if rank not in taken and rank // cluster['ranks_per_node'] in nodes]
        if not chosen:
            continue
        group = {'name': f'group {i}', 'ranks': chosen}
        values = {'flops': 10 ** draw.uniform(10, 14), 'memory_bandwidth': draw.choice([None, 10 ** draw.uniform(10, 13)]),
                  'launch_seconds': draw.choice([0, 10 ** draw.uniform(-10, -5)]), 'memory': draw.choice([None, 10 ** 9]),
                  'rates': draw.choice([None, {'products': {'m': [64], 'n': [64], 'k': [64], 'flops': [10 ** draw.uniform(9, 13)]},
                                               'attention': {'m': [64], 'n': [64], 'k': [8], 'flops': [10 ** draw.uniform(9, 13)]},
                                               'memory_share': draw.uniform(0.1, 1)}])}
        group |= {key: values[key] for key in values if draw.random() < 0.5}
        groups.append(group)
    if groups:
        cluster['groups'] = groups
