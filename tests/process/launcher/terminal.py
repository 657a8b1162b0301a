"""Ctrl-C, Ctrl-Z and fg on a terminal: each reaches the target once, and the shell sees its job."""
import os
import pty
import signal
import sys
import time

launcher, signals, log = sys.argv[1:4]


def wait_for(text, count=1):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with open(log, 'a+') as f:
            f.seek(0)
            lines = f.read().split()
        if lines.count(text) >= count:
            return lines
        time.sleep(0.01)
    raise SystemExit(f'no {text} in {lines}')


pid, terminal = pty.fork()
if pid == 0:
    os.execv(launcher, [launcher, 'run', '--', signals, log])
wait_for('ready')
os.write(terminal, b'\x03')
lines = wait_for('2')
os.write(terminal, b'\x1c')
wait_for('3')
os.kill(pid, signal.SIGUSR1)
wait_for('10')
os.kill(pid, signal.SIGINT)
wait_for('2', 2)
os.write(terminal, b'\x1a')
_, status = os.waitpid(pid, os.WUNTRACED)
assert os.WIFSTOPPED(status), status
os.killpg(pid, signal.SIGCONT)
os.kill(pid, signal.SIGTERM)
lines = wait_for('15')
assert [lines.count(n) for n in ('2', '3', '10', '15')] == [2, 1, 1, 1], lines
while True:  # what the launcher says must be taken, or it would wait for the terminal
    try:
        if not os.read(terminal, 65536):
            break
    except OSError:
        break
_, status = os.waitpid(pid, 0)
assert os.WEXITSTATUS(status) == 5, status
