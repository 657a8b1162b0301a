#!/usr/bin/env python3
"""Packs an installed tree: archive, Debian package, Python wheel, and the debug symbols of each apart.

make_packages.py STAGE DEBUG_STAGE OUTPUT VERSION
  STAGE        what `cmake --install --component runtime` made, with prefix /usr
  DEBUG_STAGE  the same of component debug
Standard library only. The same tree gives the same bytes: names are sorted, owners are root, times are
SOURCE_DATE_EPOCH (default 1980-01-01, the oldest that a wheel can hold).
"""
import base64
import gzip
import hashlib
import io
import os
import sys
import tarfile
import time
import zipfile

OLDEST = 315532800
EPOCH = max(OLDEST, int(os.environ.get('SOURCE_DATE_EPOCH') or OLDEST))
MACHINE = os.uname().machine
DEBIAN_ARCHITECTURE = {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(MACHINE, MACHINE)
# What the programs' newest symbol allows (docs/decisions/0005-old-glibc.md).
GLIBC = '2.31'
SUMMARY = 'Step-scheduled GPU traces of unmodified CUDA applications'


def files_of(root):
    """(path relative to root, absolute path) of every file, sorted."""
    found = []
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in names:
            path = os.path.join(folder, name)
            found.append((os.path.relpath(path, root), path))
    return sorted(found)


def read(path):
    with open(path, 'rb') as source:
        return source.read()


def mode_of(path):
    return 0o755 if os.stat(path).st_mode & 0o100 else 0o644


def tar_bytes(entries):
    """entries: (name, content or None for a folder, mode)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode='w', format=tarfile.GNU_FORMAT) as archive:
        for name, content, mode in entries:
            info = tarfile.TarInfo(name)
            info.mtime, info.mode, info.uname, info.gname = EPOCH, mode, 'root', 'root'
            if content is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def gz_bytes(content):
    buffer = io.BytesIO()
    with gzip.GzipFile(filename='', fileobj=buffer, mode='wb', compresslevel=9, mtime=EPOCH) as out:
        out.write(content)
    return buffer.getvalue()


def tree_entries(prefix, files):
    """Folders before what is in them."""
    folders, entries = set(), []
    for name, path in files:
        name = prefix + name
        parts = name.split('/')
        for depth in range(1, len(parts)):
            folder = '/'.join(parts[:depth])
            if folder not in folders and folder != '.':
                folders.add(folder)
                entries.append((folder, None, 0o755))
        entries.append((name, read(path), mode_of(path)))
    return entries


def write(path, content):
    with open(path, 'wb') as out:
        out.write(content)
    print(path)


def write_archive(output, name, files):
    write(os.path.join(output, name + '.tar.gz'), gz_bytes(tar_bytes(tree_entries(name + '/', files))))


def ar_bytes(members):
    out = b'!<arch>\n'
    for name, content in members:
        out += b'%-16s%-12d%-6d%-6d%-8s%-10d`\n' % (name.encode(), EPOCH, 0, 0, b'100644',
                                                    len(content))
        out += content + (b'\n' if len(content) % 2 else b'')
    return out


def write_deb(output, package, version, files, description, depends):
    sums = ''.join('%s  usr/%s\n' % (hashlib.md5(read(path)).hexdigest(), name)
                   for name, path in files)
    size = sum(os.path.getsize(path) for _, path in files) // 1024 + 1
    control = ('Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: stepagent\n'
               'Installed-Size: %d\nDepends: %s\nSection: devel\nPriority: optional\n'
               'Description: %s\n') % (package, version, DEBIAN_ARCHITECTURE, size, depends,
                                       description)
    control_tar = tar_bytes([('./control', control.encode(), 0o644),
                             ('./md5sums', sums.encode(), 0o644)])
    data_tar = tar_bytes(tree_entries('./usr/', files))
    write(os.path.join(output, '%s_%s_%s.deb' % (package, version, DEBIAN_ARCHITECTURE)),
          ar_bytes([('debian-binary', b'2.0\n'), ('control.tar.gz', gz_bytes(control_tar)),
                    ('data.tar.gz', gz_bytes(data_tar))]))


def wheel_files(files, version):
    """(name in the wheel, content, mode) of the package and its metadata, without RECORD."""
    here = os.path.dirname(os.path.abspath(__file__))
    info = 'stepagent-%s.dist-info/' % version
    out = []
    for name, path in files:
        top, base = name.split('/')[0], os.path.basename(name)
        # Programs and libraries side by side, as they find each other.
        if top == 'bin' or (top.startswith('lib') and base.endswith('.so')):
            out.append(('stepagent/%s/%s' % ('bin' if top == 'bin' else 'lib', base), read(path),
                        0o755))
    for name, path in files_of(os.path.join(here, 'wheel')):
        out.append(('stepagent/' + name, read(path).replace(b'@VERSION@', version.encode()), 0o644))
    tag = 'py3-none-manylinux_%s_%s' % (GLIBC.replace('.', '_'), MACHINE)
    out.append((info + 'METADATA', (
        'Metadata-Version: 2.1\nName: stepagent\nVersion: %s\nSummary: %s\nRequires-Python: >=3.7\n'
        % (version, SUMMARY)).encode(), 0o644))
    out.append((info + 'WHEEL', ('Wheel-Version: 1.0\nGenerator: stepagent\n'
                                 'Root-Is-Purelib: false\nTag: %s\n' % tag).encode(), 0o644))
    out.append((info + 'entry_points.txt',
                b'[console_scripts]\nstepagent = stepagent.__main__:main\n', 0o644))
    return sorted(out), info, tag


def write_wheel(output, version, files):
    members, info, tag = wheel_files(files, version)
    record = ''
    for name, content, _ in members:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()
        record += '%s,sha256=%s,%d\n' % (name, digest, len(content))
    record += info + 'RECORD,,\n'
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, content, mode in members + [(info + 'RECORD', record.encode(), 0o644)]:
            entry = zipfile.ZipInfo(name, time.gmtime(EPOCH)[:6])
            entry.external_attr = (0o100000 | mode) << 16
            entry.create_system = 3
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
    write(os.path.join(output, 'stepagent-%s-%s.whl' % (version, tag)), buffer.getvalue())


def main():
    stage, debug_stage, output, version = sys.argv[1:5]
    files, debug = files_of(stage), files_of(debug_stage)
    if not files or not debug:
        sys.exit('make_packages.py: %s or %s: nothing in it' % (stage, debug_stage))
    os.makedirs(output, exist_ok=True)
    name = 'stepagent-%s-linux-%s' % (version, MACHINE)
    write_archive(output, name, files)
    write_archive(output, name + '-debug', debug)
    write_deb(output, 'stepagent', version, files, SUMMARY, 'libc6 (>= %s)' % GLIBC)
    write_deb(output, 'stepagent-dbgsym', version, debug, 'debug symbols for stepagent',
              'stepagent (= %s)' % version)
    write_wheel(output, version, files)


if __name__ == '__main__':
    main()
