"""Reads a .pftrace with `protoc --decode` and our subset of the schema, and checks its rules.

No code of ours decodes: protoc does. Fields that the subset does not know make the reading fail.
"""
import os
import re
import subprocess

LINE = re.compile(r'^\s*(?:(\w+) \{|(\w+): (.*)|(\}))$')


def decode(protoc, path):
    here = os.path.dirname(os.path.abspath(__file__))
    with open(path, 'rb') as file:
        done = subprocess.run([protoc, '-I', here, '--decode=subset.Trace', 'perfetto_subset.proto'],
                              cwd=here, stdin=file, capture_output=True, check=True)
    stack = [{}]
    for line in done.stdout.decode('ascii').splitlines():
        match = LINE.match(line)
        assert match, line
        opened, key, value, closed = match.groups()
        name = opened or key
        assert closed or not name.isdigit(), f'{path}: unknown field {line.strip()}'
        if opened:
            stack[-1].setdefault(opened, []).append({})
            stack.append(stack[-1][opened][-1])
        elif closed:
            stack.pop()
        else:
            stack[-1].setdefault(key, []).append(text(value) if value[0] == '"' else value)
    assert len(stack) == 1
    return stack[0].get('packet', [])


def text(quoted):
    raw = re.sub(rb'\\([0-7]{3}|.)', unescape, quoted[1:-1].encode('ascii'))
    return raw.decode('utf-8', 'surrogateescape')


def unescape(match):
    code = match.group(1)
    if len(code) == 3:
        return bytes([int(code, 8)])
    return {b'n': b'\n', b'r': b'\r', b't': b'\t'}.get(code, code)


def one(message, key, default=None):
    return message.get(key, [default])[0]


class Trace:
    """Slices and render stages with their names resolved."""

    def __init__(self, protoc, path):
        self.slices, self.stages, self.instants, self.counters = [], [], [], []
        self.tracks, self.interned, self.snapshots, self.is_lossy = {}, {}, [], False
        self.open, sequences, self.gpus = {}, set(), []
        for packet in decode(protoc, path):
            sequence = one(packet, 'trusted_packet_sequence_id')
            flags = int(one(packet, 'sequence_flags', 0))
            assert sequence in sequences or flags & 1, 'a sequence begins with a cleared state'
            sequences.add(sequence)
            if flags & 1:
                self.interned = {}
            self.is_lossy |= 'previous_packet_dropped' in packet
            self.take(packet)
        assert all(not ends for ends in self.open.values()), 'begin and end are balanced'
        self.check()

    def take(self, packet):
        for space, entries in one(packet, 'interned_data', {}).items():
            for entry in entries:
                known = self.interned.setdefault(space, {})
                assert one(entry, 'iid') not in known, 'an iid is given once'
                known[one(entry, 'iid')] = entry
        at = int(one(packet, 'timestamp', 0))
        if 'clock_snapshot' in packet:
            clocks = one(packet, 'clock_snapshot')['clocks']
            self.snapshots.append({one(c, 'clock_id'): int(one(c, 'timestamp')) for c in clocks})
        if 'track_descriptor' in packet:
            track = one(packet, 'track_descriptor')
            assert one(track, 'uuid') not in self.tracks
            parent = one(track, 'parent_uuid')
            assert parent is None or parent in self.tracks, 'parents come first'
            self.tracks[one(track, 'uuid')] = track
        self.gpus += one(packet, 'gpu_info', {}).get('gpus', [])
        if 'track_event' in packet:
            self.track_event(at, one(packet, 'track_event'))
        if 'gpu_render_stage_event' in packet:
            self.stages.append(self.stage(at, one(packet, 'gpu_render_stage_event')))

    def name(self, space, iid):
        return one(self.interned[space][iid], 'name', '')

    def track_event(self, at, event):
        kind, track = one(event, 'type'), one(event, 'track_uuid')
        assert track in self.tracks, 'an event lies on a known track'
        if kind == '4':
            return self.counters.append((track, at, int(one(event, 'counter_value'))))
        if kind == '2':
            begun = self.open[track].pop()
            assert at >= begun['begin']
            begun['end'] = at
            return self.slices.append(begun)
        correlation = one(event, 'gpu_correlation', {})
        item = {'begin': at, 'category': self.name('event_categories', one(event, 'category_iids')),
                'name': self.name('event_names', one(event, 'name_iid')), 'track': track,
                'work': correlation.get('render_stage_submission_event_ids', [])}
        if 'callstack_iid' in event:
            item['stack'] = self.stack(one(event, 'callstack_iid'))
        for annotation in event.get('debug_annotations', []):
            item[self.name('debug_annotation_names', one(annotation, 'name_iid'))] = one(
                annotation, 'uint_value')
        if kind == '3':
            return self.instants.append(item)
        assert kind == '1'
        return self.open.setdefault(track, []).append(item)

    def stack(self, iid):
        """Frames, outermost first: function, source, line, module, build id, address."""
        frames = []
        for frame_id in self.interned['callstacks'][iid]['frame_ids']:
            frame = self.interned['frames'][frame_id]
            mapping = self.interned['mappings'][one(frame, 'mapping_id')]

            def bytes_of(space, message, key):
                iid = one(message, key)
                return '' if iid is None else one(self.interned[space][iid], 'str')
            build_id = bytes_of('build_ids', mapping, 'build_id').encode('utf-8', 'surrogateescape')
            frames.append([bytes_of('function_names', frame, 'function_name_id'),
                           bytes_of('source_paths', frame, 'source_path_iid'),
                           int(one(frame, 'line_number', 0)),
                           bytes_of('mapping_paths', mapping, 'path_string_ids'), build_id.hex(),
                           int(one(frame, 'rel_pc', 0))])
        return frames

    def stage(self, at, event):
        launch = one(event, 'launch')
        args = {self.name('compute_arg_names', one(a, 'name_iid')): int(one(a, 'uint_value'))
                for a in launch['args']}
        if 'grid_size' in launch:
            grid, block = one(launch, 'grid_size'), one(launch, 'workgroup_size')
            product = [int(one(d, 'x')) * int(one(d, 'y')) * int(one(d, 'z')) for d in (grid, block)]
            assert [args['grid_size'], args['workgroup_size']] == product
        context = self.interned['graphics_contexts'][one(event, 'context')]
        assert one(context, 'api') == '4'
        assert one(event, 'hw_queue_iid') in self.interned['gpu_specifications']
        assert args['device'] == int(one(event, 'gpu_id'))
        name = self.name('event_names', one(event, 'name_iid'))
        if 'kernel_iid' in event:
            kernel = self.interned['compute_kernels'][one(event, 'kernel_iid')]
            assert name == one(kernel, 'demangled_name', one(kernel, 'name'))
        return {'begin': at, 'end': at + int(one(event, 'duration')), 'id': one(event, 'event_id'),
                'stage': self.name('gpu_specifications', one(event, 'stage_iid')), 'name': name,
                'args': args}

    def check(self):
        ids = [stage['id'] for stage in self.stages]
        assert len(set(ids)) == len(ids), 'event ids are unique'
        submitted = [event for item in self.slices for event in item['work']]
        assert set(submitted) <= set(ids) and len(set(submitted)) == len(submitted)
        first, last = self.snapshots[0]['64'], self.snapshots[-1]['64']
        for item in self.slices + self.stages:
            assert first <= item['begin'] <= item['end'] <= last, 'stamps lie between the snapshots'
        self.check_nesting()

    def check_nesting(self):
        by_track = {}
        for item in self.slices:
            by_track.setdefault(item['track'], []).append((item['begin'], -item['end']))
        for items in by_track.values():
            ends = []
            for begin, end in sorted(items):
                while ends and ends[-1] <= begin:
                    ends.pop()
                assert not ends or -end <= ends[-1], 'slices of a track nest'
                ends.append(-end)

    def sums(self):
        """kind, device, stream, name -> count, ns"""
        kinds = {'Kernel': 'kernel', 'Memcpy': 'memcpy', 'Memset': 'memset', 'CUDA graph': 'graph'}
        hosts = {'cuda_runtime': 'call', 'cuda_driver': 'call', 'cuda_sync': 'sync',
                 'user_annotation': 'range'}
        for s in self.stages:
            yield (kinds[s['stage']], s['args']['device'], s['args']['stream'], s['name'],
                   s['end'] - s['begin'])
        for s in self.slices:
            if s['category'] in hosts:
                yield hosts[s['category']], -1, -1, s['name'], s['end'] - s['begin']
