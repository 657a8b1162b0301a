"""What the simulator is trusted for: each expectation names the line of its README that it backs.

`test_map.py` holds that no line is without one. Runs on the simulated device; with STEPAGENT_TEST_GPU=1 on the machine's own, where an expectation
that needs the simulator's scripts is skipped by name. The agent and its traces are the instrument:
what it saw is compared with what the program says it did.
"""
import json
import os
import subprocess
import sys
import unittest

import harness
from cupti_case import CuptiTest, device_rows

ON_DEVICE = os.environ.get('STEPAGENT_TEST_GPU', '') not in ('', '0')
SCHEDULE = 'skip_first=2,wait=0,warmup=1,active=3,repeat=1'


def backs(line):
    """Names the simulator behaviour; shown by `ctest -L conformance -V`."""
    def mark(test):
        test.line = line
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

    def ask(self, question, **settings):
        """driver_ways.py's answer, from a process without the agent."""
        env = harness.clean_environment()
        if not ON_DEVICE:
            env['LD_LIBRARY_PATH'] = harness.sim_path()
        env.update(settings)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'driver_ways.py')
        ran = subprocess.run([sys.executable, script, question], env=env, capture_output=True,
                             text=True, timeout=harness.PATIENCE, check=False)
        if ran.returncode == 77:
            self.skipTest('no libcupti is found by name')
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return json.loads(ran.stdout)

    @backs('cuInit results, calls before it (3)')
    def test_calls_before_cu_init(self):
        answer = self.ask('before_init')
        self.assertEqual((answer['early'], answer['name']), (3, 'CUDA_ERROR_NOT_INITIALIZED'))
        self.assertEqual((answer['version_result'], answer['init']), (0, 0))
        self.assertGreaterEqual(answer['version'], 11000)
        self.assertGreaterEqual(answer['devices'], 1)

    @backs('CUDA in a forked child of an initialised process')
    def test_a_forked_child_has_no_cuda(self):
        self.assertEqual(self.ask('fork', STEPAGENT_SIM_FORK='error')['child'], 3)

    @backs('cuGetProcAddress by version and flags with its status')
    def test_functions_by_version(self):
        answer = self.ask('proc_address')
        self.assertEqual(answer['there'], {'result': 0, 'status': 0, 'found': True})
        self.assertEqual((answer['unknown']['status'], answer['unknown']['found']), (1, False))
        self.assertEqual((answer['too_low']['status'], answer['too_low']['found']), (2, False))

    @backs('one buffer per thread and concurrent callbacks from 13 on')
    def test_buffers_per_thread(self):
        answer = self.ask('threads_of_buffers')
        if answer['api'] < 21:
            self.skipTest('the attribute came with 12.3')
        self.assertEqual((answer['result'], answer['per_thread']),
                         (0, 1 if answer['api'] >= 130000 else 0))

    @backs('streams in order and side by side')
    def test_work_of_one_stream_follows_its_order(self):
        cycle, _ = self.train()
        ends = {}
        for row in sorted(device_rows(cycle), key=lambda row: row['ts']):
            lane = (row['pid'], row['tid'])
            self.assertGreaterEqual(row['ts'] + 1e-3, ends.get(lane, 0), row)
            ends[lane] = row['ts'] + row['dur']
        self.assertGreater(len(ends), 1)

    @backs('memory that holds data')
    def test_data_comes_back(self):
        self.train()
        self.assertRegex(self.result.stdout, "weights: (equal to the host's|as uploaded)")

    @backs('PTX entries, durations')
    def test_kernels_have_the_names_of_their_ptx(self):
        cycle, _ = self.train('--kernel-us', '200', graph='node')
        self.assertLessEqual({row['name'] for row in cycle.rows('kernel')},
                             {'fwd_linear', 'fwd_relu', 'loss_sum', 'bwd_linear', 'sgd_update'})
        self.assertGreaterEqual(min(row['dur'] for row in cycle.rows('kernel')), 199)

    @backs('CUDA_INJECTION64_PATH: inside the first cuInit')
    def test_injection_comes_with_the_first_cu_init(self):
        """Armed inside cuInit, so that the very first launch is seen."""
        cycle, = self.capture(['cupti_ways', 'inside', '4'], 1, schedule='active=1,repeat=1')
        step, = cycle.manifest['steps']
        self.assertEqual((step['index'], step['launches'], step['kernels']), (0, 1, 1))

    @backs('enter and exit callbacks: correlation ids; runtime over driver under one id')
    def test_every_call_once_and_joined_to_its_work(self):
        cycle, expected = self.train()
        self.check_steps(cycle, expected)
        self.check_order(cycle)
        joins = cycle.manifest['joins']
        self.assertEqual((joins['launches_without_device_work'],
                          joins['device_work_without_launch']), (0, 0))

    @backs('kernel, copy (memory kinds), set')
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

    @backs('conditional nodes')
    def test_bodies_of_conditional_nodes(self):
        cycle, = self.capture(['cupti_ways', 'conditional', '8'], 1, graph='node',
                              schedule='skip_first=1,warmup=1,active=4,repeat=1')
        version = cycle.manifest['gpu']['cupti_version']
        seen = {3} if version > 24 else {1, 3} if version == 24 else {1}
        for step in cycle.manifest['steps']:
            self.assertEqual(step['launches'], 1)
            self.assertIn(step['kernels'], seen)

    @backs('cuptiFinalize: forgets all')
    def test_finalised_by_another(self):
        first, second = self.capture(['cupti_ways', 'finalise', '16', '30000', 'libcupti.so'], 2,
                                     schedule='skip_first=2,wait=2,warmup=2,active=2,repeat=2')
        for cycle in (first, second):
            self.assertEqual(cycle.manifest['gpu']['status'], 'collected', cycle.manifest['gpu'])

    @backs('copies between devices')
    def test_peer_copies(self):
        cycle, = self.capture(['cupti_ways', 'peer', '8'], 1, schedule=SCHEDULE,
                              STEPAGENT_SIM_DEVICES='2')
        self.assertEqual({s['copies'] for s in cycle.manifest['steps']}, {2})

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

    @backs('numba')
    def test_a_python_program(self):
        python = os.environ.get('STEPAGENT_TEST_PYTHON', '/usr/bin/python3')
        env = self.environment(step='nvtx:train_step@*', schedule=SCHEDULE, arm_wait='10s')
        ran = self.run_app([python, harness.app('train.py')], env, status=None)
        if ran.returncode == 77:
            self.skipTest(ran.stdout.strip())
        self.assertEqual(ran.returncode, 0, ran.stderr)
        cycle, = self.traced(1)
        self.assertEqual([(s['launches'], s['kernels'], s['copies'], s['sets'])
                          for s in cycle.manifest['steps']], [(3, 3, 2, 1)] * 3)


if __name__ == '__main__':
    harness.main()
