"""Slurm on one node of a test's own: munged, slurmctld and slurmd on loopback, in a scratch folder.

Nothing of the system's configuration is read or written. The programs are those of the system, or those
that test.sh unpacks into build/slurm.
"""
import glob
import os
import shutil
import socket
import subprocess

import harness

UNPACKED = os.path.join(harness.BUILD, 'slurm')
CONFIGURATION = '''ClusterName=stepagent
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 NodeHostname={host} CPUs=8 State=UNKNOWN
PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP
'''


def program(name):
    """Its path, or None. Debian's names of the daemons end in -wlm until they are configured."""
    folders = [os.path.join(UNPACKED, 'usr', 'bin'), os.path.join(UNPACKED, 'usr', 'sbin'),
               os.environ.get('PATH', ''), '/usr/sbin']
    for each in (name, name + '-wlm'):
        path = shutil.which(each, path=os.pathsep.join(folders))
        if path:
            return path
    return None


def missing():
    """Why there can be no node here; '' when there can."""
    if os.geteuid() != 0:
        return 'slurmd needs root'
    for name in ('munged', 'slurmctld', 'slurmd', 'slurmstepd', 'srun', 'sinfo'):
        if program(name) is None:
            return name + ' is not installed (packages slurm-wlm and munge)'
    return ''


def libraries():
    """Folders for the loader when the programs are the unpacked ones."""
    return sorted({os.path.dirname(p) for p in glob.glob(
        os.path.join(UNPACKED, 'usr', 'lib', '*', '**', 'lib*.so*'), recursive=True)})


def free_ports(count):
    sockets = [socket.create_server(('127.0.0.1', 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class CannotStart(Exception):
    """The daemons do not run on this machine; the text is the end of what they said."""


class SlurmNode:
    """The three daemons; stop() ends them. `environment` is what srun needs on top."""

    def __init__(self, scratch):
        self.folder = os.path.join(scratch, 'slurm')
        self._daemons = []
        self.environment = {'SLURM_CONF': os.path.join(self.folder, 'slurm.conf')}
        for name in ('', 'state', 'spool'):
            os.mkdir(os.path.join(self.folder, name))
        os.chmod(scratch, 0o711)  # clients of munged must come as far as its socket
        os.chmod(self.folder, 0o711)
        self._configure()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def loader_path(self, *more):
        return os.pathsep.join([*more, *libraries()])

    def _configure(self):
        host = socket.gethostname().split('.')[0]
        text = CONFIGURATION.format(host=host, folder=self.folder, ports=free_ports(2))
        plugins = glob.glob(os.path.join(UNPACKED, 'usr', 'lib', '*', 'slurm*', 'auth_munge.so'))
        if plugins:
            text += 'PluginDir=%s\n' % os.path.dirname(plugins[0])
        version = subprocess.run([program('slurmd'), '-V'], capture_output=True, text=True, check=True,
                                 env=self._environment()).stdout.split()[-1]
        # No plugin above uses control groups; older versions still want one to be named.
        newer = tuple(int(part) for part in version.split('.')[:2]) >= (23, 11)
        for name, content in (('slurm.conf', text), ('cgroup.conf', 'CgroupPlugin=%s\n' % (
                'disabled' if newer else 'cgroup/v1'))):
            with open(os.path.join(self.folder, name), 'w', encoding='ascii') as out:
                out.write(content)
        with open(os.open(os.path.join(self.folder, 'munge.key'), os.O_CREAT | os.O_WRONLY, 0o400),
                  'wb') as out:
            out.write(os.urandom(128))

    def _environment(self):
        return dict(harness.clean_environment(), LD_LIBRARY_PATH=self.loader_path(),
                    **self.environment)

    def _daemon(self, name, *arguments):
        log = os.path.join(self.folder, name + '.log')
        with open(log, 'wb') as out:
            self._daemons.append(subprocess.Popen(  # pylint: disable=consider-using-with
                [program(name), *arguments], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                env=self._environment(), cwd=self.folder))

    def _log(self):
        text = ''
        for path in sorted(glob.glob(os.path.join(self.folder, '*.log'))):
            with open(path, encoding='utf-8', errors='replace') as source:
                text += '\n' + os.path.basename(path) + ':\n' + source.read()[-1000:]
        return text

    def _start(self):
        at = lambda name: os.path.join(self.folder, name)
        self._daemon('munged', '--foreground', '--num-threads=10', '--key-file=' + at('munge.key'),
                     '--socket=' + at('munge.socket'), '--pid-file=' + at('munged.pid'),
                     '--seed-file=' + at('munged.seed'))
        self._await(lambda: os.path.exists(at('munge.socket')))
        self._daemon('slurmctld', '-D', '-f', at('slurm.conf'))
        self._daemon('slurmd', '-D', '-f', at('slurm.conf'), '-d', program('slurmstepd'))
        self._await(lambda: self._state() == 'idle')

    def _await(self, condition):
        ended = lambda: any(daemon.poll() is not None for daemon in self._daemons)
        try:
            harness.eventually(lambda: condition() or ended(), 'an idle node')
        except AssertionError as error:
            raise CannotStart(str(error) + self._log()) from None
        if ended():
            raise CannotStart(self._log())

    def _state(self):
        return subprocess.run([program('sinfo'), '-h', '-o', '%T'], env=self._environment(),
                              capture_output=True, text=True, check=False).stdout.strip()

    def stop(self):
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=harness.PATIENCE)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
