#!/usr/bin/env python3
"""Fits the links of measured machines to all-reduces, and writes clusters/*.json.

    tests/accuracy/fit_all_reduce.py [--check]

Prints each machine's constants and which of them are fitted: at most six, to the six sizes that are marked as fitting
below, or, for four nodes, to the sizes up to 256 MiB. With --check, compares the files instead of writing them, and
exits with 1 if they differ. Source of the measured bandwidths: stas00/ml-engineering, network/README.md (August 2026);
see measured_all_reduce.csv.
"""

import argparse
import csv
import json
import pathlib
import sys

sys.dont_write_bytecode = True
from least_squares import fit  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
FITTING = (32 * KIB, MIB, 8 * MIB, 32 * MIB, 256 * MIB, 16 * GIB)

# The ring's low-latency protocol serves arrays up to this size on 8 GPUs; above, the switch adds. Published for the
# H200 (NCCL 2.27.7, the same source), and assumed for the B200, which is measured with the same library.
LARGEST_LOW_LATENCY = MIB
# A hop on NVLink in a ring takes 0.6 µs with the low-latency protocol and 3.4 µs with the simple one (NCCL,
# src/graph/tuning.cc).
SIMPLE_LATER = 3.4e-6 - 0.6e-6
# Over the network, 4 µs with the 128-byte protocol and 14 µs with the simple one (the same table).
SIMPLE_LATER_BETWEEN = 14 - 4
RANKS = 8   # of a node


def measured(gpu, nodes):
    """Returns the published time in seconds by the bytes of the array."""
    with open(FOLDER / 'measured_all_reduce.csv', newline='') as file:
        rows = [row for row in csv.DictReader(file) if row['gpu'] == gpu and int(row['nodes']) == nodes]
    return {int(row['bytes']): time_of(int(row['bytes']), int(row['ranks']), float(row['bus_gb_per_s']))
            for row in rows}


def time_of(size, ranks, bus_gb_per_s):
    return size * 2 * (ranks - 1) / ranks / (1e9 * bus_gb_per_s)


def bus_gb_per_s(size, ranks, seconds):
    return size * 2 * (ranks - 1) / ranks / seconds / 1e9


def fits(gpu, nodes, size):
    """Returns whether the row with this size is used for fitting."""
    return size <= 256 * MIB if nodes > 1 else size in FITTING


def algorithm(gpu, nodes, size):
    """Returns the algorithm that NCCL uses."""
    if nodes > 1:
        return 'hierarchical'
    return 'ring' if gpu == 'A100' or size <= LARGEST_LOW_LATENCY else 'in_switch'


def message(protocols, size):
    """Returns the time of a message: that of the cheapest protocol, as Link::at (core/time/cluster.h)."""
    return min(each['latency_seconds'] + size / each['bandwidth'] for each in protocols
               if size <= each.get('up_to_bytes', size))


def protocol(name, latency_seconds, bandwidth, up_to_bytes=None):
    """Returns a protocol as cluster files have it, with four digits."""
    one = {'name': name, 'latency_seconds': float(f'{latency_seconds:.3e}'), 'bandwidth': float(f'{bandwidth:.3e}')}
    return {**one, 'up_to_bytes': up_to_bytes} if up_to_bytes else one


def ring(protocols, size):
    return 2 * (RANKS - 1) * message(protocols, size / RANKS)


# The constants of a fit are latencies in µs and bandwidths in GB/s, in pairs.
def pairs(constants, names):
    return [protocol(name, 1e-6 * latency, 1e9 * bandwidth)
            for name, latency, bandwidth in zip(names, constants[::2], constants[1::2])]


def exact(constants):
    """Like pairs, unrounded, for the search."""
    return [{'latency_seconds': 1e-6 * latency, 'bandwidth': 1e9 * bandwidth}
            for latency, bandwidth in zip(constants[::2], constants[1::2])]


def chosen(gpu, nodes, algorithms):
    rows = measured(gpu, nodes)
    return {size: time for size, time in rows.items()
            if fits(gpu, nodes, size) and algorithm(gpu, nodes, size) in algorithms}


def a100():
    """A ring with three protocols: six constants."""
    found = fit(lambda constants, size: ring(exact(constants), size), chosen('A100', 1, {'ring'}),
                (3, 25, 6.5, 180, 20, 230))
    return {'within': {'protocols': pairs(found, ('low latency', '128 bytes', 'simple'))}}


def with_switch(gpu, simple_bandwidth):
    """A low-latency ring, and two protocols of the switch: six constants.

    Between the largest array of the ring and the smallest fitted one of the switch, a third protocol of the switch
    continues the ring: a library changes the algorithm where it expects both to take about the same time.
    """
    low = fit(lambda constants, size: ring(exact(constants), size), chosen(gpu, 1, {'ring'}), (3, 300))
    switch = fit(lambda constants, size: message(exact(constants), size), chosen(gpu, 1, {'in_switch'}),
                 (60, 200, 100, 300))
    first, second = LARGEST_LOW_LATENCY, min(chosen(gpu, 1, {'in_switch'}))
    start, end = ring(exact(low), first), message(exact(switch), second)
    slope = (end - start) / (second - first)
    joined = (1e6 * (start - slope * first), 1e-9 / slope)
    return {'within': {'protocols': [{**pairs(low, ['low latency'])[0], 'up_to_bytes': LARGEST_LOW_LATENCY // RANKS},
                                     protocol('simple', 1e-6 * low[0] + SIMPLE_LATER, simple_bandwidth)]},
            'in_switch': {'protocols': pairs([*joined, *switch], ('small', 'medium', 'large'))}}


def four_nodes(within, nodes=4, card=50):
    """Three protocols between nodes, of which the simple one has the card's bandwidth: four constants."""
    def three(constants):
        return [*constants, constants[2] + SIMPLE_LATER_BETWEEN, card]

    def time(constants, size):
        return (ring(within['protocols'], size)
                + 2 * (nodes - 1) * message(exact(three(constants)), size / RANKS / nodes))

    found = fit(time, chosen('B200', nodes, {'hierarchical'}), (54, 20, 64, 40))
    return {'within': within, 'between': {'protocols': pairs(three(found), ('low latency', '128 bytes', 'simple'))}}


def machines():
    """Returns the cluster file of each machine, by name.

    Peaks, memory and cards are those of the presets (core/time/presets.cpp). The simple protocol of a ring that the
    measured runs do not use is published for the H200: 367.6 GB/s at 16 GiB without the switch. For the B200, it has
    the bus bandwidth of the switch at 16 GiB, in which NCCL does the reduce-scatter and all-gather of several nodes,
    too.
    """
    def machine(name, nodes, flops, memory_bandwidth, card, links):
        one = {'name': name, 'nodes': nodes, 'ranks_per_node': RANKS, 'flops': flops,
               'memory_bandwidth': memory_bandwidth, 'launch_seconds': 0, 'within': links['within'],
               'between': links.get('between', {'latency_seconds': 1e-5, 'bandwidth': card})}
        return {**one, 'in_switch': links['in_switch']} if 'in_switch' in links else one

    b200 = with_switch('B200', 845.67e9)
    return {'a100_nvlink': machine('a100_nvlink', 1, 3.12e14, 2.0e12, 2.5e10, a100()),
            'h200_nvlink': machine('h200_nvlink', 1, 9.89e14, 4.8e12, 5.0e10, with_switch('H200', 367.6e9)),
            'b200_nvlink': machine('b200_nvlink', 1, 2.25e15, 8.0e12, 5.0e10, b200),
            'b200_four_nodes': machine('b200_four_nodes', 4, 2.25e15, 8.0e12, 5.0e10, four_nodes(b200['within']))}


def origin(machine, where, name):
    """Returns where a protocol's constants come from."""
    if machine == 'b200_four_nodes' and where == 'within':
        return 'b200_nvlink'
    if name == 'small':
        return 'continues the ring up to 8 MiB'
    if name != 'simple' or machine == 'a100_nvlink':
        return 'both fitted'
    if where == 'between':
        return 'α: 10 µs after 128 bytes (NCCL); the card, 400 Gb/s'
    rate = 'published without the switch' if machine == 'h200_nvlink' else 'bus bandwidth of the switch, 16 GiB'
    return f'α: 2.8 µs after low latency (NCCL); {rate}'


def formula(cluster, gpu, nodes, size):
    """Returns the time of an all-reduce by its formula, without Lockstep."""
    kind = algorithm(gpu, nodes, size)
    if kind == 'in_switch':
        return message(cluster['in_switch']['protocols'], size)
    time = ring(cluster['within']['protocols'], size)
    if kind == 'hierarchical':
        time += 2 * (nodes - 1) * message(cluster['between']['protocols'], size / RANKS / nodes)
    return time


MACHINES = {('A100', 1): 'a100_nvlink', ('H200', 1): 'h200_nvlink', ('B200', 1): 'b200_nvlink',
            ('B200', 4): 'b200_four_nodes'}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--check', action='store_true', help='compare the files instead of writing them')
    check = parser.parse_args().check
    wrong = 0
    for name, cluster in machines().items():
        file = FOLDER / 'clusters' / f'{name}.json'
        text = json.dumps(cluster, indent=1) + '\n'
        if not check:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            print(f'{file}: differs from the fit')
            wrong = 1
        print(name)
        for where in ('within', 'between', 'in_switch'):
            for each in cluster.get(where, {}).get('protocols', []):
                print(f"  {where:10}{each['name']:15} α {1e6 * each['latency_seconds']:9.3f} µs   "
                      f"1/β {each['bandwidth'] / 1e9:8.2f} GB/s")
        gpu, nodes = next(key for key, value in MACHINES.items() if value == name)
        for size, time in measured(gpu, nodes).items():
            ratio = formula(cluster, gpu, nodes, size) / time
            print(f"  {size / MIB:12.5g} MiB {1e6 * time:12.1f} µs {100 * (ratio - 1):+7.1f} %"
                  f"  {'fitted' if fits(gpu, nodes, size) else 'predicted'}")
    return wrong


if __name__ == '__main__':
    sys.exit(main())
