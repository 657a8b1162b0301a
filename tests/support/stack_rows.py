"""Stacks of launches as each format holds them, against those of the cycle.

A cycle's are {number of the launch: [[function, source, line, module, build id, address], …]}, leaf
first; '' and 0 are what is not known. Where the cycle has none, no format may hold a trace of them.
"""
import collections
import glob
import gzip
import json
import os
import re
import sqlite3

import read_pprof

TEXT_BYTES = 4096  # of one "Call stack", beside what it says of the rest


def clean(text):
    return re.sub(r'[;\x00-\x1f\x7f]', '_', text)


def named(frame):
    function, _, _, module, _, address = frame
    return function or (module.rsplit('/', 1)[-1] + '+' if module else '') + hex(address)


def call_stack_text(frames):
    """What a viewer shows: leaf first, as many as fit."""
    text = ''
    for index, frame in enumerate(frames):
        _, source, line = frame[:3]
        one = clean(named(frame))
        if source and line:
            one = f"{clean(source.rsplit('/', 1)[-1])}({line}): {one}"
        if index and len((text + one).encode()) > TEXT_BYTES:
            return f'{text};({len(frames) - index} outer frames left out)'
        text += ';' * bool(index) + one
    return text


def chrome(folder):
    path, = glob.glob(os.path.join(folder, '*.pt.trace.json.gz'))
    with gzip.open(path, 'rt', encoding='utf-8') as file:
        rows = json.load(file)['traceEvents']
    return {str(row['args']['correlation']): row['args']['Call stack'] for row in rows
            if 'Call stack' in row.get('args', {})}


def perfetto(trace):
    return {item['correlation']: item['stack'][::-1] for item in trace.slices if 'stack' in item}


def sqlite(folder):
    db = sqlite3.connect(f"file:{os.path.join(folder, 'trace.sqlite')}?mode=ro", uri=True)
    tables = {name for (name,) in db.execute('select name from sqlite_master')}
    if 'CUDA_CALLCHAINS' not in tables:
        if 'CUPTI_ACTIVITY_KIND_RUNTIME' in tables:
            assert db.execute('select count(callchainId) from CUPTI_ACTIVITY_KIND_RUNTIME'
                              ).fetchone() == (0,)
        return {}
    unused = db.execute('select count(*) from CUDA_CALLCHAINS where id not in (select callchainId '
                        'from CUPTI_ACTIVITY_KIND_RUNTIME where callchainId is not null)').fetchone()
    assert unused == (0,), 'callchains that no call has'
    rows = db.execute(
        'select correlationId, symbol.value, source.value, sourceLine, module.value, originalIP, '
        'unresolved from CUPTI_ACTIVITY_KIND_RUNTIME join CUDA_CALLCHAINS chain on chain.id = '
        'callchainId join StringIds symbol on symbol.id = symbol left join StringIds module on '
        'module.id = module left join StringIds source on source.id = sourceFile '
        'order by correlationId, stackDepth')
    stacks = collections.defaultdict(list)
    for correlation, *frame in rows:
        stacks[str(correlation)].append(tuple(frame))
    db.close()
    return dict(stacks)


def pprof(folder):
    """How often each list of frames is there as a stack of launches."""
    found = collections.Counter()
    for sample in read_pprof.read(os.path.join(folder, 'trace.pb.gz')).samples:
        if sample.values[0]:  # pieces of work
            frames = tuple((f.name, f.source, f.line, f.module, f.build_id, f.address)
                           for f in sample.frames[2:])
            found[frames] += sample.values[0]
    return found


def check(case, folder, trace, stacks):
    """Problems, as texts."""
    got = {'chrome': chrome(folder), 'perfetto': perfetto(trace), 'sqlite': sqlite(folder)}
    want = {
        'chrome': {at: call_stack_text(frames) for at, frames in stacks.items()},
        'perfetto': {at: [[named(f), *f[1:]] for f in frames] for at, frames in stacks.items()},
        'sqlite': {at: [(named(f), f[1] or None, f[2] or None, f[3] or None, f[5] or None,
                         None if f[0] else 1) for f in frames] for at, frames in stacks.items()}}
    if stacks:
        counted = collections.Counter(tuple((named(f), *f[1:]) for f in frames)
                                      for frames in stacks.values())
        with_frames = collections.Counter({k: n for k, n in pprof(folder).items() if k})
        got['pprof'], want['pprof'] = with_frames, counted
    return [f'{case}: {name}: stacks: {got[name]}, the cycle has {want[name]}' for name in got
            if got[name] != want[name]]
