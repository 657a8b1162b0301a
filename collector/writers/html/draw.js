// Draws the rows at the zoom at hand: singly what is wider than a pixel and a half, otherwise one
// bar a pixel whose strength is the share of its time that is covered, from exact sums.

const AXIS = 26, PINNED = AXIS + ROW_HEIGHT.steps;  // the axis and the steps stay in sight
const FONT = '11.5px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

function draw() {
  const canvas = byId('canvas'), g = fitCanvas(canvas, view.width, view.height);
  g.font = FONT;
  g.textBaseline = 'middle';
  g.fillStyle = colors.panel;
  g.fillRect(0, 0, view.width, view.height);
  const scroll = byId('lanes').scrollTop;
  g.save();
  g.beginPath();
  g.rect(0, PINNED, view.width, view.height - PINNED);
  g.clip();
  drawStepLines(g);
  for (const row of layout.rows) {
    const y = PINNED + row.y - scroll;
    if (y + row.height < PINNED || y > view.height) continue;
    drawRow(g, row, y);
  }
  drawMarksOver(g, scroll);
  g.restore();
  drawPinned(g);
  drawOverview();
}

function inLanes(g, use) {
  g.save();
  g.beginPath();
  g.rect(view.labels, 0, view.width - view.labels, view.height);
  g.clip();
  use();
  g.restore();
}

function drawRow(g, row, y) {
  if (row.kind === 'title') {
    g.fillStyle = colors.band;
    g.fillRect(0, y, view.width, row.height - 4);
    g.fillStyle = colors.ink;
    g.font = '600 ' + FONT;
    g.fillText(fit(g, row.label, view.width - 24), 12, y + (row.height - 4) / 2);
    g.font = FONT;
    return;
  }
  g.strokeStyle = colors.line;
  g.beginPath();
  g.moveTo(view.labels - 0.5, y - 4);
  g.lineTo(view.labels - 0.5, y + row.height);
  g.stroke();
  g.fillStyle = colors.soft;
  g.fillText(fit(g, row.label, view.labels - 28), 20, y + row.height / 2);
  inLanes(g, () => {
    if (row.kind === 'busy') return drawBusy(g, row, y);
    for (const run of row.runs || []) drawRun(g, row, run, y);
    row.kind === 'marks' ? drawMarks(g, row, y) : drawItems(g, row, y);
  });
}

function fit(g, text, width) {
  if (width < 14) return '';
  if (g.measureText(text).width <= width) return text;
  let keep = Math.min(text.length, Math.ceil(width / 4));
  while (keep > 0 && g.measureText(text.slice(0, keep) + '\u2026').width > width) --keep;
  return keep < 2 ? '' : text.slice(0, keep) + '\u2026';
}

// Text on the tint: dark on light tints and the other way round.
function inkOn(color) {
  const [red, green, blue] = [1, 3, 5].map(at => parseInt(color.slice(at, at + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? '#15181c' : '#ffffff';
}

function drawItems(g, row, y) {
  const {begins, ends, ids} = row, height = row.height - 2, perPixel = nsPerPixel();
  let i = upperBound(ends, view.from);
  // An empty item at the edge ends where it begins.
  while (i > 0 && begins[i - 1] >= view.from) --i;
  while (i < ids.length && begins[i] <= view.to) {
    const x = toX(begins[i]), width = (ends[i] - begins[i]) / perPixel;
    if (width >= 1.5) {
      drawItem(g, row, i, x, y, width, height);
      ++i;
      continue;
    }
    const pixel = Math.floor(x);
    let next = Math.max(i + 1, upperBound(begins, toNs(pixel + 1), i + 1));
    if (next - 1 > i && (ends[next - 1] - begins[next - 1]) / perPixel >= 1.5) --next;
    drawPixel(g, row, i, next, pixel, y, height);
    i = next;
  }
}

function drawPixel(g, row, from, to, pixel, y, height) {
  const share = coveredShare(row, toNs(pixel), nsPerPixel());
  let shown = from;
  if (row.matches) {
    const hits = row.matches[to] - row.matches[from];
    if (hits > 0)
      while (row.matches[shown + 1] === row.matches[from]) ++shown;
    g.globalAlpha = hits > 0 ? 1 : 0.28;
  } else {
    g.globalAlpha = 0.35 + 0.65 * share;
  }
  g.fillStyle = colorOf(row.ids[shown]);
  g.fillRect(pixel, y, 1, height);
  g.globalAlpha = 1;
}

function drawItem(g, row, at, x, y, width, height) {
  const item = row.ids[at], color = colorOf(item);
  // Whole pixels: a soft edge between two neighbours would look like a gap.
  const left = Math.round(Math.max(x, view.labels - 4));
  const right = Math.max(Math.round(Math.min(x + width, view.width + 4)), left + 1);
  const isMatch = !row.matches || row.matches[at + 1] > row.matches[at];
  g.globalAlpha = isMatch ? 1 : 0.3;
  g.fillStyle = color;
  const shown = right - left - (width > 5 ? 1 : 0);  // a hair to tell wide neighbours apart
  g.fillRect(left, y, shown, height);
  if (isMatch && shown > 24) {
    g.fillStyle = inkOn(color);
    g.fillText(fit(g, itemName(item), shown - 8), left + 4, y + height / 2 + 0.5);
  }
  g.globalAlpha = 1;
}

function drawRun(g, row, run, y) {
  const perPixel = nsPerPixel(), height = row.height - 2, first = upperBound(run.ends, view.from);
  const last = upperBound(run.begins, view.to), most = row.matches ? 0.2 : 0.7;
  g.fillStyle = bundleColor(run.kind);
  if ((last - first) * 3 > view.width) {
    for (let x = view.labels; x < view.width; ++x) {
      const share = coveredShare(run, toNs(x), perPixel);
      if (share <= 0) continue;
      g.globalAlpha = most * (0.3 + 0.7 * share);
      g.fillRect(x, y + height * 0.2, 1, height * 0.6);
    }
  } else {
    for (let i = first; i < last; ++i) drawBundle(g, run.list[i], y, height, most);
  }
  g.globalAlpha = 1;
}

function drawBundle(g, bundle, y, height, most) {
  const left = Math.max(toX(bundle.begin), view.labels - 4);
  const width = Math.max(Math.min(toX(bundle.end), view.width + 4) - left, 1);
  const share = bundle.covered / Math.max(bundle.end - bundle.begin, 1);
  g.globalAlpha = most * (0.3 + 0.7 * Math.min(share, 1));
  g.fillStyle = bundleColor(bundle.kind);
  g.fillRect(left, y + height * 0.2, width, height * 0.6);
  if (width < 90) return;
  g.globalAlpha = 1;
  g.fillStyle = colors.soft;
  g.fillText(
      fit(g, `${count(bundle.count)} short ones`, width - 8), left + 4, y + height / 2 + 0.5);
}

function drawMarks(g, row, y) {
  g.fillStyle = colors.tint.mark;
  for (let i = upperBound(row.begins, view.from); i < row.ids.length && row.begins[i] <= view.to;) {
    const pixel = Math.round(toX(row.begins[i]));
    g.globalAlpha = row.matches && row.matches[i + 1] === row.matches[i] ? 0.2 : 1;
    g.beginPath();
    g.moveTo(pixel - 4, y + 1);
    g.lineTo(pixel + 4, y + 1);
    g.lineTo(pixel, y + row.height - 2);
    g.fill();
    i = Math.max(i + 1, upperBound(row.begins, toNs(pixel + 0.5)));
  }
  g.globalAlpha = 1;
}

// Where there is any work, pixel by pixel, and how long the gaps of the window are.
function drawBusy(g, row, y) {
  const height = row.height - 4, perPixel = nsPerPixel(), [windowFrom, windowTo] = trace.window;
  const from = Math.max(toX(windowFrom), view.labels), to = Math.min(toX(windowTo), view.width);
  g.fillStyle = colors.tint.gap;
  if (to > from) g.fillRect(from, y, to - from, height);
  g.fillStyle = colors.tint.busy;
  for (let x = view.labels; x < view.width; ++x) {
    const share = coveredShare(row, toNs(x), perPixel);
    if (share <= 0) continue;
    g.globalAlpha = 0.3 + 0.7 * share;
    g.fillRect(x, y, 1, height);
  }
  g.globalAlpha = 1;
  let i = upperBound(row.ends, view.from), idleFrom = i > 0 ? row.ends[i - 1] : windowFrom;
  for (; i < row.begins.length && row.begins[i] <= view.to; ++i) {
    drawGapLength(g, idleFrom, row.begins[i], y, height);
    idleFrom = row.ends[i];
  }
  drawGapLength(g, idleFrom, i < row.begins.length ? row.begins[i] : windowTo, y, height);
}

function drawGapLength(g, from, to, y, height) {
  const left = Math.max(toX(from), view.labels), right = Math.min(toX(to), view.width);
  if (right - left < 84) return;
  g.fillStyle = colors.tint.gapInk;
  const label = fit(g, duration(to - from) + ' idle', right - left - 12);
  g.fillText(label, left + (right - left - g.measureText(label).width) / 2, y + height / 2 + 0.5);
}
