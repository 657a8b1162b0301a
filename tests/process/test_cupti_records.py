"""Odd device records: counted by kind, shown, never a crash, never a bar of no length."""
import os
import re

import harness
from cupti_case import CALL_ROWS, CuptiTest, device_rows, notes

SCHEDULE = 'skip_first=1,wait=0,warmup=1,active=3,repeat=1'
STEPS = ('--steps', '7')
UNNAMED = '(kernel without a name)'


class OddRecords(CuptiTest):
    def train(self, odd='', **settings):
        if odd:
            settings['STEPAGENT_SIM_ODD'] = odd
        cycle, = self.capture(['train_loop', *STEPS], 1, schedule=SCHEDULE, **settings)
        self.assertEqual(cycle.manifest['gpu']['status'], 'collected')
        return cycle

    def asked_for(self, cycle):
        """What the program launched in the window: kernels outside graphs, copies, sets."""
        steps = [self.expected(*STEPS)[index] for index in cycle.steps]
        return {'kernel': sum(s['calls']['cuLaunchKernel'] for s in steps),
                'memcpy': sum(s['copies'] for s in steps), 'memset': sum(s['sets'] for s in steps)}

    def check_all_written(self, cycle):
        for kind, count in self.asked_for(cycle).items():
            row = cycle.manifest['balance'][kind]
            self.assertEqual((row['written'], row['invalid'], row['dropped']), (count, 0, 0), kind)

    def test_impossible_stamps(self):
        for what in ('zero', 'zero_start', 'reversed', 'future'):
            with self.subTest(what):
                self.out = os.path.join(self.scratch, what)
                cycle = self.train(what + '/7')
                balance = cycle.manifest['balance']
                for kind, count in self.asked_for(cycle).items():
                    row = balance[kind]
                    self.assertEqual(row['written'] + row['invalid'], count, kind)
                self.assertGreater(balance['kernel']['invalid'], 0)
                self.assertIn('impossible_stamps', notes(cycle))
                self.assertFalse(cycle.manifest['cycle']['complete'])
                self.assertIn('with impossible times', cycle.manifest['cycle']['reason'])
                # The launches are no less launches for that.
                steps = self.expected(*STEPS)
                for step in cycle.manifest['steps']:
                    self.assertEqual(step['launches'], steps[step['index']]['launches'])

    def test_nothing_has_its_times(self):
        """Kernels ran, and nobody knows when: no step says that it had none."""
        cycle = self.train('zero/1')
        for step in cycle.manifest['steps']:
            self.assertGreater(step['launches'], 0)
            self.assertIsNone(step['kernels'])
            self.assertFalse(step['complete'])
        self.assertEqual(cycle.manifest['joins']['device_work_without_launch'], 0)
        self.assertFalse(cycle.manifest['cycle']['complete'])

    def test_end_missing(self):
        """What a forced flush delivers of unfinished work is no bar, and is counted."""
        cycle = self.train('zero_end/7')
        self.assertIn('unfinished_work', notes(cycle))
        self.assertGreater(cycle.manifest['balance']['kernel']['invalid'], 0)
        for kind, count in self.asked_for(cycle).items():
            row = cycle.manifest['balance'][kind]
            self.assertEqual(row['written'] + row['invalid'], count, kind)

    def test_names(self):
        for what in ('null_name', 'empty_name', 'long_name', 'bad_utf8'):
            with self.subTest(what):
                self.out = os.path.join(self.scratch, what)
                cycle = self.train(what + '/5')
                self.check_all_written(cycle)
                names = {row['name'] for row in cycle.rows('kernel')}
                # Long ones are cut, and the cut is no new name each time.
                self.assertLessEqual(max(map(len, names)), 4096)
                if what in ('null_name', 'empty_name'):
                    self.assertIn(UNNAMED, names)
                self.assertNotIn('', names)
                self.assertEqual(len(names), 5, {name[:40] for name in names})
                checker = os.path.join(harness.SOURCE, 'tests', 'support', 'check_chrome.py')
                self.run_app(['/usr/bin/python3', checker, cycle.chrome_path],
                             harness.clean_environment())

    def test_no_kernel_has_a_name(self):
        cycle = self.train('null_name/1')
        self.check_all_written(cycle)
        self.assertEqual({row['name'] for row in cycle.rows('kernel')}, {UNNAMED})
        self.assertEqual({tuple(row['args']['block']) for row in cycle.rows('kernel')},
                         {(256, 1, 1)})

    def test_no_device(self):
        cycle = self.train('no_device/5')
        self.check_all_written(cycle)
        self.assertEqual({row['args']['device'] for row in device_rows(cycle)}, {-1, 0})

    def test_unknown_kinds(self):
        """A kind nobody asked for stands between ours, costs none of them, and is counted."""
        cycle = self.train('extra/3')
        self.check_all_written(cycle)
        kind = 60 if harness.PERSONALITY == 'future' else 20
        said = re.fullmatch(r'CUPTI also delivered .*: (\d+) of kind %d' % kind,
                            notes(cycle)['other_kinds'])
        self.assertIsNotNone(said, notes(cycle))
        # One for every third piece of device work from arming on.
        self.assertGreater(int(said.group(1)), sum(self.asked_for(cycle).values()) // 3 - 1)

    def test_delivered_twice(self):
        """Each piece of work is drawn once; the second record is no work, and is counted."""
        for how in ('duplicate/1', 'duplicate/4'):
            with self.subTest(how):
                self.out = os.path.join(self.scratch, how.replace('/', '-'))
                cycle = self.train(how)
                second = 0
                for kind, count in self.asked_for(cycle).items():
                    row = cycle.manifest['balance'][kind]
                    self.assertEqual((row['written'], row['dropped']), (count, 0), kind)
                    second += row['invalid']
                    if how == 'duplicate/1':
                        self.assertEqual(row['invalid'], count, kind)
                self.assertGreater(second, 0)
                self.assertIn('came a second time', notes(cycle)['duplicate_records'])
                self.assertNotIn('impossible_stamps', notes(cycle))
                steps = self.expected(*STEPS)
                for step in cycle.manifest['steps']:
                    self.assertEqual(step['kernels'],
                                     steps[step['index']]['calls']['cuLaunchKernel'])
                self.assertEqual(cycle.manifest['joins']['device_work_without_launch'], 0)

    def test_waits(self):
        """Every wait is one call; CUPTI's own record of it is a row of its own, joined to it."""
        cycle = self.train()
        calls = {row['args']['correlation']: row['name'] for category in CALL_ROWS
                 for row in cycle.rows(category) if 'Synchronize' in row['name']}
        self.assertEqual(cycle.manifest['balance']['sync']['written'], len(calls))
        rows = cycle.rows('cuda_sync')
        kinds = {row['args']['correlation']: row['args']['cuda_sync_kind'] for row in rows}
        self.assertEqual(len(kinds), len(rows))
        for correlation, name in calls.items():
            wanted = {'cuStreamSynchronize': 'Stream Sync', 'cuEventSynchronize': 'Event Sync',
                      'cuCtxSynchronize': 'Context Sync'}[name]
            self.assertEqual(kinds[correlation], wanted)
        self.out = os.path.join(self.scratch, 'off')
        cycle = self.train(activities='-sync')
        self.assertEqual(cycle.rows('cuda_sync'), [])
        self.assertFalse(cycle.manifest['kinds']['sync']['requested'])
        self.assertFalse(any('Synchronize' in row['name'] for row in cycle.rows('cuda_driver')))

    def test_dropped_by_cupti(self):
        cycle = self.train('drop/5')
        # CUPTI says how many and not of which kind, so a count per kind is not known.
        self.assertIn('cupti_dropped', notes(cycle))
        self.assertIsNone(cycle.manifest['balance']['kernel']['dropped'])
        self.assertFalse(cycle.manifest['cycle']['complete'])
        self.assertGreater(cycle.manifest['joins']['launches_without_device_work'], 0)

    def test_correlation_wraps(self):
        for start in ('0xFFFFFFF0', '0xFFFFFFC8'):
            with self.subTest(start):
                self.out = os.path.join(self.scratch, start)
                cycle = self.train(STEPAGENT_SIM_CORRELATION_START=start)
                self.check_all_written(cycle)
                self.check_order(cycle)
                joins = cycle.manifest['joins']
                self.assertEqual(joins['launches_without_device_work'], 0, joins)
                self.assertEqual(joins['device_work_without_launch'], 0, joins)

    def test_late_and_out_of_order(self):
        cycle = self.train(STEPAGENT_SIM_LATE='300ms', STEPAGENT_SIM_ORDER='random',
                           STEPAGENT_SIM_SEED='7')
        self.check_all_written(cycle)
        self.check_order(cycle)
        steps = self.expected(*STEPS)
        for step in cycle.manifest['steps']:
            self.assertEqual(step['kernels'], steps[step['index']]['calls']['cuLaunchKernel'])

    def test_failing_launches(self):
        cycle, = self.capture(['runtime_loop', '--steps', '12', '--failing'], 1,
                              schedule='skip_first=2,wait=0,warmup=1,active=3,repeat=1')
        joins = cycle.manifest['joins']
        self.assertGreater(joins['failed'], 0)
        self.assertEqual(joins['launches_without_device_work'], 0, joins)
        self.assertTrue(cycle.manifest['cycle']['complete'])


if __name__ == '__main__':
    harness.main()
