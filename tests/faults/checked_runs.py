"""A run of a lesson with one fault, and the checks that all kinds of faults share."""

import json
import random
import re
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from processes import Run, load_scale, state_of

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
HANG = 60                 # a run that takes this long after a fault hangs; multiplied, too
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


class CheckedRuns:
    """Starts runs and checks how they end. `binaries` is the folder of the lessons, `scratch` a folder for their files."""

    def __init__(self, binaries, scratch):
        self.binaries, self.scratch = Path(binaries), Path(scratch)
        self.text = self.scratch / 'text'
        self.text.write_text('\n'.join(map(str, range(2000))) + '\n')
        self.references, self.losses, self.one_at_a_time = {}, {}, threading.Lock()

    def start(self, draw, folder, launch, *flags, lesson=None, ranks=None, timeout=PATIENCE, **more):
        lesson = lesson or draw.choice(tuple(LESSONS))
        ranks = ranks or draw.choice(LESSONS[lesson])
        run = Run(self.binaries / lesson,
                  ['--data', str(self.text), '--launch', launch, '--ranks', str(ranks), '--timeout', f'{timeout:g}',
                   '--batch', '24', '--microbatches', microbatches(lesson), *flags], folder, **more)
        run.count = ranks
        return run, Result(f'{lesson}, {launch}, {ranks} ranks')

    def finish(self, run, result, since, allowed, orphans_too=True):
        """Waits for the end of the run, and checks that it ends in time and leaves no process behind."""
        result.allowed = allowed
        hangs = not run.wait(HANG * load_scale())
        result.scale = load_scale()
        result.seconds = (run.ended or time.monotonic()) - since
        result.check(not hangs, f'still runs {time.monotonic() - since:.0f} s after the fault')
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


def microbatches(lesson):
    return '1' if lesson < 'lesson_08' else '2'
