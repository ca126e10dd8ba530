#!/usr/bin/env python3
"""Checks that PyTorch loads the schedules that Lockstep exports, and that Lockstep runs what PyTorch makes of them.

    tests/golden/check_schedules.py build/release/lessons/lesson_11_zero_bubble      (needs torch; checked with 2.15)

For each schedule and size: the lesson exports a CSV file; torch's _PipelineScheduleRuntime loads it, and must have the
same actions, cell for cell, and the same placement of stages. If torch has a class for this schedule, the actions must
also be those of the class, without its idle cells. Then torch adds the messages, and the lesson runs torch's file; it
fails unless the results are those of one device.
"""

import csv
import pathlib
import subprocess
import sys
import tempfile

from torch.distributed.pipelining import schedules

from make_schedules import Stage, make

# The schedule's word, torch's class, and sizes: (ranks, chunks per rank, microbatches).
LINEAR = [(1, 1, 3), (2, 1, 4), (4, 1, 8), (3, 1, 7)]
LOOPED = [(2, 2, 4), (3, 2, 5), (4, 2, 8), (4, 3, 10)]
V = [(2, 2, 4), (3, 2, 8), (4, 2, 8)]
SCHEDULES = [
    ('gpipe', None, LINEAR),
    ('1f1b', None, LINEAR),
    ('interleaved', 'ScheduleInterleaved1F1B', LOOPED),
    ('breadth-first', None, LOOPED),    # torch's class runs backwards in descending order
    ('zb-h1', 'ScheduleInterleavedZeroBubble', [(2, 1, 4), (4, 1, 8), *LOOPED]),
    ('zb-h2', None, LINEAR),
    ('zb-v', 'ScheduleZBVZeroBubble', V),
    ('automatic', None, LINEAR),
    ('dualpipe-v', 'ScheduleDualPipeV', V),
]


def cells(path):
    with open(path, newline='') as file:
        return [[cell.strip() for cell in row if cell.strip()] for row in csv.reader(file)]


def texts(order):
    return [[str(action) for action in order[rank] if action is not None] for rank in sorted(order)]


def placement(rows):
    """The rank of each stage: that of its first forward pass."""
    ranks = {}
    for rank, row in enumerate(rows):
        for cell in row:
            for action in cell.strip('()').split(')')[0].split(';'):
                if 'F' in action:
                    ranks[int(action.split('F')[0])] = rank
    return ranks


def main():
    program = pathlib.Path(sys.argv[1])
    count = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        exported, lowered = pathlib.Path(folder) / 'exported.csv', pathlib.Path(folder) / 'lowered.csv'
        for word, torch_class, sizes in SCHEDULES:
            for ranks, chunks, microbatches in sizes:
                name = f'{word} p={ranks} v={chunks} m={microbatches}'
                run = [program, '--ranks', ranks, '--microbatches', microbatches, '--batch', 2 * microbatches, '--steps', 2,
                       '--layers', ranks * chunks, '--clock', 'modelled', '--trace', 'none', '--quiet', '--schedule']
                run = [str(part) for part in run]
                subprocess.run([*run, word, '--chunks', str(chunks), '--export-schedule', exported], check=True)
                mine = cells(exported)

                runtime = schedules._PipelineScheduleRuntime(
                    [Stage(0, ranks * chunks, ranks, 0)], microbatches, loss_fn=lambda output, target: output)
                runtime._load_csv(str(exported))
                assert texts(runtime.pipeline_order) == mine, f'{name}: torch has loaded other actions'
                assert runtime.stage_index_to_group_rank == placement(mine), f'{name}: torch has other ranks'
                if torch_class is not None:
                    theirs = make(torch_class, ranks, chunks, microbatches).pipeline_order
                    assert texts(theirs) == mine, f'{name}: the actions are not those of {torch_class}'
                    compared += 1

                with open(lowered, 'w', newline='') as file:
                    csv.writer(file).writerows(texts(runtime.pipeline_order_with_comms))
                subprocess.run([*run, lowered], check=True)
                count += 1
    print(f'torch loads {count} exported schedules, {compared} of them equal to those of its classes; '
          'with its messages, the lesson runs all of them')


if __name__ == '__main__':
    main()
