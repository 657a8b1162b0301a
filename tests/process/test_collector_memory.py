"""A cycle that is too large for the collector's memory: said plainly, not waited for, written whole by
whoever reads the session after its process, once."""
import glob
import json
import os
import signal
import subprocess

import harness
from harness import AgentTest, app, eventually

STEPS = 600
FEWER = 300  # of one process there is room for
BUSY = [app('train_loop'), '--kernels', '64', '--elements', '64', '--sleep-us', '0', '--graph', 'none']
LIMIT = '64MiB'
SAID = "more than the collector's memory limit"


def files_below(folder):
    return {path: (os.path.getsize(path), os.stat(path).st_mtime_ns)
            for path in glob.glob(os.path.join(folder, '**'), recursive=True) if os.path.isfile(path)}


class CollectorMemory(AgentTest):
    def setUp(self):
        super().setUp()
        self.runtime = os.path.join(self.scratch, 'runtime')

    def run_it(self, name, *options, env=None, command=None, steps=STEPS):
        """`stepagent run` of one cycle; its stderr, and its folder."""
        out = os.path.join(self.scratch, name)
        result = self.run_app([harness.STEPAGENT, 'run', '-o', out, '--step', 'nvtx:train_step', '--schedule',
                               'active=%d,repeat=1' % steps, *options, '--',
                               *(command or [*BUSY, '--steps', str(STEPS + 5)])],
                              dict(harness.launcher_environment(), STEPAGENT_RUNTIME_DIR=self.runtime, **env or {}))
        return result.stderr, out

    def converted(self, session):
        """What a reader without a limit makes of the raw file, byte for byte."""
        target = os.path.join(self.scratch, 'converted.json.gz')
        self.control('convert', os.path.join(session, 'raw.steps'), '--to', 'chrome', '-o', target)
        with open(target, 'rb') as source:
            return source.read()

    @staticmethod
    def trace(cycle):
        with open(cycle.chrome_path, 'rb') as source:
            return source.read()

    @staticmethod
    def written(cycle):
        """Counts that the program decides; how often the tracer itself is at work is chance."""
        return {kind: row['written'] for kind, row in cycle.manifest['balance'].items() if kind != 'overhead'}

    def test_run_writes_what_was_deferred_and_says_so(self):
        said, out = self.run_it('small', env={'STEPAGENT_COLLECTOR_MEMORY': LIMIT})
        row, = [line for line in said.splitlines() if line.startswith('stepagent:   rank')]
        self.assertIn('1 cycle; cycle 0 needed %s' % SAID, row)
        self.assertIn('written afterwards', row)
        small, = harness.cycles(out)
        session, = harness.sessions(out)
        self.assertTrue(small.manifest['cycle']['complete'])
        self.assertEqual(self.trace(small), self.converted(session))
        said, out = self.run_it('large', '--collector-memory', '0')
        self.assertNotIn(SAID, said)
        large, = harness.cycles(out)
        for cycle in (small, large):
            for kind, row in harness.check_balance(cycle).items():
                self.assertEqual(row['dropped'], 0, kind)
        self.assertEqual(self.written(small), self.written(large))
        self.assertEqual(small.steps, large.steps)
        self.assertEqual(small.manifest['joins'], large.manifest['joins'])

    def test_the_flag_does_it_too_and_nobody_types_anything(self):
        said, out = self.run_it('flag', '--collector-memory', LIMIT)
        self.assertIn(SAID, said)
        before = files_below(out)
        result = self.control('report', out)
        self.assertNotIn('written now', result.stderr)
        self.assertEqual(files_below(out), before)

    def start_living(self):
        """A process that goes on after a deferred cycle, by a bare preload: its own collector gets the
        application's environment. The process, its session's folder and its last words on that."""
        env = self.environment(step='nvtx:train_step', schedule='active=%d,repeat=1' % STEPS,
                               STEPAGENT_COLLECTOR_MEMORY=LIMIT,
                               STEPAGENT_RUNTIME_DIR=self.runtime)
        self.env = dict(harness.clean_environment(), STEPAGENT_RUNTIME_DIR=self.runtime)
        process = self.start_app([*BUSY, '--steps', '100000000'], env, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        def deferred():
            for path in glob.glob(os.path.join(self.out, '*', 'sessions', '*', 'session.json')):
                with open(path, encoding='utf-8') as source:
                    if [c for c in json.load(source)['cycles'] if c['state'] == 'deferred']:
                        return os.path.dirname(os.path.realpath(path))
            return None
        return process, eventually(deferred, 'the cycle is deferred')

    def test_while_the_process_lives_nobody_waits_and_all_say_so(self):
        process, session = self.start_living()
        what_to_type = '`stepagent report %s` writes it when the process has ended' % session
        for path in (self.out, session, str(process.pid)):
            result = self.control('wait', path, '--timeout', str(int(harness.PATIENCE)), status=1, env=self.env)
            self.assertIn('cycle 0 deferred', result.stderr, path)
            self.assertIn(what_to_type, result.stderr, path)
            self.assertNotIn('timeout', result.stderr)
        shown = eventually(lambda: [text for text in [self.control('status', str(process.pid), env=self.env).stdout]
                                    if 'deferred' in text], 'the agent was told')[0]
        self.assertIn(what_to_type, shown)
        result = self.control('report', self.out, env=self.env, status=1)
        self.assertIn('cycle 0 deferred', result.stderr)
        result = self.control('report', session, env=self.env)  # reads raw.steps, writes nothing
        self.assertIn('%d steps' % STEPS, result.stdout)
        self.assertEqual(harness.cycles(self.out), [])
        self.stop_app(process, signal.SIGKILL)
        result = self.control('wait', self.out, '--timeout', str(int(harness.PATIENCE)), env=self.env)
        self.assertIn('cycle 0 needed %s' % SAID, result.stderr)
        cycle, = harness.cycles(self.out)
        self.assertEqual(cycle.manifest['cycle']['ended'], 'schedule')
        self.assertEqual(len(cycle.steps), STEPS)

    def test_after_a_killed_collector_report_writes_it_once(self):
        process, session = self.start_living()
        for collector in harness.collectors(self.out):
            os.kill(collector, signal.SIGKILL)
        eventually(lambda: not harness.collectors(self.out), 'the collector is gone')
        self.stop_app(process, signal.SIGKILL)
        result = self.control('report', self.out, env=self.env)
        self.assertIn('1 cycles that needed %s written now' % SAID, result.stderr)
        cycle, = harness.cycles(self.out)
        self.assertTrue(cycle.manifest['cycle']['complete'])
        self.assertEqual(self.trace(cycle), self.converted(session))
        before = files_below(self.out)
        result = self.control('report', self.out, env=self.env)
        self.assertNotIn('written now', result.stderr)
        with open(os.path.join(session, 'session.json'), encoding='utf-8') as source:
            document = json.load(source)
        self.assertEqual((document['state'], document['cycles'][0]['state'], document['cycles'][0].get('error', '')),
                         ('closed', 'written', ''))
        self.assertEqual(files_below(self.out), before)

    def test_ranks_share_the_limit_and_nothing_of_any_is_lost(self):
        ranks = 4
        command = ['/bin/sh', '-c', 'for r in %s; do RANK=$r WORLD_SIZE=%d "$@" & done; wait' % (
            ' '.join(str(r) for r in range(ranks)), ranks), 'sh', *BUSY, '--steps', str(FEWER + 5)]
        said, out = self.run_it('ranks', '--collector-memory', LIMIT, command=command, steps=FEWER)
        found = harness.cycles(out)
        self.assertEqual(sorted(c.manifest['session']['rank'] for c in found), list(range(ranks)), said)
        # However many let go, the last one has room.
        self.assertLess(said.count('cycle 0 needed'), ranks, said)
        counts = [self.written(cycle) for cycle in found]
        for cycle in found:
            for kind, row in harness.check_balance(cycle).items():
                self.assertEqual(row['dropped'], 0, kind)
        self.assertEqual(counts, [counts[0]] * ranks)

    def test_a_bad_limit_is_one_line_before_anything_starts(self):
        for value in ('lots', '1MiB', '-5', ''):
            result = self.run_app([harness.STEPAGENT, 'run', '--collector-memory', value, '--', '/bin/echo', 'ran'],
                                  harness.launcher_environment(), status=2)
            self.assertEqual(result.stdout, '')
            line, = result.stderr.splitlines()
            self.assertIn("--collector-memory: '%s'" % value, line)
            self.assertIn('allowed: 64MiB or more', line)
        result = self.run_app([harness.STEPAGENT, 'run', '--', '/bin/echo', 'ran'],
                              dict(harness.launcher_environment(), STEPAGENT_COLLECTOR_MEMORY='1MiB'), status=2)
        self.assertIn("STEPAGENT_COLLECTOR_MEMORY: '1MiB'", result.stderr)
        # Preloaded, the application always runs.
        result = self.run_app([*BUSY, '--steps', '3'], self.environment(
            step='nvtx:train_step', schedule='active=1,repeat=1', STEPAGENT_COLLECTOR_MEMORY='1MiB'))
        line, = [text for text in result.stderr.splitlines() if 'COLLECTOR_MEMORY' in text]
        self.assertIn('64MiB or more', line)
        self.assertFalse(os.path.exists(self.out))


if __name__ == '__main__':
    harness.main()
