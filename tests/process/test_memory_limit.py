"""A container's memory limit near the application's own need: the collector is the first to go, and no
record is lost by it."""
import os
import sys
import tempfile
import unittest

import harness
from harness import AgentTest, app, eventually

MIB = 1 << 20
KERNEL = b'fwd_linear'  # what tests/apps/server launches
# Takes memory in the group until the process named is gone; what it took is given back at its end.
HOG = '''
import os, sys
taken = []
while os.path.exists('/proc/%s' % sys.argv[1]) and len(taken) < 1024:
    taken.append(bytes(1 << 20).replace(b'\\0', b'x'))
    with open('/proc/%s/stat' % sys.argv[1]) as stat:
        if stat.read().rsplit(')', 1)[1].split()[0] in 'ZX':
            break
'''


class Group:
    """A cgroup of the test's own, by either version of the interface."""

    def __init__(self, root, limit, usage):
        self.path = tempfile.mkdtemp(prefix='stepagent-', dir=root)
        self.limit_file, self.usage_file = limit, usage

    @staticmethod
    def make():
        """A group, or why there is none here."""
        why = []
        for root, limit, usage in (('/sys/fs/cgroup', 'memory.max', 'memory.current'),
                                   ('/sys/fs/cgroup/memory', 'memory.limit_in_bytes',
                                    'memory.usage_in_bytes')):
            try:
                group = Group(root, limit, usage)
            except OSError as error:
                why.append('%s: %s' % (root, error.strerror))
                continue
            try:
                group.write(limit, 1 << 40)
                group.read(usage)
                return group
            except OSError as error:
                why.append('%s: %s: %s' % (root, limit, error.strerror))
                group.remove()
        return 'no memory cgroup that can be made here (%s)' % '; '.join(why)

    def write(self, name, value):
        # Not created: in a plain folder such a file would be no limit.
        with open(os.path.join(self.path, name), 'r+', encoding='ascii') as file:
            file.write(str(value))

    def read(self, name):
        with open(os.path.join(self.path, name), encoding='ascii') as file:
            return file.read()

    def usage(self):
        return int(self.read(self.usage_file))

    def pids(self):
        return [int(word) for word in self.read('cgroup.procs').split()]

    def remove(self):
        os.rmdir(self.path)

    def inside(self, words):
        return ['/bin/sh', '-c', 'echo $$ >"$0" && exec "$@"', os.path.join(self.path, 'cgroup.procs'),
                *words]


GROUP = Group.make()


@unittest.skipIf(isinstance(GROUP, str), 'memory limit: %s' % GROUP)
class MemoryLimit(AgentTest):
    def setUp(self):
        super().setUp()
        self.env = dict(harness.clean_environment(),
                        STEPAGENT_RUNTIME_DIR=os.path.join(self.scratch, 'runtime'))
        self.addCleanup(self.leave)

    def leave(self):
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.wait()
        GROUP.write(GROUP.limit_file, 1 << 40)
        eventually(lambda: not GROUP.pids(), 'the group is empty')
        GROUP.remove()

    def collector(self):
        for pid in GROUP.pids():
            try:
                with open('/proc/%d/cmdline' % pid, encoding='utf-8', errors='replace') as source:
                    if source.read().split('\0')[0].endswith('stepcollector'):
                        return pid
            except OSError:
                continue
        return None

    def kernels_on_disk(self):
        """Whether a kernel's name is there: it comes with the first kernel records and never before."""
        for path in (os.path.join(s, 'raw.steps') for s in harness.sessions(self.out)):
            if os.path.exists(path):
                with open(path, 'rb') as source:
                    if KERNEL in source.read():
                        return True
        return False

    def test_the_collector_goes_first_and_its_records_stay(self):
        env = self.environment(STEPAGENT_RUNTIME_DIR=self.env['STEPAGENT_RUNTIME_DIR'],
                               exit_wait='2s')
        server = self.start_app(GROUP.inside([app('server'), '--rate', '200']), env)
        self.assertIn('ready', server.stdout.readline())
        # It answers once it has used CUDA or NVTX.
        eventually(lambda: self.control('status', str(server.pid), env=self.env,
                                        status=None).returncode == 0, 'it answers')
        self.control('start', str(server.pid), '--for', '1h', '--no-wait', env=self.env)
        collector = eventually(self.collector, 'a collector in the group')
        eventually(self.kernels_on_disk, 'some of its kernels are on disk')
        GROUP.write(GROUP.limit_file, GROUP.usage() + 48 * MIB)
        hog = self.start_app(GROUP.inside([sys.executable, '-c', HOG, str(collector)]),
                             harness.clean_environment())
        hog.wait(timeout=harness.PATIENCE * 2)
        eventually(lambda: self.collector() != collector, 'the collector is gone')
        self.assertIsNone(server.poll(), 'the application runs on')
        GROUP.write(GROUP.limit_file, 1 << 40)
        self.assertEqual(self.stop_app(server), 0)
        result = self.control('report', self.out, env=self.env, status=None)
        self.assertIn(result.returncode, (0, 1), result.stderr)
        cycle, = harness.cycles(self.out)
        self.assertGreater(cycle.manifest['balance']['kernel']['written'], 0)


if __name__ == '__main__':
    harness.main()
