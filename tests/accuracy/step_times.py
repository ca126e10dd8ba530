#!/usr/bin/env python3
"""Compares modelled step times with measured ones.

Lets the planner evaluate each row of measured_steps.csv, and prints the measured time over the modelled one. (The times
are those of lesson 16 on the meta device, see test_step_times.py, but equal ranks run only once.) A clock that is off
by the same factor everywhere still ranks configurations correctly, so the figures to judge are the spread, the largest
ratio over the smallest; the share of pairs of rows in the right order; and how much slower than the best measured row
the one is that is modelled as the fastest.

    tests/accuracy/step_times.py [--cluster a100] [--billions 3.6,18.4,39.1,175]

The rows are GPT models under Megatron-DeepSpeed on A100 GPUs, 8 to a node: mixed precision, full recomputation, 1F1B,
attention that stores its probabilities, and gradients that are summed after the backward pass. Source: vTrain's
validation data (Bang et al., MICRO 2024; repository VIA-Research/vTrain, data/ground_truth_multi.csv, MIT licence).

Constants of the preset a100 are fitted to the rows marked "fitted" (fit_steps.py). All others are predictions.
"""

import argparse
import csv
import itertools
import pathlib
import sys

sys.dont_write_bytecode = True
import planner  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent
VOCABULARY = 51200
SIZES = (3.6, 18.4, 39.1, 175)

# The rows that the preset's constants are fitted to: billions of parameters, and the largest TP.
FITTED, FITTED_TP = 3.6, 8
# The models of the bounds on orders and on errors, which were set before the other two were known here.
BOUNDED = (3.6, 18.4)
# A row is an outlier if it takes this many times as long, without its bubble, as a row of the same layout with half to
# twice its microbatch.
CONTRADICTED = 1.3


def measured(billions):
    """Returns the rows with these numbers of parameters. A row is an outlier or not by all rows of the file."""
    with open(FOLDER / 'measured_steps.csv', newline='') as file:
        rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    for row in rows:
        row['outlier'] = any(are_neighbours(row, other) and without_bubble(row) >= CONTRADICTED * without_bubble(other)
                             for other in rows)
    return [row for row in rows if row['parameters_billion'] in billions]


def are_neighbours(row, other):
    return (all(row[key] == other[key] for key in ('parameters_billion', 'gpus', 'tp', 'dp', 'pp'))
            and row['microbatch_size'] / 2 <= other['microbatch_size'] <= row['microbatch_size'] * 2)


def without_bubble(row):
    """Returns the measured time less the bubble of 1F1B, (p - 1)/(m + p - 1)."""
    microbatches = row['global_batch'] / row['dp'] / row['microbatch_size']
    return row['step_ms'] * microbatches / (microbatches + row['pp'] - 1)


def use_of(row):
    if row['outlier']:
        return 'outlier'
    return 'fitted' if row['parameters_billion'] == FITTED and row['tp'] <= FITTED_TP else 'predicted'


def flags(row):
    """Returns the planner's flags for a run like the measured one.

    Buckets are as large as they can be, because the measured runs sum gradients after the backward pass. Here, the sums
    of all buckets but the last still overlap with it.
    """
    of = {key: int(row[key]) for key in row}
    return {'model': 'gpt2', 'layers': of['layers'], 'hidden': of['hidden'], 'heads': of['heads'],
            'sequence': of['sequence'], 'vocab': VOCABULARY, 'precision': 'bf16', 'ranks': of['gpus'],
            'batch': of['global_batch'], 'tp': of['tp'], 'pp': of['pp'], 'dp': of['dp'], 'cp': 1, 'zero': 0,
            'microbatch': of['microbatch_size'], 'schedule': '1f1b', 'recompute': 'full', 'sequence-parallel': 'off',
            'bucket': 1 << 28}


def times(plans, rows, cluster):
    """Returns the step times (ms) of these rows on a cluster."""
    return [1e3 * plan['step_seconds'] for plan in plans.plans([flags(row) for row in rows], cluster)]


def spread(rows, times, use):
    """Returns the line about the rows with this use, or nothing if there are none."""
    ratios = [row['step_ms'] / ms for row, ms in zip(rows, times) if use_of(row) == use]
    if not ratios:
        return ''
    return (f'{use}: {len(ratios)} rows, ratios {min(ratios):.3f} to {max(ratios):.3f}, '
            f'spread {max(ratios) / min(ratios):.3f}, mean error {100 * mean_error(ratios):.1f} %\n')


def mean_error(ratios):
    """Returns the mean of |modelled / measured - 1| for ratios measured / modelled."""
    return sum(abs(1 / ratio - 1) for ratio in ratios) / len(ratios)


def pairs_in_order(rows, times, apart=1.1):
    """Returns how many pairs of rows whose measured times differ by more than 10 % are in the right order, and of how
    many. Only rows of the same model are compared."""
    pairs = [(a, b) for a, b in itertools.combinations(zip(rows, times), 2)
             if a[0]['parameters_billion'] == b[0]['parameters_billion']
             and max(a[0]['step_ms'], b[0]['step_ms']) > apart * min(a[0]['step_ms'], b[0]['step_ms'])]
    return sum((a[0]['step_ms'] < b[0]['step_ms']) == (a[1] < b[1]) for a, b in pairs), len(pairs)


def first_and_best(rows, times):
    """Returns the row of the shortest modelled time (of several, the one measured as the slowest), and the row of the
    shortest measured time."""
    first = min(zip(times, rows), key=lambda each: (each[0], -each[1]['step_ms']))[1]
    return first, min(rows, key=lambda row: row['step_ms'])


def tp_16_over_8(rows, times):
    """Returns each modelled time with TP 16 over the one with TP 8, the same microbatch, and twice as many replicas."""
    def key(row):
        return row['parameters_billion'], row['microbatch_size'], row['pp'], row['tp'] * row['dp']

    of_8 = {key(row): ms for row, ms in zip(rows, times) if row['tp'] == 8}
    return [ms / of_8[key(row)] for row, ms in zip(rows, times) if row['tp'] == 16]


def table(rows, times):
    lines = [f"{rows[0]['parameters_billion']:4}B   tp  dp  pp  microbatch   measured   modelled   ratio"]
    for row, ms in zip(rows, times):
        lines.append(f"       {row['tp']:4.0f}{row['dp']:4.0f}{row['pp']:4.0f}{row['microbatch_size']:12.0f}"
                     f"{row['step_ms']:11.1f}{ms:11.1f}{row['step_ms'] / ms:8.3f}  {use_of(row)}")
    return '\n'.join([*lines, spread(rows, times, 'fitted') + spread(rows, times, 'predicted')])


def verdict(rows, times):
    """Returns how far each criterion is from its bound."""
    rows, times = zip(*((row, ms) for row, ms in zip(rows, times) if row['parameters_billion'] in BOUNDED))
    right, pairs = pairs_in_order(rows, times)
    lines = [f'pairs that differ by more than 10 %: {right} of {pairs} in order, {100 * right / pairs:.1f} % '
             '(bound: 95)']
    if factors := tp_16_over_8(rows, times):
        lines.append(f"TP 16 over TP 8: {', '.join(f'{factor:.2f}' for factor in factors)} (bound: 1.6)")
    if others := [row['step_ms'] / ms for row, ms in zip(rows, times) if row['parameters_billion'] != FITTED]:
        lines.append(f'mean error of rows with other than {FITTED}B parameters: {100 * mean_error(others):.1f} % (bound: 12)')
    return '\n'.join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--cluster', default='a100', help='a preset or a cluster file [a100]')
    parser.add_argument('--billions', default=','.join(map(str, SIZES)), help='the models to run [all]')
    parser.add_argument('--build', default=planner.BUILD, help='its folder [build/release]')
    parser.add_argument('--jobs', type=int, default=2, help='runs at a time [2]')
    chosen = parser.parse_args()

    plans = planner.Planner(chosen.build, chosen.jobs)
    all_rows, all_times = [], []
    for billions in map(float, chosen.billions.split(',')):
        rows = measured([billions])
        found = times(plans, rows, chosen.cluster)
        all_rows += rows
        all_times += found
        print(table(rows, found), flush=True)
        first, best = first_and_best(rows, found)
        print(f"the modelled best takes {100 * (first['step_ms'] / best['step_ms'] - 1):.1f} % longer than the "
              'measured best\n')
    print(verdict(all_rows, all_times))


if __name__ == '__main__':
    main()
