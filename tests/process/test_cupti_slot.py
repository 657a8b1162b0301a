"""CUPTI has one subscription: who holds it when, and what the other side notices."""
import os
import unittest

import harness
from cupti_case import NAMES_THE_HOLDER, SONAME, CuptiTest, counters, notes

# Steps of 30 ms and a wait of two: too short to release the subscription in between.
KEPT = 'skip_first=2,wait=2,warmup=2,active=2,repeat=2'   # active 6 7, 12 13
# A wait that is expected to last longer than the two seconds from which on it is released.
RELEASED = 'skip_first=2,wait=90,warmup=2,active=2,repeat=2'   # active 94 95, 188 189


class Slot(CuptiTest):
    def rival(self, *options, cycles, steps=30, step_us=30000, **settings):
        settings.setdefault('schedule', KEPT)
        return self.capture(['rival_cupti', '--cupti', SONAME, '--steps', str(steps), '--step-us',
                             str(step_us), *options], cycles, **settings)

    def check_refused(self, cycle):
        gpu = cycle.manifest['gpu']
        self.assertEqual((gpu['status'], gpu['reason_code']), ('unavailable', 'slot_taken'))
        self.assertIn('another CUPTI client', gpu['reason'])
        self.assertIn('torch.profiler', gpu['reason'])  # whom to suspect
        self.assertTrue(cycle.chrome_path.endswith('.hostonly.pt.trace.json.gz'))
        self.assertIsNone(cycle.manifest['balance']['kernel']['produced'])
        if NAMES_THE_HOLDER:
            self.assertTrue(gpu['holder'])
            self.assertIn(gpu['holder'], gpu['reason'])

    def check_collected(self, cycle):
        self.assertEqual(cycle.manifest['gpu']['status'], 'collected', cycle.manifest['gpu'])
        self.assertGreater(cycle.manifest['balance']['kernel']['written'], 0)

    def test_taken_before_us(self):
        """Every cycle says so, uses up its place, and the rival never notices."""
        found = self.rival('--early', cycles=2)
        for cycle in found:
            self.check_refused(cycle)
        self.assertEqual([cycle.steps for cycle in found], [[6, 7], [12, 13]])
        self.assertIn('rival: 30 kernel records of 30 steps', self.result.stdout)

    def test_taken_while_we_wait_and_given_back(self):
        """The first cycle is lost to the rival, the next one tries again."""
        first, second = self.rival('--at', '2', '--until', '9', cycles=2)
        self.check_refused(first)
        self.check_collected(second)
        self.assertIn('rival: subscribe at a step: 0', self.result.stdout)
        self.assertIn('rival: 7 kernel records', self.result.stdout)

    def test_a_rival_that_tries_once_inside_our_window(self):
        """Kineto never tries again: its one attempt inside our window fails, ours is whole."""
        for cycle in self.rival('--at', '7', cycles=2):
            self.check_collected(cycle)
        self.assertIn('rival: subscribe at a step: 39', self.result.stdout)
        self.assertIn('rival: 0 kernel records', self.result.stdout)

    def test_a_rival_that_tries_again_gets_the_slot_when_we_are_done(self):
        for cycle in self.rival('--at', '7', '--retry', cycles=2):
            self.check_collected(cycle)
        self.assertIn('rival: subscribe at a step: 39', self.result.stdout)
        self.assertIn('rival: subscribe at a step: 0', self.result.stdout)

    def test_release_between_cycles(self):
        """In a wait of some length the slot is free: the rival has it, and we get it back."""
        first, second = self.rival('--at', '98', '--retry', '--until', '150', cycles=2, steps=200,
                                   schedule=RELEASED, log='info:' + self.scratch + '/log')
        self.check_collected(first)
        self.check_collected(second)
        self.assertIn('rival: subscribe at a step: 0', self.result.stdout)
        with open(self.scratch + '/log', encoding='utf-8') as log:
            self.assertEqual(log.read().count('subscription released'), 2)

    def test_finalised_between_cycles(self):
        """A rival that ends CUPTI under us costs nothing: the next cycle starts it again."""
        # Active 5 and 11; it finalises at the start of step 8.
        first, second = self.capture(
            ['cupti_ways', 'finalise', '16', '60000', SONAME], 2,
            schedule='wait=3,warmup=2,active=1,repeat=2')
        self.check_collected(first)
        self.check_collected(second)
        self.assertIn('finalise: 0', self.result.stdout)

    def test_finalised_at_the_end_of_our_window(self):
        """Either it was seen whole before, or nobody knows: never something in between."""
        first, second = self.capture(['cupti_ways', 'finalise', '16', '30000', SONAME], 2,
                                     schedule=KEPT)
        self.check_collected(second)
        counts = {(step['launches'], step['kernels']) for step in first.manifest['steps']}
        if first.manifest['gpu']['status'] == 'collected':
            self.assertEqual(counts, {(1, 1)})
            self.assertTrue(first.manifest['cycle']['complete'])
        else:
            self.assertEqual(first.manifest['gpu']['reason_code'], 'cupti_finalized')
            self.assertEqual(counts, {(None, None)})

    def test_a_failure_of_ours_is_not_blamed_on_a_rival(self):
        """CUPTI that names no function: every cycle says so, and afterwards the slot is free."""
        for cycle in self.rival('--at', '20', '--retry', cycles=2,
                                STEPAGENT_SIM_FAULTS='cuptiGetCallbackName=999'):
            gpu = cycle.manifest['gpu']
            self.assertEqual((gpu['status'], gpu['reason_code']), ('partial', 'kinds_missing'))
            self.assertIn('cuptiGetCallbackName', gpu['reason'])
            self.assertGreater(cycle.manifest['balance']['kernel']['written'], 0)
            for step in cycle.manifest['steps']:
                self.assertEqual({step[k] for k in ('launches', 'kernels', 'copies', 'sets')}, {None})
        self.assertIn('rival: subscribe at a step: 0', self.result.stdout)

    def check_finalised(self, schedule):
        """The cycle says so, and no count of it is taken for a whole one; the next is right."""
        first, second = self.capture(['cupti_ways', 'finalise', '24', '30000', SONAME], 2,
                                     schedule=schedule)
        self.assertIn('finalise: 0', self.result.stdout)
        self.check_collected(second)
        self.assertTrue(second.manifest['cycle']['complete'], second.manifest['cycle'])
        gpu = first.manifest['gpu']
        self.assertEqual((gpu['status'], gpu['reason_code']), ('partial', 'cupti_finalized'))
        self.assertFalse(first.manifest['cycle']['complete'])
        self.assertIn('cuptiFinalize', first.manifest['cycle']['reason'])
        self.assertIn('cuptiFinalize', self.result.stderr)
        for step in first.manifest['steps']:
            self.assertEqual({step[k] for k in ('launches', 'kernels', 'copies', 'sets')}, {None})
        for kind in ('kernel', 'launch'):
            self.assertIsNone(first.manifest['balance'][kind]['produced'])
            self.assertTrue(first.manifest['kinds'][kind]['error'])
        with open(os.path.join(first.folder, 'summary.txt'), encoding='utf-8') as text:
            self.assertIn('cuptiFinalize', text.read())
        return first

    def test_finalised_in_our_warmup(self):
        first = self.check_finalised('skip_first=2,wait=4,warmup=3,active=2,repeat=2')  # step 8
        self.assertEqual(first.steps, [9, 10])

    def test_finalised_in_our_window(self):
        first = self.check_finalised('skip_first=2,wait=4,warmup=1,active=4,repeat=2')
        self.assertEqual(first.steps, [7, 8, 9, 10])

    def test_what_is_never_called(self):
        stats = self.scratch + '/stats'
        found = self.rival('--at', '1000', cycles=2, STEPAGENT_SIM_STATS=stats)
        for cycle in found:
            self.check_collected(cycle)
        called = counters(stats)
        self.assertGreater(called['cupti.cuptiActivityFlushAll'], 0)
        for name in ('cuptiFinalize', 'cuptiActivityRegisterTimestampCallback', 'cuptiEnableDomain'):
            self.assertEqual(called.get('cupti.' + name, 0), 0, name)

    @unittest.skipUnless(NAMES_THE_HOLDER, 'cuptiSubscribe_v2 came with CUPTI 13.0')
    def test_the_summary_names_the_holder(self):
        first, _ = self.rival('--early', cycles=2)
        with open(os.path.join(first.folder, 'summary.txt'), encoding='utf-8') as text:
            self.assertIn(first.manifest['gpu']['holder'], text.read())
        self.assertNotIn('impossible_stamps', notes(first))


if __name__ == '__main__':
    harness.main()
