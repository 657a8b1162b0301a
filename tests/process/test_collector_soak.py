"""Many cycles, ranges and threads: memory and descriptors flat, the balance exact.

A tenth of the full size unless STEPAGENT_TEST_SOAK=10. Field-log cases: B005 B017 B035 B059 B143.
"""
import glob
import os

import harness
from collector_case import CollectorTest, STEP
from harness import app

SCALE = int(os.environ.get('STEPAGENT_TEST_SOAK', '1'))
SETTLED_CYCLES = 50
GROWTH = 1.10


def resident_kib(pid):
    with open('/proc/%d/status' % pid, encoding='ascii') as status:
        return next(int(line.split()[1]) for line in status if line.startswith('VmRSS'))


def descriptors(pid):
    return len(os.listdir('/proc/%d/fd' % pid))


class Soak(CollectorTest):
    def test_B143_many_cycles_leave_memory_flat(self):
        collector = self.start_collector()
        # Two hundred steps a cycle: the list of all steps is full (10,000) when settled. Half of
        # them recorded: then each page of the rings has been written to as well.
        process = self.busy(100000000, 50, schedule='wait=97,warmup=1,active=102,repeat=0',
                            max_traces=0)
        written = lambda: len(glob.glob(os.path.join(
            self.out, '2*/sessions/*/cycle-*/manifest.json')))
        harness.eventually(lambda: written() >= SETTLED_CYCLES, 'settled', 10 * harness.PATIENCE)
        before = [(resident_kib(p.pid), descriptors(p.pid)) for p in (process, collector)]
        harness.eventually(lambda: written() >= SETTLED_CYCLES + 100 * SCALE, 'all cycles',
                           10 * SCALE * harness.PATIENCE)
        after = [(resident_kib(p.pid), descriptors(p.pid)) for p in (process, collector)]
        print('RSS KiB, descriptors of application and collector:', before, after)
        for (rss, fds), (rss_now, fds_now) in zip(before, after):
            self.assertLessEqual(rss_now, rss * GROWTH)
            self.assertLessEqual(abs(fds_now - fds), 4)  # files being written at that moment
        self.stop_app(process)
        self.stop_app(collector)
        found = harness.cycles(self.out)
        for cycle in found:
            harness.check_balance(cycle)

    def test_B059_many_threads_balance_exactly(self):
        count = 5000 * SCALE
        env = self.environment(sim=False, step=STEP, schedule='active=100000000')
        self.run_app([app('many_threads'), '--short', str(count), '--alive', '256'], env)
        cycle, = self.traced(1)
        balance = cycle.manifest['balance']['nvtx']
        self.assertGreaterEqual(balance['produced'], 2 * count)
        self.assertEqual(balance['invalid'], 0)

    def test_B035_many_ranges_and_a_cap(self):
        """Ranges far past max-records: memory stays, what the cap cut off is counted."""
        env = self.environment(sim=False, step=STEP, schedule='active=100000000',
                               max_records=100000)
        self.run_app([app('nvtx_loop'), 'ascii', str(500000 * SCALE)], env)
        cycle, = self.traced(1)
        row = harness.check_balance(cycle)['nvtx']
        self.assertLessEqual(row['written'], 110000)


if __name__ == '__main__':
    harness.main()
