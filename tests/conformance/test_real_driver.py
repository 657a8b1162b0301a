"""The agent under the vendor's own libcuda and libcupti where no device is: the reason comes out
right, the program is untouched, and no device node is left behind. See README.md.

Run as an unprivileged user: as root the vendor's libraries create device nodes.
"""
import glob
import os
import subprocess
import sys
import unittest

import harness
import real_cupti
from harness import AgentTest, app

CACHE = os.path.join(harness.BUILD, 'conformance')
ALL = os.environ.get('STEPAGENT_TEST_ALL_CUPTI', '') not in ('', '0')
NOBODY = 65534
# The first step is a warmup, long before CUDA comes; or active when it comes, so that CUPTI is asked
# inside cuInit.
SCHEDULES = ('warmup=1,active=2,repeat=1', 'active=3,repeat=1')
TRAINING = [app('train_loop'), '--steps', '6']
# For drivers that lack functions of that program: CUDA is initialised, and time passes.
WAITING = ['/usr/bin/python3', '-c', 'import ctypes, time; '
           'print(ctypes.CDLL("libcuda.so.1").cuInit(0)); time.sleep(0.5)']
STUBS = glob.glob('/usr/local/cuda*/lib64/stubs/libcuda.so') + glob.glob(
    '/usr/local/cuda*/targets/*/lib/stubs/libcuda.so')


def device_nodes():
    return sorted(glob.glob('/dev/nvidia*'))


class RealDriver(AgentTest):
    @classmethod
    def setUpClass(cls):
        names = real_cupti.DRIVERS if ALL else ('535',)
        cls.drivers = {name: real_cupti.driver_folder(name, CACHE) for name in names}
        cls.cupti = real_cupti.fetch('13.0', CACHE) or real_cupti.fetch('12.4', CACHE)

    def setUp(self):
        super().setUp()
        if glob.glob('/dev/nvidia[0-9]*'):
            self.skipTest('this machine has a device')
        self.nodes = device_nodes()
        self.user = {}
        if os.geteuid() == 0:
            self.user = {'user': NOBODY, 'group': NOBODY, 'extra_groups': []}
        reads = subprocess.run(['/usr/bin/test', '-r', harness.STUB], check=False, **self.user)
        if reads.returncode != 0:
            self.skipTest('an unprivileged user cannot read the build folder')
        os.chmod(self.scratch, 0o777)

    def reason(self, name, folders, schedule, command=None, step='nvtx:train_step', **settings):
        """The manifest's words on the GPU, of a run as nobody with these folders to find CUDA in."""
        self.out = os.path.join(self.scratch, name)
        env = self.environment(sim=False, schedule=schedule, step=step,
                               LD_LIBRARY_PATH=':'.join(folders), arm_wait='10s', **settings)
        command = command or TRAINING
        plain = self.run_app(command, dict(harness.clean_environment(),
                                           LD_LIBRARY_PATH=env['LD_LIBRARY_PATH']), **self.user)
        result = self.run_app(command, env, **self.user)
        self.assertEqual(result.stdout, plain.stdout)
        cycle, = self.traced(1)
        gpu = cycle.manifest['gpu']
        self.assertEqual(gpu['status'], 'unavailable', gpu)
        self.assertTrue(gpu['reason'])
        self.assertEqual(device_nodes(), self.nodes)
        return gpu['reason_code']

    def test_no_device(self):
        for name, folder in self.drivers.items():
            if folder is None:
                self.skipTest('libcuda %s cannot be had here (no Debian mirror)' % name)
            for i, schedule in enumerate(SCHEDULES):
                with self.subTest(driver=name, schedule=schedule):
                    settings = {'STEPAGENT_CUPTI': self.cupti} if self.cupti else {}
                    if name != '470':
                        code = self.reason('%s-%d' % (name, i), [folder], schedule, **settings)
                        self.assertEqual(code, 'no_device')
                    code = self.reason('%s-%d-waiting' % (name, i), [folder], schedule, WAITING,
                                       'every:30ms', **settings)
                    self.assertEqual(code, 'no_device')

    @unittest.skipUnless(STUBS, 'no CUDA toolkit with a stub library here')
    def test_stub(self):
        stub = os.path.join(self.scratch, 'stub')
        os.mkdir(stub)
        os.symlink(STUBS[0], os.path.join(stub, 'libcuda.so.1'))
        for i, schedule in enumerate(SCHEDULES):
            with self.subTest(schedule):
                self.assertEqual(self.reason('stub-%d' % i, [stub], schedule), 'stub_driver')

    def test_no_driver(self):
        has_driver = subprocess.run([sys.executable, '-c', 'import ctypes; ctypes.CDLL("libcuda.so.1")'],
                                    env=harness.clean_environment(), capture_output=True, check=False)
        if has_driver.returncode == 0:
            self.skipTest('this machine has a driver library')
        for i, schedule in enumerate(SCHEDULES):
            with self.subTest(schedule):
                self.assertEqual(self.reason('none-%d' % i, [], schedule), 'no_driver')


if __name__ == '__main__':
    harness.main()
