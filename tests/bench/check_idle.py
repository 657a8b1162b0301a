"""The idle promise, measured: no agent, preloaded and idle, after the last cycle's goodbye; in turns.

    check_idle.py [--pairs N] [--launches N] [--allocations N] [--rounds R] [--starts S] [--json FILE]

Counts are a test: no callback and no call of CUPTI, no thread but the two that sleep, neither of which
wakes, memory that does not grow. Times are printed beside each other and judged by nobody here.
STEPAGENT_BUILD_DIR names the build folder.
"""
import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import harness

LOOP = os.path.join(harness.BUILD, 'tests', 'bin', 'idle_loop')
MODES = ('none', 'idle', 'after')
MAX_GROWTH_KIB = 2048
STEPS = 3


def environment(mode, out):
    if mode == 'none':
        return dict(harness.clean_environment(), LD_LIBRARY_PATH=harness.sim_path())
    if mode == 'idle':
        return harness.agent_environment(out)
    return harness.agent_environment(out, schedule='warmup=1,active=1,repeat=1',
                                     step='nvtx:train_step')


def await_done(process, out):
    """Until the process's only cycle is written, the goodbye is said, and it rests: the goodbye waits
    a bounded time for steps after the cycle (docs/decisions/0009), and idle is what follows it."""
    def is_done():
        answer = subprocess.run([harness.STEPAGENT, 'status', str(process.pid)], text=True,
                                capture_output=True, env=harness.clean_environment(), check=False)
        return 'done' in answer.stdout.split()

    def has_said_goodbye():
        states = []
        for path in glob.glob(os.path.join(out, '*', 'sessions', '*', 'session.json')):
            with open(path, encoding='utf-8') as source:
                states.append(json.load(source)['state'])
        return set(states) == {'closed'}  # `latest` names the same one again
    harness.eventually(is_done, 'phase done', patience=60)
    harness.eventually(has_said_goodbye, 'session closed', patience=150, pause=0.1)


def run_loop(mode, counts):
    out = tempfile.mkdtemp(prefix='stepagent-idle-')
    command = [LOOP, *(str(n) for n in counts)] + ([str(STEPS)] if mode == 'after' else [])
    try:
        process = subprocess.Popen(command, env=environment(mode, out), text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if mode == 'after':
            if process.stdout.readline().strip() != 'ready':
                sys.exit('idle_loop did not get ready')
            await_done(process, out)
            process.stdin.write('\n')
            process.stdin.flush()
        text, _ = process.communicate(timeout=600)
        if process.returncode == 77:
            sys.exit(77)
        if process.returncode != 0:
            sys.exit('idle_loop: status %d' % process.returncode)
        return json.loads(text.splitlines()[-1])
    finally:
        shutil.rmtree(out, ignore_errors=True)


def start_times(rounds):
    """ms that /bin/true takes, without and with the library, in turns."""
    plain = harness.clean_environment()
    loaded = dict(plain, LD_PRELOAD=harness.STUB)
    found = {'none': [], 'idle': []}
    for _ in range(rounds):
        for mode, env in (('none', plain), ('idle', loaded)):
            begin = time.perf_counter()
            pid = os.posix_spawn('/bin/true', ['true'], env)
            os.waitpid(pid, 0)
            found[mode].append((time.perf_counter() - begin) * 1e3)
    return found


def check(mode, result, problems):
    expected = 0 if mode == 'none' else 2
    for what, good, value in (
            ('callbacks', result['callbacks'] == 0, result['callbacks']),
            ('calls of CUPTI', result['cupti_calls'] == 0, result['cupti_calls']),
            ('threads of ours', result['threads'] == expected, result['threads']),
            ('wakes of other threads', result['wakes'] == 0, result['wakes']),
            ('KiB grown', result['rss_growth_kib'] < MAX_GROWTH_KIB, result['rss_growth_kib'])):
        if not good:
            problems.append('%s: %s %s' % (mode, value, what))


def describe(samples):
    return 'min %8.2f  median %8.2f  max %8.2f' % (
        min(samples), statistics.median(samples), max(samples))


def rows_of(results, starts):
    rows = []
    for key, row in (('nvtx_ns', 'idle_nvtx_pair'), ('launch_ns', 'idle_launch'),
                     ('alloc_ns', 'idle_allocation')):
        for mode in MODES:
            rows.append({'row': row, 'variant': mode, 'unit': 'ns/call',
                         'samples': [r[key] for r in results[mode]]})
    for mode in MODES:
        rows.append({'row': 'idle_memory', 'variant': mode, 'unit': 'KiB',
                     'samples': [r['rss_kib'] for r in results[mode]]})
        rows.append({'row': 'idle_callbacks', 'variant': mode, 'unit': 'count',
                     'samples': [r['callbacks'] + r['cupti_calls'] for r in results[mode]]})
        rows.append({'row': 'idle_wakes', 'variant': mode, 'unit': 'count',
                     'samples': [r['wakes'] for r in results[mode]]})
    for mode, samples in starts.items():
        rows.append({'row': 'start_of_true', 'variant': mode, 'unit': 'ms', 'samples': samples})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--pairs', type=int, default=500000)
    parser.add_argument('--launches', type=int, default=50000)
    parser.add_argument('--allocations', type=int, default=50000)
    parser.add_argument('--rounds', type=int, default=2)
    parser.add_argument('--starts', type=int, default=20)
    parser.add_argument('--json')
    arguments = parser.parse_args()
    counts = (arguments.pairs, arguments.launches, arguments.allocations)
    results = {mode: [] for mode in MODES}
    problems = []
    for _ in range(arguments.rounds):
        for mode in MODES:
            result = run_loop(mode, counts)
            check(mode, result, problems)
            results[mode].append(result)
    starts = start_times(arguments.starts)
    rows = rows_of(results, starts)
    for row in rows:
        print('%-18s %-6s %-8s %s' % (row['row'], row['variant'], row['unit'],
                                      describe(row['samples'])))
    if arguments.json:
        with open(arguments.json, 'w', encoding='utf-8') as target:
            for row in rows:
                target.write(json.dumps(row) + '\n')
    for problem in problems:
        print('NOT IDLE: ' + problem)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
