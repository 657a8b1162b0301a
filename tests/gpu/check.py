#!/usr/bin/python3
"""What must hold on a real device: one script for a machine with a GPU, no network, no installs.

    python3 tests/gpu/check.py [--out results.json] [--sim] [--only NAME]

Builds nothing: build elsewhere, carry over what pack.sh puts together. Takes under eight minutes (--budget). Writes one JSON of results and exits with 1 on a broken expectation, 0 otherwise;
a part whose ground is missing (no torch, say) is skipped by name. --sim runs the same on the
simulated device, which proves the script.
"""
import argparse
import contextlib
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'support'))
import harness  # noqa: E402  pylint: disable=wrong-import-position

SCHEDULE = 'skip_first=2,wait=1,warmup=1,active=2,repeat=2'
# torch's ranges are of the default domain; those of its stub are not.
TORCH_STEP = 'nvtx:train_step@*'
TORCH_PROGRAM = os.path.join(HERE, 'torch_train.py')
# Pairs of runs, one with and one without, next to each other: what drifts does so in both.
PAIRS = 5
# Loaded and idle a step may take this much longer, as the median of the pairs: what is promised is
# nothing, and runs of one program differ by a few per cent. Recording has no bound here: its cost
# depends on the program and is reported.
IDLE_BOUND = 1.10
# What no trace of an ordinary program on a known CUPTI may say.
ODD_NOTES = {'odd_record_lengths', 'unreadable_buffers', 'duplicate_records', 'impossible_stamps',
             'other_kinds'}


class Skip(Exception):
    """The ground for this part is missing."""


class Broken(AssertionError):
    """An expectation does not hold."""


def expect(condition, what, *shown):
    if not condition:
        raise Broken(what + ''.join(' %r' % (s,) for s in shown))


class Machine:
    """Runs programs with and without the agent on the device chosen."""

    def __init__(self, sim, deadline, torch_python=sys.executable, torch_stub=False):
        self.sim = sim
        self.torch_python = torch_python
        self.torch_path = os.path.join(HERE, 'stub') if torch_stub else None
        self.deadline = deadline
        self.scratch = tempfile.TemporaryDirectory(prefix='stepagent-gpu-')
        self.count = 0

    def left(self):
        return max(1.0, self.deadline - time.monotonic())

    def run(self, command, agent=True, status=0, **settings):
        """(result, out folder); the program's own exit status must be `status`."""
        self.count += 1
        out = os.path.join(self.scratch.name, '%03d' % self.count)
        settings.setdefault('arm_wait', '10s')
        if self.torch_path is not None and TORCH_PROGRAM in command:
            settings['PYTHONPATH'] = self.torch_path
        env = harness.agent_environment(out, sim=self.sim, preload=agent, **settings)
        if not agent:
            env = {k: v for k, v in env.items()
                   if not k.startswith('STEPAGENT_') or k.startswith('STEPAGENT_SIM_')}
        result = subprocess.run(command, env=env, capture_output=True, text=True,
                                timeout=self.left(), check=False)
        if result.returncode == 77:
            raise Skip(result.stdout.strip()[-200:])
        expect(result.returncode == status, 'exit status', result.returncode, result.stderr[-2000:])
        return result, out

    def cycles(self, command, count, **settings):
        settings.setdefault('schedule', SCHEDULE)
        settings.setdefault('step', 'nvtx:train_step')
        _, out = self.run(command, **settings)
        harness.wait_written(out)
        found = harness.cycles(out)
        expect(len(found) == count, 'cycles', len(found))
        for cycle in found:
            harness.check_balance(cycle)
            expect(cycle.manifest['gpu']['status'] == 'collected', 'gpu', cycle.manifest['gpu'])
        return found

    def torch(self, *options):
        """The command of the torch program, on an interpreter that has torch."""
        if self.torch_path is None:
            if self.sim:
                raise Skip('torch does not run on the simulated device')
            found = subprocess.run([self.torch_python, '-c', 'import torch'], capture_output=True,
                                   env=harness.clean_environment(), check=False)
            if found.returncode != 0:
                raise Skip('torch is not installed')
        return [self.torch_python, TORCH_PROGRAM, *options]


def train_expected(*options):
    plain = subprocess.run([harness.app('train_loop'), *options, '--print-expected'],
                           env=harness.clean_environment(), capture_output=True, text=True,
                           check=True)
    return json.loads(plain.stdout)['per_step']


def check_train(machine, *options, level='graph', **settings):
    expected = train_expected(*options)
    found = machine.cycles([harness.app('train_loop'), *options], 2, graph=level, **settings)
    for cycle in found:
        for step in cycle.manifest['steps']:
            want = expected[step['index']]
            kernels = want['kernels'] if level == 'node' else want['calls']['cuLaunchKernel']
            for name, value in (('launches', want['launches']), ('kernels', kernels),
                                ('copies', want['copies']), ('sets', want['sets'])):
                expect(step[name] == value, name, step, value)
        joins = cycle.manifest['joins']
        expect(joins['launches_without_device_work'] == 0, 'launches without work', joins)
        expect(joins['device_work_without_launch'] == 0, 'work without launch', joins)
        for category in ('kernel', 'gpu_memcpy', 'gpu_memset'):
            expect(all(row['dur'] > 0 for row in cycle.rows(category)), 'a bar of no length')
        # The lengths that the library's iterator told at the start are those of the records written.
        odd = ODD_NOTES & {note['code'] for note in cycle.manifest['notes']}
        expect(not odd, 'notes', cycle.manifest['notes'])
        for kind in ('kernel', 'memcpy', 'memset', 'launch'):
            expect(cycle.manifest['balance'][kind]['invalid'] == 0, 'invalid', kind)
    gpu = found[0].manifest['gpu']
    return {'cupti': gpu['cupti_version'], 'driver': gpu['driver_version'],
            'path': gpu['cupti_path'], 'devices': [d['name'] for d in gpu['devices']],
            'residual_ns': [c.manifest['clock']['device_residual_ns'] for c in found]}


def train_loop(machine):
    """Two cycles, exact counts; the records really written agree with the calibrated lengths."""
    return check_train(machine)


def train_loop_nodes(machine):
    return check_train(machine, level='node')


def train_loop_lag(machine):
    return check_train(machine, '--lag', '3', '--kernel-us', '300', '--steps', '14')


def capture_in_window(machine):
    """Each step captures a graph and launches it: captured calls are no device work."""
    for level in ('graph', 'node'):
        cycle, = machine.cycles([harness.app('cupti_ways'), 'capture', '10'], 1, graph=level,
                                schedule='skip_first=2,warmup=1,active=4,repeat=1')
        kernels = 2 if level == 'node' else 0
        for step in cycle.manifest['steps']:
            expect((step['launches'], step['kernels']) == (3, kernels), 'capture', level, step)
        joins = cycle.manifest['joins']
        expect((joins['captured'], joins['launches_without_device_work']) == (8, 0), 'joins', joins)


def subscribe_inside_injection(machine):
    """CUDA is first used inside an active step: arming happens inside cuInit."""
    cycle, = machine.cycles([harness.app('cupti_ways'), 'inside', '4'], 1,
                            schedule='active=1,repeat=1')
    step, = cycle.manifest['steps']
    expect((step['index'], step['launches'], step['kernels']) == (0, 1, 1), 'first launch', step)


def expectations(machine):
    """What the simulator is trusted for, asked of this device: tests/conformance/expectations.py."""
    env = dict(os.environ, STEPAGENT_TEST_GPU='' if machine.sim else '1',
               PYTHONPATH=os.pathsep.join([os.path.join(HERE, '..', 'support'),
                                           os.path.join(HERE, '..', 'process')]))
    ran = subprocess.run([sys.executable, os.path.join(HERE, '..', 'conformance', 'expectations.py')],
                         env=env, capture_output=True, text=True, timeout=machine.left(), check=False)
    rows = re.findall(r'^(?:test_(\w+) .*\n)?.* \.\.\. (ok|FAIL|ERROR|skipped.*)$', ran.stderr, re.M)
    expect(ran.returncode in (0, 77), 'expectations', ran.stderr[-4000:])
    return {name: result for name, result in rows}


def graph_nodes(machine):
    cycle, = machine.cycles([harness.app('graph_heavy'), '--nodes', '10000', '--steps', '6'], 1,
                            graph='node', schedule='skip_first=2,warmup=1,active=2,repeat=1')
    for step in cycle.manifest['steps']:
        expect((step['launches'], step['kernels']) == (1, 10000), 'graph', step)


def never_ending_kernel(machine):
    """Grace time, then counted; the program is not held."""
    if not machine.sim:
        raise Skip('a kernel without an end can take a real device with it')
    cycle, = machine.cycles([harness.app('never_ending_kernel'), '9', '250', '30000'], 1,
                            schedule='warmup=8,active=2,repeat=1')
    balance = cycle.manifest['balance']['kernel']
    missing = cycle.manifest['joins']['launches_without_device_work']
    expect(balance['invalid'] + missing == 1, 'counted', balance, missing)


def forced_exit(machine):
    """_exit in mid-window: what was recorded is on disk and readable."""
    _, out = machine.run([harness.app('never_ending_kernel'), '1000000', '30', '30000'],
                         step='nvtx:train_step', schedule='warmup=2,active=1000,repeat=1')
    harness.wait_written(out)
    cycle, = harness.cycles(out)
    harness.check_balance(cycle)
    expect(not cycle.manifest['cycle']['complete'], 'an unfinished window must say so')
    expect(len(cycle.manifest['steps']) >= 10, 'steps', len(cycle.manifest['steps']))
    return {'steps': len(cycle.manifest['steps']), 'ended': cycle.manifest['cycle']['ended']}


def device_memory(machine):
    """MiB in use on the device, by the vendor's own tool; None where there is none."""
    if machine.sim:
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        shown = subprocess.run(['nvidia-smi', '--query-gpu=memory.used', '--format=csv,noheader,nounits'],
                               capture_output=True, text=True, timeout=20, check=True).stdout
        return int(shown.split()[0])
    return None


def thousand_windows(machine):
    """A thousand short windows in one process; device memory before and after."""
    before = device_memory(machine)
    # The collector takes some ms to write a cycle, so the program gives it time: a window each 12 ms or
    # so, and steps after the last one. What an exit leaves unsent is another test's matter.
    _, out = machine.run([harness.app('train_loop'), '--steps', '8000', '--sleep-us', '1500'],
                         step='nvtx:train_step', max_traces='2000', max_bytes='0', exit_wait='60s',
                         schedule='wait=5,warmup=0,active=1,repeat=1000')
    harness.wait_written(out, timeout=machine.left())
    manifests = glob.glob(os.path.join(out, '*', 'sessions', '*', 'cycle-*', 'manifest.json'))
    manifests = [m for m in manifests if os.sep + 'latest' + os.sep not in m]
    expect(len(manifests) == 1000, 'windows', len(manifests))
    expected = train_expected('--steps', '4')[2]
    bad = []
    for path in manifests:
        with open(path, encoding='utf-8') as source:
            manifest = json.load(source)
        step, = manifest['steps']
        if (step['launches'], step['copies']) != (expected['launches'], expected['copies']):
            bad.append(step)
    expect(not bad, 'windows that are not exact', len(bad), bad[:2])
    return {'device_mib_before': before, 'device_mib_after': device_memory(machine)}


def steps_ns(machine, command, **settings):
    """How long the program says its steps took: what comes before and after is not in it."""
    result, _ = machine.run(command, **settings)
    return int(re.search(r'steps_ns: (\d+)', result.stderr).group(1))


def launch_cost(machine):
    """Step time as paired ratios: no agent against preloaded and idle, graph level, all kinds."""
    command = [harness.app('train_loop'), '--steps', '400', '--sleep-us', '0', '--kernels', '40',
               '--print-time']
    wide = 'skip_first=20,wait=0,warmup=5,active=370,repeat=1'
    variants = {
        'idle': {'schedule': 'skip_first=100000,active=1,repeat=1'},
        'active_graph': {'schedule': wide, 'activities': 'kernel,memcpy,memset,launch'},
        'active_all': {'schedule': wide, 'graph': 'node',
                       'activities': 'kernel,memcpy,memset,launch,sync,nvtx,memory,overhead'},
    }
    ratios = {}
    for name, settings in variants.items():
        pairs = []
        for _ in range(PAIRS):
            plain = steps_ns(machine, command, agent=False)
            pairs.append(steps_ns(machine, command, step='nvtx:train_step', **settings) / plain)
        ratios[name] = {'median': round(statistics.median(pairs), 4),
                        'each': [round(p, 4) for p in pairs]}
    idle = ratios['idle']['median']
    expect(machine.sim or idle <= IDLE_BOUND, 'idle costs', ratios)
    return ratios


def torch_eager(machine):
    found = machine.cycles(machine.torch('--steps', '14'), 2, step=TORCH_STEP)
    for cycle in found:
        for step in cycle.manifest['steps']:
            expect(step['launches'] > 0 and step['kernels'] > 0, 'work', step)
        expect({r['name'] for r in cycle.rows('user_annotation')} >= {'forward', 'backward'}, 'ranges')
        expect(cycle.manifest['joins']['launches_without_device_work'] == 0, 'joins',
               cycle.manifest['joins'])


def torch_graph(machine):
    """The whole step is one graph, captured before the window."""
    for level in ('graph', 'node'):
        for cycle in machine.cycles(machine.torch('--steps', '14', '--graph'), 2, graph=level,
                                    step=TORCH_STEP):
            expect(cycle.manifest['joins']['launches_without_device_work'] == 0, 'joins',
                   cycle.manifest['joins'])
            for step in cycle.manifest['steps']:
                expect(step['launches'] >= 1, 'launches', step)
                # Forward, loss, backward and optimizer are more kernels than that.
                expect((step['kernels'] >= 5) == (level == 'node'), 'kernels', level, step)


def torch_profiler_between(machine):
    """torch.profiler in the same process while we wait with the subscription released."""
    result, out = machine.run(machine.torch('--steps', '60', '--profile-at', '30', '--step-ms', '60'),
                              step=TORCH_STEP,
                              schedule='skip_first=2,wait=50,warmup=1,active=2,repeat=1')
    harness.wait_written(out)
    cycle, = harness.cycles(out)
    kernels = json.loads(result.stdout.splitlines()[-1])['profiler_kernels']
    expect(kernels > 0, 'torch.profiler saw no kernels although the slot was free')
    # Releases that keep the slot after their first use make our later cycle host only: it must say so.
    gpu = cycle.manifest['gpu']
    expect(gpu['status'] == 'collected' or gpu['reason_code'] == 'slot_taken', 'gpu', gpu)
    return {'profiler_kernels': kernels, 'keeps_the_slot': gpu['status'] != 'collected'}


def torch_profiler_during(machine):
    """torch.profiler inside our window: the application lives, ours is whole; its loss is known."""
    result, out = machine.run(machine.torch('--steps', '20', '--profile-at', '8'),
                              step=TORCH_STEP,
                              schedule='skip_first=2,warmup=1,active=12,repeat=1')
    harness.wait_written(out)
    cycle, = harness.cycles(out)
    expect(cycle.manifest['gpu']['status'] == 'collected', 'gpu', cycle.manifest['gpu'])
    return json.loads(result.stdout.splitlines()[-1])


def torch_workers(machine):
    """DataLoader workers are forked from a process with CUDA and the agent: all must end."""
    for cycle in machine.cycles(machine.torch('--steps', '14', '--workers', '3'), 2,
                                step=TORCH_STEP):
        expect(all(s['kernels'] > 0 for s in cycle.manifest['steps']), 'kernels')


PARTS = (train_loop, train_loop_nodes, train_loop_lag, capture_in_window, subscribe_inside_injection,
         expectations, graph_nodes, never_ending_kernel, forced_exit, torch_eager, torch_graph,
         torch_profiler_between, torch_profiler_during, torch_workers, thousand_windows, launch_cost)


def run_part(part, machine):
    begin = time.monotonic()
    row = {'name': part.__name__, 'status': 'passed', 'values': None}
    try:
        row['values'] = part(machine)
    except Skip as skip:
        row.update(status='skipped', reason=str(skip))
    except Exception as error:  # pylint: disable=broad-exception-caught
        # However a part breaks, the others still have to run.
        row.update(status='failed', reason='%s: %s' % (type(error).__name__, error))
    row['seconds'] = round(time.monotonic() - begin, 2)
    print('%-28s %-8s %6.1f s  %s' % (row['name'], row['status'], row['seconds'],
                                      row.get('reason', '')), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', default='gpu-results.json')
    parser.add_argument('--sim', action='store_true', help='use the simulated device')
    parser.add_argument('--torch-python', default=sys.executable,
                        help='the interpreter that has torch, default: this one')
    parser.add_argument('--torch-stub', action='store_true',
                        help='with stub/torch in place of torch (needs nvtx and cupti-python)')
    parser.add_argument('--only', action='append', help='these parts (may be repeated)')
    parser.add_argument('--budget', type=float, default=470, help='seconds for all of it')
    arguments = parser.parse_args()
    begin = time.monotonic()
    machine = Machine(arguments.sim, begin + arguments.budget, arguments.torch_python,
                      arguments.torch_stub)
    rows = []
    for part in PARTS:
        if arguments.only and part.__name__ not in arguments.only:
            continue
        if machine.deadline - time.monotonic() < 5:
            rows.append({'name': part.__name__, 'status': 'failed', 'reason': 'out of time'})
            continue
        rows.append(run_part(part, machine))
    results = {'schema': 'stepagent.gpu-check/1', 'device': 'simulated' if arguments.sim else 'real',
               'seconds': round(time.monotonic() - begin, 1), 'parts': rows}
    with open(arguments.out, 'w', encoding='utf-8') as out:
        json.dump(results, out, indent=1)
    machine.scratch.cleanup()
    failed = [row['name'] for row in rows if row['status'] == 'failed']
    print('%d parts, %d failed; %s' % (len(rows), len(failed), arguments.out))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
