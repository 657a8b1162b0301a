"""The commands' own words: what is refused, which process was meant, what ended a run."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import harness
from harness import AgentTest, app, eventually


class Commands(AgentTest):
    def setUp(self):
        super().setUp()
        self.runtime = os.path.join(self.scratch, 'runtime')
        self.env = dict(harness.clean_environment(), STEPAGENT_RUNTIME_DIR=self.runtime)

    def ask(self, *arguments, status=0):
        return self.control(*arguments, env=self.env, status=status)

    def serve(self, *options, **settings):
        env = self.environment(STEPAGENT_RUNTIME_DIR=self.runtime, **settings)
        process = self.start_app([app('server'), *options], env)
        self.assertIn('ready', process.stdout.readline())
        eventually(lambda: self.phase(process.pid) == 'idle', 'idle')
        return process

    def phase(self, pid):
        result = self.ask('status', str(pid), '--json', status=None)
        return json.loads(result.stdout)[0]['phase'] if result.returncode == 0 else None


class Start(Commands):
    def test_an_option_given_nothing_is_not_one_left_out(self):
        for option in ('--at-step', '--steps', '--for', '--timeout', '--rank', '--name', '--session'):
            with self.subTest(option=option):
                self.assertEqual(self.ask('start', '--all', option, '', status=2).stderr,
                                 'stepagent: start: %s needs a value\n' % option)

    def test_a_required_kind_that_is_not_recorded_is_refused(self):
        process = self.serve()
        result = self.ask('start', str(process.pid), '--require', 'memory', '--for', '100ms', status=1)
        self.assertIn("refused: --require: 'memory': not among the activities recorded; allowed: kernel",
                      result.stdout)
        self.assertEqual(self.phase(process.pid), 'idle')
        self.ask('start', str(process.pid), '--require', 'memory', '--activities', '+memory',
                 '--for', '100ms')
        self.stop_app(process)
        cycle, = self.traced(1)
        self.assertTrue(cycle.manifest['kinds']['memory']['enabled'])

    def test_busy_is_said_with_and_without_a_length(self):
        process = self.serve()
        self.ask('start', str(process.pid), '--no-wait')
        eventually(lambda: self.phase(process.pid) == 'active', 'active')
        for more in ((), ('--steps', '2', '--step', 'nvtx:request'), ('--for', '100ms')):
            result = self.ask('start', str(process.pid), *more, status=1)
            self.assertIn('busy: already active', result.stdout)
        self.ask('stop', str(process.pid))
        self.stop_app(process)

    def test_steps_without_a_step_source_names_what_was_seen(self):
        process = self.serve()
        result = self.ask('start', str(process.pid), '--steps', '2', status=1)
        self.assertIn('--steps needs a step source: give --step', result.stdout)
        self.assertNotIn('ranges seen', result.stdout)  # nothing is counted while idle
        self.ask('start', str(process.pid), '--for', '200ms')
        result = self.ask('start', str(process.pid), '--steps', '2', status=1)
        self.assertRegex(result.stdout, r'; ranges seen:.* --step nvtx:request \([0-9]+\)')
        self.stop_app(process)

    def test_a_rank_that_is_not_there_is_named(self):
        process = self.serve(RANK='0')
        result = self.ask('start', '--rank', '0,9', '--for', '100ms', status=1)
        self.assertIn('no process that answers is rank 9', result.stderr)
        self.stop_app(process)
        self.traced(1)  # rank 0 did as it was told

    def test_an_assigned_rank_is_known_once_it_is(self):
        """The collector numbers a process that no launcher did, with its first cycle."""
        process = self.serve()
        result = self.ask('start', '--rank', '0', '--for', '100ms', status=1)
        self.assertIn('--rank matches none of the 1 processes that answer; 1 process that answers has no '
                      'rank yet (no launcher gave one; it is assigned with the first recording): give a '
                      'PID, --gpu, --name or --all', result.stderr)
        self.ask('start', '--all', '--for', '100ms')
        self.assertIn('  rank 0  ', self.ask('status').stdout)
        self.assertEqual(json.loads(self.ask('status', '--json').stdout)[0]['rank'], 0)
        result = self.ask('start', '--rank', '0', '--for', '100ms')
        self.assertIn('.pt.trace.json.gz', result.stdout)
        self.stop_app(process)
        self.traced(2)

    def test_bare_says_which_process_it_acts_on(self):
        process = self.serve()
        result = self.ask('start', '--for', '100ms')
        self.assertIn('stepagent: start: the one process that answers: %d  ' % process.pid,
                      result.stderr)
        result = self.ask('start', str(process.pid), '--for', '100ms')
        self.assertNotIn('the one process', result.stderr)
        other = self.serve()
        self.assertIn('2 processes answer', self.ask('start', '--for', '1s', status=1).stderr)
        self.stop_app(other)
        self.stop_app(process)


class Users(Commands):
    @unittest.skipUnless(os.geteuid() == 0, 'to be another user needs root')
    def test_another_users_process_is_named_as_that(self):
        process = self.serve()
        for command in ('status', 'start', 'wait'):
            try:
                result = subprocess.run([harness.STEPAGENT, command, str(process.pid)], user=65534, group=65534,
                                        extra_groups=[], cwd='/', env=harness.clean_environment(),
                                        capture_output=True, text=True, check=False)
            except PermissionError:
                self.skipTest('the build folder is not that user\'s to read')
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn('process %d is user 0\'s: only that user and root may ask it, and this is user 65534\n'
                          % process.pid, result.stderr)
        self.stop_app(process)


class Waiting(Commands):
    def test_a_path_that_is_not_there_is_said_at_once(self):
        missing = os.path.join(self.scratch, 'later')
        process = self.start_app([harness.STEPAGENT, 'wait', missing], self.env)
        self.assertEqual(process.stderr.readline(),
                         'stepagent: wait: %s: not there, and no session in it; waiting for one '
                         '(--timeout S bounds that)\n' % missing)
        self.assertIsNone(process.poll())
        # What comes later ends the wait: a path may be awaited before its run begins.
        env = harness.agent_environment(missing, sim=False, schedule='active=1,repeat=1',
                                        step='nvtx:train_step')
        self.run_app([app('train_loop'), '--host-only', '--steps', '3'], env)
        self.assertEqual(process.wait(timeout=harness.PATIENCE), 0)

    def step(self, schedule, *options):
        """A process that lives on, with its steps under this schedule."""
        env = self.environment(STEPAGENT_RUNTIME_DIR=self.runtime, sim=False, schedule=schedule,
                               step='nvtx:train_step')
        return self.start_app([app('train_loop'), '--host-only', '--steps', '1000000', *options], env)

    def states(self):
        """Of the cycles, as their sessions tell."""
        found = []
        for folder in harness.sessions(self.out):
            try:
                with open(os.path.join(folder, 'session.json'), encoding='utf-8') as file:
                    found += [cycle['state'] for cycle in json.load(file)['cycles']]
            except FileNotFoundError:
                pass
        return found

    def test_a_pause_between_two_cycles_is_no_end(self):
        process = self.step('wait=20,warmup=1,active=1,repeat=3', '--sleep-us', '20000')
        eventually(lambda: self.states()[:1] == ['written'], 'the first cycle')
        self.ask('wait', self.out, '--timeout', str(int(harness.PATIENCE)))
        self.assertIsNone(process.poll())
        self.assertEqual(self.states(), ['written'] * 3)
        # No further one is to come: at once, as with a process that waits for a signal.
        self.ask('wait', self.out, '--timeout', '0')
        self.stop_app(process)

    def test_a_cycle_that_does_not_come_in_time_is_named(self):
        process = self.step('skip_first=1,active=1,wait=1000000,skip_first_wait=1,repeat=2',
                            '--sleep-us', '20000')
        eventually(lambda: self.states() == ['written'], 'the first cycle')
        result = self.ask('wait', self.out, '--timeout', '0', status=1)
        self.assertRegex(result.stderr, r'wait: timeout: rank 0 \(pid %d\) is waiting at step [0-9]+ and '
                                        r'is to record another cycle\n' % process.pid)
        process.send_signal(signal.SIGSTOP)
        result = self.ask('wait', self.out, '--timeout', '0', status=1)
        self.assertRegex(result.stderr, r'timeout: .*%d.* does not answer: whether it is to record another '
                                        r'cycle is not known' % process.pid)
        process.send_signal(signal.SIGCONT)
        self.stop_app(process)
        self.ask('wait', self.out, '--timeout', str(int(harness.PATIENCE)))

    def test_a_server_that_waits_for_a_command_is_at_rest(self):
        process = self.serve()
        self.ask('start', str(process.pid), '--for', '100ms')
        self.ask('wait', self.out, '--timeout', '0')
        self.stop_app(process)

    def test_a_process_whose_folder_was_removed_is_not_waited_for(self):
        process = self.serve()
        self.ask('start', str(process.pid), '--for', '100ms')
        folder, = harness.sessions(self.out)
        shutil.rmtree(self.out)
        result = self.ask('wait', str(process.pid), '--timeout', '0')
        self.assertEqual(result.stderr, 'stepagent: wait: %s: not to be seen from here (removed, or another '
                         "container's); process %d says that it has nothing more to write\n" % (folder, process.pid))
        self.stop_app(process)

    def test_a_file_is_refused(self):
        path = os.path.join(self.scratch, 'file')
        with open(path, 'w', encoding='utf-8') as file:
            file.write('x')
        result = self.ask('wait', path, status=2)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1)
        self.assertIn(path + ': a file; allowed: an output, run or session folder', result.stderr)


class Reports(Commands):
    def test_rows_are_a_whole_number(self):
        for command in (['report', '/none'], ['diff', '/none', '/none']):
            for bad in ('-1', '1.5', 'many', ''):
                result = self.ask(*command, '--top', bad, status=2)
                self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
                self.assertIn("--top: '%s': allowed: a whole number; 0 shows all" % bad, result.stderr)

    def test_an_empty_list_of_events_is_no_trace(self):
        for text in ('[]', '{"traceEvents": []}'):
            path = os.path.join(self.scratch, 'empty.json')
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
            result = self.ask('report', path, status=3)
            self.assertIn(path + ': holds no trace', result.stderr)


    def test_any_file_or_folder_of_a_run_is_a_way_to_it(self):
        env = harness.agent_environment(self.out, sim=False, schedule='active=1,repeat=1',
                                        step='nvtx:train_step')
        self.run_app([app('train_loop'), '--host-only', '--steps', '3'], env)
        cycle, = self.traced(1)
        run = os.path.join(self.out, 'latest')
        wanted = self.ask('report', run).stdout
        for path in (os.path.join(run, 'traces'), os.path.join(run, 'traces') + '/',
                     os.path.join(os.path.dirname(cycle.folder), 'session.json'),
                     os.path.join(cycle.folder, 'summary.json')):
            self.assertEqual(self.ask('report', path).stdout.count('train_step'),
                             wanted.count('train_step'), path)

    def test_steps_alone_are_what_run_shows_where_nothing_else_was_asked_for(self):
        result = self.ask('run', '-o', self.out, '--activities', 'none', '--step', 'nvtx:train_step',
                          '--schedule', 'active=1,repeat=1', '--', app('train_loop'), '--host-only',
                          '--steps', '3')
        cycle, = self.traced(1)
        self.assertIn(os.path.join(cycle.folder, 'steps.csv'), result.stderr)


class Output(Commands):
    def test_what_cannot_be_printed_is_no_success(self):
        env = harness.agent_environment(self.out, sim=False, schedule='active=1,repeat=1',
                                        step='nvtx:train_step')
        self.run_app([app('train_loop'), '--host-only', '--steps', '3'], env)
        cycle, = self.traced(1)
        for command in (['report', self.out], ['report', '--json', self.out],
                        ['diff', cycle.folder, cycle.folder]):
            with open('/dev/full', 'w', encoding='utf-8') as full:
                result = subprocess.run([harness.STEPAGENT, *command], stdout=full, text=True,
                                        stderr=subprocess.PIPE, env=self.env, check=False)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn('stepagent: the output could not be written whole: No space left',
                          result.stderr)

    def test_a_chrome_trace_is_not_written_under_a_name_that_says_plain(self):
        result = self.ask('convert', '/none', '--to', 'chrome', '-o',
                          os.path.join(self.scratch, 'plain.json'), status=2)
        self.assertIn('allowed: a name that ends in .json.gz', result.stderr)

    def test_calls_alone_are_reported_and_what_is_missing_is_not_zero(self):
        events = [{'ph': 'X', 'cat': 'user_annotation', 'name': 'ProfilerStep#0', 'pid': 1, 'tid': 1,
                   'ts': 10, 'dur': 100},
                  {'ph': 'X', 'cat': 'cuda_runtime', 'name': 'cudaLaunchKernel', 'pid': 1, 'tid': 1,
                   'ts': 20, 'dur': 5, 'args': {'correlation': 1}}]
        path = os.path.join(self.scratch, 'calls.json')
        with open(path, 'w', encoding='utf-8') as file:
            json.dump({'traceEvents': events}, file)
        summary, = json.loads(self.ask('report', '--json', path).stdout)['cycles']
        self.assertEqual(summary['gpu']['status'], 'partial')
        self.assertIn('holds no device rows', summary['gpu']['reason'])
        self.assertEqual([row['count'] for row in summary['calls']], [1])
        step, = summary['steps']['each']
        self.assertEqual((step['launches'], step['kernels'], step['copies']), (1, None, None))
        self.assertIsNone(summary['launches'])


class Places(Commands):
    def test_a_runtime_folder_that_cannot_be_used_costs_nothing(self):
        """XDG_RUNTIME_DIR of a host inside a container: the abstract names serve."""
        plain = {k: v for k, v in harness.launcher_environment().items()
                 if k not in ('STEPAGENT_RUNTIME_DIR', 'XDG_RUNTIME_DIR')}
        for name in ('XDG_RUNTIME_DIR', 'STEPAGENT_RUNTIME_DIR'):
            with self.subTest(name):
                out = os.path.join(self.scratch, name)
                result = self.run_app(
                    [harness.STEPAGENT, 'run', '-o', out, '--step', 'nvtx:train_step', '--schedule',
                     'active=2,repeat=1', '--', app('train_loop'), '--steps', '4'],
                    dict(plain, **{name: '/proc/none'}))
                self.assertNotIn('nothing was recorded', result.stderr)
                self.assertTrue(self.traced(1, out)[0].manifest['cycle']['complete'])


class Log(Commands):
    def test_a_file_that_cannot_be_written_is_one_line_and_stderr_takes_its_place(self):
        blocked = os.path.join(self.scratch, 'none', 'log')
        env = self.environment(sim=False, schedule='active=1,repeat=1', step='nvtx:train_step',
                               log='info:' + blocked)
        result = self.run_app([app('train_loop'), '--host-only', '--steps', '3'], env)
        lines = [l for l in result.stderr.splitlines() if '--log' in l]
        self.assertEqual(lines, ['stepagent: --log: %s: No such file or directory; its lines come '
                                 'here instead' % blocked])
        self.assertIn('stepagent: done (', result.stderr)
        self.traced(1)


class Caps(Commands):
    def limited(self, **settings):
        env = self.environment(sim=False, schedule='active=100000,repeat=1', step='nvtx:train_step',
                               **settings)
        self.run_app([app('train_loop'), '--host-only', '--steps', '100'], env)
        cycle, = self.traced(1)
        self.assertEqual(cycle.manifest['cycle']['ended'], 'limit')
        self.assertEqual(cycle.summary['cycle'], cycle.manifest['cycle'])
        return cycle.manifest['cycle']['reason']

    def test_the_cap_that_ended_a_cycle_has_its_name(self):
        self.assertEqual(self.limited(max_window='300ms'), 'max-window reached: 300 ms')

    def test_so_have_records(self):
        self.assertEqual(self.limited(max_records='200'), 'max-records reached: 200')

    def test_and_the_collectors_bytes(self):
        self.assertIn('max-bytes reached', self.limited(max_bytes='4000'))


class Versions(Commands):
    @staticmethod
    def note(path):
        """The linker's id of a file, as another tool reads it."""
        text = subprocess.run(['readelf', '-n', path], capture_output=True, text=True, check=True).stdout
        return re.search(r'Build ID: ([0-9a-f]{8})', text).group(1)

    def test_every_program_names_its_build_and_the_library_does_in_its_session(self):
        version = re.escape('0.1.0+')
        for program in (harness.STEPAGENT, harness.STEPCOLLECTOR):
            said = self.run_app([program, '--version'], self.env).stdout
            self.assertRegex(said, '^%s %s%s\n$' % (os.path.basename(program), version,
                                                    self.note(program)))
        env = self.environment(sim=False, schedule='active=1,repeat=1', step='nvtx:train_step')
        self.run_app([app('train_loop'), '--host-only', '--steps', '3'], env)
        cycle, = self.traced(1)
        core = os.path.join(os.path.dirname(harness.STUB), 'libstepagent_core.so')
        self.assertEqual(cycle.manifest['session']['agent_version'], '0.1.0+' + self.note(core))


class Run(Commands):
    def run_steps(self, *options, status=0, steps=4):
        command = [harness.STEPAGENT, 'run', '-o', self.out, '--schedule', 'active=2,repeat=1',
                   '--step', 'nvtx:train_step', *options, '--', app('train_loop'), '--host-only',
                   '--steps', str(steps)]
        return self.run_app(command, self.env, status=status)

    def test_steps_have_one_duration_in_one_manifest(self):
        self.run_steps()
        cycle, = self.traced(1)
        by_index = {row['index']: row['dur_ns'] for row in cycle.manifest['all_steps']['each']}
        self.assertGreater(len(cycle.manifest['steps']), 1)
        for step in cycle.manifest['steps']:
            self.assertEqual(by_index[step['process_index']], step['end_ns'] - step['begin_ns'])

    def test_a_folder_that_cannot_be_made_is_the_reason(self):
        with open(self.out, 'w', encoding='utf-8'):
            pass
        result = self.run_steps()
        self.assertIn('%s: cannot be created: %s: Not a directory; give --out DIR' % (self.out, self.out),
                      result.stderr)
        self.assertNotIn('no process of the run came to a first warmup', result.stderr)

    def test_a_folder_that_is_removed_meanwhile_is_the_reason(self):
        """While its collector is there, and long after that has left."""
        for schedule in ('active=1000000', 'active=1,repeat=1'):
            launcher = self.start_app(
                [harness.STEPAGENT, 'run', '-o', self.out, '--schedule', schedule, '--step', 'nvtx:train_step',
                 '--', app('train_loop'), '--host-only', '--steps', '1000000', '--sleep-us', '1000'], self.env)
            eventually(lambda: glob.glob(self.out + '/2*/sessions/*/session.json'), 'it records')
            if 'repeat' in schedule:
                # The launcher has looked since, and does not look again.
                eventually(lambda: not harness.collectors(self.out), 'the collector leaves')
            run, = harness.runs(self.out)
            shutil.rmtree(self.out)
            self.ask('stop', '--all', status=None)
            launcher.send_signal(signal.SIGTERM)  # goes to its child
            _, stderr = launcher.communicate(timeout=harness.PATIENCE * 4)
            self.assertIn('stepagent: nothing is left of what was recorded\nstepagent:   %s was removed while '
                          'the program ran: ' % run, stderr)

    def test_a_named_collector_says_where_the_traces_are(self):
        where = os.path.join(self.scratch, 'of-collector')
        path = os.path.join(self.scratch, 'socket')
        collector = self.start_app([harness.STEPCOLLECTOR, '--socket', path, '--out', where], self.env)
        eventually(lambda: os.path.exists(path), 'the collector listens')
        result = self.run_steps('--collector', path)
        self.assertIn('stepagent: traces in %s/' % where, result.stderr)
        self.assertIn('.pt.trace.json.gz', result.stderr)
        self.assertFalse(os.path.exists(self.out))
        # Nothing of that run, and it is there: true as well.
        result = self.run_steps('--collector', path, steps=0)
        self.assertIn('the collector at %s has no session of this run' % path, result.stderr)
        self.stop_app(collector)
        result = self.run_steps('--collector', path)
        self.assertIn('no collector listens at %s: ' % path, result.stderr)
        self.assertIn('stepcollector --socket %s --out DIR' % path, result.stderr)

    def left(self, way, *before, status):
        """The cycle of a program that left by `way` without a goodbye, and the exit lines."""
        # Three seconds: its collector has started by then.
        command = [*before, app('exit_ways'), way, '1000', '3000', '--in-step']
        result = self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--step', 'nvtx:train_step',
                               '--schedule', 'active=1000000', '--', *command], self.env, status=status)
        cycle, = self.traced(1)
        self.assertEqual(cycle.manifest['cycle']['ended'], 'killed')
        self.assertEqual(cycle.summary['cycle'], cycle.manifest['cycle'])
        return cycle, result.stderr

    def test_what_killed_the_child_is_in_every_document(self):
        cycle, said = self.left('kill', status=-signal.SIGKILL)
        why = 'killed by signal 9 (SIGKILL)'
        self.assertEqual(cycle.manifest['cycle']['reason'], why)
        self.assertEqual(cycle.manifest['cycle']['signal'], 9)
        with open(os.path.join(cycle.folder, 'summary.txt'), encoding='utf-8') as summary:
            self.assertIn(why, ' '.join(summary.read().split()))
        self.assertIn('ended by: killed (%s)' % why, said)
        # A later reader of the raw file alone knows it, too.
        raw = os.path.join(os.path.dirname(cycle.folder), 'raw.steps')
        report = json.loads(self.ask('report', raw, '--json', status=1).stdout)
        self.assertEqual(report['cycles'][0]['cycle'], cycle.manifest['cycle'])

    def test_a_reader_of_our_lines_who_leaves_takes_no_exit_status(self):
        process = self.start_app([harness.STEPAGENT, 'run', '--out', self.out, '--', '/bin/sh', '-c',
                                  'read line; exit 3'], harness.launcher_environment(),
                                 stdin=subprocess.PIPE)
        process.stderr.close()
        process.stdin.write('\n')
        process.stdin.flush()
        self.assertEqual(process.wait(timeout=harness.PATIENCE), 3)

    def test_so_is_the_status_of_an_exit_without_handlers(self):
        cycle, said = self.left('_exit', status=5)
        self.assertEqual(cycle.manifest['cycle']['exit_status'], 5)
        self.assertIn('ended by: killed (the process exited with status 5 without its exit handlers',
                      said)

    def test_of_a_grandchild_it_is_said_who_knows(self):
        cycle, said = self.left('kill', 'sh', '-c', '"$0" "$@" & wait; exit 0', status=0)
        self.assertRegex(cycle.manifest['cycle']['reason'],
                         r'^the process ended without a goodbye; its exit status went to its parent, '
                         r'process \d+$')
        self.assertNotIn('signal', cycle.manifest['cycle'])
        self.assertIn('ended by: killed (the process ended without a goodbye', said)


if __name__ == '__main__':
    harness.main()
