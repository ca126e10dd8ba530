#!/usr/bin/env python3
"""Tests the planner's times of measured rows against runs of lesson 16, and the rule for outliers.

    tests/accuracy/test_step_times.py [--build DIR]
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import planner  # noqa: E402
import step_times  # noqa: E402

BUILD = planner.BUILD


def by_lesson(row, folder):
    """Returns the time of the row's step in lesson 16, in which every rank runs, in seconds."""
    flags = step_times.flags(row)
    del flags['microbatch'], flags['schedule']    # lesson 16 counts microbatches, and has 1F1B
    flags |= {'microbatches': int(row['global_batch'] / row['dp'] / row['microbatch_size']), 'cluster': 'a100',
              'experts': 0, 'device': 'meta', 'steps': 1, 'trace': 'none', 'parity': 'off',
              'report': folder + '/report'}
    subprocess.run([pathlib.Path(BUILD) / 'lessons' / 'lesson_16_all_axes', '--quiet',
                    *(f'--{flag}={value}' for flag, value in flags.items())], check=True)
    return json.loads(pathlib.Path(folder, 'report').read_text())['phases'][0]['last_step_seconds']


class StepTimes(unittest.TestCase):
    def test_planner_and_lesson_give_the_same_times(self):
        layouts = {(3.6, 1, 64, 1, 8), (3.6, 1, 32, 2, 8), (3.6, 8, 8, 1, 32), (3.6, 16, 4, 1, 32), (18.4, 4, 32, 2, 8)}
        rows = [row for row in step_times.measured(step_times.SIZES)
                if tuple(row[key] for key in ('parameters_billion', 'tp', 'dp', 'pp', 'microbatch_size')) in layouts]
        self.assertEqual(len(rows), len(layouts))
        plans = planner.Planner(BUILD)
        plans.known = {}
        with tempfile.TemporaryDirectory() as folder:
            for row in rows:
                plan = plans.plan(step_times.flags(row), 'a100', folder)
                self.assertEqual(plan['step_seconds'], by_lesson(row, folder), row)

    def test_outliers(self):
        rows = step_times.measured(step_times.SIZES)
        self.assertEqual({row['step_ms'] for row in rows if row['outlier']}, {9838.9, 8880.9, 6228.3})
        self.assertEqual({use for row in rows if (use := step_times.use_of(row)) != 'predicted'}, {'fitted', 'outlier'})
        # Only neighbours in the microbatch contradict each other, and the bubble's share is no contradiction.
        row = {'parameters_billion': 1, 'gpus': 8, 'tp': 1, 'dp': 1, 'pp': 8, 'global_batch': 16, 'microbatch_size': 2,
               'step_ms': 15.0}
        self.assertFalse(step_times.are_neighbours(row, {**row, 'microbatch_size': 8}))
        self.assertFalse(step_times.are_neighbours(row, {**row, 'tp': 2}))
        self.assertTrue(step_times.are_neighbours(row, {**row, 'microbatch_size': 1}))
        self.assertEqual(step_times.without_bubble(row), 8.0)
        self.assertEqual(step_times.without_bubble({**row, 'pp': 1}), 15.0)

    def test_first_and_best(self):
        rows = [{'step_ms': ms} for ms in (3.0, 1.0, 2.0, 2.5)]
        self.assertEqual(step_times.first_and_best(rows, (9.0, 8.0, 7.0, 7.0)), (rows[3], rows[1]))


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--build', default=BUILD)
    chosen, others = parser.parse_known_args()
    BUILD = chosen.build
    unittest.main(argv=[sys.argv[0], *others])
