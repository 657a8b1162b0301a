"""LTTng-UST as a peer: a session daemon if none runs, one blocking session around what is measured."""
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time


def is_there():
    return all(shutil.which(name) for name in ('lttng', 'lttng-sessiond'))


def _lttng(*arguments):
    return subprocess.run(['lttng', '-n', *arguments], capture_output=True, text=True, check=False)


@contextlib.contextmanager
def daemon():
    """A session daemon for the while; one that runs already is used and left alone."""
    if _lttng('list').returncode == 0:
        yield True
        return
    process = subprocess.Popen(['lttng-sessiond', '--no-kernel'], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20
        while _lttng('list').returncode != 0:
            if process.poll() is not None or time.monotonic() > end:
                yield False
                return
            time.sleep(0.05)  # polling a condition, bounded above
        yield True
    finally:
        process.terminate()
        process.wait(timeout=30)


class Session:
    """`with Session(...) as s:` records stepagent_bench:launch; s.trace is the folder."""

    def __init__(self, subbuf='1M', count=8):
        self.name = 'stepagent-bench-%d' % os.getpid()
        self.trace = tempfile.mkdtemp(prefix='stepagent-lttng-')
        self.discarded = None
        self._subbuf, self._count = subbuf, count

    def __enter__(self):
        _lttng('create', self.name, '--output=' + self.trace)
        _lttng('enable-channel', '-u', '-s', self.name, '--subbuf-size=' + self._subbuf,
               '--num-subbuf=%d' % self._count, '--blocking-timeout=inf', 'channel')
        _lttng('enable-event', '-u', '-s', self.name, '-c', 'channel', 'stepagent_bench:launch')
        _lttng('start', self.name)
        return self

    def stop(self):
        """Everything is on disk when this returns."""
        _lttng('stop', self.name)
        listing = _lttng('list', self.name).stdout
        found = re.search(r'Discarded events: (\d+)', listing)
        self.discarded = int(found.group(1)) if found else None

    def __exit__(self, *_):
        _lttng('destroy', self.name)

    def remove(self):
        shutil.rmtree(self.trace, ignore_errors=True)


ENVIRONMENT = dict(os.environ, LTTNG_UST_ALLOW_BLOCKING='1', LTTNG_UST_REGISTER_TIMEOUT='5000')
