"""What the tests of the device path share: running a program under a schedule, reading its rows.

Each test_cupti_*.py runs once per personality of the simulated CUPTI (STEPAGENT_TEST_PERSONALITY).
"""
import json
import os

import harness
from harness import AgentTest, app

DEVICE_ROWS = ('kernel', 'gpu_memcpy', 'gpu_memset')
CALL_ROWS = ('cuda_driver', 'cuda_runtime')
SONAMES = {'11.8': 'libcupti.so.11.8', '12.4': 'libcupti.so.12', '12.6': 'libcupti.so.12'}
SONAME = SONAMES.get(harness.PERSONALITY, 'libcupti.so.13')
# cuptiSubscribe_v2, which names the holder of the slot, came with 13.0.
NAMES_THE_HOLDER = SONAME == 'libcupti.so.13'
# Arming takes tens of ms and an active step waits for it at most so long. These tests are about what
# comes after, on machines that may be busy.
ARM_WAIT = '10s'


class CuptiTest(AgentTest):
    """Runs one program and gives its cycles, which the common checks have passed."""

    def capture(self, command, count, **settings):
        """The cycles of `command` (a list whose first item is a test program's name)."""
        settings.setdefault('step', 'nvtx:train_step')
        settings.setdefault('arm_wait', ARM_WAIT)
        env = self.environment(**settings)
        self.result = self.run_app([app(command[0]), *command[1:]], env, status=None)
        if self.result.returncode == 77:  # a real device that lacks something
            self.skipTest(self.result.stdout.strip())
        self.assertEqual(self.result.returncode, 0, self.result.stdout + self.result.stderr)
        found = self.traced(count)
        for cycle in found:
            self.check_bars(cycle)
        return found

    def expected(self, *options):
        plain = self.run_app([app('train_loop'), *options, '--print-expected'],
                             harness.clean_environment())
        return json.loads(plain.stdout)['per_step']

    def check_bars(self, cycle):
        """Never a bar of no length, and the file holds what the balance says."""
        if cycle.manifest['gpu']['status'] == 'unavailable':
            return
        for category, kind in zip(DEVICE_ROWS, ('kernel', 'memcpy', 'memset')):
            rows = cycle.rows(category)
            for row in rows:
                self.assertGreater(row['dur'], 0, row)
            written = cycle.manifest['balance'][kind]['written']
            if written is not None:  # null where CUPTI dropped some of an unknown kind
                self.assertEqual(len(rows), written, kind)

    def check_order(self, cycle):
        """No piece of device work starts before its call by more than the mapping's residual."""
        # ts has ns as decimals of a us, and what a double of that size cannot hold is half a ns.
        slack_us = (cycle.manifest['clock']['device_residual_ns'] + 1) / 1e3
        begins = {}
        for category in CALL_ROWS:
            for call in cycle.rows(category):
                begins.setdefault(call['args'].get('correlation'), call['ts'])
        compared = 0
        for row in device_rows(cycle):
            begin = begins.get(row['args'].get('correlation'))
            if begin is None:
                continue
            compared += 1
            self.assertGreaterEqual(row['ts'], begin - slack_us, row)
        self.assertGreater(compared, 0)


def device_rows(cycle):
    return [row for category in DEVICE_ROWS for row in cycle.rows(category)]


def notes(cycle):
    return {note['code']: note['text'] for note in cycle.manifest['notes']}


def counters(path):
    """The simulator's counters of an ended process (STEPAGENT_SIM_STATS)."""
    with open(path, encoding='utf-8') as source:
        return {name: int(value) for name, value in (line.split() for line in source)}


def exists(name):
    return os.path.exists(app(name))
