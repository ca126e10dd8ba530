"""The proofs of what the viewer says about two runs: each recomputes a sentence's values from the traces."""

import math

from account import picoseconds

PARTS = ('compute', 'optimizer', 'other', 'ended')


class Side:
    """A step of one of the runs."""

    def __init__(self, run):
        self.trace, self.step, self.length, self.ranks = run.trace, run.step, run.length, run.ranks

    def mean(self, get):
        return sum(get(rank) for rank in self.ranks) / len(self.ranks)

    def parts(self):
        """The mean of each part, under the name that the sentences' values use."""
        parts = {part: self.mean(lambda rank: rank[part]) for part in PARTS}
        parts['bubble'] = self.mean(lambda rank: rank['cool_down'] + rank['warm_up'] + rank['waiting'])
        for axis in {axis for rank in self.ranks for axis in rank['exposed']}:
            parts[f'{axis} exposed'] = self.mean(lambda rank: sum(rank['exposed'][axis].values()))
        return parts

    def actions(self):
        return [self.trace.actions(rank['rank'], self.step) for rank in self.ranks]

    def separate_weights(self):
        return any(action['cat'] == 'backward_weight' for actions in self.actions() for action in actions)

    def weights_at_end(self):
        total = 0
        for actions in self.actions():
            last = max((each['start'] for each in actions if each['cat'] == 'backward_input'), default=None)
            if last is not None:
                total += sum(each['end'] - each['start'] for each in actions
                             if each['cat'] == 'backward_weight' and each['start'] > last)
        return total / len(self.ranks)

    def weights(self):
        return sum(each['end'] - each['start'] for actions in self.actions() for each in actions
                   if each['cat'] == 'backward_weight') / len(self.ranks)

    def peaks(self):
        """By rank: the bytes at the peak, and those of activations."""
        return {rank['rank']: self.trace.peaks[rank['rank'], self.step] for rank in self.ranks
                if (rank['rank'], self.step) in self.trace.peaks}

    def bytes_sent(self):
        total = 0
        for rank, lanes in self.trace.spans.items():
            for lane, spans in lanes.items():
                if self.trace.lanes[rank].get(lane, '').startswith(('send ', 'compute')) or \
                        self.trace.lanes[rank].get(lane, '').endswith(': send'):
                    total += sum(max(0, span.get('bytes', 0)) for span in spans
                                 if span['cat'] == 'communication' and span.get('step') == self.step
                                 and (lane != 0))
        return total


def close(mine, theirs, tolerance=1.0):
    """Compares times in picoseconds; a mean is no whole number."""
    return abs(mine - theirs * 1e12) <= tolerance


def step_times(values, text, a, b):
    wrong = []
    if (picoseconds(values['a']), picoseconds(values['b'])) != (a.length, b.length):
        wrong.append(f'the steps take {a.length} and {b.length} ps')
    if 'relative' in values and abs(values['relative'] - (b.length - a.length) / a.length) > 1e-9:
        wrong.append('the relative difference is another one')
    if 'ratio' in values and abs(values['ratio'] - b.length / a.length) > 1e-9:
        wrong.append('the ratio is another one')
    if 'both steps take' in text.lower() and abs(b.length - a.length) > 0.01 * max(a.length, b.length):
        wrong.append('the steps do not take equally long')
    longer = ' more time than ' in text or ' times the time of ' in text
    if (' more time than ' in text or ' less time than ' in text or longer) and longer != (b.length > a.length):
        wrong.append('the direction is wrong')
    return wrong


def changed_parts(values, text, a, b):
    mine_a, mine_b = a.parts(), b.parts()
    names = {*mine_a, *mine_b}
    change = {name: mine_b.get(name, 0) - mine_a.get(name, 0) for name in names}
    wrong = []
    if abs(sum(change.values()) - (b.length - a.length)) > len(names):
        wrong.append('the parts do not add up to the difference')
    said = {name: value for name, value in values.items() if name != 'difference'}
    same = text.startswith('All parts are equal')
    for name, value in said.items():
        if name not in names:
            wrong.append(f'there is no part {name}')
        elif not close(mine_b.get(name, 0) if same else change[name], value):
            wrong.append(f'{name}: {change[name]} ps')
    if not same:
        named = sum(abs(change[name]) for name in said if name in change)
        if named < 0.89 * sum(map(abs, change.values())):
            wrong.append('it names less than nine tenths of the changes')
        rest = [abs(each) for name, each in change.items() if name not in said]
        if said and rest and max(rest) > min(abs(change.get(name, 0)) for name in said) + 1:
            wrong.append('a larger change is not named')
    if 'difference' in values and not close(b.length - a.length, values['difference']):
        wrong.append('the difference is another one')
    return wrong


def most_changed_rank(a, b):
    """The rank whose compute changes most, and its compute in A and in B; none if another one's changes about as much."""
    compute = [{rank['rank']: rank['compute'] + rank['optimizer'] for rank in side.ranks} for side in (a, b)]
    if compute[0].keys() != compute[1].keys() or len(compute[0]) < 2 or \
            min(*compute[0].values(), *compute[1].values()) <= 0:
        return None
    sizes = sorted((abs(math.log(compute[1][rank] / time)), -rank) for rank, time in compute[0].items())
    if sizes[-1][0] - sizes[-2][0] < 0.005:
        return None
    rank = -sizes[-1][1]
    return rank, compute[0][rank], compute[1][rank]


def changed_rank(values, text, a, b):
    rank, time_a, time_b = most_changed_rank(a, b)
    wrong = []
    if (values['rank'], picoseconds(values['a']), picoseconds(values['b'])) != (rank, time_a, time_b):
        wrong.append(f'rank {rank} computes for {time_a} and {time_b} ps')
    if f' {time_b / time_a:.2f} times as long' not in text and 0.9995 <= time_b / time_a < 9.995 and \
            f' {time_b / time_a:.0f} times as long' not in text:
        wrong.append(f'the ratio is {time_b / time_a}')
    return wrong


def weight_gradients(values, text, a, b):
    wrong = []
    if a.separate_weights() == b.separate_weights():
        return ['both or neither have weight gradients of their own']
    side = b if b.separate_weights() else a
    if not close(side.weights(), values['weights']):
        wrong.append(f'the weight gradients take {side.weights()} ps')
    if not close(side.weights_at_end(), values['weights_at_end']):
        wrong.append(f'the weight gradients at the end take {side.weights_at_end()} ps')
    for key, each in (('bubble_a', a), ('bubble_b', b)):
        if not close(each.parts()['bubble'], values[key]):
            wrong.append(f'{key} is {each.parts()["bubble"]} ps')
    if 'longer' in text and side.parts()['bubble'] <= (a if side is b else b).parts()['bubble']:
        wrong.append('the bubble is not longer')
    if 'shorter' in text and side.parts()['bubble'] >= (a if side is b else b).parts()['bubble']:
        wrong.append('the bubble is not shorter')
    return wrong


def peak_memory(values, text, a, b):
    wrong = directions(text, ' more memory than ', ' less memory than ', values['a'], values['b'])
    for key, each in (('a', a), ('b', b)):
        peaks = each.peaks()
        most = max(total for total, _ in peaks.values())
        if values[key] != most:
            wrong.append(f'the highest peak of {key} is {most} B')
        rank = min(rank for rank, (total, _) in peaks.items() if total == most)
        if values.get(f'rank_{key}', rank) != rank:
            wrong.append(f'it is on rank {rank}')
        if values.get(f'activations_{key}', peaks[rank][1]) != peaks[rank][1]:
            wrong.append(f'activations of {key} take {peaks[rank][1]} B')
        if f'in_flight_{key}' in values:
            flight = most_in_flight(each.trace.actions(rank, each.step))
            if values[f'in_flight_{key}'] != flight:
                wrong.append(f'in {key}, {flight} are in flight')
    return wrong


def most_in_flight(actions):
    """The most microbatches between the start of their forward and the end of their backward."""
    marks = []
    for microbatch in {action['microbatch'] for action in actions}:
        own = [action for action in actions if action['microbatch'] == microbatch]
        marks += [(min(each['start'] for each in own), 1), (max(each['end'] for each in own), -1)]
    most = now = 0
    for _, change in sorted(marks):
        now += change
        most = max(most, now)
    return most


def directions(text, more, less, a, b):
    """Checks the words for larger and smaller, against the values that they compare."""
    said = 'more' if more in text or ' times the ' in text else 'less' if less in text else 'the same'
    true = 'the same' if a == b else 'more' if b > a else 'less'
    # Values that print alike may be called the same.
    return [] if said == true or (said == 'the same' and abs(a - b) < 0.01 * max(a, b)) else [f'in truth, it is {true}']


def bytes_sent(values, text, a, b):
    mine = a.bytes_sent(), b.bytes_sent()
    if mine == (0, 0):
        return [] if text == 'Neither trace shows messages in this step.' else ['no messages are sent']
    wrong = [] if (values['a'], values['b']) == mine else [f'A sends {mine[0]} B and B {mine[1]}']
    return wrong + (directions(text, ' more bytes than ', ' fewer bytes than ', *mine) if min(mine) > 0 else [])


PROOFS = {proof.__name__: proof
          for proof in (step_times, changed_parts, changed_rank, weight_gradients, peak_memory, bytes_sent)}


def differences(sentences, first, second):
    """Returns lines that say which sentence is false."""
    a, b = Side(first), Side(second)
    said = {sentence['claim'] for sentence in sentences}
    due = {'step_times', 'changed_parts', 'peak_memory', 'bytes_sent'}
    if a.separate_weights() != b.separate_weights() and any(a.actions()) and any(b.actions()):
        due.add('weight_gradients')
    if most_changed_rank(a, b):
        due.add('changed_rank')
    wrong = [f'{claim} is {"missing" if claim in due else "not expected"}' for claim in said ^ due]
    return wrong + [f'{sentence["text"]} {line}' for sentence in sentences
            for line in PROOFS[sentence['claim']](sentence['values'], sentence['text'], a, b)]
