"""Hundreds of agents at once on one collector: every session written, balances right, memory bounded.

300 unless STEPAGENT_TEST_AGENTS says otherwise. Field-log case: B090.
"""
import os
import subprocess
import unittest

import harness
from collector_case import CollectorTest, STEP
from harness import app

AGENTS = int(os.environ.get('STEPAGENT_TEST_AGENTS', '300'))
STEPS = 60
ACTIVE = 40
LEFT = 5  # exit_ways' own status
# Measured: 14 MiB for 20 agents, 45 to 77 MiB for 300. A collector that kept what it has written, or had
# a thread for each client, would need several times as much.
MOST_KIB = 65536 + AGENTS * 512


class Crowd(CollectorTest):
    def start_crowd(self, count, steps=STEPS, active=ACTIVE):
        """Each waits in a shell until the pipe's last writing end is closed: all begin together."""
        command = ['/bin/sh', '-c', 'read go; exec "$0" "$@"', app('exit_ways'), 'return', str(steps),
                   '2000']
        env = harness.agent_environment(self.out, sim=False, step=STEP, collector=self.socket,
                                        schedule='wait=2,warmup=1,active=%d,repeat=1' % active,
                                        exit_wait='120s', STEPAGENT_RUN='20260101T000000_000c0a3d')
        reader, writer = os.pipe()
        crowd = [self.start_app(command, env, stdin=reader, stdout=subprocess.DEVNULL)
                 for _ in range(count)]
        os.close(reader)
        os.close(writer)
        return crowd

    def test_all_are_written(self):
        collector = self.start_collector()
        crowd = self.start_crowd(AGENTS)
        for process in crowd:
            self.finish_app(process, LEFT)
        found = self.traced(AGENTS)
        self.assertLess(harness.peak_kib(collector.pid), MOST_KIB)
        print('%d sessions, collector %d KiB at most' % (len(found), harness.peak_kib(collector.pid)))
        self.assertEqual({c.manifest['session']['pid'] for c in found}, {p.pid for p in crowd})
        self.assertEqual(len({c.chrome_path for c in found}), AGENTS)
        for cycle in found:
            self.assertTrue(cycle.manifest['cycle']['complete'], cycle.folder)
            self.assertEqual(cycle.steps, list(range(3, 3 + ACTIVE)))
            ranges = harness.check_balance(cycle)['nvtx']
            self.assertGreaterEqual(ranges['written'], ACTIVE)
            self.assertEqual((ranges['dropped'], ranges['invalid']), (0, 0), cycle.folder)
        self.assertEqual(self.stop_app(collector), 0)

    def test_a_killed_collector_and_a_smaller_crowd(self):
        """Its successor takes them back; what each lost meanwhile is in its own balance."""
        count = max(AGENTS // 10, 4)
        collector = self.start_collector()
        crowd = self.start_crowd(count, 1500, 1200)
        self.wait_raw(least=count // 4, size=2000)
        collector.kill()
        collector.wait()
        collector = self.start_collector()
        for process in crowd:
            self.finish_app(process, LEFT)
        self.assertEqual(self.stop_app(collector), 0)
        cycles = harness.cycles(self.out)
        self.assertGreaterEqual(len(cycles), count // 4)
        for cycle in cycles:
            harness.check_balance(cycle)
        self.report(self.out)


if __name__ == '__main__':
    harness.main()
