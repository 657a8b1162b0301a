// Readings, and the place in the time line that each one's evidence is about.

// Stamps beyond 2^53 ns (a Kineto file's) are rounded when the summary is parsed.
function slackNs() {
  return Number(trace.originNs) > Number.MAX_SAFE_INTEGER ? 512 : 0;
}

function fillReadings() {
  const list = byId('readings-list'), readings = summary.readings || [];
  fillUnread();
  if (readings.length === 0) {
    const why = summary.gpu.status === 'unavailable' ?
        'Without device data there is nothing to read: the rules compare the host with the device.' :
        'Nothing stands out by these rules. That does not mean that nothing is slow.';
    list.replaceChildren(make('li', {class: 'reading'}, make('p', {}, why)));
    return;
  }
  list.replaceChildren(...readings.map((reading, at) => {
    const spot = spotOf(reading);
    return make(
        'li', {class: at === 0 ? 'reading first' : 'reading', 'data-id': reading.id},
        make(
            'h3', {}, at === 0 ? make('small', {}, 'Place to start') : null,
            ...withCode(reading.observation)),
        make('dl', {}, ...readingParts(reading)),
        spot === null ? null :
                        make(
                            'p', {class: 'buttons'},
                            make(
                                'button', {type: 'button', onclick: () => jump(reading, spot)},
                                'Show in the time line')));
  }));
}

// Rules that could not speak, with the reason.
function fillUnread() {
  const unread = summary.readings_without_input || [];
  byId('unread').textContent = unread.length === 0 ? '' :
                                                     'Not judged: ' +
          unread.map(rule => `${String(rule.id).replace(/_/g, ' ')} (${rule.why})`).join('; ') +
          '.';
}

function readingParts(reading) {
  const evidence =
      typeof reading.evidence === 'string' ? reading.evidence : (reading.evidence || {}).text || '';
  return [
    ['Evidence', evidence], ['Perhaps', reading.hypothesis], ['Next check', reading.next_check]
  ].filter(([, text]) => text)
      .flatMap(([name, text]) => [make('dt', {}, name), make('dd', {}, ...withCode(text))]);
}

// `name` as code. A name may hold backticks itself: only one before a blank, a stop or the end
// closes it.
function withCode(text) {
  const parts = String(text).split(/(?<=^|[\s(])`(.+?)`(?=[\s,.;:)]|$)/);
  return parts.map((part, at) => at % 2 === 1 ? make('code', {}, part) : part);
}

// {begin, end, item, name} of a reading, or null where the trace has no such place.
function spotOf(reading) {
  const evidence = typeof reading.evidence === 'object' && reading.evidence ? reading.evidence : {};
  const name = ['range', 'kernel', 'call', 'copy', 'name']
                   .map(key => evidence[key])
                   .find(value => typeof value === 'string');
  return placed(evidence, name) || timed(evidence, name, reading) ||
      (name !== undefined && named(name)) || typical(reading.id) || null;
}

// Evidence that names an interval itself, at any depth; an item that has just that interval is it.
function placed(evidence, name) {
  if (typeof evidence.begin_ns === 'number' && typeof evidence.end_ns === 'number') {
    const begin = sinceOrigin(evidence.begin_ns), end = sinceOrigin(evidence.end_ns);
    const item = trace.items.begin.findIndex(
        (at, i) => i < trace.items.size && Math.abs(at - begin) <= slackNs() &&
            Math.abs(itemEnd(i) - end) <= slackNs());
    return {begin, end, item, name: name ?? (item >= 0 ? itemName(item) : undefined)};
  }
  for (const value of Object.values(evidence)) {
    const found = value && typeof value === 'object' ? placed(value, name) : null;
    if (found) return found;
  }
  return null;
}

// Evidence that names a moment: the range or gap that begins there.
function timed(evidence, name, reading) {
  const key =
      Object.keys(evidence).find(k => k.endsWith('at_ns') && typeof evidence[k] === 'number');
  if (!key) return null;
  const at = sinceOrigin(evidence[key]);
  if (at < view.least || at > view.most) return null;
  let best = -1;
  for (let i = 0; name !== undefined && i < trace.items.size; ++i) {
    if (trace.items.text[i] < 0 || trace.texts[trace.items.text[i]] !== name) continue;
    if (trace.items.begin[i] - slackNs() > at || itemEnd(i) + slackNs() < at) continue;
    if (best < 0 || trace.items.length[i] < trace.items.length[best]) best = i;
  }
  const gap = reading.id === 'waits_drain_the_queue' ? gapNear(at) : null;
  if (gap) return {begin: gap.begin, end: gap.end, item: best, name};
  if (best >= 0) return {begin: trace.items.begin[best], end: itemEnd(best), item: best, name};
  const step = trace.steps[stepAt(at)];
  return {
    begin: at,
    end: step ? step.end : Math.min(at + (trace.to - trace.from) / 50, trace.to),
    item: -1,
    name
  };
}

function gapNear(at) {
  for (const row of layout.rows) {
    if (row.kind !== 'busy') continue;
    const found = gapAt(row, at + 1);
    if (found) return found.gap;
  }
  return null;
}

function named(name) {
  const item = longestNamed(name);
  return item < 0 ? null : {begin: trace.items.begin[item], end: itemEnd(item), item, name};
}

// Where nothing is named: the longest of what the reading is about.
function typical(id) {
  const longest = isWanted => {
    let best = -1;
    for (let i = 0; i < trace.items.size; ++i) {
      if (isWanted(i) && (best < 0 || trace.items.length[i] > trace.items.length[best])) best = i;
    }
    return best < 0 ?
        null :
        {begin: trace.items.begin[best], end: itemEnd(best), item: best, name: itemName(best)};
  };
  const {kind, flags, ref} = trace.items;
  if (/pageable/.test(id))
    return longest(i => kind[i] === COPY && itemName(i).includes('Pageable'));
  if (/cop(y|ies)/.test(id)) return longest(i => kind[i] === COPY);
  if (/collective/.test(id)) return longest(i => kind[i] === KERNEL && flags[i] === 1);
  if (/wait|sync|drain/.test(id)) return longest(i => kind[i] === CALL && ref[i] === WAIT_CALL);
  if (/alloc/.test(id)) return longest(i => kind[i] === CALL && ref[i] === 6);
  if (/launch/.test(id)) return crowded();
  if (/idle/.test(id)) {
    const gap = gapRows()[0];
    return gap ? {begin: gap.gap.begin, end: gap.gap.end, item: -1} : null;
  }
  if (/step/.test(id) && trace.steps.length > 0) {
    const step = trace.steps.reduce((a, b) => b.end - b.begin > a.end - a.begin ? b : a);
    return {begin: step.begin, end: step.end, item: -1};
  }
  return null;
}

// Forty launches in a row from the middle of the thread that launches most.
function crowded() {
  const row = layout.rows.find(
      r => r.kind === 'calls' && r.owner === layout.mainThread && r.ids.length > 0);
  if (!row) return null;
  const from = Math.max(0, (row.ids.length >> 1) - 20),
        to = Math.min(row.ids.length, from + 40) - 1;
  return {begin: row.begins[from], end: row.ends[to], item: -1};
}

function jump(reading, spot) {
  view.evidence = {begin: spot.begin, end: spot.end};
  setSearch(spot.name === undefined ? '' : '=' + spot.name);
  show(spot.begin, spot.end, spot.item);
  select(spot.item >= 0 ? {item: spot.item} : null);
  if (spot.item >= 0) {
    search.at = search.ids.indexOf(spot.item);
    sayMatches();
  }
  byId('said').textContent = `Shown: ${duration(spot.end - spot.begin)} from ` +
      `${duration(spot.begin)} of the window on, for reading ${
                                 reading.rank}. Escape clears the marks.`;
  toTimeline();
}
