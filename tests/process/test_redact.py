"""--redact: words planted wherever a program can put one are in no file of the run, in any format."""
import base64
import glob
import gzip
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import unittest
import zipfile

import harness
import leaks
from harness import AgentTest, app

WORD = 'Zanzibar'  # nothing of ours or of the system is called so
ALL = 'paths,names,args,hosts'
FORMATS = 'chrome,perfetto,sqlite,html,folded,pprof'


def can_rename_host():
    result = subprocess.run(['unshare', '--uts', 'hostname', 'x' + WORD], capture_output=True,
                            check=False)
    return result.returncode == 0


class Checker(AgentTest):
    """The checker finds what it is to find: without this the tests below could not fail."""

    def plant(self, name, data):
        os.makedirs(self.out, exist_ok=True)
        with open(os.path.join(self.out, name), 'wb') as file:
            file.write(data)
        found = leaks.leaks(self.out, [WORD])
        os.unlink(os.path.join(self.out, name))
        return found

    def test_finds_a_word_however_packed(self):
        word = ('a ' + WORD.upper() + ' b').encode()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, 'w', zipfile.ZIP_DEFLATED) as archive:
            archive.writestr('inner.gz', gzip.compress(word))
        table = os.path.join(self.scratch, 'table')
        connection = sqlite3.connect(table)
        connection.execute('create table t (a text, b blob)')
        connection.execute('insert into t values (?, ?)', ('x' * 5000 + WORD, gzip.compress(b'x')))
        connection.commit()
        connection.close()
        with open(table, 'rb') as file:
            rows = file.read()
        cases = {'plain': word, 'gz': gzip.compress(word), 'zip': packed.getvalue(), 'sqlite': rows,
                 'utf16': WORD.encode('utf-16-le'), 'utf32': WORD.encode('utf-32-be'),
                 'json': json.dumps(''.join('\\u%04x' % ord(c) for c in WORD)).replace(
                     '\\\\', '\\').encode(),
                 'base64': b'"' + base64.b64encode(gzip.compress(word * 3)) + b'"',
                 'cut gz': gzip.compress(word * 100)[:-4],
                 'protobuf': b'\x0a' + bytes([len(word)]) + word}
        for name, data in cases.items():
            with self.subTest(name=name):
                self.assertTrue(self.plant(name, data))
        self.assertTrue(self.plant(WORD + '.txt', b''))
        self.assertEqual(self.plant('other', b'Zanziba r'), [])


class Redaction(AgentTest):
    def place(self):
        """The program under a folder, a name and a working directory that hold the word."""
        folder = os.path.join(self.scratch, WORD + ' folder', 'bin')
        os.makedirs(folder)
        program = os.path.join(folder, WORD + '-program')
        shutil.copy(app('private_words'), program)
        return program, os.path.join(self.scratch, WORD + ' folder')

    def command(self, program, *arguments):
        command = [program, *arguments]
        if can_rename_host():
            script = 'hostname x%s && exec "$@"' % WORD
            return ['unshare', '--uts', '/bin/sh', '-c', script, 'sh', *command]
        return command

    def run_redacted(self, redact, formats=FORMATS, **settings):
        program, folder = self.place()
        env = dict(harness.launcher_environment(), MASTER_ADDR=WORD + '.example')
        env.update(settings)
        # The folder of the traces is the user's own choice, and its name no file's content.
        result = self.run_app(
            self.command(harness.STEPAGENT, 'run', '-o', self.out, '--formats', formats,
                         '--redact', redact, '--step', 'nvtx:%s_step' % WORD, '--schedule',
                         'wait=1,warmup=1,active=2,repeat=2', '--label', 'run%s=of %s' % (WORD, WORD),
                         '--label', 'batch=64', '--log', 'info', '--', program, WORD, '8',
                         '--password=' + WORD),
            env, cwd=folder)
        return result, self.traced(2)

    def test_nothing_is_left_in_any_file(self):
        result, found = self.run_redacted(ALL)
        self.assertIn('steps 8', result.stdout)
        self.assertEqual(leaks.leaks(self.out, [WORD, os.path.basename(self.scratch)]), [])
        for cycle in found:
            formats = {f['format'] for f in cycle.manifest['files']}
            self.assertEqual(formats & set(FORMATS.split(',')), set(FORMATS.split(',')))
            self.assertEqual(cycle.manifest['session']['labels']['batch'], '64')

    def test_steps_and_counts_stay(self):
        _, found = self.run_redacted(ALL, formats='chrome')
        self.assertEqual([c.steps for c in found], [[2, 3], [6, 7]])
        for cycle in found:
            kernels = cycle.rows('kernel')
            self.assertEqual(len(kernels), 4 * len(cycle.steps))
            # Two instances of one template stay two kernels.
            self.assertEqual(len({k['name'] for k in kernels}), 4)
            self.assertTrue(all(re.fullmatch(r'kernel-[0-9a-f]{16}', k['name']) for k in kernels))
            source = cycle.manifest['step_source']
            self.assertRegex(source, r'^nvtx:name-[0-9a-f]{16}$')
            own = [r for r in cycle.rows('user_annotation') if r['name'] == source[len('nvtx:'):]]
            self.assertEqual(len(own), len(cycle.steps))
            steps = [r['name'] for r in cycle.rows('user_annotation')
                     if r['name'].startswith('ProfilerStep#')]
            self.assertEqual(sorted(steps), ['ProfilerStep#%d' % i for i in cycle.steps])

    def test_equal_names_have_equal_hashes_in_all_files_of_a_run(self):
        script = 'for r in 0 1; do RANK=$r %s %s 6 & done; wait' % (app('private_words'), WORD)
        self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--redact', 'names', '--step',
                      'nvtx:%s_step' % WORD, '--schedule', 'active=2,repeat=1', '--', '/bin/sh',
                      '-c', script], harness.launcher_environment())
        first, second = self.traced(2)
        names = [{r['name'] for r in c.rows('kernel') + c.rows('user_annotation')}
                 for c in (first, second)]
        self.assertEqual(names[0], names[1])

    def run_with_key(self, number, key):
        out = os.path.join(self.scratch, 'out%d' % number)
        env = harness.agent_environment(out, redact='names', redact_key=key, schedule='active=2,repeat=1',
                                        step='nvtx:%s_step' % WORD)
        self.run_app([app('private_words'), WORD, '4'], env)
        return {r['name'] for r in self.traced(1, out)[0].rows('kernel')}, out

    def test_the_key_decides_and_is_nowhere(self):
        first, out = self.run_with_key(1, 'a key of mine')
        again, _ = self.run_with_key(2, 'a key of mine')
        other, _ = self.run_with_key(3, 'another')
        self.assertEqual(first, again)
        self.assertFalse(first & other)
        self.assertEqual(leaks.leaks(out, ['a key of mine']), [])

    def test_arguments_alone(self):
        env = self.environment(redact='args', schedule='active=2,repeat=1',
                               step='nvtx:%s_step' % WORD)
        self.run_app([app('private_words'), WORD, '4'], env)
        cycle = self.traced(1)[0]
        names = sorted({k['name'] for k in cycle.rows('kernel')})
        self.assertIn(WORD + '_kernel', names)
        hidden = [n for n in names if n.startswith('void scale<')]
        self.assertEqual(len(hidden), 1, names)
        self.assertRegex(hidden[0], r'^void scale<[0-9a-f]{16}>\([0-9a-f]{16}\)$')

    def test_less_than_all_leaves_the_rest(self):
        env = self.environment(redact='hosts', schedule='active=2,repeat=1',
                               step='nvtx:%s_step' % WORD)
        self.run_app([app('private_words'), WORD, '4'], env)
        cycle = self.traced(1)[0]
        self.assertRegex(cycle.manifest['session']['host'], r'^host-[0-9a-f]{16}$')
        self.assertEqual(cycle.manifest['session']['exe'], 'private_words')
        self.assertTrue(leaks.leaks(self.out, [WORD]))

    def test_readers_and_recovery_keep_it(self):
        self.run_redacted(ALL, formats='chrome')
        session = harness.sessions(self.out)[0]
        for folder in glob.glob(os.path.join(session, 'cycle-*')):
            shutil.rmtree(folder)
        self.control('report', session, '--json')
        made = os.path.join(self.scratch, 'converted')
        self.control('convert', session, '--to', 'perfetto', '-o', made)
        self.assertEqual(leaks.leaks(made, [WORD]), [])
        self.assertEqual(leaks.leaks(self.out, [WORD]), [])

    def test_start_may_add_only_before_the_session(self):
        env = self.environment(step='nvtx:train_step', arm='demand')
        process = self.start_app([app('train_loop'), '--steps', '100000'], env)
        harness.eventually(lambda: self.control('status', str(process.pid), status=None).returncode == 0,
                           'the agent answers')
        self.control('start', str(process.pid), '--steps', '2', '--redact', 'names')
        wait = self.control('start', str(process.pid), '--steps', '2', '--redact', 'paths', status=None)
        self.assertNotEqual(wait.returncode, 0)
        self.assertIn('STEPAGENT_REDACT', wait.stdout + wait.stderr)
        self.control('start', str(process.pid), '--steps', '2')
        self.stop_app(process)
        for cycle in self.traced(2):
            self.assertRegex(cycle.manifest['step_source'], r'^nvtx:name-')


if __name__ == '__main__':
    harness.main()
