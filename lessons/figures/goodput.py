"""Goodput against the interval between checkpoints, by formula (lines) and simulated (points)."""

from math import log10

from svg import COLOURS, DIM, INK, LINE, PALE, Drawing

LEFT, TOP, WIDTH, HEIGHT = 70, 62, 690, 330
FROM, TO, LOWEST = 60, 30 * 86400, 0.5    # seconds, and a share
TICKS = ((60, '1 min'), (600, '10 min'), (3600, '1 h'), (6 * 3600, '6 h'), (86400, '1 day'), (7 * 86400, '1 week'),
         (30 * 86400, '30 days'))


def draw(runs):
    report = runs.report_of('lockstep_goodput')
    out = Drawing(960, TOP + HEIGHT + 64, 'Goodput against the interval between checkpoints')
    out.text(LEFT, 28, 'Goodput against the interval between checkpoints', 15, INK, bold=True)

    def place(seconds, share):
        return (LEFT + WIDTH * log10(seconds / FROM) / log10(TO / FROM), TOP + HEIGHT * (1 - share) / (1 - LOWEST))

    for percent in range(50, 101, 10):
        y = place(FROM, percent / 100)[1]
        out.line(LEFT, y, LEFT + WIDTH, y, PALE)
        out.text(LEFT - 10, y + 4, f'{percent} %', 12, DIM, 'end')
    for seconds, label in TICKS:
        x = place(seconds, 1)[0]
        out.line(x, TOP, x, TOP + HEIGHT, PALE)
        out.text(x, TOP + HEIGHT + 20, label, 12, DIM, 'middle')
    out.line(LEFT, TOP + HEIGHT, LEFT + WIDTH, TOP + HEIGHT, LINE)

    shown = [COLOURS[name] for name in ('memory parameters', 'forward', 'backward', 'memory communication', 'optimizer')]
    for best, colour in zip(report['best'], shown, strict=True):
        curve = [place(*point) for point in best['curve'] if FROM <= point[0] <= TO and point[1] >= LOWEST]
        for (x1, y1), (x2, y2) in zip(curve, curve[1:]):
            out.line(x1, y1, x2, y2, colour, 2)
        points = [point for point in report['points'] if point['ranks'] == best['ranks']]
        for point in points:
            if FROM <= point['interval_seconds'] <= TO and point['goodput'] >= LOWEST:
                x, y = place(point['interval_seconds'], point['goodput'])
                out.rect(x - 3, y - 3, 6, 6, colour, INK, radius=3)
        top = max(points, key=lambda point: point['formula'])
        x, y = place(top['interval_seconds'], top['formula'])
        out.arrow(x, y - 26, x, y - 7, colour)
        x, y = curve[-1]
        mean = best['mtbf_seconds'] / 3600
        every = f'{mean:.1f} h' if mean < 48 else f'{mean / 24:.0f} days'
        out.text(x + 8, min(y, TOP + HEIGHT - 10) + 4, f'{best["ranks"]:,} ranks: a failure every {every}', 12, INK)
    y = TOP + HEIGHT + 46
    out.line(LEFT, y - 4, LEFT + 22, y - 4, DIM, 2)
    out.text(LEFT + 28, y, "Daly's formula", 12, DIM)
    out.rect(LEFT + 138, y - 7, 6, 6, DIM, INK, radius=3)
    out.text(LEFT + 150, y, 'simulated', 12, DIM)
    out.arrow(LEFT + 232, y - 14, LEFT + 232, y + 2, DIM)
    out.text(LEFT + 242, y, 'the best interval', 12, DIM)
    return out.finish()
