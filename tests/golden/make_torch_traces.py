#!/usr/bin/env python3
"""Writes the profiler's traces of small PyTorch training runs on gloo, with four processes each.

    tests/golden/make_torch_traces.py FOLDER [KIND ...]      (needs torch; the files here come from torch 2.15)

Writes FOLDER/KIND/: one trace per rank, as tensorboard_trace_handler names it, and for a pipeline also schedule.csv, the
order of torch's own schedule class: each row is a rank, each cell an action. tests/golden/pack_torch_traces.py turns
these traces into the files in tests/golden/torch_traces.

In each run one rank is slower than the others: in a pipeline, the one that holds stage SLOW, whose forward pass sleeps;
otherwise rank SLOW, which sleeps before its forward pass, as if it waited for its data. Sleeping
slows the rank down even on a busy machine.
"""

import argparse
import csv
import os
import pathlib
import socket
import subprocess
import sys
import time

RANKS = 4
MICROBATCHES = {'pp_1f1b': 8, 'pp_dualpipev': 8}      # other kinds: 4
STEPS = 2                # recorded, after one step without the profiler and one warm-up step
WIDTH = 256
SLOW = 2
PAUSE = {'pass': 0.004, 'input': 0.03}         # seconds

PIPELINES = {
    # kind: (class, chunks per rank)
    'pp_gpipe': ('ScheduleGPipe', 1),
    'pp_1f1b': ('Schedule1F1B', 1),
    'pp_1f1b_runtime': ('_PipelineScheduleRuntime', 1),      # the same order, run by the runtime that annotates actions
    'pp_interleaved': ('ScheduleInterleaved1F1B', 2),
    'pp_interleaved_zb': ('ScheduleInterleavedZeroBubble', 2),
    'pp_zbv': ('ScheduleZBVZeroBubble', 2),
    'pp_dualpipev': ('ScheduleDualPipeV', 2),
}
KINDS = [*PIPELINES, 'pp_dp', 'ddp', 'fsdp2', 'fsdp1']          # ddp also records Python's stacks


def block(torch, width, depth, slow=False):
    """`depth` linear layers with a nonlinearity between them; a slow one sleeps before them."""
    class Pause(torch.nn.Module):
        def forward(self, x):
            time.sleep(PAUSE['pass'])
            return x

    layers = [Pause()] if slow else []
    for _ in range(depth):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


def traced(torch, folder, step, stacks):
    """Runs `step` under the profiler: 1 step unrecorded, 1 for warm-up, then STEPS recorded ones."""
    from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=stacks,
                 schedule=schedule(wait=1, warmup=1, active=STEPS, repeat=1),
                 on_trace_ready=tensorboard_trace_handler(str(folder))) as profiler:
        for _ in range(2 + STEPS):
            step()
            profiler.step()


def write_order(path, order):
    with open(path, 'w', newline='') as file:
        rows = csv.writer(file, lineterminator='\n')
        for rank in sorted(order):
            rows.writerow(['' if action is None else str(action) for action in order[rank]])


def executed_order(run):
    """The order in which `run` executes its actions.

    In torch 2.15, Schedule1F1B._get_pipeline_order numbers the last stage's forward passes from 1, and its run from 0.
    """
    from torch.distributed.pipelining import schedules
    if not isinstance(run, schedules.PipelineScheduleSingle):
        return run.pipeline_order
    order = run._get_pipeline_order()
    for rank, actions in order.items():
        forwards = [a.microbatch_index for a in actions if a is not None and a.computation_type == schedules.FORWARD]
        if forwards[0] == 1:
            order[rank] = [a._replace(microbatch_index=a.microbatch_index - 1)
                           if a is not None and a.computation_type == schedules.FORWARD else a for a in actions]
    return order


def pipeline(torch, dist, kind, rank, folder, group, pp_rank, pp_size, make_module, slow_stage):
    """One rank of a pipeline of `pp_size` ranks."""
    from torch.distributed.pipelining import PipelineStage, schedules
    name, chunks = PIPELINES.get(kind, ('ScheduleInterleaved1F1B', 2))
    microbatches = MICROBATCHES.get(kind, 4)
    stages = pp_size * chunks
    if name in ('ScheduleZBVZeroBubble', 'ScheduleDualPipeV'):
        held = [pp_rank, stages - 1 - pp_rank]
    else:
        held = [pp_rank + i * pp_size for i in range(chunks)]
    device = torch.device('cpu')
    modules = [make_module(index == slow_stage) for index in held]
    parts = [PipelineStage(module, index, stages, device, group=group) for module, index in zip(modules, held)]
    optimizer = torch.optim.SGD([p for module in modules for p in module.parameters()], lr=1e-3)
    if name == '_PipelineScheduleRuntime':
        plain = schedules.Schedule1F1B(parts[0], microbatches, loss_fn=torch.nn.functional.mse_loss)
        order = {r: [a for a in actions if a is None or a.is_compute_op]
                 for r, actions in executed_order(plain).items()}
        if rank == 0:
            write_order(folder / 'schedule.csv', order)
        dist.barrier()
        run = schedules._PipelineScheduleRuntime(parts, microbatches, loss_fn=torch.nn.functional.mse_loss)
        run._load_csv(str(folder / 'schedule.csv'))
    else:
        made = getattr(schedules, name)
        single = issubclass(made, schedules.PipelineScheduleSingle)
        run = made(parts[0] if single else parts, microbatches, loss_fn=torch.nn.functional.mse_loss)
        if rank == 0:
            write_order(folder / 'schedule.csv', executed_order(run))
    if rank == 0 and hasattr(run, 'pipeline_order_with_comms'):
        write_order(folder / 'schedule_with_messages.csv', run.pipeline_order_with_comms)
    has_first, has_last = 0 in held, stages - 1 in held
    torch.manual_seed(0)
    x, y = torch.randn(microbatches * 16, WIDTH), torch.randn(microbatches * 16, WIDTH)

    def step():
        optimizer.zero_grad()
        run.step(*([x] if has_first else []), **({'target': y} if has_last else {}))
        optimizer.step()

    return step


def rank_main(kind, rank, folder, port):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    torch.manual_seed(1 + rank)
    dist.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=RANKS)
    stacks = False

    def plain_module(slow):
        return block(torch, WIDTH, 1, slow)

    if kind in PIPELINES:
        step = pipeline(torch, dist, kind, rank, folder, None, rank, RANKS, plain_module, SLOW)
    elif kind == 'pp_dp':
        # 2 pipelines of 2 ranks; rank = dp * 2 + pp. The gradients are averaged between pipelines.
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh('cpu', (2, 2), mesh_dim_names=('dp', 'pp'))

        def sharded(slow):
            module = block(torch, WIDTH, 1, slow)
            for layer in module:
                if isinstance(layer, torch.nn.Linear):
                    fully_shard(layer, mesh=mesh['dp'])
            return fully_shard(module, mesh=mesh['dp'])

        step = pipeline(torch, dist, kind, rank, folder, mesh.get_group('pp'), mesh.get_local_rank('pp'), 2, sharded, 1)
    else:
        depth, width = 3, WIDTH
        torch.manual_seed(0)
        module = block(torch, width, depth)
        if kind == 'ddp':
            model = torch.nn.parallel.DistributedDataParallel(module, bucket_cap_mb=0.3)
            stacks = True
        elif kind == 'fsdp2':
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard
            mesh = init_device_mesh('cpu', (RANKS,), mesh_dim_names=('dp',))
            for layer in module:
                if isinstance(layer, torch.nn.Linear):
                    fully_shard(layer, mesh=mesh)
            model = fully_shard(module, mesh=mesh)
        else:
            from torch.distributed.fsdp import FullyShardedDataParallel
            from torch.distributed.fsdp.wrap import ModuleWrapPolicy
            model = FullyShardedDataParallel(module, auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}),
                                             device_id=torch.device('cpu'), use_orig_params=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        torch.manual_seed(rank)
        x, y = torch.randn(64, width), torch.randn(64, width)

        def step():
            if rank == SLOW:
                with torch.profiler.record_function('slow input'):
                    time.sleep(PAUSE['input'])
            optimizer.zero_grad()
            out = model(x)
            torch.nn.functional.mse_loss(out, y).backward()
            optimizer.step()

    dist.barrier()
    traced(torch, folder, step, stacks)
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        return listener.getsockname()[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('kinds', nargs='*', metavar='KIND', help=' '.join(KINDS))
    parser.add_argument('--rank', type=int, help=argparse.SUPPRESS)
    parser.add_argument('--port', type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = [kind for kind in given.kinds if kind not in KINDS]
    if unknown:
        sys.exit(f'make_torch_traces.py: unknown kind {unknown[0]}; known: {" ".join(KINDS)}')
    if given.rank is not None:
        return rank_main(given.kinds[0], given.rank, given.folder, given.port)
    failed = []
    for kind in given.kinds or KINDS:
        folder = given.folder / kind
        folder.mkdir(parents=True, exist_ok=True)
        for old in [*folder.glob('*.pt.trace.json*'), *folder.glob('*.csv')]:
            old.unlink()
        port = free_port()
        surroundings = {'GLOO_SOCKET_IFNAME': 'lo', **os.environ}
        command = [sys.executable, __file__, str(folder), kind, '--port', str(port), '--rank']
        ranks = [subprocess.Popen([*command, str(rank)], env=surroundings) for rank in range(RANKS)]
        try:
            codes = [process.wait(timeout=180) for process in ranks]
        except subprocess.TimeoutExpired:
            codes = [1]
        for process in ranks:
            process.kill()
        print(kind, 'failed' if any(codes) else 'ok', flush=True)
        failed += [kind] if any(codes) else []
    sys.exit(f'make_torch_traces.py: failed: {" ".join(failed)}' if failed else 0)


if __name__ == '__main__':
    main()
