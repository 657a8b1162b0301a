"""Runs programs under the agent and reads what came out. Standard library only.

STEPAGENT_BUILD_DIR names the build folder; ctest sets it.
"""
import contextlib
import glob
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import slow_collector

BUILD = os.environ.get('STEPAGENT_BUILD_DIR') or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), '..', '..', 'build')
BUILD = os.path.abspath(BUILD)
SOURCE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
STUB = os.path.join(BUILD, 'lib', 'libstepagent.so')
STEPAGENT = os.path.join(BUILD, 'bin', 'stepagent')
STEPCOLLECTOR = os.path.join(BUILD, 'bin', 'stepcollector')
PERSONALITY = os.environ.get('STEPAGENT_TEST_PERSONALITY', '13.0')
DRIVERS = {'11.8': '11080', '12.4': '12040', '12.6': '12060'}
# A machine under sanitizers or with busy neighbours needs more: waits are bounded by this, never slept.
PATIENCE = float(os.environ.get('STEPAGENT_TEST_PATIENCE', '30'))
# A collector this many times slower than it is: see slow_collector.py.
SLOWNESS = int(os.environ.get('STEPAGENT_TEST_SLOW_COLLECTOR', '0'))
EXIT_WAIT = '20s' if not SLOWNESS else '%ds' % PATIENCE
SHARED = os.path.join(SOURCE, '..', 'shared')
KINDS = ('produced', 'written', 'dropped', 'out_of_window', 'invalid')


def app(name):
    return os.path.join(BUILD, 'apps', name)


def sim_path(personality=None):
    return ':'.join([os.path.join(BUILD, 'sim', 'cuda'),
                     os.path.join(BUILD, 'sim', 'cupti-' + (personality or PERSONALITY))])


def clean_environment():
    """The environment without anything of ours or of a launcher."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith('STEPAGENT_') and not k.endswith('_INJECTION64_PATH')}
    for name in ('LD_PRELOAD', 'RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'XDG_RUNTIME_DIR'):
        env.pop(name, None)
    return env


def sim_environment(personality=None):
    """The simulated device, its driver of the CUPTI's release: else a newer CUPTI of this machine, which
    is made for real drivers, would be looked for first."""
    env = {'LD_LIBRARY_PATH': sim_path(personality)}
    if (personality or PERSONALITY) in DRIVERS:
        env['STEPAGENT_SIM_DRIVER_VERSION'] = DRIVERS[personality or PERSONALITY]
    return env


def launcher_environment():
    """For `stepagent run` on the simulated device."""
    return dict(clean_environment(), **sim_environment(), STEPAGENT_EXIT_WAIT=EXIT_WAIT)


def agent_environment(out, *, sim=True, preload=True, personality=None, **settings):
    """STEPAGENT_<KEY>=value for each setting; sim puts the simulated device on the library path."""
    env = clean_environment()
    env['STEPAGENT_OUT'] = out
    # A collector takes long to start where many tests run at once: what counts here is what is written.
    env['STEPAGENT_EXIT_WAIT'] = EXIT_WAIT
    if preload:
        env['LD_PRELOAD'] = STUB
    if sim:
        env.update(sim_environment(personality))
    for key, value in settings.items():
        env[key if key.isupper() else 'STEPAGENT_' + key.upper()] = str(value)
    return env


def eventually(condition, what, patience=None, pause=0.01):
    """Polls until condition() is truthy and returns it; fails with `what` after the patience."""
    end = time.monotonic() + (patience or PATIENCE)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError('not within %.0f s: %s' % (patience or PATIENCE, what))
        time.sleep(pause)  # polling a condition, bounded above


class Cycle:
    """One cycle folder with its manifest, summary and Chrome trace."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, 'manifest.json'), encoding='utf-8') as source:
            self.manifest = json.load(source)

    @property
    def steps(self):
        return [step['index'] for step in self.manifest['steps']]

    @property
    def summary(self):
        with open(os.path.join(self.folder, 'summary.json'), encoding='utf-8') as source:
            return json.load(source)

    @property
    def run_folder(self):
        return os.path.abspath(os.path.join(self.folder, '..', '..', '..'))

    @property
    def chrome_path(self):
        names = [f['name'] for f in self.manifest['files'] if f['format'] == 'chrome']
        assert len(names) == 1, names
        return os.path.join(self.run_folder, names[0])

    @property
    def chrome(self):
        with gzip.open(self.chrome_path, 'rt', encoding='utf-8') as source:
            return json.load(source)

    def rows(self, category):
        return [e for e in self.chrome['traceEvents']
                if e.get('cat') == category and e.get('ph') == 'X']


def sessions(out):
    return sorted(p for p in glob.glob(os.path.join(out, '*', 'sessions', '*'))
                  if os.sep + 'latest' + os.sep not in p)


def cycles(out):
    return [Cycle(p) for p in sorted(glob.glob(os.path.join(out, '*', 'sessions', '*', 'cycle-*')))
            if os.sep + 'latest' + os.sep not in p]


def runs(out):
    return sorted(p for p in glob.glob(os.path.join(out, '*')) if not os.path.islink(p))


def wait_written(path, timeout=None):
    """`stepagent wait`, as a user would."""
    result = subprocess.run([STEPAGENT, 'wait', path, '--timeout', str(int(timeout or PATIENCE))],
                            capture_output=True, text=True, env=clean_environment(), check=False)
    if result.returncode != 0:
        raise AssertionError('wait %s: %d %s' % (path, result.returncode, result.stderr))


def check_balance(cycle):
    """Every kind's balance adds up; returns the balances."""
    balance = cycle.manifest['balance']
    for kind, row in balance.items():
        if row['produced'] is None:
            continue
        total = sum(row[k] or 0 for k in KINDS[1:])
        assert row['produced'] == total, '%s of %s: %s' % (kind, cycle.folder, row)
    return balance


class AgentTest(unittest.TestCase):
    """A test with a scratch folder and processes that end with it."""

    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix='stepagent-test-')
        self.out = os.path.join(self.scratch, 'out')
        self._started = []
        self.addCleanup(self._clean)
        if SLOWNESS:
            self.addCleanup(slow_collector.SlowCollectors(self.scratch, SLOWNESS).stop)

    def _clean(self):
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr, process.stdin):
                if pipe is not None:
                    pipe.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def environment(self, **settings):
        return agent_environment(self.out, **settings)

    def run_app(self, command, env, status=0, timeout=None, **options):
        result = subprocess.run(command, env=env, capture_output=True, text=True,
                                timeout=timeout or PATIENCE * 4, check=False, **options)
        if status is not None:
            self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def start_app(self, command, env, **options):
        options.setdefault('stdout', subprocess.PIPE)
        options.setdefault('stderr', subprocess.PIPE)
        process = subprocess.Popen(command, env=env, text=True, **options)  # pylint: disable=consider-using-with
        self._started.append(process)
        return process

    def stop_app(self, process, number=signal.SIGTERM):
        process.send_signal(number)
        return process.wait(timeout=PATIENCE)

    def control(self, *arguments, status=0, env=None):
        result = subprocess.run([STEPAGENT, *arguments], capture_output=True, text=True,
                                env=env or clean_environment(), timeout=PATIENCE * 2, check=False)
        if status is not None:
            self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def traced(self, expected_cycles, out=None):
        """Waits until all is written and returns the cycles, their number and balances checked."""
        wait_written(out or self.out)
        found = cycles(out or self.out)
        self.assertEqual(len(found), expected_cycles, [c.folder for c in found])
        for cycle in found:
            check_balance(cycle)
        return found


def peak_kib(pid):
    """The most memory a running process has had so far."""
    with open('/proc/%d/status' % pid, encoding='ascii') as status:
        return next(int(line.split()[1]) for line in status if line.startswith('VmHWM'))


def peak_until_exit(process):
    """The most memory it had, in KiB, as far as seen while it ran; waits for its end.

    Not wait4's ru_maxrss: that counts our own memory too, which the child had until its exec.
    """
    peak = 0
    while process.poll() is None:
        with contextlib.suppress(OSError, StopIteration):
            peak = max(peak, peak_kib(process.pid))
        time.sleep(0.02)
    return peak


def skip_unless(path, what):
    return unittest.skipUnless(os.path.exists(path), what + ' is not there')


@contextlib.contextmanager
def stopwatch():
    begin = time.monotonic()
    box = [0.0]
    yield box
    box[0] = time.monotonic() - begin


def collectors(out):
    """The collectors that write into this folder, by process id."""
    found = []
    for path in glob.glob('/proc/[0-9]*/cmdline'):
        try:
            with open(path, encoding='utf-8', errors='replace') as source:
                arguments = source.read().split('\0')
        except OSError:
            continue
        if arguments[0].endswith('stepcollector') and out in arguments:
            found.append(int(path.split('/')[2]))
    return found


def main():
    # exit 77 when every test was skipped, so that ctest says skipped and not passed
    program = unittest.main(exit=False, verbosity=2)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun and len(result.skipped) == result.testsRun else 0)
