"""A real raw.steps that was damaged: what can still be read is read, what is lost is said."""
import json
import os
import shutil
import struct

import harness
from harness import AgentTest, app

HEADER = struct.Struct('<4sBBHIIQ')
HELLO, BATCH, GOODBYE = 1, 3, 4


def frames_of(data):
    """[(offset, type, payload bytes)]"""
    found, at = [], 0
    while at < len(data):
        magic, kind, _, _, length, _, _ = HEADER.unpack_from(data, at)
        assert magic == b'SAF1', at
        found.append((at, kind, length))
        at += HEADER.size + length
    assert at == len(data)
    return found


class Damage(AgentTest):
    def setUp(self):
        super().setUp()
        env = self.environment(step='nvtx:train_step', labels='batch=32',
                               schedule='skip_first=2,warmup=1,active=2,wait=1,repeat=3')
        self.run_app([app('seeded'), '--steps', '16'], env)
        self.traced(3)
        self.session, = harness.sessions(self.out)
        with open(os.path.join(self.session, 'raw.steps'), 'rb') as source:
            self.whole = source.read()
        self.frames = frames_of(self.whole)
        self.assertEqual(self.frames[0][1], HELLO)
        self.assertEqual(self.frames[-1][1], GOODBYE)
        self.alone = os.path.join(self.scratch, 'alone', 'raw.steps')
        os.mkdir(os.path.dirname(self.alone))
        self.baseline = {c['cycle']['index']: c for c in self.report(self.whole, 0)['cycles']}
        self.assertEqual(sorted(self.baseline), [0, 1, 2])
        self.base, = {c['window'].pop('base_unix_ns') for c in self.baseline.values()}

    def report(self, data, status):
        """The report on a raw file of these bytes, with no session.json beside it."""
        with open(self.alone, 'wb') as target:
            target.write(data)
        return json.loads(self.control('report', self.alone, '--json', status=status).stdout)

    def flipped(self, at, mask=0x05):
        return self.whole[:at] + bytes([self.whole[at] ^ mask]) + self.whole[at + 1:]

    def check_cycles(self, found, needed):
        """Cycles that are whole are as they were; `needed` are there."""
        cycles = {c['cycle']['index']: c for c in found['cycles']}
        self.assertLessEqual(set(needed), set(cycles), found['problems'])
        for index, cycle in cycles.items():
            # Without the Hello the wall clock at the session's begin is told by a sample.
            self.assertAlmostEqual(cycle['window'].pop('base_unix_ns'), self.base, delta=1000)
            if cycle['cycle']['complete']:
                for table in ('kernels', 'copies', 'calls', 'window', 'devices'):
                    self.assertEqual(cycle[table], self.baseline[index][table], (index, table))
                self.assertEqual(cycle['steps']['each'], self.baseline[index]['steps']['each'])
        return cycles

    def convert_agrees(self, found):
        """convert makes of the same file a trace of each cycle that report tells of."""
        out = os.path.join(self.scratch, 'converted')
        result = self.control('convert', self.alone, '--to', 'perfetto', '-o', out + '/', status=1)
        self.assertEqual(len(result.stdout.splitlines()), len(found['cycles']), result.stdout)
        for line in found['problems']:
            if ' dropped, ' not in line:
                self.assertIn('stepagent: convert: ' + line + '\n', result.stderr)
        shutil.rmtree(out, ignore_errors=True)

    def test_a_flip_anywhere_in_the_first_header(self):
        checksum = range(12, 16)
        for at in range(HEADER.size):
            found = self.report(self.flipped(at), None)
            cycles = self.check_cycles(found, (0, 1, 2))
            self.assertTrue(all(c['cycle']['complete'] for c in cycles.values()), at)
            program = cycles[0]['session']['exe']
            self.assertEqual(program, '' if at in checksum else 'seeded', at)
            # Flags and sequence mean nothing to a reader.
            is_said = at in (0, 1, 2, 3, 4, 5) or 8 <= at < 16
            self.assertEqual(len(found['problems']), (2 if at in checksum else 1) if is_said else 0,
                             (at, found['problems']))
            status = 1 if is_said else 0
            self.control('report', self.alone, status=status)

    def test_a_hello_that_is_lost_is_told_by_session_json_or_the_batches(self):
        data = self.flipped(HEADER.size + 20)
        found = self.report(data, 1)
        cycles = self.check_cycles(found, (0, 1, 2))
        hello = ('%s: its first frame, the session\'s Hello, is damaged: the program, its process, '
                 'settings, schedule and labels are not known; that it is session %s its batches say'
                 % (self.alone, cycles[0]['session']['id']))
        lost = '%s: damaged in 1 place: %d bytes passed over, what they held is lost' % (
            self.alone, self.frames[1][0])
        self.assertEqual(found['problems'], [hello, lost])
        self.convert_agrees(found)
        shutil.copy(os.path.join(self.session, 'session.json'), os.path.dirname(self.alone))
        found = self.report(data, 1)
        cycles = self.check_cycles(found, (0, 1, 2))
        self.assertEqual(cycles[0]['session']['exe'], 'seeded')
        self.assertEqual(cycles[0]['session']['labels'], {'batch': '32'})
        self.assertIn('who and which settings are as session.json says', found['problems'][0])

    def test_a_flip_in_each_frame_costs_that_frame(self):
        for offset, kind, length in self.frames[1:]:
            found = self.report(self.flipped(offset + HEADER.size + length // 2), 1)
            size = HEADER.size + length
            if offset + size == len(self.whole):
                text = '%s: %d bytes after the last whole frame are lost' % (self.alone, size)
            else:
                text = '%s: damaged in 1 place: %d bytes passed over, what they held is lost' % (
                    self.alone, size)
            self.assertIn(text, found['problems'])
            cycles = self.check_cycles(found, (0, 1, 2))
            # What the device did may be told long after its window, so that others may be touched.
            for cycle in cycles.values():
                if not cycle['cycle']['complete']:
                    self.assertTrue(cycle['cycle']['reason'], (offset, cycle['cycle']))
            if kind == GOODBYE:
                self.assertEqual(len(cycles), 3)
            self.convert_agrees(found)

    def test_a_flip_in_each_header_costs_that_frame(self):
        for offset, _, _ in self.frames[1:]:
            for at in (0, 5, 9, 13):
                found = self.report(self.flipped(offset + at), 1)
                self.assertGreaterEqual(len(self.check_cycles(found, ())), 2, (offset, at))
                self.assertTrue(found['problems'])

    def test_cut_off_anywhere(self):
        first = self.frames[1][0]
        for cut in (1, 10, HEADER.size, HEADER.size + 5, first - 1):
            with open(self.alone, 'wb') as target:
                target.write(self.whole[:cut])
            for command in (('report',), ('convert', '--to', 'html', '-o', self.scratch + '/x')):
                result = self.control(command[0], self.alone, *command[1:], status=3)
                self.assertIn('holds no Hello and no batch of a session that can be read',
                              result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        open(self.alone, 'w', encoding='ascii').close()
        self.assertIn('empty', self.control('report', self.alone, status=3).stderr)
        seen = 0
        for offset, _, length in self.frames[1:]:
            for cut in (offset, offset + 3, offset + HEADER.size + length // 2):
                found = self.report(self.whole[:cut], 1 if cut > offset else None)
                cycles = self.check_cycles(found, range(seen))
                whole = sum(1 for c in cycles.values() if c['cycle']['complete'])
                self.assertGreaterEqual(whole, seen, cut)  # never fewer than of a shorter file
                seen = max(seen, whole)
                if cut > offset:
                    self.assertIn('%s: %d bytes after the last whole frame are lost' %
                                  (self.alone, cut - offset), found['problems'])
        self.assertEqual(seen, 3)

    def test_an_interrupted_session_is_finished_in_spite_of_it(self):
        run = os.path.join(self.scratch, 'other', os.path.basename(os.path.dirname(
            os.path.dirname(self.session))))
        session = os.path.join(run, 'sessions', os.path.basename(self.session))
        os.makedirs(session)
        with open(os.path.join(self.session, 'session.json'), encoding='utf-8') as source:
            state = json.load(source)
        state['state'], state['cycles'] = 'open', []
        with open(os.path.join(session, 'session.json'), 'w', encoding='utf-8') as target:
            json.dump(state, target)
        with open(os.path.join(session, 'raw.steps'), 'wb') as target:
            target.write(self.flipped(HEADER.size + 20))
        result = self.control('report', session, status=1)
        self.assertIn('who and which settings are as session.json says', result.stderr)
        self.assertIn('%d bytes passed over' % self.frames[1][0], result.stderr)
        written = harness.cycles(os.path.dirname(run))
        self.assertEqual([c.manifest['session']['exe'] for c in written], ['seeded'] * 3)
        self.assertTrue(all(c.manifest['cycle']['complete'] for c in written))
        with open(os.path.join(session, 'session.json'), encoding='utf-8') as source:
            after = json.load(source)
        self.assertEqual((after['state'], after['session']['labels']), ('closed', {'batch': '32'}))
        self.assertEqual(after['session']['rank'], state['session']['rank'])
        self.assertTrue(any('damaged' in line for line in after['problems']), after['problems'])
        # It is finished now, and as damaged as before: every look says so.
        self.assertEqual(self.control('report', session, status=1).stderr.splitlines(),
                         [line for line in result.stderr.splitlines() if 'interrupted' not in line])

    def test_what_was_cut_off_is_said_at_every_look(self):
        run = os.path.join(self.scratch, 'cut', os.path.basename(os.path.dirname(
            os.path.dirname(self.session))))
        session = os.path.join(run, 'sessions', os.path.basename(self.session))
        os.makedirs(session)
        offset, _, length = self.frames[-1]
        with open(os.path.join(session, 'raw.steps'), 'wb') as target:
            target.write(self.whole[:offset + HEADER.size + length // 2])
        lost = '%d bytes after the last whole frame are lost' % (HEADER.size + length // 2)
        for look in range(3):
            for path in (session, run):
                with self.subTest(look=look, path=path):
                    self.assertIn(lost, self.control('report', path, status=1).stderr)


if __name__ == '__main__':
    harness.main()
