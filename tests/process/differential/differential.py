"""Runs every program of the table alone and under the agent in each phase, and compares.

    python3 tests/process/differential/differential.py [--match TEXT] [--phases a,b]

prints the table phases x process events x outcome and ends with 1 when any cell differs.
STEPAGENT_BUILD_DIR names the build folder. Compared: standard output and error, exit status or
signal, and what the programs print of themselves and their children (descriptors, environment,
masks, dispositions, children). The agent's own lines on standard error are left out.
"""
import argparse
import concurrent.futures
import difflib
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'support'))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402
import programs  # noqa: E402

STEP = 'nvtx:train_step'
AT_ONCE = 3
PHASES = {
    'idle': {},
    'waiting': dict(schedule='wait=1000000000,active=1', step=STEP),
    'warmup': dict(schedule='warmup=1000000000,active=1', step=STEP),
    # A storm of steps of a microsecond outgrows the collector's memory limit and would be left to its
    # reader (test_collector_memory.py); here each is written at once.
    'active': dict(schedule='active=1000000000', step=STEP, collector_memory='0'),
    'after': dict(schedule='active=1,repeat=1', step=STEP),
}


class Seen:
    """What a run showed to the outside."""

    def __init__(self, program, env):
        scratch = tempfile.mkdtemp(prefix='stepagent-differential-')
        env = dict(env, PWD=scratch)
        try:
            result = subprocess.run(program.command, env=env, cwd=scratch, text=True,
                                    capture_output=True, errors='replace', check=False,
                                    stdin=subprocess.DEVNULL, timeout=harness.PATIENCE * 4)
            self.status, self.out, self.err = result.returncode, result.stdout, result.stderr
        except subprocess.TimeoutExpired:  # run() has killed it
            self.status, self.out, self.err = 'hung', '', ''
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self.out = self.out.replace(scratch, 'SCRATCH')
        if program.scrub:
            self.out = program.scrub(self.out)
        self.said = [line for line in self.err.splitlines() if line.startswith('stepagent: ')]
        self.err = [line for line in self.err.splitlines() if not line.startswith('stepagent: ')]

    def differences(self, other):
        found = []
        for what in ('status', 'out', 'err'):
            mine, theirs = getattr(self, what), getattr(other, what)
            if mine == theirs:
                continue
            if what == 'status':
                found.append('status: alone %s, traced %s' % (mine, theirs))
                continue
            lines = difflib.unified_diff(*(t.splitlines() if isinstance(t, str) else t
                                           for t in (mine, theirs)), 'alone', 'traced', '', '', 0)
            found.append('%s: %s' % (what, ' | '.join(list(lines)[2:12])))
        return found


def base_environment(program):
    env = harness.clean_environment()
    env['PROBE_APPS'] = os.path.join(harness.BUILD, 'apps')
    if program.sim:
        env['LD_LIBRARY_PATH'] = harness.sim_path()
    return env


def folders(out):
    return [f for s in harness.sessions(out) for f in os.listdir(s) if f.startswith('cycle-')]


def outcome(out, program, phase):
    """(text, problems): what was recorded, and whether that fits the phase."""
    least = 1 + program.forked_steps if phase in ('active', 'after') and program.steps else 0
    try:
        # A process without a goodbye is not waited for: its collector may only just have begun.
        harness.eventually(lambda: len(folders(out)) >= least, 'cycle folders')
    except AssertionError:
        return 'LOST', ['%d cycles instead of %d' % (len(folders(out)), least)]
    if not os.path.isdir(out):
        sessions, cycles = 0, []
    else:
        try:
            harness.wait_written(out)
        except AssertionError as error:
            return 'not written', [str(error)]
        sessions = len(harness.sessions(out))
        if program.unwritable and folders(out):
            return 'unwritten', []
        cycles = harness.cycles(out)
    problems = []
    if phase in ('idle', 'waiting') and sessions:
        problems.append('%d sessions on disk' % sessions)
    if phase == 'warmup' and cycles:
        problems.append('a cycle without an active step')
    if least and len(cycles) != least:
        problems.append('%d cycles instead of %d' % (len(cycles), least))
    for cycle in cycles:
        try:
            harness.check_balance(cycle)
        except AssertionError as error:
            problems.append(str(error))
    return ('%d recorded' % len(cycles) if cycles else 'same'), problems


def cell(program, phase, alone):
    """(text, problems) of one program in one phase."""
    scratch = tempfile.mkdtemp(prefix='stepagent-differential-')
    out = os.path.join(scratch, 'out')
    try:
        env = base_environment(program)
        env.update(LD_PRELOAD=harness.STUB, STEPAGENT_OUT=out)
        for key, value in PHASES[phase].items():
            env['STEPAGENT_' + key.upper()] = value
        traced = Seen(program, env)
        problems = alone.differences(traced)
        text, more = outcome(out, program, phase)
        problems += more
        return ('DIFFERS' if problems else text), problems
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def row(program, phases):
    alone = Seen(program, base_environment(program))
    return program, [(phase, *cell(program, phase, alone)) for phase in phases]


def run(phases, match='', print_line=print):
    """All problems as 'program, phase: problem'; prints the table as it goes."""
    rows = [p for p in programs.table() if match in p.name]
    width = max(len(p.name) for p in rows)
    print_line('%-*s  %s' % (width, 'process event', '  '.join('%-11s' % p for p in phases)))
    bad = []
    # Most of the time is the programs' own sleeping: three at a time do no harm.
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for program, cells in pool.map(lambda p: row(p, phases), rows):
            texts = ['%-11s' % text for _, text, _ in cells]
            print_line('%-*s  %s' % (width, program.name, '  '.join(texts).rstrip()))
            bad += ['%s, %s: %s' % (program.name, phase, p)
                    for phase, _, problems in cells for p in problems]
    print_line('%d events x %d phases, %d problems' % (len(rows), len(phases), len(bad)))
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--match', default='')
    parser.add_argument('--phases', default=','.join(PHASES))
    arguments = parser.parse_args()
    bad = run(arguments.phases.split(','), arguments.match,
              lambda line: print(line, flush=True))
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
