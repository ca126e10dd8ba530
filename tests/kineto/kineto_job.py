"""Simulates a training job on GPUs, and computes which rank waited for which.

A Job holds one program per rank: kernels in the order in which the host launches them. `run` computes when each kernel
begins and ends on a common clock. The members of a collective begin when their own stream reaches it, and end together.
kineto_file.py writes the trace that a profiler on each host would have recorded.

Times are in microseconds.
"""

import dataclasses
import random


@dataclasses.dataclass
class Collective:
    """One communication operation, with the calls of all its members."""
    name: str                   # PyTorch's name: allreduce, _allgather_base, _reduce_scatter_base, send (with recv)
    group: 'Group'
    seq: int
    elements: int
    dtype: str
    duration: float             # from the beginning of the last member's kernel
    kernel: str
    members: tuple              # global ranks; for a message: (sender, receiver)
    kernels: dict = dataclasses.field(default_factory=dict)     # by rank

    def waits(self):
        """{rank: (wait, peer)}: how long each member's kernel waited, and for which peer: the member that began last."""
        last = max(self.kernels.values(), key=lambda kernel: kernel.begin)
        return {rank: (last.begin - kernel.begin, last.rank) for rank, kernel in self.kernels.items()}


@dataclasses.dataclass
class Group:
    name: str
    description: str
    ranks: tuple
    calls: int = 0
    messages: int = 0


@dataclasses.dataclass
class Kernel:
    rank: int
    stream: int
    name: str
    duration: float
    needs: list                 # kernels that must end before this one begins
    category: str = 'kernel'
    collective: Collective = None
    host_op: str = 'aten::mm'
    forward_of: int = None      # a forward operation's number, which its backward operation shares
    backward_of: int = None
    bytes: int = 0
    launch: float = None
    begin: float = None
    end: float = None


class Job:
    """The program of each rank: ('launch', kernel), ('sync', None), ('open', name), ('close', None)."""

    def __init__(self, ranks, seed=0):
        self.ranks = ranks
        self.random = random.Random(seed)
        self.programs = [[] for _ in range(ranks)]
        self.collectives = []
        self.pending = {}       # collectives, by group and key, which members can join

    def launch(self, kernel):
        self.programs[kernel.rank].append(('launch', kernel))
        return kernel

    def compute(self, rank, stream, name, duration, needs=(), **more):
        return self.launch(Kernel(rank, stream, name, duration, list(needs), **more))

    def collective(self, rank, stream, group, key, name, kernel_name, elements, duration, needs=(), dtype='BFloat16',
                   members=None):
        """Adds `rank`'s part of the call that `key` identifies; its first member creates the call."""
        call = self.pending.get((group.ranks, group.name, key))
        if call is None:
            if name == 'send':
                seq, group.messages = group.messages + 1, group.messages + 1
            else:
                seq, group.calls = group.calls + 1, group.calls + 1
            call = Collective(name, group, seq, elements, dtype, duration, kernel_name, members or group.ranks)
            self.pending[(group.ranks, group.name, key)] = call
            self.collectives.append(call)
        kernel = Kernel(rank, stream, kernel_name, 0, list(needs), collective=call)
        call.kernels[rank] = kernel
        return self.launch(kernel)

    def open(self, rank, name):
        self.programs[rank].append(('open', name))

    def close(self, rank):
        self.programs[rank].append(('close', None))

    def sync(self, rank):
        """Makes the host wait until its GPU has finished all its work."""
        self.programs[rank].append(('sync', None))

    def run(self):
        """Computes all times. Sets the kernels' launch, begin and end; self.host lists each rank's annotations and syncs."""
        self.host = [[] for _ in range(self.ranks)]     # (kind, name, begin, end)
        clock = [10 + self.random.uniform(0, 40) for _ in range(self.ranks)]
        place = [0] * self.ranks
        opened = [[] for _ in range(self.ranks)]
        streams = [{} for _ in range(self.ranks)]       # by stream: its kernels, in order
        ready = {}                                      # by rank and stream: how many of its kernels have ended
        while True:
            moved = False
            for rank, program in enumerate(self.programs):
                while place[rank] < len(program):
                    kind, what = program[place[rank]]
                    if kind == 'sync':
                        ends = [k.end for kernels in streams[rank].values() for k in kernels]
                        if None in ends:
                            break
                        end = max([clock[rank], *ends]) + 3
                        self.host[rank].append(('sync', 'cudaDeviceSynchronize', clock[rank], end))
                        clock[rank] = end + 2
                    elif kind == 'open':
                        opened[rank].append((what, clock[rank]))
                        clock[rank] += 1.5
                    elif kind == 'close':
                        name, begin = opened[rank].pop()
                        self.host[rank].append(('annotation', name, begin, clock[rank]))
                        clock[rank] += 1.5
                    else:
                        what.launch = clock[rank] + 3
                        clock[rank] += 9 + self.random.uniform(0, 2)
                        streams[rank].setdefault(what.stream, []).append(what)
                    place[rank] += 1
                    moved = True
                for stream, kernels in streams[rank].items():
                    moved |= self._advance(kernels, ready, (rank, stream))
            if not moved:
                break
        if any(place[rank] < len(self.programs[rank]) for rank in range(self.ranks)):
            raise RuntimeError('the job deadlocks')
        for calls in self.collectives:
            if set(calls.kernels) != set(calls.members):
                raise RuntimeError(f'not all members called {calls.name} of {calls.group.name}')

    def _advance(self, kernels, ready, stream):
        """Computes the times of `stream`'s next kernels as far as possible. Returns whether any time was computed."""
        moved = False
        while ready.get(stream, 0) < len(kernels):
            index = ready.get(stream, 0)
            kernel = kernels[index]
            before = [k.end for k in kernel.needs] + ([kernels[index - 1].end] if index else [])
            if kernel.begin is None:
                if None in before:
                    break
                kernel.begin = max([kernel.launch + 2, *(end + 0.8 for end in before)])
                moved = True
            if kernel.end is None and kernel.collective is None:
                kernel.end = kernel.begin + kernel.duration
            if kernel.end is None:
                call = kernel.collective
                begins = [call.kernels[r].begin if r in call.kernels else None for r in call.members]
                if None in begins:
                    break
                kernel.end = max(begins) + call.duration + self.random.uniform(0, 0.4)
                kernel.duration = kernel.end - kernel.begin
            ready[stream] = index + 1
            moved = True
        return moved

    def waits(self):
        """For each rank, {peer: how long its communication kernels waited for that peer}."""
        total = [{} for _ in range(self.ranks)]
        for call in self.collectives:
            for rank, (wait, peer) in call.waits().items():
                if peer != rank:
                    total[rank][peer] = total[rank].get(peer, 0) + wait
        return total
