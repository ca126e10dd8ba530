#!/usr/bin/env python3
"""Predicts published times, and writes the page that compares them: `./lockstep accuracy`.

    tests/accuracy/page.py [--update | --check] [--only SECTION,...] [--build DIR] [--jobs N]

Prints the page; with --update, writes README.md beside this script; with --check, exits with 1 if that page differs.
--only limits all of this to some sections. The steps and the published runs take minutes, the others seconds.
"""

import argparse
import difflib
import os
import pathlib
import sys

sys.dont_write_bytecode = True
import planner  # noqa: E402
from sections import all_reduce, attention, memory, published, steps  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parent / 'README.md'
# In the order of the page. A section's lines begin with its heading.
SECTIONS = {'all_reduce': all_reduce, 'attention': attention, 'steps': steps, 'published': published, 'memory': memory}

HEADER = """# Accuracy

How close is modelled time to measured time? This page compares predictions with published measurements, row by row,
including the misses. `./lockstep accuracy` generates it: the command runs the lessons on the meta device and the
planner, with clusters that describe the measured machines, and prints the page; `./lockstep accuracy --update` also
writes it. Tests check that the page matches the command's output.

A row is *fitted* if constants of the cluster are fitted to it, *predicted* if not, and an *outlier* if the rows beside
it contradict it. An error is predicted / published - 1, for a bandwidth or for a time. Mean errors are means of
absolute values.

Published errors of other simulators, for comparison: vTrain has a mean error of 14.73 % on its multi-node steps, which
are listed below, and 8.37 % on one node (Bang et al., MICRO 2024). Calculon has 3.65 % on the eight rows of Table 5 of
Korthikanti et al. 2022, also listed below (Isaev et al., SC 2023). Neither says which of its constants are fitted to
which rows, so the figures can be compared only roughly.
"""


def sections_of(text):
    """Divides a page into its header and its sections, by heading."""
    parts = text.split('\n## ')
    return {'': parts[0], **{part.splitlines()[0]: part for part in parts[1:]}}


def show(text):
    """Prints a text. If it is lost, ends this program with one line and exit code 1, as the lessons do."""
    try:
        print(text, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python tries again at its end
        sys.exit(f"can't write to stdout: {error.strerror}")


class Parser(argparse.ArgumentParser):
    """Refuses wrong flags in one line, as the lessons do."""

    def error(self, message):
        self.exit(2, f"lockstep: accuracy: {message}; './lockstep accuracy --help' lists the flags\n")


def main():
    parser = Parser(prog='./lockstep accuracy', description=__doc__.splitlines()[0])
    parser.add_argument('--update', action='store_true', help='write the page, or the sections of --only')
    parser.add_argument('--check', action='store_true', help='compare with the written page; exit with 1 if it differs')
    parser.add_argument('--only', default=','.join(SECTIONS), help=f"sections: {', '.join(SECTIONS)}")
    parser.add_argument('--build', default=planner.BUILD, type=pathlib.Path, help='its folder [build/release]')
    parser.add_argument('--jobs', type=int, default=2, help='runs at a time [2]')
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.only.split(',') if name not in SECTIONS]:
        parser.error(f"--only {chosen.only}: there is no section '{unknown[0]}'; there are {', '.join(SECTIONS)}")
    if chosen.update and chosen.check:
        parser.error('--update and --check exclude each other')

    old = sections_of(PAGE.read_text()) if PAGE.exists() else {}
    new = {'': HEADER}
    for name in SECTIONS:
        if name in chosen.only.split(','):
            text = '\n'.join(SECTIONS[name].section(chosen.build, chosen.jobs)).rstrip('\n') + '\n'
            new[text[3:].splitlines()[0]] = text[3:]
    if chosen.check:
        status = 0
        for title, text in new.items():
            # A page's last section lacks the blank line before the next heading.
            before, after = old.get(title, '').rstrip('\n'), text.rstrip('\n')
            if before != after:
                pair = before.splitlines(), after.splitlines()
                show('\n'.join(difflib.unified_diff(*pair, str(PAGE), 'now', lineterm='', n=0)))
                status = 1
        if status:
            show("The page is not what the lessons give: './lockstep accuracy --update' writes it anew.")
        return status
    page = {**old, **new} if chosen.update else new
    text = '\n'.join(('## ' if title else '') + body.rstrip('\n') + '\n' for title, body in page.items())
    if chosen.update:
        PAGE.write_text(text)
    else:
        show(text.rstrip('\n'))
    return 0


if __name__ == '__main__':
    sys.exit(main())
