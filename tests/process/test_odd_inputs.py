"""What people hand to `report`, `convert` and `diff`: other tools' habits, and sessions that are not over."""
import contextlib
import glob
import gzip
import json
import os
import signal
import subprocess

import harness
from harness import AgentTest, app, eventually

READERS = ('report', 'convert', 'diff')


def rows(number=lambda value: value, steps=3):
    """Three launches in each of three steps, as Kineto writes them."""
    found, correlation = [], 0
    for step in range(steps):
        begin = 1_000_000 + step * 20_000
        found.append({'ph': 'X', 'cat': 'user_annotation', 'name': 'ProfilerStep#%d' % step,
                      'pid': 1, 'tid': 1, 'ts': number(begin), 'dur': number(19_000), 'args': {}})
        for offset in range(1, 4):
            correlation += 1
            found.append({'ph': 'X', 'cat': 'cuda_runtime', 'name': 'cudaLaunchKernel', 'pid': 1,
                          'tid': 1, 'ts': number(begin + 1000 * offset), 'dur': number(10),
                          'args': {'correlation': number(correlation)}})
            found.append({'ph': 'X', 'cat': 'kernel', 'name': 'k', 'pid': 0, 'tid': 7,
                          'ts': number(begin + 1000 * offset + 50), 'dur': number(500),
                          'args': {'device': number(0), 'stream': number(7), 'context': 1,
                                   'correlation': number(correlation)}})
    return found


def document(events):
    return json.dumps({'schemaVersion': 1, 'traceEvents': events}).encode()

UNUSABLE = ('%s no time, duration, device or stream that can be used; left out (the first: %s); '
            'allowed: ts and dur of 0 or more, dur up to 13 days')


class Files(AgentTest):
    def file(self, name, data):
        path = os.path.join(self.scratch, name)
        with open(path, 'wb') as target:
            target.write(data)
        return path

    def every_reader(self, path, status, *lines):
        """All three say the same of a file, each line once and nothing more; returns the report."""
        good = self.file('good.json', document(rows()))
        out = os.path.join(self.scratch, 'made')
        found = None
        for reader in READERS:
            words = {'report': (path, '--json'), 'convert': (path, '--to', 'perfetto', '-o', out),
                     'diff': (good, path)}[reader]
            result = self.control(reader, *words, status=status)
            told = ['stepagent: %s: %s: %s' % (reader, path, line) for line in lines]
            self.assertEqual([t for t in result.stderr.splitlines() if ': cut short' not in t], told)
            if reader == 'report':
                found = json.loads(result.stdout)
            self.assertEqual(os.path.exists(out), reader == 'convert' and status != 3, path)
            with contextlib.suppress(FileNotFoundError):
                os.remove(out)
        return found

    def check_good(self, found):
        cycle, = found['cycles']
        self.assertEqual(cycle['kernels'][0]['count'], 9)
        self.assertEqual(cycle['kernels'][0]['total_ns'], 4_500_000)
        self.assertEqual([s['kernels'] for s in cycle['steps']['each']], [3, 3, 3])

    def test_the_same_trace_in_other_clothes(self):
        data = document(rows())
        half = len(data) // 2
        for name, text in (
                ('bare.json', json.dumps(rows()).encode()),
                ('tab.json', b'\t' + data), ('lines.json', b'\r\n\r\n' + data),
                ('mark.json', b'\xef\xbb\xbf\r\n' + data),
                ('quotes.json', document(rows(str))),
                ('floats.json', document(rows(float))),
                ('members.json.gz', gzip.compress(data[:half]) + gzip.compress(data[half:])),
                ('packed.json', gzip.compress(data)), ('plain.json.gz', data)):
            with self.subTest(name):
                self.check_good(self.every_reader(self.file(name, text), 0))

    def test_what_python_writes_for_no_number_and_no_text(self):
        """json.dumps writes NaN, Infinity and halves of surrogate pairs."""
        events = rows()
        events[1]['args']['share'] = float('nan')
        events[3]['args'].update(rate=float('inf'), least=float('-inf'))
        events[5]['name'] = 'user\udcff\\u and \U0001F600'
        found = self.every_reader(self.file('odd.json', document(events)), 0)
        self.check_good(found)
        notes = {n['code']: n['text'] for n in found['cycles'][0]['notes']}
        self.assertTrue(notes['repaired_text'].startswith('4 places'), notes)
        self.assertIn('user\ufffd\\u and \U0001F600',
                      [c['name'] for c in found['cycles'][0]['calls']])

    def test_rows_that_cannot_be_used_are_counted(self):
        events = rows()
        del events[2]['ts']
        found = self.every_reader(self.file('a.json', document(events)), 1,
                                  UNUSABLE % ('1 row has', 'kernel `k` at ts unknown'))
        self.assertEqual(found['cycles'][0]['kernels'][0]['count'], 8)
        events = rows()
        events[2]['dur'], events[4]['ts'], events[6]['dur'] = 1e300, 2 ** 70, -5
        self.every_reader(self.file('b.json', document(events)), 1,
                          UNUSABLE % ('3 rows have', 'kernel `k` at ts %d' % events[2]['ts']))
        halves = []
        for event in rows():
            halves.append(dict(event, ph='B'))
            halves.append({'ph': 'E', 'pid': event['pid'], 'tid': event['tid'], 'ts': event['ts'] + 1})
        self.every_reader(self.file('c.json', document(halves)), 1,
                          '21 rows are the begin of one (ph B), which is not read; allowed: whole '
                          'rows (ph X)')
        other = [{'ph': 'X', 'cat': 'toplevel', 'name': 'x', 'pid': 1, 'tid': 1, 'ts': 1, 'dur': 2}]
        self.every_reader(self.file('d.json', document(other)), 1,
                          'none of its rows is of a kind that is read (user_annotation, cuda_runtime, '
                          'cuda_driver, kernel, gpu_memcpy, gpu_memset, gpu_graph)')

    def test_what_is_no_trace_is_named(self):
        data = document(rows())
        for name, text, why in (
                ('empty', b'', 'empty'), ('empty.gz', gzip.compress(b''), 'empty'),
                ('blank', b' \n\t ', 'holds blanks alone'),
                ('wide', data.decode().encode('utf-16'), 'text in UTF-16; allowed: UTF-8'),
                ('wide.be', data.decode().encode('utf-16-be'), 'text in UTF-16; allowed: UTF-8'),
                ('a.zst', b'\x28\xb5\x2f\xfd' + bytes(90), 'zstd: unpack it first'),
                ('a.zip', b'PK\x03\x04' + bytes(90), 'a zip archive: unpack it first'),
                ('a.sqlite', b'SQLite format 3\0' + bytes(90), 'an SQLite file, which is not read'),
                ('text', b'hello', 'neither a raw.steps nor a trace in JSON (plain or gzip)'),
                ('number', b'42', 'neither a raw.steps nor a trace in JSON (plain or gzip)'),
                ('no_events', b'{"a": 1}', 'no traceEvents'),
                ('null', b'{"traceEvents": null}', 'no traceEvents'),
                ('none', b'{"traceEvents": []}', 'holds no trace: its list of events is empty')):
            with self.subTest(name):
                self.every_reader(self.file(name, text), 3, why)
        path = os.path.join(self.scratch, 'pipe')
        os.mkfifo(path)
        self.every_reader(path, 3, 'no regular file; allowed: a file that can be read from its begin '
                                   'again')
        self.every_reader(os.path.join(self.scratch, 'absent'), 3, 'No such file or directory')
        if os.geteuid() != 0:
            secret = self.file('secret', data)
            os.chmod(secret, 0)
            self.every_reader(secret, 3, 'cannot open: Permission denied')

    def test_a_file_that_ends_early_says_where(self):
        cut = document(rows())[:-200]
        found = self.every_reader(
            self.file('cut.json', cut), 1,
            "not whole: byte %d: syntax error while parsing object - unexpected end of input; "
            "expected '}'" % (len(cut) + 1))
        self.assertEqual(found['cycles'][0]['kernels'][0]['count'], 8)

    def test_a_folder_of_something_else(self):
        folder = os.path.join(self.scratch, 'folder')
        os.mkdir(folder)
        result = self.control('report', folder, status=3)
        self.assertIn('holds no run, session, cycle or trace', result.stderr)
        result = self.control('convert', folder, '--to', 'html', '-o', self.scratch + '/x', status=3)
        self.assertIn('is no run, session or cycle', result.stderr)


class Stdout(AgentTest):
    def raw(self, arguments, status=0):
        result = subprocess.run([harness.STEPAGENT, *arguments], capture_output=True, check=False,
                                cwd=self.scratch, env=harness.clean_environment(),
                                timeout=harness.PATIENCE)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.scratch, '-')))
        return result

    def test_one_file_goes_to_stdout_and_nothing_else(self):
        path = os.path.join(self.scratch, 'in.json')
        with open(path, 'wb') as target:
            target.write(document(rows()))
        for form in ('chrome', 'perfetto', 'sqlite', 'html', 'pprof'):
            name = os.path.join(self.scratch, 'file.' + {'chrome': 'json.gz'}.get(form, form))
            self.raw(['convert', path, '--to', form, '-o', name])
            with open(name, 'rb') as source:
                whole = source.read()
            result = self.raw(['convert', path, '--to', form, '-o', '-'])
            self.assertEqual((result.stdout == whole, result.stderr), (True, b''), form)
        self.assertEqual(self.raw(['report', path, '--html', '-']).stdout[:15], b'<!doctype html>')
        result = self.raw(['convert', path, '--to', 'folded', '-o', '-'], 2)
        self.assertEqual((result.stdout, result.stderr.decode()), (
            b'', 'stepagent: convert: -o -: folded makes 3 files of this cycle, and stdout takes one; '
                 'name a file or a folder\n'))
        result = self.raw(['convert', path, '--to', 'html', '-o', ''], 2)
        self.assertIn(b'-o is empty', result.stderr)
        with open('/dev/full', 'wb') as full:
            result = subprocess.run([harness.STEPAGENT, 'convert', path, '--to', 'html', '-o', '-'],
                                    stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b'could not be written whole', result.stderr)

    def test_several_cycles_do_not(self):
        env = self.environment(step='nvtx:train_step', schedule='warmup=1,active=1,repeat=2')
        self.run_app([app('seeded'), '--steps', '6'], env)
        self.traced(2)
        session, = harness.sessions(self.out)
        result = self.raw(['convert', session, '--to', 'perfetto', '-o', '-'], 2)
        self.assertEqual((result.stdout, result.stderr.decode()), (
            b'', 'stepagent: convert: -o -: the input holds several cycles, and stdout takes one file; '
                 'name a cycle, or a folder for all\n'))
        # A page's name is no folder's.
        page, pages = os.path.join(self.scratch, 'x.html'), os.path.join(self.scratch, 'pages')
        result = self.raw(['report', session, '--html', page], 2)
        self.assertEqual(result.stderr.decode(), (
            'stepagent: report: --html %s: %s holds 2 cycles, and a page shows one; name one of them, '
            'or a folder for all\n' % (page, session)))
        self.assertFalse(os.path.exists(page))
        self.raw(['report', session + '/cycle-0001', '--html', page])
        self.assertTrue(os.path.isfile(page))
        self.raw(['report', session, '--html', pages])
        self.assertEqual(sorted(os.listdir(pages)), ['cycle-0000', 'cycle-0001'])
        one = self.raw(['convert', session + '/cycle-0001', '--to', 'perfetto', '-o', '-'])
        self.assertTrue(one.stdout)
        self.assertEqual(glob.glob(os.path.join(self.out, '**', '.stepagent-convert*'), recursive=True),
                         [])


class NotOver(AgentTest):
    def begin(self):
        """A process in its window."""
        env = self.environment(step='nvtx:train_step', schedule='warmup=1,active=1000000,repeat=1')
        process = self.start_app([app('seeded'), '--steps', '1000000'], env)

        def recording():
            for session in harness.sessions(self.out):
                result = self.control('report', session, '--json', status=None)
                with contextlib.suppress(ValueError, LookupError):
                    cycle, = json.loads(result.stdout)['cycles']
                    if cycle['steps']['count'] > 1:
                        return session
            return None

        return process, eventually(recording, 'a step is recorded')

    def test_a_session_that_is_being_written_was_not_killed(self):
        process, session = self.begin()
        for reader, words in (('report', ()), ('convert', ('--to', 'perfetto', '-o',
                                                           os.path.join(self.scratch, 'x')))):
            result = self.control(reader, session, *words, status=1)
            self.assertIn('stepagent: %s: %s/raw.steps cycle 0: recording goes on, this is what came '
                          'so far\n' % (reader, session), result.stderr)
            self.assertNotIn('cut short', result.stdout + result.stderr)
        self.assertIn('not over (recording goes on)',
                      ' '.join(self.control('report', session, status=1).stdout.split()))
        self.stop_app(process, signal.SIGKILL)
        harness.wait_written(self.out)

    def test_convert_says_what_was_cut_short(self):
        process, session = self.begin()
        self.stop_app(process, signal.SIGKILL)
        harness.wait_written(self.out)
        raw = os.path.join(session, 'raw.steps')
        for path in (session, raw, os.path.join(session, 'cycle-0000')):
            out = os.path.join(self.scratch, 'x')
            result = self.control('convert', path, '--to', 'perfetto', '-o', out, status=1)
            self.assertIn('stepagent: convert: %s cycle 0: cut short (killed)\n' % raw, result.stderr)
            self.assertEqual(result.stdout, out + '\n')  # what there is, is made
            os.remove(out)
        self.assertIn('cut short (killed)', self.control('report', session, status=1).stderr)


class Folders(AgentTest):
    def test_a_folder_of_two_runs_and_one_cycle_twice(self):
        env = self.environment(step='nvtx:train_step', schedule='warmup=1,active=4,repeat=1')
        for count in (1, 2):
            self.run_app([app('seeded'), '--steps', '7'], env)
            self.traced(count)
        result = self.control('report', self.out)
        self.assertIn('1 other runs; this is the newest', result.stderr)
        result = self.control('diff', self.out, self.out)
        self.assertIn('nothing differs', result.stdout)
        self.assertEqual(result.stderr.count('1 other runs; this is the newest'), 2)
        result = self.control('convert', self.out, '--to', 'html', '-o', self.scratch + '/x', status=3)
        self.assertIn('name OUT/<run> or what is in it', result.stderr)
        cycle = os.path.join(harness.sessions(self.out)[0], 'cycle-0000')
        for pair in ((cycle, cycle), (cycle, os.path.dirname(cycle)), (cycle, cycle + '/summary.json')):
            found = json.loads(self.control('diff', *pair, '--json').stdout)
            self.assertEqual(found['differences'], [])
            self.assertEqual({row['change_ns'] for row in found['kernels']}, {0})
            # Of three steps nothing is said, of the same three neither.
            self.assertEqual({row['verdict'][:17] for row in found['kernels']}, {'not told: too few'})


if __name__ == '__main__':
    harness.main()
