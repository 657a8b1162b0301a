"""A trace past --max-trace-bytes is cut where steps begin; what convert writes later is the same."""
import gzip
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys

import harness
from harness import AgentTest, app

sys.path.insert(0, os.path.join(harness.SOURCE, 'tests', 'golden', 'formats'))
import perfetto_reader  # noqa: E402

CHECK = os.path.join(harness.SOURCE, 'tests', 'support', 'check_chrome.py')


def digest(path):
    with open(path, 'rb') as file:
        return hashlib.sha256(file.read()).hexdigest()


class TraceParts(AgentTest):
    def record(self, limit, cycles=1, formats='chrome', **settings):
        env = self.environment(step='nvtx:train_step', formats=formats, max_trace_bytes=limit,
                               schedule='wait=1,warmup=1,active=6,repeat=%d' % cycles, **settings)
        self.run_app([app('train_loop'), '--steps', str(8 * cycles + 1)], env)
        return self.traced(cycles)

    def parts(self, cycle):
        return [f for f in cycle.manifest['files'] if f['format'] == 'chrome']

    def test_cut_at_steps(self):
        cycle = self.record('60k')[0]
        parts = self.parts(cycle)
        self.assertGreater(len(parts), 1)
        self.assertIn('trace_split', [n['code'] for n in cycle.manifest['notes']])
        self.assertIn('trace_split', [n['code'] for n in cycle.summary['notes']])
        steps, kernels = [], 0
        for number, part in enumerate(parts):
            path = os.path.join(cycle.run_folder, part['name'])
            suffix = '' if number == 0 else '.part%d' % number
            self.assertEqual(os.path.basename(os.path.dirname(path)), 'cycle-0000' + suffix)
            self.assertEqual(digest(path), part['sha256'])
            check = subprocess.run([sys.executable, CHECK, path], capture_output=True, text=True,
                                   check=False)
            self.assertEqual(check.returncode, 0, check.stdout + check.stderr)
            with gzip.open(path, 'rt', encoding='utf-8') as source:
                rows = json.load(source)['traceEvents']
            steps += sorted(int(r['name'].split('#')[1]) for r in rows
                            if r['name'].startswith('ProfilerStep#'))
            kernels += sum(r.get('cat') == 'kernel' for r in rows)
        self.assertEqual(steps, cycle.steps)
        self.assertEqual(kernels, cycle.manifest['balance']['kernel']['written'])
        # One name in each folder: readers key the files of a folder by rank.
        self.assertEqual(len({os.path.basename(p['name']) for p in parts}), 1)

    def test_no_limit_is_one_file(self):
        self.assertEqual(len(self.parts(self.record('0')[0])), 1)

    def test_perfetto_is_cut_too(self):
        """Files beside each other; every one is whole by itself, and together they are the cycle."""
        cycle = self.record('6k', formats='perfetto')[0]
        parts = [f for f in cycle.manifest['files'] if f['format'] == 'perfetto']
        self.assertGreater(len(parts), 1)
        self.assertIn('perfetto_split', [n['code'] for n in cycle.manifest['notes']])
        self.assertEqual([os.path.basename(p['name']) for p in parts], ['trace.pftrace'] + [
            'trace.part%d.pftrace' % n for n in range(1, len(parts))])
        steps, kernels = [], 0
        for part in parts:
            path = os.path.join(cycle.run_folder, part['name'])
            self.assertEqual(digest(path), part['sha256'])
            trace = perfetto_reader.Trace(shutil.which('protoc'), path)
            steps += [int(s['step']) for s in trace.slices if s['name'].startswith('ProfilerStep#')]
            kernels += sum(stage['stage'] == 'Kernel' for stage in trace.stages)
        self.assertEqual(steps, cycle.steps)
        self.assertEqual(kernels, cycle.manifest['balance']['kernel']['written'])
        out = os.path.join(self.scratch, 'x.pftrace')
        result = self.control('convert', cycle.folder, '--to', 'perfetto', '-o', out)
        made = [out] + [out.replace('.pftrace', '.part%d.pftrace' % n)
                        for n in range(1, len(parts))]
        self.assertEqual(result.stdout.split(), made)
        self.assertEqual([digest(p) for p in made], [p['sha256'] for p in parts])

    def test_convert_writes_the_same_bytes(self):
        found = self.record('60k', cycles=2, formats='chrome,perfetto,sqlite,folded,pprof')
        session = os.path.dirname(found[0].folder)
        for name in ('chrome', 'perfetto', 'sqlite', 'folded', 'pprof'):
            out = os.path.join(self.scratch, name)
            self.control('convert', session, '--to', name, '-o', out)
            for cycle in found:
                live = {}
                for f in cycle.manifest['files']:
                    if f['format'] != name:
                        continue
                    folder = os.path.basename(os.path.dirname(f['name']))
                    live[folder + '/' + os.path.basename(f['name'])] = f['sha256']
                self.assertTrue(live)
                for path, sha in live.items():
                    self.assertEqual(digest(os.path.join(out, path)), sha, path)

    def test_convert_of_one_cycle_in_parts_to_a_file(self):
        cycle = self.record('60k')[0]
        out = os.path.join(self.scratch, 'x.json.gz')
        result = self.control('convert', cycle.folder, '--to', 'chrome', '-o', out)
        made = sorted(glob.glob(os.path.join(self.scratch, 'x*')))
        self.assertEqual(sorted(result.stdout.split()), made)
        self.assertEqual([digest(p) for p in made],
                         [p['sha256'] for p in self.parts(cycle)])

    def test_convert_of_a_run(self):
        script = 'for r in 0 1; do RANK=$r %s --steps 9 & done; wait' % app('train_loop')
        env = harness.launcher_environment()
        self.run_app([harness.STEPAGENT, 'run', '-o', self.out, '--step', 'nvtx:train_step',
                      '--schedule', 'active=2,repeat=2', '--formats', 'chrome,perfetto', '--',
                      '/bin/sh', '-c', script], env)
        found = self.traced(4)
        run = harness.runs(self.out)[0]
        for name in ('chrome', 'perfetto'):
            out = os.path.join(self.scratch, name)
            result = self.control('convert', run, '--to', name, '-o', out)
            self.assertEqual(len(result.stdout.split()), 4)
            for cycle in found:
                for f in cycle.manifest['files']:
                    if f['format'] == name:
                        self.assertEqual(digest(os.path.join(out, f['name'])), f['sha256'])
        self.assertEqual(len(glob.glob(os.path.join(self.scratch, 'chrome', 'traces', 'cycle-0001',
                                                    '*_rank?.0001.pt.trace.json.gz'))), 2)


if __name__ == '__main__':
    harness.main()
