"""Parses a page into texts, blocks, and the author's notes (comments) above them."""

import re
from dataclasses import dataclass, field

# A block that begins like this holds commands; any other block is output, or code if it names a language.
COMMAND = re.compile(r'(\./lockstep|for \w+ in|cmp|cat|grep|srun|ssh|docker|cmake|lessons/|tests/)\b')
NOTE = re.compile(r'(runs|derived|declared|not run|exit|table|quotes)\b:?\s*(.*)', re.S)


class BadPage(Exception):
    """An error that the author must correct before the page can be checked, with its line."""


@dataclass
class Note:
    kind: str
    body: str
    line: int


@dataclass
class Part:
    """A paragraph, list or table (kind 'text'), or a fenced block ('commands', 'output', 'code')."""
    kind: str
    line: int  # of the first line of its content, from 1
    lines: list
    notes: list = field(default_factory=list)

    def text(self):
        return '\n'.join(self.lines)

    def line_of(self, offset):
        return self.line + self.text().count('\n', 0, offset)

    def notes_of(self, kind):
        return [note for note in self.notes if note.kind == kind]

    def has(self, kind):
        return bool(self.notes_of(kind))


@dataclass
class Command:
    text: str
    line: int
    exit: int = 0
    not_run: str = ''


def read_page(path):
    with open(path, encoding='utf-8') as file:
        return parse(file.read().split('\n'))


def parse(lines):
    parts, notes, at = [], [], 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            if notes:
                raise BadPage(f'{notes[-1].line}: this note stands above nothing')
            at += 1
        elif line.lstrip().startswith('<!--'):
            begun = at
            while '-->' not in lines[at]:
                at += 1
                if at == len(lines):
                    raise BadPage(f'{begun + 1}: this comment has no end')
            at += 1
            notes += parse_notes('\n'.join(lines[begun:at]), begun + 1)
        elif line.lstrip().startswith('```'):
            begun, language = at + 1, line.strip()[3:]
            at = begun
            while at < len(lines) and not lines[at].lstrip().startswith('```'):
                at += 1
            inside = lines[begun:at]
            first = next((text for text in inside if text.strip()), '')
            kind = 'code' if language else 'commands' if COMMAND.match(first) else 'output'
            parts.append(Part(kind, begun + 1, inside, notes))
            notes = []
            at += 1
        else:
            begun = at
            while at < len(lines) and lines[at].strip() and not lines[at].lstrip().startswith(('```', '<!--')):
                at += 1
            parts.append(Part('text', begun + 1, lines[begun:at], notes))
            notes = []
    if notes:
        raise BadPage(f'{notes[-1].line}: this note stands above nothing')
    return parts


def parse_notes(comment, line):
    body = comment.strip()[4:].rsplit('-->', 1)[0].strip()
    match = NOTE.fullmatch(body)
    if not match:
        raise BadPage(f'{line}: a note is one of runs, derived, declared, not run, exit, table, quotes, '
                      f"not '{body[:60]}'")
    return [Note(match[1], match[2].strip(), line)]


def commands_of(part):
    """The commands of a part, in the page's order: those of its notes, then its own."""
    codes = [int(code) for code in part.notes_of('exit')[0].body.split()] if part.has('exit') else [0]
    skip = part.notes_of('not run')[0].body if part.has('not run') else ''
    found = []
    for note in part.notes_of('runs'):
        for text in join_lines(note.body.split('\n')):
            ends = re.search(r'\s*\(exit (\d+)\)$', text)
            for each in expand(text[:ends.start()] if ends else text):
                found.append(Command(each, note.line, int(ends[1]) if ends else 0))
    own = []
    if part.kind == 'commands':
        own = [Command(text, part.line, 0, skip) for text in join_lines(part.lines)]
    if part.kind == 'text':
        for match in re.finditer(r'`(\./lockstep [^`]*)`', part.text()):
            own.append(Command(' '.join(match[1].split()), part.line_of(match.start()), 0, skip))
    if len(codes) not in (1, len(own)):
        raise BadPage(f'{part.line}: {len(codes)} exit codes for {len(own)} commands')
    for number, command in enumerate(own):
        command.exit = codes[number % len(codes)]
    return found + own


def join_lines(lines):
    """Logical lines: joined at a trailing backslash, or from a loop to its 'done'."""
    joined, held = [], ''
    for line in lines:
        line = line.strip()
        if not line:
            continue
        if line.endswith('\\'):
            held += line[:-1]
            continue
        held += line
        if re.match(r'for ', held) and line != 'done':
            held += '\n'
            continue
        joined.append(re.sub(r'\s+#\s.*$', '', held))
        held = ''
    return joined + ([held] if held else [])


def expand(text):
    """Expands braces: --ranks {2,4} stands for two commands."""
    match = re.search(r'\{([^{}]*,[^{}]*)\}', text)
    if not match:
        return [text]
    each = [text[:match.start()] + one + text[match.end():] for one in match[1].split(',')]
    return [whole for one in each for whole in expand(one)]
