"""raw.steps as plain Python records, read with the classes protoc makes from proto/*.proto.

Shares no code with the agent or the collector: frames by docs/wire-format.md, columns by the rules
at the head of proto/batch.proto. Needs protoc and python3-protobuf.
"""
import collections
import importlib
import os
import struct
import subprocess
import sys
import tempfile

SOURCE = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
CLASSES = ['other', 'launch', 'graph_launch', 'memcpy', 'memset', 'sync', 'alloc']
Call = collections.namedtuple('Call', 'begin end correlation name thread cls domain')
Work = collections.namedtuple(
    'Work', 'kind begin end correlation device context stream name graph bytes copy_kind source target')
Sync = collections.namedtuple('Sync', 'begin correlation type context stream')
Range = collections.namedtuple('Range', 'begin end name domain thread depth is_start_end')


def messages():
    """The generated modules batch_pb2 and session_pb2; ImportError where protobuf is missing."""
    importlib.import_module('google.protobuf')
    with tempfile.TemporaryDirectory(prefix='stepagent-pb-') as folder:
        subprocess.run(['protoc', '-I', os.path.join(SOURCE, 'proto'), '--python_out', folder,
                        'batch.proto', 'session.proto'], check=True)
        sys.path.insert(0, folder)
        try:
            return importlib.import_module('batch_pb2'), importlib.import_module('session_pb2')
        finally:
            sys.path.remove(folder)


def frames(path):
    with open(path, 'rb') as source:
        data = source.read()
    at = 0
    while at + 24 <= len(data):
        magic, kind, version, _, size, _, sequence = struct.unpack_from('<4sBBHIIQ', data, at)
        if magic != b'SAF1' or version != 1 or at + 24 + size > len(data):
            raise ValueError('%s: no frame at byte %d' % (path, at))
        yield kind, sequence, data[at + 24:at + 24 + size]
        at += 24 + size


def column(values, count):
    return list(values) if len(values) == count else [0] * count


def deltas(values, count):
    out, total = [], 0
    for value in column(values, count):
        total += value
        out.append(total)
    return out


class Session:
    """Everything of one session, in the order of the batches. `until`: the cycle whose CLOSED event
    ends the reading of clock samples, since nobody knew later ones when its files were written."""

    def __init__(self, path, cycle):
        self.batch_pb, self.session_pb = messages()
        self.cycle = cycle
        self.hello = None
        self.strings, self.threads = {0: ''}, {}
        self.calls, self.work, self.ranges, self.marks, self.syncs = [], [], [], [], []
        self.steps, self.samples, self.contexts, self.devices = {}, [], {}, {}
        self.report, self.notes, self.memories, self.overheads = None, [], [], []
        self.without_times, self.losses, self.losses_before = [], {}, {}
        self._open, self._started, self._is_closed, self._was_closed = {}, {}, False, False
        self._events, self._pairs = {}, None
        self._durations = {}
        self._known = {}  # of steps whose own begin and end came
        # What came behind the cycle: rows, up to the next cycle's first step; `says_later`: told at all.
        self._later, self._next, self._first_steps, self.says_later = {}, None, {}, False
        self.raw_bytes = 0  # of the frames from the first that names the cycle to its CLOSED
        seen = set()
        for kind, _, payload in frames(path):
            if kind == 1:
                hello = self.session_pb.Hello.FromString(payload)
                self.hello = self.hello or hello
            elif kind == 3:
                batch = self.batch_pb.Batch.FromString(payload)
                is_named = any(m.cycle == cycle for m in [
                    *batch.cycle_events, *batch.notes, *batch.cycle_reports])
                is_named = is_named or cycle in list(batch.steps.cycle or [0] * batch.steps.count)
                if (is_named or self.raw_bytes) and not self._is_closed:
                    self.raw_bytes += 24 + len(payload)
                if batch.sequence in seen:
                    continue
                seen.add(batch.sequence)
                self._batch(batch)
            elif kind == 4 and self._is_closed and self._next is None:
                goodbye = self.session_pb.Goodbye.FromString(payload)
                if goodbye.HasField('all_steps'):
                    self.says_later = True
                    self._take(goodbye.all_steps, self._later)

    @property
    def step_durations(self):
        """(index, ns, collecting) of every step reported so far."""
        return [(index, self._known.get(index, ns), c) for index, ns, c in self._durations.values()]

    @property
    def later_durations(self):
        """The same with what the next cycle's report or the goodbye told of the steps behind this one."""
        rows = {**self._durations, **self._later}
        return [(index, self._known.get(index, ns), c) for index, ns, c in rows.values()]

    @property
    def later_until(self):
        """Where the next cycle began to collect, None where no later one has a report."""
        return self._first_steps.get(self._next)

    @staticmethod
    def _take(steps, rows):
        rows.update((index, (index, ns, c)) for index, ns, c in zip(
            steps.index, steps.duration_ns, steps.collecting or [0] * len(steps.index)))

    def text(self, number):
        return self.strings.get(number, '')

    def _batch(self, batch):
        for number, text in zip(batch.strings.id, batch.strings.text):
            self.strings[number] = text.decode('utf-8', 'replace')
        threads = batch.threads
        for i, index in enumerate(threads.index):
            self.threads[index] = (threads.tid[i], threads.name[i].decode('utf-8', 'replace'))
        for context in batch.contexts:
            self.contexts[context.id] = context.device
        for device in batch.devices:
            self.devices[device.ordinal] = device
        samples = batch.clock_samples
        if not self._is_closed:
            for i, (host, real) in enumerate(zip(samples.host_ns, samples.real_ns)):
                bracket = samples.bracket_ns[i] if i < len(samples.bracket_ns) else 0
                self.samples.append((host, real, bracket))
        self._calls(batch.calls)
        self._work('kernel', batch.kernels)
        self._work('copy', batch.memcpys)
        self._work('set', batch.memsets)
        self._work('graph', batch.graph_launches)
        self._syncs(batch.syncs)
        self._ranges(batch.ranges)
        self._steps(batch.steps)
        for report in batch.cycle_reports:
            if report.cycle == self.cycle:
                self.report = report
            if report.cycle <= self.cycle:  # each report holds the steps since the one before
                self._take(report.all_steps, self._durations)
            elif self._next in (None, report.cycle):
                self._next, self.says_later = report.cycle, True
                self._take(report.all_steps, self._later)
        for event in batch.cycle_events:
            if event.cycle == self.cycle:
                self._events[event.kind] = event
                if event.kind == self.batch_pb.CycleEvent.CLOSED:
                    self._is_closed = True
        if batch.HasField('losses') and not self._was_closed:
            self.losses = {k.activity: (k.dropped_ring_full + k.dropped_no_ring + k.dropped_uplink +
                                        k.dropped_cupti + k.dropped_limit, k.invalid)
                           for k in batch.losses.kinds}
        self._was_closed = self._is_closed
        for event in batch.cycle_events:
            if event.kind == self.batch_pb.CycleEvent.CLOSED and event.cycle < self.cycle:
                self.losses_before = dict(self.losses)

    def _calls(self, c):
        n = c.count
        begins, correlations = deltas(c.begin_delta, n), deltas(c.correlation_delta, n)
        columns = [column(x, n) for x in (c.duration_ns, c.name, c.thread, c.cls, c.domain)]
        for i in range(n):
            duration, name, thread, cls, domain = (x[i] for x in columns)
            self.calls.append(Call(begins[i], begins[i] + duration, correlations[i],
                                   self.text(name), thread, CLASSES[cls], domain))

    def _work(self, kind, s):
        n = s.count
        if n == 0:
            return
        lanes = list(zip(column(s.lanes.device, s.lanes.count), column(s.lanes.context, s.lanes.count),
                         column(s.lanes.stream, s.lanes.count)))
        starts, correlations = deltas(s.device_start_delta, n), deltas(s.correlation_delta, n)
        durations, lane = column(s.duration_ns, n), column(s.lane, n)
        graphs, flags = column(s.graph_id, n), column(s.flags, n)
        shapes = column(s.shape, n) if kind == 'kernel' else None
        sizes = column(s.bytes, n) if kind in ('copy', 'set') else [0] * n
        copy_kinds = column(s.copy_kind, n) if kind == 'copy' else [0] * n
        sources = column(s.source_kind, n) if kind == 'copy' else [0] * n
        targets = (column(s.target_kind, n) if kind == 'copy' else
                   column(s.memory_kind, n) if kind == 'set' else [0] * n)
        for i in range(n):
            if flags[i] & 7:  # no timing, unfinished or reversed: counted, never placed
                self.without_times.append((kind, correlations[i], flags[i]))
                continue
            name = self.text(s.shapes.name[shapes[i]]) if kind == 'kernel' else ''
            device, context, stream = lanes[lane[i]]
            self.work.append(Work(kind, starts[i], starts[i] + durations[i], correlations[i], device,
                                  context, stream, name, graphs[i], sizes[i], copy_kinds[i],
                                  sources[i], targets[i]))

    def _syncs(self, s):
        n = s.count
        starts, correlations = deltas(s.device_start_delta, n), deltas(s.correlation_delta, n)
        columns = [column(x, n) for x in (s.type, s.context, s.stream, s.flags)]
        for i in range(n):
            kind, context, stream, flags = (x[i] for x in columns)
            if not flags & 7:  # else it has no times that can be believed
                self.syncs.append(Sync(starts[i], correlations[i], kind, context,
                                       stream - 1 if stream else None))

    def _ranges(self, r):
        n = r.count
        at = deltas(r.host_delta, n)
        columns = [column(x, n) for x in (r.op, r.thread, r.name, r.domain, r.range_id)]
        for i in range(n):
            op, thread, name, domain, number = (x[i] for x in columns)
            name, domain = self.text(name), self.text(domain)
            if op == 1:
                self._open.setdefault((thread, domain), {})[number] = (at[i], name)
            elif op == 2:
                begin = self._open.get((thread, domain), {}).pop(number, None)
                if begin is not None:
                    self.ranges.append(Range(begin[0], at[i], begin[1], domain, thread, number, False))
            elif op == 3:
                self._started[number] = (at[i], name, domain, thread)
            elif op == 4 and number in self._started:
                begin, name, domain, thread = self._started.pop(number)
                self.ranges.append(Range(begin, at[i], name, domain, thread, 0, True))
            elif op == 5:
                self.marks.append((at[i], name, thread))

    def open_ranges(self):
        for (thread, domain), stack in self._open.items():
            for depth, (begin, name) in stack.items():
                yield Range(begin, None, name, domain, thread, depth, False)
        for begin, name, domain, thread in self._started.values():
            yield Range(begin, None, name, domain, thread, 0, True)

    def _steps(self, s):
        n = s.count
        columns = [column(x, n) for x in (s.index, s.process_index, s.phase, s.cycle, s.begin_ns,
                                          s.end_ns, s.flags, s.thread)]
        for i in range(n):
            index, process_index, phase, cycle, begin, end, flags, thread = (x[i] for x in columns)
            if begin <= end and end and not flags & 4:
                self._known[process_index] = end - begin
            self._first_steps[cycle] = min(process_index, self._first_steps.get(cycle, process_index))
            if cycle != self.cycle or phase != self.batch_pb.PHASE_ACTIVE:
                continue
            before = self.steps.get(process_index, {})
            self.steps[process_index] = {
                'index': index, 'process_index': process_index, 'begin': begin, 'end': end or before.get('end', 0),
                'complete': not flags & 4, 'tracer': bool(flags & 1), 'partial': bool(flags & 2),
                'thread': thread}

    # Device stamps on the session's clock: straight lines between the samples of both clocks.
    def to_host(self, real):
        if self._pairs is None:
            pairs = sorted(self.samples)
            narrowest = min(bracket for _, _, bracket in pairs)
            good = [p for p in pairs if p[2] <= max(2000, 8 * narrowest)]
            self._pairs = good if len(pairs) >= 3 and len(good) >= 2 else pairs
        pairs = self._pairs
        if real < pairs[0][1]:
            return real - pairs[0][1] + pairs[0][0]
        for (host, stamp, _), (next_host, next_stamp, _) in zip(pairs, pairs[1:]):
            if stamp <= real < next_stamp:
                offset, next_offset = stamp - host, next_stamp - next_host
                part = (real - stamp) / (next_stamp - stamp)
                return real - offset - round((next_offset - offset) * part)
        return real - pairs[-1][1] + pairs[-1][0]
