"""The table of programs: what is run with and without the agent, and what about it may differ.

A row is one process event. `steps` says whether the program runs the step range itself, so that a
phase is really reached: a program without (a shell, a compiler) only shows that being loaded is free.
"""
import os
import re
import sys

import harness
from harness import app

HERE = os.path.dirname(os.path.abspath(__file__))
PROBE = os.path.join(HERE, 'probe.py')
INJECTION = re.compile(r'LD_PRELOAD|INJECTION64_PATH|STEPAGENT_|LD_LIBRARY_PATH')
# The toggle signal is the one disposition the contract lets us change.
TOGGLE = re.compile(r'^(self|exec\'d|posix_spawn|system) signal 12 handled$')


class Program:
    def __init__(self, name, command, *, steps=True, forked_steps=0, scrub=None, sim=False,
                 unwritable=False):
        self.name, self.command, self.steps = name, command, steps
        self.unwritable = unwritable  # the collector inherits a limit that forbids its files
        self.forked_steps = forked_steps  # further processes that match the step range themselves
        self.scrub, self.sim = scrub, sim


EXECS = ('fork_exec', 'vfork', 'posix_spawn', 'system', 'popen')
NO_GOODBYE = ('_exit', 'abort', 'segv', 'term', 'kill', 'exec')


def drop_injection(text):
    return '\n'.join(line for line in text.splitlines()
                     if not INJECTION.search(line) and not TOGGLE.match(line))


def _victims():
    for way, forked in (('fork', 1), ('fork_exec', 1), ('vfork', 1), ('posix_spawn', 1),
                        ('system', 1), ('popen', 1), ('double_fork', 1), ('daemon', 1),
                        ('three_forks', 3)):
        # A forked child leaves by _exit: only one that outlives the flush interval is sure to be seen.
        steps = '6' if way in EXECS else '260'
        yield Program('spawn ' + way, [app('spawn_ways'), way, steps], forked_steps=forked)
    for way in ('return', 'exit', '_exit', 'quick_exit', 'abort', 'segv', 'term', 'kill', 'exec',
                'thread_exit', 'main_ends', 'busy_thread', 'atexit_nvtx', 'key_nvtx'):
        steps = ['100', '3500'] if way in NO_GOODBYE else ['6', '500']
        yield Program('leave ' + way, [app('exit_ways'), way, *steps, '--in-step'],
                      forked_steps=1 if way == 'exec' else 0)
    for mode in ('before', 'after', 'ignore', 'reset', 'signalfd', 'sigwait', 'blocked', 'storm',
                 'eintr'):
        yield Program('signal ' + mode, [app('signal_mix'), mode])
    yield Program('closes all', [app('close_all'), '5', '300'])
    yield Program('closes all and 0-2', [app('close_all'), '5', '300', '--std'])
    yield Program('plugin dlclosed', [app('plugin_host'), '5'])
    yield Program('NVTX in constructors', [app('early_range')])
    yield Program('many threads', [app('many_threads'), '--short', '200', '--alive', '64'])
    yield Program('threads cancelled', [app('many_threads'), '--short', '0', '--alive', '32',
                                        '--cancel'])
    yield Program('threads block signals', [app('many_threads'), '--short', '64', '--alive', '32',
                                            '--blocked', '--stack', '16384'])
    yield Program('fork storm', [app('fork_storm'), '--children', '40', '--threads', '4'])
    yield Program('hostile names', [app('hostile_names'), '3', '5000'], steps=False)
    for kind in ('ascii', 'wide', 'registered', 'threads', 'unbalanced', 'recursive', 'all'):
        yield Program('NVTX ' + kind, [app('nvtx_loop'), kind, '6'], steps=False)
    yield Program('sees of itself', [app('env_fds')], scrub=drop_injection, steps=False)
    yield Program('train loop, host only', [app('train_loop'), '--host-only', '--steps', '8'])
    yield Program('train loop, device', [app('train_loop'), '--steps', '8'], sim=True)
    yield Program('static program', [app('static_program')], steps=False)
    if os.path.exists(app('own_libraries')):
        yield Program('own libraries', [app('own_libraries'), '8'])


def _sandboxes():
    for what in ('socket', 'clone', 'memfd', 'openat'):
        yield Program('refused at once: ' + what,
                      [app('sandboxed'), '--deny', what, '--steps', '6'], steps=False)
        yield Program('refused later: ' + what,
                      [app('sandboxed'), '--deny', what, '--after', '3', '--steps', '8'],
                      steps=False)
    for option, value in (('--nofile', '16'), ('--as', str(600 << 20)), ('--nproc', '1'),
                          ('--fsize', '4096')):
        yield Program('limit %s %s' % (option, value),
                      [app('sandboxed'), option, value, '--steps', '6'], steps=False,
                      unwritable=option == '--fsize')
        yield Program('limit %s %s, then exec' % (option, value),
                      [app('sandboxed'), option, value, '--', app('exit_ways'), 'return', '5'],
                      steps=False, unwritable=option == '--fsize')


def _python():
    python = sys.executable
    for method in ('fork', 'spawn', 'forkserver'):
        yield Program('multiprocessing ' + method, [python, PROBE, 'workers', method],
                      forked_steps=2)
    yield Program('python state', [python, PROBE, 'state'])
    yield Program('python subprocess', [python, PROBE, 'subprocess'])
    yield Program('python os._exit', [python, PROBE, 'leave'])
    yield Program('fork, NVTX afresh', [python, PROBE, 'fresh'], forked_steps=1, steps=False)


MAKEFILE = 'all: a b\n\t@echo all\na b:\n\t@echo $@; sh -c "exit 0"\nbad:\n\t@exit 3\n'


def _machine():
    def sh(script):
        return ['/bin/sh', '-c', script]

    yield Program('sh', sh('echo out; echo err >&2; (exit 3); echo $?; exit 4'), steps=False)
    yield Program('sh descriptors', sh('ls /proc/self/fd; for i in 1 2 3; do (echo $i) & done; wait'),
                  steps=False, scrub=lambda text: '\n'.join(sorted(text.splitlines())))
    yield Program('sh trap', sh('trap "echo caught" TERM; kill -TERM $$; echo after'), steps=False)
    yield Program('sh killed', sh('kill -9 $$'), steps=False)
    yield Program('python3', [sys.executable, '-c', 'import sys, json; print(json.dumps(1)); '
                              'print(2, file=sys.stderr); sys.exit(9)'], steps=False)
    yield Program('make', sh("printf '%s' > Makefile; make -j2 -s all; make -s bad; echo $?"
                             % MAKEFILE.replace('\n', '\\n').replace('\t', '\\t')
                             .replace('%', '%%')), steps=False,
                  scrub=lambda text: '\n'.join(sorted(text.splitlines())))
    yield Program('git', sh('git init -q . && git -c user.name=a -c user.email=a@b commit -q '
                            '--allow-empty -m one && git log --format=%s; git status -s; '
                            'git rev-parse --verify -q nothing; echo $?'), steps=False)
    yield Program('gcc', sh('echo "int main(){return 6;}" > a.c && gcc -o a a.c && ./a; echo $?; '
                            'gcc -c missing.c 2>/dev/null; echo $?'), steps=False)
    yield Program('tar', sh('mkdir d && echo x > d/f && tar czf d.tgz d && tar tzf d.tgz && '
                            'tar xOzf d.tgz d/f'), steps=False)


def table():
    """Every row that this machine can run."""
    rows = list(_victims()) + list(_sandboxes()) + list(_python()) + list(_machine())
    tool = {'make', 'git', 'gcc', 'tar'}
    present = {t for t in tool if any(os.access(os.path.join(d, t), os.X_OK)
                                      for d in os.environ.get('PATH', '').split(':'))}
    return [row for row in rows if row.name not in tool or row.name in present]


assert harness.BUILD
