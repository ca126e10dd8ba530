"""The registry of test_hostile.py's cases, and the valid trace that they damage.

Each case is a function that writes files into an empty folder and returns the paths to give to the viewer. The decorator
`case` states the correct exit codes: 2 with a one-line error message, 0 if the files are readable, or either.
hostile_archives.py damages compressed files, hostile_documents.py their contents.
"""

import gzip
import json

CASES = {}


def case(*codes, says=''):
    """Registers a case with its correct exit codes, and with a text that the error message must contain."""
    def register(function):
        CASES[function.__name__] = (function, codes, says)
        return function
    return register


def event(**more):
    return {'ph': 'X', 'cat': 'cpu_op', 'name': 'aten::mm', 'pid': 10, 'tid': 10, 'ts': 100.5, 'dur': 7.25,
            'args': {'External id': 1}, **more}


def trace(rank=0, world=2, events=None, **top):
    """A small valid trace: two steps, a forward and a backward pass with a flow, and two all-reduces on a GPU."""
    pid = 10 + rank
    all_events = [
        {'ph': 'M', 'name': 'process_name', 'ts': 0, 'pid': pid, 'tid': 0, 'args': {'name': 'python3'}},
        {'ph': 'M', 'name': 'thread_name', 'ts': 0, 'pid': 0, 'tid': 7, 'args': {'name': 'stream 7 '}},
    ]
    for step in (1, 2):
        t = 1000.0 * step
        all_events += [
            event(cat='user_annotation', name=f'ProfilerStep#{step}', pid=pid, tid=pid, ts=t, dur=900.0),
            event(cat='user_annotation', name='PP:0F0', pid=pid, tid=pid, ts=t + 10, dur=200.0),
            event(cat='user_annotation', name='PP:0B0', pid=pid, tid=pid, ts=t + 300, dur=200.0),
            event(pid=pid, tid=pid, ts=t + 20, dur=50.0),
            event(name='autograd::engine::evaluate_function: MmBackward0', pid=pid, tid=pid, ts=t + 310, dur=50.0),
            {'ph': 's', 'id': step, 'pid': pid, 'tid': pid, 'ts': t + 25, 'cat': 'fwdbwd', 'name': 'fwdbwd'},
            {'ph': 'f', 'id': step, 'pid': pid, 'tid': pid, 'ts': t + 315, 'cat': 'fwdbwd', 'name': 'fwdbwd', 'bp': 'e'},
        ]
        for index, name in enumerate(('gemm', 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)')):
            correlation = 10 * step + index
            all_events += [
                event(cat='cuda_runtime', name='cudaLaunchKernel', pid=pid, tid=pid, ts=t + 30 + 300 * index, dur=4.0,
                      args={'correlation': correlation}),
                event(cat='kernel', name=name, pid=0, tid=7, ts=t + 40 + 300 * index + 5 * rank * index, dur=100.0 - 5 * rank * index,
                      args={'device': 0, 'stream': 7, 'correlation': correlation, **({} if index == 0 else {
                          'Collective name': 'allreduce', 'In msg nelems': 1024, 'Out msg nelems': 1024, 'Group size': world,
                          'dtype': 'Float', 'Process Group Name': '0', 'Process Group Description': 'default_pg',
                          'Process Group Ranks': str(list(range(world))), 'Seq': step, 'Comms Id': 77 + step})}),
            ]
    return {'schemaVersion': 1, 'deviceProperties': [], 'distributedInfo': {
        'backend': 'nccl', 'rank': rank, 'world_size': world, 'pg_count': 1,
        'pg_config': [{'pg_name': '0', 'pg_desc': 'default_pg', 'pg_size': world, 'ranks': list(range(world))}]},
        'host_name': 'host', 'baseTimeNanoseconds': 1790857026000000000,
        'traceEvents': all_events if events is None else events, 'traceName': 't.json', **top}


def save(path, document):
    text = document if isinstance(document, (bytes, str)) else json.dumps(document)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def pair(folder, **top):
    return [save(folder / f'rank{rank}.pt.trace.json', trace(rank, **top)) for rank in (0, 1)]


def packed(document, **more):
    return gzip.compress(json.dumps(document, **more).encode(), 6, mtime=0)
