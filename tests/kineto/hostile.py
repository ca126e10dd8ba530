"""Files that no profiler writes, or that were damaged on the way, for test_hostile.py.

Each case is a function that writes files into an empty folder and returns the paths to give to the viewer. `case` gives
the correct exit codes: 2 with one line that says what is wrong, 0 if the files can be read, or either.
"""

import gzip
import io
import json
import struct
import zipfile
import zlib

CASES = {}


def case(*codes, says=''):
    """Registers a case: the correct exit codes, and a part of the message for code 2."""
    def register(function):
        CASES[function.__name__] = (function, codes, says)
        return function
    return register


def event(**more):
    return {'ph': 'X', 'cat': 'cpu_op', 'name': 'aten::mm', 'pid': 10, 'tid': 10, 'ts': 100.5, 'dur': 7.25,
            'args': {'External id': 1}, **more}


def trace(rank=0, world=2, events=None, **top):
    """A small valid trace: two steps, a forward and a backward pass with a flow, and two all-reduces on a GPU."""
    pid = 10 + rank
    all_events = [
        {'ph': 'M', 'name': 'process_name', 'ts': 0, 'pid': pid, 'tid': 0, 'args': {'name': 'python3'}},
        {'ph': 'M', 'name': 'thread_name', 'ts': 0, 'pid': 0, 'tid': 7, 'args': {'name': 'stream 7 '}},
    ]
    for step in (1, 2):
        t = 1000.0 * step
        all_events += [
            event(cat='user_annotation', name=f'ProfilerStep#{step}', pid=pid, tid=pid, ts=t, dur=900.0),
            event(cat='user_annotation', name='PP:0F0', pid=pid, tid=pid, ts=t + 10, dur=200.0),
            event(cat='user_annotation', name='PP:0B0', pid=pid, tid=pid, ts=t + 300, dur=200.0),
            event(pid=pid, tid=pid, ts=t + 20, dur=50.0),
            event(name='autograd::engine::evaluate_function: MmBackward0', pid=pid, tid=pid, ts=t + 310, dur=50.0),
            {'ph': 's', 'id': step, 'pid': pid, 'tid': pid, 'ts': t + 25, 'cat': 'fwdbwd', 'name': 'fwdbwd'},
            {'ph': 'f', 'id': step, 'pid': pid, 'tid': pid, 'ts': t + 315, 'cat': 'fwdbwd', 'name': 'fwdbwd', 'bp': 'e'},
        ]
        for index, name in enumerate(('gemm', 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)')):
            correlation = 10 * step + index
            all_events += [
                event(cat='cuda_runtime', name='cudaLaunchKernel', pid=pid, tid=pid, ts=t + 30 + 300 * index, dur=4.0,
                      args={'correlation': correlation}),
                event(cat='kernel', name=name, pid=0, tid=7, ts=t + 40 + 300 * index + 5 * rank * index, dur=100.0 - 5 * rank * index,
                      args={'device': 0, 'stream': 7, 'correlation': correlation, **({} if index == 0 else {
                          'Collective name': 'allreduce', 'In msg nelems': 1024, 'Out msg nelems': 1024, 'Group size': world,
                          'dtype': 'Float', 'Process Group Name': '0', 'Process Group Description': 'default_pg',
                          'Process Group Ranks': str(list(range(world))), 'Seq': step, 'Comms Id': 77 + step})}),
            ]
    return {'schemaVersion': 1, 'deviceProperties': [], 'distributedInfo': {
        'backend': 'nccl', 'rank': rank, 'world_size': world, 'pg_count': 1,
        'pg_config': [{'pg_name': '0', 'pg_desc': 'default_pg', 'pg_size': world, 'ranks': list(range(world))}]},
        'host_name': 'host', 'baseTimeNanoseconds': 1790857026000000000,
        'traceEvents': all_events if events is None else events, 'traceName': 't.json', **top}


def save(path, document):
    text = document if isinstance(document, (bytes, str)) else json.dumps(document)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def pair(folder, **top):
    return [save(folder / f'rank{rank}.pt.trace.json', trace(rank, **top)) for rank in (0, 1)]


def packed(document, **more):
    return gzip.compress(json.dumps(document, **more).encode(), 6, mtime=0)


# ---- gzip

@case(0)
def plain_pair(folder):
    return pair(folder)


@case(0)
def gzip_pair_in_a_folder(folder):
    for rank in (0, 1):
        save(folder / f'host_{rank}.17.pt.trace.json.gz', packed(trace(rank)))
    return [folder]


@case(0)
def gzip_of_two_members(folder):
    text = json.dumps(trace(0, 1)).encode()
    return [save(folder / 'a.json.gz', gzip.compress(text[:500]) + gzip.compress(text[500:]))]


def cut(share):
    def build(folder):
        whole = packed(trace())
        return [save(folder / 'cut.pt.trace.json.gz', whole[:int(len(whole) * share)])]
    return build


for percent in (0, 1, 5, 30, 60, 90, 99):
    build = cut(percent / 100)
    build.__name__ = f'gzip_cut_at_{percent}_percent'
    case(2, says='cut.pt.trace.json.gz')(build)


@case(2, says='a.json.gz')
def gzip_without_its_trailer(folder):
    return [save(folder / 'a.json.gz', packed(trace())[:-8])]


@case(0, 2)         # libarchive does not compare the checksum
def gzip_with_a_wrong_checksum(folder):
    whole = bytearray(packed(trace()))
    whole[-6] ^= 0xff
    return [save(folder / 'a.json.gz', bytes(whole))]


@case(2, says='a.json.gz')
def gzip_with_damaged_data(folder):
    whole = bytearray(packed(trace()))
    for index in range(len(whole) // 2, len(whole) // 2 + 20):
        whole[index] ^= 0x5a
    return [save(folder / 'a.json.gz', bytes(whole))]


@case(0, 2)
def gzip_that_is_not_gzip(folder):
    return [save(folder / 'a.json.gz', trace(0, 1))]


@case(2, says='a.json.gz')
def gzip_bomb(folder):
    """12 GB of spaces in 12 MB."""
    return [save(folder / 'a.json.gz', bomb(12 << 30))]


@case(2, says='a.json.gz')
def gzip_bomb_of_events(folder):
    """A valid beginning, then a list of 6 GB of numbers."""
    begin, end = json.dumps(trace(events=[])).split('"traceEvents": []')
    return [save(folder / 'a.json.gz', bomb(6 << 30, b'0,', f'{begin}"traceEvents": ['.encode(), f'0]{end}'.encode()))]


def bomb(size, unit=b' ', before=b'', after=b''):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    chunk = unit * ((1 << 20) // len(unit))
    out = [packer.compress(before)]
    # Each further megabyte compresses to the same bytes: repeat a full flush's block instead of compressing it again.
    out += [packer.compress(chunk), packer.flush(zlib.Z_FULL_FLUSH)]
    first = packer.compress(chunk) + packer.flush(zlib.Z_FULL_FLUSH)
    out += [first] * (size // len(chunk) - 1)
    tail = zlib.compressobj(9, zlib.DEFLATED, -15)
    out.append(tail.compress(after) + tail.flush())
    return b''.join(out) + struct.pack('<II', 0, 0)        # the trailer is wrong; a reader should stop before it


# ---- ZIP

def zip_of(members, **more):
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED, **more) as archive:
        for name, content in members:
            archive.writestr(name, content if isinstance(content, (str, bytes)) else json.dumps(content))
    return out.getvalue()


@case(0)
def zip_of_a_pair(folder):
    return [save(folder / 'run.zip', zip_of([(f'r{rank}.json', trace(rank)) for rank in (0, 1)]))]


@case(0)
def zip_of_compressed_traces(folder):
    return [save(folder / 'run.zip', zip_of([(f'r{rank}.json.gz', packed(trace(rank))) for rank in (0, 1)]))]


@case(2, says='run.zip')
def zip_cut_off(folder):
    whole = zip_of([(f'r{rank}.json', trace(rank)) for rank in (0, 1)])
    return [save(folder / 'run.zip', whole[:len(whole) * 2 // 3])]


@case(2, says='run.zip')
def zip_empty(folder):
    return [save(folder / 'run.zip', zip_of([]))]


@case(2, says='run.zip')
def zip_of_other_files(folder):
    return [save(folder / 'run.zip', zip_of([('readme.txt', 'no trace'), ('x.bin', b'\0\1\2' * 100)]))]


@case(2, says='run.zip')
def zip_bomb(folder):
    """Ten members of 1 GB of spaces, each compressed once."""
    return [save(folder / 'run.zip', big_zip(10))]


@case(2, says='run.zip')
def zip_bomb_of_overlapping_members(folder):
    """A thousand names for the same gigabyte."""
    return [save(folder / 'run.zip', big_zip(1000, overlapping=True))]


def raw_deflate(size):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    chunk = b' ' * (1 << 20)
    first = packer.compress(chunk) + packer.flush(zlib.Z_FULL_FLUSH)
    more = packer.compress(chunk) + packer.flush(zlib.Z_FULL_FLUSH)
    end = zlib.compressobj(9, zlib.DEFLATED, -15)
    return first + more * (size // len(chunk) - 1) + end.flush()


def big_zip(count, overlapping=False, size=1 << 30):
    """An archive written field by field: `count` members of `size` bytes of spaces."""
    data, check = raw_deflate(size), 0
    for _ in range(size >> 20):
        check = zlib.crc32(b' ' * (1 << 20), check)
    out, central = io.BytesIO(), io.BytesIO()
    offset = 0
    for index in range(count):
        name = f'rank{index}.json'.encode()
        if index == 0 or not overlapping:
            offset = out.tell()
            out.write(struct.pack('<IHHHHHIIIHH', 0x04034b50, 20, 0, 8, 0, 0, check, len(data), size, len(name), 0) + name + data)
        central.write(struct.pack('<IHHHHHHIIIHHHHHII', 0x02014b50, 20, 20, 0, 8, 0, 0, check, len(data), size, len(name),
                                  0, 0, 0, 0, 0, offset) + name)
    begin = out.tell()
    out.write(central.getvalue())
    out.write(struct.pack('<IHHHHIIH', 0x06054b50, 0, 0, count, count, len(central.getvalue()), begin, 0))
    return out.getvalue()


@case(0, 2)         # the sizes in the central directory are not needed
def zip_that_lies_about_sizes(folder):
    whole = bytearray(zip_of([('r0.json', trace(0, 1))]))
    place = whole.rindex(b'PK\1\2')
    struct.pack_into('<II', whole, place + 20, 0xfffffff0, 0xfffffff0)
    return [save(folder / 'run.zip', bytes(whole))]


@case(2, says='run.zip')
def zip_with_an_unknown_method(folder):
    whole = bytearray(zip_of([('r0.json', trace(0, 1))]))
    struct.pack_into('<H', whole, 8, 97)
    struct.pack_into('<H', whole, whole.rindex(b'PK\1\2') + 10, 97)
    return [save(folder / 'run.zip', bytes(whole))]


@case(2, says='run.zip')
def zip_encrypted(folder):
    whole = bytearray(zip_of([('r0.json', trace(0, 1))]))
    whole[6] |= 1
    whole[whole.rindex(b'PK\1\2') + 8] |= 1
    return [save(folder / 'run.zip', bytes(whole))]


@case(0, 2)
def zip_of_names_outside(folder):
    return [save(folder / 'run.zip', zip_of([('../../r0.json', trace(0)), ('/tmp/r1.json', trace(1))]))]


@case(0, 2)
def zip_of_the_same_name_twice(folder):
    return [save(folder / 'run.zip', zip_of([('r.json', trace(0)), ('r.json', trace(1))]))]


@case(2, says='run.zip')
def zip_of_twenty_thousand_members(folder):
    return [save(folder / 'run.zip', zip_of([(f'{index}.json', '{}') for index in range(20000)]))]


@case(0, 2)
def zip_in_a_zip(folder):
    inner = zip_of([('r0.json', trace(0, 1))])
    return [save(folder / 'run.zip', zip_of([('inner.zip', inner)]))]


def manifest():
    return {'perfetto_manifest': {'version': 1, 'files': [
        {'path': 'r0.json', 'machine': {'name': 'host 0'}},
        {'path': 'r1.json', 'machine': {'name': 'host 1'}, 'clocks': {'sync_to': {'file': 'r0.json'}, 'offset_ns': -3000}}]}}


def with_manifest(content):
    def build(folder):
        members = [('manifest.json', content)] + [(f'r{rank}.json', trace(rank)) for rank in (0, 1)]
        return [save(folder / 'run.zip', zip_of(members))]
    return build


def damaged_manifests():
    good = json.dumps(manifest())
    circle = manifest()
    circle['perfetto_manifest']['files'][0]['clocks'] = {'sync_to': {'file': 'r1.json'}, 'offset_ns': 1}
    for name, content in {
            'a_number': '{"perfetto_manifest": 5}', 'no_version': '{"perfetto_manifest": {"files": []}}',
            'a_version_of_another_type': '{"perfetto_manifest": {"version": "x", "files": [{"path": 7}]}}',
            'a_version_beyond_64_bits': good.replace('"version": 1', '"version": 1e30'),
            'files_of_another_type': '{"perfetto_manifest": {"version": 1, "files": 5}}',
            'entries_of_another_type': '{"perfetto_manifest": {"version": 1, "files": [5, null, []]}}',
            'a_missing_file': good.replace('"r0.json"', '"gone.json"'),
            'a_fractional_offset': good.replace('-3000', '1e300'), 'an_offset_beyond_64_bits': good.replace('-3000', '-1' + '0' * 30),
            'the_largest_offset': good.replace('-3000', str(-2**63)), 'an_end_missing': good[:-30],
            'a_circle': json.dumps(circle), 'a_file_relative_to_itself': good.replace('"file": "r0.json"', '"file": "r1.json"'),
            'one_path_twice': good.replace('"path": "r1.json"', '"path": "r0.json"')}.items():
        build = with_manifest(content)
        build.__name__ = f'zip_with_a_manifest_with_{name}'
        case(0, 2)(build)
    build = with_manifest(good)
    build.__name__ = 'zip_with_a_manifest'
    case(0)(build)


damaged_manifests()


# ---- folders and ranks

@case(2, says='both')
def two_runs_in_one_folder(folder):
    for stamp in (17, 99):
        for rank in (0, 1):
            save(folder / f'host_{4000 + rank}.{stamp}{rank}.pt.trace.json', trace(rank))
    return [folder]


@case(2, says='both')
def two_runs_of_which_one_is_named_as_lockstep_names_files(folder):
    pair(folder)                        # rank0.pt.trace.json, rank1.pt.trace.json
    for rank in (0, 1):
        save(folder / f'later_rank{rank}.pt.trace.json', trace(rank))
    return [folder]


@case(0)
def missing_ranks(folder):
    return [save(folder / f'r{rank}.json', trace(rank, 8)) for rank in (0, 5)]


@case(2)
def empty_folder(folder):
    return [folder]


@case(2)
def folder_of_other_json(folder):
    save(folder / 'a.json', {'a': 1})
    save(folder / 'b.json', [1, 2, 3])
    return [folder]


@case(0, 2)
def a_trace_beside_other_json(folder):
    pair(folder)
    save(folder / 'settings.json', {'a': 1})
    return [folder]


def odd_rank(name, rank, world):
    def build(folder):
        documents = [trace(0), trace(1)]
        documents[1]['distributedInfo'] |= {'rank': rank, 'world_size': world}
        return [save(folder / f'r{index}.json', document) for index, document in enumerate(documents)]
    build.__name__ = name
    case(0, 2)(build)


odd_rank('rank_of_a_billion', 10**9, 10**9 + 1)
odd_rank('rank_negative', -5, 2)
odd_rank('rank_beyond_64_bits', 2**70, 2**71)
odd_rank('rank_of_a_text', 'one', 'two')
odd_rank('rank_of_a_fraction', 0.5, 2)
odd_rank('world_smaller_than_rank', 7, 2)


# ---- JSON

@case(0, 2)
def nested_a_million_deep(folder):
    return [save(folder / 'a.json', json.dumps(trace(events=[])).replace('[]', '[' * 10**6 + ']' * 10**6, 1))]


@case(2)
def nested_without_an_end(folder):
    return [save(folder / 'a.json', '{"schemaVersion":1,"traceEvents":' + '[{"args":' * 200000)]


@case(2, says='a.json')
def json_cut_off(folder):
    return [save(folder / 'a.json', json.dumps(trace())[:-200])]


@case(0, 2)
def events_is_a_number(folder):
    return [save(folder / 'a.json', trace(events=5))]


@case(0, 2)
def events_twice(folder):
    text = json.dumps(trace(0, 1))
    return [save(folder / 'a.json', text[:-1] + ',"traceEvents":[5]}')]


@case(0, 2)
def no_events(folder):
    return [save(folder / 'a.json', trace(events=[]))]


@case(0, 2)
def nul_bytes_and_bad_utf8(folder):
    text = json.dumps(trace(0, 1)).encode().replace(b'aten::mm', b'a\xff\xfe\x00b').replace(b'PP:0F0', b'PP:\xc3\x28')
    return [save(folder / 'a.json', text)]


@case(0, 2)
def escape_sequences_in_names(folder):
    return [save(folder / 'a.json', json.dumps(trace(0, 1)).replace('gemm', '\\u001b[2J\\u0007\\u202e'))]


@case(0, 2)
def a_hundred_thousand_threads(folder):
    events = trace()['traceEvents'] + [event(tid=index, pid=10, ts=index, name=f'operator {index}') for index in range(100000)]
    return [save(folder / 'a.json', trace(0, 1, events=events))]


@case(0, 2)
def a_name_of_ten_megabytes(folder):
    events = trace()['traceEvents'] + [event(name='n' * 10**7), event(args={'k' * 10**7: 'v' * 10**6})]
    return [save(folder / 'a.json', trace(0, 1, events=events))]


@case(0, 2)
def a_group_of_a_million_ranks(folder):
    document = trace(0, 2)
    document['distributedInfo']['pg_config'][0]['ranks'] = list(range(10**6))
    return [save(folder / 'a.json', document), save(folder / 'b.json', trace(1, 2))]


@case(0, 2)
def members_that_disagree_about_their_group(folder):
    second = json.dumps(trace(1)).replace('[0, 1]"', '[1, 7, 7, -3]"').replace('"Seq": 1', '"Seq": -9223372036854775808')
    return [save(folder / 'a.json', trace(0)), save(folder / 'b.json', second)]


@case(0, 2)
def steps_of_any_number_and_order(folder):
    text = json.dumps(trace(0, 1)).replace('ProfilerStep#1', 'ProfilerStep#99999999999999999999')
    return [save(folder / 'a.json', text.replace('ProfilerStep#2', 'ProfilerStep#-1'))]


@case(0, 2)
def clocks_a_century_apart(folder):
    return [save(folder / 'a.json', trace(0)), save(folder / 'b.json', trace(1, baseTimeNanoseconds=-2**62))]


@case(0, 2)
def stages_and_microbatches_of_any_size(folder):
    text = json.dumps(trace(0, 1)).replace('PP:0F0', 'PP:2147483647F2147483647').replace('PP:0B0', 'PP:99999999999999999999B3')
    return [save(folder / 'a.json', text)]


# ---- a wrong type or value in every field

VALUES = [None, True, -1, 2**63, 2**80, 0.5, 1e308, -1e308, '', 'text', '\x00\x1b[31m', [], [[[]]], [1, 'x', None], {}, {'a': {}},
          'x' * 100000]
RAW = ['1e400', '-1e400', 'NaN', '1e', '00', '"\\ud800"']      # not what json.dumps writes


def fields():
    """The paths of the small trace's fields: at the top level, in one event of each kind, and in its arguments."""
    document = trace()
    found = [[key] for key in document]
    found += [['distributedInfo', key] for key in document['distributedInfo']]
    found += [['distributedInfo', 'pg_config', 0, key] for key in document['distributedInfo']['pg_config'][0]]
    seen = set()
    for index, each in enumerate(document['traceEvents']):
        kind = (each['ph'], each.get('cat'), 'Seq' in each.get('args', {}))
        if kind not in seen:
            seen.add(kind)
            found += [['traceEvents', index, key] for key in each]
            found += [['traceEvents', index, 'args', key] for key in each.get('args', {})]
    return found


def with_value(path, value):
    """The text of the small trace with `value` (raw JSON) at `path`."""
    document = trace()
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = '<<here>>'
    return json.dumps(document).replace('"<<here>>"', value)


def wrong_values():
    """Yields (name, text) for each field with each wrong value."""
    for path in fields():
        for index, value in enumerate([json.dumps(value) for value in VALUES] + RAW):
            yield '.'.join(map(str, path)) + f' = {value[:24]}', with_value(path, value)
