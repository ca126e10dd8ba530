"""One microbatch under the three modes of recomputation: its timeline and its peak memory for activations."""

from svg import COLOURS, DIM, INK, PALE, Drawing, kilobytes

MODES = (('none', 'keeps everything'), ('selective', 'recomputes attention probabilities'),
         ('full', 'recomputes whole blocks'))


def draw(runs):
    left, top, row, height, bars = 96, 62, 70, 30, 200
    out = Drawing(960, top + len(MODES) * row + 30, 'One microbatch under the three modes of recomputation')
    measured = [Mode(runs.run('14_mixed_precision', '--recompute', name, '--precision', 'f32', '--microbatches', '8',
                              '--steps', '2')) for name, _ in MODES]
    scale = (out.width - left - bars - 60) / max(mode.end for mode in measured)
    bar = bars / max(mode.peak for mode in measured)
    right = out.width - bars - 24
    out.text(left, 30, 'one microbatch, modelled time', 13, INK, bold=True)
    out.text(right, 30, 'peak of its activations', 13, INK, bold=True)
    for number, ((name, title), mode) in enumerate(zip(MODES, measured)):
        y = top + number * row
        out.text(left - 12, y + 20, name, 13, INK, 'end', bold=True)
        out.text(left, y - 5, f'{title}: {mode.end / 1000:.3f} ms', 12, DIM)
        for span in mode.spans:
            x, width = left + span.start * scale, (span.end - span.start) * scale
            out.rect(x + 0.5, y, width - 1, height, COLOURS[span.category])
            if span.category == 'forward' or not mode.recomputed:
                out.text(x + 8, y + 20, span.category, 12, '#0a0e14')
        for span in mode.recomputed:
            x, width = left + span.start * scale, (span.end - span.start) * scale
            out.rect(x + 0.5, y, max(width - 1, 1), height, COLOURS['recompute'], radius=1)
            out.text(x + width / 2, y + 20, 'R', 11, '#0a0e14', 'middle')
        out.rect(right, y, bars, height, PALE)
        out.rect(right, y, mode.peak * bar, height, COLOURS['memory activations'])
        out.text(right, y - 5, kilobytes(mode.peak), 12, DIM)

    x, y = left, out.height - 32
    for category, label in (('forward', 'forward'), ('backward', 'backward'),
                            ('recompute', "R: a block's second forward")):
        out.rect(x, y, 14, 14, COLOURS[category])
        out.text(x + 20, y + 12, label, 12, DIM)
        x += 44 + 6.6 * len(label)
    return out.finish()


class Mode:
    """The last microbatch of the last step. Times in microseconds from the start of its forward."""

    def __init__(self, run):
        step, last = run.report['config']['steps'] - 1, run.report['phases'][-1]['microbatches'] - 1
        self.spans = [span for category in ('forward', 'backward') for span in run.spans(0, step, category)
                      if span.args['microbatch'] == last]
        zero, end = self.spans[0].start, self.spans[-1].end
        self.recomputed = [span for span in run.spans(0, step, 'recompute') if zero <= span.start < end]
        for span in self.spans + self.recomputed:
            span.start, span.end = span.start - zero, span.end - zero
        self.end = end - zero
        self.peak = run.peak()['activations']
