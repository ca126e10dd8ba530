#!/usr/bin/env python3
"""Checks lesson 18 against formulas that are written out here: bytes and times of the exchanges between two sites,
streaming's hidden exchanges, PipeDream's time and memory. Also its parity, and the flags that it refuses.

  test_low_communication.py LESSON LAUNCH...      LAUNCH is threads, mpi
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
CLUSTERS = TREE / 'lessons/18_low_communication'
# A GPT of 2 blocks: h = 64, 16 positions, 256 tokens. Its parameters are f32; no buffer of theirs needs padding.
SMALL = '--layers 2 --hidden 64 --heads 2 --sequence 16 --batch 8 --microbatches 1'.split()
BLOCK, TABLE, POSITIONS, NORM = 12 * 64**2 + 13 * 64, 256 * 64, 16 * 64, 2 * 64
BYTES = 4 * (2 * BLOCK + 2 * TABLE + POSITIONS + NORM)
ALPHA, BETA = 0.05, 1 / 1.25e8    # of the link between the sites
failures, claims = 0, 0


def claim(what, holds, detail=''):
    global failures, claims
    claims += 1
    if not holds:
        failures += 1
        print(f'FAILED: {what}  {detail}')


class Run:
    def __init__(self, program, *flags, steps=12, model=SMALL):
        with tempfile.TemporaryDirectory(prefix='lockstep-low-') as scratch:
            report = Path(scratch) / 'report.json'
            command = [program, *model, '--clock', 'modelled', '--trace', 'none', '--report', report, '--steps', steps, *flags]
            self.ended = subprocess.run(list(map(str, command)), cwd=TREE, capture_output=True, text=True, timeout=600)
            self.report = json.loads(report.read_text()) if self.ended.returncode == 0 else None
        self.name = ' '.join(map(str, flags))

    def good(self):
        claim(f'{self.name} ends well', self.ended.returncode == 0, self.ended.stderr)
        claim(f'{self.name} is as predicted', 'not as predicted' not in self.ended.stdout, self.ended.stdout)
        return self

    @property
    def seconds(self):
        return self.report['results']['whole_run']['seconds']

    @property
    def sent(self):
        return self.report['results']['whole_run']['bytes_sent']

    def parity_of(self, key):
        return self.report['parity'][key]


def near(a, b, within=1e-9):
    return abs(a - b) <= within


def two_sites(workers):
    return ['--ranks', workers, '--cluster',
            CLUSTERS / {2: 'two_sites_of_1.json', 4: 'two_sites.json', 8: 'two_sites_of_4.json'}[workers]]


def exchange_seconds(workers, size):
    """An all-reduce of `size` bytes: in each site a ring of its k workers reduces and later gathers; in between, pairs of
    workers in the two sites add their 1/k."""
    k = workers // 2
    within = 2 * (k - 1) * (1e-5 + size / k / 1.25e10)
    return within + 2 * (ALPHA + size / k / 2 * BETA)


def check_workers(program, launch):
    for workers in (2, 4, 8) if launch == 'threads' else (4,):
        here = ['--launch', launch, *two_sites(workers)]
        parallel = Run(program, '--method', 'data-parallel', *here).good()
        diloco = Run(program, '--method', 'diloco', '--every', 4, *here).good()
        # 12 steps of data parallelism exchange 12 times, DiLoCo 3 times.
        claim(f'{workers} workers: H steps of DiLoCo send the bytes of one step', parallel.sent == 4 * diloco.sent)
        exchange = exchange_seconds(workers, BYTES)
        saved = parallel.seconds - diloco.seconds
        outer = 3 * (12 + 28) * BYTES / 4 / 2e12    # three outer steps, in memory accesses
        claim(f'{workers} workers: 9 exchanges fewer take 9 exchanges less time', near(saved, 9 * exchange - outer, 1e-9),
              f'{saved} {9 * exchange - outer}')
        claim('the first loss is of the same global batch',
              near(diloco.report['losses'][0], parallel.report['losses'][0], 1e-6))
        claim('both runs report parity', diloco.parity_of('max_relative_loss') < 1e-6)
        if workers == 2:    # a + b = b + a
            claim('two workers have the bits of one device', diloco.parity_of('bitwise'))

    check_streaming(program, launch)


def check_streaming(program, launch):
    """Two sites with such slow ranks that two steps take longer than the exchange of a fragment."""
    cluster = json.loads((CLUSTERS / 'two_sites_of_1.json').read_text())
    cluster['flops'] = 5e8
    with tempfile.TemporaryDirectory(prefix='lockstep-low-') as scratch:
        file = Path(scratch) / 'slow.json'
        file.write_text(json.dumps(cluster))
        here = ['--launch', launch, '--ranks', 2, '--cluster', file, '--method', 'streaming', '--every', 6, '--fragments', 2]
        exposed = Run(program, *here, '--delay', 0).good()
        hidden = Run(program, *here, '--delay', 2).good()
    # The first fragment is the embedding and block 0, the second is block 1 and the head. Each is sent twice.
    first, second = (exchange_seconds(2, 4 * size) for size in (TABLE + POSITIONS + BLOCK, BLOCK + NORM + TABLE))
    saved = exposed.seconds - hidden.seconds
    claim('a delay hides every exchange but the one after the last step', near(saved, 2 * first + second, 1e-5),
          f'{saved} {2 * first + second}')
    claim('a delay does not change the bytes', exposed.sent == hidden.sent == 2 * BYTES)


def check_special_cases(program, launch):
    plain = ['--every', 1, '--outer-rate', 1, '--outer-momentum', 0]
    sgd = ['--inner', 'sgd', '--lr', 0.125, '--launch', launch, '--ranks', 4]
    parallel = Run(program, '--method', 'data-parallel', *sgd, steps=20).good()
    diloco = Run(program, '--method', 'diloco', *plain, *sgd, steps=20).good()
    for a, b in zip(parallel.report['losses'], diloco.report['losses'], strict=True):
        claim('with H = 1 and SGD, DiLoCo has the losses of data parallelism', abs(a / b - 1) < 1e-6)
    claim('... and its bytes', parallel.sent == diloco.sent)
    adamw = Run(program, '--method', 'diloco', *plain, '--launch', launch, '--ranks', 4, steps=20).good()
    claim('... but not with AdamW', abs(adamw.report['losses'][-1] / diloco.report['losses'][-1] - 1) > 1e-3)


def check_pipelines(program, launch):
    fixed = ['--cluster', 'free', '--time', 'forward=1ms,backward=2ms', '--launch', launch]
    for p, m, steps in ((2, 4, 5), (4, 2, 6), (3, 1, 9)) if launch == 'threads' else ((3, 4, 5),):
        model = f'--layers 4 --hidden 16 --heads 2 --sequence 16 --batch {m} --microbatches {m}'.split()
        flushed = Run(program, '--method', '1f1b', '--pp', p, '--ranks', p, *fixed, steps=steps, model=model).good()
        full = Run(program, '--method', 'pipedream', '--pp', p, '--ranks', p, *fixed, steps=steps, model=model).good()
        claim(f'1F1B, p = {p}: every step has a bubble', near(flushed.seconds, steps * (m + p - 1) * 3e-3), flushed.seconds)
        claim(f'PipeDream, p = {p}: only one bubble', near(full.seconds, (steps * m + p - 1) * 3e-3), full.seconds)
        claim('both have the bits of one device', flushed.parity_of('bitwise') and full.parity_of('bitwise'))
        claim('and different losses', flushed.report['losses'][1:] != full.report['losses'][1:])
        claim('both send the same', flushed.sent == full.sent)
        last = {entry['rank']: entry['peak'] for entry in full.report['memory']}    # of the last phase
        own = {entry['rank']: entry['peak'] for entry in flushed.report['memory']}
        for rank in range(p):
            claim(f'stage {rank} of {p} holds p - q versions of its weights',
                  last[rank]['parameters'] == (p - rank) * own[rank]['parameters'])
            for kind in ('gradients', 'optimizer', 'activations') if m >= p else ('gradients', 'optimizer'):
                claim(f'... and no more {kind} than 1F1B', last[rank][kind] == own[rank][kind])


def check_meta(program):
    for flags in (['--method', 'diloco', '--every', 3, *two_sites(4)],
                  ['--method', 'streaming', '--every', 4, '--fragments', 2, '--delay', 1, *two_sites(4)],
                  ['--method', 'pipedream', '--pp', 2, '--ranks', 2, '--cluster', 'ethernet']):
        cpu, meta = Run(program, *flags).good(), Run(program, *flags, '--device', 'meta').good()
        claim(f'{cpu.name}: the meta device has the same time', cpu.seconds == meta.seconds, f'{cpu.seconds} {meta.seconds}')
        claim('... and bytes', cpu.sent == meta.sent)


def check_refusals(program):
    for flags, named in ((['--every', 0], '--every 0'), (['--every', 5], '--steps 12 with --every 5'),
                         (['--every', 4, '--outer-rate', 0], '--outer-rate 0'),
                         (['--every', 4, '--outer-rate', 'nan'], '--outer-rate'),
                         (['--every', 4, '--outer-momentum', 1], '--outer-momentum 1'),
                         (['--every', 4, '--outer-momentum', -1], '--outer-momentum -1'),
                         (['--method', 'streaming', '--every', 6, '--fragments', 0], '--fragments 0'),
                         (['--method', 'streaming', '--fragments', 5, '--every', 6], '--fragments 5'),
                         (['--method', 'streaming', '--fragments', 4, '--every', 6], '--fragments 4'),
                         (['--method', 'streaming', '--every', 4, '--delay', 4], '--delay 4'),
                         (['--method', 'streaming', '--every', 4, '--delay', 1, '--mix', 1], '--mix 1'),
                         (['--method', 'pipedream'], '--method pipedream'), (['--method', '1f1b', '--pp', 2], '--method 1f1b'),
                         (['--pp', 2], '--method diloco'), (['--method', 'pipedream', '--pp', 2, '--ranks', 2, '--tied'], '--tied'),
                         (['--method', 'pipedream', '--pp', 2, '--ranks', 2, '--inner', 'sgd'], '--inner sgd'),
                         (['--every', 4, '--save', '/tmp/none'], '--save'),
                         (['--method', 'pipedream', '--pp', 2, '--ranks', 2, '--save', '/tmp/none'], '--save'), (['--every', 4, '--time', 'forward=1ms'], '--time')):
        run = Run(program, *flags)
        claim(f'{run.name} is refused', run.ended.returncode == 2, f'exit code {run.ended.returncode}')
        claim(f'{run.name} is refused in one line', run.ended.stderr.count('\n') == 1, run.ended.stderr)
        claim(f'{run.name} is refused by name', named in run.ended.stderr, run.ended.stderr)
        claim(f'{run.name} is told what would do', ' use ' in run.ended.stderr or ' leave ' in run.ended.stderr, run.ended.stderr)


def main():
    program, launches = sys.argv[1], sys.argv[2:]
    for launch in launches:
        check_workers(program, launch)
        check_special_cases(program, launch)
        check_pipelines(program, launch)
    check_meta(program)
    check_refusals(program)
    print(f'{claims - failures} passed, {failures} failed')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
