"""Faults of storage: an interrupted --save, a full disk, and tight limits."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from checked_runs import GRACE, HANG, SMALL, CheckedRuns, microbatches


class Storage(CheckedRuns):
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
             '--batch', '24', '--microbatches', microbatches(lesson), '--parity', 'off', '--seed', '7',
             '--layers', '4', '--hidden', '128', '--quiet', '--trace', 'none', '--report', str(report)],
            capture_output=True, text=True, timeout=600)
        losses = json.loads(report.read_text())['losses'] if done.returncode == 0 else []
        return losses, done.returncode, done.stderr

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
