"""`/metrics` of a collector: names, values against the manifests, two scrapes, refusals."""
import os
import re
import shutil
import signal
import socket
import subprocess

import harness
from harness import AgentTest, app, eventually


class Metrics(AgentTest):
    def collect(self, metrics, more=()):
        self.collector = os.path.join(self.scratch, 'collector.sock')
        process = self.start_app([harness.STEPCOLLECTOR, '--socket', self.collector, '--out', self.out,
                                  '--metrics', metrics], dict(harness.clean_environment(), **dict(more)))
        eventually(lambda: os.path.exists(self.collector), 'the collector listens')
        return process

    def get(self, address, request='GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        with socket.socket(family) as peer:
            peer.settimeout(harness.PATIENCE)
            peer.connect(address)
            peer.sendall(request.encode())
            answer = b''
            while block := peer.recv(65536):
                answer += block
        head, body = answer.decode().split('\r\n\r\n', 1)
        return head, body

    def train(self):
        self.run_app([app('train_loop'), '--steps', '8'],
                     self.environment(schedule='warmup=1,active=3,repeat=1', step='nvtx:train_step',
                                      collector=self.collector))

    @staticmethod
    def values(body):
        return {name: float(value) for name, value in
                re.findall(r'^([a-z_]+(?:\{[^}]*\})?) (\S+)$', body, re.MULTILINE)}

    def test_values_and_two_scrapes(self):
        path = os.path.join(self.scratch, 'metrics.sock')
        self.collect(path)
        head, body = self.get(path)
        self.assertTrue(head.startswith('HTTP/1.1 200 OK\r\n'), head)
        self.assertIn('text/plain; version=0.0.4', head)
        self.assertEqual(self.values(body)['stepagent_up'], 1)
        scrapes = []
        for count in (1, 2):
            self.train()
            found = self.traced(count)
            eventually(lambda: 'stepagent_traces_total{result="written"} %d' % count in
                       self.get(path)[1], 'the cycle is counted')
            scrapes.append(self.get(path)[1])
            got = self.values(scrapes[-1])
            for kind in ('kernel', 'memcpy', 'memset', 'launch'):
                self.assertEqual(got['stepagent_records_total{kind="%s"}' % kind],
                                 sum(c.manifest['balance'][kind]['written'] for c in found), kind)
            self.assertEqual(got['stepagent_step_duration_seconds_count{rank="0"}'] +
                             got.get('stepagent_step_duration_seconds_count{rank="1"}', 0),
                             sum(len(c.steps) for c in found))
        first, second = (self.values(s) for s in scrapes)
        for name, value in first.items():
            if '_total' in name or '_count' in name or '_bucket' in name:
                self.assertGreaterEqual(second[name], value, name)
        got = self.values(scrapes[-1])
        for name in ('stepagent_records_dropped_total{reason="ring_full"}',
                     'stepagent_records_dropped_total{reason="cupti_buffer"}',
                     'stepagent_records_dropped_total{reason="decode"}'):
            self.assertEqual(got[name], 0, name)
        self.assertEqual(got['stepagent_write_duration_seconds_count{format="chrome"}'], 2)
        self.assertEqual(got['stepagent_flush_duration_seconds_count'], 2)
        self.assertIn('stepagent_clock_offset_seconds{rank="', scrapes[-1])
        self.assertNotIn('fwd_linear', scrapes[1], 'no kernel names')
        def at_rest():
            now = self.values(self.get(path)[1])
            return not any(now[name] for name in (
                'stepagent_cycle_state{state="active"}', 'stepagent_spool_bytes',
                'stepagent_sink_queue_bytes', 'stepagent_attached_processes'))
        eventually(at_rest, 'the session is over')
        own = os.path.join(harness.BUILD, 'promtool', 'usr', 'bin', 'promtool')  # of test.sh
        promtool = own if os.path.exists(own) else shutil.which('promtool')
        if promtool:
            checked = subprocess.run([promtool, 'check', 'metrics'], input=scrapes[1], text=True,
                                     capture_output=True, check=False)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_an_open_cycle_is_seen(self):
        path = os.path.join(self.scratch, 'metrics.sock')
        self.collect(path)
        process = self.start_app([app('train_loop'), '--steps', '100000', '--sleep-us', '500'],
                                 self.environment(schedule='active=1000000', step='nvtx:train_step',
                                                  collector=self.collector))
        def seen():
            got = self.values(self.get(path)[1])
            return (got['stepagent_attached_processes'] == 1 and
                    got['stepagent_cycle_state{state="active"}'] == 1 and
                    got['stepagent_spool_bytes'] > 1000 and
                    got['stepagent_cupti_buffers_in_use'] >= 1 and
                    got['stepagent_ring_bytes{state="size"}'] >= got[
                        'stepagent_ring_bytes{state="used"}'] > 0 and
                    got.get('stepagent_step_current{rank="0"}', 0) > 5)
        eventually(seen, 'the open cycle, its step and its raw file')
        self.stop_app(process)

    def test_losses_by_reason(self):
        path = os.path.join(self.scratch, 'metrics.sock')
        self.collect(path)
        self.run_app([app('train_loop'), '--steps', '8'],
                     self.environment(schedule='active=6,repeat=1', step='nvtx:train_step',
                                      max_records='40', collector=self.collector))
        balance = self.traced(1)[0].manifest['balance']
        dropped = sum(row['dropped'] for row in balance.values())
        self.assertGreater(dropped, 0)
        eventually(lambda: self.values(self.get(path)[1]).get(
            'stepagent_records_dropped_total{reason="limit"}') == dropped, 'the losses are counted')

    def test_what_could_not_be_written_is_counted(self):
        path = os.path.join(self.scratch, 'metrics.sock')
        # As a disk that is full; a frame of a hello is less than that.
        self.collect(path, dict(LD_PRELOAD=app('small_disk.so'), SMALL_DISK_BYTES='4000'))
        self.run_app([app('train_loop'), '--steps', '40'],
                     self.environment(schedule='active=30,repeat=1', step='nvtx:train_step',
                                      exit_wait='5s', collector=self.collector))
        def counted():
            got = self.values(self.get(path)[1])
            return (got.get('stepagent_sink_errors_total{sink="spool",code="ENOSPC"}', 0) > 0 and
                    got.get('stepagent_sink_errors_total{sink="trace",code="ENOSPC"}', 0) > 0)
        eventually(counted, 'both errors')

    def test_loopback_and_what_is_refused(self):
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            port = free.getsockname()[1]
        self.collect('127.0.0.1:%d' % port)
        address = ('127.0.0.1', port)
        self.assertIn('stepagent_up 1', self.get(address)[1])
        self.assertIn('404', self.get(address, 'GET / HTTP/1.1\r\n\r\n')[0])
        self.assertIn('405', self.get(address, 'POST /metrics HTTP/1.1\r\n\r\n')[0])
        with socket.socket() as peer:  # talks and never ends: closed at the limit, others are served
            peer.settimeout(harness.PATIENCE)
            peer.connect(address)
            try:
                peer.sendall(b'x' * 20000)
                self.assertEqual(peer.recv(1), b'')
            except ConnectionError:
                pass
        self.assertIn('stepagent_up 1', self.get(address)[1])

    def test_the_sockets_file_goes_with_the_collector(self):
        path = os.path.join(self.scratch, 'metrics.sock')
        for ends_by in (signal.SIGTERM, signal.SIGINT):
            process = self.collect(path)
            self.assertTrue(os.path.exists(path))
            self.stop_app(process, ends_by)
            self.assertFalse(os.path.exists(path), ends_by)
        # One that somebody else has put in its place stays.
        process = self.collect(path)
        os.unlink(path)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(path)
            self.stop_app(process)
            self.assertTrue(os.path.exists(path))
        os.unlink(path)
        # A collector that does not come to listen leaves none either.
        process = self.collect(path)
        second = os.path.join(self.scratch, 'second.sock')
        result = subprocess.run([harness.STEPCOLLECTOR, '--socket', self.collector, '--out', self.out,
                                 '--metrics', second], env=harness.clean_environment(), check=False,
                                capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertFalse(os.path.exists(second))
        self.stop_app(process)

    def test_only_on_this_machine(self):
        for address in ('0.0.0.0:9400', '10.0.0.1:9400', 'nonsense', '99999'):
            result = subprocess.run([harness.STEPCOLLECTOR, '--socket', '@stepagent-test-none', '--out',
                                     self.out, '--metrics', address], capture_output=True, text=True,
                                    check=False, timeout=harness.PATIENCE)
            self.assertEqual(result.returncode, 2, address)
            self.assertIn(address, result.stderr)
            self.assertIn('127.0.0.1:PORT', result.stderr)


if __name__ == '__main__':
    harness.main()
