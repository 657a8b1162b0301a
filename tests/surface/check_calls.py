#!/usr/bin/env python3
"""What the functions of a hot path or a signal handler may call, read from the built library.

check_calls.py LIBRARY RULES [--show]

The disassembly gives each function's calls, tail calls and jumps. From every `root` they are followed
through the library's own functions; what is reached outside must be on the list. Rules, one a line:

    root NAME        a function where a path begins, and all it reaches
    allow NAME       an outside function that may be called (no lock, allocation or system call in it)
    indirect NAME    a function of ours that may call through a pointer
    border NAME      where the path ends: a cold function, with rules of its own; not followed

NAME is the demangled name without anonymous namespaces, template arguments and parameters; `*` is any
run. A root or border that is no function of the library is an error: the list stays true.
"""
import fnmatch
import re
import subprocess
import sys

HEADING = re.compile(r'^([0-9a-f]+) <(.+)>:$')
INSTRUCTION = re.compile(r'^\s+([0-9a-f]+):\s+(?:notrack |bnd |data16 |rex\.W )*(\S+)\s*(.*)$')
BRANCH = re.compile(r'^(call|jmp|j[a-z]{1,3}|loop\w*|xbegin)[lq]?$')
TARGET = re.compile(r'^([0-9a-f]+) <(.+)>')
SLOT = re.compile(r'#\s+[0-9a-f]+ <(.+)>')
OWN_SYSTEM_CALLS = ('syscall', 'sysenter')


def short(name):
    """`int a::(anonymous namespace)::F<x>(y) [clone .cold]` is `a::F`."""
    name = re.sub(r' \[clone [^\]]*\]', '', name).replace('(anonymous namespace)::', '')
    name = name.replace('operator()', 'operator!').replace('operator<', 'operator!')
    depth, text = 0, ''
    for letter in name:
        if letter == '(' and depth == 0:
            break
        depth += letter == '<'
        if depth == 0:
            text += letter
        depth -= letter == '>'
    return text.split(' ')[-1]


class Function:
    """One function of the library: what it calls inside, outside and through pointers."""

    def __init__(self, name):
        self.name, self.inside, self.outside, self.indirect = name, [], [], []


class Listing:
    """A disassembly as functions by address."""

    def __init__(self, text):
        self.functions, pending, current = {}, [], None
        for line in text.splitlines():
            heading = HEADING.match(line)
            if heading:
                current = Function(heading.group(2))
                self.functions[int(heading.group(1), 16)] = current
                continue
            found = INSTRUCTION.match(line)
            if found and current is not None:
                self._read(current, found.group(2), found.group(3), pending)
        starts = sorted(self.functions)
        for function, address, name in pending:
            self._resolve(function, address, name, starts)

    @staticmethod
    def _read(function, mnemonic, operands, pending):
        if mnemonic in OWN_SYSTEM_CALLS:
            function.outside.append(mnemonic + ' instruction')
        if not BRANCH.match(mnemonic):
            return
        target = TARGET.match(operands)
        if target:
            pending.append((function, int(target.group(1), 16), target.group(2)))
        elif operands.startswith('*'):
            slot = SLOT.search(operands)
            name = slot.group(1) if slot else ''
            if '@' in name:
                function.outside.append(name.split('@')[0])
            else:  # a jump may be a switch's table or a tail call: both are looked at by name
                function.indirect.append(operands)

    def _resolve(self, function, address, name, starts):
        if '@plt' in name:
            function.outside.append(name.split('@')[0])
            return
        low, high = 0, len(starts)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if starts[middle] <= address else (low, middle)
        callee = self.functions[starts[low - 1]] if low else None
        if callee is None:
            function.outside.append(name)
        elif callee is not function:
            function.inside.append(callee)

    def named(self, pattern):
        return [f for f in self.functions.values() if fnmatch.fnmatchcase(short(f.name), pattern)]


def read_rules(text):
    rules = {'root': [], 'allow': [], 'indirect': [], 'border': []}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split('#')[0].split()
        if not words:
            continue
        if len(words) != 2 or words[0] not in rules:
            raise SystemExit('rules, line %d: "%s": a rule is root, allow, indirect or border and a '
                             'name' % (number, line))
        rules[words[0]].append(words[1])
    return rules


class Check:
    """Follows the paths; `problems` says what was found."""

    def __init__(self, listing, rules):
        self.rules, self.problems, self.seen = rules, [], {}
        for pattern in rules['root']:
            roots = listing.named(pattern)
            if not roots:
                self.problems.append('root %s: no such function' % pattern)
            for root in roots:
                self._follow(root)
        self.problems += ['border %s: no such function' % pattern for pattern in rules['border']
                          if not listing.named(pattern)]

    def _fits(self, kind, name):
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.rules[kind])

    def _follow(self, root):
        ways = [(root, short(root.name))]
        while ways:
            function, way = ways.pop()
            if function in self.seen:
                continue
            self.seen[function] = way
            self.problems += ['%s calls %s' % (way, name) for name in sorted(set(function.outside))
                              if not self._fits('allow', name)]
            if function.indirect and not self._fits('indirect', short(function.name)):
                self.problems.append('%s calls through a pointer: %s' % (way, function.indirect[0]))
            for callee in function.inside:
                if not self._fits('border', short(callee.name)):
                    name = short(callee.name)
                    ways.append((callee, way if way.endswith(name) else way + ' > ' + name))


def disassemble(library):
    return subprocess.run(['objdump', '-d', '-C', '--no-show-raw-insn', library], check=True,
                          capture_output=True, text=True).stdout


def main():
    library, path = sys.argv[1:3]
    with open(path, encoding='utf-8') as source:
        rules = read_rules(source.read())
    check = Check(Listing(disassemble(library)), rules)
    if '--show' in sys.argv:
        for way in sorted(check.seen.values()):
            print(way)
    for problem in check.problems:
        print(problem)
    print('%d functions from %d roots, %d problems' % (len(check.seen), len(rules['root']),
                                                       len(check.problems)))
    return 1 if check.problems else 0


if __name__ == '__main__':
    sys.exit(main())
