"""Which lesson stands on which, and how many exercises each has, from lessons/course.txt."""

from pathlib import Path

from svg import DIM, INK, PALE, Drawing

LESSONS = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 108, 46, 26, 22, 16


def course():
    """By lesson's number: its folder, the numbers that it stands on, and its exercises."""
    lessons = {}
    for line in (LESSONS / 'course.txt').read_text(encoding='utf-8').splitlines():
        words = line.split()
        if words and words[0][:2].isdigit():
            needs = [] if words[1] == '-' else words[1].split(',')
            lessons[words[0][:2]] = (words[0], needs, [word for word in words[2:] if word != '-'])
    return lessons


def title_of(folder):
    heading = (LESSONS / folder / 'README.md').read_text(encoding='utf-8').splitlines()[0]
    return heading.removeprefix('# ')


def places(lessons):
    """By lesson: its column, which is right of all that it stands on, and its row. A lesson goes on in the row that
    ends with the first lesson that it stands on; other rows start below, those that leave latest first."""
    columns, rows = {}, []
    for number, (_, needs, _) in lessons.items():
        columns[number] = 1 + max((columns[each] for each in needs), default=-1)
        row = next((row for row in rows if row[-1] in needs[:1]), None)
        if row is None:
            rows.append(row := [])
        row.append(number)
    leaves = {row[0]: columns[lessons[row[0]][1][0]] if lessons[row[0]][1] else 99 for row in rows}
    rows.sort(key=lambda row: -leaves[row[0]])
    return {number: (columns[number], y) for y, row in enumerate(rows) for number in row}


def draw(_):
    lessons = course()
    at = {number: (MARGIN + column * (WIDTH + GAP_X), MARGIN + row * (HEIGHT + GAP_Y))
          for number, (column, row) in places(lessons).items()}
    out = Drawing(max(x for x, _ in at.values()) + WIDTH + MARGIN, max(y for _, y in at.values()) + HEIGHT + GAP_Y + 4,
                  'The course: an arrow leads from a lesson to each lesson that stands on it')
    for number, (_, needs, _) in lessons.items():
        x2, y2 = at[number]
        for need in needs:
            x1, y1 = at[need]
            if y1 == y2:
                out.arrow(x1 + WIDTH, y1 + HEIGHT / 2, x2, y2 + HEIGHT / 2, DIM)
            elif y1 < y2:    # down beside the earlier lesson, then right
                corner = x1 + WIDTH + GAP_X / 2
                out.line(x1 + WIDTH, y1 + HEIGHT / 2, corner, y1 + HEIGHT / 2, DIM, 1.6)
                out.line(corner, y1 + HEIGHT / 2, corner, y2 + HEIGHT / 2, DIM, 1.6)
                out.arrow(corner, y2 + HEIGHT / 2, x2, y2 + HEIGHT / 2, DIM)
            else:    # below its row to the right, then up to the later lesson
                below, corner = y1 + HEIGHT + GAP_Y / 2, x2 + WIDTH * (0.3 + 0.2 * needs.index(need))
                out.line(x1 + WIDTH / 2, y1 + HEIGHT, x1 + WIDTH / 2, below, DIM, 1.6)
                out.line(x1 + WIDTH / 2, below, corner, below, DIM, 1.6)
                out.arrow(corner, below, corner, y2 + HEIGHT, DIM)
    for number, (folder, _, exercises) in lessons.items():
        x, y = at[number]
        out.rect(x, y, WIDTH, HEIGHT, PALE, DIM, radius=6)
        title = title_of(folder)
        words, lines = title.split(), ['']
        for word in words:
            if len(lines[-1]) + len(word) > 14:
                lines.append('')
            lines[-1] = f'{lines[-1]} {word}'.strip()
        for i, line in enumerate(lines):
            out.text(x + 7, y + 15 + 12 * i, line, 11, INK, bold=True)
        if exercises:
            out.text(x + WIDTH - 6, y + HEIGHT - 5, f'{len(exercises)} ✎', 10, DIM, 'end')
    return out.finish()
