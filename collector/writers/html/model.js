// The data block as columns of typed arrays. Times are ns from trace.originNs.

const KERNEL = 0, COPY = 1, SET = 2, GRAPH = 3, CALL = 4, RANGE = 5, MARK = 6, OVERHEAD = 7;
const KIND_WORDS = ['kernel', 'copy', 'set', 'graph launch', 'call', 'range', 'mark', 'overhead'];
const CALL_WORDS =
    ['call', 'launch', 'graph launch', 'copy call', 'set call', 'wait', 'allocation'];
const WAIT_CALL = 5;
const NOT_SEEN = -1, NOT_SINGLE = -2;
const STRIDE = {
  calls: 8,
  work: 7,
  ranges: 7,
  marks: 5,
  overheads: 4,
  steps: 5,
  bundles: 6,
  shapes: 11
};

const data = JSON.parse(byId('data').textContent);
const summary = data.summary, manifest = data.manifest;
const trace = readTrace(data.trace);

function emptyItems(size) {
  return {
    size: 0,
    kind: new Uint8Array(size),
    begin: new Float64Array(size),
    length: new Float64Array(size),
    text: new Int32Array(size),
    row: new Int32Array(size),
    step: new Int32Array(size),
    link: new Int32Array(size).fill(NOT_SEEN),
    flags: new Int32Array(size),
    extra: new Float64Array(size),
    ref: new Int32Array(size)
  };
}

// Calls `take(at, begin)` for each item of a flat list whose second number is the begin.
function forEachFlat(flat, stride, take) {
  let begin = 0;
  for (let at = 0; at < flat.length; at += stride) {
    begin += flat[at + 1];
    take(at, begin);
  }
}

function readTrace(raw) {
  const size = raw.calls.length / STRIDE.calls + raw.ranges.length / STRIDE.ranges +
      (raw.kernels.length + raw.copies.length + raw.sets.length + raw.graphs.length) / STRIDE.work +
      raw.marks.length / STRIDE.marks + raw.overheads.length / STRIDE.overheads;
  const out = {
    originNs: raw.origin_ns,
    from: raw.extent[0],
    to: raw.extent[1],
    window: raw.window,
    drawn: raw.drawn,
    all: raw.items,
    marksDrawn: raw.marks_drawn,
    marksAll: raw.marks_all,
    texts: raw.texts,
    threads: raw.threads,
    lanes: [],
    steps: [],
    shapes: raw.shapes,
    items: emptyItems(size),
    bundles: raw.bundles,
    busy: raw.busy
  };
  for (let at = 0; at < raw.lanes.length; at += 3) {
    out.lanes.push({device: raw.lanes[at], context: raw.lanes[at + 1], stream: raw.lanes[at + 2]});
  }
  forEachFlatSteps(raw.steps, out.steps);
  readCalls(raw, out);
  readWork(raw, out);
  readHost(raw, out);
  return out;
}

function forEachFlatSteps(flat, steps) {
  let begin = 0;
  for (let at = 0; at < flat.length; at += STRIDE.steps) {
    begin += flat[at + 1];
    steps.push({
      index: flat[at],
      begin,
      end: begin + flat[at + 2],
      thread: flat[at + 3],
      isCut: (flat[at + 4] & 1) !== 0,
      hasStart: (flat[at + 4] & 2) !== 0,
      isPartial: (flat[at + 4] & 4) !== 0
    });
  }
}

function addItem(items, kind, row, begin, length, text, step) {
  const i = items.size++;
  items.kind[i] = kind;
  items.row[i] = row;
  items.begin[i] = begin;
  items.length[i] = length;
  items.text[i] = text;
  items.step[i] = step;
  return i;
}

// Calls come first: item i is call i.
function readCalls(raw, out) {
  forEachFlat(raw.calls, STRIDE.calls, (at, begin) => {
    const c = raw.calls;
    const i = addItem(out.items, CALL, c[at], begin, c[at + 2], c[at + 3], c[at + 5]);
    out.items.ref[i] = c[at + 4];
    out.items.extra[i] = c[at + 6];
    out.items.flags[i] = c[at + 7];
  });
}

function readWork(raw, out) {
  const lists = [[KERNEL, raw.kernels], [COPY, raw.copies], [SET, raw.sets], [GRAPH, raw.graphs]];
  for (const [kind, flat] of lists) {
    forEachFlat(flat, STRIDE.work, (at, begin) => {
      const isKernel = kind === KERNEL, ref = flat[at + 3];
      const text = isKernel ? (ref < 0 ? -1 : raw.shapes[ref * STRIDE.shapes]) : ref;
      const i = addItem(out.items, kind, flat[at], begin, flat[at + 2], text, flat[at + 5]);
      const call = flat[at + 4];
      out.items.link[i] = call;
      out.items.extra[i] = flat[at + 6];
      out.items.ref[i] = isKernel ? ref : -1;
      if (isKernel && ref >= 0) out.items.flags[i] = raw.shapes[ref * STRIDE.shapes + 10];
      if (call >= 0 && out.items.link[call] < 0) out.items.link[call] = i;
    });
  }
}

function readHost(raw, out) {
  forEachFlat(raw.ranges, STRIDE.ranges, (at, begin) => {
    const r = raw.ranges;
    const i = addItem(out.items, RANGE, r[at], begin, r[at + 2], r[at + 3], r[at + 5]);
    out.items.ref[i] = r[at + 4];
    out.items.flags[i] = r[at + 6];
  });
  forEachFlat(raw.marks, STRIDE.marks, (at, begin) => {
    const i =
        addItem(out.items, MARK, raw.marks[at], begin, 0, raw.marks[at + 2], raw.marks[at + 4]);
    out.items.ref[i] = raw.marks[at + 3];
  });
  forEachFlat(raw.overheads, STRIDE.overheads, (at, begin) => {
    addItem(
        out.items, OVERHEAD, raw.overheads[at], begin, raw.overheads[at + 2], raw.overheads[at + 3],
        -1);
  });
}

function itemName(i) {
  const text = trace.items.text[i];
  return text < 0 ? 'unknown' : trace.texts[text];
}

function itemEnd(i) {
  return trace.items.begin[i] + trace.items.length[i];
}

function isDevice(i) {
  return trace.items.kind[i] <= GRAPH;
}

function laneWord(lane) {
  const l = trace.lanes[lane];
  return l ? `GPU ${l.device}, stream ${l.stream}` : 'unknown stream';
}

function threadWord(thread) {
  const t = trace.threads[thread];
  return t ? (t[1] ? `${t[1]} (${t[0]})` : `thread ${t[0]}`) : 'unknown thread';
}

function stepWord(step) {
  return step >= 0 && step < trace.steps.length ? `step ${trace.steps[step].index}` :
                                                  'outside steps';
}

// Index into trace.steps of the step that holds this moment of the host, or -1.
function stepAt(ns) {
  return trace.steps.findIndex(step => ns >= step.begin && ns < step.end);
}
