"""Figures in texts: numbers that a reader takes for measured or computed values, and the arithmetic between them."""

import ast
import math
import re
from dataclasses import dataclass
from decimal import Decimal

NUMBER = r'(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e[+-]?\d+)?)'
UNIT = (r'(?:(?:%|[kMGT]?B(?:/s)?|[pnµμum]s|microseconds?|nanoseconds?|milliseconds?|seconds?|minutes?)'
        r'(?![\w²]|/s)|'
        r's(?![\w²]| ?[)+/]))')    # but not the s of a formula, which is the sequence length
TOKEN = re.compile(rf"(?<![\w.])(?<![A-Za-z]-)({NUMBER})(?!\w|[.,']\d)(?:[ \n]?({UNIT}))?|"
                   rf"(?<![\w.])({NUMBER})({UNIT})")
NAMES = {'microsecond': 'µs', 'microseconds': 'µs', 'us': 'µs', 'μs': 'µs', 'nanosecond': 'ns', 'nanoseconds': 'ns',
         'millisecond': 'ms', 'milliseconds': 'ms', 'second': 's', 'seconds': 's', 'minutes': 'minute'}


@dataclass(frozen=True)
class Figure:
    text: str
    unit: str
    offset: int

    @property
    def value(self):
        return value_of(self.text)

    def __str__(self):
        return f'{self.text} {self.unit}'.strip()


def value_of(text):
    return Decimal(text.replace(',', '')).normalize()


def last_digit(text):
    """The value of one unit in the last digit shown; 0 for a whole number, which is exact."""
    mantissa, _, exponent = text.replace(',', '').partition('e')
    decimals = len(mantissa.partition('.')[2])
    return Decimal(10) ** (int(exponent or 0) - decimals) if decimals else Decimal(0)


def numbers(text):
    """All numbers in a text, with their units."""
    for match in TOKEN.finditer(text):
        unit = match[2] or match[4] or ''
        yield Figure(match[1] or match[3], NAMES.get(unit, unit), match.start())


def is_figure(number):
    """Whether the number has a decimal point, a power of ten, a unit, or at least three digits."""
    return bool(number.unit) or bool(re.search(r'[.e]', number.text)) or abs(number.value) >= 100


def figures(text):
    """The figures in a page's text, without numbers that are only names."""
    text = blank(text)
    for number in numbers(text):
        before = text[:number.offset].rstrip()
        if not is_figure(number):
            continue
        if not number.unit and re.fullmatch(r'19[5-9]\d|20[0-2]\d', number.text):    # a year
            continue
        if re.search(r'\b([Ll]essons?|[Ss]ections?|[Tt]able|[Ff]igure|sm_)$', before):
            continue
        yield number


def blank(text):
    """Replaces addresses, dates, versions and flags by spaces, so that all other offsets stay the same."""
    spaces = lambda match: re.sub(r'[^\n]', ' ', match[0])
    text = re.sub(r'\]\([^)\s]*\)|https?://\S+', spaces, text)
    text = re.sub(r'\b\d{4}-\d\d-\d\d\b|\b\d+\.\d+\.\d+(\.\d+)?\b', spaces, text)
    return re.sub(r'`[^`]*`', lambda code: spaces(code) if re.search(r'(^`| )-|^`\./|^`\S*[/_]\S*`$', code[0])
                  else code[0], text)


# --- Arithmetic ----------------------------------------------------------------------------------

class Interval:
    """A number that was rounded when written: its true value lies between low and high."""

    def __init__(self, low, high=None):
        self.low, self.high = low, low if high is None else high

    def _with(self, other, operation):
        other = other if isinstance(other, Interval) else Interval(other)
        ends = [operation(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def __add__(self, other):
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other):
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other):
        return self._with(other, lambda a, b: a * b)

    def __truediv__(self, other):
        return self._with(other, lambda a, b: a / b)

    def __pow__(self, other):
        return self._with(other, lambda a, b: a ** b)

    def __neg__(self):
        return Interval(-self.high, -self.low)


def monotonic(function):
    return lambda x: Interval(function(x.low), function(x.high))


FUNCTIONS = {'log2': monotonic(math.log2), 'exp': monotonic(math.exp), 'sqrt': monotonic(math.sqrt),
             'ceil': monotonic(math.ceil), 'floor': monotonic(math.floor)}
OPERATIONS = {ast.Add: Interval.__add__, ast.Sub: Interval.__sub__, ast.Mult: Interval.__mul__,
              ast.Div: Interval.__truediv__, ast.Pow: Interval.__pow__}


def evaluate(expression):
    """The interval that contains the value of an expression, given the rounding of its numbers."""
    rounded = []

    def name(match):
        value, half = float(value_of(match[0])), float(last_digit(match[0])) / 2
        rounded.append(Interval(value - half, value + half))
        return f' _{len(rounded) - 1} '

    text = re.sub(rf'(?<![\w.]){NUMBER}', name, re.sub(r' x |×', ' * ', expression.replace('^', '**')))

    def visit(node):
        if isinstance(node, ast.Name) and re.fullmatch(r'_\d+', node.id):
            return rounded[int(node.id[1:])]
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
            return OPERATIONS[type(node.op)](visit(node.left), visit(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -visit(node.operand)
        if isinstance(node, ast.Call) and getattr(node.func, 'id', '') in FUNCTIONS and len(node.args) == 1:
            return FUNCTIONS[node.func.id](visit(node.args[0]))
        raise ValueError(f"'{expression.strip()}' is not arithmetic")

    try:
        return visit(ast.parse(text.strip(), mode='eval').body)
    except (SyntaxError, ZeroDivisionError, OverflowError) as error:
        raise ValueError(f"'{expression.strip()}' can't be computed: {error}") from None


def equals(expression, text, unit=''):
    """Whether an expression gives the number as written, up to the rounding of all numbers in it. 3/12 = 25 %."""
    result, written = evaluate(expression), float(value_of(text))
    half = float(last_digit(text)) / 2 or (0.5 if re.search(r'[/.]', expression) else 0)
    slack = half + 1e-9 * abs(written)
    return any(result.low * scale - slack <= written <= result.high * scale + slack
               for scale in ([1, 100] if unit == '%' else [1]))


OPERAND = rf'\(*{NUMBER}\)*(?: ?(?:{UNIT}))?'
EQUATION = re.compile(rf'((?:{OPERAND}\s*(?: x |[×*/+-])\s*)+{OPERAND})\s=\s({NUMBER})(?:[ \n]?({UNIT}))?')


def equations(text):
    """The equations in a text, as (expression, result, its unit, its offset)."""
    for match in EQUATION.finditer(text):
        expression, before = match[1], text[:match.start()].rstrip()
        if re.search(r'([-+*/×^)]|\bx)$', before) or re.search(r'[\w.]\Z', text[:match.start()]):
            continue    # the tail of a formula with letters
        units = {unit for unit in re.findall(rf'{NUMBER} ?({UNIT})', expression)} | ({match[3]} if match[3] else set())
        if len({NAMES.get(unit, unit) for unit in units}) > 1:
            continue    # mixed units, which only a note can explain
        expression = re.sub(rf'({NUMBER}) ?{UNIT}', r'\1', expression)
        expression = re.sub(r'\s+', ' ', expression)
        while expression.count('(') > expression.count(')') and expression.startswith('('):
            expression = expression[1:]
        if expression.count('(') == expression.count(')'):
            yield expression, match[2], NAMES.get(match[3], match[3] or ''), match.start(2)
