"""How the axes nest: the ranks of a node, of a stage and of a replica, and the groups of rank 0. Groups and bytes come
from the messages that a run sends."""

import re

from svg import DIM, INK, LINE, PALE, Drawing

AXES = {'tp': ('#3f7fbf', 'the ranks of a node share each layer'),
        'cp': ('#d08a2b', 'nodes share each sequence'),
        'pp': ('#4f9f5f', 'stages share a copy of the model'),
        'dp': ('#a0589a', 'replicas share the samples')}
FLAGS = ('--ranks', '64', '--dp', '2', '--pp', '2', '--cp', '2', '--tp', '8', '--heads', '8', '--cluster',
         'lessons/16_all_axes/pod.json', '--steps', '1')
SIZE, GAP = 34, 4  # of the box of a rank
EDGE, HEAD = 12, 20  # of a box: padding, and room for its title


def draw(runs):
    run = runs.run('16_all_axes', *FLAGS)
    first = run.traces[0][0]['args']
    mesh, per_node = first['mesh'], first['cluster_description']['ranks_per_node']
    sent = messages(run.traces)
    across = mesh['tp'] // 2  # a node shows two rows of ranks

    node_w, node_h = across * (SIZE + GAP) - GAP + 2 * EDGE, HEAD + 2 * (SIZE + GAP) - GAP + EDGE
    stage_w, stage_h = mesh['cp'] * (node_w + EDGE) + EDGE, HEAD + node_h + EDGE
    replica_w, replica_h = stage_w + 2 * EDGE, HEAD + mesh['pp'] * (stage_h + EDGE)
    left, top = 20, 18
    out = Drawing(2 * left + mesh['dp'] * (replica_w + EDGE) - EDGE, top + replica_h + 190,
                  'Nested boxes: nodes within stages within replicas, and the groups of rank 0')

    groups = {axis: members(sent, axis, 0) for axis in ('tp', 'cp', 'pp', 'dp_cp', 'ep')}
    groups['dp'] = [rank for rank in groups['dp_cp'] if rank // mesh['tp'] % mesh['cp'] == 0]
    for d in range(mesh['dp']):
        x = left + d * (replica_w + EDGE)
        box(out, x, top, replica_w, replica_h, f'replica {d} (dp)', '#ffffff')
        for p in range(mesh['pp']):
            sx, sy = x + EDGE, top + HEAD + p * (stage_h + EDGE)
            box(out, sx, sy, stage_w, stage_h, f'stage {p} (pp)', PALE)
            for c in range(mesh['cp']):
                nx, ny = sx + EDGE + c * (node_w + EDGE), sy + HEAD
                base = ((p * mesh['dp'] + d) * mesh['cp'] + c) * mesh['tp']
                box(out, nx, ny, node_w, node_h, f'node {base // per_node}, tokens {"AB"[c]} (cp)', '#ffffff')
                for t in range(mesh['tp']):
                    rank = base + t
                    rx, ry = nx + EDGE + t % across * (SIZE + GAP), ny + HEAD + t // across * (SIZE + GAP)
                    draw_rank(out, rx, ry, rank, groups)
    legend(out, left, top + replica_h + 26, mesh, sent, per_node)
    return out.finish()


def messages(traces):
    """The bytes of each pair of ranks, by axis: {axis: {(from, to): bytes}}."""
    sent = {}
    for rank, trace in enumerate(traces):
        lanes = {event['tid']: event['args']['name'] for event in trace if event['name'] == 'thread_name'}
        for event in trace:
            if event['ph'] != 'X' or event['cat'] != 'communication' or 'peer' not in event['args']:
                continue
            lane = lanes[event['tid']]
            if not re.search(r': send$|^send ', lane):
                continue
            axis = lane.split()[0].rstrip(':') if lane.endswith(': send') else 'pp'
            pairs, pair = sent.setdefault(axis, {}), (rank, event['args']['peer'])
            pairs[pair] = pairs.get(pair, 0) + event['args']['bytes']
    return sent


def members(sent, axis, rank):
    """The ranks that `rank` reaches by the messages of an axis, and itself."""
    found, left = {rank}, [rank]
    while left:
        each = left.pop()
        for one, other in sent[axis]:
            for a, b in ((one, other), (other, one)):
                if a == each and b not in found:
                    found.add(b)
                    left.append(b)
    return sorted(found)


def box(out, x, y, width, height, title, fill):
    out.rect(x, y, width, height, fill, LINE, radius=5)
    out.text(x + EDGE, y + 14, title, 11, DIM)


def draw_rank(out, x, y, rank, groups):
    axis = next((axis for axis in AXES if rank in groups[axis]), None)
    colour = INK if rank == 0 else AXES[axis][0] if axis else PALE
    if rank in groups['dp_cp']:
        out.rect(x - 3, y - 3, SIZE + 6, SIZE + 6, 'none', INK, radius=4)
    out.rect(x, y, SIZE, SIZE, colour, LINE if not axis else 'none')
    out.text(x + SIZE / 2, y + SIZE / 2 + 4, str(rank), 11, '#ffffff' if axis else DIM, 'middle')


def legend(out, x, y, mesh, sent, per_node):
    def row(at, axis, colour, words):
        out.rect(x, at - 11, 14, 14, colour, INK if colour == '#ffffff' else 'none', radius=3)
        out.text(x + 22, at, words, 12)
        if axis not in sent:
            return
        within = sum(n for (one, other), n in sent[axis].items() if one // per_node == other // per_node)
        for column, n in enumerate((within, sum(sent[axis].values()) - within)):
            out.text(x + 480 + 110 * column, at, f'{n / 1e6:.1f} MB' if n else '0', 12, INK, 'end')

    out.text(x, y, 'Rank 0 and its groups', 12, bold=True)
    for column, title in enumerate(('within nodes', 'between nodes')):
        out.text(x + 480 + 110 * column, y, title, 11, DIM, 'end')
    out.text(x + 602, y, 'sent by all ranks in a step', 11, DIM)
    rows = [(axis, colour, f'{axis} {mesh[axis]}: {what}') for axis, (colour, what) in AXES.items()]
    rows += [('dp_cp', '#ffffff', f'dp x cp {mesh["dp"] * mesh["cp"]}: the outlined ranks sum their gradients'),
             ('ep', '#ffffff', f'ep {mesh["ep"]}: the outlined ranks also share the experts of a layer')]
    for number, (axis, colour, words) in enumerate(rows, 1):
        row(y + 24 * number, axis, colour, words)
