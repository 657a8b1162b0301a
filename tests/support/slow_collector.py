"""Slows the collectors of a test: for each millisecond of processor time, so many of standing still.

STEPAGENT_TEST_SLOW_COLLECTOR=100 in the environment makes harness.AgentTest use it: a collector is any
process `stepcollector` whose command line names the test's own folder. Stopped and continued by pid; a
collector with nothing to do is not held, so that what is slow is its work.
"""
import contextlib
import glob
import os
import signal
import threading

TURN_S = 0.002  # how long one runs before it is looked at
LONGEST_STOP_S = 1.0
SCAN_S = 0.05


def cpu_ns(pid):
    """Processor time of all its threads."""
    total = 0
    for path in glob.glob('/proc/%d/task/*/schedstat' % pid):
        with contextlib.suppress(OSError), open(path, encoding='ascii') as stat:
            total += int(stat.read().split()[0])
    return total


def is_collector_of(pid, folder):
    with contextlib.suppress(OSError), open('/proc/%s/cmdline' % pid, 'rb') as line:
        words = line.read().split(b'\0')
        return os.path.basename(words[0]) == b'stepcollector' and any(
            word.startswith(os.fsencode(folder)) for word in words[1:])
    return False


class SlowCollectors:
    """Thread rule: one thread finds collectors, one for each slows it; stop() ends them all."""

    def __init__(self, folder, factor):
        self.folder, self.factor = folder, factor
        self.slowed = {}
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._find, daemon=True)]
        self._threads[0].start()

    def stop(self):
        """Every collector runs freely again."""
        self._end.set()
        for thread in self._threads:
            thread.join()
        print('%d collectors, held for %.1f s' % (len(self.slowed), sum(self.slowed.values())))

    def _find(self):
        known = set()
        while not self._end.wait(SCAN_S):
            now = {name for name in os.listdir('/proc') if name.isdigit()}
            for name in now - known:
                # Right after its fork a process has its parent's command line: look again.
                if is_collector_of(name, self.folder):
                    thread = threading.Thread(target=self._slow, args=(int(name),), daemon=True)
                    self._threads.append(thread)
                    thread.start()
                    known.add(name)
            known &= now

    def _slow(self, pid):
        with contextlib.suppress(ProcessLookupError):
            used = 0  # its start is slow too
            self.slowed[pid] = 0.0
            while not self._end.wait(TURN_S):
                now = cpu_ns(pid)
                if now == 0:
                    return  # gone
                owed = (now - used) / 1e9 * (self.factor - 1)
                used = now
                if owed > 0:
                    self._hold(pid, owed)
                    self.slowed[pid] += owed

    def _hold(self, pid, seconds):
        os.kill(pid, signal.SIGSTOP)
        try:
            while seconds > 0 and not self._end.wait(min(seconds, LONGEST_STOP_S)):
                seconds -= LONGEST_STOP_S
                if not is_collector_of(pid, self.folder):
                    return
        finally:
            os.kill(pid, signal.SIGCONT)
