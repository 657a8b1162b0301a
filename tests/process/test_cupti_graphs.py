"""CUDA graphs at both levels: one record per launch, or each kernel once and the launch once."""
import os
import subprocess
import unittest

import harness
from cupti_case import CuptiTest, notes

SCHEDULE = 'skip_first=2,wait=0,warmup=1,active=2,repeat=2'
# By the vendor's notes: kernels of graphs from before CUPTI came since 12.0 update 1, of conditional
# bodies since 12.6 update 2.
SEES_EARLY_GRAPHS = harness.PERSONALITY != '11.8'
SEES_BODIES = harness.PERSONALITY not in ('11.8', '12.4')
# What a longer run may take more: buffers that grew once, not a map that grows with every launch.
GROWTH_KIB = 24 * 1024


class Graphs(CuptiTest):
    def heavy(self, nodes, *options, cycles=2, **settings):
        settings.setdefault('schedule', SCHEDULE)
        return self.capture(['graph_heavy', '--nodes', str(nodes), '--steps', '10', *options],
                            cycles, **settings)

    def check(self, cycle, kernels):
        """One launch a step; the graph was instantiated long before the window."""
        self.assertEqual([(s['launches'], s['kernels']) for s in cycle.manifest['steps']],
                         [(1, kernels)] * 2)
        self.assertEqual(cycle.manifest['balance']['launch']['written'], 2)
        joins = cycle.manifest['joins']
        self.assertEqual(joins['launches'], 2)
        self.assertEqual(joins['launches_without_device_work'], 0, joins)
        self.assertEqual(joins['device_work_without_launch'], 0, joins)

    def test_graph_level(self):
        for cycle in self.heavy(100):
            self.assertEqual(cycle.manifest['gpu']['graph_level'], 'graph')
            self.check(cycle, 0)
            with open(os.path.join(cycle.folder, 'summary.txt'), encoding='utf-8') as text:
                self.assertIn('--graph node', text.read())  # what to type for more

    @unittest.skipUnless(SEES_EARLY_GRAPHS, 'see test_graphs_from_before_collection')
    def test_node_level(self):
        for cycle in self.heavy(100, graph='node'):
            self.assertEqual(cycle.manifest['gpu']['graph_level'], 'node')
            self.check(cycle, 100)
            self.check_order(cycle)
            by_launch = {}
            for row in cycle.rows('kernel'):
                by_launch.setdefault(row['args']['correlation'], []).append(row)
            self.assertEqual([len(rows) for rows in by_launch.values()], [100, 100])

    def test_graphs_from_before_collection(self):
        """Node level: old CUPTI does not see their kernels. That is counted, and said."""
        cycle, = self.heavy(10, cycles=1, graph='node',
                            schedule='skip_first=2,wait=0,warmup=1,active=2,repeat=1')
        launches = [s['launches'] for s in cycle.manifest['steps']]
        self.assertEqual(launches, [1, 1])
        if SEES_EARLY_GRAPHS:
            self.check(cycle, 10)
            self.assertNotIn('early_graphs', notes(cycle))
            return
        self.assertEqual([s['kernels'] for s in cycle.manifest['steps']], [0, 0])
        self.assertEqual(cycle.manifest['joins']['launches_without_device_work'], 2)
        self.assertFalse(cycle.manifest['cycle']['complete'])
        self.assertIn('--graph graph', notes(cycle)['early_graphs'])
        self.assertIn('2 launches without', notes(cycle)['launches_without_device_work'])
        self.assertIsNone(cycle.manifest['balance']['kernel']['dropped'])
        for device in cycle.summary['devices']:
            self.assertIsNone(device['busy_ns'])

    def test_conditional_bodies(self):
        """A body's kernels belong to the graph's launch; which CUPTI shows them is its own matter."""
        seen = 3 if SEES_BODIES else 1
        for level in ('graph', 'node'):
            with self.subTest(level):
                self.out = os.path.join(self.scratch, level)
                # The graph is made in step 0, long before collection: see above for old CUPTI.
                cycle, = self.capture(['cupti_ways', 'conditional', '8'], 1, graph=level,
                                      schedule='skip_first=1,warmup=1,active=4,repeat=1')
                kernels = 0 if level == 'graph' or not SEES_EARLY_GRAPHS else seen
                for step in cycle.manifest['steps']:
                    self.assertEqual((step['launches'], step['kernels']), (1, kernels))
                self.assertEqual(cycle.manifest['joins']['device_work_without_launch'], 0)

    def test_memory_over_many_replays(self):
        """What joins launches and work is bounded: three times the replays take no more memory.

        The long form: STEPAGENT_TEST_REPLAYS=1000000 (some minutes).
        """
        most = int(os.environ.get('STEPAGENT_TEST_REPLAYS', '30000'))
        peaks = [self.peaks_kib(replays) for replays in (most // 3, most)]
        print('peak RSS in KiB of application and collector:', peaks)
        for few, many in zip(*peaks):
            self.assertLess(many, few + GROWTH_KIB)

    def peaks_kib(self, replays):
        """Peak memory of the application and of its collector over so many launches of a graph."""
        self.out = os.path.join(self.scratch, str(replays))
        path = os.path.join(self.scratch, 'socket-%d' % replays)
        collector = self.start_app([harness.STEPCOLLECTOR, '--socket', path, '--out', self.out],
                                   harness.clean_environment(), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        harness.eventually(lambda: os.path.exists(path), 'the collector listens')
        env = self.environment(step='nvtx:train_step', schedule='warmup=1,active=999,repeat=0',
                               graph='node' if SEES_EARLY_GRAPHS else 'graph', max_traces='0', max_bytes='0', exit_wait='300s',
                               STEPAGENT_COLLECTOR=path)
        application = self.start_app(
            [harness.app('graph_heavy'), '--nodes', '3', '--steps', str(replays)], env,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        application_peak = harness.peak_until_exit(application)
        self.assertEqual(application.returncode, 0)
        harness.wait_written(self.out, timeout=300)
        collector_peak = harness.peak_kib(collector.pid)
        self.assertEqual(self.stop_app(collector), 0)
        found = harness.cycles(self.out)
        self.assertGreaterEqual(len(found), replays // 1000)
        for cycle in found:
            harness.check_balance(cycle)
            if cycle.manifest['cycle']['complete']:
                self.assertEqual(cycle.manifest['joins']['device_work_without_launch'], 0)
        return application_peak, collector_peak

    @unittest.skipUnless(SEES_EARLY_GRAPHS, 'see test_graphs_from_before_collection')
    def test_ten_thousand_nodes(self):
        cycle, = self.heavy(10000, cycles=1, graph='node',
                            schedule='skip_first=2,wait=0,warmup=1,active=2,repeat=1')
        self.check(cycle, 10000)

    def test_captured_inside_the_window(self):
        """Launches into a capture are no device work; nobody waits for them."""
        for level in ('graph', 'node'):
            with self.subTest(level):
                self.out = os.path.join(self.scratch, level)
                cycle, = self.capture(['cupti_ways', 'capture', '8'], 1, graph=level,
                                      schedule='skip_first=1,warmup=1,active=4,repeat=1')
                kernels = 2 if level == 'node' else 0
                for step in cycle.manifest['steps']:  # two captured, then the graph's
                    self.assertEqual((step['launches'], step['kernels']), (3, kernels))
                joins = cycle.manifest['joins']
                self.assertEqual((joins['captured'], joins['launches_without_device_work']), (8, 0))
                self.assertTrue(cycle.manifest['cycle']['complete'])

    def test_recycled_ids(self):
        """The ids of destroyed graphs come again for other graphs, of another size each step."""
        for level, recycles in (('node', '1'), ('graph', '1'), ('node', '0')):
            with self.subTest(level=level, recycles=recycles):
                self.out = os.path.join(self.scratch, level + recycles)
                cycle, = self.capture(['cupti_ways', 'recycle', '8'], 1, graph=level,
                                      schedule='skip_first=1,warmup=1,active=4,repeat=1',
                                      STEPAGENT_SIM_RECYCLE_GRAPH_IDS=recycles)
                for step in cycle.manifest['steps']:
                    self.assertEqual(step['launches'], 1)
                    self.assertEqual(step['kernels'], step['index'] + 1 if level == 'node' else 0)


if __name__ == '__main__':
    harness.main()
