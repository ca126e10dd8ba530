"""Parts of a page in Markdown."""

import textwrap


def paragraph(text):
    return [*textwrap.wrap(' '.join(text.split()), 120, break_on_hyphens=False), '']


def bullets(items):
    lines = []
    for item in items:
        lines += textwrap.wrap(item, 120, break_on_hyphens=False, initial_indent='- ', subsequent_indent='  ')
    return [*lines, ''] if lines else []


def table(head, rows):
    return [*('| ' + ' | '.join(row) + ' |' for row in (head, ['---'] * len(head), *rows)), '']


def percent(error):
    return f'{100 * error:+.1f} %'


def regimes(entries):
    """Returns a table of mean errors by regime. Entries are (regime, use, error)."""
    rows = []
    for regime in dict.fromkeys(regime for regime, _, _ in entries):
        cells = [regime]
        for use in ('fitted', 'predicted'):
            errors = [abs(error) for of, how, error in entries if of == regime and how == use]
            cells.append(str(len(errors)))
            cells += ([f'{100 * value:.1f} %' for value in (sum(errors) / len(errors), max(errors))] if errors
                      else ['', ''])
        rows.append(cells)
    return table(['', 'fitted rows', 'mean error', 'largest', 'predicted rows', 'mean error', 'largest'], rows)
