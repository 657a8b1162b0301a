"""Children, helpers, other tools, signals: what becomes a session and what leaves no trace.

Field-log cases: B033 B038 B041 B042 B044 B048 B050 B056 B071 B072 B089 B144. (What the application sees
of all this is compared in differential/.)
"""
import glob
import json
import os
import signal
import subprocess
import sys
import unittest

import harness
from harness import AgentTest, app

STEP = 'nvtx:train_step'
PROBE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'differential', 'probe.py')
ACTIVE = dict(schedule='active=1000000', step=STEP)


class Processes(AgentTest):
    def session(self, folder):
        with open(os.path.join(folder, 'session.json'), encoding='utf-8') as source:
            return json.load(source)

    def pids(self):
        return [int(folder.rsplit('_', 2)[1]) for folder in harness.sessions(self.out)]

    def test_B042_forked_children_that_step_are_sessions_of_their_own(self):
        """vLLM's way: NVTX is up in the parent, the children fork and match the step range."""
        self.run_app([app('spawn_ways'), 'three_forks', '300'], self.environment(sim=False, **ACTIVE))
        found = self.traced(4)
        sessions = {c.manifest['session']['id'] for c in found}
        pids = {c.manifest['session']['pid'] for c in found}
        self.assertEqual((len(sessions), len(pids)), (4, 4))
        self.assertEqual(len({c.chrome_path for c in found}), 4)
        by_end = sorted(c.manifest['cycle']['ended'] for c in found)
        self.assertEqual(by_end, ['exit', 'killed', 'killed', 'killed'])  # children leave by _exit

    def test_B042_a_forked_child_that_only_steps_makes_no_call_of_the_drivers(self):
        """The parent has CUDA up: a call in the child would be its end (the simulated driver aborts)."""
        plain = self.run_app([app('spawn_ways'), 'cuda_fork', '60'],
                             dict(harness.clean_environment(), **harness.sim_environment()))
        self.assertIn('fork: status 0', plain.stdout)
        result = self.run_app([app('spawn_ways'), 'cuda_fork', '60'],
                              self.environment(schedule='wait=2,warmup=2,active=3,repeat=2', step=STEP))
        self.assertEqual(result.stdout, plain.stdout)
        codes = {}
        for cycle in self.traced(4):
            self.assertEqual(cycle.manifest['gpu']['status'], 'unavailable')
            codes.setdefault(cycle.manifest['session']['pid'], set()).add(
                cycle.manifest['gpu']['reason_code'])
        # The parent's two cycles are over before it brings CUDA up.
        self.assertEqual(sorted(codes.values(), key=str), [{'forked_child'}, {'no_driver'}])

    def test_B050_daemon_and_double_fork(self):
        for way in ('daemon', 'double_fork'):
            with self.subTest(way=way):
                out = os.path.join(self.scratch, way)
                self.run_app([app('spawn_ways'), way, '300'],
                             harness.agent_environment(out, sim=False, **ACTIVE))
                self.assertEqual(len({c.manifest['session']['pid'] for c in self.traced(2, out)}), 2)

    def test_B144_multiprocessing_workers(self):
        for method in ('fork', 'spawn', 'forkserver'):
            with self.subTest(method=method):
                out = os.path.join(self.scratch, method)
                env = harness.agent_environment(out, sim=False, **ACTIVE)
                env['PROBE_APPS'] = os.path.join(harness.BUILD, 'apps')
                self.run_app([sys.executable, PROBE, 'workers', method], env)
                found = self.traced(3, out)
                self.assertEqual(len({c.manifest['session']['pid'] for c in found}), 3)

    def test_B041_loader_workers_leave_no_trace(self):
        """Forked workers that use NVTX, but never the step range."""
        env = self.environment(sim=False, schedule='active=1000000', step='nvtx:parent_step')
        program = ('import ctypes, os\n'
                   'plugin = ctypes.CDLL(os.environ["PLUGIN"])\n'
                   'plugin.PluginStep()\n'
                   'children = []\n'
                   'for _ in range(20):\n'
                   '    child = os.fork()\n'
                   '    if child == 0:\n'
                   '        [plugin.PluginStep() for _ in range(100)]\n'
                   '        os._exit(0)\n'
                   '    children.append(child)\n'
                   'print([os.waitpid(child, 0)[1] for child in children])\n')
        env['PLUGIN'] = app('librange_plugin.so')
        result = self.run_app([sys.executable, '-c', program], env)
        self.assertEqual(json.loads(result.stdout), [0] * 20)
        self.assertFalse(os.path.exists(self.out))
        self.assertLessEqual(result.stderr.count('stepagent: '), 1)  # the parent alone may speak

    def test_B044_helper_commands_leave_no_trace(self):
        env = self.environment(sim=False, **ACTIVE)
        script = 'for i in $(seq 50); do /bin/true; done; exec "$0" return 5 1000'
        result = self.run_app(['/bin/sh', '-c', script, app('exit_ways')], env, 5)
        cycle, = self.traced(1)
        self.assertEqual(cycle.manifest['session']['exe'], 'exit_ways')
        self.assertEqual(len(harness.runs(self.out)), 1, result.stderr)

    def test_B048_a_worker_killed_right_after_its_cycle(self):
        process = self.start_app([app('exit_ways'), 'return', '100000', '1000'],
                                 self.environment(sim=False, schedule='active=20,repeat=1',
                                                  step=STEP))
        pattern = os.path.join(self.out, '*/sessions/*/cycle-0000')
        harness.eventually(lambda: glob.glob(pattern), 'a cycle begun')
        self.assertEqual(self.stop_app(process), -signal.SIGTERM)
        cycle, = self.traced(1)
        self.assertEqual(len(cycle.chrome['traceEvents']) > 0, True)

    def test_B033_an_injection_variable_that_is_taken(self):
        """Another NVTX tool named by the user stays named; we say what that costs, at most."""
        for value in ('/nonexistent/libother.so', app('librange_plugin.so')):
            with self.subTest(value=value):
                env = self.environment(sim=False, NVTX_INJECTION64_PATH=value)
                plain = dict(harness.clean_environment(), NVTX_INJECTION64_PATH=value)
                command = ['/bin/sh', '-c', 'echo "$NVTX_INJECTION64_PATH"; exec "$0" return 5',
                           app('exit_ways')]
                self.assertEqual(self.run_app(command, env, 5).stdout,
                                 self.run_app(command, plain, 5).stdout)

    def test_B071_B072_signals_of_an_application(self):
        """A storm of toggles onto a process that leaves them to us: alive, coalesced, answered."""
        process = self.start_app([app('exit_ways'), 'return', '1000000', '1000'],
                                 self.environment(sim=False, signal='USR2', step=STEP,
                                                  schedule='active=10,repeat=1', arm='demand'))
        harness.eventually(lambda: self.control('status', str(process.pid), status=None)
                           .returncode == 0, 'an agent')
        for _ in range(10000):
            process.send_signal(signal.SIGUSR2)
        self.assertIsNone(process.poll())
        harness.eventually(lambda: self.control('status', str(process.pid), status=None)
                           .returncode == 0, 'an answer after the storm')
        self.assertEqual(self.stop_app(process), -signal.SIGTERM)

    def test_B076_blocked_everywhere_the_command_still_works(self):
        env = self.environment(sim=False, step=STEP, arm='demand', signal='USR2',
                               schedule='active=10,repeat=1')
        block = lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        process = self.start_app([app('exit_ways'), 'return', '1000000', '1000'], env,
                                 preexec_fn=block)
        harness.eventually(lambda: self.control('status', str(process.pid), status=None)
                           .returncode == 0, 'an agent')
        process.send_signal(signal.SIGUSR2)
        self.control('toggle', str(process.pid))
        harness.eventually(lambda: harness.cycles(self.out) if glob.glob(
            os.path.join(self.out, '*/sessions/*/cycle-0000/manifest.json')) else None, 'a cycle')
        process.kill()
        process.wait()
        self.assertEqual(len(harness.cycles(self.out)), 1)

    def test_B089_a_process_that_is_not_there(self):
        for verb in ('start', 'stop', 'toggle', 'status'):
            result = self.control(verb, '999999', status=None)
            self.assertNotEqual(result.returncode, 0, verb)
            self.assertTrue(result.stdout + result.stderr, verb)

    @unittest.skipUnless(os.geteuid() == 0, 'making a setuid program needs root')
    def test_B067_B056_setuid_and_static_programs_run_untraced(self):
        os.chmod(self.scratch, 0o755)
        program = os.path.join(self.scratch, 'setuid')
        subprocess.run(['cp', app('exit_ways'), program], check=True)
        os.chmod(program, 0o4755)
        env = self.environment(sim=False, **ACTIVE)

        def become_other():
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)

        self.run_app([program, 'return', '5'], env, 5, preexec_fn=become_other)
        self.run_app([app('static_program')], env, 7)
        self.assertFalse(os.path.exists(self.out))


if __name__ == '__main__':
    harness.main()
