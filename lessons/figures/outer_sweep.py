"""DiLoCo's loss beside the bytes that a worker sends and the modelled time, from the table of lesson 18's sweep."""

import csv
from math import log10
from pathlib import Path

from svg import COLOURS, DIM, INK, LINE, Drawing

TABLE = Path(__file__).resolve().parents[1] / '18_low_communication/experiment/sweep.csv'
KINDS = {0: (DIM, 'data parallelism'), 4: (COLOURS['communication'], 'H = 4'), 12: (COLOURS['backward'], 'H = 12'),
         60: (COLOURS['forward'], 'H = 60')}
LOSSES = (2.6, 3.7)


def draw(_):
    with TABLE.open(encoding='utf-8') as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file, skipinitialspace=True)]
    out = Drawing(960, 430, "DiLoCo's loss beside bytes and time")
    panel(out, rows, 66, 'sent by a worker, MB', lambda row: row['bytes_sent'] / 1e6, (0.5, 100), (1, 10, 100))
    panel(out, rows, 520, 'modelled time, s', lambda row: row['seconds'], (0.4, 30), (0.5, 1, 2, 5, 10, 20))
    x, y = 66, 408
    for colour, label in KINDS.values():
        out.circle(x + 7, y - 4, 7, colour)
        out.text(x + 20, y, label, 12, DIM)
        x += 44 + 6.6 * len(label)
    out.text(x, y, 'digit: workers; pale: a worse outer rate than the one with the lowest loss', 12, DIM)
    return out.finish()


def panel(out, rows, left, title, value, limits, ticks):
    top, width, height = 44, 400, 300

    def at(row):
        share = (log10(value(row)) - log10(limits[0])) / (log10(limits[1]) - log10(limits[0]))
        return left + share * width, top + (LOSSES[1] - row['loss']) / (LOSSES[1] - LOSSES[0]) * height

    for tick in range(27, 38, 2):
        _, y = at({'loss': tick / 10, 'bytes_sent': limits[0] * 1e6, 'seconds': limits[0]})
        out.line(left, y, left + width, y, LINE)
        out.text(left - 8, y + 4, f'{tick / 10:.1f}', 12, DIM, 'end')
    for tick in ticks:
        x, _ = at({'loss': 3, 'bytes_sent': tick * 1e6, 'seconds': tick})
        out.line(x, top, x, top + height, LINE)
        out.text(x, top + height + 18, f'{tick:g}', 12, DIM, 'middle')
    out.text(left, top - 14, 'loss', 13, INK, bold=True)
    out.text(left + width, top + height + 36, title, 13, INK, 'end', bold=True)
    best = {}
    for row in rows:
        key = row['workers'], row['every']
        if key not in best or row['loss'] < best[key]['loss']:
            best[key] = row
    for row in sorted(rows, key=lambda row: row is best[row['workers'], row['every']]):
        x, y = at(row)
        is_best = row is best[row['workers'], row['every']]
        out.circle(x, y, 8 if is_best else 5, KINDS[int(row['every'])][0], 1 if is_best else 0.3)
        if is_best:
            out.text(x, y + 4, f"{row['workers']:.0f}", 11, '#ffffff' if not row['every'] else '#0a0e14', 'middle', bold=True)
