#!/usr/bin/env python3
"""Writes traces of a simulated job with known ground truth, in the format of PyTorch's profiler on GPUs.

    tests/golden/make_gpu_traces.py FOLDER [--style bare|2023|2024|2026] [--seed N]      (needs only Python)

FOLDER/ gets one file per rank: dp 2 x pp 2 x tp 2 on four hosts, whose clocks differ and drift; rank 5 is slow. It also
gets truth.json, which trace readers ignore: each rank's host, clock offset and drift, and its waits by peer.
FOLDER/dualpipe64/ gets one file of a job of 64 ranks.
"""

import argparse
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'kineto'))

from kineto_file import STYLES, HostClock, KinetoFile       # noqa: E402 (found by the path above)
from kineto_train import Training, dual_pipe                # noqa: E402

SLOW = {5: 1.3}


def clocks(hosts, seed):
    """One clock per host: the first is the reference, one is wrong by seconds, the others by milliseconds or less."""
    draw = random.Random(seed)
    scales = [0, 4000, 2e6, 80]
    return [HostClock(f'gpu-{index:02}', draw.uniform(-1, 1) * scales[index % len(scales)],
                      0 if index == 0 else draw.uniform(-20, 20), base_ns=1790857026000000000 - index * 86400 * 10**9)
            for index in range(hosts)]


def write(folder, style='2026', seed=0, compressed=False, training=None, host_clocks=None, on_demand=False):
    """Writes a training job's ranks and truth.json; returns the truth."""
    training = training or Training(slow=SLOW, style=style, seed=seed)
    ranks = training.job.ranks
    host_clocks = host_clocks or clocks((ranks + 1) // 2, seed)
    waits = training.job.waits()
    truth = {'style': style, 'ranks': []}
    for rank in range(ranks):
        clock = host_clocks[rank * len(host_clocks) // ranks]
        file = KinetoFile(training.job, rank, clock, style, training.all_groups(), gpu=rank % 2, with_stack=rank == 0,
                          on_demand=on_demand)
        path = file.write(folder, compressed)
        truth['ranks'].append({'rank': rank, 'file': path.name, 'host': clock.host, 'offset_us': clock.offset,
                               'drift_ppm': clock.drift, 'communication_waits_us': {str(k): round(v, 3)
                                                                                    for k, v in sorted(waits[rank].items())}})
    (folder / 'truth.json').write_text(json.dumps(truth, indent=1) + '\n')
    return truth


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--style', choices=STYLES, default='2026')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--gz', action='store_true')
    given = parser.parse_args()
    write(given.folder, given.style, given.seed, given.gz)
    job = dual_pipe(seed=given.seed)
    KinetoFile(job, 0, HostClock('gpu-00'), '2023', world=64).write(given.folder / 'dualpipe64', given.gz)


if __name__ == '__main__':
    main()
