"""Places without /proc or /dev/shm, and programs that have used up the loader's static TLS.

Field-log cases: B068 B078.
"""
import os
import re
import shutil
import subprocess
import unittest

import harness
from harness import AgentTest, app

ACTIVE = dict(schedule='active=1000000', step='nvtx:train_step')
# In a mount namespace of its own; what lies there is hidden by an empty folder nobody can write to.
HIDDEN = ['unshare', '--mount', '/bin/sh', '-c',
          'for place in $PLACES; do mount -t tmpfs -o ro,size=4k tmpfs $place || exit 77; done; '
          'exec "$0" "$@"']


def may_hide():
    if os.geteuid() != 0 or shutil.which('unshare') is None:
        return False
    return subprocess.run([*HIDDEN, 'true'], env=dict(os.environ, PLACES='/proc /dev/shm'),
                          capture_output=True, check=False).returncode == 0


@unittest.skipUnless(may_hide(), 'hiding /proc needs root and mount namespaces')
class Hidden(AgentTest):
    def hidden(self, places, command, env, status):
        return self.run_app([*HIDDEN, *command], dict(env, PLACES=places), status)

    def test_without_proc_and_shm(self):
        """The application is as without us; recording works, also by a collector started there."""
        for places in ('/proc', '/dev/shm', '/proc /dev/shm'):
            for command, status in (([app('exit_ways'), 'return', '20', '1000'], 5),
                                    ([app('many_threads'), '--short', '50', '--alive', '16'], 0)):
                with self.subTest(places=places, command=command[0]):
                    out = os.path.join(self.scratch, 'out-%d' % len(os.listdir(self.scratch)))
                    plain = self.hidden(places, command, harness.clean_environment(), status)
                    traced = self.hidden(places, command,
                                         harness.agent_environment(out, sim=False, **ACTIVE), status)
                    self.assertEqual(plain.stdout, traced.stdout)
                    cycle, = self.traced(1, out)
                    self.assertGreaterEqual(len(cycle.steps), 1)

    def test_the_device_without_proc(self):
        command = [app('train_loop'), '--steps', '8']
        plain = self.hidden('/proc /dev/shm', command, dict(
            harness.clean_environment(), LD_LIBRARY_PATH=harness.sim_path()), 0)
        traced = self.hidden('/proc /dev/shm', command, self.environment(
            step='nvtx:train_step', schedule='warmup=1,active=2,repeat=1'), 0)
        self.assertEqual(plain.stdout, traced.stdout)
        cycle, = self.traced(1)
        gpu = cycle.manifest['gpu']
        # Collected, or the reason is there to be read.
        self.assertTrue(gpu['status'] == 'collected' or gpu['reason'], gpu)


class StaticTls(AgentTest):
    """B068: the injection path, where the loader maps us with what static TLS others left."""

    def libraries(self, count):
        made = []
        for number in range(count):
            made.append(os.path.join(self.scratch, 'lib%d.so' % number))
            shutil.copy(app('libtls_library.so'), made[-1])
        return made

    def run_both(self, count):
        command = [app('static_tls'), '20', *self.libraries(count)]
        plain = self.run_app(command, harness.clean_environment())
        env = self.environment(sim=False, preload=False, NVTX_INJECTION64_PATH=harness.STUB, **ACTIVE)
        traced = self.run_app(command, env)
        self.assertEqual(plain.stdout, traced.stdout, traced.stderr)
        return int(re.match(r'static_tls: (\d+) libraries', plain.stdout).group(1)), traced

    def test_after_thirty_libraries_with_tls_there_is_room_for_us(self):
        loaded, traced = self.run_both(30)
        self.assertEqual(loaded, 30)
        cycle, = self.traced(1)
        self.assertEqual(len(cycle.steps), 20, traced.stderr)

    def test_where_no_room_is_left_the_program_runs_untraced(self):
        loaded, traced = self.run_both(100)
        print('%d of 100 libraries, then we: %d recorded' % (loaded, len(harness.cycles(self.out))))
        self.assertLess(loaded, 100)  # the loader refused some of the program's own
        if not harness.cycles(self.out):
            self.assertFalse(os.path.exists(self.out))
            lines = traced.stderr.splitlines()
            self.assertLessEqual(len(lines), 1, lines)

    def test_preloaded_with_a_hundred_of_them(self):
        """Preloaded, the stub has its place before; the core has to find one."""
        command = [app('static_tls'), '20', *self.libraries(100)]
        plain = self.run_app(command, harness.clean_environment())
        traced = self.run_app(command, self.environment(sim=False, **ACTIVE))
        self.assertEqual(plain.stdout, traced.stdout, traced.stderr)
        recorded = len(harness.cycles(self.out))
        print('preloaded, all static TLS taken: %d recorded; %s' % (recorded, traced.stderr.strip()))
        if not recorded:
            self.assertIn('static TLS', traced.stderr)


if __name__ == '__main__':
    harness.main()
