"""Recorded workloads, replayed: what comes out holds what the recording holds."""
import collections
import json
import os
import subprocess
import unittest

import harness
from harness import AgentTest, app

RECORDED = os.environ.get('STEPAGENT_RECORDED') or os.path.join(harness.SHARED, 'data', 'recorded')
RESNET = os.path.join(RECORDED, 'resnet_1gpu_5steps.json.gz')
EXPECT = os.path.join(harness.SOURCE, 'tests', 'apps', 'replay_expect.py')


class Replay(AgentTest):
    def expected(self, recording, indices):
        result = self.run_app(['/usr/bin/python3', EXPECT, recording, '--index', indices],
                              harness.clean_environment())
        return json.loads(result.stdout)

    @unittest.skipUnless(os.path.exists(RESNET), 'the recorded ResNet window is not there')
    def test_resnet(self):
        env = harness.launcher_environment()
        self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--graph', 'node',
                      '--step', 'nvtx-glob:ProfilerStep#*',
                      '--schedule', 'wait=1,warmup=1,active=2,repeat=1',
                      '--', app('replay'), RESNET], env)
        cycle, = self.traced(1)
        self.compare(cycle, self.expected(RESNET, '2,3'))
        # Its 47 sets a step without a device record are sets of nothing: none is owed.
        self.assertEqual(cycle.manifest['cycle']['reason'], None)
        self.assertTrue(cycle.manifest['cycle']['complete'])

    def test_a_set_of_nothing_owes_no_device_record(self):
        """What a recording has no device record for is issued with size 0, as frameworks do."""
        rows, correlation = [], 0
        for step in range(4):
            begin = 1_000_000 + step * 20_000
            rows.append({'ph': 'X', 'cat': 'user_annotation', 'name': 'ProfilerStep#%d' % step,
                         'pid': 1, 'tid': 1, 'ts': begin, 'dur': 19_000, 'args': {}})
            for offset in range(1, 4):
                correlation += 1
                name = 'cudaMemsetAsync' if offset < 3 else 'cudaLaunchKernel'
                rows.append({'ph': 'X', 'cat': 'cuda_runtime', 'name': name, 'pid': 1, 'tid': 1,
                             'ts': begin + 1000 * offset, 'dur': 10,
                             'args': {'correlation': correlation}})
            rows.append({'ph': 'X', 'cat': 'kernel', 'name': 'k', 'pid': 0, 'tid': 7,
                         'ts': begin + 4000, 'dur': 50,
                         'args': {'device': 0, 'stream': 7, 'context': 1, 'grid': [1, 1, 1],
                                  'correlation': correlation, 'block': [32, 1, 1]}})
        path = os.path.join(self.scratch, 'sets.json')
        with open(path, 'w', encoding='utf-8') as out:
            json.dump({'traceEvents': rows}, out)
        env = harness.launcher_environment()
        self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--', app('replay'), path], env)
        cycle, = self.traced(1)
        outside = cycle.manifest['outside_steps']
        self.assertEqual((outside['launches'], outside['kernels'], outside['sets']), (4, 4, 0))
        self.assertEqual(cycle.manifest['balance']['launch']['written'], 12)
        self.assertEqual(cycle.manifest['cycle']['reason'], None)
        self.assertTrue(cycle.manifest['cycle']['complete'])
        self.assertEqual(self.control('report', cycle.folder).stdout.find('INCOMPLETE'), -1)

    def compare(self, cycle, expected):
        steps = list(expected['steps'].values()) if isinstance(expected['steps'], dict) \
            else expected['steps']
        self.assertEqual(len(cycle.manifest['steps']), len(steps))
        of_call = {}
        bounds = [(s['begin_ns'], s['end_ns']) for s in cycle.manifest['steps']]
        trace = cycle.chrome
        base = trace['baseTimeNanoseconds']
        origin = cycle.manifest['clock']['base_unix_ns']
        calls = [collections.Counter() for _ in steps]
        for row in trace['traceEvents']:
            if row.get('ph') == 'X' and row.get('cat') in ('cuda_runtime', 'cuda_driver'):
                at = round(row['ts'] * 1000) + base - origin
                for index, (begin, end) in enumerate(bounds):
                    if begin - 2 <= at < end:
                        calls[index][row['name']] += 1
                        of_call[row['args']['correlation']] = index
                        break
        kernels = [collections.Counter() for _ in steps]
        copied = [collections.Counter() for _ in steps]
        for row in trace['traceEvents']:
            index = of_call.get(row.get('args', {}).get('correlation'))
            if row.get('ph') != 'X' or index is None:
                continue
            if row['cat'] == 'kernel':
                kernels[index][(str(row['args']['stream']), row['name'])] += 1
            elif row['cat'] == 'gpu_memcpy':
                copied[index][row['name'].split()[1]] += row['args']['bytes']
        for index, want in enumerate(steps):
            got = collections.Counter()
            for (_, name), count in kernels[index].items():
                got[name] += count
            wanted = collections.Counter()
            for names in want['kernels'].values():
                wanted.update(names)
            self.assertEqual(got, wanted, 'kernels of step %d' % index)
            self.assertEqual(sorted(collections.Counter(s for s, _ in kernels[index].elements()).values()),
                             sorted(sum(n.values()) for n in want['kernels'].values()))
            self.assertEqual(dict(copied[index]), want['copy_bytes'])
            for name, count in want['calls'].items():
                if name.startswith(('cudaLaunch', 'cudaMemcpy', 'cudaMemset', 'cudaGraphLaunch')):
                    self.assertEqual(calls[index][name], count, name)


if __name__ == '__main__':
    harness.main()
