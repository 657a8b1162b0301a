"""With and without the agent, in every phase: no difference. Prints the table.

Field-log cases held here: B025 B032 B038 B042 B045 B047 B050 B051 B054 B058 B059 B060 B064 B067 B071
B072 B074 B076 B078 B144.
"""
import os
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import differential  # noqa: E402
import harness  # noqa: E402

# An exit may take this much longer while nothing records.
IDLE_EXIT_S = 0.020
PAIRS = 25


class Differential(unittest.TestCase):
    def test_every_program_in_every_phase(self):
        bad = differential.run(list(differential.PHASES), print_line=lambda line: print(
            line, flush=True))
        self.assertEqual(bad, [])

    def test_an_idle_exit_is_not_delayed(self):
        """The shortest of many runs on each side: what a busy machine adds is on neither."""
        command = [harness.app('exit_ways'), 'return', '3', '0']
        plain = harness.clean_environment()
        idle = dict(plain, LD_PRELOAD=harness.STUB)
        waiting = dict(idle, STEPAGENT_SCHEDULE='wait=1000,active=1',
                       STEPAGENT_STEP='nvtx:train_step', STEPAGENT_LOG='off')
        best = {}
        for _ in range(PAIRS):
            for name, env in (('plain', plain), ('idle', idle), ('waiting', waiting)):
                begin = time.monotonic()
                subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=False)
                took = time.monotonic() - begin
                best[name] = min(best.get(name, took), took)
        print({name: '%.1f ms' % (took * 1000) for name, took in best.items()})
        self.assertLess(best['idle'] - best['plain'], IDLE_EXIT_S)
        self.assertLess(best['waiting'] - best['plain'], IDLE_EXIT_S)

    def test_an_exit_with_a_cycle_open_is_bounded(self):
        """exit-wait is the bound, also when the collector cannot be reached at all."""
        env = dict(harness.clean_environment(), LD_PRELOAD=harness.STUB, STEPAGENT_LOG='off',
                   STEPAGENT_SCHEDULE='active=100000', STEPAGENT_STEP='nvtx:train_step',
                   STEPAGENT_COLLECTOR='@stepagent-nobody-listens', STEPAGENT_EXIT_WAIT='300ms')
        begin = time.monotonic()
        done = subprocess.run([harness.app('exit_ways'), 'return', '20', '1000'], env=env,
                              capture_output=True, timeout=harness.PATIENCE, check=False)
        took = time.monotonic() - begin
        self.assertEqual(done.returncode, 5)
        self.assertLess(took, 5)  # 0.3 s and a busy machine; without the bound it would be for ever


if __name__ == '__main__':
    harness.main()
