"""The output of a command, and its comparison with a page's blocks and figures."""

import difflib
import re
from decimal import Decimal

import figures

ROUNDING = 2    # allowed difference in a loss's last digit: processors round matrix products differently


def masked(line):
    """The shape of a line: the part that two runs on the wall clock have in common."""
    line = re.sub(r'[-.=\d]*(\d|c--|\.\.)[-.=\dc]*', '#', line)
    return ' '.join(line.split())


def same_word(shown, printed, near):
    """Whether two words are equal; with `near`, the last digits of their numbers may differ by ROUNDING."""
    if shown == printed:
        return True
    if not near or re.sub(r'[\d.]+', '#', shown) != re.sub(r'[\d.]+', '#', printed):
        return False
    one, other = re.findall(r'\d+(?:\.\d+)?', shown), re.findall(r'\d+(?:\.\d+)?', printed)
    return all(len(a.partition('.')[2]) == len(b.partition('.')[2]) and
               abs(Decimal(a) - Decimal(b)) <= ROUNDING * figures.last_digit(a) for a, b in zip(one, other))


class Output:
    """The output of one command: lines for blocks, numbers for figures."""

    def __init__(self, part, command, text):
        # The runner gives every run a trace folder, even one with --trace none.
        text = re.sub(r'; the trace up to that point is in \S+', '', text)
        self.part, self.command, self.text, self.wall = part, command, text, '--clock wall' in command.text
        self.numbers, self.losses = {}, []
        # A page takes no figure from a diff, from generated text, or from the speed of this machine.
        told = re.sub(r'(?m)^the model says now:.*$|^trace: .*$|[\d.]+ tokens/s|[\d.]+ \w+ of this machine.s time', '',
                      '' if ' diff ' in command.text else text)
        for paragraph in re.split(r'\n\s*\n', told):
            for number in figures.numbers(paragraph):
                # A bare 12 is a count: it confirms neither 12 ms nor 12 %.
                unit = number.unit or ('' if figures.is_figure(number) else 'count')
                self.numbers.setdefault(number.value, set()).add(unit)
                if 'loss' in paragraph:
                    self.losses.append(number)

    def has(self, figure, near):
        """Whether the figure is printed, with its unit or, as in a table's cell, without one."""
        units = self.numbers.get(figure.value)
        if units and (not figure.unit or figure.unit in units or '' in units):
            return True
        allowed = ROUNDING * figures.last_digit(figure.text)
        return near and any(figures.last_digit(number.text) == figures.last_digit(figure.text) and
                            abs(number.value - figure.value) <= allowed and figure.unit in ('', number.unit)
                            for number in self.losses)

    def has_below(self, bound):
        """Whether the command prints a number between a hundredth of the bound and the bound."""
        return any(bound / 100 < value < bound for value in self.numbers)

    def shows(self, block):
        """Whether the output has the block's lines in order, and contiguous up to a blank line or '...'."""
        make = (lambda line: masked(line).split()) if self.wall else str.split
        near = any('loss' in line for line in block)
        printed, at = [word for line in self.text.split('\n') for word in make(line)], 0
        for chunk in chunks(block):
            wanted = [word for line in chunk for word in make(line)]
            starts = range(at, len(printed) - len(wanted) + 1)
            found = [start for start in starts
                     if all(same_word(a, b, near) for a, b in zip(wanted, printed[start:]))]
            if not found:
                return False
            at = found[0] + len(wanted)
        return True

    def first_missing(self, block):
        """The number of the block's lines in the output, and the index of the first line that is missing."""
        make = masked if self.wall else lambda line: ' '.join(line.split())
        printed = {make(line) for line in self.text.split('\n')}
        missing = [number for number, line in enumerate(block)
                   if line.strip() and line.strip() != '...' and make(line) not in printed]
        return len(block) - len(missing), missing[0] if missing else 0


def chunks(block):
    """The runs of lines between blank lines and '...'."""
    chunk = []
    for line in [*block, '']:
        if line.strip() in ('', '...'):
            if chunk:
                yield chunk
            chunk = []
        else:
            chunk.append(line)


def closest(line, output):
    found = difflib.get_close_matches(line, output.text.split('\n'), 1, 0.6)
    return f"; '{output.command.text}' prints '{found[0].strip()}'" if found else f"; sought in '{output.command.text}'"


def updated(block, printed):
    """The block with its chunks as now printed, or None if their shape has changed."""
    new, at = list(block), 0
    for chunk in chunks(block):
        scores = [difflib.SequenceMatcher(None, shape(chunk), shape(printed[start:start + len(chunk)])).ratio()
                  for start in range(len(printed) - len(chunk) + 1)]
        if not scores or max(scores) < 0.8:
            return None
        start = scores.index(max(scores))
        at = next(i for i in range(at, len(new)) if new[i:i + len(chunk)] == chunk)
        new[at:at + len(chunk)] = [line.rstrip() for line in printed[start:start + len(chunk)]]
        at += len(chunk)
    return new


def shape(lines):
    return '\n'.join(re.sub(r'\d', '0', line) for line in lines)
