"""A run of a lesson, its processes, and its trace."""

import json
import os
import re
import resource
import signal
import subprocess
import time
import uuid
from pathlib import Path

MARK = 'LOCKSTEP_FAULT'
PAUSE = 0.002


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b''


def state_of(process):
    """Returns the process's state, such as 'R', 'S' or 'T', or '' if the process is gone."""
    stat = _read(Path(f'/proc/{process}/stat'))
    return stat[stat.rfind(b')') + 2:][:1].decode() if stat else ''


def load_scale():
    """Returns how many processes compete for a core, at least 1. Time allowances are multiplied by this number."""
    return max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))


class Run:
    """One run, started as a user starts it. All its processes carry a mark in their environment, by which the search
    for orphans finds them."""

    def __init__(self, binary, flags, folder, trace=None, limits=None):
        """`limits` maps resources, such as resource.RLIMIT_FSIZE, to the run's limits."""
        self.binary, self.folder = Path(binary).resolve(), Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.trace = trace or self.folder / 'trace'
        self.mark = uuid.uuid4().hex
        self.flags = ['--trace', str(self.trace), *flags]
        self.out, self.err = self.folder / 'out', self.folder / 'err'

        def limit():
            for kind, most in (limits or {}).items():
                resource.setrlimit(kind, (most, most))
        with open(self.out, 'wb') as out, open(self.err, 'wb') as err:
            self.process = subprocess.Popen(
                [str(self.binary), *self.flags], stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                env={**os.environ, MARK: self.mark}, preexec_fn=limit)
        self.began = time.monotonic()
        self.ended = None

    def over(self):
        if self.process.poll() is None:
            return False
        self.ended = self.ended or time.monotonic()
        return True

    def wait(self, seconds):
        deadline = time.monotonic() + seconds
        while not self.over() and time.monotonic() < deadline:
            time.sleep(0.005)
        return self.over()

    def until(self, condition, seconds=60):
        """Waits until the condition holds. Returns its value, which is false if the run ends first."""
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value or self.over() or time.monotonic() > deadline:
                return value
            time.sleep(PAUSE)

    @property
    def code(self):
        return self.process.returncode

    @property
    def errors(self):
        return self.err.read_text(errors='replace')

    def processes(self):
        """Returns the ids of all its live processes."""
        word = f'{MARK}={self.mark}'.encode()
        found = []
        for entry in os.listdir('/proc'):
            if entry.isdigit() and word in _read(Path('/proc') / entry / 'environ') and state_of(entry) not in 'ZX':
                found.append(int(entry))
        return found

    def ranks(self):
        """The process id of each rank under mpirun. A rank's process exists from the moment it runs the lesson."""
        found = {}
        for process in self.processes():
            environment = _read(Path(f'/proc/{process}/environ'))
            rank = re.search(rb'(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)', environment)
            if rank and os.path.basename(_link(process)) == self.binary.name:
                found[int(rank[1])] = process
        return found

    def mpirun(self):
        for process in self.processes():
            if os.path.basename(_link(process)) in ('mpirun', 'orterun', 'mpiexec', 'prterun'):
                return process
        return None

    def kill_all(self):
        for process in self.processes():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.wait(10)

    def orphans(self, seconds):
        """Returns the processes that still exist `seconds` after the run has ended."""
        deadline = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    # The trace

    def rank_file(self, rank):
        return self.trace / f'rank{rank}.json'

    def size(self, rank):
        try:
            return self.rank_file(rank).stat().st_size
        except OSError:
            return 0

    def has_ended_trace(self, rank):
        """Returns whether the rank's file contains its last event."""
        try:
            with open(self.rank_file(rank), 'rb') as file:
                file.seek(max(0, self.size(rank) - 4096))
                return b'"name":"end"' in file.read()
        except OSError:
            return False

    def trace_problems(self, ranks, whole=(), spare=()):
        """Returns the faults in the ranks' files: each file must consist of complete lines, and contain as many spans as
        its last event states. The files of the ranks in `whole` must have that event; those in `spare` may end anywhere."""
        problems = []
        for rank in range(ranks):
            content = _read(self.rank_file(rank))
            if not content:
                if rank in whole:
                    problems.append(f'rank {rank} has no trace')
                continue
            *lines, rest = content.split(b'\n')
            if rest and rank not in spare:
                problems.append(f"rank {rank}'s trace ends within a line")
            if lines and lines[0] != b'[':
                problems.append(f"rank {rank}'s trace does not begin with a bracket")
            spans, counted = 0, None
            for line in lines[1:]:
                if not (line.startswith(b'{') and line.endswith(b'},')):
                    problems.append(f"rank {rank}'s trace has a broken line")
                    break
                spans += b'"ph":"X"' in line
                if b'"name":"end"' in line:
                    counted = json.loads(line[:-1])['args']['spans']
            if counted is None and rank in whole:
                problems.append(f"rank {rank}'s trace is not ended")
            if counted is not None and counted != spans:
                problems.append(f'rank {rank} counted {counted} spans and wrote {spans}')
        return problems


def _link(process):
    try:
        return os.readlink(f'/proc/{process}/exe').removesuffix(' (deleted)')
    except OSError:
        return ''
