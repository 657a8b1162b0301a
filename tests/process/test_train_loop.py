"""The main job on the simulated device: exact work per step, whatever the device does when."""
import collections
import json
import os
import unittest

import harness
from harness import AgentTest, app

SCHEDULE = 'skip_first=2,wait=1,warmup=1,active=2,repeat=2'
TRAIN = app('train_loop')


class TrainLoop(AgentTest):
    def expected(self, *options):
        result = self.run_app([TRAIN, *options, '--print-expected'], harness.clean_environment())
        return json.loads(result.stdout)

    def run_train(self, *options, **settings):
        settings.setdefault('schedule', SCHEDULE)
        env = self.environment(step='nvtx:train_step', **settings)
        return self.run_app([TRAIN, *options], env)

    def check_cycle(self, cycle, expected, graph_level='graph'):
        """Each active step holds exactly the work launched in it."""
        manifest = cycle.manifest
        self.assertEqual(manifest['gpu']['status'], 'collected', manifest['gpu'])
        for step in manifest['steps']:
            per_step = expected['per_step'][step['index']]
            self.assertEqual(step['launches'], per_step['launches'])
            self.assertEqual(step['copies'], per_step['copies'])
            self.assertEqual(step['sets'], per_step['sets'])
            self.assertTrue(step['complete'])
            kernels = per_step['kernels']
            if graph_level == 'graph':  # the kernels inside a graph launch are not listed
                kernels = per_step['calls']['cuLaunchKernel']
            self.assertEqual(step['kernels'], kernels, step)
        rows = cycle.rows('kernel')
        inside = sum(s['kernels'] for s in manifest['steps'])
        self.assertEqual(len(rows), inside + manifest['outside_steps']['kernels'])
        self.assertEqual(len(rows), manifest['balance']['kernel']['written'])
        self.assertEqual(manifest['joins']['launches_without_device_work'], 0, manifest['joins'])
        self.assertEqual(manifest['joins']['device_work_without_launch'], 0, manifest['joins'])
        return collections.Counter(row['name'] for row in rows)

    def test_two_cycles(self):
        for _ in range(2):
            self.run_train()
        found = self.traced(4)
        self.assertEqual(len(harness.runs(self.out)), 2)
        expected = self.expected()
        for cycle, steps in zip(found, ([4, 5], [8, 9]) * 2):
            self.assertEqual(cycle.steps, steps)
            self.check_cycle(cycle, expected)
            names = {row['name'] for row in cycle.rows('user_annotation')}
            self.assertLessEqual({'ProfilerStep#%d' % s for s in steps}, names)
            self.assertLessEqual({'load_batch', 'copy_in', 'forward', 'backward', 'optimizer'}, names)
            self.assertEqual({n for n in names if n.startswith('ProfilerStep')},
                             {'ProfilerStep#%d' % s for s in steps})

    def test_work_stays_with_its_step_when_the_device_lags(self):
        options = ('--lag', '3', '--kernel-us', '300', '--steps', '14')
        self.run_train(*options)
        expected = self.expected(*options)
        for cycle in self.traced(2):
            self.check_cycle(cycle, expected)

    def test_back_to_back_cycles(self):
        self.run_train('--steps', '13', '--lag', '2', schedule='wait=0,warmup=0,active=3,repeat=4')
        expected = self.expected('--steps', '13', '--lag', '2')
        found = self.traced(4)
        self.assertEqual([c.steps for c in found], [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]])
        for cycle in found:
            self.check_cycle(cycle, expected)

    @unittest.skipIf(harness.PERSONALITY == '11.8',
                     'before 12.0 update 1 kernels of earlier graphs are not seen: test_cupti_graphs')
    def test_graph_nodes(self):
        self.run_train(graph='node')
        expected = self.expected()
        for cycle in self.traced(2):
            self.check_cycle(cycle, expected, 'node')

    def test_work_of_a_wait_that_runs_in_the_next_window_is_not_that_windows(self):
        """The device is slower than the program and lags: kernels of step 6 run in steps 8 and 9."""
        load = ('--lag', '3', '--kernel-us', '2000', '--steps', '14')
        self.run_train(*load)
        expected = self.expected(*load)
        for cycle in self.traced(2):
            self.check_cycle(cycle, expected)

    def test_first_step_before_cuda_is_up(self):
        self.run_train('--steps', '3', schedule='active=1,repeat=1')
        cycle, = self.traced(1)
        self.assertEqual(cycle.steps, [0])
        self.check_cycle(cycle, self.expected())

    def test_short_steps_that_outrun_a_slow_cupti_are_labelled(self):
        """One warmup step far shorter than arming, and no patience: short, and said so."""
        env = self.environment(schedule='wait=1,warmup=1,active=400,repeat=1', step='nvtx:train_step',
                               arm_wait='1ms', STEPAGENT_SIM_SUBSCRIBE='700ms')
        self.run_app([app('train_loop'), '--steps', '404', '--sleep-us', '5000'], env)
        cycle, = self.traced(1)
        partial = [s['partial'] for s in cycle.manifest['steps']]
        self.assertTrue(partial[0], 'the first active step was there before CUPTI')
        self.assertEqual(sorted(partial, reverse=True), partial, 'those before, then those after')
        for step in cycle.manifest['steps']:
            self.assertTrue(step['contains_tracer_start'] or not step['partial'])
            counts = [step[k] for k in ('launches', 'kernels', 'copies', 'sets')]
            if step['partial']:  # nobody looked, or not from the start
                self.assertEqual(counts, [None] * 4)
            else:
                self.assertNotIn(None, counts)
        each = cycle.summary['steps']['each']
        self.assertEqual([row['launches'] is None for row in each], partial)
        self.assertEqual([row['kernels'] is None for row in each], partial)
        self.assertFalse(cycle.manifest['cycle']['complete'])
        self.assertIn('%d active step' % sum(partial), cycle.manifest['cycle']['reason'])
        self.assertIn('tracer_start_in_window', [n['code'] for n in cycle.manifest['notes']])
        report = self.control('report', cycle.folder, status=None)
        self.assertIn('ran before CUPTI was ready', ' '.join(report.stdout.split()))

    def test_a_kind_that_was_not_asked_for_is_null_everywhere(self):
        env = self.environment(schedule='wait=1,warmup=1,active=2,repeat=1', step='nvtx:train_step',
                               activities='-kernel')
        self.run_app([app('train_loop'), '--steps', '6'], env)
        cycle, = self.traced(1)
        self.assertNotIn('kernel', cycle.manifest['balance'])  # nobody asked, nobody counted
        self.assertEqual({s['kernels'] for s in cycle.manifest['steps']}, {None})
        self.assertGreater(cycle.manifest['steps'][0]['copies'], 0)
        self.assertGreater(cycle.manifest['steps'][0]['launches'], 0)
        self.assertIsNone(cycle.manifest['joins']['launches_without_device_work'])
        device, = cycle.summary['devices']
        self.assertIsNone(device['busy_ns'])
        self.assertIsNone(device['compute_ns'])
        self.assertGreater(device['copy_ns'], 0)
        self.assertIsNone(cycle.summary['kernels'])
        self.assertEqual(cycle.summary['absent']['devices.busy_ns'],
                         'kernel: not asked for (--activities)')

    def test_every_source_and_whole_run(self):
        # Counted from the first CUDA or NVTX use: the wait is for cuInit, which takes its time.
        env = self.environment(schedule='wait=5,warmup=1,active=2,repeat=1', step='every:30ms',
                               labels='samples_per_step=64')
        self.run_app([TRAIN, '--steps', '120', '--sleep-us', '4000'], env)
        cycle, = self.traced(1)
        self.assertEqual(len(cycle.steps), 2)
        self.assertEqual(cycle.manifest['gpu']['status'], 'collected')
        # A slice is as long as the clock makes it.
        self.assertEqual(cycle.manifest['cost']['ratio']['reason'],
                         'not measured: steps are slices of the clock (every:30ms)')
        self.assertIsNone(cycle.summary['examples_per_second'])

    def test_application_is_unchanged(self):
        plain = self.run_app([TRAIN, '--print-counts'],
                             dict(harness.clean_environment(), LD_LIBRARY_PATH=harness.sim_path()))
        traced = self.run_app([TRAIN, '--print-counts'],
                              self.environment(schedule=SCHEDULE, step='nvtx:train_step'))
        self.assertEqual(plain.stdout, traced.stdout)
        self.assertEqual(plain.stderr, traced.stderr)

    def test_strict_chrome_checker(self):
        self.run_train()
        checker = os.path.join(harness.SOURCE, 'tests', 'support', 'check_chrome.py')
        for cycle in self.traced(2):
            self.run_app(['/usr/bin/python3', checker, cycle.chrome_path],
                         harness.clean_environment())


if __name__ == '__main__':
    harness.main()
