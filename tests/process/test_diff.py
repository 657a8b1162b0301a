"""`stepagent diff`: what differs besides the times comes first, then step times and rows."""
import glob
import json
import os

import harness
from harness import AgentTest, app

SCHEDULE = 'skip_first=2,warmup=1,active=5,repeat=1'


class Diff(AgentTest):
    def trace(self, name, *options, program='seeded', **settings):
        out = os.path.join(self.scratch, name)
        settings.setdefault('schedule', SCHEDULE)
        env = harness.agent_environment(out, step='nvtx:train_step', **settings)
        self.run_app([app(program), *options], env)
        return self.traced(1, out)[0]

    def diff(self, a, b, *options, status=0):
        return self.control('diff', a, b, *options, status=status)

    def test_a_cycle_against_itself(self):
        cycle = self.trace('a', '--steps', '9')
        text = self.diff(cycle.folder, cycle.folder).stdout
        self.assertIn('Besides the times nothing differs', text)
        self.assertIn('inside the noise', text)
        self.assertIn('compares times, not results', text)
        for line in text.splitlines():  # a path is never broken
            self.assertTrue(len(line) <= 100 or self.scratch in line, line)
        found = json.loads(self.diff(cycle.folder, cycle.folder, '--json').stdout)
        self.assertEqual(found['schema'], 'stepagent.diff/1')
        self.assertEqual(found['differences'], [])
        self.assertEqual(found['steps']['verdict'], 'inside the noise')
        self.assertEqual(found['steps']['ratio']['value'], 1.0)
        for table in ('kernels', 'copies', 'calls'):
            self.assertTrue(found[table])
            for row in found[table]:
                self.assertEqual((row['verdict'], row['change_ns']), ('inside the noise', 0), row)

    def test_why_a_row_is_not_told_stands_once_and_whole(self):
        cycle = self.trace('a', '--steps', '5', schedule='skip_first=2,warmup=1,active=1,repeat=1')
        text = self.diff(cycle.folder, cycle.folder).stdout
        why = 'not told: too few whole steps (1 and 1), 4 on each side are needed\n'
        self.assertEqual(text.count('  ' + why), 4, text)  # the step time and each table
        for line in text.splitlines():
            self.assertTrue(len(line) <= 100 or self.scratch in line, line)

    def test_settings_labels_and_boundaries_come_first(self):
        a = self.trace('a', '--steps', '9', labels='batch=32,mode=train')
        b = self.trace('b', '--steps', '9', labels='batch=64,mode=train', graph='node',
                       schedule='skip_first=2,warmup=1,active=3,repeat=1')
        found = json.loads(self.diff(a.folder, b.folder, '--json').stdout)
        named = {(d['what'], d['name']): (d['a'], d['b']) for d in found['differences']}
        self.assertEqual(named['label', 'batch'], ('32', '64'))
        self.assertNotIn(('label', 'mode'), named)
        self.assertEqual(named['setting', 'graph'], ('graph', 'node'))
        self.assertEqual(named['boundary', 'steps'], ('3 to 7 (5)', '3 to 5 (3)'))
        text = self.diff(a.folder, b.folder).stdout
        self.assertLess(text.index('label batch'), text.index('Step time'))
        self.assertLess(text.index('boundary steps'), text.index('Step time'))

    def test_what_appeared_vanished_and_became_slower(self):
        healthy = self.trace('a', '--steps', '9', activities='+memory')
        sync = self.trace('c', '--fault', 'sync', '--steps', '9', activities='+memory')
        # Forty milliseconds of device time more on 160, which the step follows; a machine that holds
        # the program up gives uneven steps, so it gets three tries.
        for attempt in range(3):
            a = self.trace('a%d' % attempt, '--steps', '9')
            b = self.trace('b%d' % attempt, '--fault', 'constant', '--steps', '9')
            found = json.loads(self.diff(a.folder, b.folder, '--json').stdout)
            if found['steps']['verdict'] == 'slower':
                break
        copies = {row['name']: row for row in found['copies']}
        # A CUPTI of the future says kinds that have no name yet.
        name = 'HtoD (Pinned -> Device)' if harness.PERSONALITY != 'future' \
            else 'HtoD (Unknown -> Device)'
        self.assertEqual(copies[name]['verdict'], 'count changed', copies)
        self.assertEqual(copies[name]['b']['count'], 2)
        self.assertEqual(found['steps']['verdict'], 'slower', found['steps'])
        calls = {row['name']: row['verdict'] for row in
                 json.loads(self.diff(healthy.folder, sync.folder, '--json', status=None).stdout)['calls']}
        self.assertEqual(calls['cuStreamSynchronize'], 'appeared')
        calls = {row['name']: row['verdict'] for row in
                 json.loads(self.diff(sync.folder, healthy.folder, '--json', status=None).stdout)['calls']}
        self.assertEqual(calls['cuStreamSynchronize'], 'vanished')
        kernels = {row['name']: row['verdict'] for row in
                   json.loads(self.diff(healthy.folder, sync.folder, '--json', status=None).stdout)['kernels']}
        self.assertEqual(kernels['fwd_relu'], 'faster')  # four milliseconds each instead of ten

    def test_sessions_runs_raw_and_kineto_files(self):
        cycle = self.trace('a', '--steps', '9')
        session = os.path.dirname(cycle.folder)
        raw = os.path.join(session, 'raw.steps')
        for path in (session, cycle.run_folder, os.path.join(self.scratch, 'a'), raw):
            found = json.loads(self.diff(cycle.folder, path, '--json').stdout)
            self.assertEqual(found['differences'], [], path)
            self.assertEqual(found['steps']['ratio']['value'], 1.0)
        found = json.loads(self.diff(cycle.folder, cycle.chrome_path, '--json').stdout)
        self.assertEqual(found['steps']['ratio']['value'], 1.0)
        self.assertEqual({row['verdict'] for row in found['kernels']}, {'inside the noise'})

    def test_bad_input(self):
        cycle = self.trace('a', '--steps', '9')
        self.diff(cycle.folder, '/nowhere', status=3)
        empty = os.path.join(self.scratch, 'empty.json')
        with open(empty, 'w', encoding='utf-8') as text:
            text.write('not a trace')
        result = self.diff(empty, cycle.folder, status=3)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn('empty.json', result.stderr)
        self.control('diff', cycle.folder, status=2)
        self.control('diff', cycle.folder, cycle.folder, '--top', 'x', status=2)
        # Part of a raw file: what is there is compared, and the cut is said.
        raw = os.path.join(os.path.dirname(cycle.folder), 'raw.steps')
        with open(raw, 'rb') as source:
            data = source.read()
        cut = os.path.join(self.scratch, 'raw.steps')
        with open(cut, 'wb') as target:
            target.write(data[:-10])
        result = self.diff(cut, cycle.folder, status=1)
        self.assertIn('lost', result.stderr)
        self.assertIn('Step time', result.stdout)
        self.assertEqual(glob.glob(os.path.join(self.scratch, '*.tmp')), [])


if __name__ == '__main__':
    harness.main()
