"""Many processes as one run: launchers' variables, one collector, one begin step for all ranks."""
import json
import os
import re
import signal

import harness
from harness import AgentTest, app, eventually

# What a launcher of each kind tells its ranks; {r} the rank, {n} the number of ranks.
LAUNCHERS = {
    'torchrun': {'RANK': '{r}', 'LOCAL_RANK': '{r}', 'WORLD_SIZE': '{n}', 'MASTER_ADDR': '127.0.0.1',
                 'MASTER_PORT': '29500', 'TORCHELASTIC_RUN_ID': 'none'},
    'slurm': {'SLURM_JOB_ID': '77', 'SLURM_STEP_ID': '0', 'SLURM_PROCID': '{r}',
              'SLURM_LOCALID': '{r}', 'SLURM_NTASKS': '{n}'},
    'mpirun': {'OMPI_COMM_WORLD_RANK': '{r}', 'OMPI_COMM_WORLD_SIZE': '{n}',
               'OMPI_COMM_WORLD_LOCAL_RANK': '{r}', 'OMPI_MCA_ess_base_jobid': '1234'},
}


class Launchers(AgentTest):
    """Bare preload under a launcher that knows nothing of us: ranks and the run come from its variables."""

    def ranks(self, launcher, count=4):
        env = self.environment(schedule='wait=1,warmup=1,active=2,repeat=1', step='nvtx:train_step')
        started = []
        for rank in range(count):
            variables = {k: v.format(r=rank, n=count) for k, v in LAUNCHERS[launcher].items()}
            started.append(self.start_app([app('train_loop'), '--steps', '8'],
                                          dict(env, **variables)))
        for process in started:
            out, err = process.communicate(timeout=harness.PATIENCE * 4)
            self.assertEqual(process.returncode, 0, out + err)
        found = self.traced(count)
        self.assertEqual(len(harness.runs(self.out)), 1, 'one run folder')
        self.assertEqual(sorted(c.manifest['session']['rank'] for c in found), list(range(count)))
        for cycle in found:
            session = cycle.manifest['session']
            self.assertEqual((session['world_size'], session['local_rank']), (count, session['rank']))
            self.assertIn(session['rank_source'], LAUNCHERS[launcher])
            self.assertEqual(cycle.steps, [2, 3])
        self.assertEqual(os.readlink(os.path.join(self.out, 'latest')),
                         os.path.basename(harness.runs(self.out)[0]))

    def test_torchrun(self):
        self.ranks('torchrun')

    def test_slurm(self):
        self.ranks('slurm')

    def test_mpirun(self):
        self.ranks('mpirun')

    def test_python_pools(self):
        """spawn and forkserver: workers are ranks by device and pid, helpers leave nothing."""
        worker = os.path.join(self.scratch, 'pool.py')
        with open(worker, 'w', encoding='utf-8') as out:
            out.write('import multiprocessing, subprocess, sys\n'
                      'def work(i):\n'
                      '    return subprocess.run([%r, "--steps", "6"], capture_output=True).returncode\n'
                      'if __name__ == "__main__":\n'
                      '    context = multiprocessing.get_context(sys.argv[1])\n'
                      '    with context.Pool(2) as pool:\n'
                      '        sys.exit(max(pool.map(work, range(2), 1)))\n' % app('train_loop'))
        for way in ('spawn', 'forkserver'):
            out = os.path.join(self.scratch, way)
            env = harness.launcher_environment()
            result = self.run_app([harness.STEPAGENT, 'run', '-o', out, '--step', 'nvtx:train_step',
                                   '--schedule', 'warmup=1,active=2,repeat=1', '--',
                                   '/usr/bin/python3', worker, way], env)
            found = self.traced(2, out)
            self.assertEqual(sorted(c.manifest['session']['rank'] for c in found), [0, 1])
            self.assertEqual({c.manifest['session']['rank_source'] for c in found}, {'assigned'})
            self.assertEqual(len(harness.sessions(out)), 2, 'helpers leave nothing')
            self.assertIn('rank 1', result.stderr)


class Together(AgentTest):
    """`start --all` picks one step ahead of every rank."""

    def setUp(self):
        super().setUp()
        self.runtime = os.path.join(self.scratch, 'runtime')  # a name space of its own for --all
        self.env = self.environment(step='nvtx:train_step', runtime_dir=self.runtime, arm='demand')

    def rank(self, rank, *options, steps='1000000'):
        return self.start_app([app('train_loop'), '--steps', steps, '--sleep-us', '2000', *options],
                              dict(self.env, RANK=str(rank), WORLD_SIZE='4'))

    def ask(self, *arguments, status=0):
        return self.control(*arguments, status=status, env=dict(
            harness.clean_environment(), STEPAGENT_RUNTIME_DIR=self.runtime))

    def rows(self):
        result = self.ask('status', '--json', status=None)
        return json.loads(result.stdout) if result.stdout.strip() else []

    def await_stepping(self, count):
        eventually(lambda: sum(row['step'] > 3 for row in self.rows()) == count,
                   '%d ranks step' % count)

    def test_all_ranks_record_the_same_steps(self):
        started = [self.rank(0)]
        self.await_stepping(1)  # a head start: their counts differ
        started += [self.rank(rank) for rank in (1, 2, 3)]
        self.await_stepping(4)
        ahead = max(row['step'] for row in self.rows())
        result = self.ask('start', '--all', '--steps', '3')
        at = int(re.search(r'begins with step (\d+)', result.stderr).group(1))
        self.assertGreater(at, ahead)
        for process in started:
            self.stop_app(process)
        steps = {c.manifest['session']['rank']:
                 [s['process_index'] for s in c.manifest['steps']] for c in harness.cycles(self.out)}
        self.assertEqual(steps, {rank: [at, at + 1, at + 2] for rank in range(4)})

    def test_the_last_lines_show_the_cycle_that_all_ranks_have(self):
        """One rank that recorded alone afterwards takes nothing from the comparison."""
        script = ('for r in 0 1; do RANK=$r WORLD_SIZE=2 %s --steps 1000000 --sleep-us 2000 & p="$p $!"; done; '
                  'read line < %s; kill -TERM $p; wait; exit 0')
        go = os.path.join(self.scratch, 'go')
        os.mkfifo(go)
        launcher = self.start_app(
            [harness.STEPAGENT, 'run', '-o', self.out, '--step', 'nvtx:train_step', '--arm', 'demand', '--',
             '/bin/sh', '-c', script % (app('train_loop'), go)],
            dict(harness.launcher_environment(), STEPAGENT_RUNTIME_DIR=self.runtime))
        self.await_stepping(2)
        self.ask('start', '--all', '--steps', '2')
        self.ask('start', '--rank', '1', '--steps', '2')
        with open(go, 'w', encoding='ascii') as line:
            line.write('go\n')
        _, stderr = launcher.communicate(timeout=harness.PATIENCE * 4)
        self.assertIn('ranks in cycle 0:', stderr)
        # The newest run by its own name and by `latest` is one.
        paths = [os.path.join(self.out, name) for name in sorted(os.listdir(self.out))]
        self.assertEqual(len(paths), 2)
        report = self.control('report', *paths, '--json')
        self.assertEqual(len(json.loads(report.stdout)['cycles']), 3)

    def test_a_step_of_ones_own_choice(self):
        started = [self.rank(rank) for rank in range(2)]
        self.await_stepping(2)
        at = max(row['step'] for row in self.rows()) + 500
        self.ask('start', '--all', '--steps', '2', '--at-step', str(at))
        for process in started:
            self.stop_app(process)
        for cycle in harness.cycles(self.out):
            self.assertEqual([s['process_index'] for s in cycle.manifest['steps']], [at, at + 1])

    def test_a_step_that_is_past(self):
        process = self.rank(0)
        self.await_stepping(1)
        result = self.ask('start', '--all', '--steps', '2', '--at-step', '1', status=1)
        self.assertIn('step 1', result.stdout + result.stderr)
        self.assertEqual([row['phase'] for row in self.rows()], ['idle'])
        self.stop_app(process)

    def test_ranks_that_never_come_are_named(self):
        running = self.rank(0)
        self.await_stepping(1)
        stuck = self.rank(1)
        self.await_stepping(2)
        # Its agent answers, its steps do not come: a step far ahead that only one process reaches.
        at = max(row['step'] for row in self.rows()) + 400
        slow = self.rank(2, '--sleep-us', '20000000')
        eventually(lambda: len(self.rows()) == 3, 'the slow one answers')
        result = self.ask('start', '--all', '--steps', '2', '--at-step', str(at), '--timeout', '6s',
                          status=1)
        self.assertIn('rank 2 (pid %d) never reached step %d' % (slow.pid, at), result.stderr)
        self.assertNotIn('rank 0', re.findall('.*never reached.*', result.stderr)[0])
        eventually(lambda: {row['phase'] for row in self.rows()} <= {'idle', 'done'},
                   'none is left armed')
        for process in (running, stuck, slow):
            process.kill()

    def test_one_that_records_already_has_no_say(self):
        """Far ahead of the others and busy: their common step is not beyond it."""
        ahead = self.rank(0, '--sleep-us', '0')
        eventually(lambda: any(row['step'] > 3000 for row in self.rows()), 'a head start')
        self.ask('start', '--rank', '0', '--for', '600s', '--no-wait')
        others = [self.rank(rank, '--sleep-us', '10000') for rank in (1, 2)]
        self.await_stepping(3)
        # Rank 0 refuses; the others record, and soon.
        result = self.ask('start', '--all', '--steps', '2', status=1)
        at = int(re.search(r'begins with step (\d+)', result.stderr).group(1))
        self.assertLess(at, 3000, result.stderr)
        self.assertIn('busy: already', result.stdout)
        for process in others:
            self.stop_app(process)
        ahead.kill()
        ahead.wait()
        steps = {c.manifest['session']['rank']: [s['process_index'] for s in c.manifest['steps']]
                 for c in harness.cycles(self.out)}
        self.assertEqual((steps[1], steps[2]), ([at, at + 1], [at, at + 1]))

    def test_the_timeout_is_of_the_whole_command(self):
        processes = [self.rank(rank) for rank in range(2)]
        self.await_stepping(2)
        at = max(row['step'] for row in self.rows()) + 500000
        result = self.ask('start', '--all', '--steps', '2', '--at-step', str(at), '--timeout', '2s',
                          status=1)
        self.assertEqual(result.stderr.count('never reached step %d' % at), 2, result.stderr)
        eventually(lambda: {row['phase'] for row in self.rows()} <= {'idle', 'done'},
                   'none is left armed')
        # What is being recorded goes on, and is said to.
        result = self.ask('start', '--all', '--steps', '1000000', '--timeout', '4s', status=1)
        self.assertEqual(result.stderr.count('goes on (active): stepagent wait'), 2, result.stderr)
        self.assertEqual({row['phase'] for row in self.rows()}, {'active'})
        for process in processes:
            process.kill()

    def test_two_starts_at_once_do_not_share_the_ranks(self):
        processes = [self.rank(rank) for rank in range(4)]
        self.await_stepping(4)
        env = dict(harness.clean_environment(), STEPAGENT_RUNTIME_DIR=self.runtime)
        both = [self.start_app([harness.STEPAGENT, 'start', '--all', '--steps', '3'], env)
                for _ in range(2)]
        said = [one.communicate(timeout=harness.PATIENCE * 4) for one in both]
        for process in processes:
            self.stop_app(process)
        begun = {}
        for cycle in harness.cycles(self.out):
            steps = [s['process_index'] for s in cycle.manifest['steps']]
            begun.setdefault(cycle.manifest['cycle']['index'], set()).add(steps[0])
        self.assertEqual({len(steps) for steps in begun.values()}, {1}, (begun, said))
        # One of them is refused in words, or comes when the other is done.
        for one, (out, err) in zip(both, said):
            if one.returncode != 0:
                self.assertRegex(out + err, 'busy|another start')
        self.assertIn(0, [one.returncode for one in both], said)

    def test_a_rank_that_hangs_takes_nothing_from_the_others(self):
        """What is said of each healthy rank is what became of it, though one of them answers nothing."""
        started = [self.rank(rank) for rank in range(3)]
        self.await_stepping(3)
        healthy = [process.pid for process in started[:2]]
        os.kill(started[2].pid, signal.SIGSTOP)
        written = {pid: 0 for pid in healthy}
        for timeout in ('3s', '2s'):
            result = self.ask('start', '--all', '--steps', '2', '--timeout', timeout, status=1)
            said = re.split(r'^(?=\d+  )', result.stdout, flags=re.M)
            self.assertRegex(result.stdout, r'(?m)^%d  .*train_loop.*  rank 2  no state: does not answer '
                                            r'within --timeout: ' % started[2].pid)
            for row in self.rows():
                if row['pid'] not in healthy:
                    continue
                block, = [one for one in said if one.startswith('%d  ' % row['pid'])]
                new = row['cycles_written'] - written[row['pid']]
                written[row['pid']] += new
                # Called off only where there is nothing, and a trace named where there is one.
                self.assertEqual('.pt.trace.json' in block, new == 1, (block, new, result.stderr))
                named = re.search(r'\(pid %d\) (never reached|was to be called off)' % row['pid'],
                                  result.stderr)
                is_out = named is not None or 'no state' in block or 'refused' in block
                self.assertEqual(is_out, new == 0, (block, new, result.stderr))
        for process in started:
            process.kill()

    def test_a_request_without_an_answer_is_not_carried_out_later(self):
        process = self.rank(0)
        self.await_stepping(1)
        os.kill(process.pid, signal.SIGSTOP)
        try:
            result = self.ask('start', str(process.pid), '--steps', '2', '--no-wait', status=1)
        finally:
            os.kill(process.pid, signal.SIGCONT)
        self.assertIn('no answer in time: the request is withdrawn', result.stdout + result.stderr)
        before = eventually(self.rows, 'it answers again')[0]
        self.assertEqual(before['phase'], 'idle')
        self.ask('start', str(process.pid), '--steps', '2')
        self.assertEqual([row['cycles_written'] for row in self.rows()], [1])
        self.stop_app(process)


if __name__ == '__main__':
    harness.main()
