// What is known of the thing that is selected.

function kindWord(i) {
  const {kind, ref, flags} = trace.items;
  if (kind[i] === CALL) return CALL_WORDS[ref[i]] || 'call';
  if (kind[i] === KERNEL && flags[i] === 1) return 'collective';
  if (kind[i] === RANGE && (flags[i] & 1)) return 'start/end range';
  return KIND_WORDS[kind[i]];
}

function fillDetail() {
  const box = byId('detail'), what = view.selected;
  if (!what) {
    return box.replaceChildren(make(
        'p', {class: 'soft'},
        'Nothing is selected: click a bar, a gap or ' +
            'a row of a table. Double click zooms to it.'));
  }
  const [title, fields, buttons] = what.item !== undefined ? itemDetail(what.item) :
      what.gap                                             ? gapDetail(what.gap) :
                                                             bundleDetail(what.bundle);
  box.replaceChildren(
      make('h3', {}, title),
      make(
          'dl', {class: 'fields'},
          fields.filter(([, value]) => value !== null)
              .map(
                  ([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value)))),
      make('p', {class: 'buttons'}, buttons));
}

function button(words, act) {
  return make('button', {type: 'button', onclick: act}, words);
}

function itemDetail(i) {
  const {kind, row, begin, length, step} = trace.items, name = itemName(i);
  const isOverhead = kind[i] === OVERHEAD;
  const fields = [
    ['kind', kindWord(i)],
    [
      'where',
      isDevice(i)    ? laneWord(row[i]) :
          isOverhead ? `thread ${row[i]}` :
                       threadWord(row[i])
    ],
    ['begins, in the window', exactly(begin[i])],
    ['takes', kind[i] === MARK ? null : duration(length[i])],
    [isDevice(i) ? 'launched in' : 'step', isOverhead ? null : stepWord(step[i])],
    ...(isDevice(i)          ? workFields(i) :
            kind[i] === CALL ? callFields(i) :
                               rangeFields(i))
  ];
  const buttons = [
    button('Zoom to it', () => showItem(i)), button('All of this name', () => setSearch('=' + name))
  ];
  const link = trace.items.link[i];
  if (isDevice(i) && link >= 0)
    buttons.push(button('Go to its launch', () => showPair(link, i, link)));
  if (kind[i] === CALL && link >= 0)
    buttons.push(button('Go to its work', () => showPair(i, link, link)));
  return [name === '' ? '(empty name)' : name, fields, buttons];
}

// Both ends of an arrow in sight.
function showPair(call, work, selected) {
  const from = Math.min(trace.items.begin[call], trace.items.begin[work]);
  show(from, Math.max(itemEnd(call), itemEnd(work)), selected);
  select({item: selected});
}

function workFields(i) {
  const {kind, begin, length, link, ref, extra} = trace.items, out = [];
  if (kind[i] === KERNEL && ref[i] >= 0) {
    const s = trace.shapes.slice(ref[i] * STRIDE.shapes, (ref[i] + 1) * STRIDE.shapes);
    // -1: the file that was converted does not tell.
    if (s[1] >= 0) out.push(['grid', `${s[1]} \u00d7 ${s[2]} \u00d7 ${s[3]}`]);
    if (s[4] >= 0) out.push(['block', `${s[4]} \u00d7 ${s[5]} \u00d7 ${s[6]}`]);
    if (s[7] >= 0) out.push(['registers', count(s[7])]);
    if (s[8] >= 0) {
      out.push(['shared memory', `${byteCount(s[8])} static, ${byteCount(s[9])} dynamic`]);
    } else if (s[9] >= 0) {
      out.push(['shared memory', `${byteCount(s[9])}, static and dynamic`]);
    }
  }
  if (kind[i] === KERNEL && extra[i] < 0) {
    out.push([
      'set aside',
      'its stream began later kernels before it ended: its length is not ' +
          'believable and in no figure'
    ]);
  }
  if ((kind[i] === COPY || kind[i] === SET) && extra[i] >= 0) {
    out.push(['size', byteCount(extra[i])]);
    if (length[i] > 0) out.push(['rate', (extra[i] / length[i]).toFixed(2) + '\u00a0GB/s']);
  }
  if ((kind[i] === KERNEL || kind[i] === GRAPH) && extra[i] > 0)
    out.push(['graph', count(extra[i])]);
  const call = link[i];
  out.push([
    'launch',
    call >= 0               ? itemName(call) :
        call === NOT_SINGLE ? 'seen, drawn together with other short calls' :
                              'not seen in this cycle'
  ]);
  if (call >= 0) out.push(['begins after its call', duration(begin[i] - begin[call])]);
  return out;
}

function callFields(i) {
  const {extra, flags, link, row, begin} = trace.items;
  const range = hostAt(row[i], begin[i]).range;
  return [
    ['correlation', count(extra[i])], ['in range', range >= 0 ? itemName(range) : 'none'],
    ['result',
     flags[i] & 1     ? 'failed' :
         flags[i] & 2 ? 'captured into a graph' :
                        null],
    ['device work', link[i] >= 0 ? itemName(link[i]) : null]
  ];
}

function rangeFields(i) {
  const {flags, ref, kind} = trace.items;
  const cut =
      [flags[i] & 2 ? 'begin' : '', flags[i] & 4 ? 'end' : ''].filter(Boolean).join(' and ');
  return [
    ['domain', ref[i] >= 0 && kind[i] !== OVERHEAD ? trace.texts[ref[i]] : null],
    ['cut', cut ? `the window has not its ${cut}` : null],
    ['', flags[i] & 8 ? 'the step\u2019s own range' : null]
  ];
}

function gapDetail(gap) {
  const place = hostOfGap(gap);
  const fields = [
    ['where', `GPU ${gap.device}`], ['begins, in the window', exactly(gap.begin)],
    ['takes', duration(gap.end - gap.begin)],
    ['step at its middle', stepWord(stepAt((gap.begin + gap.end) / 2))],
    ['host at its middle', place.thread], ['in range', place.range], ['in call', place.call]
  ];
  return [
    'No work of this process', fields, [button('Zoom to it', () => show(gap.begin, gap.end))]
  ];
}

// Where the thread that launches most was in the middle of a gap.
function hostOfGap(gap) {
  if (layout.mainThread < 0) return {thread: 'not recorded', range: null, call: null};
  const found = hostAt(layout.mainThread, (gap.begin + gap.end) / 2);
  return {
    thread: threadWord(layout.mainThread),
    range: found.range >= 0 ? itemName(found.range) : 'none',
    call: found.call >= 0 ? itemName(found.call) : 'none'
  };
}

function bundleDetail(b) {
  const of = ['pieces of device work', 'copies and sets', 'calls', 'ranges'][b.kind];
  return [
    `${count(b.count)} short ${of}`,
    [
      ['begins, in the window', exactly(b.begin)],
      ['from first to last', duration(b.end - b.begin)], ['of that covered', duration(b.covered)],
      [
        'why',
        `a page draws the longest ${count(trace.drawn)} of ${count(trace.all)} singly; the ` +
            'trace files have them all'
      ]
    ],
    [button('Zoom to them', () => show(b.begin, b.end))]
  ];
}
