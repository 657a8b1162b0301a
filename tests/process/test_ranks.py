"""Eight ranks in one run: one folder, ranks 0 to 7, the same steps in each; other people's reader."""
import glob
import json
import os
import subprocess
import unittest

import harness
from harness import AgentTest, app

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
