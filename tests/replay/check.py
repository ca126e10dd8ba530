#!/usr/bin/env python3
"""Compares a replay of a run's operations with a trace, span by span and to the picosecond.

  check.py BUILD OPERATIONS TRACE    two folders of runs with --kernels; usually the same one

The operations are timed as those of the run TRACE are, so the comparison also shows that retiming a run gives the
times of running it again. Reads the trace itself, without Lockstep's code. Exits with 1 if the spans differ.
"""

import json
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path


def traced_spans(folder):
    """Counts (rank, what, start, end) of all spans of a trace, in picoseconds."""
    spans = Counter()
    for file in folder.glob('rank*.json'):
        lanes = {}
        for line in file.read_text().splitlines():
            if not line.startswith('{'):
                continue
            event = json.loads(line.rstrip(','), parse_float=Decimal, parse_int=Decimal)
            if event['ph'] == 'M' and event['name'] == 'thread_name':
                lanes[event['tid']] = event['args']['name']
            elif event['ph'] == 'X':
                what = event['cat']
                if what == 'communication' and lanes[event['tid']] != 'compute':
                    what = 'receive' if 'receive' in lanes[event['tid']] else 'send'
                start, duration = event['ts'], event['dur']
                spans[int(event['pid']), what, int(start * 10**6), int((start + duration) * 10**6)] += 1
    return spans


def replayed_spans(build, operations, timed_as):
    result = subprocess.run([build / 'tests/replay_spans', operations, timed_as], capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(result.stderr.strip())
    spans = Counter()
    for line in result.stdout.splitlines():
        rank, what, start, end = line.split()
        spans[int(rank), what, int(start), int(end)] += 1
    return spans


def differences(build, operations, trace):
    """Returns the number of spans compared, and lines that say what differs."""
    replayed, traced = replayed_spans(build, operations, trace), traced_spans(trace)
    lines = [f'{kind}: {span}' for kind, some in (('replayed only', replayed - traced), ('traced only', traced - replayed))
             for span in sorted(some, key=lambda each: each[2])[:5]]
    return sum(traced.values()), lines


def main():
    count, lines = differences(*map(Path, sys.argv[1:4]))
    print(*lines, f'{count} spans compared', sep='\n')
    sys.exit(1 if lines or not count else 0)


if __name__ == '__main__':
    main()
