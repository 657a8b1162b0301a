"""A long-lived server: idle costs nothing; signals and requests give windows, each complete."""
import glob
import json
import os
import signal
import subprocess
import time

import harness
from harness import AgentTest, app, eventually


class Server(AgentTest):
    def setUp(self):
        super().setUp()
        self.runtime = os.path.join(self.scratch, 'runtime')
        self.last_toggle = 0.0
        self.stats = os.path.join(self.scratch, 'stats')

    def serve(self, *options, **settings):
        env = self.environment(STEPAGENT_RUNTIME_DIR=self.runtime, STEPAGENT_SIM_STATS=self.stats,
                               **settings)
        process = self.start_app([app('server'), *options], env)
        self.assertIn('ready', process.stdout.readline())
        self.pid = process.pid
        eventually(lambda: self.status()['phase'] == 'idle', 'idle')
        return process

    def ask(self, *arguments, status=0):
        env = dict(harness.clean_environment(), STEPAGENT_RUNTIME_DIR=self.runtime)
        return self.control(*arguments, env=env, status=status)

    def status(self):
        result = self.ask('status', str(self.pid), '--json', status=None)
        if result.returncode != 0:
            return {'phase': None}
        answer = json.loads(result.stdout)
        return answer[0] if isinstance(answer, list) else answer

    def await_phase(self, *phases):
        eventually(lambda: self.status()['phase'] in phases, 'phase ' + ' or '.join(phases))

    def await_written(self, count):
        eventually(lambda: len(glob.glob(os.path.join(self.out, 'latest', 'sessions', '*', 'cycle-*',
                                                      'manifest.json'))) >= count,
                   '%d cycles written' % count)

    def toggle(self, process):
        """Toggles within 200 ms are one, so keeps that distance to the one before."""
        left = self.last_toggle + 0.25 - time.monotonic()
        if left > 0:
            time.sleep(left)  # the distance is what is asked for
        self.last_toggle = time.monotonic()
        process.send_signal(signal.SIGUSR2)

    def test_a_process_that_is_killed_in_the_window_is_said(self):
        for options in ((), ('--json',)):
            with self.subTest(options):
                process = self.serve()
                with subprocess.Popen([harness.STEPAGENT, 'start', str(self.pid), '--for', '60s', *options],
                                      env=dict(harness.clean_environment(),
                                               STEPAGENT_RUNTIME_DIR=self.runtime),
                                      stdout=subprocess.PIPE, text=True) as start:
                    self.await_phase('active')
                    process.kill()
                    said, _ = start.communicate(timeout=harness.PATIENCE)
                self.assertEqual(start.returncode, 1, said)
                self.assertIn('"has_ended": true' if options else '  the process has ended', said)
                self.assertNotIn('"phase": "active"', said)

    def switches(self):
        """Voluntary context switches of our threads, once all of them sleep: how often they woke."""
        def asleep():
            total = {}
            for task in glob.glob('/proc/%d/task/*' % self.pid):
                with open(task + '/status', encoding='utf-8') as source:
                    fields = dict(line.split(':', 1) for line in source)
                name = fields['Name'].strip()
                if name.startswith('stepagent'):
                    if not fields['State'].strip().startswith('S'):
                        return None
                    total[name] = int(fields['voluntary_ctxt_switches'])
            return total

        return eventually(asleep, 'our threads sleep')

    def test_idle_wakes_nobody_and_writes_nothing(self):
        process = self.serve('--rate', '500')
        before = self.switches()
        self.assertEqual(sorted(before), ['stepagent', 'stepagent-io'])
        time.sleep(float(os.environ.get('STEPAGENT_TEST_IDLE_SECONDS', '10')))  # the thing measured
        self.assertEqual(self.switches(), before)
        self.assertFalse(os.path.exists(self.out))
        self.stop_app(process)
        with open(self.stats, encoding='utf-8') as source:
            text = source.read()
        calls = [l for l in text.splitlines() if l.startswith('cupti.') and not l.endswith(' 0')]
        self.assertEqual(calls, [], 'CUPTI was called while idle')

    def test_signal_on_off_twice(self):
        process = self.serve()
        for count in (1, 2):
            self.toggle(process)
            self.await_phase('active')
            seen = self.status()['records']
            eventually(lambda seen=seen: self.status()['records'] > seen + 200, 'records')
            self.toggle(process)
            self.await_phase('idle', 'done')
            self.await_written(count)
        self.stop_app(process)
        for cycle in self.traced(2):
            self.assertTrue(cycle.manifest['cycle']['complete'], cycle.manifest['cycle'])
            self.assertEqual(cycle.manifest['cycle']['ended'], 'signal')
            self.assertEqual(cycle.manifest['gpu']['status'], 'collected')
            self.assertGreater(cycle.manifest['outside_steps']['kernels'], 0)
            self.assertEqual(cycle.manifest['outside_steps']['kernels'], len(cycle.rows('kernel')))

    def test_start_steps_waits_and_prints(self):
        process = self.serve()
        result = self.ask('start', str(self.pid), '--steps', '3', '--step', 'nvtx:request')
        self.assertIn('.pt.trace.json.gz', result.stdout + result.stderr)
        cycle = harness.cycles(self.out)[0]
        self.assertEqual(len(cycle.steps), 3)
        self.assertTrue(cycle.manifest['cycle']['complete'])
        result = self.ask('start', str(self.pid), '--for', '300ms')
        self.assertIn('.pt.trace.json.gz', result.stdout + result.stderr)
        self.assertNotIn('ended by', result.stdout)
        result = self.ask('start', str(self.pid), '--for', '1h', '--max-window', '300ms')
        self.assertIn('cycle 2 ended by: limit (max-window reached: 300 ms)', result.stdout)
        self.stop_app(process)
        self.traced(3)

    def test_a_folder_that_cannot_be_made_refuses_the_start(self):
        process = self.serve(log='warn')
        with open(self.out, 'w', encoding='utf-8'):
            pass  # a file where the folder should be
        start = ('start', str(self.pid), '--steps', '2', '--step', 'nvtx:request')
        result = self.ask(*start, status=1)
        self.assertIn(self.out, result.stdout)
        self.assertIn('Not a directory', result.stdout)
        status = self.status()
        self.assertEqual((status['phase'], status['cycles_lost']), ('idle', 0))
        os.unlink(self.out)
        result = self.ask(*start)
        self.assertIn('.pt.trace.json.gz', result.stdout)
        self.stop_app(process)
        cycle, = self.traced(1)
        self.assertEqual(len(cycle.steps), 2)

    def test_a_folder_that_cannot_be_created_is_refused_at_once(self):
        """Where any look says that root may write, and only trying tells; nothing is left armed."""
        process = self.serve()
        start = ('start', str(self.pid), '--steps', '2', '--step', 'nvtx:request')
        too_long = os.path.join(self.scratch, 'x' * 300)
        for out, reason in (('/proc/none', '/proc: No such file or directory' if os.geteuid() == 0 else '/proc: '),
                            (too_long, 'File name too long')):
            result = self.ask(*start, '--out', out, status=1)
            self.assertIn('refused: %s: cannot be created: ' % out, result.stdout)
            self.assertIn(reason, result.stdout)
            self.assertIn('give --out DIR (STEPAGENT_OUT=DIR) with a folder that user %d can write to'
                          % os.geteuid(), result.stdout)
            status = self.status()
            self.assertEqual((status['phase'], status['cycle'], status['cycles_lost']), ('idle', 0, 0))
        self.assertEqual([name for name in os.listdir(self.scratch) if 'probe' in name], [])
        self.stop_app(process)

    def test_a_start_refused_by_the_collector_ends_and_says_why_and_the_next_one_may_work(self):
        """B017: a folder that cannot be made costs that window, not the session."""
        process = self.serve(log='warn')
        start = ('start', str(self.pid), '--steps', '2', '--step', 'nvtx:request')
        # Below a folder that is not there yet, no look tells that this name is too long.
        out = os.path.join(self.scratch, 'missing', 'x' * 300)
        result = self.ask(*start, '--out', out, status=1)
        self.assertIn(out, result.stdout)
        self.assertIn('cannot create folder', result.stdout)
        self.assertEqual(self.status()['cycles_lost'], 1)
        result = self.ask(*start)
        self.assertIn('.pt.trace.json.gz', result.stdout)
        self.stop_app(process)
        cycle, = self.traced(1)
        self.assertEqual(len(cycle.steps), 2)

    def test_a_start_cancelled_in_warmup_ends(self):
        process = self.serve()
        start = self.start_app([harness.STEPAGENT, 'start', str(self.pid), '--step', 'nvtx:never',
                                '--steps', '2'],
                               dict(harness.clean_environment(), STEPAGENT_RUNTIME_DIR=self.runtime))
        self.await_phase('waiting', 'warmup')
        self.ask('stop', str(self.pid))
        self.assertEqual(start.wait(timeout=60), 1, 'nothing was written')
        self.stop_app(process)
        self.assertFalse(os.path.exists(self.out))

    def test_start_in_one_window_is_busy(self):
        process = self.serve()
        results = [self.ask('start', str(self.pid), '--no-wait', status=None).returncode
                   for _ in range(5)]
        self.assertEqual(results[0], 0)
        self.assertTrue(all(code != 0 for code in results[1:]), results)
        self.assertEqual(self.status()['busy_count'], 4)
        self.await_phase('active')
        self.ask('stop', str(self.pid))
        self.await_phase('idle', 'done')
        self.stop_app(process)
        self.traced(1)

    def test_five_toggles(self):
        process = self.serve()
        phases = []
        for _ in range(5):
            self.toggle(process)
            want = ('active',) if len(phases) % 2 == 0 else ('idle', 'done')
            self.await_phase(*want)
            phases.append(want[0])
        self.toggle(process)
        self.await_phase('idle', 'done')
        self.stop_app(process)
        self.traced(3)

    def test_a_process_is_found_by_its_gpu(self):
        """Idle too, by the number the machine counts; a process without a context is no match."""
        process = self.serve(CUDA_VISIBLE_DEVICES='5')
        eventually(lambda: self.status()['gpus'] == [5], 'the primary context is told')
        result = self.ask('status', '--gpu', '0', status=1)
        self.assertIn("--gpu 0 matches none of the 1 processes", result.stderr)
        result = self.ask('start', '--gpu', '5', '--for', '100ms')
        self.assertIn('.pt.trace.json.gz', result.stdout)
        self.assertEqual(self.status()['gpus'], [5])
        self.stop_app(process)
        self.traced(1)

    def test_gpu_says_when_nobody_has_told_one(self):
        process = self.serve('--host-only')
        result = self.ask('start', '--gpu', '0', status=1)
        self.assertIn('none of the 1 processes that answer has told its GPU', result.stderr)
        self.assertIn('CUDA is up in none of them', result.stderr)
        self.stop_app(process)

    def test_idle_again_holds_no_collector(self):
        process = self.serve()
        for count in (1, 2):
            self.ask('start', str(self.pid), '--for', '100ms')
            self.await_written(count)
            eventually(lambda: not harness.collectors(self.out), 'the collector leaves an idle process')
        before = self.switches()
        time.sleep(1)  # the thing measured: nobody wakes
        self.assertEqual(self.switches(), before)
        self.stop_app(process)
        found = self.traced(2)
        self.assertEqual(len(harness.sessions(self.out)), 1)
        self.assertEqual([c.manifest['cycle']['index'] for c in found], [0, 1])

    def test_wait_and_nothing_matched(self):
        process = self.serve()
        self.ask('start', str(self.pid), '--for', '200ms', '--no-wait')
        self.await_phase('active', 'finishing', 'idle', 'done')
        self.ask('wait', str(self.pid), '--timeout', '20')
        self.assertNotEqual(self.ask('status', '999999', status=None).returncode, 0)
        self.assertNotEqual(self.ask('stop', '999999', status=None).returncode, 0)
        self.assertEqual(self.ask('status', '--all').returncode, 0)
        self.stop_app(process)


if __name__ == '__main__':
    harness.main()
