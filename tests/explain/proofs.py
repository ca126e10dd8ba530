"""The proof of each claim (core/explain/sentence.h): a function of its name, which recomputes a sentence's values.

Each takes a run and one of its sentences, and returns lines that say what is false. What a change would save is
recomputed by running the program again with this change, if flags can express it. Otherwise, and to see whether a list
is complete, ./lockstep retime replays it: the same code, whose times tests/replay compares with those of such runs.
"""

import json
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from account import PARTS, Trace, account, picoseconds


@dataclass
class Run:
    """A run on the modelled clock, and how to repeat it."""
    build: Path
    folder: Path
    command: list  # without --cluster, --slow and --trace
    cluster: dict
    slow: dict
    scratch: Path
    repeats: int = 0  # runs of the program again
    retimes: int = 0
    known: dict = field(default_factory=dict)

    def __post_init__(self):
        self.report = json.loads((self.folder / 'report.json').read_text())
        self.trace = Trace(self.folder)
        self.step = self.trace.steps()[-1]
        self.length, self.ranks = account(self.trace, self.step)

    def repeat(self, cluster=None, slow=None, command=None):
        """Runs the program again with a change. Returns the length of its last step in picoseconds."""
        self.repeats += 1
        folder = self.scratch / f'again{self.repeats}'
        file = self.scratch / f'again{self.repeats}.json'
        file.write_text(json.dumps(cluster or self.cluster))
        slow = self.slow if slow is None else slow
        words = ['--slow', ','.join(f'{rank}={factor!r}' for rank, factor in slow.items())] if slow else []
        run([*(command or self.command), '--cluster', str(file), *words], folder)
        return picoseconds(json.loads((folder / 'report.json').read_text())['phases'][-1]['last_step_seconds'])

    def retime(self, *changes):
        """Replays the run with these changes. Returns the length of the step in picoseconds."""
        if changes not in self.known:
            self.retimes += 1
            file = self.scratch / 'retimed.json'
            run([str(self.build / 'core/lockstep_retime'), str(self.folder), '--report', str(file),
                 *(word for change in changes for word in ('--change', change))])
            steps = json.loads(file.read_text())['steps']
            self.known[changes] = picoseconds(steps[self.step]['seconds'])
        return self.known[changes]

    def has_experts(self):
        """Whether some ranks get more rows than others, as only the program knows."""
        return '--experts' in self.command and self.command[self.command.index('--experts') + 1] != '0'

    # What computes for how long, from the trace.

    def compute_of_ranks(self):
        return {rank['rank']: rank['compute'] + rank['optimizer'] for rank in self.ranks}

    def roles(self):
        return {rank: frozenset(each['stage'] for each in self.trace.actions(rank, self.step))
                for rank in self.trace.ranks}

    def compute_of_stages(self):
        times, ranks = defaultdict(int), defaultdict(set)
        for rank in self.trace.ranks:
            waits = self.trace.of(rank, 'wait')
            for action in self.trace.actions(rank, self.step):
                if action['cat'] == 'recompute' and any(
                        other is not action and other['start'] <= action['start'] and action['end'] <= other['end']
                        for other in self.trace.actions(rank, self.step)):
                    continue  # within the backward pass
                stalled = sum(min(wait['end'], action['end']) - max(wait['start'], action['start']) for wait in waits
                              if wait['start'] < action['end'] and wait['end'] > action['start'])
                times[action['stage']] += action['end'] - action['start'] - stalled
                ranks[action['stage']].add(rank)
        return {stage: time // len(ranks[stage]) for stage, time in times.items()}

    def expected_changes(self):
        """All changes that the run's own list must have considered, with the claim that each belongs to."""
        changes = []
        most = 8
        for what, times, peers in (('rank', self.compute_of_ranks(), self.roles()),
                                   ('stage', self.compute_of_stages(), defaultdict(int))):
            slow = []
            for one, time in times.items():
                others = [times[each] for each in times if each != one and peers[each] == peers[one]]
                if others and 0 < lower_median(others) < time:
                    slow.append((time / lower_median(others), one, time, lower_median(others)))
            slow.sort(key=lambda each: -each[0])
            single = [(f'{what}_at_pace', (f'{what}:{one}=faster:{repr(time / median).removesuffix(".0")}',), time, median)
                      for _, one, time, median in slow]
            if len(single) > 1:
                changes.append((f'{what}s_at_pace', tuple(change for each in single for change in each[1]), 0, 0))
            changes += single[:most]
        axes = {span.get('group') or ('pp' if span.get('stage', -1) >= 0 else '')
                for lanes in self.trace.spans.values() for lane, spans in lanes.items() if lane != 0
                for span in spans if span['cat'] == 'communication'}
        changes += [('free_axis', (f'{axis}=free',), 0, 0) for axis in axes]
        changes += [('free_links', (f'{where}=free',), 0, 0) for where in ('within', 'between')]
        return [*changes, ('no_latency', ('latency=free',), 0, 0)]


def run(words, trace=None):
    ended = subprocess.run([*words, *(['--trace', str(trace)] if trace else [])], capture_output=True, text=True,
                           timeout=300)
    if ended.returncode:
        raise RuntimeError(f'{" ".join(words)}: exit code {ended.returncode}: {ended.stderr.strip()[-400:]}')
    return ended.stdout


def lower_median(values):
    return sorted(values)[(len(values) - 1) // 2]


def free(link, latency_only=False):
    if 'protocols' not in link:
        link['latency_seconds'] = 0
        if not latency_only:
            link['bandwidth'] = None
    for each in [*link.get('segments', []), *link.get('protocols', [])]:
        free(each, latency_only)


def with_free(run, links, latency_only=False):
    cluster = json.loads(json.dumps(run.cluster))
    for link in links:
        free(cluster[link], latency_only)
    return cluster


def states(sentence, run, changed):
    """Checks the times that each counterfactual states: in its values, and in its text, rounded."""
    lines = []
    if picoseconds(sentence['values']['step']) != run.length:
        lines.append(f'the step took {run.length} ps')
    if picoseconds(sentence['values']['changed']) != changed:
        lines.append(f'with the change, the step takes {changed} ps, not {sentence["values"]["changed"]} s')
    if f' take {changed / 1e9:.3f} ms, {100 * (run.length - changed) / run.length:.1f} % less' not in sentence['text']:
        lines.append(f'the text does not say {changed} ps')
    return lines


def at_pace(sentence, run, what, times):
    values = sentence['values']
    one = int(values[what])
    expected = next((each for each in run.expected_changes() if each[1] == tuple(sentence['changes'])), None)
    if not expected or expected[1][0].split('=')[0] != f'{what}:{one}':
        return [f'{what} {one} does not compute for longer than its peers']
    lines = []
    if [picoseconds(values['compute']), picoseconds(values['median'])] != list(expected[2:]):
        lines.append(f'{what} {one} computes for {expected[2]} ps, and the median is {expected[3]} ps')
    where = 'of compute and optimizer' if what == 'rank' else 'in its actions'
    if f'{what} {one} at' not in sentence['text'] or \
            f'({expected[3] / 1e9:.3f} ms {where} instead of {expected[2] / 1e9:.3f} ms)' not in sentence['text']:
        lines.append('the text says something else')
    return lines


def rank_at_pace(sentence, run):
    lines = at_pace(sentence, run, 'rank', run.compute_of_ranks())
    return lines + states(sentence, run, run.repeat(slow=with_paces(run, sentence['changes'])))


def with_paces(run, changes):
    """The slowness of the ranks, with these changes of their paces."""
    slow = dict(run.slow)
    for change in changes:
        rank, factor = re.fullmatch(r'rank:(\d+)=faster:(.*)', change).groups()
        slow[int(rank)] = slow.get(int(rank), 1.0) * (1 / float(factor))
    return slow


def named(what, sentence):
    numbers = sorted(int(re.fullmatch(rf'{what}:(\d+)=.*', change)[1]) for change in sentence['changes'])
    return (f'{what}s {", ".join(map(str, numbers))} at' if len(numbers) <= 8 else
            f'all {len(numbers)} {what}s that are slower than their peers at')


def ranks_at_pace(sentence, run):
    lines = [] if named('rank', sentence) in sentence['text'] else ['the ranks are others']
    return lines + states(sentence, run, run.repeat(slow=with_paces(run, sentence['changes'])))


def stages_at_pace(sentence, run):
    lines = [] if named('stage', sentence) in sentence['text'] else ['the stages are others']
    return lines + states(sentence, run, run.retime(*sentence['changes']))


def stage_at_pace(sentence, run):
    return (at_pace(sentence, run, 'stage', run.compute_of_stages())
            + states(sentence, run, run.retime(*sentence['changes'])))


def free_axis(sentence, run):
    axis = sentence['changes'][0].removesuffix('=free')
    lines = [] if f'{axis} communication free' in sentence['text'] else ['the text names another axis']
    # If no other axis communicates, free links are the same.
    axes = {change for claim, change, *_ in run.expected_changes() if claim == 'free_axis'}
    alone = axes == {tuple(sentence['changes'])}
    changed = run.repeat(cluster=with_free(run, ('within', 'between'))) if alone else run.retime(*sentence['changes'])
    return lines + states(sentence, run, changed)


def free_links(sentence, run):
    where = sentence['changes'][0].removesuffix('=free')
    lines = [] if f'all links {where} nodes free' in sentence['text'] else ['the text names other links']
    return lines + states(sentence, run, run.repeat(cluster=with_free(run, (where,))))


def no_latency(sentence, run):
    return states(sentence, run, run.repeat(cluster=with_free(run, ('within', 'between'), latency_only=True)))


def with_balanced_routing(run):
    words = list(run.command)
    for flag, value in (('--routing', 'balanced'), ('--device', 'meta'), ('--launch', 'threads')):
        if flag in words:
            words[words.index(flag) + 1] = value
        else:
            words += [flag, value]
    return run.repeat(command=words)


def alternative_run(sentence, run):
    """The only one is equally many tokens for every expert, which --routing balanced gives on the meta device."""
    lines = [] if 'equally many tokens for every expert' in sentence['text'] else ['the text says something else']
    return lines + states(sentence, run, with_balanced_routing(run))


def of_list(run):
    """Checks what the order of the list claims: it is complete, and the largest saving comes first."""
    found = run.report['counterfactuals']
    lines = []
    if found['step'] != run.step or picoseconds(found['seconds']) != run.length:
        lines.append(f'the list is about step {found["step"]} of {found["seconds"]} s')
    steps = [each['values']['changed'] for each in found.get('all', [])]
    if steps != sorted(steps):
        lines.append('the list is not in order')
    listed = {(each['claim'], tuple(sorted(each['changes']))) for each in found.get('all', [])}
    for claim, changes, *_ in run.expected_changes():
        changes = tuple(sorted(changes))
        helps = run.retime(*changes) < run.length
        if helps != ((claim, changes) in listed):
            lines.append(f'{changes} would {"" if helps else "not "}shorten the step, and is '
                         f'{"missing" if helps else "listed"}')
        listed.discard((claim, changes))
    if run.has_experts():
        helps = with_balanced_routing(run) < run.length
        if helps != (('alternative_run', ()) in listed):
            lines.append(f'equal rows would {"" if helps else "not "}shorten the step, and are '
                         f'{"missing" if helps else "listed"}')
        listed.discard(('alternative_run', ()))
    lines += [f'{each} is not expected' for each in listed]
    return lines


def estimates(report, trace):
    """Checks the estimates of a run on the wall clock, which come from the steps of its last phase but the first."""
    phase = report['phases'][-1]
    steps = range(phase['first_step'] + (phase['steps'] > 1), phase['first_step'] + phase['steps'])
    savings, slow, length = defaultdict(list), {}, 0
    for step in steps:
        length, ranks = account(trace, step)
        roles = {rank: frozenset(each['stage'] for each in trace.actions(rank, step)) for rank in trace.ranks}
        compute = {rank['rank']: rank['compute'] + rank['optimizer'] for rank in ranks}
        for axis in {axis for rank in ranks for axis in rank['exposed']}:
            longest = max(rank['end'] - rank['begin'] - rank['exposed'][axis]['transfer'] - rank['exposed'][axis]['latency']
                          for rank in ranks)
            savings['axis', axis].append(length - max(longest, 0))
        for rank, time in compute.items():
            others = [compute[each] for each in compute if each != rank and roles[each] == roles[rank]]
            if others:
                savings['rank', rank].append(time - max(others))
                slow[rank] = time, lower_median(others)
    expected = {}
    for what, each in savings.items():
        if len(each) == len(steps) and min(each) > 0:
            expected[what] = (length - min(lower_median(each), length), min(each), max(each))
    lines = []
    for sentence in report['counterfactuals'].get('all', []):
        values = sentence['values']
        what = ('rank', int(values['rank'])) if sentence['claim'] == 'rank_at_pace' else \
            ('axis', re.search(r'With (.+) communication free', sentence['text'])[1])
        mine = expected.pop(what, None)
        if mine != tuple(picoseconds(values[name]) for name in ('changed', 'least', 'most')):
            lines.append(f'{sentence["text"]} expected {mine}')
        if what[0] == 'rank' and slow[what[1]] != (picoseconds(values['compute']), picoseconds(values['median'])):
            lines.append(f'{sentence["text"]} it computes for {slow[what[1]]}')
        if 'a rough estimate' not in sentence['text']:
            lines.append(f'{sentence["text"]} is not called an estimate')
    lines += [f'{what} is missing' for what, each in expected.items() if each[0] < length]
    return lines


def claims(build):
    """The names of all claims that the code can make."""
    return set(run([str(build / 'tests/explain_claims')]).split())


PROOFS = {proof.__name__: proof for proof in (rank_at_pace, ranks_at_pace, stage_at_pace, stages_at_pace, free_axis,
                                              free_links, no_latency, alternative_run)}
