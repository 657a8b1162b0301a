"""Real CUPTI libraries, as far as they can be asked without a GPU. See README.md."""
import os
import subprocess
import unittest

import harness
import real_cupti

CACHE = os.path.join(harness.BUILD, 'conformance')
ALL = os.environ.get('STEPAGENT_TEST_ALL_CUPTI', '') not in ('', '0')
UNIT_TEST = os.path.join(harness.BUILD, 'tests', 'bin', 'agent_cupti_test')
# Driver functions that were renamed under their number; none that the agent listens to.
RENAMED = {'1:783'}
NAMES_BY_DRIVER = {'1:307': 'cuLaunchKernel', '1:514': 'cuGraphLaunch',
                   '1:126': 'cuStreamSynchronize', '1:277': 'cuMemcpyHtoDAsync_v2', '1:1': 'cuInit'}


class RealCupti(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.paths, cls.measured = {}, {}
        for release in real_cupti.RELEASES if ALL else real_cupti.QUICK:
            path = real_cupti.fetch(release, CACHE)
            if path is None:
                if not cls.paths:  # no network, or no pip: do not ask for each of the rest
                    break
                continue
            cls.paths[release] = path
            driver = None
            if real_cupti.first_without_driver(release):
                driver = real_cupti.driver_folder('535', CACHE)
            one = real_cupti.measure(path, driver)
            if one is not None:
                cls.measured[release] = one

    def setUp(self):
        if not self.measured:
            self.skipTest('no real CUPTI can be had here (no network, or no pip)')

    def test_lengths_are_those_of_the_document(self):
        table = real_cupti.read_table()
        for release, one in self.measured.items():
            measured = {k: v for k, v in one['lengths'].items() if v or k in table[release]}
            self.assertEqual(measured, table[release], release)

    def test_every_library_that_needs_no_driver_answers(self):
        for release in self.paths:
            if not real_cupti.first_without_driver(release):
                self.assertIn(release, self.measured)

    def test_callback_ids_keep_their_meaning(self):
        renamed = {n for n, _ in real_cupti.renamed(self.measured, 'callbacks')
                   if n.startswith('1:')}
        self.assertLessEqual(renamed, RENAMED)
        for release, one in self.measured.items():
            for number, name in NAMES_BY_DRIVER.items():
                self.assertEqual(one['callbacks'][number], name, release)

    def test_result_texts_agree(self):
        self.assertEqual(real_cupti.renamed(self.measured, 'results'), [])

    def test_no_driver_is_refused(self):
        for release, one in self.measured.items():
            if one['subscribe'] is not None:
                self.assertIn(one['subscribe'], (15, 999), release)

    @harness.skip_unless(UNIT_TEST, 'agent_cupti_test')
    def test_decoder_and_catalogue(self):
        """Our own code over the real iterators: lengths, a synthetic buffer, the ids it listens to."""
        driver = real_cupti.driver_folder('535', CACHE) or ''
        paths = [self.paths[release] for release in self.measured
                 if driver or not real_cupti.first_without_driver(release)]
        env = dict(os.environ, STEPAGENT_TEST_CUPTI=':'.join(paths), LD_LIBRARY_PATH=driver)
        ran = subprocess.run([UNIT_TEST, '--gtest_filter=*Real*'], env=env, capture_output=True,
                             text=True, timeout=120, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertNotIn('SKIPPED', ran.stdout)


if __name__ == '__main__':
    harness.main()
