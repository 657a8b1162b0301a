#!/usr/bin/python3
"""What must hold on a real device: one script for a machine with a GPU, no network, no installs.

    STEPAGENT_BUILD_DIR=build python3 tests/gpu/check.py [--out results.json] [--sim] [--only NAME]

Builds nothing: build elsewhere, carry the build folder and this checkout over. Takes under eight
minutes (--budget). Writes one JSON of results and exits with 1 on a broken expectation, 0 otherwise;
a part whose ground is missing (no torch, say) is skipped by name. --sim runs the same on the
simulated device, which proves the script.
"""
import argparse
import contextlib
import glob
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'support'))
import harness  # noqa: E402  pylint: disable=wrong-import-position

SCHEDULE = 'skip_first=2,wait=1,warmup=1,active=2,repeat=2'
TORCH_PROGRAM = os.path.join(HERE, 'torch_train.py')
# Pairs of runs, one with and one without, next to each other: what drifts does so in both.
PAIRS = 5


class Skip(Exception):
    """The ground for this part is missing."""


class Broken(AssertionError):
    """An expectation does not hold."""


def expect(condition, what, *shown):
    if not condition:
        raise Broken(what + ''.join(' %r' % (s,) for s in shown))


class Machine:
    """Runs programs with and without the agent on the device chosen."""

    def __init__(self, sim, deadline):
        self.sim = sim
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
        if self.sim:
            raise Skip('torch does not run on the simulated device')
        if importlib.util.find_spec('torch') is None:
            raise Skip('torch is not installed')
        return [sys.executable, TORCH_PROGRAM, *options]


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
    """Capturing a graph inside the window: those calls are no device work."""
    return check_train(machine, '--graph', 'capture',
                       schedule='skip_first=0,wait=0,warmup=0,active=4,repeat=2')


def subscribe_inside_injection(machine):
    """The first step is active before CUDA is up: arming happens inside cuInit."""
    expected = train_expected('--steps', '3')
    cycle, = machine.cycles([harness.app('train_loop'), '--steps', '3'], 1,
                            schedule='active=1,repeat=1')
    step, = cycle.manifest['steps']
    expect(step['launches'] == expected[0]['launches'], 'launches', step)
    expect(cycle.manifest['balance']['kernel']['written'] > 0, 'kernels')


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


def launch_cost(machine):
    """Step time as paired ratios: no agent against preloaded and idle, graph level, all kinds."""
    command = [harness.app('train_loop'), '--steps', '400', '--sleep-us', '0', '--kernels', '40']
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
            times = []
            for agent in (False, True):
                begin = time.monotonic()
                machine.run(command, agent=agent, step='nvtx:train_step', **settings)
                times.append(time.monotonic() - begin)
            pairs.append(times[1] / times[0])
        ratios[name] = {'median': round(statistics.median(pairs), 4),
                        'each': [round(p, 4) for p in pairs]}
    return ratios  # numbers to look at: what is fast enough is decided elsewhere


def torch_eager(machine):
    found = machine.cycles(machine.torch('--steps', '14'), 2)
    for cycle in found:
        for step in cycle.manifest['steps']:
            expect(step['launches'] > 0 and step['kernels'] > 0, 'work', step)
        expect({r['name'] for r in cycle.rows('user_annotation')} >= {'forward', 'backward'}, 'ranges')
        expect(cycle.manifest['joins']['launches_without_device_work'] == 0, 'joins',
               cycle.manifest['joins'])


def torch_graph(machine):
    for level in ('graph', 'node'):
        for cycle in machine.cycles(machine.torch('--steps', '14', '--graph'), 2, graph=level):
            expect(all(s['launches'] >= 1 for s in cycle.manifest['steps']), 'launches')


def torch_profiler_between(machine):
    """torch.profiler in the same process while we wait with the subscription released."""
    result, out = machine.run(machine.torch('--steps', '60', '--profile-at', '30', '--step-ms', '60'),
                              step='nvtx:train_step',
                              schedule='skip_first=2,wait=50,warmup=1,active=2,repeat=1')
    harness.wait_written(out)
    cycle, = harness.cycles(out)
    expect(cycle.manifest['gpu']['status'] == 'collected', 'gpu', cycle.manifest['gpu'])
    kernels = json.loads(result.stdout.splitlines()[-1])['profiler_kernels']
    expect(kernels > 0, 'torch.profiler saw no kernels although the slot was free')
    return {'profiler_kernels': kernels}


def torch_profiler_during(machine):
    """torch.profiler inside our window: the application lives, ours is whole; its loss is known."""
    result, out = machine.run(machine.torch('--steps', '20', '--profile-at', '8'),
                              step='nvtx:train_step', schedule='skip_first=2,warmup=1,active=12,repeat=1')
    harness.wait_written(out)
    cycle, = harness.cycles(out)
    expect(cycle.manifest['gpu']['status'] == 'collected', 'gpu', cycle.manifest['gpu'])
    return json.loads(result.stdout.splitlines()[-1])


def torch_workers(machine):
    """DataLoader workers are forked from a process with CUDA and the agent: all must end."""
    for cycle in machine.cycles(machine.torch('--steps', '14', '--workers', '3'), 2):
        expect(all(s['kernels'] > 0 for s in cycle.manifest['steps']), 'kernels')


PARTS = (train_loop, train_loop_nodes, train_loop_lag, capture_in_window, subscribe_inside_injection,
         graph_nodes, never_ending_kernel, forced_exit, torch_eager, torch_graph,
         torch_profiler_between, torch_profiler_during, torch_workers, thousand_windows, launch_cost)


def run_part(part, machine):
    begin = time.monotonic()
    row = {'name': part.__name__, 'status': 'passed', 'values': None}
    try:
        row['values'] = part(machine)
    except Skip as skip:
        row.update(status='skipped', reason=str(skip))
    except (AssertionError, ValueError, KeyError, OSError, subprocess.SubprocessError) as error:
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
    parser.add_argument('--only', action='append', help='these parts (may be repeated)')
    parser.add_argument('--budget', type=float, default=470, help='seconds for all of it')
    arguments = parser.parse_args()
    begin = time.monotonic()
    machine = Machine(arguments.sim, begin + arguments.budget)
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
