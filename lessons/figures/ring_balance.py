"""Who computes which block of attention, and when, in both layouts: one layer's forward pass."""

from svg import COLOURS, DIM, INK, LINE, PALE, Drawing

FLAGS = ('--steps', '2', '--sequence', '512', '--batch', '1', '--kernels')


def draw(runs):
    layouts = [(name, runs.run('13_ring_attention', *FLAGS, '--layout', name)) for name in ('contiguous', 'zigzag')]
    ranks = layouts[0][1].report['ranks']
    blocks = {name: [attention(run, rank) for rank in range(ranks)] for name, run in layouts}
    lengths = {name: max(own[-1].end for own in all_blocks) - min(own[0].start for own in all_blocks)
               for name, all_blocks in blocks.items()}

    left, top, row, height = 76, 64, 34, 24
    panel = ranks * row + 60
    out = Drawing(960, top + len(layouts) * panel + 6, "One layer's attention in both layouts")
    scale = (out.width - left - 30) / max(lengths.values())
    for number, (name, run) in enumerate(layouts):
        y = top + number * panel
        zero = min(own[0].start for own in blocks[name])
        out.text(left, y - 14, f"{name}: one layer's attention takes {lengths[name]:.3f} µs", 14, INK, bold=True)
        for rank, own in enumerate(blocks[name]):
            line = y + rank * row
            out.text(left - 12, line + 17, f'rank {rank}', 12, DIM, 'end')
            out.rect(left, line, lengths[name] * scale, height, PALE)
            for step, span in enumerate(own):
                x, width = left + (span.start - zero) * scale, (span.end - span.start) * scale
                colour = COLOURS['forward' if step == 0 else 'backward']
                out.rect(x + 0.5, line, width - 1, height, colour)
                out.text(x + width / 2, line + 17, f'{(rank - step) % ranks}', 12, '#0a0e14', 'middle', bold=True)
    x, y = left, out.height - 38
    for colour, label in ((COLOURS['forward'], "own keys, causal"), (COLOURS['backward'], 'keys of the rank with this '
                                                                                          'number')):
        out.rect(x, y, 14, 14, colour)
        out.text(x + 20, y + 12, label, 12, DIM)
        x += 160
    out.rect(x + 80, y, 14, 14, PALE, LINE)
    out.text(x + 100, y + 12, 'idle', 12, DIM)
    return out.finish()


def attention(run, rank):
    """The attention kernels of the first layer's forward pass, in order."""
    return [span for span in run.spans(rank, 1, 'kernel')
            if span.name in ('attention', 'attention_block') and span.args['layer'] == 0]
