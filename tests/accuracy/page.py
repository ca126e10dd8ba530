#!/usr/bin/env python3
"""Predicts published times, and writes the page that compares them: `./lockstep accuracy`.

    tests/accuracy/page.py [--update | --check] [--only all_reduce,steps] [--build DIR] [--jobs N]

Prints the page; with --update, writes README.md beside this script; with --check, exits with 1 if that page differs.
--only limits all of this to some sections. The all-reduces take seconds, the steps minutes.
"""

import argparse
import concurrent.futures
import difflib
import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap

sys.dont_write_bytecode = True
import fit_all_reduce  # noqa: E402
import step_times  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent
PAGE = FOLDER / 'README.md'
MIB = 1 << 20

HEADER = """# Accuracy

How close is modelled time to measured time? This page puts predictions beside published measurements, row by row,
misses included. `./lockstep accuracy` makes it: it runs the lessons on the meta device, with clusters that describe the
measured machines, and prints the page; `./lockstep accuracy --update` also writes it. Tests check that the page is what
the command makes.

A row is *fitted* if constants of the cluster are fitted to it, *predicted* if not, and an *outlier* if the rows beside
it contradict it. An error is predicted / published - 1, of a bandwidth or of a time. Mean errors are means of absolute
values.

Published errors of other simulators, for comparison: vTrain has a mean error of 14.73 % on its multi-node steps, of
which some rows are below, and 8.37 % on one node (Bang et al., MICRO 2024). Calculon has 3.65 % on the eight rows of
Table 5 of Korthikanti et al. 2022 (Isaev et al., SC 2023). Neither says which of its constants are fitted to which
rows, so the figures can be compared only roughly.
"""


def paragraph(text):
    return [*textwrap.wrap(' '.join(text.split()), 120, break_on_hyphens=False), '']


def percent(error):
    return f'{100 * error:+.1f} %'


def size_text(size):
    return f'{size >> 10} KiB' if size < MIB else f'{size >> 20} MiB' if size < 1 << 30 else f'{size >> 30} GiB'


def table(head, rows):
    return [*('| ' + ' | '.join(row) + ' |' for row in (head, ['---'] * len(head), *rows)), '']


def regimes(entries):
    """Returns a table of mean errors by regime. Entries are (regime, use, error)."""
    rows = []
    for regime in dict.fromkeys(regime for regime, _, _ in entries):
        cells = [regime]
        for use in ('fitted', 'predicted'):
            errors = [abs(error) for of, how, error in entries if of == regime and how == use]
            cells.append(str(len(errors)))
            cells += ([f'{100 * value:.1f} %' for value in (sum(errors) / len(errors), max(errors))] if errors
                      else ['', ''])
        rows.append(cells)
    return table(['', 'fitted rows', 'mean error', 'largest', 'predicted rows', 'mean error', 'largest'], rows)


# --- All-reduces ---------------------------------------------------------------------------------

def seconds_of_all_reduce(build, gpu, nodes, size):
    """Returns the time of an all-reduce in lesson 1."""
    machine = fit_all_reduce.MACHINES[gpu, nodes]
    file = FOLDER / 'clusters' / f'{machine}.json'
    algorithm = fit_all_reduce.algorithm(gpu, nodes, size)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / 'report.json'
        subprocess.run([build / 'lessons' / 'lesson_01_collectives', '--device', 'meta', '--cluster', file, '--ranks',
                        str(fit_all_reduce.RANKS * nodes), '--elements', str(size // 4), '--algorithm', algorithm,
                        '--steps', '1', '--trace', 'none', '--quiet', '--report', report], check=True)
        return json.loads(report.read_text())['results']['all_reduce']['observed_seconds']


def all_reduce(build, jobs):
    lines = ['## All-reduces', '', *paragraph("""
        Bus bandwidths in GB/s, as nccl-tests defines them. Published: stas00/ml-engineering, network/README.md (August
        2026). `fit_all_reduce.py` fits the links of `clusters/*.json` to the rows marked as fitted, at most six constants
        for each machine. An array is *small* up to 512 KiB, *large* from 128 MiB. The A100 uses a ring. H200 and B200 use
        a low-latency ring up to 1 MiB, and reduce in the switch above: published for the H200, assumed for the B200. Four
        nodes use rings within the nodes, and along each rail between them.""")]
    entries, machines = [], []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for (gpu, nodes), machine in fit_all_reduce.MACHINES.items():
            ranks = fit_all_reduce.RANKS * nodes
            published = fit_all_reduce.measured(gpu, nodes)
            times = pool.map(lambda size, of=(gpu, nodes): seconds_of_all_reduce(build, *of, size), published)
            rows = []
            for (size, seconds), time in zip(published.items(), times):
                regime = 'small' if size < MIB else 'large' if size >= 128 * MIB else 'medium'
                use = 'fitted' if fit_all_reduce.fits(gpu, nodes, size) else 'predicted'
                where = 'one node' if nodes == 1 else f'{nodes} nodes'
                entries.append((f'{gpu}, {where}, {regime}', use, time / seconds - 1))
                rows.append([size_text(size), fit_all_reduce.algorithm(gpu, nodes, size),
                             f'{fit_all_reduce.bus_gb_per_s(size, ranks, seconds):.2f}',
                             f'{fit_all_reduce.bus_gb_per_s(size, ranks, time):.2f}', percent(seconds / time - 1), use])
            machines += [f'### {gpu}, {ranks} ranks (`clusters/{machine}.json`)', '']
            machines += table(['array', 'algorithm', 'published', 'predicted', 'error', 'use'], rows)
            machines += constants(machine)
    return [*lines, 'Errors of the times, by regime:', '', *regimes(entries), *machines]


def constants(machine):
    """Returns the table of a machine's protocols."""
    cluster = json.loads((FOLDER / 'clusters' / f'{machine}.json').read_text())
    rows = [[where, each['name'], f"{1e6 * each['latency_seconds']:.3f}", f"{each['bandwidth'] / 1e9:.2f}",
             fit_all_reduce.origin(machine, where, each['name'])]
            for where in ('within', 'between', 'in_switch')
            for each in cluster.get(where, {}).get('protocols', [])]
    return table(['link', 'protocol', 'α (µs)', '1/β (GB/s)', 'origin'], rows)


# --- Steps ---------------------------------------------------------------------------------------

def step_regime(row):
    if row['tp'] > 8:
        return 'TP 16, across nodes'
    if row['pp'] > 1:
        return 'TP within a node, with a pipeline'
    return 'TP within a node, no pipeline' if row['tp'] > 1 else 'data parallelism only'


def steps(build, jobs):
    lines = ['## Training steps', '', *paragraph("""
        Step times in ms of GPT models under Megatron-DeepSpeed on A100 GPUs, 8 to a node: the validation data of vTrain
        (Bang et al., MICRO 2024; repository VIA-Research/vTrain, data/ground_truth_multi.csv, MIT licence). Lesson 16 with
        the preset `a100`: three constants are fitted to the 3.6B rows with TP up to 8, those of launches, of attention,
        and of the bandwidth of NVLink (`fit_steps.py`). The three outliers are neither fitted nor counted in the mean
        errors.""")]
    rows = step_times.measured([3.6, 18.4])
    times = step_times.Model(build, jobs).times(rows, 'a100')
    entries = [(f"{row['parameters_billion']}B, {step_regime(row)}", step_times.use_of(row), ms / row['step_ms'] - 1)
               for row, ms in zip(rows, times)]
    lines += ['Errors by regime:', '', *regimes([each for each in entries if each[1] != 'outlier'])]
    lines += [f'- {line[0].upper()}{line[1:]}.' for line in step_times.verdict(rows, times).splitlines()] + ['']
    for billions in (3.6, 18.4):
        of = [(row, ms) for row, ms in zip(rows, times) if row['parameters_billion'] == billions]
        first = of[0][0]
        lines += [f"### {billions}B on {first['gpus']:.0f} GPUs, batch {first['global_batch']:.0f}", '']
        lines += table(['TP', 'DP', 'PP', 'microbatch', 'published', 'predicted', 'error', 'use'],
                       [[f"{row[key]:.0f}" for key in ('tp', 'dp', 'pp', 'microbatch_size')]
                        + [f"{row['step_ms']:.1f}", f'{ms:.1f}', percent(ms / row['step_ms'] - 1),
                           step_times.use_of(row)]
                        for row, ms in of])
    return lines


# --- Ring attention ------------------------------------------------------------------------------

# Shares of the ideal, forward and forward + backward, on 8 A100, by zhuzilin/ring-flash-attention's README.
RING_ATTENTION = {'contiguous': ('ring', 0.514, 0.525), 'zigzag': ('zigzag', 0.817, 0.898),
                  'striped': ('stripe', 0.696, 0.826)}
# The benchmark's configuration: Llama 3 8B's attention, 8,192 tokens per GPU, one sequence, causal, bf16.
RING_FLAGS = ['--ranks', '8', '--layers', '1', '--hidden', '4096', '--heads', '32', '--sequence', '65536',
              '--batch', '1', '--precision', 'bf16', '--steps', '1']


def attention(build, jobs):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / 'report.json'
        subprocess.run([build / 'lessons' / 'lesson_13_ring_attention', '--device', 'meta', '--cluster',
                        FOLDER / 'clusters' / 'a100_flash.json', *RING_FLAGS, '--trace', 'none', '--quiet', '--report',
                        report], check=True)
        found = json.loads(report.read_text())['results']['attention']
    lines = ['## Ring attention', '', *paragraph("""
        Share of the ideal in %: the time of one GPU with the tokens of one rank, times the number of ranks, over the time
        of all ranks with the whole sequence. Published: zhuzilin/ring-flash-attention, README, 8 x A100, 8,192 tokens per
        GPU, 32 heads of 128, causal, bf16. Lesson 13 with `clusters/a100_flash.json`: attention at the rate of the
        benchmark's own single-GPU run (94.7 iterations/s, forward + backward), links as in `clusters/a100_nvlink.json`,
        and one constant fitted to the three rows marked as fitted: the memory's share, which stands for the benchmark's
        merges in fp32 by separate kernels. Masked and unmasked blocks have the same rate here; in the benchmark, masked
        ones are slower, which stripes suffer from most. The benchmark has 8 key and value heads; Lockstep has as many as
        query heads, so that its messages have four times the bytes. They are hidden all the same.""")]
    rows = []
    for layout, (name, forward, both) in RING_ATTENTION.items():
        for what, key, published in (('forward', 'forward', forward), ('forward + backward', 'with_backward', both)):
            use = 'fitted' if key == 'with_backward' else 'predicted'
            predicted = found[layout][key]
            rows.append([f'{layout} ({name})', what, f'{100 * published:.1f}', f'{100 * predicted:.1f}',
                         f'{100 * (predicted - published):+.1f} points', use])
    return [*lines, *table(['layout', 'pass', 'published', 'predicted', 'error', 'use'], rows)]


# --- The page ------------------------------------------------------------------------------------

SECTIONS = {'all_reduce': all_reduce, 'attention': attention, 'steps': steps}


def sections_of(text):
    """Divides a page into its header and its sections, by heading."""
    parts = text.split('\n## ')
    return {'': parts[0], **{part.splitlines()[0]: part for part in parts[1:]}}


class Parser(argparse.ArgumentParser):
    """Refuses wrong flags in one line, as the lessons do."""

    def error(self, message):
        self.exit(2, f"lockstep: accuracy: {message}; './lockstep accuracy --help' lists the flags\n")


def main():
    parser = Parser(prog='./lockstep accuracy', description=__doc__.splitlines()[0])
    parser.add_argument('--update', action='store_true', help='write the page, or the sections of --only')
    parser.add_argument('--check', action='store_true', help='compare with the written page; exit with 1 if it differs')
    parser.add_argument('--only', default=','.join(SECTIONS), help=f"sections: {', '.join(SECTIONS)}")
    parser.add_argument('--build', default=step_times.BUILD, type=pathlib.Path, help='its folder [build/release]')
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
            text = '\n'.join(SECTIONS[name](chosen.build, chosen.jobs)).rstrip('\n') + '\n'
            new[text[3:].splitlines()[0]] = text[3:]
    if chosen.check:
        status = 0
        for title, text in new.items():
            # A page's last section lacks the blank line before the next heading.
            before, after = old.get(title, '').rstrip('\n'), text.rstrip('\n')
            if before != after:
                pair = before.splitlines(), after.splitlines()
                print('\n'.join(difflib.unified_diff(*pair, str(PAGE), 'now', lineterm='', n=0)))
                status = 1
        if status:
            print("The page is not what the lessons give: './lockstep accuracy --update' writes it anew.")
        return status
    page = {**old, **new} if chosen.update else new
    text = '\n'.join(('## ' if title else '') + body.rstrip('\n') + '\n' for title, body in page.items())
    if chosen.update:
        PAGE.write_text(text)
    else:
        print(text, end='')
    return 0


if __name__ == '__main__':
    sys.exit(main())
