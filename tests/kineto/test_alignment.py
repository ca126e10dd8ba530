#!/usr/bin/env python3
"""Checks the viewer's clock alignment on simulated jobs whose hosts' clocks are wrong and drift.

    tests/kineto/test_alignment.py --viewer LOCKSTEP_VIEW [--count N] [--seed S]

Each job's true clocks are known. The viewer must correct each rank's clock to within the residual that it shows. If ranks
have no collective in common, it must say so and correct nothing.
"""

import argparse
import pathlib
import random
import re
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent / 'golden')]

import make_gpu_traces                                  # noqa: E402
import truth                                            # noqa: E402
from kineto_file import NAME_GROUPS, STYLES, HostClock, KinetoFile      # noqa: E402
from kineto_train import Training                       # noqa: E402
from viewer import microseconds, summary                # noqa: E402

WRITTEN = {style: 0.001 if style in NAME_GROUPS else 1.0 for style in STYLES}   # microseconds: a file's resolution


def random_clocks(draw, hosts):
    """Clocks of which the first is right; the others are off by up to hours, and drift by up to 100 parts per million."""
    clocks = []
    for index in range(hosts):
        offset = 0 if index == 0 else draw.choice([-1, 1]) * 10 ** draw.uniform(0, 10)
        drift = draw.choice([0, draw.uniform(-100, 100)])
        clocks.append(HostClock(f'host{index}', offset, drift, base_ns=1790857026 * 10**9 - index * 10**9 * draw.choice([0, 7])))
    return clocks


def correction(clocks, rank_clock, first):
    """The shift that moves an event at `first` on this rank's clock to its time on the first rank's clock."""
    def common(clock, shown):
        return (shown - clock.offset) / (1 + clock.drift * 1e-6)
    return clocks[0].read(common(rank_clock, first)) - first


def one_job(viewer, draw, index):
    """Returns a list of faults, one line each."""
    sizes = draw.choice([(2, 1, 1), (4, 1, 1), (2, 2, 1), (1, 2, 2), (2, 2, 2), (1, 1, 4), (2, 4, 1), (1, 4, 1)])
    style = draw.choice(list(WRITTEN))
    ranks = sizes[0] * sizes[1] * sizes[2]
    slow = {draw.randrange(ranks): draw.uniform(1, 2)}
    training = Training(*sizes, microbatches=draw.choice([2, 4, 6]), layers=draw.choice([1, 2]), steps=draw.choice([1, 2, 3]),
                        slow=slow, style=style, seed=draw.randrange(10**6))
    hosts = draw.choice([count for count in (1, 2, 4, 8) if count <= ranks])
    clocks = random_clocks(draw, hosts)
    of_rank = [clocks[rank * hosts // ranks] for rank in range(ranks)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        make_gpu_traces.write(folder, style, training=training, host_clocks=clocks, compressed=draw.choice([True, False]), on_demand=draw.choice([True, False]))
        found = summary(viewer, sorted(path for path in folder.iterdir() if path.name != 'truth.json'))
        first = {}
        for path in folder.glob('*.pt.trace.json*'):
            trace = truth.Trace(path)
            first[trace.rank] = (trace.base_ns // 1000 - clocks[0].epoch) + trace.events[0]['ts']
    name = f'job {index} (dp, pp, tp {sizes}, {style}, {hosts} hosts)'
    wrong = []
    residual = microseconds(found.get('clock_residual', -1))
    # If there are several groups and no collective names its own, the viewer infers them, or reports the ranks for which it
    # cannot.
    unaligned = any('not aligned' in note for note in found['notes'])
    unknown = style not in NAME_GROUPS and (sum(size > 1 for size in sizes) > 1 or sizes[1] > 1)
    if unaligned and unknown and residual < 0:
        return wrong if not any(rank['clock_moved'] for rank in found['ranks']) else [f'{name}: moved without a match']
    if residual < 0:
        return [f'{name}: no residual; {found["notes"]}']
    joined = next((re.search(r'joins ranks? ([\d, ]+) to rank', note) for note in found['notes'] if 'joins rank' in note), None)
    apart = {int(number) for number in joined[1].split(',')} if joined and unknown else set()
    for rank in found['ranks']:
        expected = correction(clocks, of_rank[rank['rank']], first[rank['rank']])
        moved = microseconds(rank['clock_moved'])
        if rank['rank'] in apart:
            continue
        if abs(moved - expected) > residual + WRITTEN[style] + 1e-9 * abs(expected):
            wrong.append(f'{name}: rank {rank["rank"]} moved by {moved:.3f} us, truth {expected:.3f}, residual {residual:.3f}')
    # The factor allows for three facts: each collective leaves 0.4 us of uncertainty, few collectives cannot determine the
    # drift, and errors add up along chains of ranks.
    if residual > 60 * (0.4 + WRITTEN[style]) + 1e-9 * max(abs(clock.offset) for clock in clocks):
        wrong.append(f'{name}: residual {residual:.3f} us, but members end within 0.4 us')
    return wrong


def no_collective(viewer, draw, index):
    """Two independent jobs, written as the halves of one job: no collective joins the second half to the first."""
    style = draw.choice(list(WRITTEN))
    half = draw.choice([1, 2])          # ranks: one rank has no collectives, two reduce their gradients
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for part in (0, 1):
            training = Training(half, 1, 1, style=style, seed=draw.randrange(10**6))
            clock = HostClock(f'host{part}', draw.uniform(-1e6, 1e6))
            # The groups' ranks must also be those of the whole job.
            for group in training.all_groups():
                group.ranks = tuple(rank + half * part for rank in group.ranks)
                group.name += f' of half {part}'
            for call in training.job.collectives:
                call.members = tuple(rank + half * part for rank in call.members)
            for rank in range(half):
                file = KinetoFile(training.job, rank, clock, style, world=2 * half, number=rank + half * part,
                                  groups=training.all_groups())
                file.write(folder, name=f'rank{rank + half * part}.pt.trace.json')
        found = summary(viewer, [folder])
    wrong = []
    if style not in NAME_GROUPS and half == 2:
        # These files do not list the groups' ranks, so they do not show that the halves share no collective.
        return wrong
    if not any('not aligned' in note for note in found['notes']):
        wrong.append(f'nothing in common {index}: the notes do not say so: {found["notes"]}')
    if any(rank.get('clock_moved', 0) != 0 for rank in found['ranks'] if rank['rank'] >= half):
        wrong.append(f'nothing in common {index}: a clock was moved')
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--viewer', required=True)
    parser.add_argument('--count', type=int, default=20)
    parser.add_argument('--seed', type=int, default=1)
    given = parser.parse_args()
    wrong = []
    for index in range(given.count):
        draw = random.Random(f'{given.seed} {index}')
        check = no_collective if index % 10 == 9 else one_job
        wrong += check(given.viewer, draw, index)
    print('\n'.join(wrong[:40]))
    print(f'{given.count} jobs, {len(wrong)} faults')
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
