"""What the simulator is trusted for: each expectation named with the line of its README it backs.

Runs on the simulated device; with STEPAGENT_TEST_GPU=1 on the machine's own, where an expectation
that needs the simulator's scripts is skipped by name. The agent and its traces are the instrument:
what it saw is compared with what the program says it did.
"""
import os
import unittest

import harness
from cupti_case import CuptiTest, device_rows

ON_DEVICE = os.environ.get('STEPAGENT_TEST_GPU', '') not in ('', '0')
SCHEDULE = 'skip_first=2,wait=0,warmup=1,active=3,repeat=1'


def backs(line):
    """Names the simulator behaviour; shown by `ctest -L conformance -V`."""
    def mark(test):
        test.__doc__ = 'backs: ' + line
        return test
    return mark


class Expectations(CuptiTest):
    def environment(self, **settings):
        settings.setdefault('sim', not ON_DEVICE)
        return super().environment(**settings)

    def train(self, *options, **settings):
        settings.setdefault('schedule', SCHEDULE)
        cycle, = self.capture(['train_loop', *options], 1, **settings)
        self.assertEqual(cycle.manifest['gpu']['status'], 'collected', cycle.manifest['gpu'])
        return cycle, [self.expected(*options)[index] for index in cycle.steps]

    def check_steps(self, cycle, expected, kernels='launched'):
        for step, want in zip(cycle.manifest['steps'], expected):
            count = want['kernels'] if kernels == 'all' else want['calls']['cuLaunchKernel']
            self.assertEqual((step['launches'], step['kernels'], step['copies'], step['sets']),
                             (want['launches'], count, want['copies'], want['sets']))

    @backs('CUDA_INJECTION64_PATH: inside the first cuInit')
    def test_injection_comes_with_the_first_cu_init(self):
        cycle, expected = self.train('--steps', '3', schedule='active=1,repeat=1')
        self.assertEqual(cycle.manifest['steps'][0]['launches'], expected[0]['launches'])

    @backs('enter and exit callbacks: correlation ids; runtime over driver under one id')
    def test_every_call_once_and_joined_to_its_work(self):
        cycle, expected = self.train()
        self.check_steps(cycle, expected)
        self.check_order(cycle)
        joins = cycle.manifest['joins']
        self.assertEqual((joins['launches_without_device_work'],
                          joins['device_work_without_launch']), (0, 0))

    @backs('kernel, copy (memory kinds), set records')
    def test_records_carry_what_was_asked(self):
        cycle, expected = self.train()
        self.assertEqual(sum(row['args']['bytes'] for row in cycle.rows('gpu_memcpy')),
                         sum(sum(want['copy_bytes_by_kind'].values()) for want in expected))
        self.assertEqual(sum(row['args']['bytes'] for row in cycle.rows('gpu_memset')),
                         sum(want['set_bytes'] for want in expected))
        self.assertTrue(all(row['dur'] > 0 for row in device_rows(cycle)))

    @backs('graph records: one per launch')
    def test_a_graph_launch_is_one_record(self):
        cycle, expected = self.train(graph='graph')
        self.check_steps(cycle, expected)

    @backs('graph records: one per node under the launch\'s correlation')
    def test_a_graph_launch_is_all_its_kernels(self):
        cycle, expected = self.train(graph='node')
        self.check_steps(cycle, expected, 'all')

    @backs('graphs: ten thousand nodes')
    def test_ten_thousand_nodes(self):
        cycle, = self.capture(['graph_heavy', '--nodes', '10000', '--steps', '6'], 1, graph='node',
                              schedule='skip_first=2,warmup=1,active=2,repeat=1')
        self.assertEqual([s['kernels'] for s in cycle.manifest['steps']], [10000, 10000])

    @backs('ids, recycled or not')
    def test_recycled_graph_ids(self):
        cycle, = self.capture(['cupti_ways', 'recycle', '8'], 1, graph='node',
                              schedule='skip_first=1,warmup=1,active=4,repeat=1')
        self.assertEqual([s['kernels'] for s in cycle.manifest['steps']],
                         [s + 1 for s in cycle.steps])

    @backs('plain flush withholds, forced flush truncates')
    def test_work_that_outlives_its_step(self):
        cycle, expected = self.train('--lag', '3', '--kernel-us', '300', '--steps', '14')
        self.check_steps(cycle, expected)
        self.assertTrue(cycle.manifest['cycle']['complete'])

    @backs('one subscriber in the process')
    def test_one_subscriber(self):
        cycle, = self.capture(['rival_cupti', '--cupti', 'libcupti.so', '--at', '4', '--steps', '12',
                               '--step-us', '20000'], 1,
                              schedule='skip_first=1,warmup=2,active=4,repeat=1')
        self.assertEqual(cycle.manifest['gpu']['status'], 'collected')
        self.assertIn('subscribe at a step: 39', self.result.stdout)

    @backs('device clock on CUPTI\'s base clock')
    def test_no_work_before_its_launch(self):
        cycle, _ = self.train('--steps', '30', schedule='warmup=3,active=20,repeat=1')
        self.check_order(cycle)

    @backs('contexts: stack, primaries')
    def test_several_contexts(self):
        cycle, = self.capture(['cupti_ways', 'contexts', '8'], 1, schedule=SCHEDULE)
        self.assertEqual({s['kernels'] for s in cycle.manifest['steps']}, {3})
        self.assertEqual(len({row['args']['context'] for row in cycle.rows('kernel')}), 2)

    @unittest.skipIf(ON_DEVICE, 'a record is made odd by the simulator\'s script')
    @backs('odd records')
    def test_odd_records_are_counted(self):
        cycle, expected = self.train(STEPAGENT_SIM_ODD='zero/7')
        balance = cycle.manifest['balance']['kernel']
        self.assertEqual(balance['written'] + balance['invalid'],
                         sum(want['calls']['cuLaunchKernel'] for want in expected))


if __name__ == '__main__':
    harness.main()
