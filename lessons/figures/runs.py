"""Runs lessons and reads their reports and traces."""

import json
import subprocess
import sys


class Runs:
    def __init__(self, programs, tree, scratch):
        self.programs, self.tree, self.scratch, self.done = programs, tree, scratch, {}

    def run(self, lesson, *flags):
        """Runs lesson_LESSON without computing, on the modelled clock; returns a Run."""
        key = (lesson, *flags)
        if key not in self.done:
            folder = self.scratch / str(len(self.done))
            report = self.scratch / f'{len(self.done)}.json'
            command = [self.programs / f'lesson_{lesson}', *flags, '--clock', 'modelled', '--device', 'meta', '--quiet',
                       '--trace', folder, '--report', report]
            ended = subprocess.run(command, cwd=self.tree, capture_output=True, text=True, timeout=300)
            if ended.returncode:
                sys.exit(f"{' '.join(map(str, command))} ends with {ended.returncode}: {ended.stderr.strip()}")
            self.done[key] = Run(folder, report)
        return self.done[key]

    def report_of(self, program, *flags):
        """Runs another of the lessons' programs; returns its report."""
        report = self.scratch / f'{program}.json'
        ended = subprocess.run([self.programs / program, *flags, '--report', report], cwd=self.tree, capture_output=True,
                               text=True, timeout=300)
        if ended.returncode:
            sys.exit(f'{program} ends with {ended.returncode}: {ended.stderr.strip()}')
        return json.loads(report.read_text())


class Run:
    def __init__(self, folder, report):
        self.report = json.loads(report.read_text())
        self.traces = [self.read(folder / f'rank{rank}.json') for rank in range(self.report['ranks'])]

    @staticmethod
    def read(path):
        text = path.read_text().rstrip().rstrip(',')
        return json.loads(text if text.endswith(']') else text + ']')

    def spans(self, rank, step, *categories):
        """The spans of one rank and step in these categories, in order of their starts."""
        found = [Span(event) for event in self.traces[rank]
                 if event['ph'] == 'X' and event['cat'] in categories and event['args'].get('step') == step]
        return sorted(found, key=lambda span: (span.start, span.end))

    def phase(self, name):
        return next(phase for phase in self.report['phases'] if phase['name'] == name)

    def peak(self, rank=0):
        """Peak bytes of a rank by category."""
        return next(entry['peak'] for entry in self.report['memory'] if entry['rank'] == rank)

    def bytes_sent(self, rank=0):
        """The number of bytes that a rank sends per step."""
        sent = next(entry['bytes_sent'] for entry in self.report['communication'] if entry['rank'] == rank)
        return sum(sent.values())


class Span:
    """A span of the trace; times in microseconds."""

    def __init__(self, event):
        self.name, self.category, self.lane, self.args = event['name'], event['cat'], event['tid'], event['args']
        self.start, self.end = event['ts'], event['ts'] + event['dur']
