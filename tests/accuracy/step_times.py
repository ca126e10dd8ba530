#!/usr/bin/env python3
"""Compares modelled step times with measured ones.

Runs lesson 16 on the meta device for each row of measured_steps.csv, and prints the measured time over the modelled
one. A clock that is off by the same factor everywhere still ranks configurations correctly, so the figure to judge is
the spread: the largest ratio over the smallest.

    tests/accuracy/step_times.py [--cluster a100] [--billions 3.6,18.4]

The rows are GPT models under Megatron-DeepSpeed on A100 GPUs, 8 to a node: mixed precision, full recomputation, 1F1B,
attention that stores its probabilities, and gradients that are summed after the backward pass. Source: vTrain's
validation data (Bang et al., MICRO 2024; repository VIA-Research/vTrain, data/ground_truth_multi.csv, MIT licence).

Three constants of the preset a100 are fitted to the rows marked "fitted". All others are predictions.
"""

import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
VOCABULARY = 51200

FITTED = 3.6    # billions of parameters of the rows that may be used for fitting, if tp is at most 8
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
    return 'fitted' if row['parameters_billion'] == FITTED and row['tp'] <= 8 else 'predicted'


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


def modelled_ms(row, cluster, build):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, 'report.json')
        lesson = os.path.join(build, 'lessons', 'lesson_16_all_axes')
        subprocess.run([lesson, *flags(row, cluster, report)], check=True)
        with open(report) as file:
            return 1e3 * json.load(file)['phases'][0]['last_step_seconds']


def spread(rows, times, use):
    """Returns the line about the rows with this use, or nothing if there are none."""
    ratios = [row['step_ms'] / ms for row, ms in zip(rows, times) if use_of(row) == use]
    if not ratios:
        return ''
    return (f'{use}: {len(ratios)} rows, ratios {min(ratios):.3f} to {max(ratios):.3f}, '
            f'spread {max(ratios) / min(ratios):.3f}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--cluster', default='a100', help='a preset or a cluster file [a100]')
    parser.add_argument('--billions', default='3.6,18.4', help='the models to run [3.6,18.4]')
    parser.add_argument('--build', default=FOLDER.parents[1] / 'build' / 'release', help='its folder [build/release]')
    parser.add_argument('--jobs', type=int, default=2, help='runs at a time [2]')
    chosen = parser.parse_args()

    for billions in map(float, chosen.billions.split(',')):
        rows = measured([billions])
        with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
            times = list(pool.map(lambda row: modelled_ms(row, chosen.cluster, chosen.build), rows))
        print(f'{billions:4}B   tp  dp  pp  microbatch   measured   modelled   ratio')
        for row, ms in zip(rows, times):
            print(f"       {row['tp']:4.0f}{row['dp']:4.0f}{row['pp']:4.0f}{row['microbatch_size']:12.0f}"
                  f"{row['step_ms']:11.1f}{ms:11.1f}{row['step_ms'] / ms:8.3f}  {use_of(row)}")
        print(spread(rows, times, 'fitted') + spread(rows, times, 'predicted'))


if __name__ == '__main__':
    main()
