"""Late entry: the library comes into a process that has used CUDA and NVTX for a while."""
import os

import harness
from harness import app
from cupti_case import CuptiTest

# NVTX looked for a tool at its first call and found none, so its ranges cannot be a step here.
SETTINGS = {'step': 'every:30ms', 'schedule': 'warmup=1,active=3,repeat=1', 'arm': 'start'}


class Attach(CuptiTest):
    def attach(self, *options, cycles=1, status='1 1', **settings):
        env = self.environment(preload=False, arm_wait='10s', **dict(SETTINGS, **settings))
        self.result = self.run_app([app('cupti_ways'), 'attach', '60', '10000', harness.STUB], env)
        self.assertIn('attach: ' + status, self.result.stdout)
        return self.traced(cycles) if cycles else []

    def test_into_a_process_that_uses_cuda(self):
        cycle, = self.attach()
        self.check_bars(cycle)
        self.check_order(cycle)
        manifest = cycle.manifest
        self.assertEqual(manifest['gpu']['status'], 'collected', manifest['gpu'])
        self.assertEqual(len(manifest['steps']), 3)
        for step in manifest['steps']:  # steps of 30 ms, launches every 10 ms and a little
            self.assertGreater(step['launches'], 0)
            self.assertEqual(step['kernels'], step['launches'])
        self.assertEqual(len(harness.sessions(self.out)), 1)  # two calls are one session
        self.assertEqual([d['ordinal'] for d in manifest['gpu']['devices']], [0])

    def test_started_by_command(self):
        """Armed on demand, as a bare preload is: nothing until `stepagent start`."""
        env = self.environment(preload=False, arm_wait='10s',
                               STEPAGENT_RUNTIME_DIR=os.path.join(self.scratch, 'run'))
        process = self.start_app([app('cupti_ways'), 'attach', '3000', '5000', harness.STUB], env)
        control = dict(harness.clean_environment(),
                       STEPAGENT_RUNTIME_DIR=os.path.join(self.scratch, 'run'))
        harness.eventually(
            lambda: self.control('status', str(process.pid), status=None, env=control).returncode == 0,
            'the attached agent answers')
        self.assertEqual(harness.cycles(self.out), [])
        self.control('start', str(process.pid), '--for', '300ms', '--step', 'none', env=control)
        self.stop_app(process)
        cycle, = self.traced(1)
        self.assertEqual(cycle.manifest['gpu']['status'], 'collected', cycle.manifest['gpu'])
        self.assertGreater(cycle.manifest['balance']['kernel']['written'], 0)

    def test_disabled(self):
        self.attach(cycles=0, status='0 0', STEPAGENT_DISABLE='1')
        self.assertFalse(os.path.exists(self.out))

    def test_a_wrong_setting_leaves_it_inert(self):
        self.attach(cycles=0, status='0 0', schedule='active=banana')
        self.assertIn('banana', self.result.stderr)


if __name__ == '__main__':
    harness.main()
