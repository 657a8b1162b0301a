"""The collector stopped, killed, restarted, out of disk, in a bad place; the application unharmed.

Field-log cases: B079 B080 B085 B095 B098 B099 B100 B146.
"""
import glob
import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
import unittest

import harness
from collector_case import CollectorTest, STEP, listens
from harness import app

KILLS = int(os.environ.get('STEPAGENT_TEST_KILLS', '20'))
SEED = int(os.environ.get('STEPAGENT_TEST_SEED', '20261129'))


def written(out):
    """The cycles that are whole; a folder alone says that a cycle began."""
    return [harness.Cycle(os.path.dirname(p))
            for p in sorted(glob.glob(os.path.join(out, '2*/sessions/*/cycle-*/manifest.json')))]


class Misfortune(CollectorTest):
    def test_B079_a_stopped_collector_does_not_stop_the_application(self):
        collector = self.start_collector()
        process = self.busy(100000, 1000)
        self.wait_raw(size=2000)
        collector.send_signal(signal.SIGSTOP)
        before = self.step_of(process.pid)
        harness.eventually(lambda: self.step_of(process.pid) > before + 1000, 'steps while stopped')
        collector.send_signal(signal.SIGCONT)
        self.control('stop', str(process.pid))
        cycle, = harness.eventually(
            lambda: [c for c in harness.sessions(self.out)
                     if os.path.exists(os.path.join(c, 'cycle-0000', 'manifest.json'))], 'the cycle')
        process.terminate()
        process.wait(timeout=harness.PATIENCE)
        balance = harness.check_balance(harness.Cycle(os.path.join(cycle, 'cycle-0000')))
        self.assertGreater(balance['nvtx']['written'], 1000)

    def test_B079_exit_with_a_stopped_collector_is_bounded(self):
        collector = self.start_collector()
        process = self.busy(300, 1000, exit_wait='500ms')
        self.wait_raw(size=20000)  # some of the cycle, not only the Hello
        collector.send_signal(signal.SIGSTOP)
        self.finish_app(process)
        collector.send_signal(signal.SIGCONT)
        cycle, = self.traced(1)
        self.assertIn(cycle.manifest['cycle']['ended'], ('exit', 'killed'))

    def test_B080_B085_killed_collector_is_replaced_and_the_session_goes_on(self):
        collector = self.start_collector()
        process = self.busy(100000, 1000)
        raw, = self.wait_raw(size=2000)
        collector.kill()
        collector.wait()
        size = os.path.getsize(raw)
        again = self.start_collector()
        harness.eventually(lambda: os.path.getsize(raw) > size + 2000, 'the session going on')
        self.control('stop', str(process.pid))
        harness.eventually(lambda: glob.glob(os.path.join(self.out, '*/sessions/*/cycle-0000/'
                                                          'manifest.json')), 'the cycle')
        process.terminate()
        process.wait(timeout=harness.PATIENCE)
        cycle, = self.traced(1)
        self.assertEqual(cycle.manifest['cycle']['ended'], 'request')
        indices = [step['process_index'] for step in cycle.manifest['steps']]
        self.assertEqual(indices, sorted(set(indices)))
        self.stop_app(again)

    def test_B080_a_collector_of_ours_that_is_killed_is_started_anew_for_the_next_cycle(self):
        process = self.busy(100000, 1000, collector='auto', exit_wait='2s',
                            schedule='wait=300,active=300,repeat=100')
        self.wait_raw(size=2000)
        collector, = harness.collectors(self.out)
        os.kill(collector, signal.SIGKILL)
        again, = harness.eventually(lambda: [p for p in harness.collectors(self.out) if p != collector],
                                    'another collector')
        harness.eventually(lambda: len(written(self.out)) >= 3, 'cycles written by it')
        process.kill()
        process.wait()
        self.assertNotEqual(again, collector)
        self.assertEqual(len(harness.sessions(self.out)), 1)
        found = {c.manifest['cycle']['index']: c.manifest for c in written(self.out)}
        self.assertEqual([found[i]['cycle']['complete'] for i in (1, 2)], [True, True])

    def test_B098_killed_at_random_points_of_a_write(self):
        draw = random.Random(SEED)
        for number in range(KILLS):
            with self.subTest(kill=number):
                self.kill_once(os.path.join(self.scratch, 'kill-%d' % number), draw.random() * 0.05,
                               restarts=number % 5 == 0)

    def kill_once(self, out, within_s, restarts):
        """Cycles of a few ms follow each other, so that the collector writes all the time."""
        collector = self.start_collector(out=out)
        process = self.busy(10000000, 500, out=out, schedule='wait=1,active=4,repeat=0')
        begun = lambda: len(glob.glob(os.path.join(out, '2*/sessions/*/cycle-*')))
        harness.eventually(begun, 'a cycle begun', pause=0.001)
        # The point within the write is drawn; nothing is waited for by it.
        with self.assertRaises(subprocess.TimeoutExpired):
            collector.wait(within_s)
        collector.kill()
        collector.wait()
        self.assertIsNone(process.poll())
        self.check_whole_files(out)
        if restarts:
            before = begun()
            collector = self.start_collector(out=out)
            harness.eventually(lambda: begun() > before, 'the session going on')
        process.kill()
        process.wait()
        if restarts:
            self.stop_app(collector)
        self.report(out)
        self.check_whole_files(out)

    def check_whole_files(self, out):
        """Whatever has its final name is whole."""
        for path in glob.glob(os.path.join(out, '*/traces/*/*.json.gz')):
            with gzip.open(path, 'rt', encoding='utf-8') as source:
                json.load(source)
        for path in glob.glob(os.path.join(out, '*/sessions/*/cycle-*/*.json')):
            with open(path, encoding='utf-8') as source:
                json.load(source)

    def test_B100_an_output_path_that_is_a_file(self):
        with open(self.out, 'w', encoding='ascii'):
            pass
        self.start_collector()
        process = self.start_app([app('server'), '--rate', '500'], harness.agent_environment(
            self.out, sim=False, step='nvtx:request', arm='demand', collector=self.socket))
        harness.eventually(lambda: self.step_of(process.pid) >= 0, 'an agent')
        self.control('start', str(process.pid), '--steps', '3', '--no-wait')
        harness.eventually(lambda: 'collector' in self.last_error(process.pid), 'the first loss told')
        self.stop_app(process)
        self.assertIn(self.out, process.stderr.read())
        self.assertTrue(os.path.isfile(self.out))

    def last_error(self, pid):
        return self.control('status', str(pid), '--json', status=None).stdout

    def test_B100_a_relative_out_means_the_first_folder(self):
        """The program changes its folder after it was loaded and before its first step."""
        program = ('import ctypes, os, time; plugin = ctypes.CDLL(os.environ["PLUGIN"]); '
                   'os.mkdir("other"); os.chdir("other"); '
                   '[(plugin.PluginStep(), time.sleep(0.001)) for _ in range(20)]')
        env = harness.agent_environment('traces', sim=False, schedule='active=3,repeat=1', step=STEP,
                                        PLUGIN=app('librange_plugin.so'))
        self.run_app([sys.executable, '-c', program], env, cwd=self.scratch)
        self.assertEqual(len(self.traced(1, os.path.join(self.scratch, 'traces'))), 1)
        self.assertEqual(os.listdir(os.path.join(self.scratch, 'other')), [])

    def test_B146_B095_one_worker_stopped_one_killed_all_of_one_rank(self):
        self.start_collector()
        workers = [self.busy(1700, 2000, RANK=0, WORLD_SIZE=8, schedule='active=1500,repeat=1',
                             STEPAGENT_RUN='20260101T000000_0badcafe') for _ in range(8)]
        harness.eventually(lambda: self.recording() == 8, 'eight cycles begun')
        workers[0].send_signal(signal.SIGSTOP)
        workers[1].kill()
        for worker in workers[2:]:
            self.finish_app(worker)
        ended = lambda: [c.manifest['cycle']['ended'] for c in self.written()]
        harness.eventually(lambda: ended().count('schedule') == 6, 'six whole cycles')
        self.assertLessEqual(len(ended()), 7)
        workers[0].send_signal(signal.SIGCONT)
        self.finish_app(workers[0])
        found = self.traced(8)
        paths = {c.chrome_path for c in found}
        self.assertEqual(len(paths), 8)
        for cycle in found:
            self.assertTrue(cycle.chrome['traceEvents'])
        self.assertEqual(sorted(ended()), ['killed'] + ['schedule'] * 7)

    def recording(self):
        """Sessions in the middle of a cycle; the cycle's folder comes with its end."""
        count = 0
        for path in glob.glob(os.path.join(self.out, '2*/sessions/*/session.json')):
            with open(path, encoding='utf-8') as source:
                count += any(c['state'] == 'recording' for c in json.load(source)['cycles'])
        return count

    def written(self):
        return written(self.out)


class FullAtAnyByte(CollectorTest):
    """The collector's files take so many bytes and not one more, wherever in a write that is."""

    def start_on_disk(self, out, **disk):
        env = dict(harness.clean_environment(), LD_PRELOAD=app('small_disk.so'))
        env.update({'SMALL_DISK_' + name.upper(): str(value) for name, value in disk.items()})
        log = os.path.join(self.scratch, os.path.basename(out) + '.log')
        with open(log, 'w', encoding='utf-8') as said:
            process = self.start_app([harness.STEPCOLLECTOR, '--socket', self.socket, '--out', out],
                                     env, stdout=said, stderr=said)
        harness.eventually(lambda: process.poll() is not None or listens(self.socket), 'listening')
        return process, log

    def run_on_disk(self, out, **disk):
        """Three cycles; what the application printed is as without us. (collector's status, its log)."""
        collector, log = self.start_on_disk(out, **disk)
        stdout, _ = self.finish_app(self.busy(300, 300, out=out, schedule='wait=10,active=80,repeat=3',
                                              exit_wait='5s', formats='chrome,sqlite'))
        self.assertEqual(stdout, self.plain)
        self.assertIsNone(collector.poll(), 'the collector lives')
        collector.terminate()
        status = collector.wait(timeout=harness.PATIENCE)
        return status, self.text_of(log)

    @staticmethod
    def text_of(path):
        with open(path, encoding='utf-8') as source:
            return source.read()

    def whole_cycles(self, out):
        """Manifests that are there name files that are there, whole; sums are right."""
        found = written(out)
        for cycle in found:
            harness.check_balance(cycle)
            for file in cycle.manifest['files']:
                path = os.path.join(cycle.run_folder, file['name'])
                self.assertEqual(os.path.getsize(path), file['bytes'], path)
        self.check_whole_files(out)
        return found

    check_whole_files = Misfortune.check_whole_files

    def test_B099_full_at_any_byte(self):
        self.plain = self.run_app(self.busy_command(300, 300), harness.clean_environment()).stdout
        out = os.path.join(self.scratch, 'roomy')
        status, said = self.run_on_disk(out, bytes=1 << 40)
        self.assertEqual((status, len(self.whole_cycles(out))), (0, 3), said)
        need = sum(os.path.getsize(p) for p in glob.glob(os.path.join(out, '2*', '**'), recursive=True)
                   if os.path.isfile(p))
        draw = random.Random(SEED)
        for number in range(KILLS // 2):
            room = 0 if number == 0 else draw.randrange(1, need * 9 // 10)
            with self.subTest(room=room, need=need):
                out = os.path.join(self.scratch, 'full-%d' % number)
                status, said = self.run_on_disk(out, bytes=room)
                self.assertEqual(status, 1, said)
                self.assertIn('No space left on device', said)
                self.assertIn(out, said)
                self.whole_cycles(out)
                if glob.glob(os.path.join(out, '2*/sessions/*/raw.steps')):
                    self.report(out, statuses=(0, 1) if room > 2000 else (0, 1, 3))
                    self.check_freed_space_finishes(out)

    def check_freed_space_finishes(self, out):
        """What raw.steps holds of a cycle is written once there is room: all of its files."""
        for path in glob.glob(os.path.join(out, '2*/sessions/*/session.json')):
            for cycle in json.loads(self.text_of(path))['cycles']:
                self.assertEqual(cycle['state'], 'written', path)
        for cycle in self.whole_cycles(out):
            formats = {file['format'] for file in cycle.manifest['files']}
            self.assertLessEqual({'chrome', 'sqlite'}, formats, cycle.folder)
            for name in ('summary.json', 'summary.txt'):
                self.assertTrue(os.path.exists(os.path.join(cycle.folder, name)), cycle.folder)

    def test_B099_space_is_freed_and_the_next_cycle_is_whole(self):
        freed = os.path.join(self.scratch, 'freed')
        collector, log = self.start_on_disk(self.out, bytes=6000, freed=freed)
        process = self.busy(1000000, 500, schedule='wait=10,active=80,repeat=0', max_traces='0')
        harness.eventually(lambda: 'No space left' in self.text_of(log), 'a full disk')
        with open(freed, 'w', encoding='ascii'):
            pass
        complete = lambda: [c for c in written(self.out) if c.manifest['cycle']['complete']]
        harness.eventually(complete, 'a whole cycle')
        self.stop_app(process)
        self.assertEqual(self.stop_app(collector), 1)
        self.report(self.out)

    def test_a_slow_disk_is_the_collectors_alone(self):
        """20 ms a write: the application's steps go on, what is written is whole."""
        self.plain = self.run_app(self.busy_command(300, 300), harness.clean_environment()).stdout
        status, said = self.run_on_disk(self.out, slow_us=20000)
        self.assertEqual(status, 0, said)
        harness.wait_written(self.out)
        self.assertEqual(len(self.whole_cycles(self.out)), 3)


@unittest.skipUnless(os.geteuid() == 0, 'mounting a small disk needs root')
class SmallDisk(CollectorTest):
    def mount(self, *options):
        folder = os.path.join(self.scratch, 'disk')
        os.mkdir(folder)
        done = subprocess.run(['mount', '-t', 'tmpfs', '-o', ','.join(options), 'tmpfs', folder],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest('mounting a small disk is not permitted here: ' + done.stderr.strip())
        self.addCleanup(lambda: subprocess.run(['umount', '-l', folder], check=False,
                                               capture_output=True))
        return folder

    def test_B099_a_full_disk_costs_data_and_nothing_else(self):
        disk = self.mount('size=256k')
        out = os.path.join(disk, 'out')
        collector = self.start_collector(out=out)
        process = self.busy(3000, 300, out=out, schedule='active=1000,repeat=3')
        stdout, stderr = self.finish_app(process)
        plain = self.run_app(self.busy_command(3000, 300), harness.clean_environment())
        self.assertEqual(stdout, plain.stdout)
        self.assertIn('stepagent', stderr)  # says that something is missing
        self.report(out)
        self.stop_app(collector)

    def test_B099_enospc_names_the_path_and_is_in_the_exit_status(self):
        disk = self.mount('size=256k')
        out = os.path.join(disk, 'out')
        with open(os.path.join(disk, 'filler'), 'wb') as filler:
            filler.write(b'x' * (252 * 1024))
        process = self.start_app([harness.STEPCOLLECTOR, '--socket', self.socket, '--out', out],
                                 harness.clean_environment())
        harness.eventually(lambda: os.path.exists(self.socket), 'listening')
        self.finish_app(self.busy(300, 1000, out=out))
        self.assertEqual(self.stop_app(process), 1)
        said = process.stdout.read() + process.stderr.read()
        self.assertIn(out, said)
        self.assertIn('No space left on device', said)

    def test_run_counts_cycles_by_what_is_there(self):
        """session.json cannot be rewritten on a full disk: the exit lines go by the files."""
        disk = self.mount('size=320k')
        out = os.path.join(disk, 'out')
        script = 'for r in 0 1; do RANK=$r %s --steps 100 --sleep-us 1000 & done; wait' % app('train_loop')
        result = self.run_app([harness.STEPAGENT, 'run', '-o', out, '--step', STEP, '--schedule',
                               'warmup=1,active=20,repeat=4', '--formats', 'chrome,sqlite', '--', '/bin/sh',
                               '-c', script], harness.launcher_environment())
        self.assertIn('no space left on its file system', result.stderr)
        rows = {int(rank): (int(whole or count), int(count)) for rank, whole, count in re.findall(
            r'^stepagent:   rank (\d)  .*?  (?:(\d+) of )?(\d+) cycles?', result.stderr, re.MULTILINE)}
        self.assertTrue(rows, result.stderr)
        expected = {}
        for session in harness.sessions(out):
            rank = int(session.split('_rank')[1].split('_')[0])
            cycles = glob.glob(os.path.join(session, 'cycle-*'))
            whole = [c for c in cycles
                     if os.path.exists(c + '/manifest.json') and os.path.exists(c + '/summary.json') and
                     {'chrome', 'sqlite'} <= {f['format'] for f in harness.Cycle(c).manifest['files']}]
            if os.path.exists(session + '/session.json'):
                with open(session + '/session.json', encoding='utf-8') as source:
                    begun = {'cycle-%04d' % cycle['index'] for cycle in json.load(source)['cycles']}
                expected[rank] = (len(whole), len(begun | {os.path.basename(c) for c in cycles}))
        self.assertEqual(rows, expected, result.stderr)
        self.assertLess(min(whole for whole, _ in rows.values()), 4)

    def test_B100_a_read_only_disk(self):
        disk = self.mount('ro')
        out = os.path.join(disk, 'out')
        env = harness.agent_environment(out, sim=False, step=STEP, schedule='active=20')
        result = self.run_app(self.busy_command(40, 1000), env)
        lines = [line for line in result.stderr.splitlines() if line.startswith('stepagent: ')]
        self.assertTrue(any(disk in line and 'Read-only' in line for line in lines), lines)


if __name__ == '__main__':
    harness.main()
