"""Packages: what is in them, what they need, the same bytes twice, and that each runs from where it is put."""
import glob
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import unittest

import harness
from harness import AgentTest, app

PACKED = os.path.join(harness.BUILD, 'packaging', 'stepagent_core', 'libstepagent_core.so')
BINARIES = ('bin/stepagent', 'bin/stepcollector', 'lib/libstepagent.so', 'lib/libstepagent_core.so')
# libpthread and libdl are libc's own up to glibc 2.33; the kernel's and the loader's are no files of ours.
LIBC = re.compile(r'^(libc\.so\.6|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1|'
                  r'ld-linux-x86-64\.so\.2|ld-linux-aarch64\.so\.1)$')


def digests(folder):
    found = {}
    for path in glob.glob(os.path.join(folder, '*')):
        with open(path, 'rb') as source:
            found[os.path.basename(path)] = hashlib.sha256(source.read()).hexdigest()
    return found


def run(*words, **options):
    return subprocess.run(words, check=True, capture_output=True, text=True, **options).stdout


@harness.skip_unless(PACKED, 'the packages\' files (target stepagent_package_files)')
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.case = AgentTest()
        AgentTest.setUp(cls.case)
        cls.scratch = cls.case.scratch
        cls.packages = cls.pack('first')

    @classmethod
    def tearDownClass(cls):
        cls.case.doCleanups()

    @classmethod
    def pack(cls, name):
        """As CPack does: both components staged, then packed; the time stamps of the files differ."""
        stage, output = os.path.join(cls.scratch, name), os.path.join(cls.scratch, name + '-packages')
        for component in ('runtime', 'debug'):
            run('cmake', '--install', harness.BUILD, '--component', component, '--prefix',
                os.path.join(stage, component))
        for folder, _, names in os.walk(stage):
            for file in names:
                os.utime(os.path.join(folder, file), (1, len(name)))
        run(sys.executable, os.path.join(harness.SOURCE, 'packaging', 'make_packages.py'),
            os.path.join(stage, 'runtime'), os.path.join(stage, 'debug'), output, '0.1.0',
            env=dict(os.environ, SOURCE_DATE_EPOCH='1700000000'))
        return output

    def package(self, pattern):
        path, = glob.glob(os.path.join(self.packages, pattern))
        return path

    def untar(self, into):
        archive, = [p for p in glob.glob(os.path.join(self.packages, '*.tar.gz')) if 'debug' not in p]
        folder = os.path.join(self.scratch, into)
        with tarfile.open(archive) as source:
            source.extractall(folder)
            self.assertEqual({(m.uid, m.uname) for m in source.getmembers()}, {(0, 'root')})
        top, = os.listdir(folder)
        return os.path.join(folder, top)

    def records(self, command, env=None):
        """A run with `command` in front gives a trace with kernels."""
        out = os.path.join(self.scratch, 'out-%d' % len(os.listdir(self.scratch)))
        result = subprocess.run(
            [*command, 'run', '-o', out, '--step', 'nvtx:train_step', '--schedule',
             'warmup=1,active=2,repeat=1', '--', app('train_loop'), '--steps', '6'],
            env=env or harness.launcher_environment(), capture_output=True, text=True, check=False,
            timeout=harness.PATIENCE * 4)
        self.assertEqual(result.returncode, 0, result.stderr)
        cycle, = harness.cycles(out)
        self.assertEqual(cycle.manifest['gpu']['status'], 'collected')
        self.assertGreater(cycle.manifest['balance']['kernel']['written'], 0)

    def test_twice_the_same_bytes(self):
        first = digests(self.packages)
        self.assertEqual(len(first), 5, first)
        self.assertEqual(first, digests(self.pack('second')))

    def test_archive_runs_from_a_moved_prefix(self):
        prefix = self.untar('archive')
        moved = os.path.join(self.scratch, 'moved to here')
        os.rename(prefix, moved)
        self.records([os.path.join(moved, 'bin', 'stepagent')])
        doctor = subprocess.run([os.path.join(moved, 'bin', 'stepagent'), 'doctor', '--out',
                                 self.scratch + '/none'], env=harness.launcher_environment(),
                                capture_output=True, text=True, check=False)
        self.assertEqual(doctor.returncode, 0, doctor.stdout)

    def test_needs_libc_only(self):
        prefix = self.untar('ldd')
        for name in BINARIES:
            for line in run('ldd', os.path.join(prefix, name)).splitlines():
                library = os.path.basename(line.split()[0])
                if library.startswith('linux-vdso') or 'statically linked' in line:
                    continue
                self.assertRegex(library, LIBC, name)
            symbols = run('objdump', '-T', os.path.join(prefix, name))
            newest = max((tuple(map(int, v.split('.'))) for v in
                          re.findall(r'GLIBC_([0-9.]+)', symbols)))
            self.assertLessEqual(newest, (2, 31), name)

    def test_debug_symbols_apart(self):
        prefix = self.untar('symbols')
        debug, = glob.glob(os.path.join(self.packages, '*-debug.tar.gz'))
        with tarfile.open(debug) as source:
            names = [n for n in source.getnames() if n.endswith('.debug')]
        self.assertEqual(len(names), len(BINARIES))
        for name in BINARIES:
            path = os.path.join(prefix, name)
            self.assertNotIn('.debug_info', run('readelf', '-SW', path))
            build_id = re.search(r'Build ID: ([0-9a-f]+)', run('readelf', '-n', path)).group(1)
            self.assertTrue(any(n.endswith('/lib/debug/.build-id/%s/%s.debug' %
                                           (build_id[:2], build_id[2:])) for n in names), name)

    def test_deb(self):
        deb = self.package('stepagent_0.1.0_*.deb')
        fields = run('dpkg-deb', '--field', deb)
        self.assertIn('Package: stepagent\nVersion: 0.1.0\n', fields)
        self.assertIn('Depends: libc6 (>= 2.31)', fields)
        root = os.path.join(self.scratch, 'deb')
        run('dpkg-deb', '--extract', deb, root)
        self.records([os.path.join(root, 'usr', 'bin', 'stepagent')])
        self.assertTrue(os.path.exists(os.path.join(root, 'usr', 'share', 'doc', 'stepagent', 'README.md')))
        # Installed and removed, in a system of its own.
        if os.geteuid() == 0:
            admin = os.path.join(self.scratch, 'admin')
            os.makedirs(os.path.join(admin, 'var/lib/dpkg/info'))
            os.makedirs(os.path.join(admin, 'var/lib/dpkg/updates'))
            for name in ('status', 'available'):
                with open(os.path.join(admin, 'var/lib/dpkg', name), 'w', encoding='utf-8'):
                    pass
            dpkg = ['dpkg', '--root', admin, '--force-depends', '--log=/dev/null']
            run(*dpkg, '--install', deb)
            run(*dpkg, '--verify', 'stepagent')
            self.records([os.path.join(admin, 'usr', 'bin', 'stepagent')])
            run(*dpkg, '--purge', 'stepagent')
            self.assertEqual(glob.glob(os.path.join(admin, 'usr', '**', '*stepagent*'), recursive=True), [])

    def test_wheel_in_a_fresh_environment(self):
        venv = os.path.join(self.scratch, 'venv')
        made = subprocess.run(['/usr/bin/python3', '-m', 'venv', venv], capture_output=True,
                              text=True, check=False)
        if made.returncode != 0:
            self.skipTest('no venv here: ' + made.stdout.strip().splitlines()[0])
        python = os.path.join(venv, 'bin', 'python')
        run(python, '-m', 'pip', 'install', '--no-index', '--no-deps', self.package('*.whl'))
        command = os.path.join(venv, 'bin', 'stepagent')
        self.assertRegex(run(command, '--version'), r'^stepagent 0\.1\.0\+[0-9a-f]{8}\n$')
        self.records([command])
        self.records([python, '-m', 'stepagent'])
        library = run(python, '-c', 'import stepagent; print(stepagent.library())').strip()
        self.assertTrue(library.startswith(venv) and os.path.exists(library), library)
        run(python, '-m', 'pip', 'check')
        run(python, '-m', 'pip', 'uninstall', '-y', 'stepagent')
        self.assertFalse(os.path.exists(command))


if __name__ == '__main__':
    harness.main()
