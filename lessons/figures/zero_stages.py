"""The model states that each rank holds under data parallelism and the three stages of ZeRO."""

from svg import COLOURS, DIM, LINE, PALE, Drawing, kilobytes

STATES = ('parameters', 'gradients', 'optimizer')
STAGES = (('data parallel', '02_data_parallel', ('--overlap', 'overlap')), ('ZeRO-1', '03_zero_1', ()),
          ('ZeRO-2', '04_zero_2', ()), ('ZeRO-3', '05_zero_3', ('--prefetch', '1')))


def draw(runs):
    measured = [(title, runs.run(lesson, '--steps', '2', *flags)) for title, lesson, flags in STAGES]
    full = measured[0][1].peak()
    whole = sum(full[state] for state in STATES)
    ranks = measured[0][1].report['ranks']
    left, top, panel, gap, row = 66, 66, 190, 24, 30
    width = left + 4 * panel + 3 * gap + 24
    out = Drawing(width, top + ranks * row + 96, 'Model states of each rank: data parallelism and ZeRO stages 1 to 3')
    scale = panel / whole

    for rank in range(ranks):
        out.text(left - 12, top + rank * row + 17, f'rank {rank}', 12, DIM, 'end')
    for column, (title, run) in enumerate(measured):
        x0 = left + column * (panel + gap)
        out.text(x0, top - 20, title, 15, bold=True)
        for rank in range(ranks):
            x, y = x0, top + rank * row
            for state in STATES:
                draw_state(out, x, y, full[state] * scale, run.peak(rank)[state] / full[state], rank, ranks, state)
                x += full[state] * scale
        below = top + ranks * row + 16
        peak = sum(run.peak()[state] for state in STATES)
        out.text(x0, below, f'peak per rank {kilobytes(peak)}', 12)
        out.text(x0, below + 18, f'sent per step {kilobytes(run.bytes_sent())}', 12)

    y, x = out.height - 34, left
    for state in STATES:
        out.rect(x, y, 14, 14, COLOURS['memory ' + state])
        label = 'optimizer states' if state == 'optimizer' else state
        out.text(x + 20, y + 12, label, 12, DIM)
        x += 38 + 6.4 * len(label)
    out.hatched(x, y, 14, 14, COLOURS['memory gradients'])
    out.text(x + 20, y + 12, 'full layers, only briefly', 12, DIM)
    x += 174
    out.rect(x, y, 14, 14, PALE, LINE)
    out.text(x + 20, y + 12, 'not held by this rank', 12, DIM)
    return out.finish()


def draw_state(out, x, y, width, share, rank, ranks, state):
    """One kind of model state on one rank. `share` is its peak relative to the full size: 1 without
    sharding, 1/ranks for a shard; any excess is due to layers that exist in full only briefly."""
    height, colour = 22, COLOURS['memory ' + state]
    out.rect(x + 1, y, width - 2, height, PALE, LINE)
    if share >= 1:
        return out.rect(x + 1, y, width - 2, height, colour)
    inner = width - 2
    shard = inner / ranks
    start = x + 1 + rank * shard
    if share > 1.001 / ranks:
        extra = (share - 1 / ranks) * inner
        right = start + shard + extra <= x + 1 + inner
        out.hatched(start + shard if right else start - extra, y, extra, height, colour)
    return out.rect(start, y, shard, height, colour)
