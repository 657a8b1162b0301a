"""The rows of docs/performance.md: what is measured, against which bar, beside whom.

A limit is on the median of `row`/`variant`, or on a function of the run's medians. `pace` names the
row/variant whose figure on the quiet reference machine is known: with it the document also gives
what ours would be at that machine's pace, the ratio of one run times the known figure.
"""
from collections import namedtuple

Bar = namedtuple('Bar', 'title row variant unit compare limit pace peers cited')

LESS, MORE, WITHIN = '<=', '>=', 'within'  # WITHIN: limit is a pair
BARE = ('launch_record', 'bare', 9.6)
PROTOBUF = ('encode_kernel', 'libprotobuf_rows', 42.5)
# The same for stacks and for reading back: who does the like in the same run.
UNWIND_20 = ('stack_20', 'unw_backtrace', 164)
UNWIND_60 = ('stack_60', 'unw_backtrace', 414)
BABELTRACE = ('read_back', 'babeltrace2_counter', 2.8)

BARS = [
    Bar('one launch record on the application\'s thread', 'launch_record', 'ours', 'ns', LESS, 15, BARE,
        ['bare', 'lttng'], 'Tracy zone 4.5 x, Perfetto raw packet 11 x, slice with 6 arguments 45 x the bare ring'),
    Bar('… relative to LTTng-UST', 'launch_record', 'ours/lttng', 'ratio', LESS, 0.2, None, [], ''),
    Bar('… on two threads, relative to one', 'launch_record_2_threads',
        'ours/launch_record:ours', 'ratio', LESS, 1.15, None, [], ''),
    Bar('one launch through callbacks: enter, exit, one record', 'launch_callbacks', 'ours', 'ns', LESS,
        30, BARE, ['bare'], ''),
    Bar('NVTX push and pop, idle, another name', 'nvtx_idle', 'ours_with_step_source', 'ns', LESS, 6,
        BARE, ['no_tool', 'ours'], 'Perfetto category off 0.13 x the bare ring a site'),
    Bar('NVTX push and pop, recorded', 'nvtx_recorded', 'ours', 'ns', LESS, 30, BARE,
        ['bare', 'ours_34_characters', 'ours_registered'], 'Tracy zone 4.5 x the bare ring'),
    Bar('encode a kernel record', 'encode_kernel', 'ours', 'ns', LESS, 15, PROTOBUF,
        ['bare', 'libprotobuf_rows', 'libprotobuf_columns'], ''),
    Bar('… bytes', 'encode_kernel_bytes', 'ours', 'B', LESS, 13, None,
        ['libprotobuf_rows', 'libprotobuf_columns'], ''),
    Bar('… bytes after zstd level 1', 'encode_kernel_compressed', 'ours', 'B', LESS, 9, None,
        ['libprotobuf_rows', 'libprotobuf_columns'], ''),
    Bar('launch record on the wire', 'encode_launch_bytes', 'ours', 'B', LESS, 14, None, [],
        'Perfetto 36 to 38 B'),
    Bar('ring to disk through the collector, one producer', 'path', 'ours', 'M/s', MORE, 20, None,
        ['lttng'], 'Perfetto 2.5 to 2.7 M/s'),
    Bar('… two producers', 'path_2', 'ours', 'M/s', MORE, 25, None, ['lttng'], ''),
    Bar('… drain', 'path_drain_cpu', 'ours', 'ns', LESS, 25, BARE, [], ''),
    Bar('… drops at 2 x 2 M/s', 'path_paced_dropped', 'ours', 'records', LESS, 0, None, [], ''),
    Bar('walk a CUPTI buffer, beyond its iterator', 'walk_buffer', 'ours-iterator', 'ns', LESS, 15, BARE,
        ['iterator', 'ours'], ''),
    Bar('Chrome JSON, Kineto\'s fields and flows, the writing thread', 'write_chrome', 'ours', 'ns', LESS,
        600, None, ['bare'], 'Kineto\'s writer 2,800 ns for 1,047 B'),
    Bar('… with compression, all threads', 'write_chrome_all_threads', 'ours', 'ns', LESS, 1000, None,
        [], ''),
    Bar('Perfetto protobuf to a file, kernels alone', 'write_perfetto', 'ours', 'ns', LESS, 100, None, [],
        'Perfetto\'s SDK 100 ns and more on the producer'),
    Bar('… bytes', 'write_perfetto_bytes', 'ours', 'B', LESS, 140, None, [], ''),
    Bar('… with launch rows and arrows', 'write_perfetto_launches', 'ours', 'ns', LESS, 100, None, [], ''),
    Bar('… bytes', 'write_perfetto_launches_bytes', 'ours', 'B', LESS, 140, None, [], ''),
    Bar('raw file back into cycles', 'read_back', 'ours', 'M/s', MORE, 10, BABELTRACE,
        ['babeltrace2_counter', 'python_json'], 'trace_processor 0.09 to 0.32 M/s'),
    Bar('… memory', 'read_back_memory', 'ours', 'B', LESS, 100, None, [], ''),
    Bar('native stack, 20 frames, frame pointers', 'stack_20', 'frame_pointers', 'ns', LESS, 40, UNWIND_20,
        ['unw_backtrace', 'backtrace'], ''),
    Bar('native stack, 60 frames, frame pointers', 'stack_60', 'frame_pointers', 'ns', LESS, 180, UNWIND_60,
        ['unw_backtrace', 'backtrace'], ''),
    Bar('native stack, 20 frames, without', 'stack_20', 'without_frame_pointers', 'ns', LESS, 250, UNWIND_20,
        [], ''),
    Bar('native stack, 60 frames, without', 'stack_60', 'without_frame_pointers', 'ns', LESS, 600, UNWIND_60,
        [], ''),
    Bar('NVTX, launches, allocations while idle: callbacks and calls of CUPTI', 'idle_callbacks', 'idle',
        'count', LESS, 0, None, ['after'], ''),
    Bar('… wakes of any other thread', 'idle_wakes', 'idle', 'count', LESS, 0, None, ['after'], ''),
    Bar('… resident memory beyond no agent', 'idle_memory', 'idle-none', 'KiB', LESS, 2048, None, [], ''),
    Bar('start of /bin/true, beyond no library', 'start_of_true', 'idle-none', 'ms', LESS, 0.3, None, [],
        ''),
    Bar('step time of a replayed recording, with the agent relative to without', 'step_time',
        'with/without', 'ratio', LESS, 1.03, None, [], ''),
    Bar('the agent\'s estimate of a callback, relative to the outside measurement',
        'callback_estimate', 'agent/outside', 'ratio', WITHIN, (2 / 3, 4 / 3), None, [], ''),
]
