"""Peak activations and bytes sent of each rank: one device, tensor parallelism, and sequence parallelism."""

from svg import COLOURS, DIM, INK, PALE, Drawing, kilobytes

RUNS = (('one device', '06_tensor_parallel', ('--ranks', '1')), ('tensor parallel', '06_tensor_parallel', ()),
        ('+ sequence parallel', '07_sequence_parallel', ()),
        ('+ --regather', '07_sequence_parallel', ('--regather',)))


def draw(runs):
    measured = [(title, runs.run(lesson, '--steps', '2', *flags)) for title, lesson, flags in RUNS]
    left, top, row, height, bars = 170, 58, 44, 24, 330
    out = Drawing(760, top + len(RUNS) * row + 8, 'Activations and messages of each rank, on one device and on four ranks')
    most = max(run.peak()['activations'] for _, run in measured)
    right = left + bars + 130
    out.text(left, 30, 'peak activations of each rank', 13, INK, bold=True)
    out.text(right, 30, 'sent per step', 13, INK, bold=True)
    for number, (title, run) in enumerate(measured):
        y = top + number * row
        peak = run.peak()['activations']
        out.text(left - 12, y + 17, title, 13, INK, 'end')
        out.rect(left, y, bars, height, PALE)
        out.rect(left, y, peak / most * bars, height, COLOURS['memory activations'])
        out.text(left + bars + 10, y + 17, kilobytes(peak), 12, DIM)
        out.text(right, y + 17, kilobytes(run.bytes_sent()) if run.bytes_sent() else '0 B', 12, DIM)
    return out.finish()
