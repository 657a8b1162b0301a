#!/usr/bin/env python3
"""What Holistic Trace Analysis and `stepagent report` say of the same Kineto file, side by side.

    hta_equality.py STEPAGENT FILE… [--write DOCUMENT]

Run with the Python that has HTA. Times must agree within 2 us and counts exactly, or the exit status
is 1. HTA reads with nanoseconds kept, with the last step, which it leaves out by default, and with all
time stamps shifted to begin at 0: it holds them as doubles, which cannot tell nanoseconds apart in
microseconds since 1970.
"""
import collections
import decimal
import gzip
import importlib.metadata
import json
import logging
import os
import subprocess
import sys
import tempfile
import warnings

os.environ['HTA_DISABLE_NS_ROUNDING'] = '1'
logging.disable(logging.CRITICAL)
warnings.filterwarnings('ignore')
from hta.trace_analysis import TraceAnalysis  # noqa: E402  pylint: disable=wrong-import-position

MOST_US = 2.0
MOST_QUEUE = 0.01
Row = collections.namedtuple('Row', 'what hta ours unit is_same')


def shift(path, folder):
    with gzip.open(path, 'rt', encoding='utf-8') as source:
        trace = json.load(source, parse_float=decimal.Decimal)
    first = min(int(row['ts']) for row in trace['traceEvents'] if 'ts' in row)
    for row in trace['traceEvents']:
        if 'ts' in row:
            row['ts'] -= first
    with gzip.open(os.path.join(folder, os.path.basename(path)), 'wt', encoding='utf-8') as target:
        json.dump(trace, target, default=float, indent=0)


class Comparison:
    def __init__(self, stepagent, path):
        self.rows = []
        report = subprocess.run([stepagent, 'report', path, '--json'], capture_output=True, text=True,
                                check=True)
        self.ours = json.loads(report.stdout)['cycles'][0]
        with tempfile.TemporaryDirectory() as folder:
            shift(path, folder)
            self.hta = TraceAnalysis(trace_dir=folder, include_last_profiler_step=True)
        self.rank = list(self.hta.t.traces)[0]

    def time(self, what, hta_us, ours_ns):
        ours = ours_ns / 1000
        self.rows.append(Row(what, '%.3f' % hta_us, '%.3f' % ours, 'us', abs(hta_us - ours) <= MOST_US))

    def count(self, what, hta, ours):
        self.rows.append(Row(what, str(hta), str(ours), '', hta == ours))

    def breakdown(self):
        hta = self.hta.get_temporal_breakdown(visualize=False).iloc[0]
        devices = self.ours['devices']
        span = sum(d['device_span']['dur_ns'] for d in devices)
        idle = sum(d['idle_ns'] for d in devices)
        compute = sum(d['compute_ns'] for d in devices)
        self.time('device span', hta['kernel_time(us)'], span)
        self.time('idle', hta['idle_time(us)'], idle)
        self.time('compute', hta['compute_time(us)'], compute)
        self.time('non-compute', hta['non_compute_time(us)'], span - compute - idle)

    def kernels(self):
        _, table = self.hta.get_gpu_kernel_breakdown(
            visualize=False, duration_ratio=1.0, num_kernels=1000000, include_memory_kernels=True)
        memory = table[table['kernel_type'] == 'MEMORY']
        kernels = table[table['kernel_type'] != 'MEMORY']
        ours = {row['name']: row for row in self.ours['kernels']}
        self.count('kernel names', len(kernels), len(ours))
        worst, others = 0.0, 0
        for _, row in kernels.iterrows():
            mine = ours.get(row['name'])
            if mine is None:
                others += 1
                continue
            for hta, key in (('sum (us)', 'total_ns'), ('min (us)', 'min_ns'), ('max (us)', 'max_ns'),
                             ('mean (us)', 'mean_ns')):
                worst = max(worst, abs(row[hta] - mine[key] / 1000))
        self.count('kernel names on one side only', 0, others)
        self.time('largest difference of any kernel\'s sum, mean, min or max', 0.0, worst * 1000)
        self.time('kernels, sum', kernels['sum (us)'].sum(),
                  sum(row['total_ns'] for row in self.ours['kernels']))
        self.time('collectives, sum', kernels[kernels['kernel_type'] == 'COMMUNICATION']['sum (us)'].sum(),
                  sum(row['total_ns'] for row in self.ours['kernels'] if row['collective']))
        self.time('copies and sets, sum', memory['sum (us)'].sum(),
                  sum(row['total_ns'] for row in self.ours['copies'] + self.ours['sets']))

    def launches(self):
        hta = self.hta.get_cuda_kernel_launch_stats(ranks=[self.rank], visualize=False)[self.rank]
        ours = self.ours['launches']
        self.count('launches with device work', len(hta), ours['count'])
        self.time('launch calls, sum', hta['cpu_duration'].sum(), ours['call_ns'])
        self.time('their device work, sum', hta['gpu_duration'].sum(), ours['device_ns'])
        self.time('launch delay, sum', hta['launch_delay'].sum(), ours['delay']['total_ns'])
        self.time('launch delay, median', hta['launch_delay'].median(), ours['delay']['median_ns'])
        self.time('launch delay, longest', hta['launch_delay'].max(), ours['delay']['max_ns'])

    def queues(self):
        table = self.hta.get_queue_length_summary(ranks=[self.rank])['queue_length']
        ours = {queue['stream']: queue for queue in self.ours['launches']['queues']}
        self.count('streams with a queue', len(table), len(ours))
        for (_, stream), row in table.iterrows():
            mine = ours.get(int(stream), {'changes': None, 'max': None, 'mean': 0.0})
            self.count('stream %d: changes of its queue' % stream, int(row['count']), mine['changes'])
            self.count('stream %d: longest queue' % stream, int(row['max']), mine['max'])
            # Changes of one queue in the same nanosecond have no order; each can shift the mean.
            is_same = abs(row['mean'] - mine['mean']) <= MOST_QUEUE
            self.rows.append(Row('stream %d: mean length' % stream, '%.3f' % row['mean'],
                                 '%.3f' % mine['mean'], '', is_same))

    def run(self):
        for part in (self.breakdown, self.kernels, self.launches, self.queues):
            part()
        return self.rows


def main():
    arguments, target = sys.argv[1:], None
    if '--write' in arguments:
        at = arguments.index('--write')
        target = arguments[at + 1]
        del arguments[at:at + 2]
    version = importlib.metadata.version('HolisticTraceAnalysis')
    lines = ['# Holistic Trace Analysis and `stepagent report` on the same files', '',
             'Written by `tests/support/hta_equality.py --write`; held by `ctest -R process.hta`.',
             'HTA %s with nanoseconds kept (`HTA_DISABLE_NS_ROUNDING=1`) and with the last step' % version,
             '(`include_last_profiler_step=True`), time stamps shifted to begin at 0, since it holds them as',
             'doubles. Times agree within 2 us, counts exactly, mean lengths of',
             'queues within 0.01 (changes in the same nanosecond have no order).', '']
    bad = []
    for path in arguments[1:]:
        name = os.path.basename(path)
        lines += ['## %s' % name, '', '| figure | HTA | stepagent | unit |', '|---|---:|---:|---|']
        for row in Comparison(arguments[0], path).run():
            lines.append('| %s | %s | %s | %s |' % (row.what, row.hta, row.ours, row.unit))
            if not row.is_same:
                bad.append('%s: %s: HTA %s, ours %s' % (name, row.what, row.hta, row.ours))
        lines.append('')
    text = '\n'.join(lines)
    if target:
        with open(target, 'w', encoding='utf-8') as out:
            out.write(text)
    else:
        print(text)
    for line in bad:
        print('DIFFERS ' + line, file=sys.stderr)
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
