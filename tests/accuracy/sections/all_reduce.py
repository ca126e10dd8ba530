"""All-reduces: lesson 1 with clusters that are fitted to measured ones."""

import concurrent.futures
import json
import pathlib
import subprocess
import tempfile

import fit_all_reduce
from tables import paragraph, percent, regimes, table

MIB = 1 << 20


def size_text(size):
    return f'{size >> 10} KiB' if size < MIB else f'{size >> 20} MiB' if size < 1 << 30 else f'{size >> 30} GiB'


def seconds_of_all_reduce(build, gpu, nodes, size):
    """Returns the time of an all-reduce in lesson 1."""
    machine = fit_all_reduce.MACHINES[gpu, nodes]
    file = fit_all_reduce.FOLDER / 'clusters' / f'{machine}.json'
    algorithm = fit_all_reduce.algorithm(gpu, nodes, size)
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / 'report.json'
        subprocess.run([build / 'lessons' / 'lesson_01_collectives', '--device', 'meta', '--cluster', file, '--ranks',
                        str(fit_all_reduce.RANKS * nodes), '--elements', str(size // 4), '--algorithm', algorithm,
                        '--steps', '1', '--trace', 'none', '--quiet', '--report', report], check=True)
        return json.loads(report.read_text())['results']['all_reduce']['observed_seconds']


def section(build, jobs):
    lines = ['## All-reduces', '', *paragraph("""
        Bus bandwidths in GB/s, as nccl-tests defines them. Published: stas00/ml-engineering, network/README.md (August
        2026). `fit_all_reduce.py` fits the links of `clusters/*.json` to the rows marked as fitted, with at most six
        constants per machine. An array is *small* up to 512 KiB, and *large* from 128 MiB. The A100 uses a ring. H200
        and B200 use a low-latency ring up to 1 MiB, and sum larger arrays in the switch (published for the H200,
        assumed for the B200). Four nodes use rings within each node, and rings along each rail between the nodes.""")]
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
    cluster = json.loads((fit_all_reduce.FOLDER / 'clusters' / f'{machine}.json').read_text())
    rows = [[where, each['name'], f"{1e6 * each['latency_seconds']:.3f}", f"{each['bandwidth'] / 1e9:.2f}",
             fit_all_reduce.origin(machine, where, each['name'])]
            for where in ('within', 'between', 'in_switch')
            for each in cluster.get(where, {}).get('protocols', [])]
    return table(['link', 'protocol', 'α (µs)', '1/β (GB/s)', 'origin'], rows)
