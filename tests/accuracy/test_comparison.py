#!/usr/bin/env python3
"""Tests which published rows are set beside a modelled one, and which are refused."""

import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
import comparison  # noqa: E402
import published_runs  # noqa: E402
from sections import published  # noqa: E402


class NoPlans:
    """In place of a planner: every plan is empty."""

    def plans(self, configurations, cluster):
        return [{} for _ in configurations]


def refused(cluster, setup, rows, **flags):
    runs = published.Runs(NoPlans(), cluster, setup, rows, lambda row: [('', flags)])
    for row in rows:
        assert bool(runs.refused(row)) != bool(runs.of(row)), row.name
    return {row.name: runs.refused(row) for row in rows}


class Comparison(unittest.TestCase):
    def test_every_rule_refuses(self):
        for facet in comparison.RULES:
            found = comparison.differences({facet: 'unheard of'}, {facet: 'usual'})
            self.assertEqual([(each.facet, each.refuses) for each in found], [(facet, True)])
            self.assertEqual(found[0].why, comparison.RULES[facet].because)

    def test_listed_pairs_are_compared(self):
        for facet, rule in comparison.RULES.items():
            for (there, here), why in rule.listed.items():
                here = 'whatever' if here is comparison.ANY else here
                (found,) = comparison.differences({facet: there}, {facet: here})
                self.assertEqual((found.refuses, found.why), (False, why))
                if here != 'whatever':    # the other way round, no rule lists it
                    self.assertTrue(comparison.differences({facet: here}, {facet: there})[0].refuses)

    def test_equal_setups_have_no_differences(self):
        self.assertEqual(comparison.differences({'precision': 'bf16'}, {'precision': 'bf16'}), [])

    def test_facets_without_a_counterpart_are_mistakes(self):
        for there, here in (({'precision': 'bf16'}, {}), ({}, {'precision': 'bf16'}), ({'colour': 1}, {'colour': 1})):
            with self.assertRaises(ValueError):
                comparison.differences(there, here)

    def test_published_tables(self):
        for table in ('MEGATRON', 'KORTHIKANTI', 'LLAMA'):
            flags = {'microbatch': 1, 'schedule': 'interleaved', 'chunks': 2} if table != 'KORTHIKANTI' else {}
            cluster = 'h100' if table == 'LLAMA' else 'a100'
            rows = getattr(published_runs, table)
            setup = getattr(published_runs, f'{table}_SETUP')
            self.assertEqual(set(map(tuple, refused(cluster, setup, rows, **flags).values())), {()}, table)
            # Another recomputation, vocabulary or machine than the published one is refused.
            for wrong, facet in (({'recompute': 'none'}, 'recomputation'), ({'vocab': 256}, 'vocabulary')):
                for found in refused(cluster, setup, rows, **flags, **wrong).values():
                    self.assertEqual(found, [facet], table)
            for found in refused('a100' if cluster == 'h100' else 'h100', setup, rows, **flags).values():
                self.assertIn('machine', found, table)

    def test_torchtitan_is_refused(self):
        found = refused('h100', published_runs.TORCHTITAN_SETUP, published_runs.TORCHTITAN)
        self.assertEqual(found['405B, FSDP 8, TP 8, PP 8, 1F1B'], ['machine', 'precision', 'tensor-parallel messages'])
        self.assertEqual(found['70B, FSDP 32, TP 8'], ['machine', 'precision'])
        self.assertEqual(found['8B, FSDP 8'], ['machine', 'recomputation', 'kernels'])
        self.assertEqual(found['8B, FSDP 8, compiled'], ['machine', 'recomputation'])

    def test_a_row_that_matches_is_compared(self):
        row = published_runs.torchtitan('8B', 1, published_runs.FSDP_8B, 'bf16', 'selective')
        setup = {**published_runs.TORCHTITAN_SETUP, 'machine': comparison.MODELLED['h100']['machine']}
        self.assertEqual(refused('h100', setup, [row]), {'8B': []})


class LostOutput(unittest.TestCase):
    """A page that can't be printed."""

    def test_one_line_says_so(self):
        with open('/dev/full', 'w') as full:
            shown = subprocess.run([sys.executable, '-Bc', 'import page; page.show("text")'], stdout=full,
                                   stderr=subprocess.PIPE, text=True, cwd=pathlib.Path(__file__).parent)
        self.assertEqual((shown.returncode, shown.stderr), (1, "can't write to stdout: No space left on device\n"))


if __name__ == '__main__':
    unittest.main()
