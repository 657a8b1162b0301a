// Pointer, wheel and keyboard on the time line.

const drag = {
  active: false,
  moved: false,
  isMeasure: false,
  x: 0,
  y: 0,
  from: 0,
  to: 0,
  scroll: 0
};

function place(event) {
  const box = byId('canvas').getBoundingClientRect();
  return {x: event.clientX - box.left, y: event.clientY - box.top};
}

// What is under a point: {item}, {gap}, {step} or null.
function whatIsAt(x, y) {
  if (x < view.labels) return null;
  const ns = toNs(x), slack = nsPerPixel() * 2;
  if (y < PINNED) {
    const at = y >= AXIS ? stepAt(ns) : -1;
    return at < 0 ? null : {step: at};
  }
  const inside = y - PINNED + byId('lanes').scrollTop;
  const row = layout.rows.find(r => inside >= r.y && inside < r.y + r.height);
  if (!row || row.kind === 'title') return null;
  if (row.kind === 'busy') return gapAt(row, ns);
  let best = -1, distance = slack;
  for (let i = Math.max(0, upperBound(row.begins, ns) - 1); i < row.ids.length; ++i) {
    const far = ns < row.begins[i] ? row.begins[i] - ns : Math.max(0, ns - row.ends[i]);
    if (far < distance) [best, distance] = [row.ids[i], far];
    if (far === 0 || row.begins[i] > ns) break;
  }
  if (best >= 0) return {item: best};
  for (const run of row.runs || []) {
    const bundle = run.list[Math.max(0, upperBound(run.begins, ns + slack) - 1)];
    if (ns >= bundle.begin - slack && ns <= bundle.end + slack) return {bundle};
  }
  return null;
}

function gapAt(row, ns) {
  const [from, to] = trace.window, next = upperBound(row.ends, ns);
  if (ns < from || ns > to || (next < row.begins.length && row.begins[next] <= ns)) return null;
  const begin = next > 0 ? row.ends[next - 1] : from;
  const end = next < row.begins.length ? row.begins[next] : to;
  return {gap: {begin: Math.max(begin, from), end: Math.min(end, to), device: row.device}};
}

function listenPointer() {
  const canvas = byId('canvas');
  canvas.addEventListener('pointerdown', event => {
    if (event.button !== 0) return;
    const {x, y} = place(event);
    Object.assign(drag, {
      active: true,
      moved: false,
      isMeasure: event.shiftKey,
      x,
      y,
      from: view.from,
      to: view.to,
      scroll: byId('lanes').scrollTop
    });
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', event => {
    const {x, y} = place(event);
    if (!drag.active) return hover(x, y);
    if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 4) drag.moved = true;
    if (!drag.moved) return;
    hideTip();
    if (drag.isMeasure) {
      const [a, b] = [toNs(Math.max(drag.x, view.labels)), toNs(Math.max(x, view.labels))];
      view.measure = {begin: Math.min(a, b), end: Math.max(a, b)};
      return redraw();
    }
    byId('lanes').scrollTop = drag.scroll - (y - drag.y);
    const by = (drag.x - x) * (drag.to - drag.from) / Math.max(view.width - view.labels, 1);
    setView(drag.from + by, drag.to + by);
  });
  const end = event => {
    if (drag.active && !drag.moved && event.type === 'pointerup') click(drag.x, drag.y);
    drag.active = false;
  };
  canvas.addEventListener('pointerup', end);
  canvas.addEventListener('pointercancel', end);
  canvas.addEventListener('pointerleave', hideTip);
  canvas.addEventListener('dblclick', event => {
    const {x, y} = place(event), what = whatIsAt(x, y);
    if (what && what.item !== undefined)
      showItem(what.item);
    else if (what && what.gap)
      show(what.gap.begin, what.gap.end);
    else if (what && what.step !== undefined)
      showStep(what.step);
  });
  // A plain wheel scrolls; with Ctrl it zooms where the pointer is, with Shift it moves in time.
  byId('lanes').addEventListener('wheel', event => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const {x} = place(event);
      zoom(Math.exp(clamp(event.deltaY, -120, 120) / 300), toNs(Math.max(x, view.labels)));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan((event.shiftKey ? event.deltaY || event.deltaX : event.deltaX) / 800);
    }
  }, {passive: false});
}

function listenOverview() {
  const strip = byId('overview');
  const move = event => {
    const box = strip.getBoundingClientRect(), width = view.to - view.from;
    const at = view.least + (event.clientX - box.left) / box.width * (view.most - view.least);
    setView(at - width / 2, at + width / 2);
  };
  strip.addEventListener('pointerdown', event => {
    strip.setPointerCapture(event.pointerId);
    move(event);
  });
  strip.addEventListener('pointermove', event => {
    if (event.buttons & 1) move(event);
  });
}

function click(x, y) {
  const what = whatIsAt(x, y);
  view.measure = null;
  select(what && what.step !== undefined ? null : what);
  if (what && what.step !== undefined) showStep(what.step);
  byId('canvas').focus({preventScroll: true});
}

function showStep(index) {
  const step = trace.steps[index];
  if (!step) return;
  const margin = (step.end - step.begin) * 0.04;
  setView(step.begin - margin, step.end + margin);
}

function nextStep(by) {
  if (trace.steps.length === 0) return;
  const middle = (view.from + view.to) / 2;
  const at = upperBound(trace.steps.map(step => step.begin), middle) - 1;
  showStep(clamp(at + by, 0, trace.steps.length - 1));
}

function hover(x, y) {
  const what = whatIsAt(x, y), tip = byId('tip');
  byId('canvas').style.cursor = what ? 'pointer' : 'grab';
  if (!what || what.step !== undefined) return hideTip();
  tip.replaceChildren(...tipWords(what));
  tip.hidden = false;
  const left = clamp(x + 14, 0, Math.max(view.width - tip.offsetWidth - 8, 0));
  const top = y + 18 + tip.offsetHeight > view.height ? y - tip.offsetHeight - 10 : y + 18;
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.max(top, 0))}px)`;
}

function hideTip() {
  byId('tip').hidden = true;
}

function tipWords(what) {
  if (what.gap) {
    return [
      make('b', {}, `${duration(what.gap.end - what.gap.begin)} without work`),
      make('span', {}, `of this process on GPU ${what.gap.device}`)
    ];
  }
  if (what.bundle) {
    const b = what.bundle;
    return [
      make('b', {}, `${count(b.count)} short ones together`),
      make('span', {}, `${duration(b.covered)} of ${duration(b.end - b.begin)} covered`)
    ];
  }
  const i = what.item, name = itemName(i);
  return [
    make('b', {}, name.length > 160 ? name.slice(0, 160) + '\u2026' : name),
    make(
        'span', {},
        `${duration(trace.items.length[i])} \u00b7 ${kindWord(i)} \u00b7 ` +
            stepWord(trace.items.step[i]))
  ];
}

const KEYS = {
  w: () => zoom(0.6),
  s: () => zoom(1 / 0.6),
  a: () => pan(-0.25),
  d: () => pan(0.25),
  ArrowLeft: () => pan(-0.1),
  ArrowRight: () => pan(0.1),
  ArrowUp: () => {
    byId('lanes').scrollTop -= 40;
  },
  ArrowDown: () => {
    byId('lanes').scrollTop += 40;
  },
  '+': () => zoom(0.6),
  '=': () => zoom(0.6),
  '-': () => zoom(1 / 0.6),
  0: () => setView(view.least, view.most),
  Home: () => setView(view.least, view.most),
  '[': () => nextStep(-1),
  ']': () => nextStep(1),
  n: () => nextMatch(1),
  p: () => nextMatch(-1),
  f: showSelected,
  Escape: clearMarks
};
// Only where the time line has the focus: these keys scroll the page elsewhere.
const KEYS_OF_CANVAS = new Set(['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home']);

function showSelected() {
  const what = view.selected;
  if (what && what.item !== undefined)
    showItem(what.item);
  else if (what && what.gap)
    show(what.gap.begin, what.gap.end);
}

function clearMarks() {
  view.evidence = view.measure = null;
  setSearch('');
  select(null);
}

function listenKeys() {
  document.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId('keys').open) return;
    const field = event.target.closest('input, textarea, select');
    if (field) {
      if (event.key === 'Escape') field.blur();
      return;
    }
    if (event.key === '/') {
      event.preventDefault();
      byId('search').focus();
      byId('search').select();
    } else if (event.key === '?') {
      byId('keys').showModal();
    } else {
      const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (!act || (KEYS_OF_CANVAS.has(event.key) && event.target !== byId('canvas'))) return;
      event.preventDefault();
      act();
    }
  });
}
