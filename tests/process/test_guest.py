"""Guest manners: forks, closed descriptors, ways to leave, with and without the agent."""
import os
import re
import shutil
import signal
import subprocess

import harness
from harness import AgentTest, app

ACTIVE = dict(schedule='active=100000', step='nvtx:train_step')


class Guest(AgentTest):
    def both(self, command, status=0, **settings):
        """The program alone and under the agent; returns both results, outputs compared."""
        sim = settings.pop('sim', True)
        timeout = settings.pop('timeout', None)
        plain_env = harness.clean_environment()
        if sim:
            plain_env['LD_LIBRARY_PATH'] = harness.sim_path()
        plain = self.run_app(command, plain_env, status, timeout)
        traced = self.run_app(command, self.environment(sim=sim, **settings), status, timeout)
        self.assertEqual(plain.stdout, traced.stdout, traced.stderr)
        return plain, traced

    def test_forks_while_arming_never_hang(self):
        children = os.environ.get('STEPAGENT_TEST_FORKS', '1000')
        # A fork waits for an arming in progress, at most 100 ms: a thousand take a while.
        _, traced = self.both([app('fork_storm'), '--children', children], timeout=250,
                              schedule='wait=1,warmup=1,active=1,repeat=0', step='nvtx:train_step')
        self.assertIn(' 0 hung, 0 failed', traced.stdout)

    def test_close_all_keeps_the_applications_bytes(self):
        self.both([app('close_all'), '20', '1000'], sim=False, **ACTIVE)
        self.both([app('close_all'), '20', '1000', '--std'], sim=False, **ACTIVE)
        # With much to say, and descriptor 2 the application's own file before our first line.
        self.both([app('close_all'), '20', '1000', '--std'], sim=False, log='debug',
                  collector=os.path.join(self.scratch, 'nowhere'), exit_wait='0s', **ACTIVE)

    def test_no_thread_of_ours_opens_a_descriptor_beside_the_application(self):
        """While one is being opened, the application's dup2 over its number fails with EBUSY."""
        calls = os.path.join(self.scratch, 'calls')
        trace = ['strace', '-f', '-qq', '-o', calls, '-e', 'signal=none', '-e',
                 'trace=%desc,%process,prctl']
        if shutil.which('strace') is None or subprocess.run(trace + ['true']).returncode != 0:
            self.skipTest('strace is not installed or not allowed here')
        # No collector: strace would wait for its end too.
        nowhere = os.path.join(self.scratch, 'nowhere')
        environment = self.environment(sim=False, collector=nowhere, exit_wait='0s', **ACTIVE)
        agent = [argument for name in ('LD_PRELOAD', 'STEPAGENT_SCHEDULE')
                 for argument in ('-E', '%s=%s' % (name, environment.pop(name)))]
        self.run_app(trace + agent + [app('nvtx_loop'), 'ascii', '50', '--sleep-us', '1000'],
                     environment)
        with open(calls) as file:
            lines = [line.split(None, 1) for line in file]
        ours, = {thread for thread, call in lines if re.match(r'prctl\(PR_SET_NAME, "stepagent"', call)}
        makers = r'(open|openat|openat2|creat|socket|dup|dup2|dup3|pipe|pipe2|eventfd|epoll_create)'
        opened = [call for thread, call in lines
                  if thread == ours and re.match(makers + r'\d?\(', call)]
        self.assertEqual(opened, [])

    def test_ways_to_leave(self):
        for way in ('return', 'exit', '_exit', 'quick_exit', 'abort', 'segv', 'term', 'kill',
                    'thread_exit', 'main_ends', 'atexit_nvtx', 'key_nvtx'):
            with self.subTest(way=way):
                out = os.path.join(self.scratch, way)
                command = [app('exit_ways'), way, '100', '3000', '--in-step']
                plain = self.run_app(command, harness.clean_environment(), None)
                traced = self.run_app(command, harness.agent_environment(out, sim=False, **ACTIVE),
                                      None)
                self.assertEqual(plain.returncode, traced.returncode, traced.stderr)
                self.assertEqual(plain.stdout, traced.stdout)
                cycle, = self.traced(1, out)
                said = 'exit' if way in ('return', 'exit', 'quick_exit', 'thread_exit',
                                         'main_ends', 'atexit_nvtx', 'key_nvtx') else 'killed'
                self.assertEqual(cycle.manifest['cycle']['ended'], said, way)
                self.assertFalse(cycle.manifest['cycle']['complete'])
                self.assertGreater(len(cycle.steps), 20)

    def test_nvtx_return_values_are_true(self):
        for kind in ('ascii', 'wide', 'registered'):
            for settings in (dict(), ACTIVE, dict(schedule='wait=1000,active=1',
                                                  step='nvtx:train_step')):
                result = self.run_app([app('nvtx_loop'), kind, '5', '--returns'],
                                      self.environment(sim=False, **settings))
                depths = [int(n) for n in re.findall(r'^push(?: \S+)? (-?\d+)$', result.stdout, re.M)]
                self.assertEqual(sorted(set(depths)), [0, 1], result.stdout)

    def test_environment_and_descriptors(self):
        def scrub(text):
            return [line for line in text.splitlines()
                    if 'INJECTION64' not in line and 'LD_PRELOAD' not in line
                    and 'STEPAGENT_' not in line and 'LD_LIBRARY_PATH' not in line
                    and line != 'self signal %d handled' % signal.SIGUSR2]

        plain = self.run_app([app('env_fds')], harness.clean_environment())
        traced = self.run_app([app('env_fds')], self.environment(sim=False))
        self.assertEqual(scrub(plain.stdout), scrub(traced.stdout))


if __name__ == '__main__':
    harness.main()
