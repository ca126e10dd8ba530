#!/usr/bin/env python3
"""Compares `lockstep_view --summary` of PyTorch's traces with truth.py, an independent reader of them.

    tests/kineto/test_golden.py --viewer LOCKSTEP_VIEW [KIND...]

For the recorded traces, tests/golden/torch_traces (PyTorch on gloo, four processes), the viewer must find every pipeline
action, in the order of PyTorch's CSV. Each rank must wait for the peers from which it receives, about as long as truth.py
computes, and the ranks must wait longest for the slow one. For the simulated traces of tests/golden/make_gpu_traces.py,
the viewer must show HolisticTraceAnalysis' figures as truth.py computes them (check_hta.py compares truth.py with HTA).
"""

import argparse
import pathlib
import re
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent / 'golden')]

import make_gpu_traces                              # noqa: E402
import truth                                        # noqa: E402
from kineto_file import STYLES                      # noqa: E402
from kineto_train import Training                   # noqa: E402
from viewer import microseconds, summary            # noqa: E402

GOLDEN = here.parent / 'golden' / 'torch_traces'
JOINT = re.compile(r'\((\w+);(\w+)\)OVERLAP_F_B')


class Checks:
    def __init__(self):
        self.count, self.failed = 0, 0

    def that(self, holds, text):
        self.count += 1
        if not holds:
            self.failed += 1
            print('failed: ' + text)


def passes(cells):
    """The passes in a row of a schedule's CSV, with each joint action split into its two passes."""
    found = []
    for cell in cells:
        joint = JOINT.match(cell)
        found += [joint[1], joint[2]] if joint else [cell]
    return found


def check_pipeline(checks, kind, found, traces):
    rows = truth.schedule(GOLDEN / kind / 'schedule.csv')
    for trace, rank in zip(traces, found['ranks']):
        if kind not in ('pp_1f1b', 'pp_gpipe'):     # PyTorch annotates the actions, so the trace shows its order
            for step, actions in trace.actions().items():
                checks.that(actions == rows[trace.pipeline_rank], f'{kind}, rank {trace.rank}, step {step}: torch ran {actions}')
        expected = passes(rows[trace.pipeline_rank])
        checks.that(rank['actions'].split(',') == expected,
                    f'{kind}, rank {trace.rank}: {rank["actions"]}, but torch\'s schedule is {",".join(expected)}')


def check_waits(checks, kind, found, traces):
    """Compares the viewer's waits with the times for which messages block the main thread, as truth.py computes them."""
    for trace, rank in zip(traces, found['ranks']):
        expected = truth.message_waits(trace, trace.members)
        waits = {int(peer): microseconds(time) for peer, time in rank['waits_by_peer'].items()}
        checks.that(set(waits) >= {peer for peer, wait in expected.items() if wait > 1000},
                    f'{kind}, rank {trace.rank}: waits for {sorted(waits)}, expected {sorted(expected)}')
        for peer, wait in expected.items():
            other = waits.get(peer, 0)
            checks.that(abs(other - wait) <= 0.15 * sum(expected.values()) + 500,
                        f'{kind}, rank {trace.rank}: waits {other:.0f} us for {peer}, expected {wait:.0f}')


def check_torch(checks, viewer, kind):
    paths = sorted((GOLDEN / kind).glob('*.gz'))
    traces = sorted((truth.Trace(path) for path in paths), key=lambda trace: trace.rank)
    for trace in traces:
        pipelines = [group for description, group in trace.group_of.items() if description == 'mesh_pp']
        trace.members = pipelines[0] if pipelines else tuple(range(trace.world))
        trace.pipeline_rank = trace.members.index(trace.rank)
    for given in (paths, [GOLDEN / kind]) if kind == 'pp_zbv' else (paths,):
        found = summary(viewer, given)
        checks.that([rank['rank'] for rank in found['ranks']] == [0, 1, 2, 3], f'{kind}: ranks {found["ranks"]}')
        checks.that(found['steps'] == [2, 3], f'{kind}: steps {found["steps"]}')
        if kind.startswith('pp_'):
            check_pipeline(checks, kind, found, traces)
            check_waits(checks, kind, found, traces)
        else:
            last = truth.last_arrivals(traces)
            waited = {rank: 0 for rank in range(4)}
            for rank in found['ranks']:
                for peer, time in rank['waits_by_peer'].items():
                    waited[int(peer)] += time
            checks.that(last[2] == max(last.values()), f'{kind}: last arrivals {last}')
            checks.that(max(waited, key=waited.get) == 2, f'{kind}: waited for {waited}, but rank 2 is slow')
        moved = [microseconds(rank.get('clock_moved', 0)) for rank in found['ranks']]
        residual = microseconds(found.get('clock_residual', 0))
        checks.that(all(abs(move) <= residual for move in moved), f'{kind}: one clock, but moved by {moved}, residual {residual}')


def check_breakdown(checks, name, found, traces):
    """Compares the viewer's figures with HolisticTraceAnalysis' figures, as truth.py computes them."""
    by_name = {}
    for trace, rank in zip(traces, found['ranks']):
        own = truth.breakdown(trace)
        window = rank['window']
        for key, value, whole in (('idle', rank['idle'], own['idle']), ('compute', rank['compute'], own['compute']),
                                  ('non_compute', window - rank['compute'] - rank['idle'], own['non_compute'])):
            mine, expected = 100 * value / window, 100 * whole / own['kernel_time']
            checks.that(abs(mine - expected) < 0.005, f'{name}, rank {trace.rank}: {key} {mine:.3f} %, expected {expected:.3f}')
        overlap = 100 * rank['hidden'] / rank['communication']
        checks.that(abs(overlap - own['overlap_pctg']) < 0.005,
                    f'{name}, rank {trace.rank}: overlap {overlap:.3f} %, expected {own["overlap_pctg"]:.3f}')
        for kernel, (count, total) in truth.time_by_kernel(trace).items():
            if truth.kernel_type(kernel) == 'computation':
                before = by_name.get(kernel, (0, 0))
                by_name[kernel] = (before[0] + count, before[1] + total)
    mine = {kernel['name']: (kernel['count'], microseconds(kernel['total'])) for kernel in found['kernels']}
    checks.that(set(mine) == set(by_name), f'{name}: kernels {sorted(set(mine) ^ set(by_name))}')
    for kernel, (count, total) in by_name.items():
        other = mine.get(kernel, (0, 0))
        checks.that(other[0] == count and abs(other[1] - total) < 0.01 + 1e-6 * total,
                    f'{name}: {kernel[:50]}: {other}, expected {count}, {total:.3f} us')


def check_gpu(checks, viewer, style, sizes):
    """Checks a simulated job on dp x pp x tp ranks, one of which is slow."""
    slow = 5
    name = f'gpu {style} {sizes}'
    training = Training(*sizes, slow={slow: 1.3}, style=style, seed=11)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        make_gpu_traces.write(folder, style, seed=11, training=training)
        paths = sorted(folder.glob('*.pt.trace.json'))
        found = summary(viewer, paths)
        traces = sorted((truth.Trace(path) for path in paths), key=lambda trace: trace.rank)
    check_breakdown(checks, name, found, traces)
    checks.that([rank['rank'] for rank in found['ranks']] == list(range(training.job.ranks)), f'{name}: ranks')
    checks.that(found['steps'] == [5, 6], f'{name}: steps {found["steps"]}')
    if style == 'bare' and sum(size > 1 for size in sizes) > 1:
        # The collectives name no group, and there are several groups, so the viewer must report that it cannot match them.
        checks.that(any('not matched' in note for note in found['notes']), f'{name}: notes {found["notes"]}')
        checks.that(not any(rank['waits_by_peer'] for rank in found['ranks']), f'{name}: waits without a match')
        return
    if style == '2023' and sum(size > 1 for size in sizes) > 1:
        # The viewer must report that it infers the groups, and find the same waits as if the kernels named them.
        checks.that(any('inferred' in note and 'group' in note for note in found['notes']), f'{name}: {found["notes"]}')
        with tempfile.TemporaryDirectory() as scratch:
            make_gpu_traces.write(pathlib.Path(scratch), '2026', seed=11,
                                  training=Training(*sizes, slow={slow: 1.3}, style='2026', seed=11))
            named = summary(viewer, sorted(pathlib.Path(scratch).glob('*.pt.trace.json')))
        for rank, other in zip(found['ranks'], named['ranks']):
            for peer in {*rank['waits_by_peer'], *other['waits_by_peer']}:
                mine, its = (microseconds(each['waits_by_peer'].get(peer, 0)) for each in (rank, other))
                checks.that(abs(mine - its) < 0.05 * its + 150, f'{name}, rank {rank["rank"]}: waits {mine:.0f} us for {peer}, '
                            f'but {its:.0f} if the groups are named')
    for rank, total in zip(found['ranks'], training.job.waits()):
        # While a rank waits for a gradient or for an all-reduce, nothing else runs, so these waits are exposed.
        waited = {int(peer): microseconds(time) for peer, time in rank['waits_by_peer'].items()}
        if sizes[1] == 1:
            checks.that(abs(waited.get(slow, 0) - total.get(slow, 0)) < 0.02 * total.get(slow, 0) + 30,
                        f'{name}, rank {rank["rank"]}: waits {waited}, truth {total}')
        elif rank['rank'] != slow:
            checks.that(bool(waited), f'{name}, rank {rank["rank"]}: waits for nobody')
    late = {rank: 0 for rank in range(training.job.ranks)}
    for rank in found['ranks']:
        for peer, time in rank['waits_by_peer'].items():
            late[int(peer)] += time
    if sizes[1] == 1:
        checks.that(max(late, key=late.get) == slow, f'{name}: awaited {late}, but rank {slow} is slow')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--viewer', required=True)
    parser.add_argument('kinds', nargs='*')
    given = parser.parse_args()
    checks = Checks()
    kinds = sorted(path.name for path in GOLDEN.iterdir()) + [f'gpu_{style}' for style in STYLES]
    for kind in given.kinds or kinds:
        before = checks.failed
        if kind.startswith('gpu_'):
            for sizes in ((8, 1, 1), (2, 2, 2)):
                check_gpu(checks, given.viewer, kind[4:], sizes)
        else:
            check_torch(checks, given.viewer, kind)
        print(f'{kind}: {"wrong" if checks.failed > before else "right"}')
    print(f'{checks.count} checks, {checks.failed} failed')
    sys.exit(1 if checks.failed else 0)


if __name__ == '__main__':
    main()
