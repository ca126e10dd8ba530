#!/usr/bin/env python3
"""Writes the pipeline schedules of PyTorch's public classes as CSV, for tests/pipeline/test_torch_schedules.cpp.

    tests/golden/make_schedules.py [FOLDER]      (needs torch; the files here come from torch 2.15)

One file per class and size: CLASS_p{ranks}_v{chunks per rank}_m{microbatches}.csv. Each row is a rank, each cell an
action, an empty cell an idle slot. Files in FOLDER/with_messages also contain the messages and the actions of FSDP, as
torch's runtime adds them.
"""

import csv
import pathlib
import sys

from torch.distributed.pipelining import schedules
from torch.distributed.pipelining.stage import _PipelineStageBase


class Stage(_PipelineStageBase):
    """A stage without a model or a process group: the schedules only read its numbers."""

    def __init__(self, index, stages, ranks, rank):
        self.stage_index, self.num_stages, self.group_size, self.group_rank = index, stages, ranks, rank
        self.submod, self.group, self.device = None, None, None
        self.has_backward = True
        self.stage_index_to_group_rank = {i: i % ranks for i in range(stages)}

    _prepare_forward_infra = _prepare_backward_infra = _create_grad_recv_info = None    # a run would need them


# (ranks, chunks per rank, microbatches)
LOOPED = [(2, 2, 4), (3, 2, 5), (4, 2, 2), (4, 2, 8), (4, 3, 10), (2, 3, 3), (8, 2, 16)]
ZERO_BUBBLE = [(2, 1, 4), (4, 1, 8), (8, 1, 3), *LOOPED]
V = [(2, 2, 2), (2, 2, 4), (3, 2, 8), (4, 2, 3), (4, 2, 8), (8, 2, 20)]
DUAL = [(1, 2, 3), (2, 2, 4), (3, 2, 8), (4, 2, 8), (5, 2, 11), (8, 2, 18)]
CLASSES = {
    'ScheduleLoopedBFS': LOOPED,
    'ScheduleInterleaved1F1B': LOOPED,
    'ScheduleInterleavedZeroBubble': ZERO_BUBBLE,
    'ScheduleZBVZeroBubble': V,
    'ScheduleDualPipeV': DUAL,
}
WITH_MESSAGES = [('ScheduleInterleaved1F1B', (2, 2, 4)), ('ScheduleZBVZeroBubble', (2, 2, 4)),
                 ('ScheduleDualPipeV', (2, 2, 4))]


def make(name, ranks, chunks, microbatches):
    held = [Stage(i * ranks, ranks * chunks, ranks, 0) for i in range(chunks)]
    return getattr(schedules, name)(held, microbatches, loss_fn=lambda output, target: output)


def write(path, order):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, 'w', newline='') as file:
        rows = csv.writer(file, lineterminator='\n')
        for rank in sorted(order):
            rows.writerow(['' if action is None else str(action) for action in order[rank]])


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / 'schedules')
    for name, sizes in CLASSES.items():
        for size in sizes:
            write(folder / '{}_p{}_v{}_m{}.csv'.format(name, *size), make(name, *size).pipeline_order)
    for name, size in WITH_MESSAGES:
        write(folder / 'with_messages' / '{}_p{}_v{}_m{}.csv'.format(name, *size),
              make(name, *size).pipeline_order_with_comms)


if __name__ == '__main__':
    main()
