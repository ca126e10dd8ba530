"""Cases for test_hostile.py: damaged gzip files, ZIP archives and manifests, and decompression bombs."""

import gzip
import io
import json
import struct
import zipfile
import zlib

from hostile import case, packed, save, trace

# ---- gzip

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
