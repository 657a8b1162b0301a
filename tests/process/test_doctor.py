"""`stepagent doctor` names what is wrong, why it matters and what to type; and finds nothing where all is well."""
import glob
import json
import os
import shutil
import signal
import subprocess
import unittest

import harness
from cupti_case import SONAME
from harness import AgentTest, app

LAUNCHER_PROGRAMS = os.path.join(harness.BUILD, 'tests', 'process', 'launcher', 'programs')
DRIVER = harness.DRIVERS.get(harness.PERSONALITY, '13000')
CUDA = 'CUDA %d.%d' % (int(DRIVER) // 1000, int(DRIVER) % 1000 // 10)


class Doctor(AgentTest):
    def doctor(self, *arguments, status, env=None, **variables):
        env = dict(env or harness.launcher_environment(), STEPAGENT_OUT=self.out, **variables)
        result = subprocess.run([harness.STEPAGENT, 'doctor', '--json', *arguments], env=env,
                                capture_output=True, text=True, check=False,
                                timeout=harness.PATIENCE * 6, cwd=self.scratch)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual(document['good'], status == 0)
        self.assertFalse(os.path.exists(self.out), 'the doctor leaves nothing')
        self.all = document['checks']
        self.checks = {row['id']: row for row in document['checks']}
        for row in document['checks']:
            self.assertTrue(row['found'] and row['why'], row)
            self.assertEqual(row['state'] == 'fail' and not row['type'], False, row)
        return document

    def only_failure(self, check, found, cure):
        """The situation is named, with its cure, and nothing else is blamed."""
        failed = [row['id'] for row in self.checks.values() if row['state'] == 'fail']
        self.assertEqual(failed, [check])
        self.assertIn(found, self.checks[check]['found'])
        self.assertIn(cure, self.checks[check]['type'])


class Ground(Doctor):
    def test_all_is_well(self):
        document = self.doctor(status=0)
        self.assertEqual(self.checks['device-trial']['state'], 'ok')
        self.assertIn('8 of 8 kernels, 4 of 4 copies, 4 of 4 sets',
                      self.checks['device-trial']['found'])
        self.assertIn(SONAME, self.checks['cupti']['found'])
        self.assertIn(CUDA + ', 1 device: Simulated GPU', self.checks['driver']['found'])
        self.assertIn('doctor -- ', document['next'])

    def test_lines_for_people(self):
        env = dict(harness.launcher_environment(), STEPAGENT_OUT='/proc/none')
        result = subprocess.run([harness.STEPAGENT, 'doctor'], env=env, capture_output=True,
                                text=True, check=False, timeout=harness.PATIENCE * 6)
        self.assertEqual(result.returncode, 1, result.stdout)
        lines = result.stdout.splitlines()
        line, = [one for one in lines if one.startswith('FAIL')]
        self.assertRegex(line, r'^FAIL  output +/proc/none: cannot be created: .*\| every trace goes '
                               r'there \| type: --out DIR')
        self.assertTrue(all(one.startswith(('ok', 'warn', 'FAIL')) for one in lines[:-1]), lines)
        self.assertIn('FAIL', lines[-1])

    # --- broken situations, each named with its cure ---

    def test_output_below_a_file(self):
        file = os.path.join(self.scratch, 'file')
        with open(file, 'w', encoding='utf-8'):
            pass
        self.doctor('--out', file + '/traces', status=1)
        self.only_failure('output', 'Not a directory', '--out DIR')

    def test_a_setting_that_does_not_parse(self):
        self.doctor(status=1, STEPAGENT_SCHEDULE='active=many')
        self.only_failure('settings', "STEPAGENT_SCHEDULE: 'active=many'", 'stepagent run --help')

    def test_switched_off(self):
        self.doctor(status=1, STEPAGENT_DISABLE='1')
        self.only_failure('settings', 'STEPAGENT_DISABLE=1', 'unset STEPAGENT_DISABLE')

    def test_injection_variable_taken(self):
        self.doctor(status=1, NVTX_INJECTION64_PATH='/opt/nsys/libToolsInjection64.so')
        self.only_failure('nvtx-injection', '/opt/nsys/libToolsInjection64.so',
                          'unset NVTX_INJECTION64_PATH')

    def test_collector_that_is_not_there(self):
        socket = os.path.join(self.scratch, 'collector.sock')
        self.doctor('--collector', socket, status=1)
        self.only_failure('collector', 'No such file', 'stepcollector --socket ' + socket)

    def test_no_driver(self):
        env = harness.launcher_environment()
        env['LD_LIBRARY_PATH'] = ''
        if os.path.exists('/dev/nvidia0'):
            self.skipTest('this machine has a driver')
        self.doctor(status=1, env=env)
        self.only_failure('driver', 'libcuda.so.1', 'nvidia-smi')

    def test_stub_driver(self):
        self.doctor(status=1, STEPAGENT_SIM_CUINIT='34')
        self.only_failure('driver', 'stub library', "'stubs'")

    def test_the_toolkits_stub(self):
        """It brings no library of ours in: what the doctor's own program is told is all there is."""
        folder = os.path.join(self.scratch, 'stubs')
        os.makedirs(folder)
        source = os.path.join(self.scratch, 'stub.c')
        with open(source, 'w', encoding='ascii') as out:
            out.write('int cuInit(unsigned flags) { (void)flags; return 34; }\n')
        compiler = shutil.which('cc') or shutil.which('gcc')
        if compiler is None:
            self.skipTest('no C compiler')
        stub = os.path.join(folder, 'libcuda.so.1')
        subprocess.run([compiler, '-shared', '-fPIC', '-o', stub, source], check=True)
        self.doctor(status=1, env=dict(harness.launcher_environment(), LD_LIBRARY_PATH=folder))
        self.only_failure('driver', "libcuda.so.1 is the CUDA toolkit's stub library, no driver: cuInit: CUDA "
                          'error 34: ' + stub, "take the folder 'stubs' out of LD_LIBRARY_PATH")

    def test_one_cause_is_one_failure(self):
        """What keeps the doctor's own program from the device keeps the command, too."""
        for variables in ({'STEPAGENT_SIM_CUINIT': '34'}, {'STEPAGENT_SIM_DEVICES': '0'},
                          {'STEPAGENT_CUPTI': self.scratch}):
            with self.subTest(**variables):
                self.doctor('--trial', '2s', '--', app('train_loop'), '--steps', '3', status=1, **variables)
                self.assertEqual(len([c for c in self.all if c['state'] == 'fail']), 1, self.all)

    def test_no_device(self):
        self.doctor(status=1, STEPAGENT_SIM_DEVICES='0')
        self.only_failure('driver', 'no CUDA device', 'CUDA_VISIBLE_DEVICES')

    def test_cupti_missing(self):
        self.doctor(status=1, STEPAGENT_CUPTI=self.scratch)
        self.only_failure('cupti', self.scratch, 'nvidia-cuda-cupti')

    def test_cupti_too_new(self):
        self.doctor(status=1, STEPAGENT_SIM_CUPTI_NEEDS_DRIVER='99000',
                    STEPAGENT_SIM_DRIVER_VERSION=DRIVER)
        self.only_failure('cupti', CUDA, 'STEPAGENT_CUPTI')

    def test_cupti_that_does_not_load(self):
        """It stands where it is looked for and is none: named, not called missing."""
        for name in (SONAME, 'named.so'):
            if name == SONAME and glob.glob('/usr/local/cuda*/lib64/libcupti.so.*'):
                continue  # that one is then taken in its place
            broken = os.path.join(self.scratch, name)
            with open(broken, 'w', encoding='ascii') as out:
                out.write('not a library')
            env = harness.launcher_environment()
            env['LD_LIBRARY_PATH'] = self.scratch + ':' + os.path.join(harness.BUILD, 'sim', 'cuda')
            more = {} if name == SONAME else {'STEPAGENT_CUPTI': broken}
            with self.subTest(name=name):
                self.doctor(status=1, env=env, **more)
                self.only_failure('cupti', broken, 'take the file away')
                self.assertIn('cannot be loaded', self.checks['cupti']['found'])

    def test_a_broken_cupti_that_is_passed_over_is_mentioned(self):
        toolkit, broken = (os.path.join(self.scratch, name) for name in ('toolkit', 'broken'))
        os.makedirs(toolkit + '/lib64')
        os.makedirs(broken)
        os.symlink(os.path.join(harness.BUILD, 'sim', 'cupti-' + harness.PERSONALITY, SONAME),
                   os.path.join(toolkit, 'lib64', SONAME))
        with open(os.path.join(broken, SONAME), 'w', encoding='ascii') as out:
            out.write('not a library')
        env = harness.launcher_environment()
        env['LD_LIBRARY_PATH'] = broken + ':' + os.path.join(harness.BUILD, 'sim', 'cuda')
        self.doctor(status=0, env=env, CUDA_HOME=toolkit, STEPAGENT_SIM_DRIVER_VERSION=DRIVER)
        self.assertEqual(self.checks['cupti']['state'], 'warn')
        self.assertIn('passed over: ' + SONAME + ' cannot be loaded', self.checks['cupti']['found'])
        self.assertIn('take the file away', self.checks['cupti']['type'])

    def test_ranks_do_not_concern_the_doctors_own_program(self):
        self.doctor('--ranks', '0,1', status=0, RANK='3', STEPAGENT_ACTIVITIES='none')
        self.assertEqual(self.checks['device-trial']['state'], 'ok')

    def test_not_permitted(self):
        self.doctor(status=1, STEPAGENT_SIM_FAULTS='cuptiSubscribe*=35;cuptiActivityEnable*=35')
        self.only_failure('permission', 'does not permit', 'NVreg_RestrictProfilingToAdminUsers=0')


class Command(Doctor):
    def trial(self, *command, status, options=(), **variables):
        return self.doctor('--for', '300ms', *options, '--', *command, status=status, **variables)

    def test_a_training_loop(self):
        document = self.trial(app('train_loop'), '--steps', '100000', '--sleep-us', '1000', status=0)
        self.assertIn('train_loop', self.checks['processes']['found'])
        self.assertIn('[agent, CUDA]', self.checks['processes']['found'])
        self.assertIn('nvtx:train_step', self.checks['ranges']['found'])
        self.assertIn('times, plain', self.checks['ranges']['found'])
        self.assertRegex(self.checks['capture']['found'],
                         r'^(\d+) of \1 launches have their device records; \d+ kernels')
        self.assertIn(SONAME, self.checks['command-cupti']['found'])
        self.assertEqual(self.checks['rival']['state'], 'ok')
        self.assertIn('stepagent run --step nvtx:', document['next'])

    def test_an_interrupted_trial_is_no_good_news(self):
        marker = os.path.join(self.scratch, 'ready')
        env = dict(harness.launcher_environment(), STEPAGENT_OUT=self.out)
        command = 'touch "$0"; exec sleep 1000'
        process = self.start_app([harness.STEPAGENT, 'doctor', '--json', '--', '/bin/sh', '-c', command,
                                  marker], env, stderr=subprocess.DEVNULL)
        harness.eventually(lambda: os.path.exists(marker), 'the trial')
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGINT)
        document = json.loads(out)
        self.assertIs(document['good'], False)
        trial, = [check for check in document['checks'] if check['id'] == 'trial']
        self.assertIn('interrupted by SIGINT', trial['found'])

    def test_a_short_program_is_tried_whole(self):
        self.trial(app('train_loop'), '--steps', '3', status=0)
        self.assertRegex(self.checks['processes']['found'], r'^\d+ [^;]*train_loop --steps 3 \[agent')
        self.assertIn('nvtx:train_step 3 times, plain', self.checks['ranges']['found'])

    def test_registered_strings_are_told_apart(self):
        self.trial(app('nvtx_loop'), 'registered', '5', status=0)
        self.assertIn('registered', self.checks['ranges']['found'])

    def test_a_tree_below_a_shell(self):
        self.trial('/bin/sh', '-c', app('train_loop') + ' --steps 3000 --sleep-us 1000 & wait',
                   status=0)
        self.assertIn('[preloaded, unused]', self.checks['processes']['found'])
        self.assertIn('CUDA]', self.checks['processes']['found'])

    def test_the_command_is_ended(self):
        script = 'echo $$ > pid; trap "" TERM; %s --steps 100000 --sleep-us 1000; sleep 1000' % (
            app('train_loop'))
        self.trial('/bin/sh', '-c', script, status=0)
        with open(os.path.join(self.scratch, 'pid'), encoding='utf-8') as source:
            self.assertFalse(os.path.exists('/proc/' + source.read().strip()))

    # --- broken situations ---

    def test_wrong_step_name(self):
        self.trial(app('train_loop'), '--steps', '3', status=1,
                   options=('--step', 'nvtx:trian_step'))
        self.only_failure('step', 'nvtx:trian_step: seen 0 times', '--step nvtx:')

    def test_rival_holds_the_slot(self):
        self.trial(app('rival_cupti'), '--early', '--cupti', SONAME, '--steps', '100000', status=1)
        self.only_failure('rival', 'another CUPTI client', 'other profiler')

    def test_ranks_leave_the_command_out(self):
        loop = [app('train_loop'), '--steps', '100000', '--sleep-us', '1000']
        self.trial(*loop, status=1, options=('--ranks', '0,1', '--trial', '2s'), RANK='3')
        self.only_failure('ranks', '--ranks 0-1 leaves out every process that was seen (rank 3)',
                          '--ranks 3')
        self.trial('/usr/bin/env', 'RANK=2', *loop, status=1, options=('--trial', '2s'),
                   STEPAGENT_RANKS='0,1')
        self.only_failure('ranks', 'rank 2', 'STEPAGENT_RANKS')
        self.trial(*loop, status=0, options=('--ranks', '0,1', '--trial', '10s'), RANK='1')

    def test_members_of_the_list_that_there_are_not(self):
        """Beside one that there is; and one that starts late is waited for, not missed."""
        loop = app('train_loop') + ' --steps 100000 --sleep-us 1000'
        # Rank 1 comes when windows of 300 ms would long be over in rank 0.
        script = ('RANK=0 WORLD_SIZE=2 %s & while ! ls $STEPAGENT_OUT/*/sessions/*/cycle-0000/manifest.json; '
                  'do sleep 0.05; done >/dev/null 2>&1; sleep 1.5; RANK=1 WORLD_SIZE=2 %s & wait' % (loop, loop))
        self.trial('/bin/sh', '-c', script, status=0, options=('--ranks', '0,1,7'))
        self.assertEqual(self.checks['ranks']['state'], 'warn')
        self.assertEqual(self.checks['ranks']['found'],
                         'rank 7 of --ranks not below the number of ranks: no process is that (met: 0, 1)')
        self.assertIn('--ranks 0,1', self.checks['ranks']['type'])
        self.trial('/bin/sh', '-c', 'RANK=0 ' + loop, status=0, options=('--ranks', '0,7'))
        self.assertRegex(self.checks['ranks']['found'],
                         r'^rank 7 of --ranks not met in \d+ s; how many ranks there are nobody was told')

    def test_ranks_leave_out_all_that_a_launcher_starts(self):
        """The launcher itself was told no rank: it is no process that could have recorded."""
        script = 'for r in 0 1 2; do RANK=$r WORLD_SIZE=3 %s --steps 100000 --sleep-us 1000 & done; wait' % (
            app('train_loop'))
        self.trial('/bin/sh', '-c', script, status=1, options=('--ranks', '7,9', '--trial', '2s'))
        self.only_failure('ranks', '--ranks 7,9 leaves out every process that was seen (ranks 0-2)',
                          '--ranks 0-2')

    def test_a_command_that_dies(self):
        self.trial('/bin/sh', '-c', 'kill -SEGV $$', status=1)
        self.only_failure('exit', 'signal 11 (Segmentation fault)', 'does it live without stepagent?')
        self.trial('/bin/sh', '-c', 'kill -ABRT $$', status=1, options=('--step', 'nvtx:train_step'))
        self.only_failure('exit', 'signal 6 (Aborted)', 'STEPAGENT_LOG=debug')

    def test_a_rival_that_takes_the_buffers(self):
        """It has no subscription, and what it reads of the records does not come to us."""
        self.trial(app('rival_cupti'), '--buffers-only', '--cupti', SONAME, '--steps', '100000', status=1)
        self.only_failure('rival', 'has loaded CUPTI itself', 'other profiler')

    def test_a_rival_that_comes_after_us(self):
        """It finds CUPTI taken at first, and has it as soon as it is free: our next window is refused."""
        document = self.trial(app('rival_cupti'), '--at', '1', '--retry', '--cupti', SONAME, '--steps', '100000',
                              status=1)
        self.only_failure('rival', 'it came after our first window: another CUPTI client', 'other profiler')
        self.assertEqual(self.checks['capture']['state'], 'ok')
        self.assertIsNone(document['next'])

    def test_what_is_not_asked_for_has_no_cure(self):
        """--activities without device work, without kernels, without launches: nothing would fail."""
        loop = [app('train_loop'), '--steps', '100000', '--sleep-us', '1000']
        for activities, found in (('none', 'no device activity is asked for (--activities none)'),
                                  ('memcpy', 'kernels are not asked for'),
                                  ('kernel', 'launches are not asked for')):
            with self.subTest(activities):
                document = self.trial(*loop, status=0, options=('--activities', activities))
                self.assertEqual(self.checks['capture']['state'], 'ok')
                self.assertIn(found, self.checks['capture']['found'])
                self.assertEqual(self.checks['capture']['type'], '')
                self.assertIn('nvtx:train_step', self.checks['ranges']['found'])
                self.assertIn('--activities ' + activities, document['next'])

    def test_a_trial_that_is_shorter_than_its_window(self):
        """The window ends in order, with all its records: no failure, and what was not tried is said."""
        self.doctor('--trial', '2s', '--for', '10m', '--', app('train_loop'), '--steps', '100000',
                    '--sleep-us', '1000', status=0)
        self.assertRegex(self.checks['capture']['found'], r'^(\d+) of \1 launches')
        self.assertIn('whether one comes later was not tried', self.checks['rival']['found'])

    def test_command_not_found(self):
        document = self.trial('no-such-program', status=1)
        self.only_failure('command', 'No such file', 'path')
        self.assertIsNone(document['next'])

    @harness.skip_unless(os.path.join(LAUNCHER_PROGRAMS, 'static'), 'a static program')
    def test_static_program(self):
        self.trial(os.path.join(LAUNCHER_PROGRAMS, 'static'), status=1)
        self.assertEqual(self.checks['command']['state'], 'fail')
        self.assertIn('statically linked', self.checks['command']['found'])

    def test_environment_cleared_on_the_way(self):
        libraries = 'LD_LIBRARY_PATH=' + harness.sim_path()
        self.trial('/usr/bin/env', '-i', libraries, app('train_loop'), '--steps', '100000',
                   '--sleep-us', '1000', status=1, options=('--trial', '2s'))
        self.only_failure('processes', 'without the library', 'LD_PRELOAD')


if __name__ == '__main__':
    harness.main()
