"""Where the host was while a device had no work, piece by piece: a part of brute_force.py."""
import collections

from brute_intervals import both, length, union


class IdleCheck:
    """Of BruteForce, whose records and comparisons it uses."""

    def known_from(self):
        """When the first step's work had begun on each of its streams."""
        first = {}
        for item in self.items:
            if item.step == self.items[0].step and (item.step is not None or not first):
                first.setdefault(item.work[4:7], item.begin)
        return max(first.values())

    def host_thread(self):
        if self.raw.hello.step_source.startswith('nvtx'):
            return (collections.Counter(s['thread'] for s in self.steps).most_common(1)[0][0],
                    'runs the steps')
        launching = collections.Counter(c.thread for c in self.calls if c.cls in (
            'launch', 'graph_launch', 'memcpy', 'memset'))
        return launching.most_common(1)[0][0], 'makes most launch calls'

    def waits_for(self, call):
        if call is None:
            return None
        for sync in sorted(self.raw.syncs, key=lambda s: s.begin):
            if sync.correlation != call.correlation:
                continue
            begin = self.raw.to_host(sync.begin)
            same = [c for c in self.raw.calls if c.correlation == call.correlation]
            same.sort(key=lambda c: c.begin)
            if ([c for c in same if c.begin <= begin + 1_000_000] or same[:1])[-1] is not call:
                continue
            device = self.raw.contexts.get(sync.context)
            where = '' if device is None else 'GPU %d' % device
            if sync.type == 1:
                return 'an event'
            if sync.type == 4:
                return 'all of ' + where if where else 'a context'
            if sync.type == 3 and sync.stream is not None:
                return ('%s stream %d' % (where, sync.stream)).strip()
        return None

    def check_idle(self):
        theirs, slack = self.summary['idle'], 2 * len(self.items)
        if theirs is None or not self.items:
            return self.same('why no idle time', True,
                             'idle' in self.summary['absent'] or theirs['rows'] == [])
        thread, why = self.host_thread()
        ranges = [r for r in self.ranges if r[0].thread == thread]
        calls = [c for c in self.calls if c.thread == thread]
        left_out = [(self.steps[i]['begin'], self.steps[i]['end']) for i in self.left_out()]
        window, start = [(self.begin, self.end)], min(max(self.begin, self.known_from()), self.end)
        unknown = [(self.begin, start)]
        known = length(window) - length(left_out + unknown)
        tid, name = self.raw.threads[thread]
        self.same_row('idle.thread', {'tid': tid, 'name': name, 'why': why}, theirs['thread'])
        self.same('idle.looked_at_ns', known, theirs['looked_at_ns'], slack)
        self.same('idle.steps_left_out', len(left_out), theirs['steps_left_out'])
        self.same('idle.left_out_ns', length(left_out), theirs['left_out_ns'])
        self.same('idle.not_known_ns', length(unknown) - both(unknown, left_out),
                  theirs['not_known_ns'], slack)
        edges = sorted({x for r in ranges for x in r[1:3]} | {x for c in calls for x in c[:2]} |
                       {s[key] for s in self.steps for key in ('begin', 'end')})
        waits, rows = {}, collections.Counter()
        outside, devices = collections.Counter(), []
        for device in sorted({i.work.device for i in self.items}):
            busy = [i.interval for i in self.items if i.work.device == device]
            taken = union(busy + left_out + unknown)
            cuts = sorted({self.begin, self.end} | {x for part in taken for x in part} | set(edges))
            for at, until in zip(cuts, cuts[1:]):
                if not self.begin <= at < self.end or any(b <= at < e for b, e in taken):
                    continue
                open_ranges = [r for r in ranges if r[1] <= at < r[2]]
                inner = max(open_ranges, key=lambda r: (r[1], -r[2], r[0].depth), default=None)
                call = max((c for c in calls if c.begin <= at < c.end),
                           key=lambda c: (c.begin, -c.end), default=None)
                if call is not None and call not in waits:
                    waits[call] = self.waits_for(call)
                key = (device, inner and inner[0].name, inner and inner[0].domain,
                       call and call.name, call and waits[call])
                rows[key] += until - at
                if self.step_at(at) is None:
                    outside[key] += until - at
            devices.append({'ordinal': device,
                            'idle_ns': sum(ns for key, ns in rows.items() if key[0] == device),
                            'outside_steps_ns': sum(ns for key, ns in outside.items()
                                                    if key[0] == device)})
        self.same_table('idle.devices', devices, theirs['devices'], lambda r: r['ordinal'], slack)
        found = collections.Counter()
        for row in theirs['rows']:
            key = tuple(row[k] for k in ('device', 'range', 'domain', 'call', 'waits_for'))
            self.same('idle%s' % (key,), rows[key], row['idle_ns'], slack)
            self.same('idle outside%s' % (key,), outside[key], row['outside_steps_ns'], slack)
            of = next(d for d in theirs['devices'] if d['ordinal'] == row['device'])['idle_ns']
            self.same('share%s' % (key,), row['idle_ns'] / of, row['share_of_idle'])
            found[row['device']] += row['idle_ns']
            rows.pop(key, None)
        for key, ns in rows.items():  # what is shorter than the clocks' rounding may be there or not
            self.same('idle%s has no row' % (key,), ns, 0, slack)
        for device in theirs['devices']:
            self.same('sum of idle rows', found[device['ordinal']], device['idle_ns'])
        return None
