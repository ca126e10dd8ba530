"""The kinds of faults. Each function injects one fault into one run, and returns a Result."""

import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from processes import Run, load_scale, state_of
from viewer import Viewer

# The lessons that train, and with how many ranks.
LESSONS = {
    'lesson_02_data_parallel': (2, 3, 4), 'lesson_03_zero_1': (2, 3, 4), 'lesson_04_zero_2': (2, 3, 4),
    'lesson_05_zero_3': (2, 3, 4), 'lesson_06_tensor_parallel': (2, 4), 'lesson_07_sequence_parallel': (2, 4),
    'lesson_08_gpipe': (2, 4), 'lesson_09_1f1b': (2, 4), 'lesson_10_interleaved': (2, 4),
    'lesson_11_zero_bubble': (2, 4), 'lesson_12_expert_parallel': (2, 4), 'lesson_13_ring_attention': (2, 4),
    'lesson_14_mixed_precision': (2, 4), 'lesson_15_3d': (4,), 'lesson_16_all_axes': (8,)}
SMALL = ('lesson_02_data_parallel', 'lesson_05_zero_3', 'lesson_09_1f1b')    # their models may be smaller than usual
TIMEOUT = 1.0             # --timeout of runs with a stopped process, in seconds
PATIENCE = 60.0           # --timeout of the others: on a busy machine, a wait of seconds is no stall
GRACE = 2.0               # how late a run may end; multiplied by the machine's load
VIEWER_PATIENCE = 5.0     # how long a finished run waits for a viewer that does not read
HANG = 60                 # a run that takes this long after a fault hangs
LONG = '1000000'          # steps of a run that its fault must end


@dataclass
class Result:
    what: str                                       # the run and the fault in words
    seconds: float = 0                              # from the fault to the end of the run
    allowed: float = 0                              # how long that may take on an idle machine
    scale: float = 1                                # factor that accounts for the machine's load
    problems: list = field(default_factory=list)

    def check(self, holds, problem):
        if not holds:
            self.problems.append(problem)


class Faults:
    """Draws and injects faults. `binaries` is the folder of the lessons, `scratch` a folder for their files."""

    def __init__(self, binaries, scratch):
        self.binaries, self.scratch = Path(binaries), Path(scratch)
        self.text = self.scratch / 'text'
        self.text.write_text('\n'.join(map(str, range(2000))) + '\n')
        self.references, self.losses, self.one_at_a_time = {}, {}, threading.Lock()

    def inject(self, kind, seed):
        """Injects the fault that `kind` and `seed` determine."""
        draw = random.Random(f'{kind} {seed}')
        folder = self.scratch / f'{kind}-{seed}'.replace(' ', '_')
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            return KINDS[kind][1](self, draw, folder)
        finally:
            subprocess.run(['umount', str(folder / 'small')], stderr=subprocess.DEVNULL)
            shutil.rmtree(folder, ignore_errors=True)

    # Parts of faults

    def start(self, draw, folder, launch, *flags, lesson=None, ranks=None, timeout=PATIENCE, **more):
        lesson = lesson or draw.choice(tuple(LESSONS))
        ranks = ranks or draw.choice(LESSONS[lesson])
        run = Run(self.binaries / lesson,
                  ['--data', str(self.text), '--launch', launch, '--ranks', str(ranks), '--timeout', f'{timeout:g}',
                   '--batch', '24', '--microbatches', _microbatches(lesson), *flags], folder, **more)
        run.count = ranks
        return run, Result(f'{lesson}, {launch}, {ranks} ranks')

    def finish(self, run, result, since, allowed, orphans_too=True):
        """Waits for the end of the run, and checks that it ends in time and leaves no process behind."""
        result.allowed = allowed
        hangs = not run.wait(HANG)
        result.scale = load_scale()
        result.seconds = (run.ended or time.monotonic()) - since
        result.check(not hangs, f'still runs {HANG} s after the fault')
        if hangs:
            run.kill_all()
        late = allowed * result.scale + 0.5 * (result.scale - 1)
        result.check(hangs or result.seconds <= late,
                     f'over after {result.seconds:.1f} s; {allowed:g} s are allowed, {late:.1f} s at this load')
        if orphans_too and not hangs:
            left = run.orphans(2 * result.scale)
            result.check(not left, f'{len(left)} orphans, state {"".join(map(state_of, left))}')
            run.kill_all()

    def failed(self, run, result, *names):
        """Checks that the run failed with exit code 1 and with one line of output that matches all of `names`."""
        result.check(run.code == 1, f'exit code {run.code} instead of 1')
        lines = [line for line in run.errors.split('\n') if line.startswith('the run failed')]
        result.check(len(lines) == 1, f'{len(lines)} lines say that the run failed')
        for name in names:
            result.check(any(re.search(name, line) for line in lines), f'no line names {name}: {run.errors[:300]!r}')

    def good(self, run, result):
        result.check(run.code == 0, f'exit code {run.code} instead of 0: {run.errors[:300]!r}')

    def rank_begins(self, run, rank):
        """Waits for a rank's process. Returns its id, or a false value if the run ends first."""
        return run.until(lambda: run.ranks().get(rank))

    def trains(self, run, bytes_written=20000):
        return run.until(lambda: all(run.size(rank) >= bytes_written for rank in range(run.count)))

    # SIGKILL

    def kill(self, draw, folder):
        if draw.random() < 0.15:
            return self.kill_threads(draw, folder)
        run, result = self.start(draw, folder, 'mpi', '--parity', 'off', '--steps', LONG)
        rank, moment = draw.randrange(run.count), draw.uniform(0, 2)
        process = self.rank_begins(run, rank)
        time.sleep(moment)
        result.what += f': SIGKILL to rank {rank}, {moment:.2f} s after it began'
        since = time.monotonic()
        os.kill(process, signal.SIGKILL)
        self.finish(run, result, since, GRACE)
        self.failed(run, result, rf'rank {rank}\b', 'signal 9')
        result.problems += run.trace_problems(run.count)
        return result

    def kill_at_start(self, draw, folder):
        """mpirun may still be starting other ranks."""
        run, result = self.start(draw, folder, 'mpi', '--parity', 'off', '--steps', LONG)
        rank, moment = draw.randrange(run.count), draw.uniform(0, 0.04)
        process = self.rank_begins(run, rank)
        time.sleep(moment)
        result.what += f': SIGKILL to rank {rank}, {moment * 1000:.0f} ms after it began'
        since = time.monotonic()
        os.kill(process, signal.SIGKILL)
        self.finish(run, result, since, GRACE)
        self.failed(run, result, rf'rank {rank} on \S+ exited on signal 9')
        result.problems += run.trace_problems(run.count)
        return result

    def kill_threads(self, draw, folder):
        run, result = self.start(draw, folder, 'threads', '--parity', 'off', '--steps', LONG)
        moment = draw.uniform(0, 2)
        time.sleep(moment)
        result.what += f': SIGKILL to the process after {moment:.2f} s'
        since = time.monotonic()
        run.process.kill()
        self.finish(run, result, since, GRACE)
        result.check(run.code == -signal.SIGKILL, f'exit code {run.code}')
        # No process is left that could complete the last lines.
        result.problems += run.trace_problems(run.count, spare=range(run.count))
        return result

    # SIGSTOP

    def stop_at_start(self, draw, folder):
        run, result = self.start(draw, folder, 'mpi', '--parity', 'off', '--steps', LONG, timeout=TIMEOUT)
        rank, moment = draw.randrange(run.count), draw.uniform(0, 0.6) ** 2
        process = self.rank_begins(run, rank)
        time.sleep(moment)
        result.what += f': SIGSTOP to rank {rank}, {moment * 1000:.0f} ms after it began'
        return self.stop(run, result, rank, process)

    def stop_in_training(self, draw, folder):
        run, result = self.start(draw, folder, 'mpi', '--parity', 'off', '--steps', LONG, timeout=TIMEOUT)
        rank, moment = draw.randrange(run.count), draw.uniform(0, 0.5)
        self.trains(run)
        process = run.ranks().get(rank)
        time.sleep(moment)
        result.what += f': SIGSTOP to rank {rank}, in training'
        return self.stop(run, result, rank, process)

    def stop_at_end(self, draw, folder):
        parity = draw.choice(('on', 'off'))
        run, result = self.start(draw, folder, 'mpi', '--parity', parity, '--steps', '6', timeout=TIMEOUT)
        rank, moment = draw.randrange(run.count), draw.uniform(0, 0.5) ** 2
        process = self.rank_begins(run, rank)
        run.until(lambda: run.has_ended_trace(rank))
        time.sleep(moment)
        result.what += f', parity {parity}: SIGSTOP to rank {rank}, {moment * 1000:.0f} ms after its trace ended'
        return self.stop(run, result, rank, process)

    def stop(self, run, result, rank, process):
        since = time.monotonic()
        try:
            os.kill(process, signal.SIGSTOP)
        except (ProcessLookupError, TypeError):    # the run has ended already
            self.finish(run, result, since, HANG)
            self.good(run, result)
            result.what += ' (too late)'
            return result
        self.finish(run, result, since, TIMEOUT + GRACE)
        self.failed(run, result, rf'rank {rank}\b')
        result.problems += run.trace_problems(run.count)
        return result

    # SIGSTOP and SIGCONT

    def stop_and_continue(self, draw, folder):
        """A run that continues has not failed: if a part of it was stopped for less than the time-out, or if all of it, or
        only the process that the user started, was stopped for longer."""
        whom = draw.choice(('a rank', 'mpirun', 'the process that was started', 'all processes', 'all processes'))
        launch = 'mpi' if whom in ('a rank', 'mpirun') else draw.choice(('threads', 'mpi'))
        clock = draw.choice(('wall', 'modelled'))
        part = whom in ('a rank', 'mpirun')
        flags = ['--parity', 'off', '--steps', '20', '--clock', clock]
        run, result = self.start(draw, folder, launch, *flags, '--report', str(folder / 'report.json'),
                                 timeout=PATIENCE if part else 2 * TIMEOUT)
        pause = draw.uniform(0.1, 2) if part else 4 * TIMEOUT
        run.wait(draw.uniform(0, 1.5))
        if whom == 'a rank':
            stopped = [run.ranks().get(draw.randrange(run.count))]
        elif whom == 'mpirun':
            stopped = [run.mpirun()]
        elif whom == 'all processes':
            stopped = run.processes()
        else:
            stopped = [run.process.pid]
        stopped = [process for process in stopped if process]
        result.what += f', {clock} clock: SIGSTOP to {whom}, SIGCONT after {pause:.1f} s'
        _send(stopped, signal.SIGSTOP)
        time.sleep(pause)
        since = time.monotonic()
        _send(stopped, signal.SIGCONT)
        self.finish(run, result, since, HANG)
        self.good(run, result)
        result.check(run.errors == '', f'it says: {run.errors[:300]!r}')
        result.problems += run.trace_problems(run.count, whole=range(run.count))
        if run.code == 0:
            losses = json.loads((folder / 'report.json').read_text())['losses']
            result.check(losses == self.undisturbed(run, launch, flags), 'the losses differ from those of an undisturbed run')
        return result

    def undisturbed(self, run, launch, flags):
        """Returns the losses of the same run without a fault."""
        key = run.binary.name, run.count, launch, *flags
        with self.one_at_a_time:
            if key not in self.losses:
                folder = self.scratch / 'undisturbed'
                again, _ = self.start(random.Random(1), folder, launch, *flags, '--report', str(folder / 'report.json'),
                                      lesson=run.binary.name, ranks=run.count)
                again.wait(10 * HANG)
                self.losses[key] = json.loads((folder / 'report.json').read_text())['losses']
                shutil.rmtree(folder)
            return self.losses[key]

    # Tight limits

    def limited(self, draw, folder):
        """A run that its limits do not let start, or go on, says so."""
        limit, most = draw.choice((('open files', draw.randrange(20, 64)),
                                   ('bytes to a file', draw.randrange(1 << 10, 8 << 20)),
                                   ('bytes of address space', draw.randrange(100 << 20, 500 << 20))))
        kind = {'open files': resource.RLIMIT_NOFILE, 'bytes to a file': resource.RLIMIT_FSIZE,
                'bytes of address space': resource.RLIMIT_AS}[limit]
        run, result = self.start(draw, folder, draw.choice(('threads', 'mpi')), '--parity', 'off', '--steps', '6', '--quiet',
                                 limits={kind: most})
        result.what += f': at most {most} {limit}'
        self.finish(run, result, time.monotonic(), HANG)
        result.check(run.code in (0, 1, 2), f'exit code {run.code}: {run.errors[:300]!r}')
        if run.code == 1:
            lines = [line for line in run.errors.split('\n') if line.startswith('the run failed')]
            result.check(len(lines) == 1, f'{len(lines)} lines say that the run failed: {run.errors[:300]!r}')
        if run.code == 2:
            result.check(run.errors.count('\n') == 1, f'not one line: {run.errors[:300]!r}')
        return result

    # SIGTERM

    def terminate(self, draw, folder):
        launch = draw.choice(('threads', 'mpi'))
        steps = draw.choice((LONG, '6'))
        run, result = self.start(draw, folder, launch, '--parity', 'off', '--steps', steps)
        moment = draw.uniform(0, 2.5)
        run.wait(moment)
        handled = run.over() or _catches(run.process.pid, signal.SIGTERM)
        result.what += f', {steps} steps: SIGTERM after {moment:.2f} s'
        since = time.monotonic()
        over = run.over()
        if not over:
            run.process.terminate()
        self.finish(run, result, since, GRACE)
        # The run may have ended in the meantime. If it does not handle SIGTERM yet, the signal
        # kills it.
        allowed = {130, 0} if handled else {130, -signal.SIGTERM}
        result.check(run.code in allowed, f'exit code {run.code} instead of 130: {run.errors[:300]!r}')
        if run.code == 130:
            result.check('interrupted' in run.errors, 'it does not say that it was interrupted')
        result.problems += run.trace_problems(run.count)
        return result

    def mpirun_killed(self, draw, folder):
        run, result = self.start(draw, folder, 'mpi', '--parity', 'off', '--steps', LONG, timeout=TIMEOUT)
        what = draw.choice(('SIGKILL', 'SIGKILL', 'SIGSTOP'))
        if draw.random() < 0.5:
            self.trains(run)
        else:
            run.until(run.mpirun)
        moment = draw.uniform(0, 0.6)
        time.sleep(moment)
        result.what += f': {what} to mpirun'
        since = time.monotonic()
        os.kill(run.mpirun(), signal.Signals[what])
        self.finish(run, result, since, GRACE + (TIMEOUT if what == 'SIGSTOP' else 0))
        self.failed(run, result, 'mpirun')
        result.problems += run.trace_problems(run.count)
        return result

    # --save

    def save(self, draw, folder):
        lesson, launch = draw.choice(SMALL), draw.choice(('threads', 'threads', 'mpi'))
        with self.one_at_a_time:    # jobs share the references
            reference = self.reference(lesson, launch)
        target = folder / 'work' / 'checkpoint'
        target.parent.mkdir()
        has_old = draw.random() < 0.75
        if has_old:
            shutil.copytree(reference.old, target)
        before = _bytes_under(target.parent)
        run, result = self.start(draw, folder, launch, *reference.flags, '--steps', '3', '--save', str(target), lesson=lesson,
                                 ranks=2)
        run.until(lambda: _bytes_under(target.parent) != before)
        moment = draw.uniform(-0.1, 1.4) * reference.saving
        time.sleep(max(0, moment))
        name = draw.choice(('SIGTERM', 'SIGKILL'))
        process = run.process.pid
        if launch == 'mpi' and name == 'SIGKILL':
            process = run.ranks().get(0, process)
        result.what += f', {"an" if has_old else "no"} old checkpoint: {name} {moment * 1000:.0f} ms into --save'
        since = time.monotonic()
        try:
            os.kill(process, signal.Signals[name])
        except ProcessLookupError:
            pass
        self.finish(run, result, since, GRACE)
        losses, code, words = self.load(target, lesson, folder)
        known = [reference.new_losses] + [reference.old_losses] * has_old
        if code == 0:
            result.check(losses in known, f'the checkpoint loads, but is neither the old nor the new one: {losses}')
        else:
            result.check(not has_old, f'the old checkpoint is lost: {words!r}')
            result.check(code == 2 and words.count('\n') == 1, f'loading ends with {code}: {words!r}')
        if run.code == 0:
            result.check(losses == reference.new_losses, 'the run ended well, but its checkpoint is not there')
        return result

    @dataclass
    class Reference:
        """Two checkpoints of one model, and the losses of training that continues from each."""
        flags: list
        old: Path
        old_losses: list
        new_losses: list
        saving: float    # seconds that saving takes

    def reference(self, lesson, launch):
        if (lesson, launch) in self.references:
            return self.references[lesson, launch]
        flags = ['--parity', 'off', '--seed', '7', '--layers', '4', '--hidden', '128', '--quiet']
        folder = self.scratch / f'reference-{lesson}-{launch}'
        shutil.rmtree(folder, ignore_errors=True)
        losses, saving = {}, 0
        for name, steps in (('old', '2'), ('new', '3')):
            target = folder / name / 'checkpoint'
            target.parent.mkdir(parents=True)
            run, _ = self.start(random.Random(1), folder / name, launch, *flags, '--steps', steps, '--save', str(target),
                                lesson=lesson, ranks=2)
            changes = []
            while not run.over():
                size = _bytes_under(f'{target}.partial') + _bytes_under(target)
                if not changes or changes[-1][1] != size:
                    changes.append((time.monotonic(), size))
                time.sleep(0.001)
            saving = changes[-1][0] - changes[min(1, len(changes) - 1)][0]
            losses[name], code, words = self.load(target, lesson, folder / name)
            if code != 0:
                raise RuntimeError(f'the reference does not load: {words}')
        self.references[lesson, launch] = self.Reference(flags, folder / 'old' / 'checkpoint', losses['old'], losses['new'],
                                                         max(saving, 0.01))
        return self.references[lesson, launch]

    def load(self, checkpoint, lesson, folder):
        report = folder / 'loaded.json'
        report.unlink(missing_ok=True)
        done = subprocess.run(
            [str(self.binaries / lesson), '--data', str(self.text), '--load', str(checkpoint), '--steps', '3', '--ranks', '2',
             '--batch', '24', '--microbatches', _microbatches(lesson), '--parity', 'off', '--seed', '7',
             '--layers', '4', '--hidden', '128', '--quiet', '--trace', 'none', '--report', str(report)],
            capture_output=True, text=True, timeout=600)
        losses = json.loads(report.read_text())['losses'] if done.returncode == 0 else []
        return losses, done.returncode, done.stderr

    # The viewer

    def watched(self, draw, folder, viewer, manner):
        launch = draw.choice(('threads', 'mpi'))
        run, result = self.start(draw, folder, launch, '--parity', 'off', '--steps', '30', '--view',
                                 f'127.0.0.1:{viewer.port}')
        result.what += f': a viewer that is {manner}'
        return run, result

    def seen_through(self, run, result, viewer, since, allowed, complete):
        """The run must succeed and its trace must be complete; if `complete`, the viewer must hold the whole trace."""
        self.finish(run, result, since, allowed)
        self.good(run, result)
        result.problems += run.trace_problems(run.count, whole=range(run.count))
        deadline = time.monotonic() + 10    # the last bytes may still be on their way
        while complete and not viewer.drained(run, run.count) and time.monotonic() < deadline:
            time.sleep(0.01)
        if complete:
            result.check(viewer.drained(run, run.count), 'the viewer lacks a part of the trace')
        viewer.close()
        return result

    def viewer_killed(self, draw, folder):
        viewer = Viewer()
        viewer.open()
        run, result = self.watched(draw, folder, viewer, 'killed and restarted')
        for _ in range(draw.randrange(1, 5)):
            run.wait(draw.uniform(0.1, 0.5))
            if all(run.has_ended_trace(rank) for rank in range(run.count)) or run.over():
                break
            viewer.kill()
            run.wait(draw.uniform(0, 0.3))
            viewer.open()
        return self.seen_through(run, result, viewer, time.monotonic(), HANG, complete=True)

    def viewer_late(self, draw, folder):
        viewer = Viewer()
        run, result = self.watched(draw, folder, viewer, 'late')
        self.trains(run, draw.randrange(1000, 60000))
        viewer.open()
        return self.seen_through(run, result, viewer, time.monotonic(), HANG, complete=True)

    def viewer_deaf(self, draw, folder):
        return self.silent(draw, folder, 'deaf')

    def viewer_half_open(self, draw, folder):
        return self.silent(draw, folder, draw.choice(('half-open', 'backlog')))

    def silent(self, draw, folder, manner):
        viewer = Viewer(manner)
        viewer.open()
        run, result = self.watched(draw, folder, viewer, manner)
        run.until(lambda: all(run.has_ended_trace(rank) for rank in range(run.count)))
        return self.seen_through(run, result, viewer, time.monotonic(), VIEWER_PATIENCE + GRACE, complete=False)

    # A full disk

    def disk_full(self, draw, folder):
        """Uses a small file system, or a limit on the size of files (threads only: OpenMPI needs larger files)."""
        small, saved = folder / 'small', folder / 'checkpoint'
        small.mkdir()
        size = draw.randrange(16, 120) * 1024
        mounted = draw.random() < 0.7 and subprocess.run(
            ['mount', '-t', 'tmpfs', '-o', f'size={size}', 'none', str(small)], stderr=subprocess.DEVNULL).returncode == 0
        flags = ['--parity', 'off', '--steps', '200', '--layers', '4', '--hidden', '16', '--save', str(saved)]
        if mounted:
            run, result = self.start(draw, folder, draw.choice(('threads', 'mpi')), *flags, lesson=draw.choice(SMALL),
                                     trace=small / 'trace')
        else:
            size = 330 * 1024    # larger than a file of the checkpoint, smaller than a trace
            run, result = self.start(draw, folder, 'threads', *flags, lesson=draw.choice(SMALL),
                                     limits={resource.RLIMIT_FSIZE: size})
        result.what += f': {"a disk" if mounted else "files"} of {size // 1024} KiB for the trace'
        self.finish(run, result, time.monotonic(), HANG)
        self.good(run, result)
        warnings = [line for line in run.errors.split('\n') if 'trace' in line]
        result.check(len(warnings) == 1, f'{len(warnings)} warnings: {run.errors[:300]!r}')
        result.check((saved / 'manifest.json').exists(), 'the trained model is lost')
        for rank in range(run.count):
            content = run.rank_file(rank).read_bytes() if run.size(rank) else b''
            result.check(not content or content.endswith(b'\n'), f"rank {rank}'s trace ends within a line")
        return result


def _microbatches(lesson):
    return '1' if lesson < 'lesson_08' else '2'


def _send(processes, number):
    for process in processes:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass


def _catches(process, number):
    try:
        status = Path(f'/proc/{process}/status').read_text()
    except OSError:
        return True
    return bool(int(re.search(r'SigCgt:\s*(\w+)', status)[1], 16) >> (number - 1) & 1)


def _bytes_under(folder):
    """Returns the sizes and times of all files under a folder, except a run's lock, to detect any change."""
    found = []
    try:
        for entry in os.scandir(folder):
            if entry.name.endswith('.lock'):
                continue
            if entry.is_dir(follow_symlinks=False):
                found.append((entry.name, _bytes_under(entry.path)))
            elif (status := entry.stat(follow_symlinks=False)).st_size:
                found.append((entry.name, status.st_size, status.st_mtime_ns))
    except OSError:
        pass
    return sorted(found, key=str)


# Each kind's share of a campaign, in thousandths.
KINDS = {
    'SIGKILL': (110, Faults.kill),
    'SIGKILL at the start': (60, Faults.kill_at_start),
    'SIGSTOP at the start': (60, Faults.stop_at_start),
    'SIGSTOP in training': (60, Faults.stop_in_training),
    'SIGSTOP at the end': (60, Faults.stop_at_end),
    'stop and continue': (100, Faults.stop_and_continue),
    'SIGTERM': (120, Faults.terminate),
    'mpirun killed': (40, Faults.mpirun_killed),
    'tight limits': (40, Faults.limited),
    'save interrupted': (200, Faults.save),
    'viewer killed': (25, Faults.viewer_killed),
    'viewer late': (25, Faults.viewer_late),
    'viewer deaf': (25, Faults.viewer_deaf),
    'viewer half-open': (25, Faults.viewer_half_open),
    'disk full': (50, Faults.disk_full),
}
