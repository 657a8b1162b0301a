"""Several devices and contexts, copies between devices."""
import collections
import os

import harness
from cupti_case import CuptiTest, device_rows

SCHEDULE = 'skip_first=1,warmup=2,active=2,repeat=1'


class Devices(CuptiTest):
    def test_several_devices(self):
        cycle, = self.capture(['multi_device', '3', '8'], 1, schedule=SCHEDULE,
                              STEPAGENT_SIM_DEVICES='3')
        for step in cycle.manifest['steps']:  # device d runs d + 1 kernels and one set
            self.assertEqual((step['launches'], step['kernels'], step['sets']), (6, 6, 3))
        rows = collections.Counter(row['args']['device'] for row in cycle.rows('kernel'))
        self.assertEqual(rows, {0: 2, 1: 4, 2: 6})
        self.assertEqual({row['pid'] for row in device_rows(cycle)}, {0, 1, 2})
        self.assertEqual([d['ordinal'] for d in cycle.manifest['gpu']['devices']], [0, 1, 2])
        self.assertEqual(len({d['uuid'] for d in cycle.manifest['gpu']['devices']}), 3)
        self.check_order(cycle)

    def test_several_contexts(self):
        cycle, = self.capture(['cupti_ways', 'contexts', '8'], 1, schedule=SCHEDULE)
        for step in cycle.manifest['steps']:
            self.assertEqual((step['launches'], step['kernels']), (3, 3))
        contexts = collections.Counter(row['args']['context'] for row in cycle.rows('kernel'))
        self.assertEqual(sorted(contexts.values()), [2, 4])

    def test_peer_copies(self):
        cycle, = self.capture(['cupti_ways', 'peer', '8'], 1, schedule=SCHEDULE,
                              STEPAGENT_SIM_DEVICES='2')
        for step in cycle.manifest['steps']:
            self.assertEqual((step['launches'], step['copies']), (0, 2))
        self.assertEqual(sorted(row['args']['bytes'] for row in cycle.rows('gpu_memcpy')),
                         [4096, 4096, 8192, 8192])
        copies = {(row['direction'], row['count'], row['bytes'])
                  for row in cycle.summary['copies']}
        self.assertEqual(copies, {('PtoP', 4, 24576)})
        self.check_order(cycle)


if __name__ == '__main__':
    harness.main()
