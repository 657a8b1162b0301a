#!/usr/bin/env python3
"""A container made by hand: namespaces, a root of its own, an unprivileged user, the command as PID 1.

In a test: Pod(folder, shared=…).command([...]) gives words for subprocess. Run as a program it is the inside
of the container: pod.py JSON. Needs root (or a user namespace that may mount); available() says whether
this machine allows it.
"""
import json
import os
import subprocess
import sys

NOBODY = 65534
# What of the system a program needs, read-only.
SYSTEM = ('usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32')
DEVICES = ('null', 'zero', 'urandom', 'random', 'full')


def available():
    """None, or why containers cannot be made here."""
    if os.geteuid() != 0:
        return 'needs root'
    probe = subprocess.run(['unshare', '--mount', '--pid', '--net', '--ipc', '--fork', 'mount', '-t',
                            'tmpfs', 'none', '/mnt'], capture_output=True, text=True, check=False)
    return None if probe.returncode == 0 else 'no namespaces here: ' + probe.stderr.strip()


class Pod:
    """Shared folders (an emptyDir each) and a network namespace that containers can have in common."""

    def __init__(self, folder, binds, uid=NOBODY, shm_bytes=64 << 20):
        self.spec = {'root': os.path.join(folder, 'root'), 'uid': uid, 'shm': shm_bytes,
                     'system': ['/' + name for name in SYSTEM if os.path.isdir('/' + name)],
                     'links': {name: os.readlink('/' + name) for name in SYSTEM
                               if os.path.islink('/' + name)},
                     'read_only': [], 'writable': dict(binds)}
        os.makedirs(self.spec['root'], exist_ok=True)

    def add_read_only(self, *paths):
        self.spec['read_only'] += paths
        return self

    def command(self, words, env, net_of=None, user=False, uid=None):
        """Words that start a container; it becomes `words` as PID 1. net_of: a process whose network it shares."""
        spec = dict(self.spec, words=list(words), env=env)
        if uid is not None:
            spec['uid'] = uid
        unshare = ['unshare', '--mount', '--pid', '--ipc', '--fork', '--kill-child',
                   *([] if net_of else ['--net']), *(['--user', '--map-root-user'] if user else [])]
        enter = ['nsenter', '--net=/proc/%d/ns/net' % net_of] if net_of else []
        return [*enter, *unshare, sys.executable, os.path.abspath(__file__), json.dumps(spec)]


def mount(*words):
    subprocess.run(['mount', *words], check=True)


def bind(source, target, read_only=False):
    os.makedirs(target, exist_ok=True)
    mount('--bind', source, target)
    if read_only:
        mount('-o', 'remount,bind,ro', target)


def build_root(spec):
    root = spec['root']
    mount('--make-rprivate', '/')
    mount('-t', 'tmpfs', '-o', 'mode=755', 'pod', root)
    for path in spec['system']:
        name = os.path.basename(path)
        if name in spec['links']:
            os.symlink(spec['links'][name], os.path.join(root, name))
        else:
            bind(path, root + path, read_only=True)
    for path in spec['read_only']:
        bind(path, root + path, read_only=True)
    for target, source in spec['writable'].items():
        bind(source, root + target)
    for name in DEVICES:
        os.makedirs(root + '/dev', exist_ok=True)
        with open(root + '/dev/' + name, 'w', encoding='utf-8'):
            pass
        mount('--bind', '/dev/' + name, root + '/dev/' + name)
    if spec['shm']:
        os.makedirs(root + '/dev/shm')
        mount('-t', 'tmpfs', '-o', 'mode=1777,size=%d' % spec['shm'], 'shm', root + '/dev/shm')
    os.makedirs(root + '/proc')
    mount('-t', 'proc', 'proc', root + '/proc')
    mount('-o', 'remount,bind,ro', root)  # no /tmp, no home, no /etc/passwd, nothing to write to


def main():
    spec = json.loads(sys.argv[1])
    build_root(spec)
    os.chroot(spec['root'])
    os.chdir('/')
    if spec['uid']:
        os.setgroups([])
        os.setgid(spec['uid'])
        os.setuid(spec['uid'])
    os.execve(spec['words'][0], spec['words'], spec['env'])


if __name__ == '__main__':
    main()
