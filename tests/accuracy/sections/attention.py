"""Ring attention: lesson 13 with the constants of a single GPU's attention."""

import json
import pathlib
import subprocess
import tempfile

import fit_all_reduce
from tables import paragraph, table

# Shares of the ideal, forward and forward + backward, on 8 A100, by zhuzilin/ring-flash-attention's README.
RING_ATTENTION = {'contiguous': ('ring', 0.514, 0.525), 'zigzag': ('zigzag', 0.817, 0.898),
                  'striped': ('stripe', 0.696, 0.826)}
# The benchmark's configuration: Llama 3 8B's attention, 8,192 tokens per GPU, one sequence, causal, bf16.
RING_FLAGS = ['--ranks', '8', '--layers', '1', '--hidden', '4096', '--heads', '32', '--sequence', '65536',
              '--batch', '1', '--precision', 'bf16', '--steps', '1']


def section(build, jobs):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / 'report.json'
        subprocess.run([build / 'lessons' / 'lesson_13_ring_attention', '--device', 'meta', '--cluster',
                        fit_all_reduce.FOLDER / 'clusters' / 'a100_flash.json', *RING_FLAGS, '--trace', 'none',
                        '--quiet', '--report', report], check=True)
        found = json.loads(report.read_text())['results']['attention']
    lines = ['## Ring attention', '', *paragraph("""
        Share of the ideal in %: one GPU's time for the tokens of one rank, times the number of ranks, divided by the
        time that all ranks take for the whole sequence. Published: zhuzilin/ring-flash-attention, README, 8 x A100,
        8,192 tokens per GPU, 32 heads of 128, causal, bf16. Here: lesson 13 with `clusters/a100_flash.json`: attention
        at the rate of the benchmark's own single-GPU run (94.7 iterations/s, forward + backward), links as in
        `clusters/a100_nvlink.json`, and one constant fitted to the three rows marked as fitted: the memory share, which
        accounts for the benchmark's merges in fp32 by separate kernels. Masked and unmasked blocks have the same rate
        here; in the benchmark, masked ones are slower, which slows the striped layout most. The benchmark uses 8 key
        and value heads; Lockstep uses as many as query heads, so its messages are four times as large. They are hidden
        nevertheless.""")]
    rows = []
    for layout, (name, forward, both) in RING_ATTENTION.items():
        for what, key, published in (('forward', 'forward', forward), ('forward + backward', 'with_backward', both)):
            use = 'fitted' if key == 'with_backward' else 'predicted'
            predicted = found[layout][key]
            rows.append([f'{layout} ({name})', what, f'{100 * published:.1f}', f'{100 * predicted:.1f}',
                         f'{100 * (predicted - published):+.1f} points', use])
    return [*lines, *table(['layout', 'pass', 'published', 'predicted', 'error', 'use'], rows)]
