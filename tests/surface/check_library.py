#!/usr/bin/env python3
"""Properties of a built library, compared with a golden list.

check_library.py LIBRARY GOLDEN [--update]
The list holds exports, needed libraries, the newest symbol version per library and the size of the
TLS segment. A library that comes first in symbol lookup must not grow one of these by accident.
"""
import re
import subprocess
import sys


def run(*args):
    return subprocess.run(args, check=True, capture_output=True, text=True).stdout


def version_key(text):
    return [int(part) for part in re.findall(r'\d+', text)]


def describe(library):
    lines = []
    dynamic = run('readelf', '-dW', library)
    for name in sorted(re.findall(r'\(NEEDED\).*\[(.+?)\]', dynamic)):
        lines.append(f'needed {name}')
    lines.append('nodelete ' + ('yes' if 'NODELETE' in dynamic else 'no'))
    lines.append('static-tls ' + ('yes' if 'STATIC_TLS' in dynamic else 'no'))
    symbols = run('objdump', '-T', library)
    exports, newest = [], {}
    for line in symbols.splitlines():
        found = re.search(r'\s(\*UND\*|\S+)\s+[0-9a-f]{8,16}\s+(\(?[\w.]+\)?)?\s*(\S+)$', line)
        if not found:
            continue
        section, version, name = found.groups()
        if section == '*UND*':
            version = (version or '').strip('()')
            family = version.split('_')[0]
            if re.search(r'\d', version) and version_key(version) > version_key(newest.get(family, '0')):
                newest[family] = version
        elif section not in ('*ABS*',):
            exports.append(name)
    lines += [f'export {name}' for name in sorted(set(exports))]
    lines += [f'newest {newest[family]}' for family in sorted(newest)]
    tls = 0
    for line in run('readelf', '-lW', library).splitlines():
        fields = line.split()
        if fields and fields[0] == 'TLS':
            tls = int(fields[5], 16)
    lines.append(f'tls-bytes {tls}')
    return lines


def main():
    library, golden = sys.argv[1:3]
    got = describe(library)
    if '--update' in sys.argv:
        with open(golden, 'w', encoding='utf-8') as out:
            out.write('\n'.join(got) + '\n')
        return 0
    with open(golden, encoding='utf-8') as source:
        want = source.read().split('\n')[:-1]
    if got == want:
        print(f'{len(got)} properties as listed')
        return 0
    for line in want:
        if line not in got:
            print(f'missing: {line}')
    for line in got:
        if line not in want:
            print(f'new:     {line}')
    return 1


if __name__ == '__main__':
    sys.exit(main())
