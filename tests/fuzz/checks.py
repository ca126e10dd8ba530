"""What is always true of a run."""

import filecmp
import json
import os
import re
import subprocess
import time

from configurations import SHARED_LINKS, SWITCHES

HANG = 300    # seconds


def check(configuration, binaries, scratch, launches):
    """Runs a possible configuration, its repetition, and its model on the meta device. Returns the result."""
    began = time.monotonic()
    problems = []
    flags = dict(configuration.flags)
    if flags.get('--schedule') == 'automatic':
        flags['--export-schedule'] = scratch / 'schedule.csv'
    report = _run(configuration, binaries, scratch, 'first', flags, problems)
    result = {'what': str(configuration), 'problems': problems, 'figures': 0, 'narrow': False, 'parity': None,
              'bitwise': False}
    if report:
        result['figures'] = _check_predictions(report, problems)
        if 'parity' in report and report['parity']:
            result['parity'] = [report['parity'][key] for key in ('max_relative_loss', 'max_relative_parameter')]
            result['bitwise'] = report['parity']['bitwise']
            result['narrow'] = configuration.flags.get('--precision', 'f32') != 'f32'
        elif '--batch' in configuration.flags:
            problems.append('the report has no parity')
        again = _check_repetition(configuration, binaries, scratch, launches, report, problems)
        if '--batch' in configuration.flags:
            _check_meta(configuration, binaries, scratch, (report, again), problems)
    return {**result, 'seconds': time.monotonic() - began}


def _run(configuration, binaries, scratch, name, flags, problems):
    """Runs a configuration with other flags. Returns its report, or None if it failed."""
    words = [word for flag, value in flags.items() for word in ((flag,) if value is None else (flag, str(value)))]
    file = scratch / f'{name}.json'
    # A report has modelled times only if there is a trace.
    trace = scratch / f'{name}-trace' if flags['--clock'] == 'modelled' else 'none'
    command = [str(binaries / configuration.lesson), *words, '--trace', str(trace), '--quiet', '--report', str(file)]
    if '--batch' in flags and flags.get('--device') != 'meta':
        command += [configuration.keeps, str(scratch / name)]
    ended = _end_of(command)
    if ended.returncode != 0:
        problems.append(f'{name}: exit code {ended.returncode}: {ended.stderr.strip()[-600:]}')
        return None
    if ended.stderr.strip():
        problems.append(f'{name}: standard error: {ended.stderr.strip()[-300:]}')
    return json.loads(file.read_text())


def _end_of(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=HANG, stdin=subprocess.DEVNULL,
                              errors='replace', env={**os.environ, 'LC_ALL': 'C'})
    except subprocess.TimeoutExpired as error:
        return subprocess.CompletedProcess(command, 124, '', f'no end after {HANG} s: {error}')


def _figures(report):
    """Yields (rank and phase, name, observed, predicted) for all bytes and peaks of a report."""
    for section, observed in (('communication', 'bytes_sent'), ('memory', 'peak')):
        for row in report[section]:
            for name in sorted({*row[observed], *row['predicted']}):
                yield (row['rank'], row['phase']), name, row[observed].get(name), row['predicted'].get(name)


def _check_predictions(report, problems):
    """Returns how many figures were compared."""
    compared = 0
    for where, name, observed, predicted in _figures(report):
        if name in report['not_predicted'] or predicted is None and f'peak {name}' in report['not_predicted']:
            continue
        compared += 1
        if observed != predicted:
            problems.append(f'rank {where[0]}, {where[1]}: {name}: {observed} observed, {predicted} predicted')
    if compared == 0:
        problems.append('no figure was predicted')
    return compared


def _check_repetition(configuration, binaries, scratch, launches, report, problems):
    """Repeats a run, and returns the second report. If no library sums, the other launch must give the same bits, too,
    unless only threads can time the cluster."""
    flags = dict(configuration.flags)
    if flags.get('--comm') != 'native' and flags.get('--cluster') not in SHARED_LINKS:
        flags['--launch'] = launches[-1] if flags['--launch'] == launches[0] else launches[0]
    again = _run(configuration, binaries, scratch, 'again', flags, problems)
    if not again:
        return None
    for key in ('losses', 'phases') if flags['--clock'] == 'modelled' else ('losses',):
        if report.get(key) != again.get(key):
            problems.append(f'repeated: {key}: {report.get(key)}, then {again.get(key)}')
    saved = scratch / 'first'
    if saved.exists():
        names = sorted(each.name for each in saved.iterdir())
        _, different, missing = filecmp.cmpfiles(saved, scratch / 'again', names, shallow=False)
        if different or missing:
            problems.append(f'repeated: other bits in {", ".join(different + missing)}')
    return again


def _check_meta(configuration, binaries, scratch, reports, problems):
    """The meta device must count the bytes and the peaks of the run with threads. (Under mpi, a rank that sums needs a
    buffer for what it receives.)"""
    report = next((each for each in reports if each and each['launch'] == 'threads'), None)
    if not report:
        return
    flags = {**configuration.flags, '--launch': 'threads', '--device': 'meta', '--clock': 'modelled', '--parity': 'off'}
    # A search that does not know the modelled times finds another schedule, so the meta device follows the one found.
    if flags.get('--schedule') == 'automatic':
        flags['--schedule'] = scratch / 'schedule.csv'
        flags.pop('--memory-limit', None)
    meta = _run(configuration, binaries, scratch, 'meta', flags, problems)
    if not meta:
        return
    names = {there['name']: here['name'] for here, there in zip(report['phases'], meta['phases'])}
    for row in (*meta['communication'], *meta['memory']):
        row['phase'] = names[row['phase']]
    here, there = ({(where, name): observed for where, name, observed, _ in _figures(each)} for each in (report, meta))
    _check_predictions(meta, problems)
    by_switch = ('all_reduce', 'communication') if flags.get('--cluster') in SWITCHES else ()    # adds on meta only
    for (rank, phase), name in here:
        if name in configuration.by_data or name in by_switch:
            continue
        figures = [each.get(((rank, phase), name)) for each in (here, there)]
        if figures[0] != figures[1]:
            problems.append(f'meta: rank {rank}, {phase}: {name}: {figures[1]}, and {figures[0]} on the CPU')


def check_impossible(configuration, binaries):
    """Runs an impossible configuration: it must end with one line that names the flag, and a value that this line
    recommends must work, or lead to a line about another flag."""
    began = time.monotonic()
    problems, tried = [], []
    flags, impossible = dict(configuration.flags), configuration.impossible
    for _ in range(6):
        command = [str(binaries / configuration.lesson), '--trace', 'none', '--quiet', '--parity', 'off']
        for flag, value in flags.items():
            command += [flag] if value is None else [flag, str(value)]
        ended = _end_of(command)
        if ended.returncode == 0:
            break
        lines = ended.stderr.strip().splitlines()
        tried.append(lines[0] if lines else '')
        if ended.returncode != 2 or len(lines) != 1:
            problems.append(f'exit code {ended.returncode}: {ended.stderr.strip()[-400:]}')
            break
        if len(tried) == 1 and impossible not in lines[0]:
            problems.append(f'{impossible} is not named: {lines[0]}')
        advice = _advice(lines[0], flags)
        if advice is None:
            problems.append(f'no value is recommended: {lines[0]}')
            break
        flags = advice
    else:
        problems.append('the recommended values do not work: ' + ' | '.join(tried))
    if not tried:
        problems.append('it ran')
    return {'what': f'{configuration}: {tried[0] if tried else ""}', 'problems': problems,
            'seconds': time.monotonic() - began}


def _advice(line, flags):
    """Returns the flags as the last recommendation of a line changes them. 'A with B and C' recommends all together."""
    value = r'(?!out\b)[^\s;:]*[^\s,;:]'    # a list such as 3,3,2 is one value; "leave --tp out" has none
    for clause in reversed(re.findall(rf'--[a-z-]+ {value}(?: (?:with|and) --[a-z-]+ {value})*', line)):
        pairs = dict(re.findall(rf'(--[a-z-]+) ({value})', clause))
        if any(str(flags.get(flag)) != value for flag, value in pairs.items()):
            return flags | pairs
    flag = line.split(' ')[0]
    for words in (r'at least (\d+)', r'presets are (\w+)', r'one of (\w+)'):
        value = re.search(words, line)
        if value:
            return flags | {flag: value[1]}
    return None
