"""Eight ranks in one run: one folder, ranks 0 to 7, the same steps in each; other people's reader."""
import contextlib
import glob
import json
import os
import subprocess
import unittest

import harness
import pod
from harness import AgentTest, app

DEVICE_WORK = ('kernel', 'gpu_memcpy', 'gpu_memset', 'gpu_graph')
READERS = os.path.join(harness.BUILD, 'readers', 'bin', 'python')


def switches(pid):
    """How often a process has gone to sleep."""
    with open('/proc/%d/status' % pid, encoding='ascii', errors='replace') as status:
        return next(int(line.split()[1]) for line in status if line.startswith('voluntary_ctxt'))


class Ranks(AgentTest):
    def run_ranks(self, *options):
        script = ('for r in 0 1 2 3 4 5 6 7; do RANK=$r WORLD_SIZE=8 LOCAL_RANK=$r %s --steps 10 & '
                  'done; wait' % app('train_loop'))
        env = harness.launcher_environment()
        result = self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--step',
                               'nvtx:train_step', '--schedule',
                               'wait=2,warmup=1,active=3,repeat=1', *options, '--', '/bin/sh', '-c',
                               script], env)
        return result, self.traced(8)

    def test_eight_ranks_share_one_run(self):
        result, found = self.run_ranks()
        self.assertEqual(len(harness.runs(self.out)), 1)
        self.assertEqual(sorted(c.manifest['session']['rank'] for c in found), list(range(8)))
        for cycle in found:
            self.assertEqual(cycle.steps, [3, 4, 5])
            self.assertEqual(cycle.manifest['session']['rank_source'], 'RANK')
            self.assertEqual(cycle.manifest['session']['world_size'], 8)
        names = os.listdir(os.path.join(self.out, 'latest', 'traces', 'cycle-0000'))
        self.assertEqual(len(names), 8)
        self.assertTrue(all(n.endswith('.0000.pt.trace.json.gz') for n in names), names)
        for rank in range(8):
            self.assertIn('rank %d' % rank, result.stderr)
        # One row a rank, and where the files are: eight paths that differ in a digit tell nothing.
        folder = os.path.join(harness.runs(self.out)[0], 'traces', 'cycle-0000')
        self.assertEqual(result.stderr.count('    8 files in %s\n' % folder), 1, result.stderr)
        self.assertEqual(result.stderr.count('.pt.trace.json.gz\n'), 1, result.stderr)
        report = self.control('report', os.path.join(self.out, 'latest'), '--json')
        self.assertIn('"rank"', report.stdout)

    def ranks_running(self):
        """RANK of this test's training loops."""
        found = set()
        for folder in glob.glob('/proc/[0-9]*'):
            with contextlib.suppress(OSError), open(folder + '/environ', encoding='utf-8', errors='replace') as env, \
                    open(folder + '/cmdline', encoding='utf-8', errors='replace') as command:
                variables = env.read().split('\0')
                if command.read().startswith(app('train_loop')) and 'STEPAGENT_OUT=' + self.out in variables:
                    found |= {entry[5:] for entry in variables if entry.startswith('RANK=')}
        return found

    def test_ranks_that_match_no_process_are_explained(self):
        """Those seen and those asked for; of some that match, the one that there is none of."""
        script = ('for r in 0 1; do RANK=$r WORLD_SIZE=2 %s --steps 1000000 & p="$p $!"; done; read line < %s; '
                  'kill -TERM $p; wait; exit 0')
        for ranks, expected in (('7', '--ranks 7 leaves out every process that was seen (ranks 0, 1): --ranks 0,1'),
                                ('1,7', 'rank 7 of --ranks is none of the run\'s: it has 2 ranks')):
            go = os.path.join(self.scratch, 'go' + ranks)
            os.mkfifo(go)
            launcher = self.start_app(
                [harness.STEPAGENT, 'run', '-o', self.out, '--ranks', ranks, '--step', 'nvtx:train_step',
                 '--schedule', 'warmup=1,active=2,repeat=1', '--', '/bin/sh', '-c',
                 script % (app('train_loop'), go)], harness.launcher_environment())
            harness.eventually(lambda: self.ranks_running() == {'0', '1'}, 'both ranks run')
            # It wakes to look at them and for nothing else: one look that began after that, whole.
            before = switches(launcher.pid)
            harness.eventually(lambda pid=launcher.pid, to=before + 3: switches(pid) >= to, 'it has looked')
            if '1' in ranks:
                harness.eventually(lambda: any(s['cycles'] for s in self.told()), 'rank 1 records')
            with open(go, 'w', encoding='ascii') as line:
                line.write('go\n')
            _, stderr = launcher.communicate(timeout=harness.PATIENCE * 4)
            self.assertIn(expected, stderr)

    def test_same_rank_twice_keeps_both(self):
        script = 'for r in 0 0; do RANK=0 %s --steps 10 & done; wait' % app('train_loop')
        env = harness.launcher_environment()
        self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--step', 'nvtx:train_step',
                      '--schedule', 'active=2,repeat=1', '--', '/bin/sh', '-c', script], env)
        self.traced(2)
        self.assertEqual(len(glob.glob(os.path.join(self.out, 'latest', 'traces', 'cycle-0000',
                                                    '*.pt.trace.json.gz'))), 2)

    def test_ranks_that_were_restarted_are_compared_among_themselves(self):
        """As an elastic launcher does: all end, and all begin anew in the same run."""
        script = ('for t in 1 2; do for r in 0 1; do RANK=$r WORLD_SIZE=2 %s --steps 10 & done; wait; done' %
                  app('train_loop'))
        result = self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--step', 'nvtx:train_step',
                               '--schedule', 'warmup=2,active=4,repeat=1', '--', '/bin/sh', '-c', script],
                              harness.launcher_environment())
        pids = [c.manifest['session']['pid'] for c in
                sorted(self.traced(4), key=lambda c: c.manifest['clock']['base_unix_ns'])]
        compared = json.loads(self.control('report', self.out, '--json', status=None).stdout)['ranks']
        self.assertEqual([(one['incarnation'], one['incarnations']) for one in compared], [(0, 2), (1, 2)])
        self.assertEqual([{row['pid'] for row in one['ranks']} for one in compared], [set(pids[:2]), set(pids[2:])])
        later = {row['name'] for row in compared[1]['ranks']}
        names = {'rank %d (restarted, pid %d)' % (row['rank'], row['pid']) for row in compared[1]['ranks']}
        self.assertEqual(later, names)
        self.assertEqual({row['name'] for row in compared[0]['ranks']}, {'rank 0', 'rank 1'})
        for text in (result.stderr, self.control('report', self.out, status=None).stdout):
            self.assertIn('before a restart (1 of 2)', text)
            self.assertIn('after a restart (2 of 2)', text)

    def test_slices_of_the_clock_have_no_slowest_rank(self):
        script = ('for r in 0 1; do RANK=$r WORLD_SIZE=2 %s --steps 200 --sleep-us 2000 & done; wait' %
                  app('train_loop'))
        self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--step', 'every:20ms', '--schedule',
                      'warmup=1,active=4,repeat=1', '--', '/bin/sh', '-c', script], harness.launcher_environment())
        self.traced(2)
        compared, = json.loads(self.control('report', self.out, '--json', status=None).stdout)['ranks']
        self.assertEqual((compared['slowest'], compared['steps'], compared['readings']), (None, [], []))
        self.assertIn('not compared: steps are slices of the clock (every:20ms)',
                      self.control('report', self.out, status=None).stdout)

    def test_only_chosen_ranks(self):
        env = dict(harness.launcher_environment(), RANK='3')
        self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--step', 'nvtx:train_step',
                      '--schedule', 'active=2,repeat=1', '--ranks', '0,1', '--', app('train_loop'),
                      '--steps', '4'], env)
        self.assertEqual(harness.cycles(self.out), [])

    def told(self):
        """What the sessions' session.json say by now."""
        paths = glob.glob(os.path.join(self.out, '2*', 'sessions', '*', 'session.json'))
        found = []
        for path in paths:
            with contextlib.suppress(FileNotFoundError), open(path, encoding='utf-8') as source:
                found.append(json.load(source))
        return found

    def test_a_variable_that_holds_no_rank(self):
        """Named with its value and what is allowed; the next variable is taken, or a rank assigned."""
        env = self.environment(schedule='active=2,repeat=1', step='nvtx:train_step')
        for value, more, rank, source in (('abc', {}, 0, 'assigned'), ('', {}, 0, 'assigned'),
                                          ('-1', {'OMPI_COMM_WORLD_RANK': '3'}, 3,
                                           'OMPI_COMM_WORLD_RANK')):
            with self.subTest(value=value, **more):
                out = os.path.join(self.scratch, 'rank' + value)
                result = self.run_app([app('train_loop'), '--steps', '4'],
                                      dict(env, STEPAGENT_OUT=out, RANK=value, **more))
                lines = [line for line in result.stderr.splitlines() if 'RANK: ' in line]
                self.assertEqual(len(lines), 1, result.stderr)
                self.assertIn("RANK: '%s': no rank; allowed: a whole number from 0 to 2147483647; " % value,
                              lines[0])
                self.assertIn('rank 3 is taken from OMPI_COMM_WORLD_RANK' if more else
                              'the collector gives this process a rank', lines[0])
                cycle, = self.traced(1, out)
                session = cycle.manifest['session']
                self.assertEqual((session['rank'], session['rank_source']), (rank, source))
                text, = [n['text'] for n in cycle.manifest['notes'] if n['code'] == 'rank_conflict']
                self.assertIn('RANK=' + value, text)
                with open(os.path.join(cycle.folder, '..', 'session.json'), encoding='utf-8') as source_:
                    self.assertEqual(json.load(source_)['rank_conflicts'], ['RANK=' + value])

    def test_a_rank_beyond_the_number_of_ranks(self):
        """Said once by the process, in its summary and by `report`, which has its row."""
        env = self.environment(schedule='active=2,repeat=1', step='nvtx:train_step',
                               TORCHELASTIC_RUN_ID='one', MASTER_ADDR='127.0.0.1', MASTER_PORT='29500')
        started = [self.start_app([app('train_loop'), '--steps', '4'],
                                  dict(env, RANK=str(rank), WORLD_SIZE='2')) for rank in (1, 4)]
        said = [process.communicate(timeout=harness.PATIENCE * 4)[1] for process in started]
        line = 'RANK=4 is not below WORLD_SIZE=2, as a rank is; it is taken as it is'
        self.assertEqual([err.count(line) for err in said], [0, 1], said)
        by_rank = {c.manifest['session']['rank']: c for c in self.traced(2)}
        notes = {rank: [n['code'] for n in c.manifest['notes'] if n['code'] == 'rank_beyond_world']
                 for rank, c in by_rank.items()}
        self.assertEqual(notes, {1: [], 4: ['rank_beyond_world']})
        with open(os.path.join(by_rank[4].folder, 'summary.txt'), encoding='utf-8') as summary:
            self.assertIn('rank 4 (RANK) is not below the number of ranks, 2', ' '.join(summary.read().split()))
        report = self.run_app([harness.STEPAGENT, 'report', self.out], harness.clean_environment())
        self.assertRegex(report.stdout, r'(?m)^ +4 +2 ')
        self.assertEqual(report.stderr.count('rank 4 is not below the number of ranks, 2'), 1)
        # The files themselves say it again, and keep the rank.
        traces = os.path.dirname(by_rank[4].chrome_path)
        report = self.run_app([harness.STEPAGENT, 'report', traces], harness.clean_environment(), status=1)
        self.assertRegex(report.stdout, r'(?m)^ +4 +2 ')
        self.assertIn('"rank" is 4, allowed: 0 to 1; it is taken as it is', report.stderr)

    def test_variables_that_disagree(self):
        env = self.environment(schedule='active=2,repeat=1', step='nvtx:train_step')
        self.run_app([app('train_loop'), '--steps', '4'], dict(env, RANK='3', SLURM_PROCID='1'))
        cycle, = self.traced(1)
        self.assertEqual(cycle.manifest['session']['rank_source'], 'RANK')
        text, = [n['text'] for n in cycle.manifest['notes'] if n['code'] == 'rank_conflict']
        self.assertIn('rank 3 is from RANK, the first of RANK, ', text)
        self.assertIn('not taken: SLURM_PROCID=1', text)

    def test_an_explicit_rank_later_than_an_assigned_one(self):
        """It wins while the other has no cycle yet: ranks 0 and 1, no name shared, nothing said."""
        go = os.path.join(self.scratch, 'go')
        os.mkfifo(go)
        script = ('%s --steps 1000000 --sleep-us 1000 & a=$!; read line < %s; '
                  'RANK=0 %s --steps 10; kill -TERM $a; wait $a; exit 0' %
                  (app('train_loop'), go, app('train_loop')))
        launcher = self.start_app([harness.STEPAGENT, 'run', '-o', self.out, '--step', 'nvtx:train_step',
                                   '--schedule', 'warmup=2,active=100000', '--', '/bin/sh', '-c',
                                   script], harness.launcher_environment())
        harness.eventually(lambda: any(s['cycles'] for s in self.told()), 'the first one records')
        with open(go, 'w', encoding='ascii') as line:
            line.write('go\n')
        _, stderr = launcher.communicate(timeout=harness.PATIENCE * 4)
        found = self.traced(2)
        ranks = {c.manifest['session']['rank_source']: c.manifest['session']['rank'] for c in found}
        self.assertEqual(ranks, {'RANK': 0, 'assigned': 1}, stderr)
        self.assertEqual(sorted(os.path.basename(s).split('_rank')[1][0]
                                for s in harness.sessions(self.out)), ['0', '1'])
        self.assertNotIn('another session', stderr)

    def test_a_rank_that_ends_before_its_warmup_is_named(self):
        script = ('for r in 0 1 2 3; do n=10; test $r = 2 && n=1; RANK=$r WORLD_SIZE=4 LOCAL_RANK=$r '
                  '%s --steps $n & done; wait' % app('train_loop'))
        result = self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--step', 'nvtx:train_step',
                               '--schedule', 'wait=2,warmup=1,active=3,repeat=1', '--', '/bin/sh', '-c',
                               script], harness.launcher_environment())
        self.traced(3)
        self.assertIn('rank 2 ended before its warmup: no cycle', result.stderr)
        report = self.control('report', os.path.join(self.out, 'latest'))
        self.assertIn('rank 2 ended before its warmup: no cycle', report.stderr)

    def test_a_killed_rank_has_no_busy_time_where_nothing_of_it_came(self):
        """Its calls came, its first kernel never ended: not observed is not idle."""
        runtime = os.path.join(self.scratch, 'runtime')
        go = os.path.join(self.scratch, 'go')
        os.mkfifo(go)
        script = ('RANK=0 WORLD_SIZE=2 %s --steps 5; RANK=1 WORLD_SIZE=2 %s --steps 5 --kernel-us '
                  '900000000 & r=$!; read line < %s; kill -KILL $r; wait $r; exit 0' %
                  (app('train_loop'), app('train_loop'), go))
        launcher = self.start_app([harness.STEPAGENT, 'run', '-o', self.out, '--step', 'nvtx:train_step',
                                   '--schedule', 'active=3,repeat=1', '--', '/bin/sh', '-c', script],
                                  dict(harness.launcher_environment(), STEPAGENT_RUNTIME_DIR=runtime))
        env = dict(harness.clean_environment(), STEPAGENT_RUNTIME_DIR=runtime)
        def records():
            out = self.control('status', '--json', status=None, env=env).stdout.strip()
            return [row for row in json.loads(out or '[]') if row.get('rank') == 1 and row['records'] > 5]
        harness.eventually(records, 'calls of the rank with the endless kernel')
        harness.eventually(lambda: any(s['session']['rank'] == 1 and s['cycles'] for s in self.told()),
                           'and they have come')
        with open(go, 'w', encoding='ascii') as line:
            line.write('go\n')
        _, stderr = launcher.communicate(timeout=harness.PATIENCE * 4)
        report = self.control('report', os.path.join(self.out, 'latest'), '--json', status=None)
        self.assertTrue(json.loads(report.stdout)['ranks'], stderr)
        rows = {row['rank']: row for row in json.loads(report.stdout)['ranks'][0]['ranks']}
        self.assertGreater(rows[0]['busy_ns'], 0)
        self.assertEqual((rows[1]['busy_ns'], rows[1]['idle_ns']), (None, None), stderr)
        text = self.control('report', os.path.join(self.out, 'latest'), status=None).stdout
        row = next(line.split() for line in text.splitlines() if line.startswith('     1  '))
        self.assertEqual(row[5:7], ['-', '-'], row)

    def test_a_killed_rank_shows_no_part_of_its_busy_time(self):
        """Some of its device records came and not all: their sum is no figure of the cycle."""
        go = os.path.join(self.scratch, 'go')
        os.mkfifo(go)
        script = ('RANK=0 WORLD_SIZE=2 %s --steps 5; RANK=1 WORLD_SIZE=2 %s --steps 1000000 & r=$!; '
                  'read line < %s; kill -KILL $r; wait $r; exit 0' % (app('train_loop'), app('train_loop'), go))
        launcher = self.start_app([harness.STEPAGENT, 'run', '-o', self.out, '--step', 'nvtx:train_step',
                                   '--schedule', 'warmup=1,active=100000', '--', '/bin/sh', '-c', script],
                                  harness.launcher_environment())
        def kernels():
            for raw in glob.glob(os.path.join(self.out, '2*', 'sessions', '*rank1*', 'raw.steps')):
                read = self.control('report', raw, '--json', status=None).stdout
                return [c['kernels'] for c in json.loads(read or '{}').get('cycles', []) if c['kernels']]
            return None
        harness.eventually(kernels, 'device records of the second rank have come')
        with open(go, 'w', encoding='ascii') as line:
            line.write('go\n')
        _, stderr = launcher.communicate(timeout=harness.PATIENCE * 4)
        report = self.control('report', os.path.join(self.out, 'latest'), '--json', status=None)
        document = json.loads(report.stdout)
        rows = {row['rank']: row for row in document['ranks'][0]['ranks']}
        self.assertGreater(rows[0]['busy_ns'], 0)
        self.assertEqual((rows[1]['busy_ns'], rows[1]['idle_ns'], rows[1]['device_partial']),
                         (None, None, True), stderr)
        self.assertIn('the session ended before', rows[1]['device_reason'])
        # What came is in the rank's own summary, as what it is: a lower bound.
        own, = [c for c in document['cycles'] if c['session']['rank'] == 1]
        self.assertIsNone(own['devices'][0]['busy_ns'])
        self.assertGreater(own['devices'][0]['busy_at_least_ns'], 0)
        self.assertEqual([r['id'] for r in own['readings'] if 'idle' in r['id']], [])
        manifest, = glob.glob(os.path.join(self.out, '2*', 'sessions', '*rank1*', 'cycle-*', 'manifest.json'))
        with open(manifest, encoding='utf-8') as text:
            kernels = json.load(text)['balance']['kernel']
        self.assertGreater(kernels['written'], 0)
        self.assertEqual((kernels['produced'], kernels['dropped']), (None, None))
        row = next(line.split() for line in stderr.splitlines() if line.startswith('stepagent:      1  '))
        self.assertEqual(row[-5:-1], ['partial'] * 4, row)

    def brute_force(self, cycle):
        """A rank's row, counted from its manifest and its trace row by row."""
        steps = cycle.manifest['steps']
        walls = sorted(s['end_ns'] - s['begin_ns'] for s in steps
                       if s['complete'] and not s['contains_tracer_start'])
        half = len(walls) // 2
        self.assertGreater(half, 0)
        median = walls[half]
        if len(walls) % 2 == 0:
            median = walls[half - 1] + (walls[half] - walls[half - 1]) // 2
        work = {}
        for row in cycle.chrome['traceEvents']:
            if row.get('ph') == 'X' and row.get('cat') in DEVICE_WORK:
                begin = round(row['ts'] * 1000)
                work.setdefault(row['args']['device'], []).append(
                    (begin, begin + round(row['dur'] * 1000)))
        busy = idle = 0
        for rows in work.values():
            covered, last = 0, None
            for begin, end in sorted(rows):
                covered += max(0, end - max(begin, last if last is not None else begin))
                last = end if last is None else max(last, end)
            busy += covered
            idle += max(e for _, e in rows) - min(b for b, _ in rows) - covered
        return {'rank': cycle.manifest['session']['rank'], 'steps': len(steps),
                'step_median_ns': median, 'step_spread_ns': walls[-1] - walls[0],
                'busy_ns': busy, 'idle_ns': idle, 'collective_ns': 0, 'exposed_collective_ns': 0,
                'launches': sum(s['launches'] for s in steps)}

    def test_report_names_the_slow_rank(self):
        # Rank 5 sleeps 30 % longer in each step; the rest of a step is small beside the sleep.
        script = ('for r in 0 1 2 3 4 5 6 7; do s=100000; test $r = 5 && s=130000; RANK=$r '
                  'WORLD_SIZE=8 LOCAL_RANK=$r %s --steps 16 --sleep-us $s & done; wait' %
                  app('train_loop'))
        # The first active step waits for collection, however busy the machine: then all steps count.
        result = self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--step',
                               'nvtx:train_step', '--schedule', 'wait=2,warmup=1,active=12,repeat=1',
                               '--arm-wait', '20s', '--', '/bin/sh', '-c', script],
                              harness.launcher_environment())
        found = sorted(self.traced(8), key=lambda c: c.manifest['session']['rank'])
        run = os.path.join(self.out, 'latest')
        document = json.loads(self.control('report', run, '--json', status=None).stdout)
        self.assertEqual(len(document['ranks']), 1)
        compared = document['ranks'][0]
        expected = [self.brute_force(c) for c in found]
        self.assertEqual([{k: row[k] for k in expected[0]} for row in compared['ranks']], expected)
        for step in compared['steps']:
            at = [s['begin_ns'] + clock['base_unix_ns'] + clock['wall_offset_ns']
                  for c, clock in ((c, c.manifest['clock']) for c in found)
                  for s in c.manifest['steps'] if s['index'] == step['index']]
            self.assertEqual(step['begin_skew_ns'], max(at) - min(at))
            self.assertEqual(step['ranks'], 8)
        offsets = [c.manifest['clock']['wall_offset_ns'] for c in found]
        self.assertEqual(compared['clock_offset_ns'], max(offsets) - min(offsets))
        errors = sorted(c.manifest['clock']['wall_error_ns'] for c in found)
        self.assertEqual(compared['clock_error_ns'], sum(errors[-2:]))
        self.assertEqual(compared['slowest']['rank'], 5)
        named = [r['rank'] for r in compared['readings'] if r['id'] == 'straggler']
        self.assertEqual(named, [5])
        text = self.control('report', run, status=None).stdout
        rows = [line for line in text.splitlines() if line.endswith('  slowest')]
        self.assertEqual([row.split()[0] for row in rows], ['5'])
        self.assertIn('Rank 5 takes', result.stderr)
        self.assertIn('stepagent report', result.stderr)

    @unittest.skipIf(pod.available(), 'two hosts: %s' % pod.available())
    def test_two_hosts_in_one_folder(self):
        """Each has its own clock, collector and files; the report shows both and says what it cannot know."""
        hosts = ('node-a', 'node-b')
        started = []
        for rank, host in enumerate(hosts):
            env = dict(harness.launcher_environment(), STEPAGENT_RUN='20260102T030405_00c0ffee',
                       STEPAGENT_RUNTIME_DIR=os.path.join(self.scratch, host), RANK=str(rank), WORLD_SIZE='2')
            script = 'hostname %s && exec "$0" "$@"' % host
            started.append(self.start_app(
                ['unshare', '--uts', '--net', '/bin/sh', '-c', script, harness.STEPAGENT, 'run', '-o', self.out,
                 '--step', 'nvtx:train_step', '--schedule', 'active=3,repeat=1', '--', app('train_loop'),
                 '--steps', '8'], env))
        for process in started:
            _, stderr = process.communicate(timeout=harness.PATIENCE * 4)
            self.assertEqual(process.returncode, 0, stderr)
        found = self.traced(2)
        self.assertEqual({c.manifest['session']['host']: c.manifest['session']['rank'] for c in found},
                         {'node-a': 0, 'node-b': 1})
        names = sorted(os.listdir(os.path.join(self.out, 'latest', 'traces', 'cycle-0000')))
        self.assertEqual([n.split('_rank')[0] for n in names], ['train_loop_node-a', 'train_loop_node-b'])
        for cycle in found:
            for file in cycle.manifest['files']:
                self.assertEqual(os.path.getsize(os.path.join(cycle.run_folder, file['name'])), file['bytes'])
        run = os.path.join(self.out, 'latest')
        compared, = json.loads(self.control('report', run, '--json').stdout)['ranks']
        self.assertEqual((compared['hosts'], compared['host_names'], compared['clock_offset_ns']),
                         (2, list(hosts), None))
        text = ' '.join(self.control('report', run).stdout.split())
        self.assertIn('hosts: node-a (rank 0); node-b (rank 1). Their clocks are not one clock and the '
                      'offset between them is unknown', text)

    @unittest.skipUnless(os.path.exists(READERS), 'Holistic Trace Analysis is not installed')
    def test_holistic_trace_analysis_reads_all_ranks(self):
        _, found = self.run_ranks()
        folder = os.path.join(self.out, 'latest', 'traces', 'cycle-0000')
        reader = os.path.join(harness.SOURCE, 'tests', 'support', 'read_hta.py')
        result = subprocess.run([READERS, reader, folder], capture_output=True, text=True,
                                check=False, timeout=harness.PATIENCE * 6,
                                env=dict(harness.clean_environment(), PYTHONPATH=''))
        self.assertEqual(result.returncode, 0, result.stderr)
        read = json.loads(result.stdout.splitlines()[-1])
        self.assertEqual(read['ranks'], list(range(8)))
        self.assertEqual({row['rank'] for row in read['breakdown']}, set(range(8)))
        # HTA leaves out the last step, which it takes to be cut short.
        for cycle in found:
            rank = cycle.manifest['session']['rank']
            rows = sum(s['kernels'] + s['copies'] + s['sets'] for s in cycle.manifest['steps'][:-1])
            self.assertGreaterEqual(read['gpu_rows'][str(rank)], rows)


if __name__ == '__main__':
    harness.main()
