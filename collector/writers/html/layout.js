// The rows of the time line. On a row nothing overlaps, so begins and ends both ascend.

const MOST_ROWS = 24;  // of one lane or thread; what is nested deeper is counted, not drawn
const ROW_HEIGHT = {
  steps: 22,
  title: 26,
  busy: 22,
  work: 20,
  ranges: 18,
  calls: 18,
  marks: 12,
  overheads: 14
};
const layout = {
  rows: [],
  height: 0,
  notDrawn: 0,
  mainThread: -1,
  rowOfItem: null
};

function buildLayout() {
  layout.rowOfItem = new Int32Array(trace.items.size).fill(-1);
  const byLane = groupItems(i => isDevice(i), trace.lanes.length);
  const calls = groupItems(i => trace.items.kind[i] === CALL, trace.threads.length);
  const ranges = groupItems(i => trace.items.kind[i] === RANGE, trace.threads.length);
  const marks = groupItems(i => trace.items.kind[i] === MARK, trace.threads.length);
  addDevices(byLane);
  for (const thread of threadOrder(calls, ranges, marks)) {
    addThread(thread, calls[thread], ranges[thread], marks[thread]);
  }
  addOverheads();
  layout.height = layout.rows.reduce((y, row) => {
    row.y = y;
    return y + row.height;
  }, 0);
}

function groupItems(isWanted, size) {
  const groups = Array.from({length: size}, () => []);
  for (let i = 0; i < trace.items.size; ++i) {
    const row = trace.items.row[i];
    if (isWanted(i) && row >= 0 && row < size) groups[row].push(i);
  }
  const {begin, length} = trace.items;
  for (const group of groups) group.sort((a, b) => begin[a] - begin[b] || length[b] - length[a]);
  return groups;
}

function bundlesOf(kind, row) {
  if (!layout.bundles) {
    layout.bundles = new Map();
    const flat = trace.bundles;
    for (let at = 0; at < flat.length; at += STRIDE.bundles) {
      const key = flat[at] + ':' + flat[at + 1];
      if (!layout.bundles.has(key)) layout.bundles.set(key, []);
      layout.bundles.get(key).push({
        kind: flat[at],
        begin: flat[at + 2],
        end: flat[at + 2] + flat[at + 3],
        count: flat[at + 4],
        covered: flat[at + 5]
      });
    }
    for (const list of layout.bundles.values()) list.sort((a, b) => a.begin - b.begin);
  }
  return layout.bundles.get(kind + ':' + row) || [];
}

function addRow(row) {
  if (row.ids) {
    row.begins = Float64Array.from(row.ids, i => trace.items.begin[i]);
    row.ends = Float64Array.from(row.ids, i => itemEnd(i));
    row.covered = new Float64Array(row.ids.length + 1);
    row.matches = null;
    row.ids.forEach((item, at) => {
      row.covered[at + 1] = row.covered[at] + trace.items.length[item];
      layout.rowOfItem[item] = layout.rows.length;
    });
  }
  if (row.bundles) row.runs = [0, 1, 2, 3].map(kind => runOf(row.bundles, kind)).filter(Boolean);
  layout.rows.push(row);
}

// The bundles of one kind as columns, for drawing by the pixel.
function runOf(bundles, kind) {
  const list = bundles.filter(b => b.kind === kind), size = list.length;
  if (size === 0) return null;
  const run = {
    kind,
    list,
    begins: Float64Array.from(list, b => b.begin),
    ends: new Float64Array(size),
    covered: new Float64Array(size + 1)
  };
  list.forEach((b, i) => {
    run.ends[i] = Math.max(b.end, i > 0 ? run.ends[i - 1] : b.end);
    run.covered[i + 1] = run.covered[i] + b.covered;
  });
  return run;
}

// Each item goes to the first row that is free (work), or below everything that is open (ranges).
function split(ids, isNested) {
  const rows = [], ends = [];
  for (const i of ids) {
    const begin = trace.items.begin[i];
    let at = 0;
    if (isNested) {
      at = ends.length;
      while (at > 0 && ends[at - 1] <= begin) --at;
    } else {
      while (at < ends.length && ends[at] > begin) ++at;
    }
    if (at >= MOST_ROWS) {
      ++layout.notDrawn;
      continue;
    }
    if (at === rows.length) rows.push([]);
    rows[at].push(i);
    ends.length = isNested ? at + 1 : Math.max(ends.length, at + 1);
    ends[at] = itemEnd(i);
  }
  return rows;
}

function addDevices(byLane) {
  const devices = [...new Set(trace.lanes.map(lane => lane.device))].sort((a, b) => a - b);
  const names = new Map(manifest.gpu.devices.map(d => [d.ordinal, d.name]));
  for (const device of devices) {
    const title = `GPU ${device}`;
    addRow({
      kind: 'title',
      label: title + (names.get(device) ? ` \u00b7 ${names.get(device)}` : ''),
      height: ROW_HEIGHT.title
    });
    const busy = trace.busy.find(b => b.device === device);
    if (busy) addRow(busyRow(busy, device));
    trace.lanes.forEach((lane, index) => {
      if (lane.device !== device) return;
      const bundles = [...bundlesOf(0, index), ...bundlesOf(1, index)];
      if (byLane[index].length + bundles.length === 0) return;
      const rows = split(byLane[index], false);
      if (rows.length === 0) rows.push([]);
      rows.forEach((ids, at) => addRow({
                     kind: 'work',
                     label: at === 0 ? `stream ${lane.stream}` : '',
                     height: ROW_HEIGHT.work,
                     ids,
                     bundles: at === 0 ? bundles : [],
                     owner: index
                   }));
    });
  }
}

function busyRow(busy, device) {
  const parts = busy.parts.length / 2, begins = new Float64Array(parts),
        ends = new Float64Array(parts);
  let begin = 0;
  for (let i = 0; i < parts; ++i) {
    begin += busy.parts[2 * i];
    begins[i] = begin;
    ends[i] = begin + busy.parts[2 * i + 1];
  }
  const covered = new Float64Array(parts + 1);
  for (let i = 0; i < parts; ++i) covered[i + 1] = covered[i] + ends[i] - begins[i];
  return {kind: 'busy', label: 'any work', height: ROW_HEIGHT.busy, begins, ends, covered, device};
}

// The thread that launches most first: it is the one whose ranges explain the device.
function threadOrder(calls, ranges, marks) {
  const launches = trace.threads.map(
      (_, thread) =>
          calls[thread].filter(i => trace.items.ref[i] >= 1 && trace.items.ref[i] <= 4).length +
          bundlesOf(2, thread).reduce((sum, b) => sum + b.count, 0));
  const used = trace.threads.map((_, thread) => thread)
                   .filter(
                       t => calls[t].length + ranges[t].length + marks[t].length +
                               bundlesOf(2, t).length + bundlesOf(3, t).length >
                           0);
  const steps = new Set(trace.steps.map(step => step.thread));
  used.sort((a, b) => launches[b] - launches[a] || steps.has(b) - steps.has(a) || a - b);
  if (used.length > 0) layout.mainThread = used[0];
  return used;
}

function addThread(thread, calls, ranges, marks) {
  const [tid, name] = trace.threads[thread];
  addRow({
    kind: 'title',
    label: (name ? `${name} \u00b7 ` : '') + `thread ${tid}`,
    height: ROW_HEIGHT.title
  });
  if (marks.length > 0) {
    addRow({kind: 'marks', label: 'marks', height: ROW_HEIGHT.marks, ids: marks, owner: thread});
  }
  const isStartEnd = i => (trace.items.flags[i] & 1) !== 0;
  const nested = split(ranges.filter(i => !isStartEnd(i)), true);
  nested.forEach((ids, at) => addRow({
                   kind: 'ranges',
                   label: at === 0 ? 'ranges' : '',
                   height: ROW_HEIGHT.ranges,
                   ids,
                   owner: thread,
                   depth: at
                 }));
  const short = bundlesOf(3, thread);
  if (short.length > 0) {
    addRow({
      kind: 'ranges',
      label: 'short ranges',
      height: ROW_HEIGHT.ranges,
      ids: [],
      bundles: short,
      owner: thread,
      depth: -1
    });
  }
  split(ranges.filter(isStartEnd), false).forEach((ids, at) => addRow({
                                                    kind: 'ranges',
                                                    label: at === 0 ? 'start/end' : '',
                                                    height: ROW_HEIGHT.ranges,
                                                    ids,
                                                    owner: thread,
                                                    depth: -1
                                                  }));
  const shortCalls = bundlesOf(2, thread);
  const rows = split(calls, false);
  if (rows.length === 0 && shortCalls.length > 0) rows.push([]);
  rows.forEach((ids, at) => addRow({
                 kind: 'calls',
                 label: at === 0 ? 'CUDA calls' : '',
                 height: ROW_HEIGHT.calls,
                 ids,
                 bundles: at === 0 ? shortCalls : [],
                 owner: thread
               }));
}

function addOverheads() {
  const ids = [];
  for (let i = 0; i < trace.items.size; ++i)
    if (trace.items.kind[i] === OVERHEAD) ids.push(i);
  if (ids.length === 0) return;
  ids.sort((a, b) => trace.items.begin[a] - trace.items.begin[b]);
  addRow({kind: 'title', label: 'Cost of the vendor\u2019s tracing', height: ROW_HEIGHT.title});
  split(ids, false).forEach((row, at) => addRow({
                              kind: 'overheads',
                              label: at === 0 ? 'overhead' : '',
                              height: ROW_HEIGHT.overheads,
                              ids: row
                            }));
}

// The innermost range and the call of a thread at a moment: items, or -1.
function hostAt(thread, ns) {
  const found = {range: -1, call: -1};
  for (const row of layout.rows) {
    if (row.owner !== thread || !row.ids || (row.kind !== 'ranges' && row.kind !== 'calls'))
      continue;
    const at = upperBound(row.begins, ns) - 1;
    if (at < 0 || row.ends[at] <= ns) continue;
    if (row.kind === 'calls')
      found.call = row.ids[at];
    else if (row.depth >= 0)
      found.range = row.ids[at];
  }
  return found;
}
