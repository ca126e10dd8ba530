"""Faults that are signals: SIGKILL, SIGSTOP, SIGCONT and SIGTERM."""

import json
import os
import re
import signal
import time
from pathlib import Path

from checked_runs import GRACE, HANG, LONG, PATIENCE, TIMEOUT, CheckedRuns


class Signals(CheckedRuns):
    def kill(self, draw, folder):
        if draw.random() < 0.15:
            return self.kill_threads(draw, folder)
        return self.kill_rank(draw, folder, 2)

    def kill_at_start(self, draw, folder):
        """mpirun may still be starting other ranks."""
        return self.kill_rank(draw, folder, 0.04)

    def kill_rank(self, draw, folder, most_seconds):
        run, result = self.start(draw, folder, 'mpi', '--parity', 'off', '--steps', LONG)
        rank, moment = draw.randrange(run.count), draw.uniform(0, most_seconds)
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
