#!/usr/bin/env python3
"""Fails if a folder, or the include closure of a lesson, has more lines than tests/house/budget allows.

A folder's lines are those of its sources and scripts; the table also counts those that are neither blank nor only a comment.
A lesson's include closure is its main.cpp, the headers that it includes, their sources, and so on.

    test_budget.py [ROOT]    without ROOT: this tree, and then a small tree that is too large
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = re.compile(r'\.(h|cpp|cu|cuh|py|sh)$')
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.M)


def files_of(root, folder):
    listed = subprocess.run(['git', '-C', root, 'ls-files', '-co', '--exclude-standard', folder], capture_output=True,
                            text=True).stdout.split('\n')
    found = [root / name for name in listed if name] or [path for path in (root / folder).rglob('*') if path.is_file()]
    return {path for path in found if path.is_file() and (SOURCE.search(path.name) or is_script(path))}


def is_script(path):
    with path.open('rb') as file:
        return '.' not in path.name and file.read(2) == b'#!'


def closure_of(root, main):
    seen, left = set(), [root / main]
    while left:
        path = left.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        for name in INCLUDE.findall(path.read_text(errors='replace')):
            left.append(root / name if (root / name).is_file() else path.parent / name)
        if path.suffix == '.h':
            left += [path.with_suffix('.cpp'), path.with_suffix('.cu')]
    return seen


def lines_of(files):
    text = ''.join(path.read_text(errors='replace') for path in files)
    lines = text.split('\n')[:-1] if text else []
    return len(lines), sum(1 for line in lines if line.strip() and not line.strip().startswith(('//', '#!', '# ')))


def check(root):
    """Prints the lines of everything in the budget, and returns what is above it."""
    above, sums = [], {}
    for line in (root / 'tests/house/budget').read_text().split('\n'):
        if not line or line.startswith('#'):
            continue
        what, limit = line.rsplit(None, 1)
        files = set()
        for part in what.split(' + '):
            if part not in sums:
                sums[part] = closure_of(root, part) if part.endswith('.cpp') else files_of(root, part)
            files |= sums[part]
        count, code = lines_of(files)
        print(f'{count:>8} of {limit:>7} lines, {code:>7} of them code  {what}')
        if count > int(limit):
            above.append(f'{what}: {count} lines, {count - int(limit)} above the budget of {limit}; make it smaller, or '
                         'raise tests/house/budget in a commit that says why')
    return above


def self_test():
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for name, text in {'core/a.h': '#include "core/b.h"\n// a comment\n', 'core/b.h': '\n', 'core/b.cpp': 'int b;\n' * 3,
                           'core/unused.cpp': 'int c;\n', 'lessons/main.cpp': '#include "core/a.h"\n'}.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
        (root / 'tests/house').mkdir(parents=True)
        for budget, wrong in (('core 7\nlessons/main.cpp 7\ncore + lessons 8\n', []), ('core 6\n', ['core: 7 lines, 1 above']),
                              ('lessons/main.cpp 6\n', ['lessons/main.cpp: 7 lines, 1 above'])):
            (root / 'tests/house/budget').write_text(budget)
            found = check(root)
            assert len(found) == len(wrong) and all(line.startswith(start) for line, start in zip(found, wrong)), found


if __name__ == '__main__':
    problems = check(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
    print(*problems, sep='\n')
    if len(sys.argv) == 1:
        self_test()
    sys.exit(1 if problems else 0)
