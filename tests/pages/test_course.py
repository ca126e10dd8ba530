#!/usr/bin/env python3
"""The pages agree with the course (lessons/course.txt): it names every lesson and every exercise once, and nothing stands
on a later lesson; each page links the previous and the next, and says what to keep; the lists of exercises and of reading
paths have its order. Prints "N passed, N failed".

  test_course.py [SOURCE TREE]
"""

import re
import sys
from pathlib import Path

root = Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
root = root if root.is_dir() else root.parents[2]
counts = [0, 0]


def claim(what, holds):
    counts[not holds] += 1
    if not holds:
        print(f'FAILED: {what}')


def text(path):
    return (root / path).read_text(encoding='utf-8')


lines = [line.split() for line in text('lessons/course.txt').splitlines() if re.match(r'\d\d_', line)]
lessons = [words[0] for words in lines]
exercises = [word for words in lines for word in words[2:] if word != '-']
folders = sorted(path.parent.name for path in root.glob('lessons/*/main.cpp'))
claim(f'the course has the lessons {folders}, in order: {lessons}', lessons == folders)
tasks = sorted(path.parent.name for path in root.glob('exercises/*/task.h'))
claim(f'the course has each exercise once: {set(tasks) ^ set(exercises)}', sorted(exercises) == tasks)
for words in lines:
    for need in words[1].split(',') if words[1] != '-' else []:
        claim(f'{words[0]} stands on {need}, an earlier lesson',
              need < words[0][:2] and any(each.startswith(need + '_') for each in lessons))


def link(name):
    return f'[{text(f"lessons/{name}/README.md").splitlines()[0].removeprefix("# ")}](../{name}/README.md)'


for i, name in enumerate(lessons):
    page = text(f'lessons/{name}/README.md')
    ways = [f'Previous: {link(lessons[i - 1])}'] if i > 0 else []
    ways += [f'Next: {link(lessons[i + 1])}'] if i + 1 < len(lessons) else []
    claim(f'lessons/{name}/README.md ends with {" · ".join(ways)}', page.rstrip().splitlines()[-1] == ' · '.join(ways))
    keep = re.search(r'\n## Keep this\n\n((?:[-*] .*\n(?:  .*\n)*)+)\n## References\n', page)
    claim(f'lessons/{name}/README.md has two bullets under "Keep this", before the references',
          bool(keep) and len(re.findall(r'^[-*] ', keep[1], re.MULTILINE)) == 2)
    heading = page.splitlines()[0].removeprefix('# ')
    for other in (root / 'lessons' / name).glob('*.md'):
        if other.name != 'README.md':
            claim(f'lessons/{name}/{other.name} leads back to {heading}',
                  other.read_text(encoding='utf-8').rstrip().splitlines()[-1] == f'Back to [{heading}](README.md)')

rows = re.findall(r'^\|.*\| \[.*?\]\((\d\d_\w+)/README\.md\)', text('exercises/README.md'), re.MULTILINE)
claim(f'exercises/README.md lists the exercises in the order of the course: {rows}', rows == exercises)
for name in exercises:
    if (root / 'exercises' / name).is_dir():
        claim(f'exercises/{name}/README.md says what this is in PyTorch',
              bool(re.search(r'^In PyTorch: \S', text(f'exercises/{name}/README.md'), re.MULTILINE)))


def numbers(words):
    """The lessons that "00 02-04" or "00, 02 to 04" names."""
    found = []
    for first, last in re.findall(r'\b(\d\d)(?:(?:-| to )(\d\d))?', words):
        found += range(int(first), int(last or first) + 1)
    return found


paths = [line.split('|')[1] for line in text('lessons/course.txt').splitlines() if line.startswith('path: ')]
table = re.search(r'\| you have \| read \|.*\n\|[-|]+\n((?:\|.*\n)+)', text('README.md'))[1]
shown = [row.split('|')[2] for row in table.splitlines()]
claim(f'README.md shows the reading paths of the course: {shown} and {paths}',
      [numbers(row) for row in shown] == [numbers(path) for path in paths])
week = numbers(paths[1])
claim('a week covers every lesson once', sorted(week) == [int(name[:2]) for name in lessons])

print(f'{counts[0]} passed, {counts[1]} failed')
sys.exit(counts[1] > 0)
