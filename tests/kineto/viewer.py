"""Runs `lockstep_view --summary --json` and returns its figures."""

import json
import os
import subprocess


def summary(viewer, paths):
    """The summary of the traces as a Python value, with times in seconds. Raises RuntimeError if the viewer fails."""
    done = subprocess.run([viewer, '--summary', '--json', *map(str, paths)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env={**os.environ, 'DISPLAY': ''}, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f'exit code {done.returncode}: {done.stderr.strip()}')
    return json.loads(done.stdout)


def microseconds(seconds):
    return seconds * 1e6
