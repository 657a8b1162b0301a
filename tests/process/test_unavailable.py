"""No device, in each way: the application is untouched, host data is recorded, the reason is said."""
import os
import subprocess

import harness
from harness import AgentTest, app

SCHEDULE = 'warmup=1,active=2,repeat=1'


class Unavailable(AgentTest):
    def host_only(self, code, env):
        plain = {k: v for k, v in env.items() if not k.startswith('STEPAGENT_') or
                 k.startswith('STEPAGENT_SIM')}
        plain.pop('LD_PRELOAD')
        want = self.run_app([app('train_loop'), '--steps', '6'], plain)
        got = self.run_app([app('train_loop'), '--steps', '6'], env)
        self.assertEqual(want.stdout, got.stdout)
        # Nobody else would say it where no launcher is.
        self.assertEqual(got.stderr.count('cycle 0 is host only: '), 1, got.stderr)
        cycle, = self.traced(1)
        self.assertEqual(cycle.steps, [1, 2])
        gpu = cycle.manifest['gpu']
        self.assertEqual(gpu['status'], 'unavailable')
        self.assertTrue(cycle.chrome_path.endswith('.hostonly.pt.trace.json.gz'))
        self.assertEqual(gpu['reason_code'], code)
        self.assertTrue(gpu['reason'])
        self.assertTrue({r['name'] for r in cycle.rows('user_annotation')} >= {'forward'})
        with open(os.path.join(cycle.folder, 'summary.txt'), encoding='utf-8') as text:
            self.assertIn(gpu['reason'][:40], text.read().replace('\n', ' '))
        return gpu

    def test_no_driver_library(self):
        gpu = self.host_only('no_driver', self.environment(sim=False, schedule=SCHEDULE,
                                                           step='nvtx:train_step'))
        self.assertIn('libcuda', gpu['reason'])

    def test_no_device(self):
        env = self.environment(schedule=SCHEDULE, step='nvtx:train_step',
                               STEPAGENT_SIM_CUINIT='100')
        gpu = self.host_only('no_device', env)
        self.assertIn('device', gpu['reason'])

    def test_stub_library(self):
        env = self.environment(schedule=SCHEDULE, step='nvtx:train_step',
                               STEPAGENT_SIM_CUINIT='34')
        gpu = self.host_only('stub_driver', env)
        self.assertIn('stub', gpu['reason'])

    def test_exit_line_of_run(self):
        env = harness.clean_environment()
        result = subprocess.run(
            [harness.STEPAGENT, 'run', '-o', self.out, '--schedule', SCHEDULE, '--step',
             'nvtx:train_step', '--', app('train_loop'), '--steps', '6'],
            env=env, capture_output=True, text=True, timeout=harness.PATIENCE * 2, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn('host only', result.stderr)


if __name__ == '__main__':
    harness.main()
