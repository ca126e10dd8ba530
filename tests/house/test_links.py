#!/usr/bin/env python3
"""Checks that every reference to a file or a section leads somewhere:

- on a page (*.md): links to files and to their headings, and paths in backticks, from the root or from the page's folder;
- in the sources: pages, and their sections, as in (core/run/README.md, "Parity").

  test_links.py [ROOT]     without ROOT: this tree, and then small trees with one fault each
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = 'core|kernels|lessons|exercises|viz|tests|cmake'
SOURCES = {'.h', '.cpp', '.cu', '.cuh', '.py', '.cmake', '.sh', '.txt', ''}


def files(root):
    """What Git tracks or would add; all files if the tree is not a repository."""
    listed = subprocess.run(['git', '-C', root, 'ls-files', '-co', '--exclude-standard'], capture_output=True, text=True)
    names = listed.stdout.splitlines() if listed.returncode == 0 and (root / '.git').exists() else \
        [str(path.relative_to(root)) for path in root.rglob('*') if path.is_file()]
    return [root / name for name in names if (root / name).is_file()]


def text_of(path):
    return path.read_text(encoding='utf-8', errors='replace')


def headings(page):
    """The titles of a page's sections, without the lines in its blocks."""
    return re.findall(r'^#+ (.*?)\s*$', re.sub(r'^```.*?^```', '', text_of(page), flags=re.M | re.S), re.M)


def anchor(title):
    title = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', title).lower()
    return re.sub(r'[^\w\- ]', '', title).replace(' ', '-')


def faults_of_page(root, page):
    text = re.sub(r'^```.*?^```|<!--.*?-->', '', text_of(page), flags=re.M | re.S)
    for target in re.findall(r'\]\(([^)\s]+)\)', text):
        name, _, section = target.partition('#')
        if re.match(r'\w+:', target):
            continue
        to = page.parent / name if name else page
        if not to.exists():
            yield f'no file {target}'
        elif section and to.suffix == '.md' and section not in map(anchor, headings(to)):
            yield f'no heading for {target}'
    for name in re.findall(rf'`((?:{TOP})/[\w./*-]+)`', text):
        if 'NN_' not in name and not any(root.glob(name.rstrip('/'))) and not any(page.parent.glob(name.rstrip('/'))):
            yield f'no file {name}'


def faults_of_source(root, source):
    # A reference may continue on the next line of a comment.
    text = re.sub(r'\n\s*(?://+|#)?\s*', ' ', text_of(source))
    for name, section in re.findall(r'\b((?:core|viz|kernels)/[\w/]+\.md|CONTRIBUTING\.md)(?:,? "([^"]+)")?', text):
        if not (root / name).exists():
            yield f'no page {name}'
        elif section and section not in headings(root / name):
            yield f'{name} has no section "{section}"'


def check(root):
    for path in files(root):
        if path.name == Path(__file__).name:  # the faulty trees below
            continue
        found = faults_of_page(root, path) if path.suffix == '.md' else \
            faults_of_source(root, path) if path.suffix in SOURCES else []
        yield from (f'{path.relative_to(root)}: {fault}' for fault in found)


def main():
    here = Path(__file__).resolve().parents[2]
    faults = list(check(Path(sys.argv[1]) if len(sys.argv) > 1 else here))
    if len(sys.argv) == 1:
        for name, content, expected in [
                ('core/a.md', '# A b, c\n[x](#a-b-c) [y](a.md#a-b-c) `core/a.md` `core/*.md`', None),
                ('core/a.md', '[x](b.md)', 'core/a.md: no file b.md'),
                ('core/a.md', '# A\n[x](a.md#b)', 'core/a.md: no heading for a.md#b'),
                ('core/a.md', '`core/b.h`', 'core/a.md: no file core/b.h'),
                ('core/a.h', '// (core/a.md, "A")', 'core/a.h: no page core/a.md'),
                ('core/a.h', '// (CONTRIBUTING.md, "A")', None),
                ('core/a.h', '// (CONTRIBUTING.md,\n// "B")', 'core/a.h: CONTRIBUTING.md has no section "B"')]:
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / 'CONTRIBUTING.md').write_text('# A', encoding='utf-8')
                (Path(folder) / 'core').mkdir()
                (Path(folder) / name).write_text(content, encoding='utf-8')
                found = list(check(Path(folder)))
                if found != ([expected] if expected else []):
                    faults.append(f'expected of {content!r}: {expected}; found: {found}')
    print('\n'.join(faults) or 'every reference leads to a file or a section')
    return 1 if faults else 0


if __name__ == '__main__':
    sys.exit(main())
