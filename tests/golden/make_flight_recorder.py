#!/usr/bin/env python3
"""Regenerates tests/golden/flight_recorder: dumps of PyTorch's flight recorder from runs that stall.

    tests/golden/make_flight_recorder.py

gloo/       torch's gloo backend in four processes, on a mesh tp 2 x dp 2: rank 2 stops calling anything in its third
            step. Pickles, as torch writes them.
gloo_json/  the dumps of the same run as JSON
nccl/       written here in the format of the NCCL backend, 16 ranks on tp 2 x pp 4 x dp 2: rank 6 stalls. Ranks with
            even numbers are pickled with protocol 2, the others with protocol 4. torch's own analysis must accept them.

Needs torch (2.8 or later). The test flight_recorder.golden reads the files.
"""
import contextlib
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).parent / 'flight_recorder'
STALLED = 2     # of the gloo run
STUCK = 6       # of the 16 ranks
TP, PP, DP = 2, 4, 2


def gloo_rank(rank, store, folder):
    """Calls a step's operations without training; writes the dumps once the other ranks must be waiting."""
    os.environ['TORCH_FR_BUFFER_SIZE'] = '100'
    import threading
    import torch
    import torch.distributed as dist
    from torch._C import _distributed_c10d as c10d
    from torch.distributed.device_mesh import init_device_mesh
    dist.init_process_group('gloo', init_method=f'file://{store}', rank=rank, world_size=4)
    mesh = init_device_mesh('cpu', (2, 2), mesh_dim_names=('dp', 'tp'))
    tp, dp = mesh.get_group('tp'), mesh.get_group('dp')

    def train():
        values = torch.ones(4, 3)
        with contextlib.suppress(RuntimeError):  # the others leave
            for step in range(4):
                dist.all_reduce(values, group=tp)
                if step == 2 and rank == STALLED:
                    time.sleep(600)
                dist.all_reduce(values, group=dp)
                dist.all_gather([torch.empty(4, 3) for _ in range(2)], values, group=tp)

    threading.Thread(target=train, daemon=True).start()
    time.sleep(15)
    # Without stack traces, which contain the paths of this machine.
    (folder / 'gloo' / f'nccl_trace_rank_{rank}').write_bytes(c10d._dump_fr_trace(True, False))
    (folder / 'gloo_json' / f'rank_{rank}.json').write_bytes(c10d._dump_fr_trace_json())
    time.sleep(3)
    os._exit(0)


def stall_gloo():
    for name in ('gloo', 'gloo_json'):
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        ranks = [subprocess.Popen([sys.executable, __file__, '--rank', str(rank), f'{scratch}/store'])
                 for rank in range(4)]
        for rank in ranks:
            rank.wait()


def coordinates(rank):
    return rank % TP, rank // TP % PP, rank // (TP * PP)


def rank_at(t, p, d):
    return (d * PP + p) * TP + t


def groups_of(rank):
    """The rank's groups: description, name and members."""
    t, p, d = coordinates(rank)
    return {'default_pg': ('0', list(range(TP * PP * DP))),
            'tp': (f'{1 + d * PP + p}', [rank_at(i, p, d) for i in range(TP)]),
            'pp': (f'{20 + d * TP + t}', [rank_at(t, i, d) for i in range(PP)]),
            'dp': (f'{40 + p * TP + t}', [rank_at(t, p, i) for i in range(DP)])}


def program(rank, steps=2, microbatches=2):
    """The operations of a pipeline in program order: (axis, operation, peer or None)."""
    t, p, d = coordinates(rank)
    for _ in range(steps):
        for towards, back in ((1, -1), (-1, 1)):
            for _ in range(microbatches):
                if 0 <= p + back < PP:
                    yield 'pp', 'recv', rank_at(t, p + back, d)
                yield 'tp', 'all_reduce', None
                if 0 <= p + towards < PP:
                    yield 'pp', 'send', rank_at(t, p + towards, d)
        yield 'dp', 'all_reduce', None
        yield 'default_pg', 'all_reduce', None


def execute(stop):
    """Runs the programs until all ranks have finished or wait. Rank STUCK executes only `stop` operations. Returns
    each rank's calls: [axis, operation, peer, sequence number, completed]."""
    programs = [list(program(rank)) for rank in range(TP * PP * DP)]
    calls = [[] for _ in programs]
    number = lambda rank, axis, p2p: sum(c[0] == axis and (c[2] is not None) == p2p for c in calls[rank])
    count = lambda rank, operation, peer: sum(c[1:3] == [operation, peer] for c in calls[rank])

    def is_there(rank):  # whether all others have reached the rank's last call
        axis, operation, peer, sequence, _ = calls[rank][-1]
        if peer is not None:
            other = 'recv' if operation == 'send' else 'send'
            return count(peer, other, rank) >= count(rank, operation, peer)
        return all(number(member, axis, False) >= sequence for member in groups_of(rank)[axis][1])

    changed = True
    while changed:
        changed = False
        for rank, ops in enumerate(programs):
            mine = calls[rank]
            if mine and not mine[-1][4]:
                if is_there(rank):
                    mine[-1][4] = changed = True
            elif len(mine) < (stop if rank == STUCK else len(ops)):
                axis, operation, peer = ops[len(mine)]
                mine.append([axis, operation, peer, number(rank, axis, peer is not None) + 1, False])
                changed = True
    return calls


def nccl_dump(rank, calls):
    groups = groups_of(rank)
    ids = {axis: i for i, axis in enumerate(groups)}
    entries = []
    for i, (axis, operation, peer, sequence, completed) in enumerate(calls):
        name, members = groups[axis]
        label = operation
        if peer is not None:
            label += f' {members.index(rank)}{"->" if operation == "send" else "<-"}{members.index(peer)}'
        created = 1_760_000_000_000_000_000 + 1_000_000 * i
        entries.append({
            'frames': [{'name': 'train_step', 'filename': 'train.py', 'line': 100 + i}], 'record_id': i,
            'pg_id': ids[axis], 'process_group': (name, axis), 'thread_name': 'pt_main_thread', 'thread_id': '1',
            'collective_seq_id': 0 if peer is not None else sequence, 'p2p_seq_id': 0 if peer is None else sequence,
            'op_id': i + 1, 'profiling_name': 'nccl:' + label, 'time_created_ns': created,
            'input_sizes': [[64, 1024]], 'input_dtypes': ['BFloat16'], 'output_sizes': [[64, 1024]],
            'output_dtypes': ['BFloat16'], 'state': 'completed' if completed else 'started',
            'time_discovered_started_ns': created + 1000,
            'time_discovered_completed_ns': created + 500_000 if completed else None, 'retired': completed,
            'timeout_ms': 600_000, 'is_p2p': peer is not None, **({'duration_ms': 0.25} if completed else {})})
    status = {}
    for axis in groups:
        mine = [c for c in calls if c[0] == axis and c[2] is None]
        done = [c[3] for c in mine if c[4]]
        status[str(ids[axis])] = {'last_enqueued_collective': len(mine) or -1, 'last_started_collective': len(mine) or -1,
                                  'last_completed_collective': max(done, default=-1)}
    return {'version': '2.10', 'comm_lib_version': '2.27.3', 'pg_status': status, 'entries': entries,
            'pg_config': {name: {'name': name, 'desc': axis, 'ranks': str(members)}
                          for axis, (name, members) in groups.items()}}


def write_nccl():
    (FOLDER / 'nccl').mkdir(parents=True, exist_ok=True)
    for rank, calls in enumerate(execute(stop=13)):
        (FOLDER / 'nccl' / f'nccl_trace_rank_{rank}').write_bytes(
            pickle.dumps(nccl_dump(rank, calls), protocol=2 if rank % 2 == 0 else 4))


def check_with_torch():
    """Checks that torch's own analysis finds the dumps' groups and matches their collectives."""
    from torch.distributed.flight_recorder.components.builder import build_db
    from torch.distributed.flight_recorder.components.config_manager import JobConfig
    from torch.distributed.flight_recorder.components.loader import read_dir
    arguments = JobConfig().parse_args([str(FOLDER / 'nccl'), '-p', 'nccl_trace_rank_'])
    with contextlib.redirect_stdout(io.StringIO()):
        details, version = read_dir(arguments)
        db = build_db(details, arguments, version)
    assert len(db.groups) == 1 + PP * DP + TP * DP + TP * PP, len(db.groups)
    assert len(db.collectives) > 20, len(db.collectives)
    print(f'torch reads them: {len(db.groups)} groups, {len(db.collectives)} matched collectives')


if __name__ == '__main__':
    if sys.argv[1:2] == ['--rank']:
        gloo_rank(int(sys.argv[2]), sys.argv[3], FOLDER)
    write_nccl()
    check_with_torch()
    stall_gloo()
    for rank in range(4):
        dump = json.loads((FOLDER / 'gloo_json' / f'rank_{rank}.json').read_text())
        print(f'gloo rank {rank}: {len(dump["entries"])} entries, version {dump["version"]}')
