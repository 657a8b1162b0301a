"""Every figure of summary.json, computed again from the raw records by a slow script of its own."""
import importlib.util
import json
import os
import shutil
import unittest

import harness
from harness import AgentTest, app

RECORDED = os.environ.get('STEPAGENT_RECORDED') or os.path.join(harness.SHARED, 'data', 'recorded')
SCRIPT = os.path.join(harness.SOURCE, 'tests', 'support', 'brute_force.py')
CAN_DECODE = shutil.which('protoc') is not None and \
    importlib.util.find_spec('google') is not None and \
    importlib.util.find_spec('google.protobuf') is not None


@unittest.skipUnless(CAN_DECODE, 'protoc or python3-protobuf is not installed')
class BruteForce(AgentTest):
    def recompute(self, cycle, least):
        self.assertNotEqual(cycle.manifest['gpu']['status'], 'unavailable', cycle.manifest['gpu'])
        number = int(os.path.basename(cycle.folder)[len('cycle-'):])
        result = self.run_app(['/usr/bin/python3', SCRIPT, os.path.dirname(cycle.folder), str(number)],
                              harness.clean_environment(), status=None)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertGreater(int(result.stdout.split()[0]), least, result.stdout)

    def test_train_loop(self):
        # Whatever the machine does meanwhile, the device's part is there.
        env = self.environment(schedule='skip_first=4,wait=2,warmup=1,active=4,repeat=2',
                               step='nvtx:train_step', labels='samples_per_step=64', arm_wait='10s')
        self.run_app([app('train_loop'), '--steps', '22', '--lag', '1'], env)
        for cycle in self.traced(2):
            self.recompute(cycle, 300)

    def test_steps_that_outrun_a_slow_cupti(self):
        env = self.environment(schedule='wait=1,warmup=1,active=100,repeat=1', step='nvtx:train_step',
                               arm_wait='1ms', STEPAGENT_SIM_SUBSCRIBE='200ms')
        self.run_app([app('train_loop'), '--steps', '104', '--sleep-us', '5000'], env)
        cycle, = self.traced(1)
        self.assertTrue(cycle.manifest['steps'][0]['partial'])
        self.recompute(cycle, 300)

    def test_seeded_workloads(self):
        for fault in ('streams', 'pageable', 'alloc', 'sync'):
            out = os.path.join(self.scratch, fault)
            env = harness.agent_environment(out, schedule='warmup=1,active=3,repeat=1',
                                            step='nvtx:train_step', activities='+memory')
            self.run_app([app('seeded'), '--fault', fault, '--steps', '5'], env)
            cycle, = self.traced(1, out)
            self.recompute(cycle, 200)
            with open(os.path.join(cycle.folder, 'summary.json'), encoding='utf-8') as source:
                idle = json.load(source)['idle']['rows']
            # Without a wait whose object is known nothing above would have looked at it.
            if fault == 'sync':
                self.assertTrue(any(row['waits_for'] for row in idle), idle)

    def replay(self, name):
        recording = os.path.join(RECORDED, name)
        if not os.path.exists(recording):
            self.skipTest('the recording %s is not there' % name)
        env = harness.launcher_environment()
        self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--graph', 'node',
                      '--step', 'nvtx-glob:ProfilerStep#*', '--schedule', 'active=2,repeat=1',
                      '--', app('replay'), recording], env)
        self.recompute(self.traced(1)[0], 300)

    def test_recorded_resnet(self):
        self.replay('resnet_1gpu_5steps.json.gz')

    def test_recorded_recommendation_model(self):
        self.replay('recsys_128gpu_2steps.json.gz')


if __name__ == '__main__':
    harness.main()
