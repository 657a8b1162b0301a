"""Instructions of the hot paths under callgrind, against budget.json.

    check_instructions.py PROGRAM VALGRIND [--update] [--json FILE]

Over budget fails with the path's name, its count and its budget. Time on a shared machine is no test;
an instruction count is the same on every run of the same binary.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BUDGET = os.path.join(HERE, 'budget.json')
ROUNDS = 2000  # instruction_probe.cc


def counts(program, valgrind):
    """{path: instructions per round}."""
    with tempfile.TemporaryDirectory(prefix='stepagent-instructions-') as folder:
        stem = os.path.join(folder, 'out')
        result = subprocess.run(
            [valgrind, '--tool=callgrind', '--callgrind-out-file=' + stem, program],
            capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit('instruction_probe: status %d\n%s' % (result.returncode, result.stderr[-2000:]))
        found = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding='utf-8') as dump:
                text = dump.read()
            trigger = re.search(r'^desc: Trigger: Client Request: (\S+)$', text, re.M)
            total = re.search(r'^(?:summary|totals): (\d+)', text, re.M)
            if trigger and total:
                found[trigger.group(1)] = int(total.group(1)) / ROUNDS
    return found


def compiler():
    line = subprocess.run(['c++', '--version'], capture_output=True, text=True, check=False).stdout
    return line.splitlines()[0] if line else 'unknown'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('program')
    parser.add_argument('valgrind')
    parser.add_argument('--update', action='store_true', help='write the counts as the new budget')
    parser.add_argument('--json', help='also write the counts here')
    arguments = parser.parse_args()
    if not os.path.exists(arguments.valgrind):
        print('valgrind is not there')
        return 77
    found = counts(arguments.program, arguments.valgrind)
    with open(BUDGET, encoding='utf-8') as source:
        budget = json.load(source)
    if arguments.json:
        with open(arguments.json, 'w', encoding='utf-8') as target:
            json.dump({'instructions': found, 'budget': budget['paths'], 'compiler': compiler()},
                      target, indent=1)
    if arguments.update:
        budget['paths'] = {name: int(count + 0.999) for name, count in sorted(found.items())}
        budget['compiler'] = compiler()
        with open(BUDGET, 'w', encoding='utf-8') as target:
            json.dump(budget, target, indent=1)
            target.write('\n')
    # Another compiler's code is another count: there only a gross change fails.
    slack = 1.0 if compiler() == budget['compiler'] else 1.25
    bad = 0
    for name, limit in budget['paths'].items():
        count = found.get(name)
        over = count is None or count > limit * slack
        bad += over
        print('%-32s %8s  budget %5d%s%s' % (
            name, 'missing' if count is None else '%.1f' % count, limit,
            '' if slack == 1.0 else ' x %.2f (other compiler)' % slack, '  OVER' if over else ''))
    if bad:
        print('over budget: make it cheaper, or change tests/bench/budget.json in the same commit '
              'and say why')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
