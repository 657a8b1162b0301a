"""Clients that lie, are silent, are somebody else's; names and paths that are in the way.

Field-log cases: B080 B085 B090 B092 B148.
"""
import os
import resource
import signal
import socket
import subprocess
import unittest

import harness
from collector_case import (BATCH, GOODBYE, HELLO, CollectorTest, STEP, field, frame, hello, identity,
                            raw_address)

OTHER_USER = 65534
RUN = '20260101T000000_0badcafe'


class Attack(CollectorTest):
    def honest(self, **settings):
        """An application is recorded as if nobody else were there."""
        self.finish_app(self.busy(150, 500, schedule='active=100,repeat=1', **settings))
        cycle = [c for c in harness.eventually(self.written, 'the honest cycle')
                 if c.manifest['session']['exe'] == 'train_loop'][-1]
        self.assertTrue(cycle.manifest['cycle']['complete'])
        self.assertEqual(len(cycle.steps), 100)
        harness.check_balance(cycle)

    def written(self):
        return [c for c in harness.cycles(self.out)] if all(
            os.path.exists(os.path.join(s, 'cycle-0000', 'manifest.json'))
            for s in harness.sessions(self.out) if 'train_loop' in s) and any(
                'train_loop' in s for s in harness.sessions(self.out)) else None

    def closed_by_peer(self, client):
        """Reads what still comes; True once the other side has hung up."""
        try:
            while client.recv(65536):
                pass
            return True
        except ConnectionResetError:
            return True

    def test_B092_forged_and_oversized_frames_end_their_own_connection(self):
        collector = self.start_collector()
        for bad in (b'GET / HTTP/1.1\r\n\r\n' * 4, frame(HELLO, b'', magic=b'XXXX'),
                    frame(HELLO, b'', length=0xFFFFFFFF), frame(HELLO, b'', length=70 << 20),
                    frame(BATCH, b''), frame(GOODBYE, b''), frame(HELLO, b'\xff' * 100),
                    frame(HELLO, hello(b'../../etc/passwd')), frame(HELLO, hello(b'')),
                    frame(HELLO, hello(b'x' * 5000))):
            client = self.connect()
            client.sendall(bad)
            self.assertTrue(self.closed_by_peer(client), bad[:20])
        self.assertIsNone(collector.poll())
        self.honest()
        self.assertEqual(self.stop_app(collector), 0)

    def test_B085_batches_with_undeclared_ids_and_wrong_checksums(self):
        collector = self.start_collector()
        session = b'00000000deadbeef'
        client = self.connect()
        client.sendall(frame(HELLO, hello(session)))
        self.assertEqual(client.recv(4), b'SAF1')
        who = field(1, identity(session))
        nested = field(1, 1)
        for _ in range(2000):
            nested = field(4, nested)
        million = field(4, b''.join(field(1, n) for n in range(20000)))
        for number, body in enumerate((who + field(2, 1) + field(14, field(1, 5) + field(2, b'\x05' * 5)),
                                       b'\x00' * 1000, who + nested, who + million,
                                       who + field(2, 1), who + field(2, 1 << 62))):
            client.sendall(frame(BATCH, body, number + 1))
            client.sendall(frame(BATCH, body, number + 1))
            client.sendall(frame(BATCH, body, number + 1, crc=7))
        client.shutdown(socket.SHUT_WR)
        self.assertTrue(self.closed_by_peer(client))
        self.honest()
        self.assertEqual(self.stop_app(collector), 0)
        for folder in harness.sessions(self.out):
            self.report(folder, statuses=(0, 1, 3) if 'forged' in folder else (0, 1))

    def test_B080_a_thousand_clients_that_close_early(self):
        collector = self.start_collector()
        for number in range(1000):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(self.socket)
                if number % 3 == 0:
                    client.sendall(frame(HELLO, hello(b'%016x' % number))[:number % 60])
        self.honest()
        self.assertEqual(self.stop_app(collector), 0)

    def test_B090_more_clients_than_descriptors(self):
        collector = self.start_collector(preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (64, 64)))
        first = self.busy(100000, 1000)
        self.wait_raw(size=2000)
        clients = []
        for _ in range(200):
            client = socket.socket(socket.AF_UNIX)
            self.addCleanup(client.close)
            client.setblocking(False)
            client.connect_ex(self.socket)
            clients.append(client)
        before = os.path.getsize(self.wait_raw()[0])
        harness.eventually(lambda: os.path.getsize(self.wait_raw()[0]) > before + 1000,
                           'the first session going on')
        self.assertIsNone(collector.poll())
        for client in clients:
            client.close()
        first.send_signal(signal.SIGTERM)
        first.wait(timeout=harness.PATIENCE)
        harness.eventually(lambda: self.written(), 'its cycle')
        self.assertEqual(self.stop_app(collector), 0)

    def test_two_collectors_on_one_path(self):
        first = self.start_collector()
        for _ in range(2):
            second = subprocess.run([harness.STEPCOLLECTOR, '--socket', self.socket, '--out',
                                     self.out], capture_output=True, text=True, check=False,
                                    timeout=harness.PATIENCE, env=harness.clean_environment())
            self.assertEqual(second.returncode, 1, second.stderr)
            self.assertIn('another collector is listening', second.stderr)
        self.honest()
        self.assertEqual(self.stop_app(first), 0)
        self.assertFalse(os.path.exists(self.socket))

    def test_a_file_in_the_place_of_the_socket_is_left_alone(self):
        with open(self.socket, 'w', encoding='ascii') as file:
            file.write('mine')
        done = subprocess.run([harness.STEPCOLLECTOR, '--socket', self.socket, '--out', self.out],
                              capture_output=True, text=True, check=False,
                              timeout=harness.PATIENCE, env=harness.clean_environment())
        self.assertEqual(done.returncode, 1)
        self.assertIn(self.socket, done.stderr)
        with open(self.socket, encoding='ascii') as file:
            self.assertEqual(file.read(), 'mine')

    def test_paths_past_every_limit(self):
        long_socket = os.path.join(self.scratch, 's' * 120)
        done = subprocess.run([harness.STEPCOLLECTOR, '--socket', long_socket, '--out', self.out],
                              capture_output=True, text=True, check=False,
                              timeout=harness.PATIENCE, env=harness.clean_environment())
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1)
        env = harness.agent_environment(self.out, sim=False, step=STEP, schedule='active=5',
                                        collector=long_socket)
        self.run_app(self.busy_command(10, 500), env)
        self.assertFalse(os.path.exists(self.out))
        # A deep output folder, with spaces and colons, has no say in the socket's name.
        deep = os.path.join(self.scratch, *['a b:c ' + 'd' * 100] * 12)
        env = harness.agent_environment(deep, sim=False, step=STEP, schedule='active=5,repeat=1')
        self.run_app(self.busy_command(10, 500), env)
        self.traced(1, deep)

    def test_B148_links_in_the_output_path_are_not_followed(self):
        secret = os.path.join(self.scratch, 'secret')
        os.mkdir(secret)
        for number, name in enumerate(('sessions', 'traces')):
            out = os.path.join(self.scratch, 'out-%d' % number)
            os.makedirs(os.path.join(out, RUN))
            os.symlink(secret, os.path.join(out, RUN, name))
            env = harness.agent_environment(out, sim=False, step=STEP, STEPAGENT_RUN=RUN,
                                            schedule='active=5,repeat=1')
            self.run_app(self.busy_command(10, 500), env)
        out = os.path.join(self.scratch, 'out-latest')
        os.mkdir(out)
        os.mkdir(os.path.join(out, 'latest'))
        env = harness.agent_environment(out, sim=False, step=STEP, schedule='active=5,repeat=1')
        self.run_app(self.busy_command(10, 500), env)
        self.traced(1, out)
        self.assertEqual(os.listdir(os.path.join(out, 'latest')), [])
        self.assertEqual(os.listdir(secret), [])

    @unittest.skipUnless(os.geteuid() == 0, 'becoming another user needs root')
    def test_B148_another_user_is_refused_on_both_sides(self):
        address = '@stepagent-test-%d' % os.getpid()
        collector = self.start_collector(address)
        os.chmod(self.scratch, 0o711)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
            os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
            answer = b'refused'
            try:
                client = socket.socket(socket.AF_UNIX)
                client.settimeout(harness.PATIENCE)
                client.connect(raw_address(address))
                client.sendall(frame(HELLO, hello(b'00000000deadbeef')))
                answer = client.recv(100) or b'refused'
            except OSError:
                pass
            os.write(writer, answer)
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(os.read(reader, 100), b'refused')
        os.close(reader)
        os.close(writer)
        self.assertEqual(harness.sessions(self.out), [])
        self.assertEqual(self.stop_app(collector), 0)


if __name__ == '__main__':
    harness.main()
