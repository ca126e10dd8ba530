"""Compares what the terminal and an exported CSV show with the account of a step that was recomputed from the trace."""

import csv
import json
import re
import subprocess
from collections import Counter, defaultdict

from account import PARTS, account


def mean_of(ranks, get):
    return sum(get(rank) for rank in ranks) // len(ranks)


def column(name):
    """The value of a rank in a column of the terminal's table, in picoseconds."""
    if name == 'bubble':
        return lambda rank: rank['cool_down'] + rank['warm_up'] + rank['waiting']
    if name in PARTS:
        return lambda rank: rank[name]
    return lambda rank: sum(rank['exposed'][name].values())


def cells(line):
    return re.split(r'\s{2,}', line.strip())


def shown(picoseconds):
    return f'{picoseconds * 1e-12 * 1e3:.3f}'  # rounded as Lockstep does it


def terminal_differences(text, trace, report):
    """Checks each row of the table of where a step goes. Returns lines that say what differs."""
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if re.match(r'  where (a step|step \d+) goes, ms', line)), None)
    if at is None:
        return ['the terminal does not say where a step goes'] if any('where' in each for each in report['phases']) else []
    names = cells(lines[at])[2:]
    wrong, seen = [], set()
    for line in lines[at + 1:]:
        if line.startswith('  and ') or re.match(r'  (mean  |each row)', line):
            break
        head, step, *values = cells(line)
        if match := re.fullmatch(r'ranks? (\d+)(?: to (\d+)|, most compute)?', head):
            length, ranks = account(trace, report['phases'][-1]['where']['step'] if len(report['phases']) == 1 else
                                    next(each for each in report['phases'] if 'where' in each)['where']['step'])
            rows = [[rank] for rank in ranks if int(match[1]) <= rank['rank'] <= int(match[2] or match[1])]
        elif match := re.fullmatch(r'mean of ranks (\d+) to (\d+)', head):
            length, ranks = account(trace, report['phases'][-1]['where']['step'])
            rows = [[rank for rank in ranks if int(match[1]) <= rank['rank'] <= int(match[2])]]
        else:
            length, ranks = account(trace, int(re.search(r'\(step (\d+)\)$', head)[1]))
            rows = [ranks]
        for row in rows:
            seen.update(rank['rank'] for rank in row)
            expected = [shown(length), *(shown(mean_of(row, column(name))) for name in names)]
            if [step, *values] != expected:
                wrong.append(f'the terminal says {line.strip()}, the trace {expected}')
            if 'most compute' in head and row[0]['compute'] < max(rank['compute'] for rank in ranks):
                wrong.append(f'{head}: another rank computes for longer')
            # What the table leaves out takes no time.
            rest = length - sum(mean_of(row, column(name)) for name in names)
            if rest > len(names):
                wrong.append(f'the columns of {head} leave out {rest} ps')
    return (wrong if seen else ['the table has no rows']) + exposed_differences(lines[at:], trace, report)


def exposed_differences(lines, trace, report):
    """Checks the table of exposed communication: means over ranks, by axis and phase."""
    at = next((i for i, line in enumerate(lines) if line.startswith('  exposed communication, ms per rank')), None)
    if at is None:
        return []
    steps = {phase['name']: phase['where']['step'] for phase in report['phases'] if 'where' in phase}
    wrong = []
    for line in lines[at + 1:]:
        if line.startswith('  means over ranks'):
            break
        head, *values = cells(line)
        axis, _, phase = head.partition(', ') if len(report['phases']) > 1 else (head, '', report['phases'][0]['name'])
        _, ranks = account(trace, steps[phase])
        parts = [sum(rank['exposed'][axis][part] for rank in ranks) for part in ('transfer', 'latency', 'late_peer')]
        moving, hidden = (sum(rank['lanes'].get(axis, (0, 0))[i] for rank in ranks) for i in (0, 1))
        expected = [shown(each // len(ranks)) for each in (sum(parts), *parts, moving)]
        expected.append(f'{100 * hidden / moving:.1f} %' if moving else '-')
        if values != expected:
            wrong.append(f'the terminal says {line.strip()}, the trace {expected}')
    return wrong


def csv_differences(text, trace, steps):
    """Checks each line of an exported CSV, to the picosecond. Returns lines that say what differs."""
    wrong, seen = [], set()
    known = {step: account(trace, step) for step in steps}
    for row in csv.DictReader(text.splitlines()):
        step, number = int(row.pop('step')), int(row.pop('rank'))
        length, ranks = known[step]
        rank = next(each for each in ranks if each['rank'] == number)
        seen.add((step, number))
        row.pop('bytes_sent')
        theirs = {name: round(float(value) * 1e12) for name, value in row.items() if value != ''}
        mine = {'step_seconds': length, **{part: rank[part] for part in PARTS}}
        for axis, parts in rank['exposed'].items():
            for part in ('transfer', 'latency', 'late_peer'):
                mine[f'{axis}_{part}'] = parts[part]
        for name, value in mine.items():
            if theirs.get(name, 0) != value:
                wrong.append(f'CSV, step {step}, rank {number}, {name}: {theirs.get(name)} ps, in the trace {value}')
        total = sum(value for name, value in theirs.items()
                    if name != 'step_seconds' and not name.endswith(('_communication', '_hidden')))
        if total != length:
            wrong.append(f'CSV, step {step}, rank {number}: the parts add up to {total} ps, not {length}')
    expected = {(step, rank['rank']) for step, (_, ranks) in known.items() for rank in ranks}
    return wrong + ([f'CSV: lacks {sorted(expected - seen)[:3]}'] if expected - seen else [])


def verdict_differences(build, trace, folder):
    """Checks the ranks that a summary of the bare trace names: the straggler of its last step, and the rank that the
    others waited for longest. `folder` holds the ranks' traces, and nothing else of the run."""
    said = json.loads(subprocess.run([str(build / 'viz' / 'lockstep_view'), '--summary', '--json', '--no-settings', str(folder)],
                                     capture_output=True, text=True, check=True).stdout)
    waited = Counter()
    for rank in trace.ranks:
        for wait in trace.of(rank, 'wait'):
            if wait.get('peer', rank) != rank:
                waited[wait['peer']] += wait['end'] - wait['start']
    wrong = []
    longest = max(waited.values(), default=0)
    mine = {(rank, time) for rank, time in waited.items() if time == longest}
    theirs = said.get('waited_longest_for')
    if bool(mine) != bool(theirs) or theirs and (theirs['rank'], round(theirs['seconds'] * 1e12)) not in mine:
        wrong.append(f'waited longest for {theirs}, in the trace {mine}')
    step = trace.steps()[-1]
    length, ranks = account(trace, step)
    peers = defaultdict(list)
    for rank in ranks:
        stages = frozenset(action['stage'] for action in trace.actions(rank['rank'], step))
        peers[stages].append((rank['compute'] + rank['optimizer'], rank['rank']))
    if all(len(each) == 1 for each in peers.values()):
        peers = {None: [each for alone in peers.values() for each in alone]}
    costs = [(each[0] - max(other[0] for other in among if other != each), each[1])
             for among in peers.values() if len(among) > 1 for each in among]
    cost, slow = max(costs, default=(0, None))
    theirs = said.get('straggler')
    if cost <= 0 or cost < 0.02 * length:
        if theirs:
            wrong.append(f'a straggler, {theirs}, that costs {cost} of {length} ps')
    elif not theirs or round(theirs['cost'] * 1e12) != cost or (theirs['rank'], cost) not in [(rank, each) for each, rank in costs]:
        wrong.append(f'straggler {theirs}, in the trace rank {slow}, which costs {cost} ps')
    return wrong
