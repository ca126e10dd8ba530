"""A small SVG writer. Diagrams have a white background, so that they suit light and dark pages, and the
viewer's colours for work and memory."""

import csv
from pathlib import Path
from xml.sax.saxutils import escape

PALETTE = Path(__file__).resolve().parents[2] / 'viz/views/palette.csv'
# The names of MemoryCategory, in its order (core/base/memory_use.h).
MEMORY = ('parameters', 'gradients', 'optimizer', 'activations', 'communication')
FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
INK, DIM, LINE, PALE = '#1f2630', '#5b6675', '#c5ccd6', '#eef1f5'


def viewer_colours():
    """The dark theme's opaque colours by name, and those of memory categories as 'memory NAME'."""
    with PALETTE.open(encoding='utf-8', newline='') as file:
        dark = {row['name']: row['dark'].split() for row in csv.DictReader(file)}
    found = {name: colours[0] for name, colours in dark.items() if len(colours) == 1 and len(colours[0]) == 7}
    return found | {f'memory {name}': colour for name, colour in zip(MEMORY, dark['memory'], strict=True)}


COLOURS = viewer_colours()


class Drawing:
    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.parts, self.hatches = width, height, title, [], {}

    def rect(self, x, y, width, height, fill, stroke='none', radius=2, opacity=1):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}" '
                          f'fill="{fill}" stroke="{stroke}"' + (f' opacity="{opacity}"' if opacity < 1 else '') + '/>')

    def circle(self, x, y, radius, fill, opacity=1):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}"'
                          + (f' opacity="{opacity}"' if opacity < 1 else '') + '/>')

    def hatched(self, x, y, width, height, colour):
        """A box with diagonal lines of this colour."""
        name = self.hatches.setdefault(colour, f'hatch{len(self.hatches)}')
        self.rect(x, y, width, height, f'url(#{name})', stroke=colour, radius=2)

    def line(self, x1, y1, x2, y2, colour=LINE, width=1, dash=''):
        dashed = f' stroke-dasharray="{dash}"' if dash else ''
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
                          f'stroke-width="{width}"{dashed}/>')

    def arrow(self, x1, y1, x2, y2, colour, width=1.6):
        """A line with a head at (x2, y2)."""
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        bx, by = x2 - 7 * ux, y2 - 7 * uy
        self.line(x1, y1, bx, by, colour, width)
        self.parts.append(f'<path d="M{x2:.1f} {y2:.1f} L{bx - 3.4 * uy:.1f} {by + 3.4 * ux:.1f} '
                          f'L{bx + 3.4 * uy:.1f} {by - 3.4 * ux:.1f} Z" fill="{colour}"/>')

    def text(self, x, y, text, size=12, colour=INK, anchor='start', bold=False):
        weight = ' font-weight="bold"' if bold else ''
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
                          f'text-anchor="{anchor}"{weight}>{escape(text)}</text>')

    def finish(self):
        patterns = ''.join(
            f'<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            f'<rect width="6" height="6" fill="#ffffff"/><rect width="2.4" height="6" fill="{colour}"/></pattern>\n'
            for colour, name in self.hatches.items())
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" font-family="{FONT}">\n'
                f'<title>{escape(self.title)}</title>\n<defs>\n{patterns}</defs>\n'
                f'<rect x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="8" fill="#ffffff" '
                f'stroke="{LINE}"/>\n' + '\n'.join(self.parts) + '\n</svg>\n')


def kilobytes(number):
    return f'{number / 1000:.1f} kB'
