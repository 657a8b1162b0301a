"""Parts of run_bench.py that run whole programs under the agent: scaling, back pressure, step times."""
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile

import harness

RECORDED = os.environ.get('STEPAGENT_RECORDED', os.path.join(harness.SHARED, 'data', 'recorded'))
RESNET = os.path.join(RECORDED, 'resnet_1gpu_5steps.json.gz')
IDLE_LOOP = os.path.join(harness.BUILD, 'tests', 'bin', 'idle_loop')
NULL_SUBSCRIBER = os.path.join(harness.BUILD, 'tests', 'bin', 'null_subscriber.so')


def run_traced(command, out, *options, **variables):
    """`stepagent run` of a program; (its last line of output, CPU seconds of it and the launcher)."""
    env = dict(harness.launcher_environment(), **variables)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([harness.STEPAGENT, 'run', '-o', out, *options, '--', *command], env=env,
                          capture_output=True, text=True, check=False, timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    harness.wait_written(out, timeout=300)
    lines = done.stdout.splitlines()
    return (done.returncode, lines[-1] if lines else '',
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def run_plain(command, **variables):
    env = dict(harness.clean_environment(), LD_LIBRARY_PATH=harness.sim_path(), **variables)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = done.stdout.splitlines()
    return (done.returncode, lines[-1] if lines else '',
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


# --- scaling

def scaling(results, path):
    """Cost a record with more threads, more records, larger graphs: `path` is run_bench.path."""
    total = 400_000 if results.quick else 4_000_000
    folder = tempfile.mkdtemp(prefix='stepagent-scaling-')
    try:
        for producers in (1, 4) if results.quick else (1, 2, 4, 8, 16, 32, 64):
            path(results, 'scaling_%d_threads' % producers, folder, producers, total // producers, 1)
        if not results.quick:
            path(results, 'scaling_20_million', folder, 1, 20_000_000, 1)
            graphs(results, folder)
            agents(results, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def graphs(results, folder):
    """CPU a kernel record of graphs that grow, beyond the program alone."""
    for nodes in (1000, 10_000, 50_000):
        launches = 200_000 // nodes
        command = [harness.app('graph_heavy'), '--nodes', str(nodes), '--steps', str(launches)]
        status, _, alone = run_plain(command)
        out = os.path.join(folder, 'graph-%d' % nodes)
        traced_status, _, traced = run_traced(command, out, '--graph', 'node')
        if status != 0 or traced_status != 0:
            return results.lack('scaling_graph_nodes: graph_heavy: status %d' % (status or traced_status))
        results.add('scaling_graph_%d_nodes' % nodes, 'ours', 'ns/kernel of CPU, all of the run',
                    [(traced - alone) / (nodes * launches) * 1e9])
    return None


def agents(results, folder):
    """One collector, ever more processes that record at once: records lost."""
    for count in (1, 8, 64):
        out = os.path.join(folder, 'agents-%d' % count)
        script = 'for i in $(seq %d); do "$0" --recorded 20000 500 0 >/dev/null & done; wait' % count
        status, _, _ = run_traced(['/bin/sh', '-c', script, IDLE_LOOP], out)
        cycles = harness.cycles(out)
        lost = sum((row['dropped'] or 0) for c in cycles for row in c.manifest['balance'].values())
        if status != 0 or len(cycles) != count:
            results.fail('scaling_%d_agents: status %d, %d cycles' % (count, status, len(cycles)))
        results.add('scaling_%d_agents_dropped' % count, 'ours', 'records', [lost])


# --- back pressure

def knows_ring_memory():
    table = subprocess.run([harness.STEPAGENT, 'help-settings', '--markdown'], capture_output=True,
                           text=True, check=False).stdout
    return '--ring-memory' in table


def pressure(results):
    """A program that records far faster than anything can be written: every loss is counted, the
    program goes on at its pace, and the summary says what to raise."""
    pairs = 300_000 if results.quick else 5_000_000
    folder = tempfile.mkdtemp(prefix='stepagent-pressure-')
    try:
        costs = []
        for number in range(1 if results.quick else 5):
            out = os.path.join(folder, str(number))
            options = ['--ring-memory', '0'] if knows_ring_memory() else []
            status, line, _ = run_traced([IDLE_LOOP, '--recorded', str(pairs), '0', '0'], out,
                                         *options)
            cycle, = harness.cycles(out)
            harness.check_balance(cycle)
            balance = cycle.manifest['balance']['nvtx']
            if status != 0:
                return results.fail('pressure: status %d' % status)
            with open(os.path.join(cycle.folder, 'summary.txt'), encoding='utf-8') as source:
                advice = '--ring-memory' in re.sub(r'\s+', ' ', source.read())
            if balance['dropped'] > 0 and options and not advice:
                results.fail('pressure: records were dropped and the summary names no setting')
            costs.append(json.loads(line)['nvtx_ns'])
            results.add('pressure_dropped', 'run %d' % number, 'share',
                        [balance['dropped'] / balance['produced']])
        results.add('pressure_application', 'ours', 'ns/pair', costs)
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- step-time truth

def steps(results):
    """Step times of a replayed recording at its own pace, with the agent and without."""
    if not os.path.exists(RESNET):
        return results.lack('step times: the recorded window is not there')
    folder = tempfile.mkdtemp(prefix='stepagent-steps-')
    times = {'before': [], 'active': [], 'per_callback': []}
    try:
        for number in range(1 if results.quick else 5):
            out = os.path.join(folder, str(number))
            status, _, _ = run_traced(
                [harness.app('replay'), RESNET, '--loop', '4'], out, '--graph', 'node', '--step',
                'nvtx-glob:ProfilerStep#*', '--schedule', 'wait=8,warmup=2,active=6,repeat=1')
            if status != 0:
                return results.lack('step times: replay: status %d' % status)
            cycle, = harness.cycles(out)
            cost = cycle.manifest['cost']
            for key in ('before', 'active'):
                if cost[key] and cost[key]['median_ns']:
                    times[key].append(cost[key]['median_ns'] * 1e-6)
            if cost['callbacks'] and cost['callback_ns'] is not None:
                times['per_callback'].append(cost['callback_ns'] / cost['callbacks'])
        for key in ('before', 'active'):
            if times[key]:
                results.add('step_time', 'without' if key == 'before' else 'with', 'ms', times[key])
        if times['per_callback']:
            results.add('callback_estimate', 'agent, replayed step', 'ns', times['per_callback'])
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def estimate(results):
    """What the agent says of its callbacks, and what they add to the program that makes them: its CPU
    time a launch with ours, beyond that with a subscriber that does nothing, in the same minute. The
    launches are such as the driver refuses: on the simulated device one that runs costs 100 times
    what is looked for, and varies by more than it."""
    launches = 20_000 if results.quick else 1_000_000
    command = [IDLE_LOOP, '--recorded', '0', '0', '0', '0', str(launches)]
    folder = tempfile.mkdtemp(prefix='stepagent-estimate-')
    agent, outside = [], []
    try:
        for number in range(1 if results.quick else 9):
            out = os.path.join(folder, str(number))
            status, null, _ = run_plain(command, CUDA_INJECTION64_PATH=NULL_SUBSCRIBER)
            traced, ours, _ = run_traced(command, out, '--activities', 'launch')
            if status != 0 or traced != 0:
                return results.lack('callback_estimate: idle_loop: status %d' % (status or traced))
            cost = harness.cycles(out)[0].manifest['cost']
            agent.append(cost['callback_ns'] / cost['callbacks'])
            outside.append((json.loads(ours)['refused_ns'] - json.loads(null)['refused_ns']) / 2)
            shutil.rmtree(out)
        results.add('callback_estimate', 'agent', 'ns', agent)
        results.add('callback_estimate', 'outside', 'ns', outside)
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
