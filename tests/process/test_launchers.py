"""Real launchers: Open MPI's mpirun, Slurm's srun, PyTorch's torchrun and torch.multiprocessing.

What is not installed is skipped by name. test_together.py has the launchers' variables without them.
"""
import os
import shutil
import subprocess
import unittest

import harness
import slurm_node
from harness import AgentTest, app

STEP = 'nvtx:train_step'
SCHEDULE = 'wait=1,warmup=1,active=2,repeat=1'
STEPS = [2, 3]
HERE = os.path.dirname(os.path.abspath(__file__))
# A virtual environment that has torch; by default test.sh's, made when STEPAGENT_TEST_TORCH=1.
TORCH = os.environ.get('STEPAGENT_TEST_TORCH_VENV') or os.path.join(harness.BUILD, 'torch')
TORCHRUN = shutil.which('torchrun', path=os.path.join(TORCH, 'bin') + os.pathsep +
                        os.environ.get('PATH', ''))
MPIRUN = shutil.which('mpirun')


def is_open_mpi():
    return MPIRUN and 'Open MPI' in subprocess.run(
        [MPIRUN, '--version'], capture_output=True, text=True, check=False).stdout


class LauncherTest(AgentTest):
    def launched(self, *options):
        return [harness.STEPAGENT, 'run', '-o', self.out, '--step', STEP, '--schedule', SCHEDULE,
                *options, '--']

    def preload(self):
        return self.environment(schedule=SCHEDULE, step=STEP)

    def check_ranks(self, source, count=4, are_told=True):
        """One run, ranks 0 to count-1 with the same steps, and no session of anybody else."""
        found = self.traced(count)
        self.assertEqual(len(harness.runs(self.out)), 1, harness.runs(self.out))
        self.assertEqual(len(harness.sessions(self.out)), count, harness.sessions(self.out))
        sessions = [c.manifest['session'] for c in found]
        self.assertEqual(sorted(s['rank'] for s in sessions), list(range(count)))
        self.assertEqual({s['rank_source'] for s in sessions}, {source})
        if are_told:
            self.assertEqual({s['world_size'] for s in sessions}, {count})
            self.assertEqual([s['local_rank'] for s in sessions], [s['rank'] for s in sessions])
        self.assertEqual([c.steps for c in found], [STEPS] * count)
        return found

    def check_exit_lines(self, text, count=4):
        for rank in range(count):
            self.assertEqual(text.count('stepagent:   rank %d  ' % rank), 1, text)


POOL = '''
import ctypes, glob, multiprocessing, os, sys, time
def steps():  # once in each worker; a forked one ends by _exit, so not before its steps are written
    plugin = ctypes.CDLL(%r)
    for _ in range(8):
        plugin.PluginStep()
    written = os.path.join(os.environ['STEPAGENT_OUT'], '*_*/sessions/*_%%d_*/cycle-0000/manifest.json')
    end = time.monotonic() + %f
    while time.monotonic() < end and not glob.glob(written %% os.getpid()):
        time.sleep(0.01)
def work(i):
    return i
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    pool = context.Pool(2, initializer=steps)
    total = sum(pool.map(work, range(4), 1))
    pool.close()
    pool.join()
    sys.exit(total)
''' % (app('librange_plugin.so'), harness.PATIENCE)


class Pools(LauncherTest):
    def test_workers_that_step_themselves(self):
        """Workers are ranks; the parent, the fork server and the resource tracker leave nothing."""
        script = os.path.join(self.scratch, 'pool.py')
        with open(script, 'w', encoding='ascii') as out:
            out.write(POOL)
        env = harness.launcher_environment()
        env.pop('LD_LIBRARY_PATH')
        for way in ('fork', 'spawn', 'forkserver'):
            with self.subTest(way=way):
                self.out = os.path.join(self.scratch, way)
                self.run_app([*self.launched(), '/usr/bin/python3', script, way], env, 6)
                found = self.check_ranks('assigned', 2, are_told=False)
                # By the script, however the worker came to be, and not by the interpreter.
                self.assertEqual({c.manifest['session']['exe'] for c in found}, {'pool'})
                self.assertTrue(all(os.path.basename(c.chrome_path).startswith('pool_')
                                    for c in found))


@unittest.skipUnless(is_open_mpi(), "Open MPI's mpirun is not installed (package openmpi-bin)")
class Mpirun(LauncherTest):
    def mpirun(self, *options):
        root = ['--allow-run-as-root'] if os.geteuid() == 0 else []
        return [MPIRUN, *root, '--oversubscribe', '-np', '4', *options]

    def loop(self, *options):
        return [app('train_loop'), '--steps', '8', *options]

    def test_run_around_mpirun(self):
        result = self.run_app([*self.launched(), *self.mpirun(), *self.loop()],
                              harness.launcher_environment())
        self.check_ranks('OMPI_COMM_WORLD_RANK')
        self.check_exit_lines(result.stderr)

    def test_run_in_each_rank(self):
        """Four launchers of one job: one run, and rank 0's prints its table."""
        result = self.run_app([*self.mpirun(), *self.launched(), *self.loop()],
                              harness.launcher_environment())
        self.check_ranks('OMPI_COMM_WORLD_RANK')
        self.check_exit_lines(result.stderr)

    def test_bare_preload_through_shells(self):
        """Each rank has a shell of its own for a parent, and mpirun itself is not preloaded."""
        env = self.preload()
        library = env.pop('LD_PRELOAD')
        script = '"$0" "$@"; exit $?'
        self.run_app([*self.mpirun('-x', 'LD_PRELOAD=' + library), '/bin/sh', '-c', script,
                      *self.loop()], env)
        self.check_ranks('OMPI_COMM_WORLD_RANK')

    def test_exit_status_of_a_rank(self):
        script = '"$0" "$@"; test $OMPI_COMM_WORLD_RANK != 2 || exit 7'
        command = [*self.mpirun(), '/bin/sh', '-c', script, *self.loop()]
        self.run_app(command, harness.launcher_environment(), 7)
        self.run_app([*self.launched(), *command], harness.launcher_environment(), 7)


@unittest.skipIf(slurm_node.missing(), slurm_node.missing() or '-')
class Srun(LauncherTest):
    def setUp(self):
        super().setUp()
        try:
            self.node = slurm_node.SlurmNode(self.scratch)
        except slurm_node.CannotStart as error:
            self.skipTest('Slurm does not start here: %s' % error)
        self.addCleanup(self.node.stop)  # runs before the scratch folder goes

    def srun(self, *options):
        return [slurm_node.program('srun'), '-n', '4', *options]

    def with_slurm(self, env):
        return dict(env, LD_LIBRARY_PATH=self.node.loader_path(harness.sim_path()),
                    **self.node.environment)

    def test_job_steps(self):
        loop = [app('train_loop'), '--steps', '8']
        env = self.with_slurm(harness.launcher_environment())
        with self.subTest('run around srun'):
            result = self.run_app([*self.launched(), *self.srun(), *loop], env)
            self.check_ranks('SLURM_PROCID')
            self.check_exit_lines(result.stderr)
        with self.subTest('run in each task'):
            self.out = os.path.join(self.scratch, 'tasks')
            result = self.run_app([*self.srun(), *self.launched(), *loop], env)
            self.check_ranks('SLURM_PROCID')
            self.check_exit_lines(result.stderr)
        with self.subTest('preload by --export'):
            # Values with commas do not pass through --export: the schedule is in the environment.
            self.out = os.path.join(self.scratch, 'preload')
            preload = 'ALL,LD_PRELOAD=%s,STEPAGENT_OUT=%s,STEPAGENT_STEP=%s' % (
                harness.STUB, self.out, STEP)
            self.run_app([*self.srun('--export=' + preload), '/bin/sh', '-c', '"$0" "$@"; exit $?', *loop],
                         dict(env, STEPAGENT_SCHEDULE=SCHEDULE))
            self.check_ranks('SLURM_PROCID')
        with self.subTest('exit status'):
            self.out = os.path.join(self.scratch, 'status')
            script = '"$0" "$@"; exit $((SLURM_PROCID == 1 ? 9 : 0))'
            self.run_app([*self.launched(), *self.srun(), '/bin/sh', '-c', script, *loop], env, 9)
        with self.subTest('a step of one task is no run of many'):
            # As in a shell under `srun --pty`: each `stepagent run` is a run of its own.
            self.out = os.path.join(self.scratch, 'shell')
            run = ' '.join(self.launched()) + ' ' + ' '.join(loop)
            self.run_app([slurm_node.program('srun'), '-n', '1', '/bin/sh', '-c', run + ' && ' + run], env)
            self.assertEqual(len(self.traced(2)), len(harness.runs(self.out)))


@unittest.skipUnless(TORCHRUN, 'torchrun is not installed (STEPAGENT_TEST_TORCH=1 ./test.sh fetches it)')
class Torchrun(LauncherTest):
    """Each rank imports torch, which takes seconds of a core: as few runs as can be."""

    def setUp(self):
        super().setUp()
        self.python = os.path.join(os.path.dirname(TORCHRUN), 'python3')
        self.script = os.path.join(HERE, 'torch_ranks.py')

    def torchrun(self, count, *options):
        return [TORCHRUN, '--standalone', '--nproc-per-node', str(count), self.script, *options]

    def torch_environment(self, **more):
        return dict(harness.launcher_environment(), OMP_NUM_THREADS='1',
                    PYTHONWARNINGS='ignore', **more)

    def run_torch(self, command, env, status=0):
        return self.run_app(command, env, status, timeout=harness.PATIENCE * 20)

    def test_four_ranks_without_a_device(self):
        """DDP, two forked loader workers a rank that use NVTX: ranks only, everything else nothing."""
        env = self.torch_environment()
        env.pop('LD_LIBRARY_PATH')
        result = self.run_torch([*self.launched(), *self.torchrun(4)], env)
        self.assertIn('sum of ranks 6', result.stdout)
        found = self.check_ranks('RANK')
        self.check_exit_lines(result.stderr)
        for cycle in found:
            self.assertEqual(cycle.manifest['session']['exe'], 'torch_ranks')
            ranges = {row['name']: row['count'] for row in cycle.summary['ranges']}
            self.assertEqual((ranges['train_step'], ranges['forward']), (2, 2))
            self.assertNotIn('fetch', ranges)  # that was in the workers

    def test_bare_preload_on_the_simulated_device_and_a_failing_rank(self):
        # torch names its own libcupti by a path that no LD_LIBRARY_PATH overrides, and that one does
        # not know the simulated driver; preloaded, the simulator's takes its name.
        cupti = os.path.join(harness.BUILD, 'sim', 'cupti-13.0', 'libcupti.so.13')
        env = dict(self.torch_environment(), **self.environment(
            schedule=SCHEDULE, step=STEP, arm_wait='20s', LD_PRELOAD=harness.STUB + ':' + cupti))
        result = self.run_torch(self.torchrun(2, '--device', '--exit', '3'), env, 1)
        self.assertIn('exitcode  : 3', result.stderr)
        for cycle in self.check_ranks('RANK', 2):
            self.assertEqual(cycle.manifest['gpu']['status'], 'collected', cycle.manifest['gpu'])
            self.assertEqual([step['copies'] for step in cycle.manifest['steps']], [1, 1])

    def test_spawn_workers_of_torch(self):
        """torch.multiprocessing: the parent leaves nothing, its workers are ranks by device and pid."""
        env = self.torch_environment()
        env.pop('LD_LIBRARY_PATH')
        self.run_torch([*self.launched(), self.python, self.script, '--spawn', '2', '--exit', '5',
                        '--store', os.path.join(self.scratch, 'store')], env, 5)
        self.check_ranks('assigned', 2, are_told=False)


if __name__ == '__main__':
    harness.main()
