"""Which libcupti is taken, and that the manifest names the file and why."""
import os
import shutil
import unittest

import harness
from harness import app
from cupti_case import SONAME, CuptiTest

SCHEDULE = 'warmup=2,active=2,repeat=1'
MAJOR = SONAME.split('.')[2]
# A driver of the same release, so that no newer library of this machine is looked for.
DRIVER = harness.DRIVERS.get(harness.PERSONALITY, '13000')


class Choice(CuptiTest):
    def setUp(self):
        super().setUp()
        self.library = os.path.join(harness.BUILD, 'sim', 'cupti-' + harness.PERSONALITY, SONAME)

    def train(self, path=None, **settings):
        """One cycle of train_loop with only the driver and `path` to be found by name."""
        folders = [os.path.join(harness.BUILD, 'sim', 'cuda')] + ([path] if path else [])
        cycle, = self.capture(['train_loop', '--steps', '8'], 1, schedule=SCHEDULE,
                              LD_LIBRARY_PATH=':'.join(folders), **settings)
        return cycle.manifest['gpu']

    def folder(self, *parts, source=None):
        """A folder of the scratch with a copy of the library in it."""
        path = os.path.join(self.scratch, *parts)
        os.makedirs(path)
        shutil.copy(source or self.library, path)
        return path

    def test_by_name(self):
        gpu = self.train(self.folder('lib'))
        self.assertEqual(gpu['status'], 'collected', gpu)
        self.assertEqual(gpu['cupti_path'], os.path.join(self.scratch, 'lib', SONAME))
        self.assertIn(SONAME, gpu['cupti_choice'])

    def test_override_names_a_file(self):
        other = self.folder('other')
        gpu = self.train(self.folder('lib'), STEPAGENT_CUPTI=os.path.join(other, SONAME))
        self.assertEqual(gpu['cupti_path'], os.path.join(other, SONAME))
        self.assertIn('STEPAGENT_CUPTI', gpu['cupti_choice'])

    def test_override_names_a_folder(self):
        other = self.folder('other')
        gpu = self.train(self.folder('lib'), STEPAGENT_CUPTI=other)
        self.assertEqual(gpu['cupti_path'], os.path.join(other, SONAME))

    def test_override_without_it_is_final(self):
        """A name that was given is not replaced by another library: the reason says so."""
        empty = os.path.join(self.scratch, 'empty')
        os.makedirs(empty)
        for wrong in (empty, os.path.join(empty, SONAME)):
            self.out = wrong + '-out'
            gpu = self.train(self.folder('lib' + str(len(wrong))), STEPAGENT_CUPTI=wrong)
            self.assertEqual((gpu['status'], gpu['reason_code']), ('unavailable', 'cupti_missing'))
            self.assertIn(wrong, gpu['reason'])

    def test_a_broken_one_is_passed_over_and_mentioned(self):
        """One that does not load, and one that loads and is none: the next is taken, whole."""
        toolkit = self.folder('toolkit', 'lib64')
        no_library = os.path.join(self.scratch, 'text')
        with open(no_library, 'w', encoding='ascii') as out:
            out.write('not a library')
        for name, file, said in (
                ('text', no_library, 'cannot be loaded'),
                ('other', os.path.join(harness.BUILD, 'tests', 'lib', 'symbols_sample_stripped.so'), 'lacks ')):
            with self.subTest(name):
                broken = os.path.join(self.scratch, 'broken-' + name)
                os.makedirs(broken)
                shutil.copy(file, os.path.join(broken, SONAME))
                self.out = broken + '-out'
                gpu = self.train(broken, CUDA_HOME=os.path.dirname(toolkit), STEPAGENT_SIM_DRIVER_VERSION=DRIVER)
                self.assertEqual((gpu['status'], gpu['cupti_path']),
                                 ('collected', os.path.join(toolkit, SONAME)), gpu)
                self.assertIn('; passed over: ', gpu['cupti_choice'])
                self.assertIn(said, gpu['cupti_choice'])

    def test_mapped_comes_first(self):
        """What the application has loaded is taken, not what the search would find."""
        mapped = os.path.join(self.folder('mapped'), SONAME)
        cycle, = self.capture(
            ['rival_cupti', '--cupti', mapped, '--at', '1000', '--steps', '8'], 1,
            schedule=SCHEDULE, LD_LIBRARY_PATH=':'.join(
                [os.path.join(harness.BUILD, 'sim', 'cuda'), self.folder('lib')]))
        self.assertEqual(cycle.manifest['gpu']['cupti_path'], mapped)
        self.assertIn('already loaded', cycle.manifest['gpu']['cupti_choice'])

    @unittest.skipUnless(harness.PERSONALITY == '13.0', 'two libraries are two whatever the rest is')
    def test_several_mapped(self):
        """Of what the application has loaded, the newest that the driver supports."""
        older = os.path.join(harness.BUILD, 'sim', 'cupti-12.6', 'libcupti.so.12')
        for driver, wanted in (('13000', self.library), ('12060', older)):
            with self.subTest(driver=driver):
                self.out = os.path.join(self.scratch, driver)
                cycle, = self.capture(
                    ['rival_cupti', '--cupti', self.library, '--at', '1000', '--steps', '8'], 1,
                    schedule=SCHEDULE, STEPAGENT_SIM_DRIVER_VERSION=driver,
                    LD_PRELOAD=harness.STUB + ':' + older)
                self.assertEqual(cycle.manifest['gpu']['status'], 'collected')
                self.assertEqual(cycle.manifest['gpu']['cupti_path'], wanted)
                self.assertIn('already loaded', cycle.manifest['gpu']['cupti_choice'])

    @unittest.skipUnless(harness.PERSONALITY == '13.0', 'the driver below is older than that')
    def test_mapped_of_a_newer_release_is_left_alone(self):
        """A call could end the application: see the loader."""
        cycle, = self.capture(
            ['rival_cupti', '--cupti', self.library, '--at', '1000', '--steps', '8'], 1,
            schedule=SCHEDULE, STEPAGENT_SIM_DRIVER_VERSION='12040',
            LD_LIBRARY_PATH=os.path.join(harness.BUILD, 'sim', 'cuda'))
        gpu = cycle.manifest['gpu']
        self.assertEqual(gpu['status'], 'unavailable', gpu)
        self.assertNotEqual(gpu['cupti_path'], self.library)
        if gpu['reason_code'] == 'cupti_missing':  # a CUDA 12 on this machine has one that refuses
            self.assertIn(self.library + ', loaded by the application, is newer', gpu['reason'])

    def test_wheels(self):
        """A program that is a Python finds the wheels of its prefix (cu11, cu12 and cu13 layouts)."""
        package = 'cu13' if MAJOR == '13' else 'cuda_cupti'
        wheel = self.folder('env', 'lib', 'python3.11', 'site-packages', 'nvidia', package, 'lib')
        os.makedirs(os.path.join(self.scratch, 'env', 'bin'))
        python = os.path.join(self.scratch, 'env', 'bin', 'python3')
        shutil.copy(app('train_loop'), python)  # only the name makes it one
        env = self.environment(step='nvtx:train_step', schedule=SCHEDULE, arm_wait='10s',
                               LD_LIBRARY_PATH=os.path.join(harness.BUILD, 'sim', 'cuda'))
        self.run_app([python, '--steps', '8'], env)
        cycle, = self.traced(1)
        gpu = cycle.manifest['gpu']
        self.assertEqual(gpu['cupti_path'], os.path.join(wheel, SONAME), gpu)
        self.assertIn('wheel', gpu['cupti_choice'])

    def test_newer_than_the_driver(self):
        """It refuses; an older one that lies about is taken, else the reason names both."""
        newer = self.folder('newer')
        gpu = self.train(newer, STEPAGENT_SIM_CUPTI_NEEDS_DRIVER='99000',
                         STEPAGENT_SIM_DRIVER_VERSION=DRIVER)
        self.assertEqual((gpu['status'], gpu['reason_code']), ('unavailable', 'cupti_too_new'), gpu)
        self.assertIn(newer, gpu['reason'])
        self.assertIn('STEPAGENT_CUPTI', gpu['reason'])

    @unittest.skipUnless(harness.PERSONALITY == '13.0', 'one library is newer than the other')
    def test_newer_than_the_driver_and_an_older_one_beside_it(self):
        """Told apart only after the application's cuInit: the window has the rest, and says so."""
        folders = [self.folder(name, source=os.path.join(harness.BUILD, 'sim', 'cupti-' + personality, file))
                   for name, personality, file in (('newer', 'future', 'libcupti.so.13'),
                                                   ('older', '12.6', 'libcupti.so.12'))]
        env = self.environment(
            arm='start', STEPAGENT_SIM_CUPTI_NEEDS_DRIVER='99000',
            STEPAGENT_SIM_CUPTI_NEEDS_FROM_API='130000',
            LD_LIBRARY_PATH=':'.join([os.path.join(harness.BUILD, 'sim', 'cuda'), *folders]))
        self.run_app([app('train_loop'), '--steps', '60', '--sleep-us', '10000'], env)
        cycle, = self.traced(1)
        gpu = cycle.manifest['gpu']
        self.assertEqual(gpu['status'], 'collected', gpu)
        self.assertEqual(gpu['cupti_path'], os.path.join(folders[1], 'libcupti.so.12'))
        self.assertIn('armed_at_second_try', [note['code'] for note in cycle.manifest['notes']])


if __name__ == '__main__':
    harness.main()
