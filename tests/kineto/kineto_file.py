"""Writes one rank of a simulated job as PyTorch's profiler (Kineto) of a given year would: as Chrome Trace Events.

`style` selects the version:
- '2023': collective name, size, group size and dtype; times in whole microseconds since 1970;
- '2024': also the group and its ranks; times relative to baseTimeNanoseconds;
- '2026': also Seq, Comms Id and the PP: annotations;
- 'bare': as 2023, but without arguments on the kernels.
"""

import dataclasses
import gzip
import hashlib
import json

BACKWARD_THREAD = 100           # the backward thread's tid, minus the pid
STYLES = ('bare', '2023', '2024', '2026')
NAME_GROUPS = ('2024', '2026')  # styles whose collectives name their groups


@dataclasses.dataclass
class HostClock:
    """A host's clock, which shows t + offset + drift * t at common time t."""
    host: str
    offset: float = 0.0         # microseconds
    drift: float = 0.0          # microseconds per second, which is parts per million
    epoch: int = 1790857026000000        # of t = 0, microseconds since 1970
    base_ns: int = 1790857026000000000   # baseTimeNanoseconds, for styles that write it

    def read(self, t):
        """Microseconds since the epoch."""
        return t + self.offset + self.drift * 1e-6 * t


def comms_id(call, is_p2p):
    """As in PyTorch, a hash of the group's name, first rank and size, and of the call's number."""
    text = f'{call.group.name} {call.seq} {is_p2p} {call.group.ranks[0]} {len(call.group.ranks)}'
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], 'little')


class KinetoFile:
    """The file of one rank. If the job is part of a larger one, `number` and `world` are the rank and world size to write."""

    def __init__(self, job, rank, clock, style='2026', groups=(), gpu=0, with_stack=False, number=None, world=None,
                 on_demand=False):
        self.job, self.rank, self.clock, self.style, self.on_demand = job, rank, clock, style, on_demand
        self.number, self.world = rank if number is None else number, world or job.ranks
        self.pid, self.gpu = 4000 + 17 * rank, gpu
        self.groups = [group for group in groups if self.number in group.ranks]
        self.events = []
        self.external = 0
        self.annotations = []
        self._names()
        self._host(with_stack)
        for _, kernel in (item for item in job.programs[rank] if item[0] == 'launch'):
            self._kernel(kernel)
        self._gpu_annotations()
        self._close()

    def _time(self, t):
        if self.style in NAME_GROUPS:
            since = self.clock.epoch - self.clock.base_ns // 1000
            return round(since + self.clock.read(t), 3)
        return int(self.clock.epoch + self.clock.read(t))

    def _complete(self, category, name, pid, tid, begin, end, args):
        ts = self._time(begin)
        self.events.append({'ph': 'X', 'cat': category, 'name': name, 'pid': pid, 'tid': tid, 'ts': ts,
                            'dur': round(self._time(end) - ts, 3), 'args': args})

    def _flow(self, phase, category, number, pid, tid, t):
        event = {'ph': phase, 'id': number, 'pid': pid, 'tid': tid, 'ts': self._time(t), 'cat': category, 'name': category}
        if phase == 'f':
            event['bp'] = 'e'
        self.events.append(event)

    def _meta(self, name, pid, tid, args):
        self.events.append({'ph': 'M', 'name': name, 'ts': self._time(0), 'pid': pid, 'tid': tid, 'args': args})

    def _names(self):
        for pid, label, order in ((self.pid, 'CPU', self.pid), (self.gpu, f'GPU {self.gpu}', 5000000 + self.gpu)):
            self._meta('process_name', pid, 0, {'name': 'python3'})
            self._meta('process_labels', pid, 0, {'labels': label})
            self._meta('process_sort_index', pid, 0, {'sort_index': order})
        streams = sorted({what.stream for kind, what in self.job.programs[self.rank] if kind == 'launch'})
        for stream in streams:
            self._meta('thread_name', self.gpu, stream, {'name': f'stream {stream} '})
        self._meta('thread_name', self.pid, self.pid, {'name': f'thread {self.pid} (python3)'})
        backward = self.pid + BACKWARD_THREAD
        self._meta('thread_name', self.pid, backward, {'name': f'thread {backward} (pt_autograd_0)'})

    def _next(self):
        self.external += 1
        return self.external

    def _host(self, with_stack):
        for kind, name, begin, end in self.job.host[self.rank]:
            if kind == 'sync':
                number = self._next()
                self._complete('cuda_runtime', name, self.pid, self.pid, begin, end,
                               {'cbid': 165, 'correlation': 900000 + number})
                continue
            if name.startswith('PP:') and self.style != '2026':
                continue
            self.annotations.append((name, begin, end))
            self._complete('user_annotation', name, self.pid, self.pid, begin, end,
                           {'External id': self._next(), 'Ev Idx': len(self.events)})
            if with_stack:
                self._complete('python_function', f'train.py(40): {name.split("#")[0].lower()}', self.pid, self.pid,
                               begin - 0.4, end + 0.4, {'Python id': self.external, 'Python parent id': None})

    def _collective_args(self, kernel, on_kernel):
        call = kernel.collective
        p2p = call.name == 'send'
        name = call.name if not p2p or self.number == call.members[0] else 'recv'
        group_size = len(call.group.ranks)
        out = call.elements * (group_size if name == '_allgather_base' else 1)
        out = out // group_size if name == '_reduce_scatter_base' else out
        args = {'Collective name': name, 'In msg nelems': call.elements, 'Out msg nelems': out, 'Group size': group_size,
                'dtype': call.dtype, 'In split size': '[]', 'Out split size': '[]'}
        if self.style == 'bare':
            return {} if on_kernel else {'Input Dims': [[call.elements], [], []], 'Input type': ['TensorList', '', '']}
        if self.style == '2023':
            return args if on_kernel else {**args, 'Process Group ID': self.groups.index(call.group)}
        ranks = list(call.group.ranks)
        shown = ', '.join(map(str, ranks)) if len(ranks) <= 30 else ', '.join(map(str, ranks[:29])) + f', ..., {ranks[-1]}'
        args |= {'Process Group Name': call.group.name, 'Process Group Description': call.group.description,
                 'Process Group Ranks': f'[{shown}]'}
        if p2p:
            args['Dst Rank' if name == 'send' else 'Src Rank'] = call.members[1 if name == 'send' else 0]
        if self.style == '2024':
            return args
        return args | {'Seq': call.seq, 'Comms Id': comms_id(call, p2p)}

    def _kernel(self, kernel):
        """Adds the host's operator, its launch, the kernel, and the flows between them."""
        backward = kernel.backward_of is not None
        tid = self.pid + (BACKWARD_THREAD if backward else 0)
        host_begin, launch = kernel.launch - 2.6, kernel.launch
        external = self._next()
        if kernel.collective is None:
            operation = 'autograd::engine::evaluate_function: MmBackward0' if backward else kernel.host_op
            self._complete('cpu_op', operation, self.pid, tid, host_begin, launch + 5.2,
                           {'External id': external, 'Sequence number': kernel.forward_of or kernel.backward_of or 0,
                            'Fwd thread id': 1 if backward else 0, 'Ev Idx': len(self.events)})
        else:
            call = kernel.collective
            name = self._collective_args(kernel, False).get('Collective name', call.name)
            self._complete('cpu_op', f'c10d::{name}_', self.pid, tid, host_begin - 0.2, launch + 5.6, {'External id': external})
            self._complete('cpu_op', 'record_param_comms', self.pid, tid, host_begin, launch + 5.4,
                           {'External id': external, 'Ev Idx': len(self.events), **self._collective_args(kernel, False)})
            self._complete('user_annotation', f'nccl:{name.strip("_")}', self.pid, tid, host_begin + 0.2, launch + 5,
                           {'External id': self._next()})
        if kernel.forward_of is not None:
            self._flow('s', 'fwdbwd', kernel.forward_of, self.pid, tid, host_begin + 0.5)
        if backward:
            self._flow('f', 'fwdbwd', kernel.backward_of, self.pid, tid, host_begin + 0.5)
        call = {'gpu_memcpy': 'cudaMemcpyAsync', 'gpu_memset': 'cudaMemsetAsync'}.get(kernel.category, 'cudaLaunchKernel')
        correlation = 10000 + external
        self._complete('cuda_runtime', call, self.pid, tid, launch - 1, launch + 4,
                       {'External id': external, 'cbid': 211, 'correlation': correlation})
        self._flow('s', 'ac2g', correlation, self.pid, tid, launch - 1)
        args = {'External id': external, 'device': self.gpu, 'context': 1, 'stream': kernel.stream, 'correlation': correlation}
        if kernel.category == 'kernel':
            args |= {'queued': 0, 'registers per thread': 168, 'shared memory': 0, 'blocks per SM': 1.939394,
                     'warps per SM': 15.515152, 'grid': [256, 1, 1], 'block': [256, 1, 1], 'est. achieved occupancy %': 25}
        else:
            args |= {'bytes': kernel.bytes, 'memory bandwidth (GB/s)': round(kernel.bytes / kernel.duration / 1e3, 6)}
        if kernel.collective is not None:
            args |= self._collective_args(kernel, True)
        self._complete(kernel.category, kernel.name, self.gpu, kernel.stream, kernel.begin, kernel.end, args)
        self._flow('f', 'ac2g', correlation, self.gpu, kernel.stream, kernel.begin)

    def _gpu_annotations(self):
        """Repeats each annotation on each stream, around the kernels that were launched within it."""
        if self.style not in NAME_GROUPS:
            return
        kernels = [what for kind, what in self.job.programs[self.rank] if kind == 'launch']
        for name, begin, end in self.annotations:
            inside = [k for k in kernels if begin <= k.launch < end]
            for stream in sorted({k.stream for k in inside}):
                times = [k for k in inside if k.stream == stream]
                self._complete('gpu_user_annotation', name, self.gpu, stream, min(k.begin for k in times) - 0.001,
                               max(k.end for k in times) + 0.001, {'External id': self._next()})

    def _close(self):
        last = max(k.end for kind, k in self.job.programs[self.rank] if kind == 'launch')
        self.events.append({'ph': 'X', 'cat': 'Trace', 'ts': self._time(0), 'dur': round(self._time(last) - self._time(0), 3),
                            'pid': 'Spans', 'tid': 'PyTorch Profiler', 'name': 'PyTorch Profiler (0)', 'args': {'Op count': 0}})
        self.events.append({'name': 'Iteration Start: PyTorch Profiler', 'ph': 'i', 's': 'g', 'pid': 'Traces',
                            'tid': 'Trace PyTorch Profiler', 'ts': self._time(0)})
        self.events.append({'name': 'Record Window End', 'ph': 'i', 's': 'g', 'pid': '', 'tid': '',
                            'ts': self._time(last + 50)})

    def document(self):
        """The whole file as a Python value."""
        info = {'backend': 'nccl', 'rank': self.number, 'world_size': self.world}
        if self.style in NAME_GROUPS:
            info |= {'pg_count': len(self.groups), 'pg_config': [
                {'pg_name': g.name, 'pg_desc': g.description, 'backend_config': 'cuda:nccl', 'pg_size': len(g.ranks),
                 'ranks': list(g.ranks)} for g in self.groups], 'nccl_version': '2.27.5'}
        head = {'schemaVersion': 1,
                'deviceProperties': [{'id': self.gpu, 'name': 'NVIDIA H100 80GB HBM3', 'totalGlobalMem': 84943110144,
                                      'computeMajor': 9, 'computeMinor': 0, 'numSms': 132}],
                'distributedInfo': info}
        if self.style in NAME_GROUPS:
            head |= {'displayTimeUnit': 'ms', 'baseTimeNanoseconds': self.clock.base_ns}
        if self.style == '2026':
            head['host_name'] = self.clock.host
        if self.on_demand:      # the profiler learns the groups only from the collectives, so it writes them last
            info = head.pop('distributedInfo')
            for config in info.get('pg_config', []):
                config['ranks'] = str(config['ranks'])
            return {**head, 'traceEvents': self.events, 'distributedInfo': info, 'traceName': f'rank{self.number}.json'}
        return {**head, 'traceEvents': self.events, 'traceName': f'rank{self.number}.json'}

    def file_name(self):
        stamp = int((self.clock.epoch + self.clock.read(0)) * 1000)
        return f'{self.clock.host}_{self.pid}.{stamp}.pt.trace.json'

    def write(self, folder, compressed=False, name=None):
        """Writes the file into `folder` and returns its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / ((name or self.file_name()) + ('.gz' if compressed else ''))
        text = json.dumps(self.document(), separators=(',', ':')).encode()
        path.write_bytes(gzip.compress(text, 9, mtime=0) if compressed else text)
        return path
