"""Host only: the steps of each cycle equal torch.profiler's schedule, cut cycles are labelled."""
import glob
import json
import os
import random
import unittest

import harness
from harness import AgentTest, app


def plan(s, steps):
    """[(step indices, complete)] as torch.profiler's schedule function gives them."""
    cycles, current = [], []
    for step in range(steps):
        action = act(s, step)
        if action >= 2:
            current.append(step)
        if action == 3:
            cycles.append((current, True))
            current = []
        elif action < 2 and current:
            cycles.append((current, False))
            current = []
    if current:
        cycles.append((current, False))
    return cycles


def act(s, step):
    if step < s['skip_first']:
        return 0
    step -= s['skip_first']
    if s['skip_first_wait']:
        step += s['wait']
    length = s['wait'] + s['warmup'] + s['active']
    if s['repeat'] > 0 and step / length >= s['repeat']:
        return 0
    mod = step % length
    if mod < s['wait']:
        return 0
    if mod < s['wait'] + s['warmup']:
        return 1
    return 2 if mod < length - 1 else 3


class Schedule(AgentTest):
    def run_schedule(self, schedule, steps, **settings):
        text = ','.join('%s=%d' % item for item in schedule.items())
        out = os.path.join(self.scratch, text.replace(',', '_') + '-%d' % steps)
        env = harness.agent_environment(out, sim=False, schedule=text, step='nvtx:train_step',
                                        **settings)
        result = self.run_app([app('train_loop'), '--host-only', '--steps', str(steps),
                               '--sleep-us', '200'], env)
        want = plan(schedule, steps)
        if not want:
            self.assertEqual(harness.cycles(out), [])
            return result, []
        found = self.traced(len(want), out)
        self.assertEqual([(c.steps, c.manifest['cycle']['complete']) for c in found], want, text)
        return result, found

    @unittest.skipIf(harness.SLOWNESS, 'what the drain cannot take is lost before the collector')
    def test_steps_too_short_to_be_taken_are_counted_and_said(self):
        env = self.environment(sim=False, schedule='active=10000000', step='nvtx:train_step')
        result = self.run_app([app('nvtx_loop'), 'ascii', '60000'], env)
        cycle, = self.traced(1)
        notes = {n['code']: n['text'] for n in cycle.manifest['notes']}
        ended = cycle.summary['steps']['count']
        if ended == 60000:
            self.skipTest('the drain kept up on this machine')
        self.assertRegex(notes['steps_dropped'], r'^[0-9]+ steps or cycles, by the time')
        self.assertEqual(int(notes['steps_dropped'].split()[0]) + ended, 60000)
        self.assertIn('came faster than they could be taken', result.stderr)

    def test_sample_of_the_space(self):
        draw = random.Random(20261129)
        for _ in range(12):
            self.run_schedule({'skip_first': draw.randint(0, 3), 'wait': draw.randint(0, 3),
                               'warmup': draw.randint(0, 2), 'active': draw.randint(1, 3),
                               'repeat': draw.randint(0, 3),
                               'skip_first_wait': draw.randint(0, 1)}, draw.randint(1, 24))

    def test_cut_cycle_is_written_and_labelled(self):
        schedule = dict(skip_first=0, wait=0, warmup=1, active=5, repeat=1, skip_first_wait=0)
        _, found = self.run_schedule(schedule, 4)
        self.assertEqual(found[0].steps, [1, 2, 3])
        self.assertEqual(found[0].manifest['cycle']['ended'], 'exit')
        self.assertFalse(found[0].manifest['cycle']['complete'])

    def test_host_only_is_said_everywhere(self):
        schedule = dict(skip_first=0, wait=0, warmup=1, active=2, repeat=1, skip_first_wait=0)
        _, found = self.run_schedule(schedule, 5)
        cycle = found[0]
        self.assertTrue(cycle.chrome_path.endswith('.hostonly.pt.trace.json.gz'))
        self.assertEqual(cycle.manifest['gpu']['status'], 'unavailable')
        self.assertTrue(cycle.manifest['gpu']['reason'])
        for step in cycle.manifest['steps']:
            self.assertIsNone(step['kernels'])
            self.assertIsNone(step['copies'])
        with open(os.path.join(cycle.folder, 'summary.txt'), encoding='utf-8') as text:
            self.assertIn('host only', text.read().lower())
        labels = [e for e in cycle.chrome['traceEvents'] if e.get('ph') == 'M']
        self.assertTrue(any('host only' in str(e.get('args')).lower() for e in labels))

    def test_durations_of_all_steps(self):
        schedule = dict(skip_first=1, wait=2, warmup=1, active=2, repeat=1, skip_first_wait=0)
        _, found = self.run_schedule(schedule, 9)
        steps = found[0].manifest['all_steps']
        self.assertGreaterEqual(steps['count'], 6)
        self.assertEqual([row['index'] for row in steps['each']], list(range(len(steps['each']))))
        self.assertTrue(all(row['dur_ns'] >= 200000 for row in steps['each']))

    def cost_of(self, cycle):
        """The cost as manifest and summary say it alike."""
        self.assertEqual(cycle.manifest['cost'], cycle.summary['cost'])
        return cycle.manifest['cost']

    def test_cost_has_the_steps_before_in_and_after(self):
        env = self.environment(sim=False, schedule='skip_first=2,wait=8,warmup=1,active=3,repeat=2',
                               step='nvtx:train_step')
        self.run_app([app('train_loop'), '--host-only', '--steps', '40', '--sleep-us', '3000'], env)
        first, last = self.traced(2)
        for cycle in (first, last):
            cost = self.cost_of(cycle)
            for group in ('before', 'active', 'after'):
                self.assertGreaterEqual(cost[group]['steps'], 2, (group, cost))
                self.assertGreaterEqual(cost[group]['min_ns'], 3000000)
                self.assertIsNone(cost[group]['reason'])
            words = {row['index']: row['collecting'] for row in cycle.manifest['all_steps']['each']}
            active = [step['process_index'] for step in cycle.manifest['steps']]
            self.assertEqual([words[i] for i in (0, active[0] - 1, *active)],
                             ['no', 'warmup', 'active', 'active', 'active'])
            with open(os.path.join(cycle.folder, 'summary.txt'), encoding='utf-8') as text:
                self.assertRegex(' '.join(text.read().split()),
                                 r'after [0-9.]+ [mu]s \(n=%d, ' % cost['after']['steps'])
        # Read from the raw file it is the same.
        raw = os.path.join(os.path.dirname(first.folder), 'raw.steps')
        read = json.loads(self.control('report', raw, '--json').stdout)['cycles']
        self.assertEqual([c['cost'] for c in read], [self.cost_of(first), self.cost_of(last)])
        # Between two cycles, as far as no tail was taken meanwhile: not what is behind the second one.
        self.assertLessEqual(self.cost_of(first)['after']['steps'], 8)
        self.assertEqual(self.cost_of(first)['before']['steps'], 10)

    def test_a_process_that_goes_on_has_an_after_too(self):
        env = self.environment(sim=False, schedule='wait=1,warmup=1,active=3,repeat=1',
                               step='nvtx:train_step')
        process = self.start_app([app('train_loop'), '--host-only', '--steps', '1000000',
                                  '--sleep-us', '2000'], env)
        path = harness.eventually(lambda: harness.sessions(self.out), 'a session')[0]

        def is_closed():
            with open(os.path.join(path, 'session.json'), encoding='utf-8') as source:
                return json.load(source)['state'] == 'closed'
        harness.eventually(is_closed, 'the session is closed')
        self.assertIsNone(process.poll())
        cycle, = harness.cycles(self.out)
        after = self.cost_of(cycle)['after']
        # About as many as were recorded: the goodbye waits for no more.
        self.assertGreaterEqual(after['steps'], 1, after)
        self.assertLess(after['steps'], 2000, after)
        harness.eventually(lambda: not harness.collectors(self.out), 'no collector is left')

    def test_a_killed_process_says_why_there_is_no_after(self):
        env = self.environment(sim=False, schedule='active=1,repeat=1', step='nvtx:train_step')
        process = self.start_app([app('train_loop'), '--host-only', '--steps', '100',
                                  '--sleep-us', '1000000'], env)
        cycle, = harness.eventually(lambda: [p for p in glob.glob(os.path.join(
            self.out, '*', 'sessions', '*', 'cycle-0000', 'manifest.json')) if 'latest' not in p],
            'a cycle')
        process.kill()
        process.wait()
        harness.wait_written(self.out)
        cost = self.cost_of(harness.Cycle(os.path.dirname(cycle)))
        self.assertEqual(cost['after']['steps'], 0)
        self.assertIn('without a goodbye', cost['after']['reason'])
        self.assertEqual(cost['before']['reason'],
                         'not measured: no step without collection ended before the cycle')

    def test_B005_max_traces_ends_an_endless_schedule_and_is_said(self):
        env = self.environment(sim=False, schedule='wait=1,active=1,repeat=0', max_traces='3',
                               step='nvtx:train_step')
        result = self.run_app([app('train_loop'), '--host-only', '--steps', '40'], env)
        self.assertEqual(result.stderr.count('max-traces reached: 3 cycles'), 1, result.stderr)
        self.assertEqual([c.steps for c in self.traced(3)], [[1], [3], [5]])

    def test_B005_a_schedule_as_long_as_max_traces_is_not_cut(self):
        env = self.environment(sim=False, schedule='active=1,repeat=3', max_traces='3',
                               step='nvtx:train_step')
        result = self.run_app([app('train_loop'), '--host-only', '--steps', '40'], env)
        self.assertNotIn('max-traces', result.stderr)
        self.traced(3)

    def fill(self, schedule):
        """The cycles of a run whose session may take 32 KiB, in order."""
        env = self.environment(sim=False, schedule=schedule, max_bytes='32KiB', max_traces='0',
                               step='nvtx:train_step')
        result = self.run_app([app('nvtx_loop'), 'ascii', '20000', '--sleep-us', '50'], env)
        self.assertIn('max-bytes reached', result.stderr)
        self.assertEqual(result.stderr.count('recording stopped'), 1, result.stderr)
        harness.wait_written(self.out)
        found = sorted(harness.cycles(self.out), key=lambda c: c.manifest['cycle']['index'])
        raw, = {os.path.join(os.path.dirname(c.folder), 'raw.steps') for c in found}
        self.assertLess(os.path.getsize(raw), 1 << 20)
        return found

    @unittest.skipIf(harness.SLOWNESS, 'the collector says when it is enough: no sooner than it can')
    def test_B005_max_bytes_ends_the_open_cycle_and_is_said(self):
        cycle, = self.fill('active=1000000')
        self.assertEqual(cycle.manifest['cycle']['ended'], 'limit')

    @unittest.skipIf(harness.SLOWNESS, 'the collector says when it is enough: no sooner than it can')
    def test_B005_max_bytes_ends_an_endless_schedule(self):
        # Where it comes between two cycles none is cut.
        self.assertIn(self.fill('active=50,repeat=0')[-1].manifest['cycle']['ended'],
                      ('limit', 'schedule'))

    def test_no_matching_range_is_said(self):
        env = self.environment(sim=False, schedule='active=2', step='nvtx:no_such_step')
        result = self.run_app([app('train_loop'), '--host-only', '--steps', '4'], env)
        self.assertIn('no_such_step', result.stderr)
        self.assertIn('train_step', result.stderr)
        self.assertFalse(os.path.exists(self.out))


if __name__ == '__main__':
    harness.main()
