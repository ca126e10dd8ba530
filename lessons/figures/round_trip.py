"""One microbatch's round trip through a 1F1B pipeline whose messages take time."""

from svg import COLOURS, DIM, INK, LINE, PALE, Drawing


def draw(runs):
    run = runs.run('09_1f1b', '--steps', '2', '--compare', '1', '--time', 'forward=1ms,backward=2ms', '--cluster',
                   'lessons/09_1f1b/far_apart.json')
    step, ranks = 1, run.report['ranks']
    actions = [run.spans(rank, step, 'forward', 'backward') for rank in range(ranks)]
    forward = [pick(spans, 0, 'F') for spans in actions]
    backward = [pick(spans, 0, 'B') for spans in actions]
    zero = forward[0].start
    trip = backward[0].end - zero
    next_forward = next(span for span in actions[0] if span.start >= backward[0].end - 1e-6)
    last = next_forward.end - zero

    left, top, row, height = 76, 62, 56, 30
    out = Drawing(960, top + ranks * row + 84, "One microbatch's round trip through the pipeline")
    scale = (out.width - left - 30) / last

    def at(time):
        return left + (time - zero) * scale

    out.text(left, 30, f'1F1B, the round trip of microbatch 0: {trip / 1000:g} ms', 14, INK, bold=True)
    for rank in range(ranks):
        y = top + rank * row
        out.text(left - 12, y + 20, f'rank {rank}', 12, DIM, 'end')
        out.rect(left, y, last * scale, height, PALE)
        for span in actions[rank]:
            if span.start - zero < last - 1e-6 and span not in (forward[rank], backward[rank]):
                end = min(span.end, zero + last)
                own = span is next_forward
                out.rect(at(span.start) + 0.5, y, at(end) - at(span.start) - 1, height, colour_of(span),
                         opacity=1 if own else 0.22)
                out.text((at(span.start) + at(end)) / 2, y + 19, label_of(span), 11, INK if own else DIM, 'middle',
                         bold=own)
        for span in (forward[rank], backward[rank]):
            out.rect(at(span.start) + 0.5, y, at(span.end) - at(span.start) - 1, height, colour_of(span))
            out.text((at(span.start) + at(span.end)) / 2, y + 20, label_of(span), 12, '#0a0e14', 'middle', bold=True)
    for rank in range(ranks - 1):
        hop(out, at, forward[rank], forward[rank + 1], top + rank * row + height, top + (rank + 1) * row)
        hop(out, at, backward[rank + 1], backward[rank], top + (rank + 1) * row, top + rank * row + height)

    f, b = forward[0], backward[0]
    hops = forward[1].start - f.end
    y = top + ranks * row - 6
    for x in (at(f.start), at(b.end)):
        out.line(x, y - 6, x, y + 6, INK)
    out.line(at(f.start), y, at(b.end), y, INK)
    out.text((at(f.start) + at(b.end)) / 2, y + 20,
             f'p (T_F + T_B) + 2 (p - 1) hop = {ranks} ({(f.end - f.start) / 1000:g} + {(b.end - b.start) / 1000:g}) + '
             f'{2 * (ranks - 1)} x {hops / 1000:g} = {trip / 1000:g} ms', 13, INK, 'middle')

    x, y = left, out.height - 34
    for colour, label in ((COLOURS['forward'], 'forward (F)'), (COLOURS['backward'], 'backward (B)')):
        out.rect(x, y, 14, 14, colour)
        out.text(x + 20, y + 12, label, 12, DIM)
        x += 120
    out.arrow(x, y + 7, x + 26, y + 7, COLOURS['communication'], 2)
    out.text(x + 34, y + 12, 'a message (hop)', 12, DIM)
    x += 160
    out.rect(x, y, 14, 14, COLOURS['forward'], opacity=0.22)
    out.text(x + 20, y + 12, 'other microbatches', 12, DIM)
    out.rect(x + 160, y, 14, 14, PALE, LINE)
    out.text(x + 180, y + 12, 'idle', 12, DIM)
    return out.finish()


def pick(spans, microbatch, letter):
    return next(span for span in spans if span.args['microbatch'] == microbatch and letter in span.name)


def label_of(span):
    return f"{'F' if 'F' in span.name else 'B'}{span.args['microbatch']}"


def colour_of(span):
    return COLOURS['forward' if 'F' in span.name else 'backward']


def hop(out, at, sender, receiver, y1, y2):
    out.arrow(at(sender.end), y1, at(receiver.start), y2, COLOURS['communication'], 2)
