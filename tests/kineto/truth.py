"""Computes from PyTorch's traces the figures that the viewer must show. Shares no code with it, and needs only Python.

    tests/kineto/truth.py FILE...       prints its results as one JSON document

Times are in microseconds, on the clock of the file.
"""

import csv
import gzip
import json
import re
import sys

PASS = re.compile(r'PP:(\d+)([FBIW])(\d+)$')
JOINT = re.compile(r'PP:\((\d+)([FBIW])(\d+);(\d+)([FBIW])(\d+)\)OVERLAP_F_B$')
STEP = re.compile(r'ProfilerStep\s*#\s*(\d+)$')
HOST_CATEGORIES = ('cpu_op', 'user_annotation', 'cuda_runtime', 'cuda_driver', 'python_function')


class Trace:
    """One rank's file."""

    def __init__(self, path):
        opened = gzip.open if str(path).endswith('.gz') else open
        with opened(path, 'rt') as file:
            document = json.load(file)
        info = document.get('distributedInfo', {})
        self.path, self.rank, self.world = path, info.get('rank'), info.get('world_size')
        self.host = document.get('host_name')
        self.groups = {config['pg_name']: tuple(config['ranks']) for config in info.get('pg_config', [])
                       if isinstance(config.get('ranks'), list)}
        self.group_of = {config.get('pg_desc'): tuple(config['ranks']) for config in info.get('pg_config', [])
                         if isinstance(config.get('ranks'), list)}
        self.base_ns = document.get('baseTimeNanoseconds', 0)
        self.events = [event for event in document['traceEvents'] if event.get('ph') == 'X' and event.get('cat') != 'Trace']
        self.events.sort(key=lambda event: (event['ts'], -event['dur']))
        steps = [(int(STEP.match(e['name'])[1]), e['ts'], e['ts'] + e['dur'], e['tid']) for e in self.events
                 if e['cat'] == 'user_annotation' and STEP.match(e['name'])]
        self.steps = [(number, begin, end) for number, begin, end, _ in steps]
        self.main = steps[0][3] if steps else None

    def step_of(self, event):
        return next((number for number, begin, end in self.steps if begin <= event['ts'] < end), None)

    def actions(self):
        """The pipeline's compute actions in order, as PyTorch annotates them: {step: ['0F0', ...]}."""
        found = {}
        for event in self.events:
            if event['cat'] == 'user_annotation' and (PASS.match(event['name']) or JOINT.match(event['name'])):
                found.setdefault(self.step_of(event), []).append(event['name'][3:])
        return found

    def kernels(self):
        return [event for event in self.events if event['cat'] in ('kernel', 'gpu_memcpy', 'gpu_memset')]

    def kernels_of_steps(self):
        """The kernels that HolisticTraceAnalysis counts: with two or more steps, those launched before the last one's end."""
        if len({number for number, _, _ in self.steps}) < 2:
            return self.kernels()
        last = max(end for _, _, end in self.steps)
        launched = {event['args'].get('correlation') for event in self.events
                    if event['ts'] <= last and event['cat'] in ('cuda_runtime', 'cuda_driver')}
        return [event for event in self.kernels() if event['args'].get('correlation') in launched]


def schedule(path):
    """The compute actions of a schedule's CSV: a list per rank."""
    with open(path, newline='') as file:
        rows = [[cell for cell in row if PASS.match('PP:' + cell) or JOINT.match('PP:' + cell)] for row in csv.reader(file)]
    return rows


def union(intervals):
    """The total length of the union."""
    return sum(end - begin for begin, end in merged(intervals))


def merged(intervals):
    result = []
    for begin, end in sorted(intervals):
        if result and begin <= result[-1][1]:
            result[-1][1] = max(result[-1][1], end)
        else:
            result.append([begin, end])
    return result


def common(first, second):
    """The total length of the intersection of two unions."""
    total, one, two = 0, merged(first), merged(second)
    i = j = 0
    while i < len(one) and j < len(two):
        total += max(0, min(one[i][1], two[j][1]) - max(one[i][0], two[j][0]))
        if one[i][1] < two[j][1]:
            i += 1
        else:
            j += 1
    return total


def kernel_type(name):
    """HolisticTraceAnalysis' classes, by a kernel's name (hta/utils/utils.py: get_kernel_type)."""
    if re.match(r'nccl.*Kernel', name):
        return 'communication'
    if re.match(r'Memcpy|Memset|dma', name):
        return 'memory'
    return 'other' if re.match(r'.*Memcpy|Memset|.*Sync', name) else 'computation'


def breakdown(trace):
    """HolisticTraceAnalysis' temporal breakdown and overlap of one rank's GPU events."""
    spans = {}
    for event in trace.kernels_of_steps():
        spans.setdefault(kernel_type(event['name']), []).append((event['ts'], event['ts'] + event['dur']))
    everything = [span for kind in spans.values() for span in kind]
    if not everything:
        return None
    total = max(end for _, end in everything) - min(begin for begin, _ in everything)
    compute, communication = spans.get('computation', []), spans.get('communication', [])
    idle = total - union(everything)
    return {'kernel_time': total, 'idle': idle, 'compute': union(compute), 'non_compute': total - union(compute) - idle,
            'overlap_pctg': 100 * common(compute, communication) / union(communication) if communication else None}


def time_by_kernel(trace):
    """{name of GPU events: (their number, their total time)}"""
    found = {}
    for event in trace.kernels_of_steps():
        count, total = found.get(event['name'], (0, 0))
        found[event['name']] = (count + 1, total + event['dur'])
    return found


def messages(trace):
    """Messages over gloo: (kind, peer's rank in the group, issue, transfer), in order of issue.

    The issue is c10d::send or c10d::recv_; the transfer is the gloo: span that begins during it, or else the next one.
    """
    issues = [e for e in trace.events if e['name'] in ('c10d::send', 'c10d::recv_')]
    found = []
    for kind, operation in (('send', 'c10d::send'), ('recv', 'c10d::recv_')):
        spans = [e for e in trace.events if e['name'] == f'gloo:{kind}']
        mine = [e for e in issues if e['name'] == operation]
        if len(spans) != len(mine):
            raise ValueError(f'{trace.path}: {len(mine)} {operation}, {len(spans)} gloo:{kind}')
        found += [(kind, int(issue['args']['Concrete Inputs'][2]), issue, span) for issue, span in zip(mine, spans)]
    return sorted(found, key=lambda item: item[2]['ts'])


def blocked(trace, span):
    """How long the main thread was idle before `span` ended, i.e. since any other event last began or ended on it."""
    end = span['ts'] + span['dur']
    edge = span['ts']
    for event in trace.events:
        if event['ts'] >= end:
            break
        if event['tid'] == trace.main and event['cat'] in HOST_CATEGORIES and not event['name'].startswith('gloo:'):
            edge = max(edge, event['ts'])
            if event['ts'] + event['dur'] < end:
                edge = max(edge, event['ts'] + event['dur'])
    return end - edge


def message_waits(trace, members):
    """{peer: the time that the main thread spent in c10d::send and c10d::recv_, or blocked until a receive ended}"""
    total = {}
    for kind, peer, issue, span in messages(trace):
        if trace.step_of(issue) is not None:
            wait = issue['dur'] + (blocked(trace, span) if kind == 'recv' else 0)
            total[members[peer]] = total.get(members[peer], 0) + wait
    return total


def collectives(trace):
    """Collectives of one rank, in order: (key, event). The key identifies the collective on all ranks.

    On a GPU, the kernels: by Comms Id, else group and Seq, else by kind and order. Over gloo, the gloo: spans, in the
    order of their c10d:: calls.
    """
    found, count = [], {}
    for event in trace.events:
        args = event.get('args', {})
        if event['cat'] == 'kernel' and event['name'].startswith('nccl'):
            if 'Comms Id' in args:
                found.append((('id', args['Comms Id']), event))
            elif 'Collective name' in args and args['Collective name'] not in ('send', 'recv'):
                kind = (args['Collective name'], args['Group size'], event['args']['stream'])
                count[kind] = count.get(kind, -1) + 1
                found.append((('order', *kind, count[kind]), event))
        elif event['name'].startswith('gloo:') and event['name'] not in ('gloo:send', 'gloo:recv'):
            size = json.dumps(args.get('Input Dims'))
            kind = (event['name'], size)
            count[kind] = count.get(kind, -1) + 1
            found.append((('order', *kind, count[kind]), event))
    return found


def last_arrivals(traces):
    """{rank: how often it was the last to begin a collective that all ranks took part in}"""
    members = {}
    for trace in traces:
        for key, event in collectives(trace):
            members.setdefault(key, []).append((trace.base_ns / 1000 + event['ts'], trace.rank))
    last = {trace.rank: 0 for trace in traces}
    for begins in members.values():
        if len(begins) == len(traces):
            last[max(begins)[1]] += 1
    return last


def main():
    traces = sorted((Trace(path) for path in sys.argv[1:]), key=lambda trace: trace.rank)
    result = []
    for trace in traces:
        members = list(range(trace.world))
        one = {'rank': trace.rank, 'steps': [number for number, _, _ in trace.steps], 'actions': trace.actions(),
               'breakdown': breakdown(trace), 'collectives': len(collectives(trace))}
        if any(e['name'] == 'gloo:recv' for e in trace.events) and len(trace.groups) == 1:
            one['message_waits_us'] = message_waits(trace, members)
        result.append(one)
    json.dump({'ranks': result, 'last_arrivals': last_arrivals(traces)}, sys.stdout, indent=1)
    print()


if __name__ == '__main__':
    main()
