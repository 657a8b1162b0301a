"""Eight ranks in one run: one folder, ranks 0 to 7, the same steps in each; other people's reader."""
import glob
import json
import os
import subprocess
import unittest

import harness
from harness import AgentTest, app

DEVICE_WORK = ('kernel', 'gpu_memcpy', 'gpu_memset', 'gpu_graph')
READERS = os.path.join(harness.BUILD, 'readers', 'bin', 'python')


class Ranks(AgentTest):
    def run_ranks(self, *options):
        script = ('for r in 0 1 2 3 4 5 6 7; do RANK=$r WORLD_SIZE=8 LOCAL_RANK=$r %s --steps 10 & '
                  'done; wait' % app('train_loop'))
        env = harness.launcher_environment()
        result = self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--step',
                               'nvtx:train_step', '--schedule',
                               'wait=2,warmup=1,active=3,repeat=1', *options, '--', '/bin/sh', '-c',
                               script], env)
        return result, self.traced(8)

    def test_eight_ranks_share_one_run(self):
        result, found = self.run_ranks()
        self.assertEqual(len(harness.runs(self.out)), 1)
        self.assertEqual(sorted(c.manifest['session']['rank'] for c in found), list(range(8)))
        for cycle in found:
            self.assertEqual(cycle.steps, [3, 4, 5])
            self.assertEqual(cycle.manifest['session']['rank_source'], 'RANK')
            self.assertEqual(cycle.manifest['session']['world_size'], 8)
        names = os.listdir(os.path.join(self.out, 'latest', 'traces', 'cycle-0000'))
        self.assertEqual(len(names), 8)
        self.assertTrue(all(n.endswith('.0000.pt.trace.json.gz') for n in names), names)
        for rank in range(8):
            self.assertIn('rank %d' % rank, result.stderr)
        report = self.control('report', os.path.join(self.out, 'latest'), '--json')
        self.assertIn('"rank"', report.stdout)

    def test_same_rank_twice_keeps_both(self):
        script = 'for r in 0 0; do RANK=0 %s --steps 10 & done; wait' % app('train_loop')
        env = harness.launcher_environment()
        self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--step', 'nvtx:train_step',
                      '--schedule', 'active=2,repeat=1', '--', '/bin/sh', '-c', script], env)
        self.traced(2)
        self.assertEqual(len(glob.glob(os.path.join(self.out, 'latest', 'traces', 'cycle-0000',
                                                    '*.pt.trace.json.gz'))), 2)

    def test_only_chosen_ranks(self):
        env = dict(harness.launcher_environment(), RANK='3')
        self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--step', 'nvtx:train_step',
                      '--schedule', 'active=2,repeat=1', '--ranks', '0,1', '--', app('train_loop'),
                      '--steps', '4'], env)
        self.assertEqual(harness.cycles(self.out), [])

    def brute_force(self, cycle):
        """A rank's row, counted from its manifest and its trace row by row."""
        steps = cycle.manifest['steps']
        walls = sorted(s['end_ns'] - s['begin_ns'] for s in steps
                       if s['complete'] and not s['contains_tracer_start'])
        half = len(walls) // 2
        self.assertGreater(half, 0)
        median = walls[half]
        if len(walls) % 2 == 0:
            median = walls[half - 1] + (walls[half] - walls[half - 1]) // 2
        work = {}
        for row in cycle.chrome['traceEvents']:
            if row.get('ph') == 'X' and row.get('cat') in DEVICE_WORK:
                begin = round(row['ts'] * 1000)
                work.setdefault(row['args']['device'], []).append(
                    (begin, begin + round(row['dur'] * 1000)))
        busy = idle = 0
        for rows in work.values():
            covered, last = 0, None
            for begin, end in sorted(rows):
                covered += max(0, end - max(begin, last if last is not None else begin))
                last = end if last is None else max(last, end)
            busy += covered
            idle += max(e for _, e in rows) - min(b for b, _ in rows) - covered
        return {'rank': cycle.manifest['session']['rank'], 'steps': len(steps),
                'step_median_ns': median, 'step_spread_ns': walls[-1] - walls[0],
                'busy_ns': busy, 'idle_ns': idle, 'collective_ns': 0, 'exposed_collective_ns': 0,
                'launches': sum(s['launches'] for s in steps)}

    def test_report_names_the_slow_rank(self):
        # Rank 5 sleeps 30 % longer in each step; the rest of a step is small beside the sleep.
        script = ('for r in 0 1 2 3 4 5 6 7; do s=100000; test $r = 5 && s=130000; RANK=$r '
                  'WORLD_SIZE=8 LOCAL_RANK=$r %s --steps 16 --sleep-us $s & done; wait' %
                  app('train_loop'))
        # The first active step waits for collection, however busy the machine: then all steps count.
        result = self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--step',
                               'nvtx:train_step', '--schedule', 'wait=2,warmup=1,active=12,repeat=1',
                               '--arm-wait', '20s', '--', '/bin/sh', '-c', script],
                              harness.launcher_environment())
        found = sorted(self.traced(8), key=lambda c: c.manifest['session']['rank'])
        run = os.path.join(self.out, 'latest')
        document = json.loads(self.control('report', run, '--json', status=None).stdout)
        self.assertEqual(len(document['ranks']), 1)
        compared = document['ranks'][0]
        expected = [self.brute_force(c) for c in found]
        self.assertEqual([{k: row[k] for k in expected[0]} for row in compared['ranks']], expected)
        for step in compared['steps']:
            at = [s['begin_ns'] + c.manifest['clock']['base_unix_ns'] for c in found
                  for s in c.manifest['steps'] if s['index'] == step['index']]
            self.assertEqual(step['begin_skew_ns'], max(at) - min(at))
            self.assertEqual(step['ranks'], 8)
        self.assertEqual(compared['slowest']['rank'], 5)
        named = [r['rank'] for r in compared['readings'] if r['id'] == 'straggler']
        self.assertEqual(named, [5])
        text = self.control('report', run, status=None).stdout
        rows = [line for line in text.splitlines() if line.endswith('  slowest')]
        self.assertEqual([row.split()[0] for row in rows], ['5'])
        self.assertIn('Rank 5 takes', result.stderr)
        self.assertIn('stepagent report', result.stderr)

    @unittest.skipUnless(os.path.exists(READERS), 'Holistic Trace Analysis is not installed')
    def test_holistic_trace_analysis_reads_all_ranks(self):
        _, found = self.run_ranks()
        folder = os.path.join(self.out, 'latest', 'traces', 'cycle-0000')
        reader = os.path.join(harness.SOURCE, 'tests', 'support', 'read_hta.py')
        result = subprocess.run([READERS, reader, folder], capture_output=True, text=True,
                                check=False, timeout=harness.PATIENCE * 6,
                                env=dict(harness.clean_environment(), PYTHONPATH=''))
        self.assertEqual(result.returncode, 0, result.stderr)
        read = json.loads(result.stdout.splitlines()[-1])
        self.assertEqual(read['ranks'], list(range(8)))
        self.assertEqual({row['rank'] for row in read['breakdown']}, set(range(8)))
        # HTA leaves out the last step, which it takes to be cut short.
        for cycle in found:
            rank = cycle.manifest['session']['rank']
            rows = sum(s['kernels'] + s['copies'] + s['sets'] for s in cycle.manifest['steps'][:-1])
            self.assertGreaterEqual(read['gpu_rows'][str(rank)], rows)


if __name__ == '__main__':
    harness.main()
