"""Device clocks: drift, another base, a stepped wall clock. No work before its launch."""
import json

import harness
from cupti_case import CuptiTest, device_rows, notes

OPTIONS = ('--steps', '24')
SCHEDULE = 'warmup=3,active=10,repeat=2'


class Clocks(CuptiTest):
    def train(self, **settings):
        found = self.capture(['train_loop', *OPTIONS], 2, schedule=SCHEDULE, **settings)
        for cycle in found:
            self.assertIsNotNone(cycle.manifest['clock']['device_residual_ns'])
            self.assertEqual(cycle.manifest['balance']['kernel']['invalid'], 0)
        return found

    def check_near(self, cycle):
        """Work lies within its window, give or take the device's lag."""
        window = cycle.manifest['window']
        base = cycle.manifest['clock']['base_unix_ns'] - cycle.chrome['baseTimeNanoseconds']
        for row in device_rows(cycle):
            at = row['ts'] * 1000 - base
            self.assertGreater(at, window['begin_ns'] - 1e6)
            self.assertLess(at, window['end_ns'] + 1e8)

    def test_bases(self):
        """CUPTI's clock is not CLOCK_REALTIME everywhere (WSL)."""
        for base in ('realtime', 'monotonic', 'raw', 'boot'):
            with self.subTest(base):
                self.out = self.scratch + '/' + base
                for cycle in self.train(STEPAGENT_SIM_CLOCK_BASE=base):
                    self.check_order(cycle)
                    self.check_near(cycle)
                    self.assertNotIn('wall_clock_step', notes(cycle))

    def test_drift(self):
        for cycle in self.train(STEPAGENT_SIM_CLOCK_DRIFT_PPM='200'):
            self.check_order(cycle)
            self.check_near(cycle)

    def test_device_stamps_that_run_ahead(self):
        """The device's clock falls behind what CUPTI tells of it: the next step's work stays out."""
        for cycle in self.train(STEPAGENT_SIM_CLOCK_DRIFT_PPM='-5000'):
            self.assertIn('device_before_launch', notes(cycle))
            self.assertEqual(cycle.manifest['joins']['device_work_without_launch'], 0)
            self.assertEqual(cycle.manifest['outside_steps']['kernels'], 0)

    def test_wall_clock_step(self):
        """A step between the cycles or inside one: told, and launches still come before work."""
        for step in ('500ms', '-500ms'):
            with self.subTest(step):
                self.out = self.scratch + '/' + step
                # The window is open from some 50 to 800 ms, also where arming is slow.
                found = self.capture(['train_loop', '--steps', '80', '--sleep-us', '10000'], 1,
                                     schedule='warmup=1,active=75,repeat=1',
                                     STEPAGENT_SIM_WALL_STEP=step,
                                     STEPAGENT_SIM_WALL_STEP_AFTER='400ms')
                self.assertTrue(any('wall_clock_step' in notes(cycle) for cycle in found))
                for cycle in found:
                    if 'wall_clock_step' not in notes(cycle):
                        self.check_order(cycle)
                        self.check_near(cycle)

    def test_the_machine_sleeps(self):
        """The wall clock is ahead afterwards: told as sleep, not as a step, and all is placed right."""
        for base, after in (('realtime', '300'), ('monotonic', '300'), ('realtime', '0')):
            with self.subTest(base=base, after=after):
                self.out = self.scratch + '/' + base + after
                cycle, = self.capture(['train_loop', '--steps', '80', '--sleep-us', '10000'], 1,
                                      schedule='warmup=1,active=75,repeat=1',
                                      STEPAGENT_SIM_CLOCK_BASE=base, SUSPENDED_MS='7000',
                                      SUSPENDED_AFTER_MS=after,
                                      LD_PRELOAD=harness.STUB + ':' + harness.app('suspended.so'))
                self.assertNotIn('wall_clock_step', notes(cycle))
                self.assertEqual(cycle.manifest['balance']['kernel']['invalid'], 0)
                if after == '0':  # before anything was recorded: no matter
                    self.assertNotIn('machine_suspended', notes(cycle))
                else:
                    self.assertIn('7000 ms', notes(cycle)['machine_suspended'])
                # It slept longer than samples lie apart, so every stamp has one side to belong to.
                self.check_order(cycle)
                self.check_near(cycle)

    def test_a_device_clock_that_cupti_did_not_map(self):
        """Stamps that lie before their launches are told of; whole seconds off they are no bars."""
        found = self.capture(['train_loop', *OPTIONS], 2, schedule=SCHEDULE,
                             STEPAGENT_SIM_CLOCK_OFFSET='-1ms')
        for cycle in found:
            self.assertIn('device_before_launch', notes(cycle), json.dumps(notes(cycle)))
        self.out = self.scratch + '/far'
        found = self.capture(['train_loop', *OPTIONS], 2, schedule=SCHEDULE,
                             STEPAGENT_SIM_CLOCK_OFFSET='-3s')
        for cycle in found:
            self.assertEqual(device_rows(cycle), [])
            self.assertGreater(cycle.manifest['balance']['kernel']['invalid'], 0)
            self.assertIn('impossible_stamps', notes(cycle))


if __name__ == '__main__':
    harness.main()
