"""Runs the benchmarks, ours and the peers in the same run, and writes one JSON document.

    run_bench.py [--quick | --small] [--only PART,…] [--json FILE]

Parts: record encode stack instructions path read write idle scaling pressure steps. STEPAGENT_BUILD_DIR
names the build folder. --small keeps the nine repetitions and makes the whole-path sizes smaller, for
a machine that is shared. --quick is what continuous integration runs: a loss or an instruction count
over budget fails, a time never does.
"""
import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import harness
import lttng_session
import more_parts

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.join(harness.BUILD, 'tests', 'bin')


def program(name):
    return os.path.join(BIN, name)


class Results:
    """Rows as they come, printed at once."""

    def __init__(self, quick, small):
        self.quick = quick
        self.small = small
        self.rows = []
        self.missing = []
        self.failures = []
        self.instructions = None

    def add(self, row, variant, unit, samples):
        samples = [float(s) for s in samples]
        self.rows.append({'row': row, 'variant': variant, 'unit': unit, 'samples': samples})
        print('%-28s %-24s min %10.3f  median %10.3f  max %10.3f  %s (n=%d)' % (
            row, variant, min(samples), statistics.median(samples), max(samples), unit,
            len(samples)), flush=True)

    def lack(self, what):
        self.missing.append(what)
        print('not measured: ' + what, flush=True)

    def fail(self, what):
        self.failures.append(what)
        print('FAILED: ' + what, flush=True)

    def take_lines(self, text):
        for line in text.splitlines():
            if line.startswith('{'):
                row = json.loads(line)
                self.add(row['row'], row['variant'], row['unit'], row['samples'])

    def samples(self, row, variant):
        for found in self.rows:
            if found['row'] == row and found['variant'] == variant:
                return found['samples']
        return None


def run(command, results, what, env=None, timeout=600):
    """The program's output, or None when it cannot be had (said)."""
    if not os.path.exists(command[0]):
        results.lack('%s: %s was not built' % (what, os.path.basename(command[0])))
        return None
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=timeout,
                          check=False)
    if done.returncode != 0:
        results.fail('%s: status %d: %s' % (what, done.returncode, done.stderr.strip()[-400:]))
        return None
    return done.stdout


# --- Google Benchmark programs

def google(results, name, env=None, pattern=None):
    """Repetitions of all benchmarks in turns; counters become rows of their own."""
    repetitions, seconds = (3, 0.01) if results.quick else (9, 0.05)
    command = [program(name), '--benchmark_format=json', '--benchmark_repetitions=%d' % repetitions,
               '--benchmark_min_time=%g' % seconds, '--benchmark_enable_random_interleaving=true']
    if pattern:
        command.append('--benchmark_filter=' + pattern)
    text = run(command, results, name, env)
    if text is None:
        return
    series, counters = {}, {}
    for entry in json.loads(text)['benchmarks']:
        if entry.get('run_type') != 'iteration':
            continue
        row, variant = entry['name'].split('/')[:2]
        if entry.get('error_occurred'):
            results.lack('%s/%s: %s' % (row, variant, entry.get('error_message')))
            continue
        series.setdefault((row, variant), []).append(entry['cpu_time'])
        for key in ('bytes', 'compressed'):
            if key in entry:
                counters[(row + '_' + key, variant)] = entry[key]
    for (row, variant), samples in sorted(series.items()):
        results.add(row, variant, 'ns', samples)
    for (row, variant), value in sorted(counters.items()):
        results.add(row, variant, 'B/record', [value])


def part_record(results):
    if results.quick:
        return google(results, 'record_bench', pattern='-.*lttng')
    if not lttng_session.is_there():
        results.lack('LTTng-UST: lttng-tools is not installed')
        return google(results, 'record_bench', pattern='-.*lttng')
    with lttng_session.daemon() as is_up:
        if not is_up:
            results.lack('LTTng-UST: no session daemon could be started')
            return google(results, 'record_bench', pattern='-.*lttng')
        session = lttng_session.Session()
        with session:
            google(results, 'record_bench', env=lttng_session.ENVIRONMENT)
            session.stop()
        session.remove()


def part_encode(results):
    env = dict(os.environ, LD_LIBRARY_PATH=harness.sim_path())
    google(results, 'encode_bench', env=env)


def part_stack(results):
    google(results, 'stack_bench')


def part_instructions(results):
    valgrind = shutil.which('valgrind')
    if valgrind is None or not os.path.exists(program('instruction_probe')):
        return results.lack('instruction counts: valgrind is not installed')
    with tempfile.NamedTemporaryFile(suffix='.json') as target:
        done = subprocess.run([sys.executable, os.path.join(HERE, 'check_instructions.py'),
                               program('instruction_probe'), valgrind, '--json', target.name],
                              text=True, capture_output=True, check=False)
        print(done.stdout, flush=True)
        if done.returncode != 0:
            results.fail('an instruction count is over its budget')
        with open(target.name, encoding='utf-8') as source:
            results.instructions = json.load(source)


# --- the whole path

def path(results, row, folder, producers, records, runs, *more):
    text = run([program('path_bench'), '--collector', harness.STEPCOLLECTOR, '--out', folder,
                '--row', row, '--producers', str(producers), '--records', str(records),
                '--runs', str(runs), *more], results, row)
    if text is not None:
        results.take_lines(text)


def path_lttng(results, row, threads, records, runs, keep=None):
    if results.quick:
        return None
    if not lttng_session.is_there() or not os.path.exists(program('path_lttng')):
        return results.lack(row + '/lttng: LTTng-UST is not installed')
    rates, sizes = [], []
    with lttng_session.daemon() as is_up:
        if not is_up:
            return results.lack(row + '/lttng: no session daemon')
        for number in range(runs):
            session = lttng_session.Session()
            with session:
                done = subprocess.run([program('path_lttng'), str(threads), str(records)],
                                      env=lttng_session.ENVIRONMENT, text=True, capture_output=True,
                                      check=False)
                session.stop()
                end = time.monotonic_ns()
            if done.returncode != 0:
                return results.lack('%s/lttng: status %d' % (row, done.returncode))
            total = threads * records
            rates.append(total / (end - int(done.stdout.split()[0])) * 1e3)
            sizes.append(sum(os.path.getsize(os.path.join(base, name))
                             for base, _, names in os.walk(session.trace)
                             for name in names) / total)
            if keep is not None and number == runs - 1:
                shutil.copytree(session.trace, keep)
            session.remove()
    results.add(row, 'lttng', 'M records/s', rates)
    results.add(row + '_bytes', 'lttng', 'B/record', sizes)


def part_path(results, folder):
    runs, records = (1, 200_000) if results.quick else (9, 1_000_000 if results.small else 2_000_000)
    raw = os.path.join(folder, 'raw.steps')
    path(results, 'path', folder, 1, records, runs, '--keep', raw)
    path_lttng(results, 'path', 1, records, runs, os.path.join(folder, 'lttng'))
    path(results, 'path_2', folder, 2, records, runs)
    path_lttng(results, 'path_2', 2, records, runs)
    # 2 x 2 million a second, for a second.
    if not results.quick:
        path(results, 'path_paced', folder, 2, 2_000_000, 5, '--pace-ns', '500')


def timed(command, env=None):
    begin = os.times()
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    end = os.times()
    return done, (end.children_user + end.children_system - begin.children_user -
                  begin.children_system)


def part_read(results, folder):
    runs = 1 if results.quick else 9
    raw = os.path.join(folder, 'raw.steps')
    if not os.path.exists(raw):
        path(results, 'path', folder, 1, 200_000 if results.quick else 2_000_000, 1, '--keep', raw)
    text = run([program('read_bench'), raw, '--runs', str(runs)], results, 'read_back')
    if text is not None:
        results.take_lines(text)
    trace = os.path.join(folder, 'lttng')
    if results.quick:
        return None
    if os.path.isdir(trace) and shutil.which('babeltrace2'):
        records = 1_000_000 if results.small else 2_000_000
        rates = []
        for _ in range(min(runs, 3)):
            done, seconds = timed(['babeltrace2', trace, '--component=sink.utils.counter',
                                   '-p', 'step=+0'])
            if done.returncode != 0:
                return results.lack('babeltrace2: ' + done.stderr.strip()[-200:])
            rates.append(records / seconds * 1e-6)
        results.add('read_back', 'babeltrace2_counter', 'M records/s of CPU', rates)
    else:
        results.lack('read_back/babeltrace2: no trace or no babeltrace2')


def part_write(results, folder):
    kernels, runs = (20_000, 1) if results.quick else (200_000 if results.small else 1_000_000, 9)
    text = run([program('write_bench'), '--out', os.path.join(folder, 'write'), '--kernels',
                str(kernels), '--runs', str(runs)], results, 'write')
    if text is not None:
        results.take_lines(text)
    if not results.quick:
        read_json(results, folder)


def read_json(results, folder):
    """Python's json on 200,000 bare rows."""
    path_of = os.path.join(folder, 'rows.json')
    with open(path_of, 'w', encoding='utf-8') as target:
        target.write('[')
        for i in range(200_000):
            target.write('%s{"ph":"X","cat":"kernel","name":"kernel_%d","pid":0,"tid":7,"ts":%d.125,'
                         '"dur":12.5,"args":{"correlation":%d,"grid":[%d,1,1],"block":[256,1,1]}}'
                         % (',' if i else '', i % 300, i * 20, i, i % 999 + 1))
        target.write(']')
    rates = []
    for _ in range(3):
        _, seconds = timed([sys.executable, '-c', 'import json,sys;json.load(open(sys.argv[1]))',
                            path_of])
        rates.append(0.2 / seconds)
    results.add('read_back', 'python_json', 'M records/s of CPU', rates)


def part_idle(results, folder):
    sizes = ['--pairs', '200000', '--launches', '20000', '--allocations', '20000', '--rounds', '1',
             '--starts', '10'] if results.quick else [
                 '--pairs', '10000000', '--launches', '100000' if results.small else '1000000',
                 '--allocations', '100000' if results.small else '1000000', '--rounds', '5',
                 '--starts', '100']
    target = os.path.join(folder, 'idle.json')
    done = subprocess.run([sys.executable, os.path.join(HERE, 'check_idle.py'), '--json', target,
                           *sizes], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 77):
        results.fail('idle: ' + ' '.join(line for line in done.stdout.splitlines()
                                         if line.startswith('NOT IDLE')) + done.stderr[-400:])
    if os.path.exists(target):
        with open(target, encoding='utf-8') as source:
            results.take_lines(source.read())


def part_scaling(results):
    more_parts.scaling(results, path)


def part_pressure(results):
    more_parts.pressure(results)


def part_steps(results):
    more_parts.steps(results)
    more_parts.estimate(results)


# --- the document

def cpu_name():
    with open('/proc/cpuinfo', encoding='utf-8') as source:
        for line in source:
            if line.startswith('model name'):
                return line.split(':', 1)[1].strip()
    return platform.machine()


def machine():
    with open('/proc/meminfo', encoding='utf-8') as source:
        memory = int(source.readline().split()[1]) // 1024 // 1024
    release = platform.freedesktop_os_release().get('PRETTY_NAME', 'Linux') \
        if hasattr(platform, 'freedesktop_os_release') else 'Linux'
    compiler = subprocess.run(['c++', '--version'], capture_output=True, text=True,
                              check=False).stdout.splitlines()
    return {'cpu': cpu_name(), 'cpus': os.cpu_count(), 'memory_gib': memory + 1, 'os': release,
            'kernel': platform.release(), 'compiler': compiler[0] if compiler else 'unknown',
            'load_before': os.getloadavg()[0]}


PARTS = ('record', 'encode', 'stack', 'instructions', 'path', 'read', 'write', 'idle', 'scaling', 'pressure',
         'steps')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--small', action='store_true')
    parser.add_argument('--only', default=','.join(PARTS))
    parser.add_argument('--json', default=os.path.join(harness.BUILD, 'bench', 'results.json'))
    arguments = parser.parse_args()
    results = Results(arguments.quick, arguments.small)
    document = {'schema': 'stepagent.bench/1', 'quick': arguments.quick, 'small': arguments.small, 'machine': machine(),
                'begun': datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds')}
    folder = tempfile.mkdtemp(prefix='stepagent-bench-')
    try:
        for part in arguments.only.split(','):
            print('== ' + part, flush=True)
            function = globals()['part_' + part]
            function(results, folder) if function.__code__.co_argcount == 2 else function(results)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    document['machine']['load_after'] = os.getloadavg()[0]
    document.update(rows=results.rows, missing=results.missing, failures=results.failures,
                    instructions=results.instructions)
    os.makedirs(os.path.dirname(arguments.json) or '.', exist_ok=True)
    with open(arguments.json, 'w', encoding='utf-8') as target:
        json.dump(document, target, indent=1)
        target.write('\n')
    for failure in results.failures:
        print('FAILED: ' + failure)
    return 1 if results.failures else 0


if __name__ == '__main__':
    sys.exit(main())
