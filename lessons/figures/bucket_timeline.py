"""One rank's backward pass and the transfer of its buckets: after the backward pass, and during it."""

from svg import COLOURS, DIM, INK, Drawing

SHOWN_BEFORE = 45  # microseconds of the forward pass


def draw(runs):
    run = runs.run('02_data_parallel', '--steps', '6', '--kernels')
    panels = [('bucket', 'Sent after the backward pass'), ('overlap', 'Sent during the backward pass')]
    steps = {name: Step(run, name) for name, _ in panels}
    left, top, panel = 92, 30, 148
    first = min(step.backward.start - step.begin for step in steps.values()) - SHOWN_BEFORE
    last = max(step.end - step.begin for step in steps.values())
    out = Drawing(960, top + 2 * panel + 62, 'The buckets of one step, sent after and during the backward pass')
    scale = (out.width - left - 26) / (last - first)

    def at(time):
        return left + (time - first) * scale

    bottom = top + 2 * panel - 6
    for tick in range(int(first // 100 + 1) * 100, int(last) + 1, 100):
        for number in range(len(panels)):
            out.line(at(tick), top + number * panel + 22, at(tick), top + number * panel + 118)
        out.text(at(tick), bottom + 2, f'{tick} µs', 11, DIM, 'middle')
    for number, (name, title) in enumerate(panels):
        draw_step(out, steps[name], title, top + number * panel, left, at)

    x, y = left, out.height - 30
    for colour, label in ((COLOURS['forward'], 'forward'), (COLOURS['backward'], 'backward'),
                          (COLOURS['communication'], "a bucket's all-reduce"), (COLOURS['optimizer'], 'optimizer')):
        out.rect(x, y, 14, 14, colour)
        out.text(x + 20, y + 12, label, 12, DIM)
        x += 40 + 6.6 * len(label)
    out.hatched(x, y, 14, 14, COLOURS['trouble'])
    out.text(x + 20, y + 12, 'waiting: exposed communication', 12, DIM)
    return out.finish()


def draw_step(out, step, title, y, left, at):
    heading = (f'{title}: a step takes {1e3 * step.phase["mean_step_seconds"]:.3f} ms, '
               f'{1e3 * step.phase["exposed_communication_seconds"]:.3f} ms of it exposed')
    out.text(left, y + 8, heading, 13, INK, bold=True)
    compute, send, height = y + 26, y + 76, 28
    out.text(left - 12, compute + 18, 'compute', 12, DIM, 'end')
    out.text(left - 12, send + 18, 'send', 12, DIM, 'end')

    def box(start, end, top, colour, label=''):
        x, width = at(start), (end - start)
        pixels = at(start + width) - x
        out.rect(x + 0.5, top, max(pixels - 1, 1), height, colour)
        if label and pixels > 6.6 * len(label):
            out.text(x + pixels / 2, top + 18, label, 11, '#0a0e14', 'middle')

    cut = step.backward.start - SHOWN_BEFORE
    box(cut, step.backward.start, compute, COLOURS['forward'], '... fwd')
    for unit in step.units:
        box(unit.start, unit.end, compute, COLOURS['backward'], unit.label)
    for wait in step.waits:
        x = at(wait.start)
        out.hatched(x + 0.5, compute, at(wait.end) - x - 1, height, COLOURS['trouble'])
    box(step.optimizer.start, step.optimizer.end, compute, COLOURS['optimizer'])
    for bucket, unit in zip(step.buckets, step.units):
        box(bucket.start, bucket.end, send, COLOURS['communication'], unit.short)
        if not unit.short:
            out.text(at(bucket.end), send + height + 12, unit.label, 10, DIM, 'end')
        if step.overlaps:
            out.line(at(unit.end), compute + height, at(unit.end), send - 8, DIM)
            out.arrow(at(unit.end), send - 12, max(at(bucket.start) + 1, at(unit.end)), send - 1, DIM, 1)


class Part:
    def __init__(self, start, end, label='', short=''):
        self.start, self.end, self.label, self.short = start, end, label, short


class Step:
    """The last step of a phase on rank 0. Times are relative to the step's start."""

    def __init__(self, run, name):
        self.phase = run.phase(name)
        self.overlaps = name == 'overlap'
        step = self.phase['first_step'] + self.phase['steps'] - 1
        zero = run.spans(0, step, 'step')[0]
        self.begin = 0
        self.end = zero.end - zero.start

        def parts(*categories):
            return [span for span in run.spans(0, step, *categories)]

        def shifted(span):
            return Part(span.start - zero.start, span.end - zero.start)

        self.backward = shifted(parts('backward')[0])
        self.optimizer = shifted(parts('optimizer')[0])
        self.waits = []
        for wait in map(shifted, parts('wait')):
            if self.waits and wait.start - self.waits[-1].end < 1e-6:
                self.waits[-1].end = wait.end
            else:
                self.waits.append(wait)
        self.units = self.units_of([(shifted(span), span.args.get('layer')) for span in parts('kernel')])
        self.buckets = []
        sends = [span for span in parts('communication') if span.lane == 1]
        for sequence in sorted({span.args['seq'] for span in sends}):
            own = [shifted(span) for span in sends if span.args['seq'] == sequence]
            self.buckets.append(Part(own[0].start, own[-1].end))

    def units_of(self, kernels):
        """The backward of each unit, from its kernels: the head, the blocks in descending order, and the
        embeddings. Only kernels of blocks name their layer."""
        units = []
        for part, layer in kernels:
            if part.start < self.backward.start - 1e-6 or part.end > self.backward.end + 1e-6:
                continue
            if not units or units[-1][0] != layer:
                units.append((layer, Part(part.start, part.end)))
            units[-1][1].end = part.end
        for number, (layer, part) in enumerate(units):
            part.label = f'block {layer}' if layer is not None else 'head' if number == 0 else 'embeddings'
            part.short = str(layer) if layer is not None else ''
        return [part for _, part in units]
