"""The end of a window: work that comes late, slowly, or never."""
import os

import harness
from cupti_case import CuptiTest, notes

UNFINISHED = '1 piece of device work that had not ended'


class Tail(CuptiTest):
    def check_exact(self, cycle, expected):
        for step in cycle.manifest['steps']:
            want = expected[step['index']]
            self.assertEqual(step['launches'], want['launches'])
            self.assertEqual(step['kernels'], want['calls']['cuLaunchKernel'])
            self.assertEqual(step['copies'], want['copies'])
            self.assertEqual(step['sets'], want['sets'])
        joins = cycle.manifest['joins']
        self.assertEqual(joins['launches_without_device_work'], 0, joins)

    def test_a_kernel_that_never_ends(self):
        """It is waited for as long as the grace time, then counted; the rest is whole."""
        # Five seconds of grace need a program that lives on for longer: 250 steps of 30 ms.
        cycle, = self.capture(['never_ending_kernel', '9', '250', '30000'], 1,
                              schedule='warmup=8,active=2,repeat=1')
        self.assertEqual([step['kernels'] for step in cycle.manifest['steps']], [1, 1])
        self.assertEqual([step['launches'] for step in cycle.manifest['steps']], [1, 2])
        balance = cycle.manifest['balance']['kernel']
        joins = cycle.manifest['joins']
        self.assertEqual(balance['invalid'] + joins['launches_without_device_work'], 1,
                         (balance, joins))
        self.assertIn('unfinished_work', notes(cycle))
        self.assertNotIn('impossible_stamps', notes(cycle))
        self.assertEqual([step['complete'] for step in cycle.manifest['steps']], [True, False])
        self.assertEqual(cycle.manifest['cycle']['reason'], UNFINISHED)

    def test_flushes_that_fail(self):
        """What CUPTI keeps to itself is not known: no zeros, the error named, calls still counted."""
        cycle, = self.capture(['train_loop', '--steps', '8'], 1, exit_wait='100ms',
                              schedule='wait=2,warmup=2,active=2,repeat=1',
                              STEPAGENT_SIM_FAULTS='cuptiActivityFlushAll=999')
        gpu = cycle.manifest['gpu']
        self.assertEqual((gpu['status'], gpu['reason_code']), ('partial', 'flush_failed'))
        self.assertIn('cuptiActivityFlushAll', gpu['reason'])
        self.assertIn('999', gpu['reason'])
        self.assertIn('999', self.result.stderr)
        self.assertFalse(cycle.manifest['cycle']['complete'])
        for step in cycle.manifest['steps']:
            self.assertGreater(step['launches'], 0)
            self.assertEqual([step[k] for k in ('kernels', 'copies', 'sets')], [None] * 3)
        for kind in ('kernel', 'memcpy', 'memset'):
            self.assertIsNone(cycle.manifest['balance'][kind]['produced'])
            self.assertIn('999', cycle.manifest['kinds'][kind]['error'])
        self.assertGreater(cycle.manifest['balance']['launch']['written'], 0)

    def test_a_kernel_that_never_ends_with_a_newer_cycle_in_its_grace_time(self):
        """Plain flushes bring nothing that lies beside it: each cycle still gets all but that kernel."""
        older, newer = self.capture(['never_ending_kernel', '5', '250', '30000'], 2,
                                    schedule='wait=3,warmup=2,active=2,repeat=2')
        self.assertEqual((older.steps, newer.steps), ([5, 6], [12, 13]))
        for cycle, kernels in ((older, 2), (newer, 2)):
            steps = cycle.manifest['steps']
            self.assertEqual([step['kernels'] for step in steps], [1, 1], steps)
            self.assertEqual(cycle.manifest['balance']['kernel']['written'], kernels)
        self.assertFalse(older.manifest['cycle']['complete'])
        self.assertEqual(older.manifest['cycle']['reason'], UNFINISHED)
        self.assertTrue(newer.manifest['cycle']['complete'], newer.manifest['cycle'])

    def test_exit_with_a_kernel_that_never_ends(self):
        """The program leaves at once: whatever of the cycle is on disk, it is no complete one."""
        env = self.environment(step='nvtx:train_step', schedule='warmup=2,active=20,repeat=1')
        with harness.stopwatch() as took:
            self.run_app([harness.app('never_ending_kernel'), '9', '18', '30000'], env)
        self.assertLess(took[0], harness.PATIENCE)
        harness.wait_written(self.out)
        for cycle in harness.cycles(self.out):
            harness.check_balance(cycle)
            self.assertFalse(cycle.manifest['cycle']['complete'])

    def test_a_call_that_never_returns_is_said_at_exit(self):
        """CUPTI's flush hangs: the program ends in time, and that its cycle is lost is not kept quiet."""
        env = self.environment(step='nvtx:train_step', schedule='warmup=1,active=2,repeat=1',
                               STEPAGENT_SIM_FLUSH_HANGS='1', exit_wait='500ms')
        result = self.run_app([harness.app('train_loop'), '--steps', '8'], env)
        self.assertIn('the program ended with a cycle that is not finished, after waiting 500 ms',
                      result.stderr)
        run = dict(harness.launcher_environment(), STEPAGENT_SIM_FLUSH_HANGS='1')
        result = self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--exit-wait', '500ms', '--step',
                               'nvtx:train_step', '--schedule', 'warmup=1,active=2,repeat=1', '--',
                               harness.app('train_loop'), '--steps', '8'], run)
        self.assertIn('not finished, after waiting 500 ms', result.stderr)
        self.assertNotIn('the run ended before its first active step\n', result.stderr)

    def test_late_completion_while_the_next_cycle_warms_up(self):
        options = ('--steps', '13', '--lag', '3', '--kernel-us', '300')
        expected = self.expected(*options)
        for late in ('0', '60ms'):
            with self.subTest(late):
                self.out = os.path.join(self.scratch, 'late' + late)
                found = self.capture(['train_loop', *options], 3, STEPAGENT_SIM_LATE=late,
                                     schedule='wait=0,warmup=1,active=3,repeat=3')
                self.assertEqual([c.steps for c in found], [[1, 2, 3], [5, 6, 7], [9, 10, 11]])
                for cycle in found:
                    self.check_exact(cycle, expected)

    def test_a_dozen_cycles_wait_at_once(self):
        """All of them are over before the device's first record comes, and each gets its own."""
        options = ('--steps', '26', '--lag', '26', '--kernel-us', '300')
        expected = self.expected(*options)
        found = self.capture(['train_loop', *options], 12, STEPAGENT_SIM_LATE='1s',
                             schedule='wait=0,warmup=1,active=1,repeat=12')
        for cycle in found:
            self.check_exact(cycle, expected)
            self.assertTrue(cycle.manifest['cycle']['complete'], cycle.manifest['cycle'])

    def test_a_kind_that_failed_once_is_tried_again_though_an_older_tail_is_open(self):
        options = ('--steps', '13', '--lag', '13', '--kernel-us', '300')
        expected = self.expected(*options)
        # The second cuptiActivityEnable is MEMCPY's. The device is so late that all tails overlap.
        first, *later = self.capture(['train_loop', *options], 3, STEPAGENT_SIM_LATE='1s',
                                     STEPAGENT_SIM_FAULTS='cuptiActivityEnable=39@2x1',
                                     schedule='wait=0,warmup=2,active=2,repeat=3')
        self.assertEqual(first.manifest['gpu']['status'], 'partial')
        kind = first.manifest['kinds']['memcpy']
        self.assertFalse(kind['enabled'])
        self.assertIn('MEMCPY', kind['error'])
        self.assertTrue(first.manifest['cycle']['complete'], first.manifest['cycle'])
        for cycle in later:
            self.assertEqual(cycle.manifest['gpu']['status'], 'collected')
            self.assertTrue(cycle.manifest['kinds']['memcpy']['enabled'])
            self.check_exact(cycle, expected)
            self.assertTrue(cycle.manifest['cycle']['complete'], cycle.manifest['cycle'])

    def test_drops_that_may_be_of_any_open_cycle_are_null_in_each(self):
        options = ('--steps', '13', '--lag', '13', '--kernel-us', '300')
        found = self.capture(['train_loop', *options], 3, STEPAGENT_SIM_LATE='1s',
                             STEPAGENT_SIM_ODD='drop/7', exit_wait='3s',
                             schedule='wait=0,warmup=2,active=2,repeat=3')
        for cycle in found:
            self.assertIn('cupti_dropped', notes(cycle))
            for kind in ('kernel', 'memcpy', 'memset'):
                self.assertIsNone(cycle.manifest['balance'][kind]['dropped'], kind)
                self.assertIsNone(cycle.manifest['balance'][kind]['produced'], kind)

    def test_slow_launches(self):
        """A buffer stays half full for seconds; it comes back when the window ends."""
        options = ('--steps', '6', '--sleep-us', '700000')
        expected = self.expected(*options)
        cycle, = self.capture(['train_loop', *options], 1, schedule='warmup=1,active=3,repeat=1')
        self.check_exact(cycle, expected)
        self.assertTrue(cycle.manifest['cycle']['complete'])

    def test_many_steps_of_lag(self):
        options = ('--steps', '20', '--lag', '6', '--kernel-us', '500')
        expected = self.expected(*options)
        cycle, = self.capture(['train_loop', *options], 1, schedule='warmup=1,active=3,repeat=1')
        self.check_exact(cycle, expected)


if __name__ == '__main__':
    harness.main()
