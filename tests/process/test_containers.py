"""In containers: unprivileged user without a name, read-only root, no /tmp, no home, the application as PID 1."""
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import unittest

import harness
import pod
from harness import AgentTest, app, eventually

WHY_NOT = pod.available()
SCHEDULE = 'skip_first=2,warmup=1,active=2,repeat=1'


@unittest.skipIf(WHY_NOT, 'containers: %s' % WHY_NOT)
class Containers(AgentTest):
    def setUp(self):
        super().setUp()
        os.chmod(self.scratch, 0o755)
        self.shared = os.path.join(self.scratch, 'shared')  # the emptyDir
        os.mkdir(self.shared)
        os.chown(self.shared, pod.NOBODY, pod.NOBODY)
        self.out = os.path.join(self.shared, 'out')
        self.pod = pod.Pod(self.scratch, {'/shared': self.shared})
        self.pod.add_read_only(harness.BUILD)
        for path in {os.path.realpath(p) for p in harness.sim_path().split(':') + [app('server')]}:
            folder = path if os.path.isdir(path) else os.path.dirname(path)
            if not folder.startswith(harness.BUILD + '/'):
                self.pod.add_read_only(folder)

    def variables(self, preload=True, **settings):
        env = {'PATH': '/usr/bin:/bin', 'LD_LIBRARY_PATH': ':'.join(
            os.path.realpath(p) for p in harness.sim_path().split(':')), 'STEPAGENT_OUT': '/shared/out',
            'STEPAGENT_EXIT_WAIT': '20s'}
        if preload:
            env['LD_PRELOAD'] = harness.STUB
        env.update({'STEPAGENT_' + key.upper(): str(value) for key, value in settings.items()})
        return env

    def contain(self, words, env, **options):
        words = [os.path.realpath(words[0]), *words[1:]]
        process = self.start_app(self.pod.command(words, env, **options), harness.clean_environment())
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        """Its PID 1, and with it the container: the end of `unshare` reaches no process of another user."""
        for path in glob.glob('/proc/%d/task/*/children' % process.pid):
            with open(path, encoding='ascii') as source:
                for pid in source.read().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)

    def finish(self, process, status=0):
        out, err = process.communicate(timeout=harness.PATIENCE * 4)
        self.assertEqual(process.returncode, status, out + err)
        return out, err

    def inside(self, process):
        """The pid, as we see it, of the container's PID 1."""
        def look():
            # unshare forks the container's first process; it has become the program once it exec'd.
            for path in glob.glob('/proc/%d/task/*/children' % process.pid):
                with open(path, encoding='ascii') as source:
                    children = source.read().split()
                if children:
                    with open('/proc/%s/cmdline' % children[0], encoding='utf-8') as source:
                        if 'pod.py' not in source.read():
                            return int(children[0])
            return None
        return eventually(look, 'the container runs its program')

    def serve(self, **options):
        process = self.contain([app('server'), '--rate', '200'], self.variables(), **options)
        self.assertIn('ready', process.stdout.readline())
        return process

    def recorded(self, count=1):
        found = self.traced(count)
        for cycle in found:
            self.assertEqual(cycle.manifest['gpu']['status'], 'collected', cycle.manifest['gpu'])
        return found

    def test_restricted(self):
        """uid 65534 without passwd, read-only root, no /tmp, no home, 64 MB /dev/shm, PID 1."""
        process = self.contain([app('train_loop'), '--steps', '12'],
                               self.variables(schedule=SCHEDULE, step='nvtx:train_step'))
        self.finish(process)
        cycle, = self.recorded()
        self.assertEqual(cycle.manifest['session']['pid'], 1)
        self.assertEqual(cycle.steps, [3, 4])
        self.assertTrue(cycle.manifest['cycle']['complete'])
        self.assertEqual(os.stat(cycle.folder).st_uid, pod.NOBODY)

    def test_the_pod_of_the_documentation(self):
        """docs/kubernetes.md: its user, its variables, its places."""
        with open(os.path.join(harness.SOURCE, 'docs', 'kubernetes.md'), encoding='utf-8') as source:
            yaml = source.read().split('```yaml')[1].split('```')[0]
        documented = {name: value.strip('"') for name, value in
                      re.findall(r'\{name: ([A-Z_]+), value: ("[^"]*"|[^}]*)\}', yaml)}
        self.assertEqual(sorted(documented), ['LD_PRELOAD', 'STEPAGENT_OUT', 'STEPAGENT_SCHEDULE',
                                              'STEPAGENT_STEP'])
        uid = int(re.search(r'runAsUser: (\d+)', yaml).group(1))
        # What the init container does, with what the archive holds.
        prefix = os.path.join(self.scratch, 'opt')
        for folder, names in (('bin', ('stepagent', 'stepcollector')),
                              ('lib', ('libstepagent.so', 'libstepagent_core.so'))):
            os.makedirs(os.path.join(prefix, folder))
            for name in names:
                shutil.copy(os.path.join(harness.BUILD, folder, name), os.path.join(prefix, folder))
        self.pod.spec['writable'] = {documented['STEPAGENT_OUT']: self.shared}
        self.pod.spec['writable']['/opt/stepagent'] = prefix
        env = dict(self.variables(preload=False), **documented)
        self.finish(self.contain([app('train_loop'), '--steps', '12'], env, uid=uid))
        found = self.traced(1, self.shared)
        self.assertEqual(found[0].steps, [4, 5])
        self.assertEqual(found[0].manifest['gpu']['status'], 'collected')

    def test_launcher_in_it(self):
        env = self.variables(preload=False)
        process = self.contain([harness.STEPAGENT, 'run', '--step', 'nvtx:train_step', '--schedule',
                                SCHEDULE, '--', os.path.realpath(app('train_loop')), '--steps', '12'],
                               env)
        _, err = self.finish(process)
        self.assertIn('traces in /shared/out', err)
        self.recorded()

    def test_in_a_user_namespace(self):
        os.chmod(self.shared, 0o777)
        process = self.contain([app('train_loop'), '--steps', '12'],
                               self.variables(schedule=SCHEDULE, step='nvtx:train_step'), user=True,
                               uid=0)
        self.finish(process)
        self.recorded()

    def test_no_shared_memory_is_needed(self):
        self.pod.spec['shm'] = 0
        process = self.contain([app('train_loop'), '--steps', '12'],
                               self.variables(schedule=SCHEDULE, step='nvtx:train_step'))
        self.finish(process)
        self.recorded()

    def test_status_and_start_from_a_second_container(self):
        """Shared network namespace, other mounts and processes: the abstract name."""
        server = self.serve()
        env = self.variables(preload=False)
        other = self.contain([harness.STEPAGENT, 'start', '--all', '--for', '200ms'], env,
                             net_of=self.inside(server))
        out, _ = self.finish(other)
        self.assertIn('.pt.trace.json.gz', out)
        status = self.contain([harness.STEPAGENT, 'status', '--json'], env,
                              net_of=self.inside(server))
        row, = json.loads(self.finish(status)[0])
        self.assertEqual((row['pid'], row['phase'], row['cycles_written']), (1, 'idle', 1))
        self.recorded()

    def test_start_from_a_container_that_cannot_see_the_traces(self):
        """Nothing is shared but the network namespace: the process's own word says what was written."""
        server = self.contain([app('server'), '--rate', '200'], self.variables(out='/dev/shm/out'))
        self.assertIn('ready', server.stdout.readline())
        other = self.contain([harness.STEPAGENT, 'start', '--all', '--for', '200ms'],
                             self.variables(preload=False), net_of=self.inside(server))
        out, _ = self.finish(other)
        self.assertRegex(out, r'  /dev/shm/out/.*\.pt\.trace\.json\.gz \(as the process sees it')
        self.assertNotIn('nothing was written', out)

    def test_refused_for_another_user(self):
        server = self.serve()
        env = self.variables(preload=False)
        for uid, status in ((1000, 1), (0, 0)):
            other = self.contain([harness.STEPAGENT, 'status', '1'], env, uid=uid,
                                 net_of=self.inside(server))
            self.finish(other, status)
        # Not only kept from finding it: the agent closes the connection of another user.
        with open('/proc/%d/net/unix' % self.inside(server), encoding='ascii') as table:
            name, = [line.split('@')[1].strip() for line in table if '@stepagent/65534/agent.1.' in line]
        script = ('import os, socket, sys\n'
                  's = socket.socket(socket.AF_UNIX); s.settimeout(20)\n'
                  's.connect(chr(0) + sys.argv[1])\n'
                  'sys.exit(0 if s.recv(1) == b"" else 3)\n')
        other = self.contain(['/usr/bin/python3', '-c', script, name],
                             dict(env, LD_LIBRARY_PATH=''), uid=1000, net_of=self.inside(server))
        self.finish(other)

    def test_collector_in_a_sidecar(self):
        """Its socket and the traces in a shared emptyDir; each container with its own processes."""
        env = self.variables(preload=False)
        sidecar = self.contain([harness.STEPCOLLECTOR, '--socket', '/shared/collector.sock', '--out',
                                '/shared/out'], env)
        eventually(lambda: os.path.exists(os.path.join(self.shared, 'collector.sock')),
                   'the sidecar listens')
        process = self.contain([app('train_loop'), '--steps', '12'],
                               self.variables(schedule=SCHEDULE, step='nvtx:train_step',
                                              collector='/shared/collector.sock'))
        self.finish(process)
        self.recorded()
        self.assertFalse(glob.glob(os.path.join(self.out, '*', 'sessions', '*_collector*')))
        os.kill(self.inside(sidecar), signal.SIGTERM)
        self.finish(sidecar)

    def test_folder_that_cannot_be_made(self):
        """`start` is refused with path, errno and the cure; nothing is left armed."""
        server = self.serve()
        env = self.variables(preload=False)
        other = self.contain([harness.STEPAGENT, 'start', '1', '--for', '200ms', '--out', '/data/traces'],
                             env, net_of=self.inside(server))
        out, _ = self.finish(other, 1)
        for part in ('/data/traces: cannot be created: /: Read-only file system', '--out', '65534'):
            self.assertIn(part, out)
        self.assertEqual(harness.cycles(self.out), [])

    def test_first_to_go_and_out_of_the_way(self):
        """The collector: nobody's zombie, no child of the application's, first under memory pressure."""
        server = self.serve()
        inside = self.inside(server)
        env = self.variables(preload=False)
        other = self.contain([harness.STEPAGENT, 'start', '1', '--for', '30s', '--no-wait'], env,
                             net_of=inside)
        self.finish(other)

        def collector():
            for pid in harness.collectors('/shared/out'):
                if os.stat('/proc/%d/ns/pid' % pid).st_ino == \
                        os.stat('/proc/%d/ns/pid' % inside).st_ino:
                    return '/proc/%d' % pid
            return None
        folder = eventually(collector, 'a collector runs')
        with open(folder + '/oom_score_adj', encoding='ascii') as source:
            self.assertEqual(source.read().strip(), '1000')
        with open('/proc/%d/oom_score_adj' % inside, encoding='ascii') as source:
            self.assertLess(int(source.read()), 1000)
        self.assertEqual(os.stat(folder).st_uid, pod.NOBODY)
        other = self.contain([harness.STEPAGENT, 'stop', '1'], env, net_of=inside)
        self.finish(other)
        eventually(lambda: not collector(), 'the collector leaves an idle process')

        def children():
            with open('/proc/%d/task/%d/children' % (inside, inside), encoding='ascii') as source:
                return source.read().split()
        # As PID 1 the application inherits orphans; nothing of ours stays for it to wait for.
        eventually(lambda: not children(), 'no zombie of the collector is left')

    def test_interrupted_when_pid_1_leaves(self):
        """The kernel ends the whole container; the next report writes what was recorded."""
        process = self.contain([app('train_loop'), '--steps', '100000', '--sleep-us', '1000'],
                               self.variables(schedule='warmup=1,active=1000000',
                                              step='nvtx:train_step'))
        inside = self.inside(process)
        raw = os.path.join(self.out, '*', 'sessions', '*', 'raw.steps')
        eventually(lambda: [p for p in glob.glob(raw) if os.path.getsize(p) > 20000],
                   'some of the cycle is on disk')
        os.kill(inside, signal.SIGKILL)
        process.wait(timeout=harness.PATIENCE)
        # Its folder may be there since the first active step; what it holds is written by whoever reads.
        self.assertEqual(glob.glob(os.path.join(self.out, '*', 'sessions', '*', 'cycle-*', 'manifest.json')), [])
        # In the next container of the pod PID 1 is another process of the same host.
        report = self.contain([harness.STEPAGENT, 'report', '/shared/out'],
                              self.variables(preload=False))
        _, err = self.finish(report, 1)  # 1: the input has a problem, and it is named
        self.assertIn('interrupted; 1 cycles written now', err)
        cycle, = harness.cycles(self.out)
        self.assertEqual(cycle.manifest['cycle']['ended'], 'killed')
        self.assertGreater(len(cycle.steps), 0)


if __name__ == '__main__':
    harness.main()
