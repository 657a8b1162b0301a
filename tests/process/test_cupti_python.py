"""PyPI's cupti-python, unmodified, as the other client of CUPTI in the process.

It takes libcupti.so.13 by name, so it runs on the personalities of that name. test.sh prepares the
interpreter that has it, build/rival; without it these tests skip by name.
"""
import os
import subprocess
import unittest

import harness
from cupti_case import SONAME, CuptiTest

PYTHON = os.path.join(harness.BUILD, 'rival', 'bin', 'python')
# Steps of 30 ms and a wait of two: the subscription is kept in between. Active 6 7, 12 13.
KEPT = 'skip_first=2,wait=2,warmup=2,active=2,repeat=2'
# A wait longer than the two seconds from which on it is released: active 94 95, 188 189.
RELEASED = 'skip_first=2,wait=90,warmup=2,active=2,repeat=2'


@unittest.skipUnless(SONAME == 'libcupti.so.13', 'cupti-python 13 takes libcupti.so.13')
@harness.skip_unless(PYTHON, 'an interpreter with cupti-python (build/rival)')
class CuptiPython(CuptiTest):
    def rival(self, *options, cycles, steps=30, **settings):
        settings.setdefault('schedule', KEPT)
        env = self.environment(step='nvtx:train_step@*', arm_wait='10s', **settings)
        self.result = subprocess.run(
            [PYTHON, harness.app('rival.py'), '--steps', str(steps), '--step-us', '30000', *options],
            env=env, capture_output=True, text=True, timeout=harness.PATIENCE * 4, check=False)
        if self.result.returncode == 77:
            self.skipTest(self.result.stdout.strip())
        self.assertEqual(self.result.returncode, 0, self.result.stdout + self.result.stderr)
        return self.traced(cycles)

    def check_collected(self, cycle):
        self.assertEqual(cycle.manifest['gpu']['status'], 'collected', cycle.manifest['gpu'])
        self.assertEqual([step['kernels'] for step in cycle.manifest['steps']], [1, 1])

    def test_it_was_first(self):
        """It has the slot and keeps all its records; our cycles say who has it and go on."""
        for cycle in self.rival('--at', '0', cycles=2):
            self.assertEqual(cycle.manifest['gpu']['reason_code'], 'slot_taken')
            self.assertTrue(cycle.manifest['gpu']['holder'])
        self.assertIn('rival.py: 30 kernel records', self.result.stdout)

    def test_it_tries_once_while_we_hold(self):
        for cycle in self.rival('--at', '7', cycles=2):
            self.check_collected(cycle)
        self.assertIn('(39)', self.result.stdout)
        self.assertIn('rival.py: 0 kernel records', self.result.stdout)

    def test_it_has_the_slot_between_our_cycles_and_ends_cupti(self):
        for cycle in self.rival('--at', '100', '--retry', '--until', '140', '--finalise', cycles=2,
                                steps=200, schedule=RELEASED):
            self.check_collected(cycle)
        self.assertIn('rival.py: subscribed', self.result.stdout)
        self.assertIn('rival.py: finalised', self.result.stdout)
        self.assertIn('rival.py: 40 kernel records', self.result.stdout)


if __name__ == '__main__':
    harness.main()
