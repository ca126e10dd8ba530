#!/usr/bin/env python3
"""Compares ./lockstep goodput with a second simulation, which shares none of its code: it draws the same failures
(Philox4x32-10 from its definition), and then goes through each run second by second of its activities: one step, one
checkpoint, one recovery at a time, with a list of all checkpoints. Every part of the time must agree exactly.
Prints "N passed, N failed".

  oracle.py PROGRAM [--count N] [--seed N]
"""

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

NEVER = float('inf')


def philox(counter, key):
    """Philox4x32-10 (Salmon 2011)."""
    c, k, low = list(counter), list(key), 0xFFFFFFFF
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & low, (a >> 32) ^ c[3] ^ k[1], a & low]
        k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
    return c


class Failures:
    """The failures of run `run`: exponential with this mean, or uniform in a range."""

    SAMPLING = 2    # the stream of the generator (core/model/philox.h)

    def __init__(self, mean, between, ranks, seed, run):
        self.mean, self.between, self.ranks, self.seed, self.run = mean, between, ranks, seed, run
        self.drawn, self.time = 0, 0
        self.draw()

    def uniform(self, index):
        word = philox((index & 0xFFFFFFFF, index >> 32, self.run, self.SAMPLING), (self.seed & 0xFFFFFFFF, self.seed >> 32))
        return (((word[0] << 32) | word[1]) >> 11) * 2.0 ** -53

    def draw(self):
        u = 1 - self.uniform(2 * self.drawn)
        seconds = -math.log(u) * self.mean if self.between is None else self.between[1] - (self.between[1] - self.between[0]) * u
        self.time += max(1, int(seconds * 1e6 + 0.5))
        self.rank = int(self.uniform(2 * self.drawn + 1) * self.ranks)
        self.drawn += 1

    def take(self):
        taken = self.time, self.rank
        self.draw()
        return taken


class Died(Exception):
    """A failure interrupts an activity."""


class Run:
    """What all strategies share: a clock, the parts of the time, and activities that a failure may interrupt."""

    def __init__(self, job, failures):
        self.job, self.failures, self.now, self.count = job, failures, 0, 0
        self.parts = dict.fromkeys(('useful', 'absent', 'checkpoint', 'lost', 'detection', 'recovery', 'waiting'), 0)

    def spend(self, time, part, counts=lambda rank: True):
        """Lets time pass. If a failure that counts comes first, the time until then is lost, or, for parts of a recovery,
        spent."""
        end = self.now + time
        while self.failures.time < end and not counts(self.failures.rank):
            self.failures.take()
        if self.failures.time < end:
            passed = self.failures.time - self.now
            self.parts[part if part in ('detection', 'recovery', 'waiting') else 'lost'] += passed
            self.now = self.failures.time
            raise Died
        self.parts[part] += time
        self.now = end

    def victim(self):
        self.count += 1
        return self.failures.take()[1]


class Restart(Run):
    def run(self, memory=False):
        job = self.job
        # Checkpoints: (steps, time from which it survives a rank, time from which it is on disk).
        saved, disk, writer_free = [(0, 0)], 0, 0
        done, log = 0, []    # what has been done since the start, to undo it: (steps, part, time)
        copies = 0
        every = max(1, -(-job['write'] // (job['interval'] * job['step'] + job['pause'])))
        pending = [(0, job['write'])]
        self.now = 0
        while True:
            try:
                while done < job['steps']:
                    steps = min(job['interval'], job['steps'] - done)
                    for _ in range(steps):
                        self.spend(job['step'], 'useful')
                        log.append((done, 'useful', job['step']))
                        done += 1
                    self.spend(job['pause'], 'checkpoint')
                    log.append((done - 1, 'checkpoint', job['pause']))
                    saved.append((done, self.now + job['hidden']))
                    copies += 1
                    if copies % every == 0:
                        pending.append((done, self.now + job['write']))
                return
            except Died:
                usable = max(steps for steps, safe in saved if safe <= self.now)
                on_disk = [steps for steps, safe in pending if safe <= self.now and steps <= usable]
                disk = max([disk, *on_disk])
            # Undo what the usable checkpoint does not contain.
            log = self.undo(log, usable)
            down, lost_memory = [self.victim()], not memory
            while True:
                try:
                    self.spend(job['detect'], 'detection')
                    self.spend(job['restart_from_disk'] if memory and lost_memory else job['restart'], 'recovery')
                    break
                except Died:
                    rank = self.victim()
                    if memory and not lost_memory and any((rank - other) % job['ranks'] in (1, job['ranks'] - 1) or
                                                          (other - rank) % job['ranks'] == 1 for other in down):
                        lost_memory, usable = True, disk
                        log = self.undo(log, usable)
                    down.append(rank)
            done, copies = usable, 0
            saved, pending = [(usable, self.now)], [(usable, self.now + job['write'])]

    def undo(self, log, kept):
        for step, part, time in log:
            if step >= kept:
                self.parts[part] -= time
                self.parts['lost'] += time
        return [entry for entry in log if entry[0] < kept]


class Memory(Restart):
    def run(self):
        super().run(memory=True)


class Spares(Run):
    def run(self):
        job = self.job
        ready = [0] * job['spares']
        done, unsaved = 0, 0
        while done < job['steps'] or unsaved:
            try:
                if unsaved == job['interval'] or done == job['steps']:
                    self.spend(job['pause'], 'checkpoint')
                    unsaved = 0
                else:
                    self.spend(job['step'], 'useful')
                    done, unsaved = done + 1, unsaved + 1
            except Died:
                needed = 0
                while True:
                    needed += 1
                    self.victim()
                    ready = sorted(ready + [self.now + job['repair']])
                    try:
                        self.spend(job['detect'], 'detection')
                        self.spend(max(0, ready[needed - 1] - self.now), 'waiting')
                        self.spend(job['restart'], 'recovery')
                        break
                    except Died:
                        pass
                ready = ready[needed:]


class Quorum(Run):
    def run(self):
        job = self.job
        self.away = {}    # replica: the time of its return
        size = job['ranks'] // job['replicas']
        here = lambda rank: rank // size not in self.away    # noqa: E731
        done, unsaved, safe = 0, 0, (0, dict(self.parts))
        while done < job['steps'] or unsaved:
            try:
                if unsaved == job['interval'] or (done == job['steps'] and unsaved):
                    self.spend(job['pause'], 'checkpoint', here)
                    unsaved, safe = 0, (done, dict(self.parts))
                elif self.away and min(self.away.values()) <= self.now:
                    first = min(self.away, key=self.away.get)
                    before = self.parts['recovery']
                    try:
                        self.spend(job['heal'], 'recovery', here)
                    except Died:    # for a quorum, an interrupted copy is lost
                        self.parts['lost'] += self.parts['recovery'] - before
                        self.parts['recovery'] = before
                        raise
                    del self.away[first]
                else:
                    self.spend(job['step'], 'useful', here)
                    absent = job['step'] * len(self.away) / job['replicas']
                    self.parts['useful'] -= absent
                    self.parts['absent'] += absent
                    done, unsaved = done + 1, unsaved + 1
            except Died:
                detected = self.now + job['detect']
                first = True
                while first or self.failures.time < detected:
                    time, rank = self.failures.take()
                    if here(rank):
                        self.count += 1
                        self.away[rank // size] = detected + job['replace']
                    first = False
                self.parts['detection'] += job['detect']
                self.now = detected
                if len(self.away) == job['replicas']:
                    for part in ('useful', 'absent', 'checkpoint'):
                        self.parts['lost'] += self.parts[part] - safe[1][part]
                        self.parts[part] = safe[1][part]
                    done, unsaved = safe[0], 0
                    while True:
                        try:
                            self.spend(job['restart'], 'recovery')
                            break
                        except Died:
                            self.victim()
                    self.away = {}


# The strategies that use a flag, unless all do.
USED = {'checkpoint': 'restart quorum spares', 'hidden': 'restart', 'restart': 'restart memory quorum',
        'snapshot': 'memory', 'transfer': 'memory', 'write': 'memory', 'reload': 'memory', 'replicas': 'quorum',
        'replace': 'quorum', 'heal': 'quorum', 'spares': 'spares', 'takeover': 'spares', 'repair': 'spares'}
STRATEGIES = {'restart': Restart, 'memory': Memory, 'spares': Spares, 'quorum': Quorum}


def random_case(draw):
    """Flags, and the same as a job in microseconds."""
    replicas = draw.choice([1, 2, 4])
    case = {'ranks': replicas * draw.randint(1, 4), 'steps': draw.randint(1, 300), 'interval': draw.randint(1, 20),
            'replicas': replicas, 'spares': draw.randint(0, 3)}
    times = {'step': draw.choice([200, 1000, 1234]), 'checkpoint': draw.choice([0, 500, 2500]),
             'hidden': draw.choice([0, 0, 3000, 20000]), 'detect': draw.choice([0, 700]), 'restart': draw.choice([0, 4000]),
             'snapshot': draw.choice([0, 300]), 'transfer': draw.choice([0, 900, 15000]), 'write': draw.choice([0, 8000, 40000]),
             'reload': draw.choice([0, 1500]), 'replace': draw.choice([0, 5000, 30000]), 'heal': draw.choice([0, 1100]),
             'takeover': draw.choice([0, 800]), 'repair': draw.choice([0, 9000])}
    cycle = times['step'] * case['interval'] + times['checkpoint'] + times['restart'] + times['hidden'] + times['detect']
    return case, times, cycle * draw.choice([2, 5, 20])


def job_of(strategy, case, times):
    job = dict(case, step=times['step'], pause=times['checkpoint'], hidden=times['hidden'], detect=times['detect'],
               restart=times['restart'], write=0, replace=times['replace'], heal=times['heal'], repair=times['repair'],
               restart_from_disk=times['restart'])
    if strategy == 'memory':
        job.update(pause=times['snapshot'], hidden=times['transfer'], write=times['write'], restart=times['reload'])
    if strategy == 'spares':
        job.update(restart=times['takeover'])
    return {name: value * 1000 if name in times or name in ('pause', 'restart_from_disk') else value
            for name, value in job.items()}


def compare(program, number, draw, scratch):
    strategy = list(STRATEGIES)[number % 4]
    case, times, mean = random_case(draw)
    between = draw.choice([None, None, (mean * 0.75 / 1000, mean * 1.25 / 1000)])
    seed = draw.randint(0, 10000)
    flags = [f'--{name}={value}' for name, value in {**case, **{name: f'{value}ms' for name, value in times.items()}}.items()
             if name != 'ranks' and strategy in USED.get(name, strategy)]
    flags += ['--every', f'{between[0] * 1000:.0f}ms..{between[1] * 1000:.0f}ms'] if between else \
        ['--device-mtbf', f'{mean * case["ranks"]}ms']
    if between:
        between = (round(between[0] * 1000) / 1000, round(between[1] * 1000) / 1000)
    report = scratch / 'report.json'
    command = [program, '--ranks', str(case['ranks']), '--strategy', strategy, '--seed', str(seed), '--runs', '2', *flags,
               '--report', report]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if ended.returncode:
        return f'{command} ends with {ended.returncode}: {ended.stderr}'
    point = json.loads(report.read_text())['points'][0]
    if not point['finished']:
        return ''
    parts, total, count = {}, 0, 0
    for run in range(2):
        device = float(f'{mean * case["ranks"]}') * 1e-3    # as the program parses it
        mine = STRATEGIES[strategy](job_of(strategy, case, times), Failures(device / case['ranks'], between, case['ranks'],
                                                                          seed, run))
        mine.run()
        total += mine.now
        count += mine.count
        for name, value in mine.parts.items():
            parts[name] = parts.get(name, 0) + value
    theirs = point['microseconds']
    wrong = [f'{name}: {theirs[name]}, and not {value}' for name, value in dict(parts, total=total).items()
             # Shares of a step are rounded once per stretch of steps, or once per step.
             if abs(theirs[name] - value) > (case['steps'] * 4 if name in ('useful', 'absent', 'lost') and strategy == 'quorum'
                                             else 0)]
    if count != point['failures']:
        wrong.append(f'{point["failures"]} failures, and not {count}')
    return f'{" ".join(map(str, command))}: {"; ".join(wrong)}' if wrong else ''


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program')
    parser.add_argument('--count', type=int, default=200)
    parser.add_argument('--seed', type=int, default=1)
    given = parser.parse_args()
    draw, failed = random.Random(given.seed), 0
    with tempfile.TemporaryDirectory(prefix='lockstep-goodput-') as scratch:
        for number in range(given.count):
            wrong = compare(given.program, number, draw, Path(scratch))
            if wrong:
                failed += 1
                print(f'FAILED: {wrong}')
    print(f'{given.count - failed} passed, {failed} failed')
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
