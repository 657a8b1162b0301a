"""A bad option in each position: the launcher refuses with one line, the preloaded agent is inert."""
import os

import harness
from harness import AgentTest, app

BAD = [
    ('schedule', 'active=0'), ('schedule', 'wait=-1'), ('schedule', 'bogus=1'), ('schedule', ''),
    ('step', 'nvtx'), ('step', 'nvtx:'), ('step', 'every:soon'), ('step_extent', 'both'),
    ('arm', 'later'), ('signal', 'NOPE'), ('formats', 'chrome,vhs'), ('activities', 'kernel,tea'),
    ('require', 'tea'), ('graph', 'edge'), ('stacks', 'all'), ('redact', 'faces'),
    ('ranks', '1,x'), ('max_window', 'long'), ('max_records', '-5'), ('max_traces', '1e'),
    ('max_bytes', '2GiBs'), ('arm_wait', 'x'), ('exit_wait', '-1s'), ('log', 'loud'),
    ('labels', 'novalue'),
]


class Options(AgentTest):
    def test_preload_is_inert(self):
        plain = self.run_app([app('train_loop'), '--host-only', '--steps', '3'],
                             harness.clean_environment())
        for name, value in BAD:
            with self.subTest(name=name, value=value):
                settings = {'schedule': 'active=1', 'step': 'nvtx:train_step', name: value}
                env = self.environment(sim=False, **settings)
                result = self.run_app([app('train_loop'), '--host-only', '--steps', '3'], env)
                self.assertEqual(result.stdout, plain.stdout)
                if value == '':
                    continue  # an empty variable is one that is not set
                lines = [l for l in result.stderr.splitlines() if 'stepagent' in l]
                self.assertEqual(len(lines), 1, result.stderr)
                self.assertIn('STEPAGENT_' + name.upper(), lines[0])
                self.assertFalse(os.path.exists(self.out))

    def test_launcher_refuses(self):
        flags = {'labels': '--label'}
        for name, value in BAD:
            with self.subTest(name=name, value=value):
                flag = flags.get(name, '--' + name.replace('_', '-'))
                result = self.control('run', '-o', self.out, flag, value, '--', '/bin/echo', 'ran',
                                      status=2)
                self.assertEqual(result.stdout, '')
                self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
                self.assertIn(flag, result.stderr)

    def test_a_run_that_is_no_folders_name(self):
        """By either way in, and before anything is written; `latest` is the link beside the runs."""
        for bad in ('latest', '-h'):
            env = self.environment(sim=False, schedule='active=1', step='nvtx:train_step',
                                   STEPAGENT_RUN=bad)
            result = self.run_app([app('train_loop'), '--host-only', '--steps', '3'], env)
            lines = [l for l in result.stderr.splitlines() if 'stepagent' in l]
            self.assertEqual(len(lines), 1, result.stderr)
            self.assertIn("not recording: STEPAGENT_RUN: '%s': no name for a run; allowed: " % bad,
                          lines[0])
            result = self.control('run', '-o', self.out, '--', '/bin/echo', 'ran', status=2,
                                  env=dict(harness.clean_environment(), STEPAGENT_RUN=bad))
            self.assertEqual(result.stdout, '')
            self.assertEqual(result.stderr.count('\n'), 1, result.stderr)
            self.assertIn("STEPAGENT_RUN: '%s': no name for a run" % bad, result.stderr)
            self.assertFalse(os.path.exists(self.out))

    def test_schedule_without_a_step_source(self):
        env = self.environment(sim=False, schedule='active=2')
        result = self.run_app([app('train_loop'), '--host-only', '--steps', '3'], env)
        self.assertEqual(len([l for l in result.stderr.splitlines() if 'stepagent' in l]), 1)
        self.assertIn('STEPAGENT_STEP', result.stderr)
        self.control('run', '--schedule', 'active=2', '--', '/bin/true', status=2)

    def test_nothing_set_is_silent(self):
        result = self.run_app([app('train_loop'), '--steps', '3'], self.environment())
        self.assertEqual(result.stderr, '')
        self.assertFalse(os.path.exists(self.out))

    def test_disabled(self):
        env = self.environment(schedule='active=1', step='nvtx:train_step', disable='1')
        self.run_app([app('train_loop'), '--steps', '3'], env)
        self.assertFalse(os.path.exists(self.out))

    def test_disabled_off(self):
        for value in ('0', 'off', 'no', 'false', ''):
            out = os.path.join(self.scratch, 'off-' + value)
            env = harness.agent_environment(out, sim=False, schedule='active=1,repeat=1',
                                            step='nvtx:train_step')
            env['STEPAGENT_DISABLE'] = value
            self.run_app([app('train_loop'), '--host-only', '--steps', '3'], env)
            self.traced(1, out)


if __name__ == '__main__':
    harness.main()
