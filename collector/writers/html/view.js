// What part of the time line is shown, what is selected, and when it is drawn again.

const NARROWEST_NS = 40;
const PRINTED_WIDTH = 980;  // drawn so wide and scaled to the paper
const view = {
  from: 0,
  to: 1,
  least: 0,
  most: 1,
  width: 0,
  height: 0,
  labels: 168,
  selected: null,
  hover: null,
  measure: null,
  evidence: null,
  pending: false
};

function resetView() {
  const extent = Math.max(trace.to - trace.from, NARROWEST_NS), margin = extent * 0.01;
  view.least = trace.from - margin;
  view.most = trace.to + margin;
  view.from = view.least;
  view.to = view.most;
}

function setView(from, to) {
  let width = clamp(to - from, NARROWEST_NS, view.most - view.least);
  const middle = (from + to) / 2;
  from = clamp(middle - width / 2, view.least, view.most - width);
  view.from = from;
  view.to = from + width;
  redraw();
}

function zoom(factor, around = (view.from + view.to) / 2) {
  const width = clamp((view.to - view.from) * factor, NARROWEST_NS, view.most - view.least);
  const share = (around - view.from) / (view.to - view.from);
  setView(around - share * width, around + (1 - share) * width);
}

function pan(share) {
  const by = (view.to - view.from) * share;
  setView(view.from + by, view.to + by);
}

function nsPerPixel() {
  return (view.to - view.from) / Math.max(view.width - view.labels, 1);
}

function toX(ns) {
  return view.labels + (ns - view.from) / nsPerPixel();
}

function toNs(x) {
  return view.from + (x - view.labels) * nsPerPixel();
}

function redraw() {
  if (view.pending) return;
  view.pending = true;
  requestAnimationFrame(() => {
    view.pending = false;
    draw();
  });
}

// Shows an interval with room around it, and the row of an item if it is out of sight.
function show(begin, end, item = -1) {
  const length = Math.max(end - begin, NARROWEST_NS);
  setView(begin - length * 0.6, end + length * 0.6);
  if (item >= 0 && layout.rowOfItem[item] >= 0) {
    const row = layout.rows[layout.rowOfItem[item]], box = byId('lanes');
    const top = PINNED, visible = box.clientHeight - top;
    if (row.y < box.scrollTop || row.y + row.height > box.scrollTop + visible) {
      box.scrollTop = Math.max(0, row.y - visible / 3);
    }
  }
}

function showItem(i) {
  show(trace.items.begin[i], itemEnd(i), i);
  select({item: i});
}

function select(what) {
  view.selected = what;
  fillDetail();
  redraw();
}

function fitCanvas(canvas, width, height) {
  const ratio = Math.min(devicePixelRatio || 1, 3);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
  }
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

function isPrinted() {
  return document.documentElement.dataset.print === 'yes';
}

function resize() {
  const box = byId('lanes');
  const most = isPrinted() ? 900 : Math.max(320, Math.round(innerHeight * 0.68));
  view.height = Math.min(layout.height + PINNED + 8, most);
  box.style.height = isPrinted() ? 'auto' : view.height + 'px';
  view.width = isPrinted() ? PRINTED_WIDTH : box.clientWidth;
  view.labels = view.width < 620 ? 96 : 168;
  byId('lanes-space').style.height = Math.max(0, layout.height + PINNED - view.height + 8) + 'px';
  redraw();
}
