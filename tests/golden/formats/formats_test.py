#!/usr/bin/env python3
"""One cycle, every format: counts and sums of durations per (kind, device, stream, name) must agree.

    formats_test.py FORMATS_WRITE PROTOC

Each format is read back by something that is not ours: python's json and sqlite3, protoc with a
subset of Perfetto's schema; tests/golden/readers has those that are fetched. Everything is written
twice: the same input gives the same bytes.
"""
import glob
import gzip
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'support')]
import perfetto_reader  # noqa: E402
import stack_rows  # noqa: E402

# Chrome's readers need call rows beside step rows: without them there are no step rows.
WITHOUT_CHROME_STEPS = {'no_launch'}
KIND_OF_CATEGORY = {'kernel': 'kernel', 'gpu_memcpy': 'memcpy', 'gpu_memset': 'memset',
                    'gpu_graph': 'graph', 'cuda_runtime': 'call', 'cuda_driver': 'call',
                    'cuda_sync': 'sync', 'user_annotation': 'range'}


def added(rows):
    sums = {}
    for kind, device, stream, name, ns in rows:
        count, total = sums.get((kind, device, stream, name), (0, 0))
        sums[(kind, device, stream, name)] = (count + 1, total + ns)
    return sums


def only(pattern):
    found = glob.glob(pattern)
    assert len(found) == 1, found
    return found[0]


def model(folder):
    with open(os.path.join(folder, 'model.json'), encoding='utf-8') as file:
        rows = json.load(file)['sums']
    return {tuple(row[:4]): tuple(row[4:]) for row in rows}


def chrome(folder):
    with gzip.open(only(os.path.join(folder, '*.pt.trace.json.gz')), 'rt', encoding='utf-8') as file:
        trace = json.load(file)
    for row in trace['traceEvents']:
        kind = KIND_OF_CATEGORY.get(row.get('cat'))
        if row['ph'] != 'X' or kind is None:
            continue
        is_device = kind in ('kernel', 'memcpy', 'memset', 'graph')
        place = (row['args']['device'], row['args']['stream']) if is_device else (-1, -1)
        yield (kind, *place, row['name'], round(row['dur'] * 1000))


def html(folder):
    """The data block of report.html; texts over 4 kB are shortened there (see `shortened`)."""
    with open(os.path.join(folder, 'report.html'), encoding='utf-8') as file:
        block = re.search(r'<script type="application/json" id="data">(.*?)</script>', file.read(),
                          re.DOTALL)
    trace = json.loads(block.group(1))['trace']
    texts, lanes = trace['texts'], trace['lanes']
    assert trace['drawn'] == trace['items'] and not trace['bundles']

    def rows(flat, stride):
        return [flat[at:at + stride] for at in range(0, len(flat), stride)]
    names = [texts[shape[0]] for shape in rows(trace['shapes'], 11)]
    for key, kind in (('kernels', 'kernel'), ('copies', 'memcpy'), ('sets', 'memset'),
                      ('graphs', 'graph')):
        for lane, _, ns, ref, _, _, _ in rows(trace[key], 7):
            name = names[ref] if kind == 'kernel' else texts[ref]
            yield kind, lanes[3 * lane], lanes[3 * lane + 2], name, ns
    for call in rows(trace['calls'], 8):
        yield 'call', -1, -1, texts[call[3]], call[2]
    for step in rows(trace['steps'], 5):
        yield 'range', -1, -1, f'ProfilerStep#{step[0]}', step[2]
    for _, _, ns, text, _, _, flags in rows(trace['ranges'], 7):
        is_step_text = re.fullmatch(r'ProfilerStep#\d+', texts[text])
        if not (is_step_text and flags & 8):  # the other formats hold one row for both
            yield 'range', -1, -1, 'range ' * bool(is_step_text) + texts[text], ns


def shortened(sums):
    """Names by their first 3 kB: the page keeps that much of those over 4 kB."""
    return added((kind, device, stream, name[:3072], ns)
                 for (kind, device, stream, name), (count, total_ns) in sums.items()
                 for ns in [total_ns] + [0] * (count - 1))


def tables(db):
    return {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}


def sqlite(folder):
    db = sqlite3.connect(f"file:{os.path.join(folder, 'trace.sqlite')}?mode=ro", uri=True)
    assert db.execute('pragma integrity_check').fetchone() == ('ok',)
    known = tables(db)
    check_sqlite(db, known, folder)
    memory = dict(db.execute('select id, label from ENUM_CUDA_MEM_KIND'))
    copies = dict(db.execute('select id, label from ENUM_CUDA_MEMCPY_OPER'))
    syncs = dict(db.execute('select id, label from ENUM_CUPTI_SYNC_TYPE'))
    prefix = 'CUPTI_ACTIVITY_KIND_'
    if prefix + 'KERNEL' in known:
        yield from db.execute(f'select "kernel", deviceId, streamId, value, "end" - start from '
                              f'{prefix}KERNEL join StringIds on id = demangledName')
    if prefix + 'MEMCPY' in known:
        for d, s, kind, src, dst, ns in db.execute(
                f'select deviceId, streamId, copyKind, srcKind, dstKind, "end" - start from '
                f'{prefix}MEMCPY'):
            yield 'memcpy', d, s, f'Memcpy {copies[kind]} ({memory[src]} -> {memory[dst]})', ns
    if prefix + 'MEMSET' in known:
        for d, s, kind, ns in db.execute(
                f'select deviceId, streamId, memKind, "end" - start from {prefix}MEMSET'):
            yield 'memset', d, s, f'Memset ({memory[kind]})', ns
    if prefix + 'GRAPH_TRACE' in known:
        yield from db.execute(f'select "graph", deviceId, streamId, "CUDA graph " || graphId, '
                              f'"end" - start from {prefix}GRAPH_TRACE')
    if prefix + 'RUNTIME' in known:
        for name, ns in db.execute(f'select value, "end" - start from {prefix}RUNTIME join '
                                   'StringIds on id = nameId'):
            yield 'call', -1, -1, re.sub(r'_v\d{4,}$', '', name), ns
    if prefix + 'SYNCHRONIZATION' in known:
        for kind, ns in db.execute(f'select syncType, "end" - start from {prefix}SYNCHRONIZATION'):
            yield 'sync', -1, -1, syncs[kind], ns
    if 'NVTX_EVENTS' in known:
        yield from db.execute(
            'select "range", -1, -1, coalesce(text, value), "end" - start from NVTX_EVENTS left join '
            'StringIds on id = textId where eventType in (59, 60)')
    db.close()


def check_sqlite(db, known, folder):
    """What other people's scripts rely on."""
    with open(os.path.join(folder, 'model.json'), encoding='utf-8') as file:
        facts = json.load(file)
    assert dict(db.execute('select * from META_DATA_EXPORT'))['PRODUCT_NAME'] == 'stepagent'
    assert db.execute('select utcEpochNs from TARGET_INFO_SESSION_START_TIME').fetchone() == (
        facts['base_unix_ns'],)
    steps = db.execute('select count(*) from STEPAGENT_STEP').fetchone()[0]
    if 'NVTX_EVENTS' in known:
        named = db.execute("select count(*) from NVTX_EVENTS join StringIds on id = textId where "
                           "value glob 'ProfilerStep#[0-9]*'").fetchone()[0]
        assert named == steps
    for table, column in (('CUPTI_ACTIVITY_KIND_RUNTIME', 'globalTid'),
                          ('CUPTI_ACTIVITY_KIND_KERNEL', 'globalPid')):
        if table in known:
            pids = {row[0] for row in db.execute(f'select ({column} >> 24) & 0xFFFFFF from {table}')}
            assert pids <= {facts['pid'] & 0xFFFFFF}
    for table, column in (('CUPTI_ACTIVITY_KIND_KERNEL', 'demangledName'),
                          ('CUPTI_ACTIVITY_KIND_KERNEL', 'shortName'),
                          ('CUPTI_ACTIVITY_KIND_RUNTIME', 'nameId'), ('NVTX_EVENTS', 'textId')):
        if table in known:
            missing = db.execute(f'select count(*) from {table} where {column} not in '
                                 '(select id from StringIds)').fetchone()[0]
            assert missing == 0, (table, column)


def folded(folder, name):
    total = 0
    with open(os.path.join(folder, name), encoding='utf-8', newline='\n') as file:
        for line in file.read().split('\n')[:-1]:
            frames, value = line.rsplit(' ', 1)
            assert frames and ';;' not in frames
            total += int(value)
    return total


def compare(case, what, expected, got, problems):
    for key in sorted(set(expected) | set(got), key=str):
        if expected.get(key) != got.get(key):
            problems.append(f'{case}: {what}: {key}: {got.get(key)}, the cycle has '
                            f'{expected.get(key)}')


def total(sums, kinds, index):
    return sum(value[index] for key, value in sums.items() if key[0] in kinds)


def check_case(case, folder, protoc, problems):
    expected = model(folder)
    in_chrome = expected
    if case in WITHOUT_CHROME_STEPS:
        in_chrome = {k: v for k, v in expected.items() if not k[3].startswith('ProfilerStep#')}
    compare(case, 'chrome', in_chrome, added(chrome(folder)), problems)
    compare(case, 'sqlite', expected, added(sqlite(folder)), problems)
    page = {k: v for k, v in shortened(expected).items() if k[0] != 'sync'}
    compare(case, 'html', page, shortened(added(html(folder))), problems)
    trace = perfetto_reader.Trace(protoc, os.path.join(folder, 'trace.pftrace'))
    compare(case, 'perfetto', expected, added(trace.sums()), problems)
    with open(os.path.join(folder, 'model.json'), encoding='utf-8') as file:
        stacks = json.load(file)['stacks']
    problems += stack_rows.check(case, folder, trace, stacks)
    device = ('kernel', 'memcpy', 'memset', 'graph')
    for name, kinds, index in (('trace.folded', device, 1), ('trace.launches.folded', device, 0),
                               ('trace.api_ns.folded', ('call',), 1)):
        if folded(folder, name) != total(expected, kinds, index):
            problems.append(f'{case}: {name}: {folded(folder, name)}, the cycle has '
                            f'{total(expected, kinds, index)}')


def check_same_bytes(first, second, problems):
    for path in sorted(glob.glob(os.path.join(first, '*', '*'))):
        other = os.path.join(second, os.path.relpath(path, first))
        with open(path, 'rb') as a, open(other, 'rb') as b:
            if a.read() != b.read():
                problems.append(f'{path}: not the same bytes the second time')


def main():
    writer, protoc = sys.argv[1], sys.argv[2]
    problems = []
    with tempfile.TemporaryDirectory() as out:
        first, second = os.path.join(out, 'first'), os.path.join(out, 'second')
        for folder in (first, second):
            subprocess.run([writer, folder], check=True)
        check_same_bytes(first, second, problems)
        cases = sorted(os.listdir(first))
        for case in cases:
            check_case(case, os.path.join(first, case), protoc, problems)
    print('\n'.join(problems[:40]) or f'{len(cases)} cycles agree in every format')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
