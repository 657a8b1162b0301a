"""Real CUPTI libraries without a GPU: fetched as packages, measured by their own iterator.

As a program: `real_cupti.py --write` measures every release of RELEASES and writes the document
docs/cupti-records.md. Nothing of the vendor's is kept outside the cache folder.

Each library is asked in a process of its own: two of one soname do not mix, and 13.2 recurses until
the stack ends where no driver library is mapped.
"""
import argparse
import ctypes
import glob
import json
import os
import re
import subprocess
import sys
import zipfile

import debian_packages

SOURCE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
DOCUMENT = os.path.join(SOURCE, 'docs', 'cupti-records.md')
# The newest package of each release, (index, package, version) or, Debian's, (suite, package, name);
# one of them per soname is QUICK.
RELEASES = {
    '11.2': ('bullseye', 'libcupti11.2', 'libcupti.so.11.2'),
    '11.7': ('PyPI', 'nvidia-cuda-cupti-cu11', '11.7.101'),
    '11.8': ('PyPI', 'nvidia-cuda-cupti-cu11', '11.8.87'),
    '12.0': ('PyPI', 'nvidia-cuda-cupti-cu12', '12.0.146'),
    '12.1': ('PyPI', 'nvidia-cuda-cupti-cu12', '12.1.105'),
    '12.2': ('PyPI', 'nvidia-cuda-cupti-cu12', '12.2.142'),
    '12.3': ('PyPI', 'nvidia-cuda-cupti-cu12', '12.3.101'),
    '12.4': ('PyPI', 'nvidia-cuda-cupti-cu12', '12.4.127'),
    '12.5': ('PyPI', 'nvidia-cuda-cupti-cu12', '12.5.82'),
    '12.6': ('PyPI', 'nvidia-cuda-cupti-cu12', '12.6.80'),
    '12.8': ('PyPI', 'nvidia-cuda-cupti-cu12', '12.8.90'),
    '12.9': ('PyPI', 'nvidia-cuda-cupti-cu12', '12.9.79'),
    '13.0': ('PyPI', 'nvidia-cuda-cupti', '13.0.85'),
    '13.1': ('PyPI', 'nvidia-cuda-cupti', '13.1.115'),
    '13.2': ('PyPI', 'nvidia-cuda-cupti', '13.2.86'),
    '13.3': ('PyPI', 'nvidia-cuda-cupti', '13.3.75'),
    '13.4': ('PyPI', 'nvidia-cuda-cupti', '13.4.92'),
    '13.5': ('PyPI', 'nvidia-cuda-cupti', '13.5.25'),
}
# Drivers' libraries, which need no device to be loaded.
DRIVERS = {'470': ('bullseye', 'libcuda1'), '535': ('bookworm', 'libcuda1')}
QUICK = ('11.2', '11.8', '12.4', '13.0')
KINDS = {
    1: 'memcpy', 2: 'memset', 3: 'kernel, serialised', 4: 'driver call', 5: 'runtime call',
    8: 'device', 9: 'context', 10: 'concurrent kernel', 11: 'name', 12: 'marker', 13: 'marker data',
    17: 'overhead', 20: 'environment', 22: 'memcpy between devices', 25: 'unified memory counter',
    36: 'CUDA event', 37: 'stream', 38: 'synchronisation', 39: 'external correlation',
    45: 'memory', 48: 'internal launch', 49: 'memory, second form', 50: 'memory pool',
    51: 'graph launch', 52: 'just-in-time compilation', 53: 'device graph launch',
}
OURS = (1, 2, 8, 9, 10, 17, 22, 37, 38, 49, 51)
PROBE_BYTES = 4096
LAST_KIND = 80
SUCCESS = 0
# What a release calls an id whose function it no longer has.
WITHDRAWN = re.compile(r'cuda\d+(_v\d+)?|reserved\d+|INVALID')
SYSTEM_PYTHON = '/usr/bin/python3'


def first_without_driver(release):
    """From 13.2 on nothing is answered without a driver library in the process."""
    return tuple(map(int, release.split('.'))) >= (13, 2)


def length(library, kind):
    """The distance between two records of this kind, 0 where the library knows none."""
    words = PROBE_BYTES // 4
    buffer = (ctypes.c_uint32 * words)(*([kind] * words))
    record = ctypes.c_void_p()
    ends = []
    for _ in range(2):
        if library.cuptiActivityGetNextRecord(buffer, ctypes.c_size_t(PROBE_BYTES),
                                              ctypes.byref(record)) != SUCCESS:
            return 0
        ends.append(record.value - ctypes.addressof(buffer))
    return ends[1] if ends[0] == 0 else 0


def names(library):
    """Callback names by domain and id, and texts of results."""
    found = {}
    text = ctypes.c_char_p()
    for domain, last in ((1, 1200), (2, 900)):
        for number in range(1, last):
            if library.cuptiGetCallbackName(domain, number, ctypes.byref(text)) == SUCCESS:
                if text.value:
                    found['%d:%d' % (domain, number)] = text.value.decode()
    results = {}
    for number in range(60):
        if library.cuptiGetResultString(number, ctypes.byref(text)) == SUCCESS and text.value:
            results[str(number)] = text.value.decode()
    return found, results


def ask(path):
    """Everything asked of one library; runs in a child of its own."""
    if os.environ.get('STEPAGENT_TEST_LIBCUDA'):
        ctypes.CDLL('libcuda.so.1', mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(path)
    version = ctypes.c_uint32()
    if library.cuptiGetVersion(ctypes.byref(version)) != SUCCESS:
        return None
    callbacks, results = names(library)
    subscribe = None
    if os.geteuid() != 0:  # as root the real libraries create device nodes
        subscriber = ctypes.c_void_p()
        callback = ctypes.CFUNCTYPE(None)(lambda: None)
        subscribe = library.cuptiSubscribe(ctypes.byref(subscriber), callback, None)
    return {'api': version.value, 'callbacks': callbacks, 'results': results,
            'lengths': {str(k): length(library, k) for k in range(1, LAST_KIND)},
            'subscribe': subscribe}


def measure(path, driver=None):
    """What ask() says in a child, or None where the library cannot answer. `driver`: a folder."""
    env = dict(os.environ, STEPAGENT_TEST_LIBCUDA=driver or '', LD_LIBRARY_PATH=driver or '')

    def run(python, **options):
        return subprocess.run([python, os.path.abspath(__file__), '--ask', path], env=env,
                              capture_output=True, text=True, timeout=60, check=False, **options)
    if os.geteuid() == 0 and os.path.exists(SYSTEM_PYTHON):
        child = run(SYSTEM_PYTHON, user=65534, group=65534, extra_groups=[])
        if child.returncode != 0:  # perhaps these folders are root's alone
            child = run(sys.executable)
    else:
        child = run(sys.executable)
    return json.loads(child.stdout) if child.returncode == 0 else None


def driver_folder(name, cache):
    """The folder of a driver's libcuda.so.1; STEPAGENT_TEST_LIBCUDA names one by hand."""
    by_hand = os.environ.get('STEPAGENT_TEST_LIBCUDA')
    if by_hand:
        return by_hand
    suite, package = DRIVERS[name]
    path = debian_packages.library(suite, package, 'libcuda.so.1', cache)
    return os.path.dirname(path) if path else None


def library_of(folder):
    found = glob.glob(os.path.join(folder, 'nvidia', '*', 'lib', 'libcupti.so.*'))
    return found[0] if found else None


def fetch(release, cache):
    """The library of a release: from the cache, by pip or by apt. None where it cannot be had."""
    index, package, version = RELEASES[release]
    if index != 'PyPI':
        return debian_packages.library(index, package, version, cache)
    folder = os.path.join(cache, release)
    if library_of(folder):
        return library_of(folder)
    wheels = os.path.join(cache, 'wheels')
    os.makedirs(wheels, exist_ok=True)
    pip = subprocess.run(
        [sys.executable, '-m', 'pip', 'download', '-q', '--no-deps', '--no-cache-dir',
         '--disable-pip-version-check', '--only-binary=:all:', '--retries', '1', '--timeout', '15',
         '-d', wheels, package + '==' + version],
        capture_output=True, text=True, check=False)
    if pip.returncode != 0:
        return None
    pattern = '%s-%s-*.whl' % (package.replace('-', '_'), version)
    for wheel in glob.glob(os.path.join(wheels, pattern)):
        with zipfile.ZipFile(wheel) as archive:
            members = [m for m in archive.namelist() if '/libcupti.so.' in m]
            archive.extractall(folder, members)
        os.unlink(wheel)
    return library_of(folder)


def table(measured):
    """The document's table of lengths: kinds down, releases across."""
    releases = list(measured)
    lines = ['| kind | record | ' + ' | '.join(releases) + ' |',
             '|---|---|' + '---|' * len(releases)]
    for kind in range(1, LAST_KIND):
        row = [measured[r]['lengths'][str(kind)] for r in releases]
        if any(row):
            name = KINDS.get(kind, '') + (' *' if kind in OURS else '')
            lines.append('| %d | %s | ' % (kind, name) + ' | '.join(str(x or '-') for x in row) + ' |')
    return lines


def read_table(path=DOCUMENT):
    """{release: {kind: length}} as the document has it."""
    with open(path, encoding='utf-8') as source:
        rows = [[cell.strip() for cell in line.strip().strip('|').split('|')]
                for line in source if line.startswith('| ')]
    head = rows[0]
    return {release: {row[0]: 0 if row[i] == '-' else int(row[i])
                      for row in rows[1:] if row[0].isdigit()}
            for i, release in enumerate(head) if i >= 2}


def renamed(measured, what):
    """[(id, {name: [releases]})] of ids that do not have one name in all releases."""
    by_id = {}
    for release, one in measured.items():
        for number, name in one[what].items():
            if not WITHDRAWN.fullmatch(name):
                by_id.setdefault(number, {}).setdefault(name, []).append(release)
    return [(number, by) for number, by in by_id.items() if len(by) > 1]


def document(measured):
    def origin(release):
        index, package, version = RELEASES[release]
        return version if index == 'PyPI' else '%s of Debian %s' % (package, index)

    versions = '; '.join('%s: %s, API %d' % (r, origin(r), measured[r]['api']) for r in measured)
    codes = sorted({one['subscribe'] for one in measured.values()} - {None})
    lines = ['# Record lengths of real CUPTI libraries', '',
             'Generated by `python3 tests/conformance/real_cupti.py --write`; held by',
             '`ctest -R conformance.real_cupti`. Bytes between two records of one kind, as the',
             'library\'s own iterator walks them, with no device. `-`: the library knows no such kind',
             'or gives it no length of its own. `*`: kinds that the agent asks for. Kinds without a',
             'name here are not used. The agent measures the loaded library in the same way when it',
             'starts, so nothing depends on this table.', '', *table(measured), '',
             'Measured: ' + versions + '.', '', '## Names', '']
    callbacks = renamed(measured, 'callbacks')
    lines += ['A callback id keeps its meaning. These have another spelling in some releases:' if
              callbacks else 'Every callback id has one name in all of them.', '']
    for number, by in sorted(callbacks, key=lambda item: tuple(map(int, item[0].split(':')))):
        domain = 'driver' if number.startswith('1:') else 'runtime'
        spelt = ', '.join('`%s` (%s)' % (name, releases[0] if len(releases) == 1 else
                                         releases[0] + ' to ' + releases[-1])
                          for name, releases in by.items())
        lines.append('- %s %s: %s' % (domain, number.split(':')[1], spelt))
    results = renamed(measured, 'results')
    lines += ['' if callbacks else None,
              'Texts of results differ in: ' + ', '.join(sorted(n for n, _ in results)) if results
              else 'Every result code has one text in all of them.', '',
              'Without a usable device `cuptiSubscribe` answers ' +
              ' or '.join(map(str, codes)) + '.', '']
    return '\n'.join(line for line in lines if line is not None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--cache', default=os.path.join(
        os.environ.get('STEPAGENT_BUILD_DIR', os.path.join(SOURCE, 'build')), 'conformance'))
    parser.add_argument('--write', action='store_true')
    parser.add_argument('--ask', metavar='LIBRARY', help='for the program itself')
    arguments = parser.parse_args()
    if arguments.ask:
        answer = ask(arguments.ask)
        if answer is None:
            return 1
        print(json.dumps(answer))
        return 0
    measured = {}
    for release in RELEASES:
        path = fetch(release, arguments.cache)
        driver = driver_folder('535', arguments.cache) if first_without_driver(release) else None
        one = measure(path, driver) if path else None
        if one is None:
            print('%s: %s' % (release, 'no answer' if path else 'not to be had'), file=sys.stderr)
            continue
        measured[release] = one
    text = document(measured)
    if arguments.write:
        with open(DOCUMENT, 'w', encoding='utf-8') as out:
            out.write(text)
    else:
        print(text)
    return 0


if __name__ == '__main__':
    sys.exit(main())
