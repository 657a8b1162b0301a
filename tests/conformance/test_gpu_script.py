"""tests/gpu/pack.sh and check.py: packed, carried elsewhere, run there on the simulated device.

STEPAGENT_TEST_GPU_SCRIPT=all runs every part (minutes); else those that take a second or two.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness

PARTS = () if os.environ.get('STEPAGENT_TEST_GPU_SCRIPT') == 'all' else (
    'train_loop', 'train_loop_nodes', 'capture_in_window', 'subscribe_inside_injection',
    'forced_exit', 'torch_eager', 'torch_graph', 'torch_profiler_between', 'torch_profiler_during',
    'torch_workers')
# The torch parts run with a stand-in that needs the packages of this one; else they are skipped.
RIVAL = os.path.join(harness.BUILD, 'rival', 'bin', 'python')
HERE = os.path.join(harness.SOURCE, 'tests', 'gpu')


class GpuScript(unittest.TestCase):
    def test_runs_out_of_its_pack(self):
        scratch = tempfile.mkdtemp(prefix='stepagent-gpu-script-')
        self.addCleanup(shutil.rmtree, scratch, ignore_errors=True)
        pack = os.path.join(scratch, 'pack')
        subprocess.run([os.path.join(HERE, 'pack.sh'), harness.BUILD, pack, '--sim'], check=True,
                       stdout=subprocess.DEVNULL)
        results = os.path.join(scratch, 'results.json')
        command = [sys.executable, os.path.join(pack, 'tests', 'gpu', 'check.py'), '--sim', '--out',
                   results]
        if os.path.exists(RIVAL):
            command += ['--torch-stub', '--torch-python', RIVAL]
        for part in PARTS:
            command += ['--only', part]
        ran = subprocess.run(command, env=harness.clean_environment(), capture_output=True, text=True,
                             cwd=scratch, check=False)
        print(ran.stdout)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        with open(results, encoding='utf-8') as source:
            rows = {row['name']: row for row in json.load(source)['parts']}
        for part in PARTS or rows:
            self.assertIn(rows[part]['status'], ('passed', 'skipped'), rows[part])
        self.assertEqual(rows['train_loop']['status'], 'passed')
        self.assertEqual(rows['train_loop']['values']['devices'], ['Simulated GPU'])

    def test_a_broken_expectation_is_told(self):
        """Run where nothing is: each part fails, the results say so, and so does the status."""
        scratch = tempfile.mkdtemp(prefix='stepagent-gpu-script-')
        self.addCleanup(shutil.rmtree, scratch, ignore_errors=True)
        results = os.path.join(scratch, 'results.json')
        env = dict(harness.clean_environment(), STEPAGENT_BUILD_DIR=scratch)
        ran = subprocess.run([sys.executable, os.path.join(HERE, 'check.py'), '--sim', '--out', results,
                              '--only', 'train_loop'], env=env, capture_output=True, text=True,
                             check=False)
        self.assertEqual(ran.returncode, 1, ran.stdout)
        with open(results, encoding='utf-8') as source:
            row, = json.load(source)['parts']
        self.assertEqual(row['status'], 'failed')
        self.assertTrue(row['reason'])


if __name__ == '__main__':
    harness.main()
