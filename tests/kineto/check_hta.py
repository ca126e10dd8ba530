#!/usr/bin/env python3
"""Compares the summary of traces of GPUs with HolisticTraceAnalysis (HTA), an independent implementation.

    tests/kineto/check_hta.py [--viewer LOCKSTEP_VIEW] [FILE...]     (needs HolisticTraceAnalysis; run by hand)

Without FILE: simulated jobs in each style of tests/golden/make_gpu_traces.py. HTA defines, for the GPU events of a rank
(https://hta.readthedocs.io, "Temporal Breakdown" and "Communication Computation Overlap"):

- kernel time: from the beginning of the first kernel to the end of the last; idle time: no kernel runs; compute time: a
  computation kernel runs; non-compute time: the rest, in which only communication or memory kernels run;
- overlap: the time in which computation and communication run, divided by the time in which communication runs.

HTA classifies kernels by name: communication if it begins with nccl and contains Kernel, memory if it begins with Memcpy,
Memset or dma, and otherwise computation. This script turns off HTA's rounding to whole microseconds, and includes the last
step.
"""

import argparse
import os
import pathlib
import sys
import tempfile

os.environ['HTA_DISABLE_NS_ROUNDING'] = '1'
here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent / 'golden')]

import truth                    # noqa: E402
import make_gpu_traces          # noqa: E402
from kineto_file import STYLES  # noqa: E402
from viewer import microseconds, summary            # noqa: E402


def ask_hta(paths):
    """HTA's figures, {rank: {figure: value}}, and its total times, {rank: {kernel name: microseconds}}."""
    from hta.trace_analysis import TraceAnalysis
    files = {truth.Trace(path).rank: str(path) for path in paths}
    analysis = TraceAnalysis(trace_files=files, include_last_profiler_step=True)
    times = analysis.get_temporal_breakdown(visualize=False).set_index('rank')
    overlap = analysis.get_comm_comp_overlap(visualize=False).set_index('rank')
    _, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=10**6, include_memory_kernels=True)
    figures, by_name = {}, {}
    for rank in files:
        row = times.loc[rank]
        figures[rank] = {'idle_pctg': row['idle_time_pctg'], 'compute_pctg': row['compute_time_pctg'],
                         'non_compute_pctg': row['non_compute_time_pctg'], 'kernel_time': row['kernel_time(us)'],
                         'overlap_pctg': overlap.loc[rank]['comp_comm_overlap_pctg']}
        mine = kernels[kernels['rank'] == rank]
        by_name[rank] = dict(zip(mine['name'], mine['sum (us)']))
    return figures, by_name


def ask_truth(paths):
    """The same as computed by truth.py."""
    figures, by_name = {}, {}
    for trace in map(truth.Trace, paths):
        own = truth.breakdown(trace)
        total = own['kernel_time']
        figures[trace.rank] = {'idle_pctg': round(100 * own['idle'] / total, 2),
                               'compute_pctg': round(100 * own['compute'] / total, 2),
                               'non_compute_pctg': round(100 * own['non_compute'] / total, 2), 'kernel_time': total,
                               'overlap_pctg': own['overlap_pctg'] and round(own['overlap_pctg'], 2)}
        by_name[trace.rank] = {name: total for name, (_, total) in truth.time_by_kernel(trace).items()}
    return figures, by_name


def ask_viewer(viewer, paths):
    """The same figures from the viewer's summary, and None: its times by kernel are sums over all ranks."""
    found = summary(viewer, paths)
    figures = {}
    for rank in found['ranks']:
        window, shares = rank['window'], {}
        for key, time in (('idle_pctg', rank['idle']), ('compute_pctg', rank['compute']),
                          ('non_compute_pctg', window - rank['compute'] - rank['idle'])):
            shares[key] = round(100 * time / window, 2)
        overlap = 100 * rank['hidden'] / rank['communication'] if rank['communication'] else None
        figures[rank['rank']] = {**shares, 'kernel_time': microseconds(window),
                                 'overlap_pctg': overlap if overlap is None else round(overlap, 2)}
    return figures, None


def differences(name, expected, found):
    """Prints and counts the figures that differ by more than HTA rounds: 0.01 percentage points, and for times 1 us in total or
    0.1 us per kernel."""
    wrong = 0
    for rank, figures in expected[0].items():
        for key, value in figures.items():
            other = found[0][rank][key]
            if value != value and other is None:        # HTA's overlap if there is no communication: NaN
                continue
            if other is None or abs(value - other) > (1 if key == 'kernel_time' else 0.011):
                wrong += 1
                print(f'{name}: rank {rank}, {key}: HTA {value}, here {other}')
        for kernel, total in expected[1][rank].items() if found[1] else ():
            other = found[1][rank].get(kernel)
            if other is None or abs(total - other) > max(0.1, 1e-5 * total):
                wrong += 1
                print(f'{name}: rank {rank}, {kernel[:60]}: HTA {total} us, here {other}')
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--viewer')
    parser.add_argument('files', nargs='*', type=pathlib.Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        sets = {'given files': given.files} if given.files else {}
        if not given.files:
            for style in STYLES:
                folder = pathlib.Path(scratch) / style
                make_gpu_traces.write(folder, style, seed=3)
                sets[style] = sorted(folder.glob('*.pt.trace.json'))
        wrong = 0
        for name, paths in sets.items():
            expected = ask_hta(paths)
            wrong += differences(f'{name}, truth.py', expected, ask_truth(paths))
            if given.viewer:
                wrong += differences(f'{name}, viewer', expected, ask_viewer(given.viewer, paths))
            print(f'{name}: {len(paths)} ranks, {sum(len(k) for k in expected[1].values())} kernels by rank and name')
    print('no difference' if wrong == 0 else f'{wrong} differences')
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
