#!/usr/bin/env python3
"""Runs `lockstep_view --summary` on damaged and hostile files: one clear line, bounded memory, no crash.

    tests/kineto/test_hostile.py --viewer LOCKSTEP_VIEW [--all] [--no-limit] [CASE...]

hostile_archives.py and hostile_documents.py create the files. By default, the test runs every case and a sample of the
wrong values in fields; with --all, it tries all values. --no-limit is for sanitizers, which need terabytes of address space.
"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import hostile                          # noqa: E402
import hostile_archives                 # noqa: E402, F401 (registers its cases)
import hostile_documents                # noqa: E402

UNPACKED = '256MB'      # the limit for unpacked data that the viewer is given
MEMORY = 2 << 30        # bytes of address space; libraries and the allocator reserve most of it without using it
SECONDS = 120
LONGEST_LINE = 400


def attempt(viewer, paths, limit):
    """Runs the viewer, and returns its exit code, standard output and standard error; on a time-out, (None, '', message)."""
    def bound():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        done = subprocess.run([viewer, '--summary', '--json', '--memory', UNPACKED, *map(str, paths)], preexec_fn=bound, timeout=SECONDS,
                              stdin=subprocess.DEVNULL, capture_output=True, env={**os.environ, 'DISPLAY': ''})
    except subprocess.TimeoutExpired:
        return None, '', f'took more than {SECONDS} s'
    return done.returncode, done.stdout, done.stderr.decode('utf-8', 'backslashreplace')


def fault(code, output, error, codes, says):
    """The first fault in the viewer's answer, or None."""
    if code is None or code < 0 or code > 2:
        return f'exit code {code}: {error.strip()[-300:]}'
    if code not in codes:
        return f'exit code {code}, expected {" or ".join(map(str, codes))}: {error.strip()[:300] or output[:300]}'
    lines = error.strip().splitlines()
    if code == 2:
        if len(lines) != 1:
            return f'{len(lines)} lines instead of one: {error[:300]!r}'
        if says not in lines[0]:
            return f'the line does not contain "{says}": {lines[0][:300]}'
    if len(lines) > 3 or any(len(line) > LONGEST_LINE for line in lines):
        return f'{len(lines)} lines, the longest of {max(map(len, lines))} characters'
    printed = error + output.decode('utf-8', 'backslashreplace')
    odd = [char for char in printed if (ord(char) < 32 and char not in '\n\t') or 0x7f <= ord(char) < 0xa0]
    if odd:
        return f'prints {odd[0]!r}'
    try:
        output.decode()
    except UnicodeDecodeError:
        return 'prints bytes that are not UTF-8'
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--viewer', required=True)
    parser.add_argument('--all', action='store_true')
    parser.add_argument('--no-limit', action='store_true')
    parser.add_argument('--verbose', action='store_true', help='print the exit code and errors of each run')
    parser.add_argument('cases', nargs='*')
    given = parser.parse_args()
    warnings.simplefilter('ignore')         # zipfile warns about duplicate names
    faults = []

    def one(name, build, codes, says):
        with tempfile.TemporaryDirectory() as folder:
            paths = build(pathlib.Path(folder))
            code, output, error = attempt(given.viewer, paths, not given.no_limit)
        wrong = fault(code, output, error, codes, says)
        if given.verbose:
            print(f'{name}: {code}: {error.strip()[:200]}', flush=True)
        if wrong:
            faults.append(name)
            print(f'{name}: {wrong}', flush=True)

    cases = [(name, *rest) for name, rest in hostile.CASES.items() if not given.cases or name in given.cases]
    if not given.cases:
        values = list(hostile_documents.wrong_values())
        if not given.all:
            values = random.Random(os.environ.get('LOCKSTEP_SEED', 1)).sample(values, 120)
        for name, text in values:
            cases.append((name, lambda folder, text=text: [hostile.save(folder / 'a.json', text)], (0, 2), ''))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda each: one(*each), cases))
    print(f'{len(cases)} hostile inputs, {len(faults)} faults')
    sys.exit(1 if faults else 0)


if __name__ == '__main__':
    main()
