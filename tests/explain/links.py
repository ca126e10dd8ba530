"""What each span of a trace waited for, found again by code that shares nothing with Lockstep's.

Lockstep follows the ids that the trace states. Here, spans are found by the names of their lanes, their labels and
their times, and compared with Lockstep's causes, the pieces of each step, and its critical path.
"""

import subprocess
from bisect import bisect_right
from collections import defaultdict

from account import lanes_for

ACTION, TRANSFER, LATENCY = 0, 1, 2    # kinds of links
BUBBLE = (5, 6, 7)                     # parts of a step


def is_forward(action):
    return action['cat'] == 'forward'


class Links:
    """Lockstep's answers about a run."""

    def __init__(self, build, folder):
        self.causes, self.pieces, self.paths = [], defaultdict(list), defaultdict(list)
        text = subprocess.run([str(build / 'tests' / 'explain_links'), str(folder)], capture_output=True, text=True,
                              check=True).stdout
        for line in text.splitlines():
            kind, *words = line.split()
            if kind == 'cause':
                cause = None if words[5] == 'none' else tuple(map(int, words[5:]))
                self.causes.append((*map(int, words[:4]), words[4], cause))
            elif kind == 'piece':
                step, rank, start, end, part = map(int, words)
                self.pieces[step, rank].append((start, end, part))
            else:
                step, *link = map(int, words)
                self.paths[step].append(link)


class Checker:
    def __init__(self, trace, links):
        self.trace, self.links, self.problems = trace, links, []
        self.modelled = trace.clock == 'modelled'
        self.all = {(rank, lane): sorted((span for span in spans if span['cat'] not in ('step', 'kernel')),
                                         key=lambda span: (span['start'], -span['end']))
                    for rank, lanes in trace.spans.items() for lane, spans in lanes.items()}
        self.known = defaultdict(list)    # on a free cluster, several messages may share a place
        for key, spans in self.all.items():
            for span in spans:
                self.known[*key, span['start'], span['end'], span['cat']].append(span)
        self.senders = defaultdict(list)    # several messages may arrive on a lane at once
        for rank, lane, sent, to_rank, to_lane, received in trace.messages:
            self.senders[to_rank, to_lane, received].append((rank, lane, sent, None))
        self.by_end = {key: sorted(spans, key=lambda span: (span['end'], -span['start'])) for key, spans in self.all.items()}
        self.ends = {key: [span['end'] for span in spans] for key, spans in self.by_end.items()}
        self.of_collective = defaultdict(list)    # by rank, group and number: (lane, span)
        for (rank, lane), spans in self.all.items():
            for span in spans if lane else ():
                if span['cat'] == 'communication' and span.get('group'):
                    self.of_collective[rank, span['group'], span.get('seq', -1)].append((lane, span))
        received = {(rank, lane, sent): time for rank, lane, sent, _, _, time in trace.messages}
        self.flights = {(rank, each.get('stage'), each.get('microbatch'), each.get('step'), min(each['end'], time), time)
                        for (rank, lane), spans in self.all.items() for each in spans if each['cat'] == 'communication'
                        for time in [received.get((rank, lane, each['start']))] if time is not None}
        self.actions = {(rank, step): trace.actions(rank, step) for rank in trace.ranks
                        for step in {span.get('step', -1) for span in trace.spans[rank][0]}}

    def say(self, what, span, found, wanted):
        if len(self.problems) < 8:
            self.problems.append(f'{what} {span["cat"]} {span["name"]} at {span["start"]} ps: {found} instead of {wanted}')

    def before(self, rank, lane, span, passes):
        """The spans of a lane that ended last before a span, of those that pass."""
        found, time, duration = [], span['start'], span['end'] - span['start']
        for i in range(bisect_right(self.ends.get((rank, lane), ()), time) - 1, -1, -1):
            each = self.by_end[rank, lane][i]
            if found and each['end'] < found[0]['end']:
                break
            if passes(each) and (each['start'] < time or duration):
                found.append(each)
        return found

    def receives_on(self, rank, lane):
        name = self.trace.lanes[rank].get(lane, '')
        return name.endswith(': receive') or name.startswith('receive ')

    def producer(self, wait, user):
        """The action whose result a wait for another stage waits for."""
        stage = wait['stage'] + (-1 if is_forward(user) else 1)
        return next((each for each in self.actions.get((wait['peer'], wait['step']), [])
                     if each['stage'] == stage and each['microbatch'] == wait['microbatch']
                     and each['cat'] not in ('recompute', 'backward_weight') and is_forward(each) == is_forward(user)), None)

    def of_stages(self, rank, wait):
        """The action that waits, the one that it waits for, and the message between them."""
        actions = self.actions[rank, wait['step']]
        user = next((each for each in actions if each['start'] >= wait['end'] and each['cat'] != 'recompute'
                     and each['cat'] != 'backward_weight'
                     and (each['stage'], each['microbatch']) == (wait['stage'], wait['microbatch'])), None)
        if user is None:
            return None
        message = next(((lane, each) for lane in lanes_for(self.trace, rank, wait, actions) for each in self.all[rank, lane]
                        if (each.get('stage'), each.get('microbatch'), each.get('step')) ==
                        (wait['stage'], wait['microbatch'], wait['step'])), None)
        return user, self.producer(wait, user), message

    def wanted(self, rank, lane, span):
        """The places that may be the span's cause: (rank, lane, start, end), or None for none; and whether it is known."""
        if span['cat'] == 'wait':
            return self.cause_of_wait(rank, span)
        if span['cat'] != 'communication':
            latest = self.before(rank, lane, span, lambda each: each is not span)[:1]
            return [(rank, lane, each['start'], each['end']) for each in latest] or [None]
        if self.receives_on(rank, lane):
            return self.senders.get((rank, lane, span['end']))
        offers = [(lane, each) for each in self.before(rank, lane, span,
                                                       lambda each: each['cat'] == 'communication' and each is not span)]
        if span.get('seq', -1) >= 0:
            offers += [(other, each) for other, each in self.of_collective[rank, span.get('group'), span['seq']]
                       if self.receives_on(rank, other) and each['end'] <= span['start']
                       and (each['start'] < span['start'] or span['start'] < span['end'])]
        is_work = lambda each: each['cat'] not in ('wait', 'communication')    # noqa: E731
        if not span.get('group') and span.get('stage', -1) >= 0:
            kind = 'forward' if 'activations' in self.trace.lanes[rank][lane] else 'backward'
            is_work = lambda each: (each['cat'].startswith(kind) and each['cat'] != 'backward_weight' and    # noqa: E731
                                    (each.get('stage'), each.get('microbatch'), each.get('step')) ==
                                    (span['stage'], span['microbatch'], span['step']))
        work = self.before(rank, 0, span, is_work)
        if not work:    # in PipeDream, the action may be of an earlier step
            work = self.before(rank, 0, span, lambda each: each['cat'] not in ('wait', 'communication'))
        offers += [(0, each) for each in work]
        last = max((each['end'] for _, each in offers), default=None)
        return [(rank, on, each['start'], each['end']) for on, each in offers if each['end'] == last] or [None]

    def cause_of_wait(self, rank, wait):
        group, sequence = wait.get('group'), wait.get('seq', -1)
        if not group and wait.get('stage', -1) >= 0:
            if wait['name'] == 'send':
                return [(rank, lane, each['start'], each['end']) for lane in self.trace.spans[rank] if lane
                        if not self.receives_on(rank, lane) for each in self.all[rank, lane]
                        if (each.get('stage'), each.get('microbatch'), each.get('step'), each.get('peer')) ==
                        (wait['stage'], wait['microbatch'], wait['step'], wait['peer'])]
            found = self.of_stages(rank, wait)
            if not found or not found[2]:
                return None
            user, producer, (lane, message) = found
            if producer is None:
                return None
            if producer and producer['end'] > wait['start']:
                return [(wait['peer'], 0, producer['start'], producer['end'])]
            return [(rank, lane, message['start'], message['end'])]
        if not group or (sequence < 0 and wait.get('peer', -1) < 0):
            return [None]
        offers = [(rank, lane, each['start'], each['end']) for lane, each in self.of_collective[rank, group, sequence]
                  if (wait['start'] <= each['end'] or not self.modelled) and each['end'] <= wait['end']
                  and (sequence >= 0 or each.get('peer') == wait['peer'] and each['name'] == wait['name'])]
        last = max((each[3] for each in offers), default=None)
        if self.modelled and last != wait['end']:
            return None    # a library's collective, or one within a switch
        if not self.modelled and sequence < 0:
            return offers or None    # several messages may end before the rank notices the first
        return [each for each in offers if each[3] == last] or None

    def check_causes(self):
        seen = set()
        for rank, lane, start, end, cat, cause in self.links.causes:
            spans = self.known.get((rank, lane, start, end, cat))
            if spans is None:
                self.problems.append(f'rank {rank} has no {cat} from {start} to {end} on lane {lane}')
                continue
            seen.add((rank, lane, start, end, cat))
            wanted, span = [self.wanted(rank, lane, each) for each in spans], spans[0]
            if None in wanted:
                continue
            wanted = [each for some in wanted for each in some]
            if not any(cause == each if each is None or each[3] is not None else cause and cause[:3] == each[:3]
                       for each in wanted):
                self.say(f'rank {rank} lane {lane}:', span, cause, wanted[:3])
        if missing := len(self.known.keys() - seen):
            self.problems.append(f'{missing} spans have no line')
        return len(seen)

    def check_pieces(self):
        """The bubble in a wait for a stage ends when that stage has computed the result."""
        causes = {(rank, lane, start, end, cat): cause for rank, lane, start, end, cat, cause in self.links.causes}
        for (step, rank), pieces in self.links.pieces.items():
            done = pieces[0][0]
            for wait in self.trace.of(rank, 'wait'):
                start, end = max(wait['start'], done, pieces[0][0]), min(wait['end'], pieces[-1][1])
                if start >= end:
                    continue
                done = end
                if wait.get('group') or wait.get('stage', -1) < 0 or wait['name'] == 'send' or wait['step'] != step:
                    continue
                found = self.of_stages(rank, wait)
                if not found or not found[1] or not found[2]:
                    continue
                bubble = sum(min(b, end) - max(a, start) for a, b, part in pieces
                             if part in BUBBLE and max(a, start) < min(b, end))
                wanted = max(0, min(found[1]['end'], end) - start)
                if bubble != wanted:
                    self.say(f'rank {rank}: bubble in', wait, bubble, wanted)
                cause = causes[rank, 0, wait['start'], wait['end'], 'wait']
                if start == wait['start'] and (cause is not None and cause[1] == 0) != (bubble > 0):
                    self.say(f'rank {rank}:', wait, f'cause {cause}', f'a bubble of {bubble} ps')

    def check_path(self):
        """Each link of a path ends when the next begins, and is something that the trace shows."""
        for step, links in self.links.paths.items():
            actions = [(rank, each) for rank in self.trace.ranks for each in self.actions.get((rank, step), [])]
            ends = links[0][5], links[-1][6]
            wanted = min(each['start'] for _, each in actions), max(each['end'] for _, each in actions)
            if ends != wanted or any(a[6] != b[5] for a, b in zip(links, links[1:])):
                self.problems.append(f'step {step}: the path from {ends} does not cover {wanted}')
            place = {(rank, each['stage'], each['microbatch'], each['start'], each['end']) for rank, each in actions}
            for before, (kind, rank, _, stage, microbatch, start, end) in zip([None, *links], links):
                if kind == ACTION and (rank, stage, microbatch, start, end) not in place:
                    self.problems.append(f'step {step}: the path has no action of rank {rank} at {start}')
                if kind == ACTION and before and before[0] == LATENCY and before[2] != rank:
                    self.problems.append(f'step {step}: a message to rank {before[2]} does not start rank {rank}')
                if kind == ACTION and before and before[0] == ACTION and before[1] != rank:
                    self.problems.append(f'step {step}: without a message from rank {before[1]} to {rank}')
                if kind == LATENCY and (rank, stage, microbatch, step, start, end) not in self.flights:
                    self.problems.append(f'step {step}: no message of rank {rank} flies from {start} to {end}')


def differences(trace, build, folder):
    """Returns the number of spans whose causes were checked, and what is wrong."""
    checker = Checker(trace, Links(build, folder))
    spans = checker.check_causes()
    checker.check_pieces()
    checker.check_path()
    return spans, checker.problems[:8]
