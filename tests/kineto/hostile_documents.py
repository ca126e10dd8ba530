"""Cases for test_hostile.py: unusual folders and ranks, malformed JSON, and wrong values in every field."""

import json

from hostile import case, event, pair, save, trace

# ---- folders and ranks

@case(0)
def plain_pair(folder):
    return pair(folder)


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


@case(0, 2)
def a_message_from_the_largest_stage(folder):
    text = json.dumps(trace(0, 1)).replace('PP:0F0', 'PP:2147483647SEND_F0').replace('gemm', 'ncclDevKernel_SendRecv()')
    return [save(folder / 'a.json', text)]


# ---- a wrong type or value in every field

VALUES = [None, True, -1, 2**63, 2**80, 0.5, 1e308, -1e308, '', 'text', '\x00\x1b[31m', [], [[[]]], [1, 'x', None], {}, {'a': {}},
          'x' * 100000]
RAW = ['1e400', '-1e400', 'NaN', '1e', '00', '"\\ud800"']      # json.dumps does not write these


def fields():
    """The paths of the valid trace's fields: at the top level, in one event of each kind, and in its arguments."""
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
    """The text of the valid trace with `value` (raw JSON) at `path`."""
    document = trace()
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = '<<here>>'
    return json.dumps(document).replace('"<<here>>"', value)


def wrong_values():
    """Yields (name, text) for each wrong value of each field."""
    for path in fields():
        for index, value in enumerate([json.dumps(value) for value in VALUES] + RAW):
            yield '.'.join(map(str, path)) + f' = {value[:24]}', with_value(path, value)
