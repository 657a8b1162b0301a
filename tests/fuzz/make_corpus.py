#!/usr/bin/env python3
"""Makes the kept inputs of the fuzz targets from real streams: make_corpus.py BUILD

Programs of tests/apps run under the agent on the simulated device; what the collector wrote becomes
tests/fuzz/corpus/<target>/<name>. Everything runs from one neutral folder, so that no input names the
machine it was made on. Files are small: a few steps each. Run it again when the wire format grows.
"""
import glob
import gzip
import json
import os
import shutil
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(HERE, '..', '..', 'proto')
CORPUS = os.path.join(HERE, 'corpus')
PLACE = '/tmp/stepagent-corpus'
AS_IT_IS = b'\xff'  # see readers/mutate.h
MOST_BYTES = 32768
FRAME_BYTES = 24  # proto/frame.h: magic, type, version, flags, length, checksum, sequence

NVTX, TRAIN = 'nvtx:train_step', ['train_loop', '--steps', '4']
ALL = '+memory,+overhead,+sync'
WORKLOADS = {
    'train': (TRAIN, dict(STEP=NVTX, SCHEDULE='warmup=1,active=1,repeat=2')),
    'train_graph_nodes': (TRAIN, dict(STEP=NVTX, SCHEDULE='active=2,repeat=1', GRAPH='node',
                                      ACTIVITIES=ALL)),
    'host_only': (['train_loop', '--host-only', '--steps', '6'],
                  dict(STEP=NVTX, SCHEDULE='skip_first=1,wait=1,warmup=1,active=2,repeat=1')),
    'ranges': (['nvtx_loop', 'all', '3'], dict(STEP=NVTX, SCHEDULE='active=2,repeat=1')),
    'unbalanced': (['nvtx_loop', 'unbalanced', '3'], dict(STEP=NVTX, SCHEDULE='active=3')),
    'runtime': (['runtime_loop', '--mixed', '--failing', '--steps', '3'],
                dict(STEP=NVTX, SCHEDULE='active=2,repeat=1', ACTIVITIES=ALL)),
    'devices': (['multi_device', '2', '3'], dict(STEP=NVTX, SCHEDULE='active=2,repeat=1',
                                                 STEPAGENT_SIM_DEVICES='2')),
    'stacks': (TRAIN, dict(STEP=NVTX, SCHEDULE='active=1,repeat=1', STACKS='native')),
    'hostile': (['hostile_names', '2', '300'], dict(STEPAGENT_RUN_MODE='whole')),
    'cut': (['exit_ways', '_exit', '8', '60000'], dict(STEP=NVTX, SCHEDULE='active=100')),
}
SETTINGS = [
    'skip_first=10,wait=5,warmup=2,active=3,repeat=1', 'active=1,skip_first_wait=1', 'active=0',
    'wait=,active=1', 'active=99999999999999999999', 'nvtx:train_step', r'nvtx:a\@b\\c@dom*ain',
    'nvtx-glob:iter*?@*', 'nvtx:@x', 'nvtx:', 'every:30ms', 'every:1h', 'every:0s', 'every:-1s', 'signal',
    'none', 'range', 'period', 'start', 'demand', 'cudaProfilerApi', 'USR2', 'RTMIN+10', '12', 'KILL',
    'chrome perfetto,sqlite html folded pprof', 'json', '+memory,-sync', 'kernel,memcpy', '-', 'graph',
    'node', 'native', 'batch=64,note=a\\,b', 'samples_per_step=12', '=x', 'paths names args hosts',
    '0-3,7', '3-1', 'a', 'auto', '@abstract', '/run/x.sock', 'relative', '120s', '50M', '2GiB', '0',
    '1.5s', '100ms', 'info:/var/log/x', 'debug', 'loud', '1', '', 'x' * 300, 'two\nlines',
]
ACTIVITY_KINDS = range(1, 56)


ENVIRONMENTS = {
    'plain': ['PATH=/usr/bin', 'STEPAGENT_STEP=nvtx:train_step',
              'STEPAGENT_SCHEDULE=wait=1,warmup=1,active=2,repeat=2', 'STEPAGENT_RANK=3'],
    'no_schedule': ['STEPAGENT_STEP=every:100ms', 'STEPAGENT_ARM=cudaProfilerApi'],
    'no_step': ['STEPAGENT_SCHEDULE=active=2'],
    'signal_without': ['STEPAGENT_STEP=signal', 'STEPAGENT_SIGNAL=none'],
    'require': ['STEPAGENT_ACTIVITIES=kernel', 'STEPAGENT_REQUIRE=memcpy'],
    'twice': ['STEPAGENT_STEP=none', 'STEPAGENT_STEP=none'],
    'unknown': ['STEPAGENT_STEPS=4', 'STEPAGENT_', 'STEPAGENT_SIM_DEVICES=2', 'STEPAGENT_RUN=a',
                'STEPAGENT_TEST_X=1', 'STEPAGENT_LIB=/x', 'STEPAGENT_RUNTIME_DIR=/x'],
}


def environment(out, settings):
    env = {'PATH': '/usr/bin:/bin', 'LD_PRELOAD': PLACE + '/lib/libstepagent.so', 'STEPAGENT_OUT': out,
           'LD_LIBRARY_PATH': PLACE + '/sim/cuda:' + PLACE + '/sim/cupti-13.0',
           'STEPAGENT_EXIT_WAIT': '20s', 'STEPAGENT_LOG': 'off'}
    for name, value in settings.items():
        if value:
            env[name if name.startswith('STEPAGENT_') else 'STEPAGENT_' + name] = value
    return env


def record(name):
    """Runs a workload; its raw file, its Chrome files and its session.json."""
    command, settings = WORKLOADS[name]
    out = os.path.join(PLACE, 'out-' + name)
    subprocess.run([os.path.join(PLACE, 'apps', command[0]), *command[1:]], check=False, cwd=PLACE,
                   env=environment(out, settings), stdout=subprocess.DEVNULL)
    subprocess.run([PLACE + '/bin/stepagent', 'wait', out, '--timeout', '30'], check=False)
    raw = glob.glob(out + '/2*/sessions/*/raw.steps')
    chrome = sorted(glob.glob(out + '/2*/traces/*/*.json.gz'))
    if not raw:
        return b'', [], b''
    with open(os.path.join(os.path.dirname(raw[0]), 'session.json'), 'rb') as session:
        return open(raw[0], 'rb').read(), [open(c, 'rb').read() for c in chrome], session.read()


def batches(raw):
    """Payloads of the batch frames."""
    at = 0
    while at + FRAME_BYTES <= len(raw):
        kind, length = raw[at + 4], struct.unpack_from('<I', raw, at + 8)[0]
        if kind == 3:
            yield raw[at + FRAME_BYTES:at + FRAME_BYTES + length]
        at += FRAME_BYTES + length


def keep(target, name, content):
    if len(content) > MOST_BYTES:
        print('%s/%s: %d bytes, cut' % (target, name, len(content)))
        content = content[:MOST_BYTES]
    os.makedirs(os.path.join(CORPUS, target), exist_ok=True)
    with open(os.path.join(CORPUS, target, name), 'wb') as out:
        out.write(content)


def keep_recorded(name):
    raw, chrome, session = record(name)
    if not raw:
        print(name + ': nothing recorded, left out')
        return
    keep('fuzz_raw_file', name, AS_IT_IS + raw)
    keep('fuzz_batch', name + '.stream', b'\x40' + AS_IT_IS + raw)
    if name == 'train':
        keep_damaged(raw)
        keep_with_session(raw, session)
    biggest = max(batches(raw), key=len, default=b'')
    keep('fuzz_batch', name + '.batch', b'\x01' + AS_IT_IS + biggest)
    if chrome and name in ('train', 'ranges', 'hostile'):
        keep('fuzz_kineto', name, AS_IT_IS + gzip.decompress(chrome[0]))
    if chrome and name in ('devices', 'runtime'):
        keep('fuzz_kineto', name + '.gz', AS_IT_IS + chrome[0])


# Each first word is a kind: records of one kind after the other, as long as that kind is.
def keep_activity_buffers():
    for kind in ACTIVITY_KINDS:
        words = b''.join(struct.pack('<II', kind, number * 2654435761 % (1 << 32)) for number in range(64))
        keep('fuzz_activity_buffer', 'kind_%02d' % kind, bytes([kind, 0]) + words)


# What no program of ours sends, or none without a device of its kind: made from text by protoc.
BATCHES = {
    'stacks': 'strings { id: [2, 3] text: ["libc.so", "main"] } stacks { id: [1, 2] stack { frames { kind: '
              'NATIVE address: 4096 module: 2 build_id: "x" } frames { kind: PYTHON module: 2 name: 3 line: 7 '
              '} } stack { } } calls { count: 1 begin_delta: 5 name: 3 stack: 1 cls: 1 }',
    'ranges': 'strings { id: 2 text: "r" } ranges { count: 6 op: [3, 4, 4, 5, 9, 0] name: [2, 2, 2, 2, 2, 2] '
              'host_delta: [1, 1, 1, 1, 1, 1] range_id: [7, 7, 8, 0, 0, 0] }',
    'lanes_of_nothing': 'kernels { count: 2 device_start_delta: [1, 2] lanes { count: 3 } shapes { count: 1 '
                        'name: 9 } shape: [0, 5] }',
    'counts_that_lie': 'calls { count: 4294967295 } kernels { count: 5 device_start_delta: 1 } memcpys { '
                       'count: 9 bytes: 1 } memsets { count: 2 } ranges { count: 3 op: 1 } memories { count: 2 '
                       '} overheads { count: 7 } syncs { count: 8 } graph_launches { count: 9 }',
    'memories': 'memories { count: 2 operation: [1, 2] memory_kind: [3, 3] address: [4096, 4096] bytes: [64, '
                '64] device_stamp_delta: [10, 5] device: [0, 1] correlation_delta: [1, 1] }',
    'syncs': 'syncs { count: 2 device_start_delta: [1, 2] type: [1, 3] stream: [0, 8] flags: [0, 255] '
             'duration_ns: [3, 18446744073709551615] } overheads { count: 1 device_start_delta: 1 kind: 2 }',
}


def encode(text):
    """A batch as bytes; repeated fields of the text are short lists."""
    return subprocess.run(['protoc', '--encode=stepagent.v1.Batch', '-I' + PROTO,
                           os.path.join(PROTO, 'batch.proto')], input=text.encode(), check=True,
                          capture_output=True).stdout


def keep_damaged(raw):
    """The first frames of a good file, and what a collector may find behind them."""
    first = FRAME_BYTES + struct.unpack_from('<I', raw, 8)[0]
    hello, rest = raw[:first], raw[first:]
    wrong = bytearray(rest)
    wrong[FRAME_BYTES + 3] ^= 1

    def flipped(at):  # a byte of the first frame
        return hello[:at] + bytes([hello[at] ^ 0x10]) + hello[at + 1:]
    for name, content in (('damaged', hello + bytes(wrong)),
                          ('oversized', hello + rest[:8] + b'\xff' * 4 + rest[12:]),
                          ('no_frame', hello + b'GET / HTTP/1.1' + rest),
                          ('no_hello', rest), ('torn', raw[:-7]), ('twice', hello + hello + rest + rest),
                          ('hello_magic', flipped(0) + rest), ('hello_kind', flipped(4) + rest),
                          ('hello_length', flipped(8) + rest), ('hello_text', flipped(FRAME_BYTES + 9) + rest),
                          ('later_hello', flipped(FRAME_BYTES + 9) + hello + rest),
                          ('hello_is_no_message', frame(1, b'\xff' * 9) + rest),
                          ('goodbye_is_no_message', raw + frame(4, b'\xff' * 9)),
                          ('batch_is_no_message', raw + frame(3, b'\xff' * 9)), ('nothing', b'')):
        keep('fuzz_raw_file', name, AS_IT_IS + content)
        keep('fuzz_batch', name + '.stream', b'\x05' + AS_IT_IS + content)


def keep_with_session(raw, session):
    """A raw file whose Hello is damaged, beside what the collector wrote down of it, whole and not."""
    first = FRAME_BYTES + struct.unpack_from('<I', raw, 8)[0]
    hello = bytearray(raw[:first])
    hello[FRAME_BYTES + 9] ^= 0x10
    noted = json.loads(session)
    for name, change in (('as_it_was', {}),
                         ('other_session', {'session': {**noted['session'], 'id': '0' * 16}}),
                         ('assigned', {'session': {**noted['session'], 'rank_source': 'assigned', 'rank': 3,
                                                   'cuda_visible_devices': '1,0', 'labels': {'a': 'b'}}}),
                         ('bad_schedule', {'settings': {**noted['settings'], 'schedule': 'active=0'}}),
                         ('no_settings', {'settings': 3})):
        text = json.dumps({**noted, **change}, separators=(',', ':')).encode()
        keep('fuzz_raw_file', 'session_' + name,
             b'\xfe' + struct.pack('>H', len(text)) + text + bytes(hello) + raw[first:])
    for name, text in (('no_json', b'{"session":'), ('array', b'[]')):
        keep('fuzz_raw_file', 'session_' + name,
             b'\xfe' + struct.pack('>H', len(text)) + text + bytes(hello) + raw[first:])


def frame(kind, payload):
    return b'SAF1' + struct.pack('<BBHIIQ', kind, 1, 0, len(payload), crc32c(payload), 9) + payload


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


KINETO_ODDITIES = {
    'numbers': '{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":1e3,"dur":2.5e-1,"pid":0,"tid":7,'
               '"args":{"device":0,"stream":7,"correlation":-1,"context":1,"grid":[1,2,3],"block":[1,1,1],'
               '"registers per thread":32,"shared memory":1024,"graph id":3,"graph node id":4}},'
               '{"ph":"X","cat":"gpu_memset","name":"Memset (Device)","ts":"5","dur":1,"args":{"device":0,'
               '"stream":7,"bytes":1e300}},{"ph":"X","cat":"gpu_memcpy","name":"Memcpy PtoP (Device -> '
               'Device)","ts":1,"dur":1,"args":{"fromDevice":0,"toDevice":1,"bytes":5,"stream":1,"device":0}}]}',
    'own_part': '{"stepagent":{"version":"1","run":"r","session":"s","cycle":4294967299,"complete":true,"ended":'
                '"schedule","reason":"x","label_a":"b","graph_level":"node","gpu_status":"collected","notes":'
                '"a b; trace_part: part 2 of 3 of this cycle; and more; n: t"},"deviceProperties":[{"id":0,"numSms":'
                '-1,"uuid":"u","totalGlobalMem":5},{"id":99999}],"cuda_driver_version":12080,"traceEvents":[{"ph":'
                '"X","cat":"user_annotation","name":"ProfilerStep#4","ts":0,"dur":9,"args":{"process_step":7,'
                '"partial":true}},{"ph":"X","cat":"user_annotation","name":"r","ts":1,"dur":2,"args":{"domain":"d",'
                '"start_end":true}},{"ph":"X","cat":"overhead","name":"Driver Compiler","ts":1,"dur":2},{"ph":"X",'
                '"cat":"overhead","name":"?","ts":1,"dur":2,"tid":-1}]}',
    'own_host_only': '{"distributedInfo":{"rank":9,"world_size":8},"stepagent":{"notes":"trace_part: part x of",'
                     '"gpu_status":"unavailable","gpu_reason":"no","cycle":"no"},"traceEvents":[{"ph":"X","cat":'
                     '"cuda_runtime","name":"f","ts":0,"dur":1,"args":{"failed":true,"captured":false}}]}',
    'array': '[{"ph":"i","s":"t","cat":"user_annotation","name":"m","ts":-1.25,"pid":1,"tid":"x"},'
             '{"ph":"X","cat":"cuda_driver","name":"cuGraphLaunch","ts":null,"dur":true,"args":[]}]',
    'broken': '{"schemaVersion":1,"traceEvents":[{"ph":"X","args":{"a":[[[[{}]]]]}},',
    'empty': '', 'scalar': '3', 'no_events': '{"traceEvents":{}}', 'damaged.gz': '\x1f\x8b\x08' + '\0' * 20,
}


def main():
    build = os.path.abspath(sys.argv[1])
    shutil.rmtree(PLACE, ignore_errors=True)
    for folder in ('bin', 'lib', 'apps', 'sim'):
        shutil.copytree(os.path.join(build, folder), os.path.join(PLACE, folder))
    try:
        for name in WORKLOADS:
            keep_recorded(name)
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)
    with open(os.path.join(HERE, '..', 'apps', 'testdata', 'tiny.json'), 'rb') as tiny:
        keep('fuzz_kineto', 'tiny', AS_IT_IS + tiny.read())
    for name, text in KINETO_ODDITIES.items():
        keep('fuzz_kineto', name, AS_IT_IS + text.encode('latin-1'))
    for name, text in BATCHES.items():
        keep('fuzz_batch', name + '.made', b'\x01' + AS_IT_IS + encode(text))
    for number, text in enumerate(SETTINGS):
        keep('fuzz_settings', 'text_%02d' % number, AS_IT_IS + text.encode())
    for name, lines in ENVIRONMENTS.items():
        keep('fuzz_settings', 'environment_' + name, AS_IT_IS + '\n'.join(lines).encode())
    keep_activity_buffers()


if __name__ == '__main__':
    main()
