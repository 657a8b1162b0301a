"""What the collector's process tests share: a collector by hand, raw frames, a busy application."""
import json
import os
import shutil
import socket
import struct
import subprocess

import harness
from harness import AgentTest, app

STEP = 'nvtx:train_step'


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _crc_row(value):
    for _ in range(8):
        value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value


_CRC = [_crc_row(n) for n in range(256)]
HELLO, WELCOME, BATCH, GOODBYE = 1, 2, 3, 4


def frame(kind, payload, sequence=0, *, magic=b'SAF1', length=None, crc=None):
    """Layout of proto/frame.h; length and crc may be told wrong."""
    return magic + struct.pack('<BBHIIQ', kind, 1, 0, len(payload) if length is None else length,
                               crc32c(payload) if crc is None else crc, sequence) + payload


def varint(value):
    out = b''
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """One protobuf field: an integer or a string of bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def identity(session, run=b'20260101T000000_00000000', rank=0):
    return field(1, run) + field(2, session) + field(3, b'host') + field(4, rank * 2)


def hello(session, **options):
    return (field(1, 1) + field(2, 1) + field(3, b'test') + field(4, identity(session, **options)) +
            field(5, os.getpid()) + field(7, b'forged'))


def listens(address):
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(raw_address(address))
            return True
        except OSError:
            return False


def raw_address(text):
    return '\0' + text[1:] if text.startswith('@') else text


class CollectorTest(AgentTest):
    def setUp(self):
        super().setUp()
        self.socket = os.path.join(self.scratch, 'collector.sock')

    def start_collector(self, address=None, out=None, **options):
        address = address or self.socket
        process = self.start_app([harness.STEPCOLLECTOR, '--socket', address, '--out',
                                  out or self.out, '--log', 'info'], harness.clean_environment(),
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 **options)
        harness.eventually(lambda: process.poll() is not None or listens(address), 'listening')
        return process

    def connect(self, address=None):
        client = socket.socket(socket.AF_UNIX)
        self.addCleanup(client.close)
        client.settimeout(harness.PATIENCE)
        client.connect(raw_address(address or self.socket))
        return client

    def busy(self, steps, sleep_us, out=None, **settings):
        """A host-only training loop whose agent uses our collector; started, not waited for."""
        settings.setdefault('schedule', 'active=100000000')
        env = harness.agent_environment(out or self.out, sim=False, step=STEP,
                                        **{'collector': self.socket, **settings})
        return self.start_app(self.busy_command(steps, sleep_us), env)

    @staticmethod
    def busy_command(steps, sleep_us):
        return [app('train_loop'), '--host-only', '--steps', str(steps), '--sleep-us', str(sleep_us)]

    def finish_app(self, process, status=0):
        stdout, stderr = process.communicate(timeout=harness.PATIENCE * 4)
        self.assertEqual(process.returncode, status, stderr)
        return stdout, stderr

    def step_of(self, pid):
        result = self.control('status', str(pid), '--json', status=None)
        if result.returncode != 0:
            return -1
        found = json.loads(result.stdout)
        found = found[0] if isinstance(found, list) else found
        return int(found.get('processes', [found])[0]['step'])

    def wait_raw(self, out=None, least=1, size=1):
        def there():
            found = [os.path.join(s, 'raw.steps') for s in harness.sessions(out or self.out)]
            found = [p for p in found if os.path.exists(p) and os.path.getsize(p) >= size]
            return found if len(found) >= least else None

        return harness.eventually(there, 'raw files')

    def report(self, path, statuses=(0, 1)):
        result = self.control('report', path, status=None)
        self.assertIn(result.returncode, statuses, result.stdout[-2000:] + result.stderr[-2000:])
        return result

    def copy_of_out(self, name):
        target = os.path.join(self.scratch, name)

        def copy(source, to):
            try:
                shutil.copy2(source, to)
            except FileNotFoundError:
                pass  # a partial file that was just renamed

        shutil.copytree(self.out, target, symlinks=True, copy_function=copy)
        return target
