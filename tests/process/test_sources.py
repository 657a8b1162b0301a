"""Other ways to say what is a step or a window: cudaProfilerStart, a signal, a Python program."""
import json
import os
import signal
import unittest

import harness
from harness import AgentTest, app, eventually

PYTHON = os.environ.get('STEPAGENT_TEST_PYTHON', os.path.join(harness.BUILD, 'venv', 'bin', 'python'))


class Sources(AgentTest):
    def test_cuda_profiler_api(self):
        self.run_app([app('profiler_api'), '5', '7', '12'], self.environment(arm='cudaProfilerApi'))
        cycle, = self.traced(1)
        self.assertEqual(cycle.steps, [])
        self.assertEqual(cycle.manifest['gpu']['status'], 'collected')
        self.assertEqual(cycle.manifest['outside_steps']['kernels'], 3)  # steps 5, 6 and 7

    def test_cuda_profiler_api_with_a_step_source(self):
        self.run_app([app('profiler_api'), '5', '7', '12'],
                     self.environment(arm='cudaProfilerApi', step='nvtx:train_step',
                                      schedule='active=2,repeat=1'))
        cycle, = self.traced(1)
        self.assertEqual([s['process_index'] for s in cycle.manifest['steps']], [5, 6])

    def test_calls_are_forwarded_while_nothing_is_armed(self):
        plain = dict(harness.clean_environment(), LD_LIBRARY_PATH=harness.sim_path())
        want = self.run_app([app('profiler_api')], plain)
        got = self.run_app([app('profiler_api')], self.environment())
        self.assertEqual(want.stdout, got.stdout)

    def test_each_signal_is_a_border(self):
        env = self.environment(step='signal', schedule='active=2,repeat=1',
                               STEPAGENT_RUNTIME_DIR=os.path.join(self.scratch, 'runtime'))
        process = self.start_app([app('server')], env)
        self.assertIn('ready', process.stdout.readline())
        control = dict(harness.clean_environment(),
                       STEPAGENT_RUNTIME_DIR=os.path.join(self.scratch, 'runtime'))

        def state():
            text = self.control('status', str(process.pid), '--json', env=control, status=None).stdout
            answer = json.loads(text) if text.strip() else {}
            if isinstance(answer, list):
                answer = answer[0] if answer else {}
            return answer.get('phase'), answer.get('step')

        eventually(lambda: state() == ('waiting', 0), 'the control socket')
        for _ in range(3):  # begin of step 0, of step 1, end of step 1
            before = state()
            process.send_signal(signal.SIGUSR2)
            eventually(lambda before=before: state() != before, 'a border')
        self.stop_app(process)
        cycle, = self.traced(1)
        self.assertEqual(cycle.steps, [0, 1])

    @unittest.skipUnless(os.path.exists(PYTHON), 'no Python with numba and nvtx')
    def test_python_training_loop(self):
        env = self.environment(schedule='wait=1,warmup=1,active=2,repeat=1', step='nvtx:train_step@*')
        result = self.run_app([PYTHON, app('train.py'), '--steps', '6'], env, None)
        if result.returncode == 77:
            self.skipTest(result.stdout.strip() or 'numba or nvtx is missing')
        self.assertEqual(result.returncode, 0, result.stderr)
        cycle, = self.traced(1)
        self.assertEqual(cycle.steps, [2, 3])
        self.assertEqual(cycle.manifest['session']['exe'], 'train')
        self.assertEqual(cycle.manifest['gpu']['status'], 'collected')
        self.assertGreater(cycle.manifest['balance']['kernel']['written'], 0)


if __name__ == '__main__':
    harness.main()
