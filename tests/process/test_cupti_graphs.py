"""CUDA graphs at both levels: one record per launch, or each kernel once and the launch once."""
import os

import harness
from cupti_case import CuptiTest

SCHEDULE = 'skip_first=2,wait=0,warmup=1,active=2,repeat=2'


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

    def test_node_level(self):
        for cycle in self.heavy(100, graph='node'):
            self.assertEqual(cycle.manifest['gpu']['graph_level'], 'node')
            self.check(cycle, 100)
            self.check_order(cycle)
            by_launch = {}
            for row in cycle.rows('kernel'):
                by_launch.setdefault(row['args']['correlation'], []).append(row)
            self.assertEqual([len(rows) for rows in by_launch.values()], [100, 100])

    def test_ten_thousand_nodes(self):
        cycle, = self.heavy(10000, cycles=1, graph='node',
                            schedule='skip_first=2,wait=0,warmup=1,active=2,repeat=1')
        self.check(cycle, 10000)

    def test_captured_inside_the_window(self):
        """Launches into a capture are no device work; nobody waits for them."""
        options = ('--graph', 'capture')
        cycle, = self.capture(['train_loop', '--steps', '6', *options], 1,
                              schedule='warmup=0,active=3,repeat=1')
        expected = self.expected('--steps', '6', *options)
        for step in cycle.manifest['steps']:
            self.assertEqual(step['launches'], expected[step['index']]['launches'])
        self.assertEqual(cycle.manifest['joins']['launches_without_device_work'], 0)

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
