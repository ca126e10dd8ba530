"""Where a step goes, recomputed from the text of a trace by code that shares nothing with Lockstep's.

Looks at each moment between two events on its own: what the rank's compute lane waits for then, and what is on the
lanes that serve this. Lockstep works with lists of intervals, and finds lanes by the labels of spans; here they are
found by their names.
"""

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from decimal import Decimal

ACTIONS = {'forward', 'backward', 'backward_input', 'backward_weight', 'recompute'}
PARTS = ('compute', 'optimizer', 'cool_down', 'warm_up', 'waiting', 'other', 'ended')


def picoseconds(seconds):
    return round(seconds * 1e12)


class Trace:
    """The spans of all ranks of a run, by rank and lane, with times in picoseconds."""

    def __init__(self, folder):
        self.hello, self.lanes, self.spans = None, defaultdict(dict), defaultdict(lambda: defaultdict(list))
        starts, ends = defaultdict(list), defaultdict(list)
        self.peaks = {}  # by rank and step: the bytes of the memory's peak, and those of activations
        for file in sorted(folder.glob('rank*.json'), key=lambda each: int(each.stem[4:])):
            parts, bytes_of, states = [], defaultdict(int), {}
            for line in file.read_text().splitlines():
                if not line.startswith('{'):
                    continue
                event = json.loads(line.rstrip(','), parse_float=Decimal)
                rank, kind = event['pid'], event['ph']
                if kind == 'M' and event['name'] == 'lockstep':
                    self.hello = self.hello or event['args']
                elif kind == 'M' and event['name'] == 'thread_name':
                    self.lanes[rank][event['tid']] = event['args']['name']
                elif kind == 'M' and event['name'] == 'memory state':
                    args = event['args']
                    parts += args['parts']
                    bytes_of.update(zip(args['bytes'][::2], args['bytes'][1::2]))
                    states[args['state']] = (sum(bytes_of.values()),
                                             sum(size for part, size in bytes_of.items() if parts[part][0] == 'activations'))
                elif kind == 'M' and event['name'] == 'memory at peak':
                    self.peaks[rank, event['args']['step']] = states[event['args']['state']]
                elif kind == 'X':
                    args, start = event.get('args', {}), int(event['ts'] * 10**6)
                    self.spans[rank][event['tid']].append({
                        **args, 'name': event['name'], 'cat': event['cat'], 'start': start,
                        'end': start + int(event['dur'] * 10**6)})
                    if event.get('flow_out'):
                        starts[event['bind_id']].append((rank, event['tid'], start))
                    if event.get('flow_in'):
                        ends[event['bind_id']].append((rank, event['tid'], start + int(event['dur'] * 10**6)))
        self.clock = self.hello['clock']
        self.ranks = sorted(self.spans)
        self.messages = [(*start, *end) for id, all_starts in starts.items()
                         for start, end in zip(all_starts, ends[id])]
        self._index_messages()

    def _index_messages(self):
        """By rank and lane: (start of flight, end, start of arrival) of each message to it."""
        self.arrivals, self.late_sends, self.sent = defaultdict(list), {}, {}
        receives = {(rank, lane, span['end']): span['start'] for rank, lanes in self.spans.items()
                    for lane, spans in lanes.items() for span in reversed(spans) if span['cat'] == 'communication'}
        for from_rank, from_lane, sent, to_rank, to_lane, received in self.messages:
            start = receives.get((to_rank, to_lane, received))
            if self.clock == 'wall' and start is not None and start > sent:
                self.late_sends[from_rank, from_lane, sent] = sent = start
            self.arrivals[to_rank, to_lane].append([sent, received, start])
            key = to_rank, to_lane, received
            self.sent[key] = max(sent, self.sent.get(key, sent))
        for all_of_lane in self.arrivals.values():
            all_of_lane.sort(key=lambda each: (each[1], each[0]))
            before = None  # when the message before had arrived
            at = 0
            while at < len(all_of_lane):
                same = [each for each in all_of_lane[at:] if each[1] == all_of_lane[at][1]]
                last_sent, time = same[-1][0], same[0][1]
                for each in same:
                    each[0] = last_sent
                    if before is not None and (each[2] if each[2] is not None else each[1]) == before:
                        each[0] = max(each[0], before)
                before = time
                at += len(same)

    def of(self, rank, cat, lane=0):
        return [span for span in self.spans[rank][lane] if span['cat'] == cat]

    def steps(self):
        return sorted({span['step'] for rank in self.ranks for span in self.of(rank, 'step')})

    def step_span(self, rank, step):
        return next((span for span in self.of(rank, 'step') if span['step'] == step), None)

    def actions(self, rank, step):
        return [span for span in self.spans[rank][0]
                if span['cat'] in ACTIONS and span.get('step') == step and span.get('stage', -1) >= 0]


def axis_of(span):
    return span.get('group') or ('pp' if span.get('stage', -1) >= 0 else 'communication')


class Lookup:
    """Whether any of some intervals covers a moment."""

    def __init__(self, intervals):
        self.points = []
        for start, end in sorted(intervals):
            if start >= end:
                continue
            if self.points and start <= self.points[-1]:
                self.points[-1] = max(self.points[-1], end)
            else:
                self.points += [start, end]

    def covers(self, twice_moment):
        """`twice_moment`: a moment between two picoseconds, doubled."""
        return bisect_right(self.points, twice_moment // 2) % 2 == 1

    def within(self, start, end):
        return self.points[bisect_left(self.points, start):bisect_right(self.points, end)]

    def length(self):
        return sum(self.points[1::2]) - sum(self.points[::2])


def lanes_for(trace, rank, wait, actions):
    """The lanes that serve a wait: those of its group, or the one that brings the result of another stage."""
    names = trace.lanes[rank]
    group = wait.get('group')
    if group:
        kind = f'{group} collectives' if wait.get('seq', -1) >= 0 else group
        return [lane for lane, name in names.items() if name in (f'{kind}: send', f'{kind}: receive')]
    if wait.get('stage', -1) < 0:
        return []
    if wait['name'] == 'send':  # blocking: the lanes of all messages between stages
        return [lane for lane, name in names.items()
                if name.startswith(('send activations', 'send gradients', 'receive activations', 'receive gradients'))]
    user = next(action for action in actions if action['start'] >= wait['end'] and action['cat'] != 'recompute'
                and (action['stage'], action['microbatch']) == (wait['stage'], wait['microbatch']))
    kind = 'activations' if user['cat'] == 'forward' else 'gradients'
    return [lane for lane, name in names.items() if name == f'receive {kind} ← {wait["peer"]}']


def when_sent(trace, rank, wait, lanes, own):
    """When the message was sent that brings the awaited result of another stage; the wait's start if it awaits another."""
    if wait.get('group') or wait.get('stage', -1) < 0 or wait['name'] != 'recv':
        return wait['start']
    receives = sorted((span['end'], lane) for lane in lanes for span in trace.spans[rank][lane]
                      if span['cat'] == 'communication' and span['name'] == 'recv'
                      and (span.get('stage'), span.get('microbatch')) == (wait['stage'], wait['microbatch'])
                      and span.get('step') == wait.get('step')
                      and span['end'] > own['start'] and span['start'] < own['end'])
    if not receives:
        return wait['start']
    end, lane = ([each for each in receives if each[0] <= wait['end']] or receives[:1])[-1]
    return trace.sent.get((rank, lane, end), wait['start'])


def when_computed(trace, wait, step, actions):
    """When the awaited result of another stage was computed; later than any time if there is no such action."""
    user = next((action for action in actions if action['start'] >= wait['end'] and action['cat'] != 'recompute'
                 and (action['stage'], action['microbatch']) == (wait.get('stage'), wait.get('microbatch'))), None)
    if not user or wait.get('peer', -1) < 0:
        return 10**19
    forward = user['cat'] == 'forward'
    return next((action['end'] for action in trace.actions(wait['peer'], step)
                 if action['microbatch'] == wait['microbatch'] and action['stage'] == wait['stage'] + (-1 if forward else 1)
                 and (action['cat'] == 'forward') == forward and action['cat'] not in ('recompute', 'backward_weight')),
                10**19)


def account_of_rank(trace, rank, step, first_action_of_all):
    own = trace.step_span(rank, step)
    begin, end = own['start'], own['end']
    actions = sorted(trace.actions(rank, step), key=lambda each: each['start'])
    first_action = actions[0]['start'] if actions else None
    sums = defaultdict(int)
    exposed = defaultdict(lambda: defaultdict(int))
    waits = sorted((span for span in trace.of(rank, 'wait') if span['end'] > begin and span['start'] < end),
                   key=lambda each: each['start'])
    traffic = {}
    at = begin
    covered = []
    for wait in waits:
        start, stop = max(wait['start'], at), min(wait['end'], end)
        if start >= stop:
            continue
        at = stop
        covered.append((start, stop))
        lanes = tuple(lanes_for(trace, rank, wait, actions))
        computed = when_computed(trace, wait, step, actions)
        if lanes not in traffic:
            arrivals = [each for lane in lanes for each in trace.arrivals[rank, lane]]
            sent = [(trace.late_sends.get((rank, lane, span['start']), span['start']), span['end'])
                    for lane in lanes for span in trace.spans[rank][lane] if span['cat'] == 'communication']
            traffic[lanes] = (Lookup((each[2], each[1]) for each in arrivals if each[2] is not None),
                              Lookup((each[0], each[1]) for each in arrivals), Lookup(sent))
        arriving, in_flight, moving = traffic[lanes]
        sent = when_sent(trace, rank, wait, lanes, own)
        marks = {start, stop, first_action_of_all or start, computed, sent}
        for lookup in traffic[lanes]:
            marks.update(lookup.within(start, stop))
        marks = sorted(mark for mark in marks if start <= mark <= stop)
        for a, b in zip(marks, marks[1:]):
            middle = a + b
            if a < sent:
                part = 'late_peer'
            elif arriving.covers(middle):
                part = 'transfer'
            elif in_flight.covers(middle) and not (axis_of(wait) == 'pp' and wait['name'] == 'send'):
                part = 'latency'
            elif moving.covers(middle):
                part = 'transfer'
            else:
                part = 'late_peer'
            if part == 'late_peer' and axis_of(wait) == 'pp' and wait['name'] == 'recv' and a < computed:
                if first_action is not None and wait['start'] >= first_action:
                    sums['waiting'] += b - a
                else:
                    sums['cool_down' if a < first_action_of_all else 'warm_up'] += b - a
            else:
                exposed[axis_of(wait)][part] += b - a
    free = Lookup(covered)
    optimizer = Lookup((span['start'], span['end']) for span in trace.of(rank, 'optimizer'))
    working = Lookup((span['start'], span['end']) for lanes in trace.spans[rank].values() for span in lanes
                     if span['cat'] in ACTIONS | {'optimizer', 'kernel'})
    marks = sorted({begin, end, *free.within(begin, end), *optimizer.within(begin, end), *working.within(begin, end)})
    for a, b in zip(marks, marks[1:]):
        if free.covers(a + b):
            continue
        busy = trace.clock == 'modelled' or working.covers(a + b)
        sums['other' if not busy else 'optimizer' if optimizer.covers(a + b) else 'compute'] += b - a
    return {'rank': rank, 'begin': begin, 'end': end, **{part: sums[part] for part in PARTS}, 'exposed': exposed,
            'lanes': on_lanes(trace, rank, step)}


def on_lanes(trace, rank, step):
    """By axis: how long its bytes are on the rank's lanes, and how long the rank computes meanwhile."""
    times = defaultdict(list)
    for lane, spans in trace.spans[rank].items():
        for span in spans if lane != 0 else []:
            if span['cat'] == 'communication' and span.get('step') == step:
                start = trace.late_sends.get((rank, lane, span['start']), span['start'])
                times[axis_of(span)].append((start, span['end']))
    working = Lookup((span['start'], span['end']) for lanes in trace.spans[rank].values() for span in lanes
                     if span['cat'] in ACTIONS | {'optimizer', 'kernel'})
    waiting = Lookup((span['start'], span['end']) for span in trace.of(rank, 'wait'))
    result = {}
    for axis, intervals in times.items():
        moving = Lookup(intervals)
        hidden = 0
        for start, end in zip(moving.points[::2], moving.points[1::2]):
            marks = sorted({start, end, *working.within(start, end), *waiting.within(start, end)})
            hidden += sum(b - a for a, b in zip(marks, marks[1:])
                          if working.covers(a + b) and not waiting.covers(a + b))
        result[axis] = (moving.length(), hidden)
    return result


def account(trace, step):
    """Returns the step's length, and the parts of each rank, in picoseconds."""
    all_actions = [action for rank in trace.ranks for action in trace.actions(rank, step)]
    first = min((action['start'] for action in all_actions), default=None)
    last = max((action['end'] for action in all_actions), default=None)
    ranks = [account_of_rank(trace, rank, step, first) for rank in trace.ranks if trace.step_span(rank, step)]
    length = max(rank['end'] - rank['begin'] for rank in ranks)
    for rank in ranks:
        until = rank['begin'] + length
        drained = max(0, min(last, until) - rank['end']) if last is not None else 0
        rank['cool_down'] += drained
        rank['ended'] = until - rank['end'] - drained
    return length, ranks


def differences(trace, where):
    """Compares report.json's account of a step with this one. Returns lines that say what differs."""
    length, ranks = account(trace, where['step'])
    lines = []

    def same(what, mine, theirs):
        if mine != picoseconds(theirs):
            lines.append(f'step {where["step"]}, {what}: {theirs:.12f} s, in the trace {mine / 1e12:.12f} s')

    same('length', length, where['seconds'])
    if [rank['rank'] for rank in ranks] != [rank['rank'] for rank in where['ranks']]:
        lines.append('the ranks differ')
    for mine, theirs in zip(ranks, where['ranks']):
        name = f'rank {mine["rank"]}, '
        for part in ('compute', 'optimizer', 'other', 'ended'):
            same(name + part, mine[part], theirs[part])
        for part in ('cool_down', 'warm_up', 'waiting'):
            same(name + part, mine[part], theirs['bubble'][part])
        for axis in {*mine['exposed'], *theirs['exposed']}:
            for part in ('transfer', 'latency', 'late_peer'):
                same(f'{name}{axis} {part}', mine['exposed'][axis][part], theirs['exposed'].get(axis, {}).get(part, 0))
        for axis, parts in theirs['exposed'].items():
            moving, hidden = mine['lanes'].get(axis, (0, 0))
            same(f'{name}{axis} communication', moving, parts['communication'])
            same(f'{name}{axis} hidden', hidden, parts['hidden'])
        total = sum(mine[part] for part in PARTS) + sum(sum(axis.values()) for axis in mine['exposed'].values())
        if total != length:
            lines.append(f'{name}the parts add up to {total}, and the step takes {length} ps')
    return lines
