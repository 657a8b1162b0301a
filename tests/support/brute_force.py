#!/usr/bin/env python3
"""Computes every figure of summary.json again, slowly and from the raw records, and compares.

    brute_force.py SESSION CYCLE        a session's folder and the number of one of its cycles

Nothing here is clever: intervals are merged pairwise, every range is held against every call. Sums
of device time may differ by 2 ns a record, since both sides round the clock's mapping; all other
figures must be equal. A key of the summary that is not checked here is an error, so that no figure
can be added without a check. Not recomputed: the wording of readings, and what only the agent
measured (callbacks, memory), which is compared with its own report.
"""
import collections
import itertools
import json
import math
import os
import statistics
import sys

import raw_records
from brute_idle import IdleCheck
from brute_intervals import both, length

COPY_KINDS = {1: 'HtoD', 2: 'DtoH', 3: 'HtoA', 4: 'AtoH', 5: 'AtoA', 6: 'AtoD', 7: 'DtoA', 8: 'DtoD',
              9: 'HtoH', 10: 'PtoP'}
# Two clocks are set against each other with this much rounding.
CLOCK_SLACK_NS = 2
MEMORY_KINDS = {1: 'Pageable', 2: 'Pinned', 3: 'Device', 4: 'Array', 5: 'Managed',
                6: 'Device Static', 7: 'Managed Static'}


def is_collective(name):
    name = name[5:] if name.startswith('void ') else name
    return name.startswith(('nccl', 'rccl', 'nvshmem'))


def queue(launched, later=0):
    """The mean and the greatest length of the queue, were every piece of work `later` ns later."""
    changes = sorted([(i.call.begin, 0, 1) for i in launched] +
                     [(i.begin + later, 1, -1) for i in launched])
    lengths = list(itertools.accumulate(by for _, _, by in changes))
    return statistics.fmean(lengths or [0]), max(0, *lengths, 0)


def median(values):
    if not values:
        return None
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return ordered[middle - 1] + (ordered[middle] - ordered[middle - 1]) // 2


def distribution(values, count_key='steps'):
    ordered = sorted(values)
    return {count_key: len(ordered), 'median_ns': median(ordered),
            'min_ns': ordered[0] if ordered else None, 'max_ns': ordered[-1] if ordered else None,
            'p90_ns': ordered[math.ceil(len(ordered) * 0.9) - 1] if len(ordered) >= 20 else None}


def median_bounds(values):
    """The innermost pair of order statistics that holds the median in 95 % of samples, or all."""
    n, ordered = len(values), sorted(values)
    def coverage(k):
        return 1 - 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2 ** n
    k = 0
    while 2 * (k + 2) < n and coverage(k + 1) >= 0.95:
        k += 1
    return ordered[k], ordered[n - 1 - k], coverage(k)


class Item:
    """Device work on the session's clock, with its call and step."""

    def __init__(self, work, begin, end, call, step):
        self.work, self.begin, self.end, self.call, self.step = work, begin, end, call, step

    @property
    def ns(self):
        return self.end - self.begin

    @property
    def interval(self):
        return self.begin, self.end

    @property
    def what(self):
        if self.work.kind == 'kernel':
            return 'collective' if is_collective(self.work.name) else 'compute'
        return {'copy': 'copy', 'set': 'copy', 'graph': 'compute'}[self.work.kind]


class BruteForce(IdleCheck):
    def __init__(self, session, cycle):
        with open(os.path.join(session, 'cycle-%04d' % cycle, 'summary.json'), encoding='utf-8') as f:
            self.summary = json.load(f)
        with open(os.path.join(session, 'cycle-%04d' % cycle, 'manifest.json'), encoding='utf-8') as f:
            self.manifest = json.load(f)
        self.raw = raw_records.Session(os.path.join(session, 'raw.steps'), cycle)
        self.problems, self.checked = [], 0
        self.steps = sorted(self.raw.steps.values(), key=lambda s: s['begin'])
        self.begin, self.end = self.steps[0]['begin'], self.steps[-1]['end']
        self.place()

    # --- what belongs to the cycle
    def step_at(self, at):
        for i, step in enumerate(self.steps):
            if step['begin'] <= at < step['end']:
                return i
        return None

    def place(self):
        calls = sorted(self.raw.calls, key=lambda c: (c.begin, -c.end))
        self.calls = [c for c in calls if self.begin <= c.begin < self.end]
        by_correlation = collections.defaultdict(list)
        for call in calls:
            by_correlation[call.correlation].append(call)
        self.items = []
        for work in self.raw.work:
            begin, end = self.raw.to_host(work.begin), self.raw.to_host(work.end)
            candidates = by_correlation.get(work.correlation, []) if work.correlation else []
            earlier = [c for c in candidates if c.begin <= begin + 1_000_000] or candidates[:1]
            call = earlier[-1] if earlier else None
            if call is not None and not self.begin <= call.begin < self.end:
                continue
            if call is None and not self.begin <= begin < self.end:
                continue
            step = None if call is None else self.step_at(call.begin)
            self.items.append(Item(work, begin, end, call, step))
        self.items.sort(key=lambda i: i.begin)
        self.place_ranges()
        self.whole = [i for i, s in enumerate(self.steps)
                      if s['complete'] and not s['tracer'] and not s['partial']]

    def place_ranges(self):
        ranges = [[r, r.begin, r.end] for r in self.raw.ranges]
        ranges += [[r, r.begin, None] for r in self.raw.open_ranges()]
        source = self.raw.hello.step_source
        if source.startswith('nvtx'):
            name = source[5:].split('@')[0] if source.startswith('nvtx:') else None
            for step in self.steps:
                near = [x for x in ranges if x[0].thread == step['thread'] and x[2] is not None and
                        -1_000_000 <= x[1] - step['begin'] <= 200_000_000 and
                        x[2] > step['begin'] and name in (None, x[0].name)]
                if not near:
                    continue
                own = min(near, key=lambda x: (abs(x[1] - step['begin']), x[0].depth))
                own[1] = step['begin']
                if abs(own[2] - step['end']) <= 1_000_000:
                    own[2] = step['end']
        self.ranges = []
        for record, begin, end in ranges:
            later = end is None or end > self.end
            inside = begin < self.end and (later or end > self.begin)
            if inside or (begin == end and self.begin <= begin < self.end):
                self.ranges.append((record, max(begin, self.begin), self.end if later else end,
                                    begin < self.begin or later))

    # --- comparing
    def same(self, what, ours, theirs, slack=0):
        self.checked += 1
        if isinstance(ours, float) and isinstance(theirs, (int, float)):
            if math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-9 + slack):
                return
        elif isinstance(ours, int) and isinstance(theirs, int) and not isinstance(ours, bool):
            if abs(ours - theirs) <= slack:
                return
        elif ours == theirs:
            return
        self.problems.append('%s: %r, recomputed %r' % (what, theirs, ours))

    def same_row(self, what, ours, theirs, slack=0):
        if theirs is None or ours is None:
            return self.same(what, ours, theirs)
        for key in sorted(set(ours) | set(theirs)):
            if isinstance(ours.get(key), dict):
                self.same_row('%s.%s' % (what, key), ours[key], theirs.get(key), slack)
            elif key not in ours:
                self.problems.append('%s.%s: not checked' % (what, key))
            else:
                self.same('%s.%s' % (what, key), ours[key], theirs.get(key), slack)
        return None

    def same_table(self, what, ours, theirs, key, slack=0):
        """`slack` in ns for each record of a row."""
        mine = {key(row): row for row in ours}
        others = {key(row): row for row in theirs}
        self.same(what + ' names', sorted(map(str, mine)), sorted(map(str, others)))
        for name in mine.keys() & others.keys():
            count = max(mine[name].get('count', 1), 1)
            self.same_row('%s[%s]' % (what, name), mine[name], others[name], slack * count)

    # --- the tables
    def per_step(self, rows):
        if not self.whole:
            return None
        totals = [sum(ns for step, ns in rows if step == i) for i in self.whole]
        return {'count': sum(1 for step, _ in rows if step in self.whole), 'total_ns': sum(totals),
                'min_ns': min(totals), 'max_ns': max(totals)}

    @staticmethod
    def spread(values):
        total, count = sum(values), len(values)
        return {'count': count, 'total_ns': total, 'mean_ns': (total + count // 2) // count,
                'min_ns': min(values), 'max_ns': max(values)}

    def check_steps(self):
        theirs = self.summary['steps']
        each = []
        for i, step in enumerate(self.steps):
            mine = [x for x in self.items if x.step == i]
            # Collection came on within it, or after: nobody counted all of it.
            counted = (lambda number: None) if step['partial'] else (lambda number: number)
            exposed = 0
            for device in {x.work.device for x in mine}:
                theirs_alone = [x.interval for x in mine
                                if x.work.device == device and x.what == 'collective']
                compute = [x.interval for x in self.items
                           if x.work.device == device and x.what == 'compute']
                exposed += length(theirs_alone) - both(theirs_alone, compute)
            each.append({
                'index': step['index'], 'process_index': step['process_index'],
                'begin_ns': step['begin'],
                'wall_ns': step['end'] - step['begin'], 'exposed_collective_ns': counted(exposed),
                'device_ns': counted(length([x.interval for x in mine])),
                'launches': counted(sum(1 for c in self.calls if self.step_at(c.begin) == i and
                                        c.cls in ('launch', 'graph_launch'))),
                'kernels': counted(sum(1 for x in mine if x.work.kind == 'kernel')),
                'copies': counted(sum(1 for x in mine if x.work.kind == 'copy')),
                'complete': step['complete'], 'ended': step['complete'],
                'contains_tracer_start': step['tracer'],
                'partial': step['partial']})
        for row, other in zip(each, theirs['each']):
            self.same_row('steps[%d]' % row['index'], row, other, 2 * len(self.items))
        walls = [s['end'] - s['begin'] for s in self.steps if s['complete'] and not s['tracer']]
        mine = distribution(walls, 'counted')
        mine['count'] = len(self.steps)
        self.same_row('steps', mine, {k: v for k, v in theirs.items() if k != 'each'})
        self.same('number of steps', len(each), len(theirs['each']))

    def check_devices(self):
        rows = []
        for device in sorted({i.work.device for i in self.items}):
            mine = [i for i in self.items if i.work.device == device]
            begin, end = min(i.begin for i in mine), max(i.end for i in mine)
            of = collections.defaultdict(list)
            for item in mine:
                of['busy'].append(item.interval)
                of[item.what].append(item.interval)
            busy = length(of['busy'])
            info = self.raw.devices.get(device)
            uuid = None
            if info is not None and len(info.uuid) == 16:
                text = info.uuid.hex()
                uuid = 'GPU-' + '-'.join([text[:8], text[8:12], text[12:16], text[16:20], text[20:]])
            rows.append({
                'ordinal': device, 'name': info.name.decode() if info is not None else None,
                'uuid': uuid,
                'device_span': {'begin_ns': begin, 'end_ns': end, 'dur_ns': end - begin},
                'busy_ns': busy, 'idle_ns': end - begin - busy, 'compute_ns': length(of['compute']),
                'copy_ns': length(of['copy']), 'collective_ns': length(of['collective']),
                'exposed_collective_ns':
                    length(of['collective']) - both(of['collective'], of['compute']),
                'overlap_ns': both(of['compute'], of['copy']),
                'busy_in_window_ns': both(of['busy'], [(self.begin, self.end)]),
                'launched_outside_steps_ns': length([i.interval for i in mine if i.step is None]),
                'launched_outside_ranges_ns': length([i.interval for i in mine
                                                      if i.call is None or not any(
                                                          r.thread == i.call.thread and
                                                          b <= i.call.begin < e
                                                          for r, b, e, _ in self.ranges)])})
        self.same_table('devices', rows, self.summary['devices'], lambda r: r['ordinal'],
                        2 * len(self.items))

    def check_kernels(self):
        by_name = collections.defaultdict(list)
        for item in self.items:
            if item.work.kind == 'kernel':
                by_name[item.work.name].append(item)
        all_busy = sum(length([i.interval for i in self.items if i.work.device == d])
                       for d in {i.work.device for i in self.items})
        rows = []
        for name, mine in by_name.items():
            busy = sum(length([i.interval for i in mine if i.work.device == d])
                       for d in {i.work.device for i in mine})
            rows.append({'name': name, **self.spread([i.ns for i in mine]),
                         'share_of_busy': busy / all_busy, 'collective': is_collective(name),
                         'per_step': self.per_step([(i.step, i.ns) for i in mine])})
        self.same_table('kernels', rows, self.summary['kernels'], lambda r: r['name'], 2)
        graphs = [i for i in self.items if i.work.kind == 'graph']
        self.same_row('graph_launches', {'count': len(graphs), 'total_ns': sum(i.ns for i in graphs)},
                      self.summary['graph_launches'], 2 * len(graphs))
        # Streams run in order: a kernel that sixteen later ones of its stream overtake is corrupt.
        lanes = collections.defaultdict(list)
        for item in self.items:
            if item.work.kind == 'kernel':
                lanes[item.work[4:7]].append(item)
        for mine in lanes.values():
            for place, item in enumerate(mine):
                over = sum(1 for later in mine[place + 1:place + 17] if later.begin < item.end)
                if over >= 16 and not item.work.graph:
                    self.problems.append('a corrupt kernel: not for this check')
        self.same('set_aside', [], self.summary['set_aside'])

    def check_calls(self):
        by_name = collections.defaultdict(list)
        waits = collections.defaultdict(list)
        for call in self.calls:
            ns = call.end - call.begin
            by_name[call.name, 'driver' if call.domain == 1 else 'runtime'].append(
                (self.step_at(call.begin), ns))
            if call.cls == 'sync':
                waits[call.name].append(ns)
        rows = [{'name': name, 'domain': domain, **self.spread([ns for _, ns in mine]),
                 'per_step': self.per_step(mine)} for (name, domain), mine in by_name.items()]
        self.same_table('calls', rows, self.summary['calls'], lambda r: (r['name'], r['domain']))
        rows = [{'name': n, 'count': len(v), 'total_ns': sum(v)} for n, v in waits.items()]
        self.same_table('waits', rows, self.summary['waits'], lambda r: r['name'])

    def check_copies(self):
        copies, sets = collections.defaultdict(list), collections.defaultdict(list)
        for item in self.items:
            work = item.work
            if work.kind == 'copy':
                copies[COPY_KINDS.get(work.copy_kind, 'Unknown'),
                       MEMORY_KINDS.get(work.source, 'Unknown'),
                       MEMORY_KINDS.get(work.target, 'Unknown')].append(item)
            elif work.kind == 'set':
                sets[MEMORY_KINDS.get(work.target, 'Unknown')].append(item)
        rows = [{'direction': d, 'source': s, 'target': t, 'count': len(mine),
                 'bytes': sum(i.work.bytes for i in mine), 'total_ns': sum(i.ns for i in mine),
                 'per_step': self.per_step([(i.step, i.ns) for i in mine])}
                for (d, s, t), mine in copies.items()]
        self.same_table('copies', rows, self.summary['copies'],
                        lambda r: (r['direction'], r['source'], r['target']), 2)
        rows = [{'memory': m, 'count': len(mine), 'bytes': sum(i.work.bytes for i in mine),
                 'total_ns': sum(i.ns for i in mine)} for m, mine in sets.items()]
        self.same_table('sets', rows, self.summary['sets'], lambda r: r['memory'], 2)

    def self_time(self, index):
        """A push/pop range's length without its direct children."""
        record, begin, end, _ = self.ranges[index]
        if record.is_start_end:
            return end - begin
        own = end - begin
        stack = [(i, r) for i, r in enumerate(self.ranges)
                 if r[0].thread == record.thread and not r[0].is_start_end]
        order = sorted(stack, key=lambda x: (x[1][1], -x[1][2], x[1][0].depth))
        place = {i: n for n, (i, _) in enumerate(order)}
        for i, other in stack:
            if place[i] <= place[index] or other[1] >= end:
                continue
            parents = [(place[j], j) for j, p in stack if place[j] < place[i] and p[2] > other[1]]
            if parents and max(parents)[1] == index:
                own -= max(0, min(other[2], end) - other[1])
        return own

    def level(self, index):
        """How many push/pop ranges of its thread lie around it, parent by parent."""
        record, begin, end, _ = self.ranges[index]
        if record.is_start_end:
            return 0
        key = lambda i, r: (r[1], -r[2], r[0].depth, i)
        around = [(key(i, r), i) for i, r in enumerate(self.ranges)
                  if r[0].thread == record.thread and not r[0].is_start_end and r[2] > begin
                  and key(i, r) < key(index, self.ranges[index])]
        return 1 + self.level(max(around)[1]) if around else 0

    def check_ranges(self):
        names = collections.defaultdict(list)
        for index, (record, _, _, _) in enumerate(self.ranges):
            names[record.name, record.domain].append(index)
        rows = []
        for (name, domain), indices in names.items():
            total = launch = wait = calls = cut = own = 0
            under, extents = [], []
            for index in indices:
                record, begin, end, is_cut = self.ranges[index]
                total, cut, own = total + end - begin, cut + is_cut, own + self.self_time(index)
                inside = [c for c in self.calls
                          if c.thread == record.thread and begin <= c.begin < end]
                calls += len(inside)
                wait += sum(min(c.end, end) - c.begin for c in inside if c.cls == 'sync')
                launch += sum(min(c.end, end) - c.begin for c in inside if c.cls != 'sync')
                held = {id(c) for c in inside}
                mine = [i.interval for i in self.items if id(i.call) in held]
                under += mine
                if mine:
                    extents.append((min(b for b, _ in mine), max(e for _, e in mine)))
            rows.append({'name': name, 'domain': domain, 'count': len(indices), 'total_ns': total,
                         'self_ns': own, 'launch_ns': launch, 'wait_ns': wait,
                         'other_ns': total - launch - wait, 'device_ns': length(under),
                         'projected_ns': length(extents), 'calls': calls, 'cut': cut,
                         'level': min(self.level(index) for index in indices)})
        self.same_table('ranges', rows, self.summary['ranges'], lambda r: (r['name'], r['domain']),
                        2 * max(1, len(self.items)))

    def check_lanes(self):
        lanes = collections.defaultdict(list)
        for item in self.items:
            lanes[item.work[4:7]].append(item)
        rows, queues = [], []
        self.queue_bounds = {}
        for (device, context, stream), mine in lanes.items():
            kinds = collections.Counter(i.work.kind for i in mine)
            head = {'name': 'GPU %d stream %d' % (device, stream), 'device': device,
                    'context': context, 'stream': stream}
            rows.append({**head, 'count': len(mine), 'kernels': kinds['kernel'],
                         'copies': kinds['copy'], 'sets': kinds['set'],
                         'graph_launches': kinds['graph'],
                         'total_ns': length([i.interval for i in mine])})
            launched = [i for i in mine if i.call is not None]
            mean, longest = queue(launched)
            if launched:
                queues.append({**head, 'changes': 2 * len(launched), 'max': longest, 'mean': mean})
                self.queue_bounds[head['name']] = (queue(launched, -CLOCK_SLACK_NS),
                                                   queue(launched, CLOCK_SLACK_NS))
        self.same_table('streams', rows, self.summary['streams'], lambda r: r['name'], 2)
        launched = [i for i in self.items if i.call is not None]
        delays = [max(0, i.begin - i.call.end) for i in launched]
        spread = distribution(delays)
        del spread['steps']
        mine = {'count': len(launched), 'call_ns': sum(i.call.end - i.call.begin for i in launched),
                'device_ns': sum(i.ns for i in launched),
                'delay': {'total_ns': sum(delays), **spread}}
        theirs = self.summary['launches']
        self.same_row('launches', mine, {k: v for k, v in theirs.items() if k != 'queues'},
                      2 * len(launched))
        self.same_table('queues', [self.within_bounds(row, theirs['queues']) for row in queues],
                        theirs['queues'], lambda r: r['name'])

    def within_bounds(self, row, theirs):
        """A call and another call's work that begin within the clocks' rounding of each other may
        be counted either way round: a figure between the two extremes is right."""
        (least, least_max), (most, most_max) = self.queue_bounds[row['name']]
        for other in theirs:
            if other['name'] == row['name']:
                row = {**row, 'mean': min(max(other['mean'], least), most),
                       'max': min(max(other['max'], least_max), most_max)}
        return row

    def check_threads(self):
        rows = {}
        for call in self.calls:
            tid, name = self.raw.threads[call.thread]
            row = rows.setdefault(tid, {'name': name, 'tid': tid, 'count': 0, 'ranges': 0,
                                        'launch_ns': 0, 'wait_ns': 0, 'total_ns': 0})
            row['count'] += 1
            row['wait_ns' if call.cls == 'sync' else 'launch_ns'] += call.end - call.begin
            row['total_ns'] += call.end - call.begin
        for record, _, _, _ in self.ranges:
            tid, name = self.raw.threads[record.thread]
            rows.setdefault(tid, {'name': name, 'tid': tid, 'count': 0, 'ranges': 0, 'launch_ns': 0,
                                  'wait_ns': 0, 'total_ns': 0})['ranges'] += 1
        self.same_table('threads', list(rows.values()), self.summary['threads'], lambda r: r['tid'])

    def check_cost(self):
        report, theirs = self.raw.report, self.summary['cost']
        # Slices of the clock are compared with nothing.
        is_clock = self.raw.hello.step_source.startswith('every:')
        every = [] if is_clock else sorted(self.raw.step_durations)
        # What came behind the cycle is known once a later report or the goodbye told it.
        later = [] if is_clock else sorted(self.raw.later_durations)
        until = self.raw.later_until
        first = min(s['process_index'] for s in self.steps)
        last = max(s['process_index'] for s in self.steps)
        before = [ns for i, ns, c in later if c == 0 and i < first]
        behind = [(i, ns) for i, ns, c in later if c == 0 and i > last and (until is None or i < until)]
        after = [ns for _, ns in behind]
        active = [s['end'] - s['begin'] for s in self.steps
                  if s['complete'] and not s['tracer'] and not is_clock]
        others = [ns for i, ns, c in later if c == 0 and i != 0 and i < first] + after
        ratio = {'value': None, 'low': None, 'high': None, 'coverage': None}
        if len(active) >= 3 and len(others) >= 3:
            low_a, high_a, cover_a = median_bounds(active)
            low_b, high_b, cover_b = median_bounds(others)
            ratio = {'value': median(active) / median(others), 'low': low_a / high_b,
                     'high': high_a / low_b, 'coverage': max(0.0, cover_a + cover_b - 1)}
        for name, values in (('before', before), ('active', active), ('after', after)):
            self.same('cost.%s is told or said why not' % name, not values,
                      isinstance(theirs[name].pop('reason'), str))
        self.same_row('cost.ratio', ratio, {k: v for k, v in theirs['ratio'].items() if k != 'reason'})
        own = report.cost
        mine = {'before': distribution(before), 'active': distribution(active),
                'after': distribution(after), 'callbacks': own.callbacks,
                'callback_ns': own.callback_ns if own.callback_ns_measured else None,
                'arm_wait_ns': own.arm_wait_ns, 'arm_ns': own.arm_ns,
                'drain_cpu_ns': own.drain_cpu_ns, 'device_flush_age_ns': own.device_flush_age_ns,
                'memory': {'host_bytes': own.host_bytes or None, 'device_bytes': None},
                'raw_bytes': self.raw.raw_bytes, 'raw_bytes_steps': len(self.steps),
                'bytes_per_step': self.raw.raw_bytes // len(self.steps)}
        self.same_row('cost', mine, {k: v for k, v in theirs.items() if k != 'ratio'})
        self.check_all_steps(is_clock)
        apart = [ns for i, ns, c in every if c == 0 and i != 0]
        zero = [ns for i, ns, _ in every if i == 0]
        self.same_row('uncollected_steps',
                      {'step_0_ns': zero[0] if zero else None, 'others': distribution(apart),
                       'steps_seen': report.all_steps.count}, self.summary['uncollected_steps'])
        samples = self.raw.hello.labels.get('samples_per_step')
        wanted = float(samples) * 1e9 / median(active) if samples and active else None
        self.same('examples_per_second', wanted, self.summary['examples_per_second'])

    def check_all_steps(self, is_clock):
        """The manifest's list, with the steps behind the cycle once these are known."""
        words = ['no', 'warmup', 'active', 'finishing']
        mine = [{'index': i, 'dur_ns': ns, 'collecting': words[c]}
                for i, ns, c in sorted(self.raw.step_durations if is_clock else
                                       self.raw.later_durations)]
        self.same('all_steps', mine, self.manifest['all_steps']['each'])
        self.same('cost of the manifest', {k: v for k, v in self.manifest['cost'].items()
                                           if k not in ('before', 'active', 'after')},
                  {k: v for k, v in self.summary['cost'].items() if k not in ('before', 'active', 'after')})

    def check_losses(self):
        """What the agent's running totals grew by, and records without times of this cycle's calls."""
        names = {1: 'kernel', 2: 'memcpy', 3: 'memset', 4: 'launch', 5: 'sync', 6: 'nvtx',
                 7: 'memory', 8: 'overhead'}
        mine = {}
        for kind, (dropped, invalid) in self.raw.losses.items():
            before = self.raw.losses_before.get(kind, (0, 0))
            if kind in names and (dropped - before[0] or invalid - before[1]):
                mine[names[kind]] = {'dropped': dropped - before[0], 'invalid': invalid - before[1]}
        of_kind = {'kernel': 'kernel', 'copy': 'memcpy', 'set': 'memset', 'graph': 'kernel'}
        inside = {c.correlation for c in self.calls}
        for kind, correlation, _ in self.raw.without_times:
            if correlation in inside:
                row = mine.setdefault(of_kind[kind], {'dropped': 0, 'invalid': 0})
                row['invalid'] += 1
        self.same('losses', mine, self.summary['losses'])

    def left_out(self):
        """Steps that hold the tracer's own start, unless there are no others to look at."""
        some = {i for i, s in enumerate(self.steps) if s['tracer'] or s['partial']}
        return some if len(some) < len(self.steps) else set()

    def check_readings(self):
        """The figures behind the readings that can be counted in one line."""
        left_out = self.left_out()
        for reading in self.summary['readings']:
            evidence = reading['evidence']
            if reading['id'] == 'device_idle_in_range':
                # Until the first step's work has begun on each of its streams, earlier work may
                # run that is not in the cycle.
                first = {}
                for item in self.items:
                    if item.step == self.items[0].step:
                        first.setdefault(item.work[4:7], item.begin)
                busy = [i.interval for i in self.items] + [(self.begin, max(first.values()))]
                busy += [(self.steps[i]['begin'], self.steps[i]['end']) for i in left_out]
                mine = [(max(b, self.begin), min(e, self.end))
                        for r, b, e, _ in self.ranges if r.name == evidence['range']]
                idle = length(mine) - both(busy, mine)
                self.same('idle in range', idle, evidence['idle_ns'], 2 * len(self.items))
            elif reading['id'] == 'pageable_copies':
                mine = [i for i in self.items if i.work.kind == 'copy' and
                        1 in (i.work.source, i.work.target) and i.step not in left_out]
                self.same('pageable copies', len(mine), evidence['count'])
                self.same('pageable bytes', sum(i.work.bytes for i in mine), evidence['bytes'])
            elif reading['id'] == 'allocation_calls_in_steps':
                mine = [c for c in self.calls if c.cls == 'alloc' and 'Async' not in c.name and
                        self.step_at(c.begin) not in left_out | {None}]
                self.same('allocations', len(mine), evidence['calls'])

    def run(self):
        window = {'begin_ns': self.begin, 'end_ns': self.end, 'dur_ns': self.end - self.begin,
                  'base_unix_ns': self.raw.hello.clock.base_unix_ns}
        self.same_row('window', window, self.summary['window'])
        clock = {'wall_offset_ns': self.raw.report.wall_offset_ns,
                 'wall_error_ns': self.raw.report.wall_error_ns}
        self.same_row('clock', clock, self.summary['clock'])
        self.same_row('clock of the manifest', clock,
                      {key: self.manifest['clock'][key] for key in clock})
        for check in (self.check_steps, self.check_devices, self.check_kernels, self.check_calls,
                      self.check_copies, self.check_ranges, self.check_idle, self.check_lanes,
                      self.check_threads, self.check_cost, self.check_readings):
            check()
        self.check_losses()
        known = {'schema', 'session', 'cycle', 'gpu', 'window', 'steps', 'uncollected_steps',
                 'examples_per_second', 'devices', 'idle', 'collective_rule', 'kernels', 'graph_launches',
                 'launches', 'calls', 'copies', 'sets', 'ranges', 'waits', 'streams', 'threads',
                 'absent', 'set_aside', 'readings', 'clock', 'readings_without_input', 'cost', 'losses',
                 'notes'}
        for key in set(self.summary) - known:
            self.problems.append('%s: nobody checks this part of the summary' % key)
        return self.problems


def main():
    check = BruteForce(sys.argv[1], int(sys.argv[2]))
    problems = check.run()
    for line in problems:
        print(line)
    print('%d figures recomputed from %d calls, %d pieces of device work, %d ranges: %d differ'
          % (check.checked, len(check.calls), len(check.items), len(check.ranges), len(problems)))
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
