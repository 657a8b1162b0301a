"""Vendor libraries out of Debian's non-free packages, unpacked into a cache folder, never installed.

The machine's own apt is asked, with a source list, lists and caches of its own, for the suites named
here on the mirror that the machine uses already. Where there is no apt, no Debian mirror or no
network, the answer is None.
"""
import glob
import os
import subprocess

KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
PATIENCE_S = 120


def mirror():
    """The address that this machine takes Debian from, or None."""
    try:
        shown = subprocess.run(
            ['apt-get', 'indextargets', '--format', '$(REPO_URI)', 'Created-By: Packages'],
            capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = [line.strip() for line in shown.splitlines()]
    return next((uri for uri in found if uri.rstrip('/').endswith('/debian')), None)


def environment(suite, cache):
    """apt's own settings for one suite: nothing of the machine's lists or packages is touched."""
    home = os.path.join(cache, 'apt-' + suite)
    for folder in ('lists/partial', 'cache/archives/partial', 'state'):
        os.makedirs(os.path.join(home, folder), exist_ok=True)
    uri = mirror()
    if uri is None or not os.path.exists(KEYRING):
        return None
    with open(os.path.join(home, 'sources.list'), 'w', encoding='utf-8') as out:
        out.write('deb [signed-by=%s] %s %s non-free\n' % (KEYRING, uri, suite))
    with open(os.path.join(home, 'state', 'status'), 'w', encoding='utf-8'):
        pass
    with open(os.path.join(home, 'apt.conf'), 'w', encoding='utf-8') as out:
        out.write('\n'.join([
            'Dir::Etc::SourceList "%s/sources.list";' % home, 'Dir::Etc::SourceParts "-";',
            'Dir::State::Lists "%s/lists";' % home, 'Dir::State::Status "%s/state/status";' % home,
            'Dir::Cache "%s/cache";' % home, 'APT::Architecture "amd64";',
            'APT::Sandbox::User "";', 'Acquire::Languages "none";', 'Acquire::Retries "1";', '']))
    return dict(os.environ, APT_CONFIG=os.path.join(home, 'apt.conf'))


def fetch(suite, package, cache):
    """The folder that the suite's version of the package is unpacked in, or None."""
    folder = os.path.join(cache, 'debian', suite + '-' + package)
    if glob.glob(folder + '/usr'):
        return folder
    env = environment(suite, cache)
    if env is None:
        return None
    os.makedirs(folder, exist_ok=True)
    try:
        for command in (['apt-get', '-qq', 'update'], ['apt-get', '-qq', 'download', package]):
            subprocess.run(command, env=env, cwd=folder, capture_output=True, timeout=PATIENCE_S,
                           check=True)
        archive, = glob.glob(os.path.join(folder, package + '_*.deb'))
        subprocess.run(['dpkg-deb', '-x', archive, folder], capture_output=True,
                       timeout=PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    os.unlink(archive)
    return folder


def library(suite, package, name, cache):
    """The path of the library `name` (a pattern) in that package, or None."""
    folder = fetch(suite, package, cache)
    if folder is None:
        return None
    found = sorted(glob.glob(os.path.join(folder, 'usr', 'lib', '**', name), recursive=True), key=len)
    return found[0] if found else None
