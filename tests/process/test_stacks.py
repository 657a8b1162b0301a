"""--stacks native: the places launches come from, by name, in every file that carries them."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import harness
import pprof_program
import read_pprof
import stack_rows
from cupti_case import CuptiTest, notes
from harness import app, eventually

sys.path.insert(0, os.path.join(harness.SOURCE, 'tests', 'golden', 'formats'))
import perfetto_reader  # noqa: E402

PYTHON = os.environ.get('STEPAGENT_TEST_PYTHON', os.path.join(harness.BUILD, 'venv', 'bin', 'python'))
SCHEDULE = 'wait=1,warmup=1,active=2,repeat=1'
# What every stack of call_chain has in it, outermost first.
CHAIN = ['chain::Outer()', 'void chain::Middle<long>(long)', 'chain_leaf']


def folded(cycle, name='trace.launches'):
    """{tuple of frames, outermost first: figure} of <name>.folded."""
    with open(os.path.join(cycle.folder, f'{name}.folded'), encoding='utf-8') as source:
        rows = [line.rsplit(' ', 1) for line in source.read().splitlines()]
    return {tuple(path.split(';')): int(count) for path, count in rows}


def follows(frames, wanted):
    """`wanted` are in `frames` in this order."""
    rest = iter(frames)
    return all(any(frame == name for frame in rest) for name in wanted)


class Stacks(CuptiTest):
    def chain(self, build, *options, **settings):
        settings.setdefault('schedule', SCHEDULE)
        settings.setdefault('stacks', 'native')
        settings.setdefault('formats', 'chrome,folded,pprof')
        return self.capture([f'call_chain_{build}', *options], 1, **settings)[0]

    def check_chain(self, cycle, before, count=2, inlined=True):
        """Every launch's stack is `before`, then the chain, then the launch."""
        wanted = before + CHAIN[:2] + (['chain::Inlined(int)'] if inlined else []) + CHAIN[2:]
        rows = {path: n for path, n in folded(cycle).items() if 'cuLaunchKernel' in path}
        self.assertEqual(sum(rows.values()), count, rows)
        for path in rows:
            self.assertTrue(follows(path, wanted), path)
            self.assertEqual(path[-2:], ('cuLaunchKernel', 'fwd_relu'), path)
            # Nothing of the driver's inside, of CUPTI or of ours is in it.
            self.assertEqual(path[-3], 'DeviceLaunch', path)
        return rows

    def test_names(self):
        for build in ('with_frame_pointers', 'without_frame_pointers'):
            with self.subTest(build):
                self.out = os.path.join(self.scratch, build)
                cycle = self.chain(build)
                self.check_chain(cycle, ['main'])
                self.assertNotIn('symbols_missing', notes(cycle))

    def test_weights(self):
        """One figure a file: device time, pieces of work, time in calls."""
        cycle = self.chain('with_frame_pointers')
        kernels = cycle.rows('kernel')
        self.assertEqual(sum(folded(cycle, 'trace.launches').values()), len(kernels))
        device_ns = sum(row['dur'] for row in kernels) * 1e3
        self.assertAlmostEqual(sum(folded(cycle, 'trace').values()), device_ns, delta=1)
        self.assertGreater(sum(folded(cycle, 'trace.api_ns').values()), 0)

    def test_stripped(self):
        """Without symbols: the module and the place in it."""
        cycle = self.chain('stripped')
        rows = folded(cycle)
        for path in rows:
            here = [f for f in path if f.startswith('call_chain_stripped+0x')]
            self.assertGreaterEqual(len(here), 4, path)  # main, Step, Outer, Middle, leaf
            self.assertNotIn('chain_leaf', path)

    def test_deep_recursion(self):
        cycle = self.chain('without_frame_pointers', '--from', 'deep', '--depth', '5000')
        rows = self.check_chain(cycle, ['(frames missing)', 'chain::Recurse(unsigned long)'])
        for path in rows:
            self.assertGreater(path.count('chain::Recurse(unsigned long)'), 40)
            self.assertEqual(path[0], '(frames missing)')

    def test_threads(self):
        cycle = self.chain('without_frame_pointers', '--from', 'threads', '--threads', '8')
        self.check_chain(cycle, ['chain::ThreadBody(void*)'], count=16)

    def test_signal_handler(self):
        cycle = self.chain('without_frame_pointers', '--from', 'signal')
        self.check_chain(cycle, ['main', 'chain::OnSignal(int)'])

    def test_coroutine(self):
        cycle = self.chain('without_frame_pointers', '--from', 'coroutine')
        self.check_chain(cycle, ['chain::CoroutineBody()'])

    def hold(self, **settings):
        """What is mapped into a process whose one cycle is written, and the cycle."""
        env = self.environment(schedule=SCHEDULE, step='nvtx:train_step', formats='folded',
                               arm_wait='10s', **settings)
        process = self.start_app([app('call_chain_with_frame_pointers'), '--hold'], env,
                                 stdin=subprocess.PIPE)
        eventually(lambda: glob.glob(os.path.join(self.out, '*/sessions/*/cycle-*/manifest.json')),
                   'the cycle is written')
        with open(f'/proc/{process.pid}/maps', encoding='utf-8') as source:
            maps = source.read()
        _, errors = process.communicate('', timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        return maps, self.traced(1)[0], errors

    def test_off_by_default(self):
        """Nothing of it is in the process, and paths are the ranges."""
        maps, cycle, _ = self.hold()
        self.assertIn('libstepagent_core.so', maps)
        self.assertNotIn('libunwind', maps)
        self.assertEqual(set(folded(cycle)), {('train_step', 'cuLaunchKernel', 'fwd_relu')})

    def test_on_loads_it_locally(self):
        maps, cycle, errors = self.hold(stacks='native')
        self.assertIn('libunwind.so.8', maps)
        self.assertEqual(errors, '')
        self.check_chain(cycle, ['main'])

    def test_unavailable(self):
        """No libunwind: one line and a note, and the launches are there."""
        folder = os.path.join(self.scratch, 'lib')
        os.mkdir(folder)
        with open(os.path.join(folder, 'libunwind.so.8'), 'w', encoding='utf-8') as broken:
            broken.write('no library')
        settings = {'LD_LIBRARY_PATH': folder + ':' + harness.sim_path()}
        _, cycle, errors = self.hold(stacks='native', **settings)
        lines = errors.splitlines()
        self.assertEqual(len(lines), 1, errors)
        self.assertIn('launches are recorded without their stacks: libunwind.so.8', lines[0])
        self.assertIn('libunwind.so.8', notes(cycle)['stacks_unavailable'])
        self.assertEqual(set(folded(cycle)), {('train_step', 'cuLaunchKernel', 'fwd_relu')})
        self.assertEqual(cycle.manifest['balance']['launch']['written'], 2)

    def test_another_build_or_none(self):
        """The program was replaced, then removed, before `convert`: no name is made up."""
        program = os.path.join(self.scratch, 'program')
        shutil.copy2(app('call_chain_with_frame_pointers'), program)
        env = self.environment(schedule=SCHEDULE, step='nvtx:train_step', formats='folded',
                               stacks='native', arm_wait='10s')
        self.run_app([program], env)
        cycle, = self.traced(1)
        self.check_chain(cycle, ['main'])
        session = os.path.dirname(cycle.folder)
        for how in ('replaced', 'removed'):
            os.remove(program)
            if how == 'replaced':
                shutil.copy2(app('call_chain_without_frame_pointers'), program)
            out = os.path.join(self.scratch, how + '.folded')
            self.control('convert', session, '--to', 'folded', '-o', out)
            with open(out, encoding='utf-8') as source:
                text = source.read()
            self.assertIn('program+0x', text)
            self.assertNotIn('chain_leaf', text)

    def test_pprof(self):
        """The same stacks, with lines, files and build ids; as `go tool pprof` reads them where it is."""
        cycle = self.chain('with_frame_pointers')
        path = os.path.join(cycle.folder, 'trace.pb.gz')
        profile = read_pprof.read(path)
        self.assertEqual(profile.types, ['kernels', 'gpu_time', 'api_time', 'bytes'])
        paths = {}
        for sample in profile.samples:
            names = tuple(frame.name for frame in reversed(sample.frames))
            paths[names] = paths.get(names, 0) + sample.values[0]
        launches = {path: n for path, n in paths.items() if n}
        self.assertEqual(launches, folded(cycle))
        leaf, = {f for s in profile.samples for f in s.frames if f.name == 'chain_leaf'
                 and 'cuLaunchKernel' in [g.name for g in s.frames]}
        self.assertGreater(leaf.line, 0)
        self.assertTrue(leaf.module.endswith('/call_chain_with_frame_pointers'), leaf)
        self.assertRegex(leaf.build_id, '^[0-9a-f]{40}$')
        self.assertTrue(leaf.source.endswith('/call_chain.cc'), leaf)
        program = pprof_program.command(harness.BUILD)
        if program is not None:
            raw = subprocess.run([*program, '-raw', path], capture_output=True, text=True,
                                 check=True).stdout
            self.assertIn(f'chain_leaf {leaf.source}:{leaf.line}', raw)

    def test_traces_carry_them(self):
        """Chrome's, Perfetto's and SQLite's traces: each launch with its stack, and still readable."""
        cycle = self.chain('with_frame_pointers', formats='chrome,perfetto,sqlite')
        found = {
            'chrome': [[re.sub(r'^[^:()]+\(\d+\): ', '', frame) for frame in
                        row['args']['Call stack'].split(';')] for row in cycle.rows('cuda_driver')
                       if 'Call stack' in row['args']],
            'perfetto': [[frame[0] for frame in stack] for stack in stack_rows.perfetto(
                perfetto_reader.Trace(shutil.which('protoc'),
                                      os.path.join(cycle.folder, 'trace.pftrace'))).values()],
            'sqlite': [[frame[0] for frame in stack]
                       for stack in stack_rows.sqlite(cycle.folder).values()]}
        self.assertEqual(len(found['chrome']), 2)
        self.assertEqual(found['perfetto'], found['chrome'])
        self.assertEqual(found['sqlite'], found['chrome'])
        for stack in found['chrome']:
            self.assertTrue(follows(stack[::-1], ['main'] + CHAIN), stack)
        trace, = [f['name'] for f in cycle.manifest['files'] if f['format'] == 'chrome']
        report = self.control('report', os.path.join(cycle.run_folder, trace), '--json')
        read, = json.loads(report.stdout)['cycles']
        self.assertEqual([k['count'] for k in read['kernels']],
                         [k['count'] for k in cycle.summary['kernels']])

    def test_convert_names_them_too(self):
        cycle = self.chain('without_frame_pointers')
        session = os.path.dirname(cycle.folder)
        out = os.path.join(self.scratch, 'later.folded')
        self.control('convert', session, '--to', 'folded', '-o', out)
        for name in ('trace.folded', 'trace.launches.folded', 'trace.api_ns.folded'):
            later_name = os.path.join(self.scratch, name.replace('trace', 'later'))
            with open(os.path.join(cycle.folder, name), encoding='utf-8') as live, \
                    open(later_name, encoding='utf-8') as later:
                self.assertEqual(live.read(), later.read(), name)

    def test_every_launch_of_a_loop_has_a_stack(self):
        """train_loop: launches from few places, on two threads, none without its stack."""
        cycle, = self.capture(['train_loop', '--steps', '12'], 1, stacks='native',
                              schedule='wait=1,warmup=1,active=8,repeat=1', formats='folded,chrome')
        rows = folded(cycle)
        launched = {path: n for path, n in rows.items() if 'LaunchKernel' in ' '.join(path)}
        self.assertEqual(sum(launched.values()), len(cycle.rows('kernel')))
        for path in launched:
            self.assertTrue('main' in path or 'Loop' in path, path)  # the backward pass is a thread's
        for code in ('stack_table_full', 'stacks_not_taken', 'stacks_unavailable'):
            self.assertNotIn(code, notes(cycle))

    @unittest.skipUnless(os.path.exists(PYTHON), 'no Python with numba and nvtx')
    def test_python(self):
        """A Python program: the interpreter's functions, as far as it has names."""
        env = self.environment(schedule=SCHEDULE, step='nvtx:train_step@*', stacks='native',
                               formats='folded')
        result = self.run_app([PYTHON, app('train.py'), '--steps', '6'], env, None)
        if result.returncode == 77:
            self.skipTest(result.stdout.strip() or 'numba or nvtx is missing')
        self.assertEqual(result.returncode, 0, result.stderr)
        cycle, = self.traced(1)
        rows = {path: n for path, n in folded(cycle).items() if 'cuLaunchKernel' in path}
        self.assertEqual(sum(rows.values()), cycle.manifest['balance']['kernel']['written'])
        for path in rows:
            self.assertGreater(len(path), 10, path)


if __name__ == '__main__':
    harness.main()
