#!/usr/bin/env python3
"""Fits constants of a cluster to measured steps.

    tests/accuracy/fit_steps.py [--cluster a100] [--free KEYS] [--tp 8] [--output FILE] [--rounds 4] [--jobs 2]

Changes at most ten constants of the cluster, all of them keys of its file, until the modelled steps of the 3.6B rows of
measured_steps.csv with at most this TP, without the outliers (step_times.py), are closest to the measured ones:
least squares of log(modelled / measured), by Gauss and Newton, with derivatives from runs. Then prints how well the rows of
the other sizes, which the fit has not seen, are predicted. A key such as rates.attention.flops whose value is a list
means one factor for the whole list. A key that the rows hardly determine stays near its start, because a factor of e
counts as much as an error of --weight in one row.
"""

import argparse
import copy
import json
import math
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import planner  # noqa: E402
import step_times  # noqa: E402

MOST_CONSTANTS = 10
FREE = ('launch_seconds,rates.attention.flops,within.latency_seconds,within.bandwidth,between.latency_seconds,'
        'between.bandwidth')
FOLDER = pathlib.Path(__file__).resolve().parent


def cluster_of(name, build):
    """Returns a cluster file's content, or that of a preset, which a recorded run has."""
    if pathlib.Path(name).exists():
        return json.loads(pathlib.Path(name).read_text())
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([pathlib.Path(build) / 'lessons' / 'lesson_16_all_axes', '--device', 'meta', '--cluster', name,
                        '--steps', '1', '--parity', 'off', '--quiet', '--trace', folder], check=True)
        return json.loads((pathlib.Path(folder) / 'operations.json').read_text())['cluster']


def scaled(cluster, factors):
    """Returns the cluster with the value at each key times its factor."""
    changed = copy.deepcopy(cluster)
    for key, factor in factors.items():
        *path, last = key.split('.')
        at = changed
        for word in path:
            at = at[int(word) if isinstance(at, list) else word]
        value = at[last]
        at[last] = [each * factor for each in value] if isinstance(value, list) else value * factor
    return changed


def value_at(cluster, key):
    for word in key.split('.'):
        cluster = cluster[int(word) if isinstance(cluster, list) else word]
    return max(cluster) if isinstance(cluster, list) else cluster


def solve(matrix, right):
    """Returns x with matrix x = right, by elimination with pivots."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda j: abs(rows[j][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for j in range(size):
            if j != i:
                factor = rows[j][i] / rows[i][i]
                rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i])]
    return [rows[i][size] / rows[i][i] for i in range(size)]


class Fit:
    def __init__(self, plans, cluster, keys, rows, weight):
        self.plans, self.cluster, self.keys, self.rows, self.weight = plans, cluster, keys, rows, weight

    def errors(self, logs):
        """Returns log(modelled / measured) of each row, with each constant e^log times its start."""
        cluster = scaled(self.cluster, {key: math.exp(log) for key, log in zip(self.keys, logs)})
        times = step_times.times(self.plans, self.rows, cluster)
        return [math.log(ms / row['step_ms']) for row, ms in zip(self.rows, times)]

    def cost(self, errors, logs):
        return sum(error ** 2 for error in errors) + sum((self.weight * log) ** 2 for log in logs)

    def run(self, rounds, step=0.05):
        logs = [0.0] * len(self.keys)
        errors = self.errors(logs)
        print(f'start: root mean square {100 * root_mean_square(errors):.2f} %', flush=True)
        for number in range(rounds):
            slopes = []
            for i in range(len(logs)):
                moved = [log + (step if i == j else 0) for j, log in enumerate(logs)]
                slopes.append([(after - before) / step for after, before in zip(self.errors(moved), errors)])
            matrix = [[sum(a * b for a, b in zip(one, other)) + (self.weight ** 2 if one is other else 0)
                       for other in slopes] for one in slopes]
            right = [-sum(a * error for a, error in zip(one, errors)) - self.weight ** 2 * log
                     for one, log in zip(slopes, logs)]
            move = [max(-1.0, min(1.0, value)) for value in solve(matrix, right)]
            before = self.cost(errors, logs)
            for shrink in (1, 0.5, 0.25, 0.1):
                tried = [log + shrink * value for log, value in zip(logs, move)]
                found = self.errors(tried)
                if self.cost(found, tried) < before:
                    break
            else:
                break
            logs, errors = tried, found
            after = self.cost(errors, logs)
            print(f'round {number + 1}: root mean square {100 * root_mean_square(errors):.2f} %  '
                  + ', '.join(f'{key} x {math.exp(log):.3f}' for key, log in zip(self.keys, logs)), flush=True)
            if before - after < 1e-3 * before:
                break
        return logs


def root_mean_square(errors):
    return math.sqrt(sum(error * error for error in errors) / len(errors))


def rounded(value):
    return [rounded(each) for each in value] if isinstance(value, list) else float(f'{value:.3g}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--cluster', default='a100', help='start: a preset or a cluster file [a100]')
    parser.add_argument('--free', default=FREE, help=f'the keys to fit, separated by commas [{FREE}]')
    parser.add_argument('--tp', type=int, default=step_times.FITTED_TP, choices=(8, 16),
                        help=f'the largest TP of the rows to fit [{step_times.FITTED_TP}]')
    parser.add_argument('--output', help='write the fitted cluster to this file')
    parser.add_argument('--rounds', type=int, default=4, help='at most so many steps [4]')
    parser.add_argument('--weight', type=float, default=0.05, help='of the start, see above [0.05]')
    parser.add_argument('--build', default=planner.BUILD, help='its folder [build/release]')
    parser.add_argument('--jobs', type=int, default=2, help='runs at a time [2]')
    chosen = parser.parse_args()
    keys = chosen.free.split(',')
    if len(keys) > MOST_CONSTANTS:
        sys.exit(f'--free has {len(keys)} keys; at most {MOST_CONSTANTS}')

    step_times.FITTED_TP = chosen.tp
    start = cluster_of(chosen.cluster, chosen.build)
    plans = planner.Planner(chosen.build, chosen.jobs)
    rows = [row for row in step_times.measured([step_times.FITTED]) if step_times.use_of(row) == 'fitted']
    logs = Fit(plans, start, keys, rows, chosen.weight).run(chosen.rounds)
    fitted = scaled(start, {key: math.exp(log) for key, log in zip(keys, logs)})
    for key in keys:    # three digits, as a file has them; of a list, the largest value
        factor = rounded(value_at(fitted, key)) / value_at(fitted, key)
        fitted = scaled(fitted, {key: factor})
        print(f'  {key:28} {value_at(start, key):12.4g} -> {value_at(fitted, key):12.4g}')
    if chosen.output:
        pathlib.Path(chosen.output).write_text(json.dumps(fitted, indent=1) + '\n')

    all_rows = step_times.measured(step_times.SIZES)
    times = step_times.times(plans, all_rows, fitted)
    for billions in step_times.SIZES:
        of = [(row, ms) for row, ms in zip(all_rows, times) if row['parameters_billion'] == billions]
        print(step_times.table(*map(list, zip(*of))))
    print(step_times.verdict(all_rows, times))


if __name__ == '__main__':
    main()
