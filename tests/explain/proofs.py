"""The proof of each claim (viz/read/explain/sentence.h): a function of its name, which recomputes a sentence's values.

Each takes a run and one of its sentences, and returns lines that say what is false. What a change would save, and
whether a list is complete, is recomputed by running the program again with this change, if --slow or a cluster file can
express it. If not, ./lockstep retime replays the change, with the code under test, whose times tests/replay compares
with those of other runs. These changes are only replayed:

  - an axis whose links carry the messages of another axis, too;
  - a stage that shares its ranks with other stages. If it does not, the replay must agree with a run in which its ranks
    have the pace, except for what they compute outside the stage's actions, such as the optimizer.
"""

import json
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from account import Trace, account, axis_of, picoseconds


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

    def changed(self, *changes):
        """Returns the length of the step with these changes, all of one kind, in picoseconds: of another run if flags
        or a cluster file express them, otherwise of a replay."""
        links = [self.links_of(change.removesuffix('=free')) for change in changes if change.endswith('=free')]
        if changes in self.known:
            pass
        elif all(change.startswith('rank:') for change in changes):
            self.known[changes] = self.repeat(slow=self.with_paces(changes))
        elif links and all(links):
            self.known[changes] = self.repeat(cluster=with_free(self, links[0], changes == ('latency=free',)))
        else:
            self.known[changes] = self.retime(*changes)
        return self.known[changes]

    def links_of(self, what):
        """The links that a change makes faster; nothing if other messages use them, too."""
        if what in ('within', 'between', 'latency'):
            return ('within', 'between') if what == 'latency' else (what,)
        used = defaultdict(set)
        for rank, lanes in self.trace.spans.items():
            for span in (each for lane, spans in lanes.items() if lane != 0 for each in spans):
                if span['cat'] == 'communication':
                    nodes = {each // self.cluster['ranks_per_node'] for each in (rank, span['peer'])}
                    used[axis_of(span)].add('within' if len(nodes) == 1 else 'between')
        others = set().union(*(links for axis, links in used.items() if axis != what))
        return () if used[what] & others else tuple(sorted(used[what]))

    def with_paces(self, changes):
        """The slowness of the ranks with these changes of the paces of ranks, or of stages that have their own ranks."""
        slow = dict(self.slow)
        for change in changes:
            what, number, factor = re.fullmatch(r'(rank|stage):(\d+)=faster:(.*)', change).groups()
            for rank in [int(number)] if what == 'rank' else self.own_ranks(int(number)):
                slow[rank] = slow.get(rank, 1.0) * (1 / float(factor))
        return slow

    def own_ranks(self, stage):
        """The ranks of a stage; none if any of them has other stages, too."""
        mine = {rank: stages for rank, stages in self.roles().items() if stage in stages}
        return sorted(mine) if set(mine.values()) == {frozenset({stage})} else []

    def retime(self, *changes):
        """Replays the run with these changes. Returns the length of the step in picoseconds."""
        self.retimes += 1
        file = self.scratch / 'retimed.json'
        run([str(self.build / 'viz/lockstep_read'), 'retime', str(self.folder), '--report', str(file),
             *(word for change in changes for word in ('--change', change))])
        return picoseconds(json.loads(file.read_text())['steps'][self.step]['seconds'])

    def has_experts(self):
        """Whether some ranks get more rows than others, as only the program knows."""
        return '--experts' in self.command and self.command[self.command.index('--experts') + 1] != '0'

    # What computes for how long, from the trace.

    def compute_of_ranks(self):
        return {rank['rank']: rank['compute'] + rank['optimizer'] for rank in self.ranks}

    def roles(self):
        return {rank: frozenset(each['stage'] for each in self.trace.actions(rank, self.step))
                for rank in self.trace.ranks}

    def compute_in_actions(self, rank, step):
        """By stage."""
        times, actions, waits = defaultdict(int), self.trace.actions(rank, step), self.trace.of(rank, 'wait')
        for action in actions:
            if action['cat'] == 'recompute' and any(
                    other is not action and other['start'] <= action['start'] and action['end'] <= other['end']
                    for other in actions):
                continue  # within the backward pass
            stalled = sum(min(wait['end'], action['end']) - max(wait['start'], action['start']) for wait in waits
                          if wait['start'] < action['end'] and wait['end'] > action['start'])
            times[action['stage']] += action['end'] - action['start'] - stalled
        return times

    def compute_of_stages(self):
        times = defaultdict(list)
        for rank in self.trace.ranks:
            for stage, time in self.compute_in_actions(rank, self.step).items():
                times[stage].append(time)
        return {stage: sum(all) // len(all) for stage, all in times.items()}

    def compute_outside_actions(self, rank):
        """In all steps up to the one in question."""
        return sum(each['compute'] + each['optimizer'] - sum(self.compute_in_actions(rank, step).values())
                   for step in self.trace.steps() if step <= self.step
                   for each in account(self.trace, step)[1] if each['rank'] == rank)

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
        axes = {axis_of(span) for lanes in self.trace.spans.values() for lane, spans in lanes.items() if lane != 0
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


def states(sentence, run, changed=None):
    """Checks the times that each counterfactual states: in its values, and in its text, rounded."""
    lines = []
    changed = run.changed(*sentence['changes']) if changed is None else changed
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
    return lines + states(sentence, run)


def named(what, sentence):
    numbers = sorted(int(re.fullmatch(rf'{what}:(\d+)=.*', change)[1]) for change in sentence['changes'])
    return (f'{what}s {", ".join(map(str, numbers))} at' if len(numbers) <= 8 else
            f'all {len(numbers)} {what}s that are slower than their peers at')


def ranks_at_pace(sentence, run):
    lines = [] if named('rank', sentence) in sentence['text'] else ['the ranks are others']
    return lines + states(sentence, run)


def with_ranks_at_pace(sentence, run):
    """Compares a stage's time with that of a run whose ranks have the stage's pace in all that they compute."""
    stages = [int(re.fullmatch(r'stage:(\d+)=.*', change)[1]) for change in sentence['changes']]
    if not all(run.own_ranks(stage) for stage in stages):
        return []
    paces = run.with_paces(sentence['changes'])
    other = sum(run.compute_outside_actions(rank) * abs(1 - paces[rank] / run.slow.get(rank, 1.0))
                for stage in stages for rank in run.own_ranks(stage))
    again, said = run.repeat(slow=paces), picoseconds(sentence['values']['changed'])
    rounding = 1000  # of kernels' times
    return [] if abs(again - said) <= other + rounding else [
        f'with its ranks at this pace, the step takes {again} ps, and outside the actions they save only {other:.0f} ps']


def stages_at_pace(sentence, run):
    lines = [] if named('stage', sentence) in sentence['text'] else ['the stages are others']
    return lines + states(sentence, run) + with_ranks_at_pace(sentence, run)


def stage_at_pace(sentence, run):
    return (at_pace(sentence, run, 'stage', run.compute_of_stages()) + states(sentence, run)
            + with_ranks_at_pace(sentence, run))


def free_axis(sentence, run):
    axis = sentence['changes'][0].removesuffix('=free')
    lines = [] if f'{axis} communication free' in sentence['text'] else ['the text names another axis']
    return lines + states(sentence, run)


def free_links(sentence, run):
    where = sentence['changes'][0].removesuffix('=free')
    lines = [] if f'all links {where} nodes free' in sentence['text'] else ['the text names other links']
    return lines + states(sentence, run)


def no_latency(sentence, run):
    return states(sentence, run)


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
        helps = run.changed(*changes) < run.length
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
