#!/usr/bin/env python3
"""Compares modelled step times with measured ones.

Runs lesson 16 on the meta device for each row of measured_steps.csv, and prints the measured time over the modelled
one. A clock that is off by the same factor everywhere still ranks configurations correctly, so the figures to judge are
the spread, the largest ratio over the smallest; and the share of pairs of rows in the right order.

    tests/accuracy/step_times.py [--cluster a100] [--billions 3.6,18.4]

The rows are GPT models under Megatron-DeepSpeed on A100 GPUs, 8 to a node: mixed precision, full recomputation, 1F1B,
attention that stores its probabilities, and gradients that are summed after the backward pass. Source: vTrain's
validation data (Bang et al., MICRO 2024; repository VIA-Research/vTrain, data/ground_truth_multi.csv, MIT licence).

Constants of the preset a100 are fitted to the rows marked "fitted" (fit_steps.py). All others are predictions.
"""

import argparse
import concurrent.futures
import csv
import hashlib
import itertools
import json
import os
import pathlib
import subprocess
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
BUILD = FOLDER.parents[1] / 'build' / 'release'
VOCABULARY = 51200

# The rows that the preset's constants are fitted to: billions of parameters, and the largest TP.
FITTED, FITTED_TP = 3.6, 8
# Measured times (ms) that the rows beside them contradict. The first is twice that of the row with half its microbatch;
# the others are 1.6 and 1.3 times those of the rows with twice their microbatch.
OUTLIERS = {9838.9, 8880.9, 6228.3}


def measured(billions):
    """Returns the rows with these numbers of parameters."""
    with open(FOLDER / 'measured_steps.csv', newline='') as file:
        rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    return [row for row in rows if row['parameters_billion'] in billions]


def use_of(row):
    if row['step_ms'] in OUTLIERS:
        return 'outlier'
    return 'fitted' if row['parameters_billion'] == FITTED and row['tp'] <= FITTED_TP else 'predicted'


def flags(row, cluster, report):
    """Returns the flags of a run like the measured one.

    Buckets are as large as they can be, because the measured runs sum gradients after the backward pass. Here, the sums
    of all buckets but the last still overlap with it.
    """
    of = {key: str(int(row[key])) for key in row}
    per_replica = int(row['global_batch']) // int(row['dp'])
    return ['--device', 'meta', '--cluster', cluster, '--ranks', of['gpus'], '--dp', of['dp'], '--pp', of['pp'],
            '--tp', of['tp'], '--layers', of['layers'], '--hidden', of['hidden'], '--heads', of['heads'],
            '--sequence', of['sequence'], '--vocab', str(VOCABULARY), '--precision', 'bf16',
            '--batch', of['global_batch'], '--microbatches', str(per_replica // int(row['microbatch_size'])),
            '--sequence-parallel', 'off', '--experts', '0', '--recompute', 'full', '--bucket', str(1 << 28),
            '--steps', '1', '--trace', 'none', '--parity', 'off', '--quiet', '--report', report]


class Model:
    """Runs lesson 16, several runs at a time, and remembers each time under the program, its flags and the cluster."""

    def __init__(self, build=BUILD, jobs=2):
        self.lesson = pathlib.Path(build) / 'lessons' / 'lesson_16_all_axes'
        self.jobs = jobs
        self.program = hashlib.sha256(self.lesson.read_bytes()).hexdigest()
        self.file = pathlib.Path(build) / 'step_times.json'
        self.known = json.loads(self.file.read_text()) if self.file.exists() else {}

    def times(self, rows, cluster):
        """Returns the step times (ms) of these rows on a cluster: the name of a preset, a file, or a dictionary."""
        with tempfile.TemporaryDirectory() as folder:
            if isinstance(cluster, dict):
                file = pathlib.Path(folder) / 'cluster.json'
                file.write_text(json.dumps(cluster))
                cluster = str(file)
            with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
                found = list(pool.map(lambda row: self.time(row, cluster, folder), rows))
        new = self.file.with_suffix(f'.{os.getpid()}')
        new.write_text(json.dumps(self.known))
        new.replace(self.file)
        return found

    def time(self, row, cluster, folder):
        content = pathlib.Path(cluster).read_text() if os.path.exists(cluster) else cluster
        key = hashlib.sha256(json.dumps([self.program, flags(row, content, '')]).encode()).hexdigest()
        if key not in self.known:
            report = os.path.join(folder, key)
            subprocess.run([self.lesson, *flags(row, cluster, report)], check=True)
            with open(report) as file:
                self.known[key] = 1e3 * json.load(file)['phases'][0]['last_step_seconds']
        return self.known[key]


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
    parser.add_argument('--billions', default='3.6,18.4', help='the models to run [3.6,18.4]')
    parser.add_argument('--build', default=BUILD, help='its folder [build/release]')
    parser.add_argument('--jobs', type=int, default=2, help='runs at a time [2]')
    chosen = parser.parse_args()

    model = Model(chosen.build, chosen.jobs)
    all_rows, all_times = [], []
    for billions in map(float, chosen.billions.split(',')):
        rows = measured([billions])
        times = model.times(rows, chosen.cluster)
        all_rows += rows
        all_times += times
        print(table(rows, times), flush=True)
    print(verdict(all_rows, all_times))


if __name__ == '__main__':
    main()
