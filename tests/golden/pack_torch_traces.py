#!/usr/bin/env python3
"""Shrinks the traces that make_torch_traces.py wrote to the small files in tests/golden/torch_traces.

    tests/golden/pack_torch_traces.py FROM [TO]      (needs only Python)

Times, names and arguments stay as torch wrote them. Operations inside another aten:: operation and Python functions
shorter than 20 microseconds are left out; flows between operations remain. File names keep their form but do not name
the host.
"""

import gzip
import json
import pathlib
import re
import shutil
import sys


def slim(events):
    """`events` without operations inside aten:: operations and without short Python functions."""
    kept, ends = [], {}
    order = sorted(range(len(events)), key=lambda i: (events[i]['ts'], -events[i].get('dur', 0)))
    left_out = set()
    for index in order:
        event = events[index]
        if event['ph'] != 'X':
            continue
        row = (event['pid'], event['tid'])
        if event['cat'] == 'python_function' and event['dur'] < 20:
            left_out.add(index)
        if event['cat'] == 'cpu_op':
            if event['ts'] < ends.get(row, 0) and not event['name'].startswith('c10d::'):
                left_out.add(index)
            elif event['name'].startswith('aten::'):
                ends[row] = max(ends.get(row, 0), event['ts'] + event['dur'])
    for index, event in enumerate(events):
        if index not in left_out:
            kept.append(event)
    return kept


def main():
    source = pathlib.Path(sys.argv[1])
    target = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).parent / 'torch_traces')
    for folder in sorted(path for path in source.iterdir() if path.is_dir() and list(path.glob('*.pt.trace.json'))):
        (target / folder.name).mkdir(parents=True, exist_ok=True)
        for path in folder.glob('*.csv'):
            shutil.copy(path, target / folder.name / path.name)
        for path in sorted(folder.glob('*.pt.trace.json')):
            name = re.sub(r'^.*_(\d+)\.(\d+)\.pt', r'host_\1.\2.pt', path.name)
            document = json.loads(path.read_text())
            document['traceEvents'] = slim(document['traceEvents'])
            document['host_name'] = 'host'
            document['traceName'] = name
            # one event per line, so that diffs are readable
            events = ',\n'.join(json.dumps(event, separators=(',', ':')) for event in document.pop('traceEvents'))
            head = json.dumps(document, separators=(',', ':'))[:-1]
            text = f'{head},"traceEvents":[\n{events}\n]}}\n'
            (target / folder.name / (name + '.gz')).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == '__main__':
    main()
