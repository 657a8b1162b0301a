#!/usr/bin/env python3
"""The checker of calls finds what it is for. test_check_calls.py STUB CORE: the built libraries."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import check_calls  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARIES = sys.argv[1:3]

LISTING = '''
lib.so:     file format elf64-x86-64

0000000000001000 <handler(int)>:
    1000:\tpush   %rbp
    1001:\tcall   1100 <(anonymous namespace)::helper<char>(int)>
    1006:\tjne    1200 <handler(int) [clone .cold]>
    100c:\tjmp    1004 <handler(int)+0x4>
    1010:\tret
0000000000001100 <(anonymous namespace)::helper<char>(int)>:
    1100:\tmov    $0x1,%eax
    1105:\tPLACE
    110a:\tret
0000000000001200 <handler(int) [clone .cold]>:
    1200:\tCOLD
'''
RULES = 'root handler\nallow write\n'


def problems(listing, rules):
    return check_calls.Check(check_calls.Listing(listing), check_calls.read_rules(rules)).problems


def listed(place='nop', cold='ret', rules=RULES):
    return problems(LISTING.replace('PLACE', place).replace('COLD', cold), rules)


class Doctored(unittest.TestCase):
    def test_nothing_wrong_is_nothing_found(self):
        self.assertEqual(listed(), [])
        self.assertEqual(listed('call   9000 <write@plt>'), [])

    def test_each_way_out_is_found(self):
        for place, said in (
                ('call   9000 <malloc@plt>', 'handler > helper calls malloc'),
                ('jmp    9000 <free@plt>', 'handler > helper calls free'),
                ('jne    9000 <pthread_mutex_lock@plt>', 'handler > helper calls pthread_mutex_lock'),
                ('bnd jmp 9000 <free@plt>', 'handler > helper calls free'),
                ('call   *0x2fe2(%rip)        # 3fe8 <malloc@GLIBC_2.2.5>',
                 'handler > helper calls malloc'),
                ('call   *%rax', 'handler > helper calls through a pointer: *%rax'),
                ('notrack jmp *%rdx', 'handler > helper calls through a pointer: *%rdx'),
                ('syscall', 'handler > helper calls syscall instruction')):
            with self.subTest(place=place):
                self.assertEqual(listed(place), [said])

    def test_a_cold_part_belongs_to_its_function(self):
        self.assertEqual(listed(cold='call   9000 <abort@plt>'), ['handler calls abort'])

    def test_rules(self):
        call = 'call   9000 <malloc@plt>'
        self.assertEqual(listed(call, rules=RULES + 'border helper\n'), [])
        self.assertEqual(listed('call   *%rax', rules=RULES + 'indirect helper\n'), [])
        self.assertEqual(listed(rules=RULES + 'root gone\n'), ['root gone: no such function'])
        self.assertEqual(listed(rules=RULES + 'border gone\n'), ['border gone: no such function'])
        with self.assertRaises(SystemExit):
            listed(rules='rot handler\n')


class Real(unittest.TestCase):
    """The libraries as built, with one call exchanged."""

    def doctored(self, library, rules, old, new):
        listing = check_calls.disassemble(library)
        with open(os.path.join(HERE, rules + '.calls'), encoding='utf-8') as source:
            rules = source.read()
        self.assertEqual(problems(listing, rules), [])
        self.assertIn(old, listing)
        return problems(listing.replace(old, new), rules)

    def test_a_handler_that_allocates(self):
        found = self.doctored(LIBRARIES[0], 'signal_handler', '<syscall@', '<malloc@')
        self.assertEqual(found, ['on_signal calls malloc'])

    def test_a_hot_path_that_locks(self):
        found = self.doctored(LIBRARIES[1], 'hot_paths', '<clock_gettime@', '<pthread_mutex_lock@')
        self.assertGreaterEqual(len(found), 3)
        self.assertTrue(all(line.endswith(' calls pthread_mutex_lock') for line in found), found)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
