#!/usr/bin/env python3
"""Tests the checker itself, with small pages and a fake ./lockstep that prints the output they need."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parent / 'check'

LOCKSTEP = '''#!/bin/bash
words=$*
case "${words/ --verbose/}" in
  "lesson 4") [[ $words != *--verbose* ]] || echo "a table 7.25 ms" ;;
  "lesson 5")
    printf 'a heading\\n  step   0.973 ms\\n  bytes  1747.5 kB =\\n\\nlast line\\nthe mean loss is 2.5987\\n' ;;
  "lesson 5 --ranks 2") echo "sent 2621.2 kB" ;;
  "lesson 5 --ranks 4") echo "sent 3058.0 kB" ;;
  "lesson 5 --clock wall") echo "rank 0   c-----.... took $RANDOM.5 ms" ;;
  "lesson 5 --pp 2") echo "this lesson puts all ranks on the dp axis" >&2; exit 2 ;;
  "lesson 5 --parity on") echo "losses differ by 3.4e-08" ;;
  "lesson 5 --what-if late") echo "rank 0 calls all_reduce of 4 bytes (ring.h:1)" ;;
  "lesson 5 --save runs/saved") echo saved >runs/saved ;;
esac
'''

RUN = '# A page\n\n```\n./lockstep lesson 5\n```\n\n'


class Pages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tree = Path(self.folder.name)
        (self.tree / 'build').mkdir()
        (self.tree / 'lockstep').write_text(LOCKSTEP)
        (self.tree / 'lockstep').chmod(0o755)
        (self.tree / 'code.h').write_text('int main() {\n  return 0;\n}\n')

    def check(self, text, *flags):
        page = self.tree / 'README.md'
        page.write_text(text)
        run = subprocess.run([sys.executable, CHECK, '--tree', self.tree, '--build', self.tree / 'build', *flags, page],
                             capture_output=True, text=True, timeout=60)
        self.output = run.stdout + run.stderr
        self.assertNotIn('Traceback', self.output)
        return run.returncode

    def passes(self, text, *flags):
        self.assertEqual(self.check(text, *flags), 0, self.output)

    def fails(self, text, line, *said):
        self.assertEqual(self.check(text), 1, self.output)
        self.assertIn(f'README.md:{line}: ', self.output)
        for each in said:
            self.assertIn(each, self.output)

    # Figures

    def test_a_printed_figure_passes(self):
        self.passes(RUN + 'A step takes 0.973 ms.\n')

    def test_a_stale_figure_fails_with_its_line_and_the_nearest(self):
        self.fails(RUN + 'One line.\nA step takes 0.972 ms.\n', 8, '0.972 ms', 'nearest: 0.973')

    def test_a_lesson_prints_its_tables(self):
        self.passes('# A page\n\n```\n./lockstep lesson 4\n```\n\nA step takes 7.25 ms.\n')
        self.fails('# A page\n\n```\n./lockstep lesson 4 --detail brief\n```\n\nA step takes 7.25 ms.\n', 7, '7.25 ms')

    def test_another_unit_fails(self):
        self.fails(RUN + 'A step takes 0.973 kB.\n', 7, '0.973 kB')

    def test_thousands_may_be_grouped(self):
        self.passes(RUN + 'It has 1,747.5 kB.\n')

    def test_a_large_whole_number_is_a_figure_and_a_small_one_is_not(self):
        self.passes(RUN + 'With 4 ranks, lesson 12 and the year 2019.\n')
        self.fails(RUN + 'With 4096 tokens.\n', 7, '4096')

    def test_a_small_number_with_a_unit_is_a_figure(self):
        self.fails(RUN + 'All but 7 % is lost.\n', 7, '7 %')

    def test_tables_are_checked(self):
        self.fails(RUN + '| a | b |\n|---|---|\n| 1 | 0.5 ms |\n', 9, '0.5 ms')

    def test_a_flag_is_no_figure_and_its_value_is_known(self):
        self.passes('# A page\n\n```\n./lockstep lesson 5 --bucket 200000\n```\n\n'
                    'With `--bucket 3000` or 200,000 bytes.\n')

    def test_a_declared_figure_passes_and_names_why(self):
        self.passes(RUN + '<!-- declared: 7.5 30 (Rajbhandari 2020, table 1) -->\nOf 7.5 and 30 GB.\n')
        self.assertIn('Rajbhandari 2020', self.output)

    def test_a_declaration_counts_for_its_own_text_only(self):
        self.fails(RUN + '<!-- declared: 7.5 (a paper) -->\nOf 7.5 GB.\n\nOf 7.5 GB.\n', 10, '7.5 GB')

    def test_a_declaration_of_a_figure_that_is_gone_fails(self):
        self.fails(RUN + '<!-- declared: 7.5 (a paper) -->\nOf nothing.\n', 8, '7.5')

    def test_a_declaration_without_a_reason_fails(self):
        self.fails(RUN + '<!-- declared: 7.5 -->\nOf 7.5 GB.\n', 7, 'REASON')

    def test_a_loss_may_be_off_by_two_in_its_last_digit(self):
        self.passes(RUN + 'The loss is 2.5985.\n')
        self.fails(RUN + 'The loss is 2.5984.\n', 7, '2.5984')
        self.fails(RUN + 'The time is 2.5985.\n', 7, '2.5985')

    def test_a_bound_has_a_printed_number_below_it(self):
        page = '# A page\n\n```\n./lockstep lesson 5 --parity on\n```\n\n'
        self.passes(page + 'They differ by less than 1e-7.\n')
        self.fails(page + 'They differ by less than 1e-8.\n', 7, '1e-8')
        self.fails(page + 'They differ by less than 1e-4.\n', 7, '1e-4')

    # Arithmetic

    def test_a_derived_figure_passes(self):
        self.passes(RUN + '<!-- derived: 2 * 1747.5 = 3495.0 -->\nTwice is 3495.0 kB.\n')

    def test_wrong_arithmetic_fails_in_notes_and_in_texts(self):
        self.fails(RUN + '<!-- derived: 2 * 1747.5 = 3494.0 -->\nTwice is 3494.0 kB.\n', 7, '3495')
        self.fails(RUN + 'It is 2 x 1747.5 = 3496.2 kB.\n', 7, '3495')

    def test_right_arithmetic_in_a_text_passes_up_to_rounding(self):
        self.passes(RUN + 'It is 2 x 1747.5 = 3494.9 kB, and 3 x 3/4 x 1747.5 = 3931.9 kB.\n')

    def test_arithmetic_at_the_start_of_a_line(self):
        self.passes(RUN + 'It takes\n2 x 1747.5 = 3495.0 kB.\n')

    def test_arithmetic_over_lines_and_with_units(self):
        self.passes(RUN + 'It is 2 x 1747.5 kB\n= 3495.0 kB.\n')

    def test_operands_need_a_source_too(self):
        self.fails(RUN + '<!-- derived: 2 * 1848.5 = 3697.0 -->\nTwice is 3697.0 kB.\n', 7, '1848.5')

    def test_a_percentage_of_a_ratio(self):
        self.passes(RUN + '<!-- derived: 3/7 = 42.9 % -->\nIt is 42.9 %.\n')

    # Commands

    def test_an_inline_command_is_run(self):
        self.passes(RUN + '`./lockstep lesson 5\n--ranks 2` sends 2621.2 kB.\n')

    def test_runs_of_a_note_expand_braces(self):
        self.passes('# A page\n\n<!-- runs: ./lockstep lesson 5 --ranks {2,4} -->\nThey send 2621.2 and 3058.0 kB.\n')

    def test_a_command_that_fails_fails_the_page(self):
        self.fails('# A page\n\n```\n./lockstep lesson 5 --pp 2\n```\n', 4, 'ends with 2', 'dp axis')

    def test_a_command_that_shall_fail_passes(self):
        self.passes('# A page\n\n<!-- exit 2 -->\n```\n./lockstep lesson 5 --pp 2\n```\n')
        self.fails('# A page\n\n<!-- exit 2 -->\n```\n./lockstep lesson 5\n```\n', 5, 'ends with 0')

    def test_commands_share_the_folder_of_runs(self):
        self.passes('# A page\n\n```\n./lockstep lesson 5 --save runs/saved\ncmp runs/saved runs/saved\n```\n')
        self.assertFalse((self.tree / 'runs').exists())

    def test_each_command_may_have_an_exit_code_of_its_own(self):
        commands = '```\n./lockstep lesson 5\n./lockstep lesson 5 --pp 2\n```\n'
        self.passes('# A page\n\n<!-- exit 0 2 -->\n' + commands)
        self.fails('# A page\n\n<!-- exit 2 0 -->\n' + commands, 5, 'ends with 0')

    def test_what_is_not_run_is_listed(self):
        self.passes('# A page\n\n```\n./lockstep lesson 5 --device cuda\n```\n')
        self.assertIn('not run (needs a GPU)', self.output)
        self.passes('# A page\n\n<!-- not run: takes a day -->\n```\n./lockstep lesson 5 --pp 2\n```\n')
        self.assertIn('not run (takes a day)', self.output)

    # Blocks

    def test_a_block_as_printed_passes(self):
        self.passes(RUN + '```\na heading\n  step   0.973 ms\n...\nlast line\n```\n')

    def test_a_line_that_is_not_printed_fails(self):
        self.fails(RUN + '```\na heading\n  step   0.971 ms\n```\n', 9, '0.971', '0.973')
        self.fails(RUN + '```\na heading\nanother line\n```\n', 9, 'another line')

    def test_lines_that_are_not_contiguous_fail(self):
        self.fails(RUN + '```\na heading\n  bytes  1747.5 kB =\n```\n', 8)

    def test_the_order_of_lines_counts(self):
        self.fails(RUN + '```\nlast line\n...\na heading\n```\n', 8)

    def test_a_table_put_together_is_checked_by_its_figures(self):
        self.passes(RUN + '<!-- table -->\n```\nranks   time\n4       0.973 ms\n```\n')
        self.fails(RUN + '<!-- table -->\n```\nranks   time\n4       0.974 ms\n```\n', 10, '0.974')

    def test_a_run_on_the_wall_clock_is_checked_by_its_shape(self):
        page = '# A page\n\n```\n./lockstep lesson 5 --clock wall\n```\n\n'
        self.passes(page + '```\nrank 0   c--....... took 3.25 ms\n```\n')
        self.fails(page + '```\nrank 0   c--....... waits 3.25 ms\n```\n', 8, 'waits')
        self.fails(page + 'It took 16.5 ms.\n', 7, '16.5 ms')

    def test_update_rewrites_stale_blocks_only(self):
        self.passes(RUN + '```\na heading\n  step   0.971 ms\n```\n', '--update')
        self.passes((self.tree / 'README.md').read_text() + '\nIt takes 0.973 ms.\n')
        self.assertIn('  step   0.973 ms', (self.tree / 'README.md').read_text())

    def test_code_is_looked_for_in_the_sources(self):
        self.passes('# A page\n\n```cpp\nint main() {\n  return 0;\n```\n')
        self.fails('# A page\n\n```cpp\nint main() {\n  return 1;\n```\n', 4, 'no source')

    def test_code_alone_runs_no_command(self):
        self.passes(RUN + 'It takes 1 ms.\n\n```cpp\nint main() {\n```\n', '--code')
        self.assertEqual(self.check('# A page\n\n```cpp\nint main(void) {\n```\n', '--code'), 1)
        self.assertIn('README.md:4: no source', self.output)

    def test_a_place_in_a_source_has_the_call(self):
        (self.tree / 'core/comm').mkdir(parents=True)
        (self.tree / 'core/comm/ring.h').write_text('int a;\ngroup.all_reduce(x);\n')
        self.passes('# A page\n\nrank 0 calls all_reduce of 4 bytes (ring.h:2).\n')
        self.fails('# A page\n\nrank 0 calls all_reduce of 4 bytes (ring.h:1).\n', 3, 'ring.h:1', '[2]')

    def test_a_place_that_a_what_if_prints_is_one_in_the_changed_source(self):
        (self.tree / 'core/comm').mkdir(parents=True)
        (self.tree / 'core/comm/ring.h').write_text('int a;\ngroup.all_reduce(x);\n')
        place = '```\nrank 0 calls all_reduce of 4 bytes (ring.h:1)\n```\n'
        self.fails('# A page\n\n<!-- not run: changed code -->\n' + place, 5, 'ring.h:1')
        self.passes('# A page\n\n```\n./lockstep lesson 5 --what-if late\n```\n\n' + place)

    def test_quotations_are_printed_where_the_author_says_so(self):
        page = '# A page\n\n<!-- runs: ./lockstep lesson 5 --pp 2 (exit 2) -->\n<!-- quotes -->\n'
        self.passes(page + 'It says "this lesson puts all ranks on the dp axis".\n')
        self.fails(page + 'It says "this lesson lays some ranks on the dp axis".\n', 5, 'lays some ranks')

    # Notes

    def test_a_note_must_be_known_and_stand_above_something(self):
        self.fails('# A page\n\n<!-- rnus: ./lockstep lesson 5 -->\nText.\n', 3, 'rnus')
        self.fails('# A page\n\n<!-- runs: ./lockstep lesson 5 -->\n\nText.\n', 3, 'above nothing')


if __name__ == '__main__':
    unittest.main()
