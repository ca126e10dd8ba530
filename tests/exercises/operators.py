"""The mechanical mutants of a C++ source: one small change each, such as < for <=, outside comments and strings. The
source is expected to be formatted with clang-format, which puts spaces around binary operators only."""

import re
from bisect import bisect_right
from dataclasses import dataclass

TOKEN = re.compile(r'''
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#[^\n]*|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:'?[\w.]|(?<=[eE])[+-])*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign><=>|<<=|>>=|\+\+|--|->|::|<<|[-+*/%<>=!]=|&&|\|\||[-+*/%<>=!&|^~?:;,.(){}\[\]])
''', re.VERBOSE | re.DOTALL | re.MULTILINE)

SIGNS = {'+': '-', '-': '+', '*': '/', '/': '*', '+=': '-=', '-=': '+=', '*=': '/=', '/=': '*=', '<': '<=', '<=': '<',
         '>': '>=', '>=': '>', '==': '!=', '!=': '==', '&&': '||', '||': '&&'}
STEPS = {'++': '--', '--': '++'}
WORDS = [('min', 'max')]
# Exchanged only if the source has both.
PAIRS = [('forward', 'backward'), ('left', 'right'), ('next', 'previous'), ('first', 'last'), ('rows', 'columns'),
         ('forwards', 'backwards'), ('before', 'after'), ('sent', 'received'), ('dp', 'tp'),
         ('dp', 'pp'), ('pp', 'tp')]
# The order of these arguments does not matter.
SYMMETRIC = {'min', 'max', 'gcd', 'lcm', 'abs_diff'}
CLOSING = {'(': ')', '[': ']', '{': '}'}


@dataclass(frozen=True)
class Mutant:
    line: int       # of the first changed character, from 1
    was: str        # the changed lines, with single spaces
    becomes: str    # the same lines of the mutant
    text: str       # the whole mutant; has as many lines as the original

    @property
    def change(self):
        return f'{self.was} -> {self.becomes}'


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int


def mutants(source):
    """Returns the mutants of the source, in the order of its lines, each text once."""
    found = {}
    starts = [match.start() for match in re.finditer(r'^', source, re.MULTILINE)]
    for start, end, new in sorted(_Operators(source).changes()):
        text = source[:start] + new + '\n' * (source.count('\n', start, end) - new.count('\n')) + source[end:]
        if text == source or text in found:
            continue
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, max(start, end - 1)) - 1
        lines = source.split('\n')[first:last + 1], text.split('\n')[first:last + 1]
        was, becomes = (re.sub(r'\s+', ' ', re.sub(r'//[^\n]*', '', '\n'.join(each))).strip() for each in lines)
        found[text] = Mutant(first + 1, was, becomes or '(nothing)', text)
    return list(found.values())


class _Operators:
    def __init__(self, source):
        self.source = source
        self.tokens = [Token(match.lastgroup, match[0], match.start(), match.end())
                       for match in TOKEN.finditer(source) if match.lastgroup != 'skip']
        self.closing = {}    # index of a bracket: index of the one that closes it
        opened = []
        for i, token in enumerate(self.tokens):
            if token.text in CLOSING:
                opened.append(i)
            elif opened and token.text == CLOSING[self.tokens[opened[-1]].text]:
                self.closing[opened.pop()] = i

    def changes(self):
        """Yields (start, end, new text)."""
        for i, token in enumerate(self.tokens):
            if token.kind == 'number':
                yield from self.numbers(token)
            elif token.kind == 'word':
                yield from self.words(i, token)
                yield from self.conditions(i, token)
                yield from self.calls(i, token)
            else:
                yield from self.signs(i, token)
        yield from self.statements()

    def text(self, first, last):
        """The source from one token to another, both inclusive."""
        return self.source[self.tokens[first].start:self.tokens[last].end]

    def is_binary(self, i):
        token = self.tokens[i]
        before, after = self.source[token.start - 1], self.source[token.end:token.end + 1]
        return i > 0 and before.isspace() and after.isspace() and (
            self.tokens[i - 1].kind in ('number', 'word') and self.tokens[i - 1].text != 'return' or
            self.tokens[i - 1].text in ')]}>')

    def numbers(self, token):
        match = re.fullmatch(r"(0[xb][\da-fA-F']+|[\d']*\.?[\d']*(?:[eE][+-]?\d+)?)(\w*)", token.text)
        if not match or re.match('0[xb]', match[1]):
            return
        digits, suffix = match[1].replace("'", ''), match[2]
        if re.fullmatch(r'\d+', digits):
            values = {0: [1], 1: [0, 2]}.get(int(digits), [int(digits) + 1])
            news = [str(value) for value in values]
        else:
            news = [repr(float(digits) + 1), *(['0.0'] if float(digits) == 1 else [])]
        for new in news:
            yield token.start, token.end, new + suffix

    def words(self, i, token):
        for pair in WORDS + PAIRS:
            if token.text in pair and (pair in WORDS or all(
                    any(each.text == word for each in self.tokens) for word in pair)):
                yield token.start, token.end, pair[1 - pair.index(token.text)]

    def conditions(self, i, token):
        if token.text not in ('if', 'while') or self.tokens[i + 1].text != '(':
            return
        first, last = i + 2, self.closing[i + 1] - 1
        for j in range(first, last):
            if self.tokens[j].text == ';':    # if (declaration; condition)
                first = j + 1
        signs = [each.text for each in self.tokens[first:last] if each.text in SIGNS]
        if signs not in (['=='], ['!=']):    # that would be the same as exchanging them
            yield self.tokens[first].start, self.tokens[last].end, f'!({self.text(first, last)})'

    def calls(self, i, token):
        if token.text in SYMMETRIC or token.text in ('for', 'if', 'while', 'switch') or i + 1 >= len(self.tokens):
            return
        if self.tokens[i + 1].text != '(':
            return
        commas, j, end = [], i + 2, self.closing[i + 1]
        while j < end:
            if self.tokens[j].text == ',':
                commas.append(j)
            j = self.closing.get(j, j) + 1
        if not commas:
            return
        ends = [i + 1, *commas, end]
        one, other = self.text(ends[0] + 1, ends[1] - 1), self.text(ends[1] + 1, ends[2] - 1)
        is_parameter = re.compile(r'^(const )?[\w:<>, ]+[&*]* [&*]?\w+$|^[\w:<>]+[&*]+ \w+$')
        if is_parameter.match(one) or is_parameter.match(other):
            return
        yield self.tokens[ends[0] + 1].start, self.tokens[ends[2] - 1].end, f'{other}, {one}'

    def signs(self, i, token):
        if token.text in STEPS:
            yield token.start, token.end, STEPS[token.text]
        elif token.text in SIGNS and self.is_binary(i):
            yield token.start, token.end, SIGNS[token.text]
        elif token.text in ('-', '!') and not self.is_binary(i) and self.tokens[i + 1].kind != 'sign':
            yield token.start, token.end, ''
        if token.text == '%' and self.is_binary(i):
            last = self.end_of_operand(i + 1)
            yield self.tokens[i - 1].end, self.tokens[last].end, ''

    def end_of_operand(self, i):
        """The last token of the operand that begins with token i: a name, a number, a call, a parenthesis."""
        last = self.closing.get(i, i)
        while last + 1 < len(self.tokens):
            following = self.tokens[last + 1].text
            if following in ('(', '['):
                last = self.closing[last + 1]
            elif following in ('.', '->', '::'):
                last += 2
            else:
                break
        return last

    def statements(self):
        """Deletes each statement that ends with ';', outside parentheses. (If it declares something that is used, the
        mutant does not compile.)"""
        first, i = 0, 0
        while i < len(self.tokens):
            text = self.tokens[i].text
            if text in ('(', '['):
                i = self.closing.get(i, i)
            elif text == '{' and i > first and self.is_expression(i):
                i = self.closing[i]
            elif text in '{}':
                first = i + 1
            elif text == ';':
                begin = self.after_heads(first)
                if begin < i and not self.is_kept(begin):
                    yield self.tokens[begin].start, self.tokens[i].end, ';' if begin > first else ''
                first = i + 1
            i += 1

    def is_expression(self, i):
        """Whether this brace begins an initializer or a lambda's body, not a block of statements."""
        before = self.tokens[i - 1]
        if before.text in ('=', ',', '(', 'return', ']', '>') or before.text == '{':
            return before.text != '{'
        return before.kind == 'word' and before.text not in ('else', 'do', 'try', 'const', 'noexcept', 'exercises')

    def after_heads(self, i):
        """The first token of the statement behind `if (...)`, `for (...)`, `while (...)` and `else`."""
        while i < len(self.tokens):
            if self.tokens[i].text == 'else':
                i += 1
            elif self.tokens[i].text in ('if', 'for', 'while') and self.tokens[i + 1].text == '(':
                i = self.closing[i + 1] + 1
            else:
                break
        return i

    def is_kept(self, i):
        """Whether the statement is a declaration, for sure, or returns a value, so that it can't be left out."""
        if self.tokens[i].text in ('const', 'auto', 'int', 'float', 'double', 'bool', 'using', 'namespace', 'struct'):
            return True
        return self.tokens[i].text == 'return' and self.tokens[i + 1].text != ';'
