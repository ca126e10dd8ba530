"""A campaign: a long series of seeded cases, such as faults or random configurations, which can be divided among
machines and continued after an interruption."""

import argparse
import json
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def parse_arguments(description, count, add=lambda parser: None):
    """Parses the flags that all campaigns have, and those that `add` adds. `count` is the default number of cases."""
    parser = argparse.ArgumentParser(description=description)
    tree = Path(__file__).resolve().parents[2]
    parser.add_argument('--build', type=Path, default=tree / 'build' / 'release')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--count', type=int, default=count)
    parser.add_argument('--part', default='1/1', help='K/N: only each Nth case, from the Kth')
    parser.add_argument('--jobs', type=int, default=1, help='cases that run at the same time')
    parser.add_argument('--kind', default='', help='only kinds whose names match this regular expression')
    parser.add_argument('--results', type=Path, help='a file with one line of JSON per case')
    parser.add_argument('--table', action='store_true', help='only print the table of --results')
    add(parser)
    return parser.parse_args()


def run(options, kinds, one, table):
    """Runs the cases that `options` choose and exits, with 1 if any of them failed.

    `kinds` yields the kind of each case; a case's number within its kind and the seed determine it. `one(kind, seed)`
    runs a case and returns a dictionary with at least 'what' (the case in words), 'seconds' and 'problems'.
    `table(results)` returns the text that concludes the campaign.
    """
    results = []
    if options.results and options.results.exists():
        results = [json.loads(line) for line in options.results.read_text().splitlines()]
    if not options.table:
        if os.geteuid() == 0:
            os.environ.setdefault('OMPI_ALLOW_RUN_AS_ROOT', '1')
            os.environ.setdefault('OMPI_ALLOW_RUN_AS_ROOT_CONFIRM', '1')
        _run_open_cases(options, kinds, one, results)
    if not results:
        sys.exit('no cases')
    print(table(results))
    failed = sum(bool(each['problems']) for each in results)
    print(f'{len(results) - failed} passed, {failed} failed')
    sys.exit(1 if failed else 0)


def _run_open_cases(options, kinds, one, results):
    """Runs the cases without a result, and appends their results to the list and the file."""
    part, parts = map(int, options.part.split('/'))
    known = {(each['kind'], each['seed']) for each in results}
    numbers, todo = {}, []
    for index, kind in enumerate(kinds):
        numbers[kind] = numbers.get(kind, 0) + 1
        case = kind, f'{options.seed}.{numbers[kind]}'
        if index % parts == part - 1 and re.search(options.kind, kind) and case not in known:
            todo.append(case)

    def recorded(case):
        kind, seed = case
        began = time.monotonic()
        try:
            result = one(kind, seed)
        except Exception as error:    # a case that could not be run has failed, too
            result = {'what': kind, 'seconds': 0, 'problems': [f'{type(error).__name__}: {error}']}
        return {'kind': kind, 'seed': seed, **result, 'took': time.monotonic() - began}

    with ThreadPoolExecutor(options.jobs) as pool:
        for done, result in enumerate(pool.map(recorded, todo), 1):
            results.append(result)
            print(f'{done}/{len(todo)} {result["kind"]} {result["seed"]}: {result["what"]}: '
                  f'{result["seconds"]:.2f} s{"; FAILED" if result["problems"] else ""}', flush=True)
            for problem in result['problems']:
                print(f'  {problem}', flush=True)
            if options.results:
                with open(options.results, 'a') as file:
                    file.write(json.dumps(result) + '\n')
