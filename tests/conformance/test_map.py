"""Each line that tests/sim/README.md calls modelled is backed by an expectation, and each expectation
backs such a line. Prints the two side by side.
"""
import os
import re
import unittest

import expectations
import harness
import test_real_cupti
import test_real_driver

README = os.path.join(harness.SOURCE, 'tests', 'sim', 'README.md')
CASES = {'': expectations.Expectations, 'RealCupti.': test_real_cupti.RealCupti,
         'RealDriver.': test_real_driver.RealDriver}


def modelled():
    """{behaviour: [names in its third column]} of the table."""
    with open(README, encoding='utf-8') as source:
        text = source.read()
    table = text.split('## What is modelled')[1].split('\n## ')[0]
    rows = [[cell.strip() for cell in line.strip('|').split('|')]
            for line in table.splitlines() if line.startswith('| ')]
    return {behaviour: re.findall('`([^`]+)`', names) for behaviour, _, names in rows[1:]}


def expectations_there():
    """{name as the table has it: the test}."""
    return {prefix + name[len('test_'):]: getattr(case, name) for prefix, case in CASES.items()
            for name in dir(case) if name.startswith('test_')}


class Map(unittest.TestCase):
    def test_every_modelled_line_has_an_expectation(self):
        there = expectations_there()
        lines = modelled()
        self.assertGreater(len(lines), 20)
        for behaviour, names in lines.items():
            self.assertTrue(names, behaviour)
            for name in names:
                self.assertIn(name, there, behaviour)
                print('%-48s %s' % (name, behaviour))

    def test_every_expectation_backs_a_line(self):
        named = {name: behaviour for behaviour, names in modelled().items() for name in names}
        for name, test in expectations_there().items():
            self.assertIn(name, named)
            line = getattr(test, 'line', None)
            if line is not None:  # says itself which one, in the line's own words
                for words in re.split('[;:]', line):
                    self.assertIn(words.strip(), named[name].replace('`', ''), name)


if __name__ == '__main__':
    harness.main()
