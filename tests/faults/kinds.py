"""The kinds of faults. Each function injects one fault into one run, and returns a Result."""

import random
import shutil
import subprocess

from signals import Signals
from storage import Storage
from viewers import Viewers


class Faults(Signals, Storage, Viewers):
    """Draws and injects faults."""

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
