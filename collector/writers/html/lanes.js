// What lies over and around the rows: the axis, the steps, the selection, arrows, the overview.

function ticks() {
  const wanted = Math.max((view.width - view.labels) / 110, 2),
        raw = (view.to - view.from) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(1, [1, 2, 5, 10].find(f => f * power >= raw * 0.999) * power);
  const out = [];
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) out.push(at);
  return {step, out};
}

function drawPinned(g) {
  g.fillStyle = colors.panel;
  g.fillRect(0, 0, view.width, PINNED);
  g.fillStyle = colors.soft;
  g.fillText(fit(g, 'time in the window', view.labels - 20), 12, AXIS / 2);
  if (trace.steps.length > 0) g.fillText('steps', 20, AXIS + ROW_HEIGHT.steps / 2);
  inLanes(g, () => {
    const {step, out} = ticks(), most = Math.max(Math.abs(view.from), Math.abs(view.to));
    for (const at of out) {
      const x = Math.round(toX(at)) + 0.5;
      g.strokeStyle = colors.line;
      g.beginPath();
      g.moveTo(x, AXIS - 6);
      g.lineTo(x, AXIS);
      g.stroke();
      g.fillStyle = colors.soft;
      g.fillText(moment(at, step, most), x + 4, AXIS / 2);
    }
    drawSteps(g);
  });
  g.strokeStyle = colors.line;
  g.beginPath();
  g.moveTo(0, PINNED - 0.5);
  g.lineTo(view.width, PINNED - 0.5);
  g.moveTo(view.labels - 0.5, 0);
  g.lineTo(view.labels - 0.5, PINNED);
  g.stroke();
}

function drawSteps(g) {
  const y = AXIS + 1, height = ROW_HEIGHT.steps - 5;
  for (const step of trace.steps) {
    if (step.end < view.from || step.begin > view.to) continue;
    const left = Math.max(toX(step.begin), view.labels - 4);
    const width = Math.max(Math.min(toX(step.end), view.width + 4) - left - 1, 1);
    g.fillStyle = colors.accent;
    g.globalAlpha = step.isCut || step.hasStart ? 0.18 : 0.3;
    g.fillRect(left, y, width, height);
    g.globalAlpha = 1;
    if (width < 20) continue;
    g.fillStyle = colors.ink;
    const words = `step ${step.index} \u00b7 ${duration(step.end - step.begin)}` +
        (step.isCut        ? ' \u00b7 cut' :
             step.hasStart ? ' \u00b7 with the tracer\u2019s start' :
                             '');
    g.fillText(
        fit(g, words, width - 8) || fit(g, String(step.index), width - 4), left + 5,
        y + height / 2 + 0.5);
  }
}

function drawStepLines(g) {
  inLanes(g, () => {
    g.strokeStyle = colors.line;
    g.beginPath();
    if (trace.steps.length * 3 < (view.width - view.labels) * 2) {
      for (const step of trace.steps) {
        for (const at of [step.begin, step.end]) {
          if (at < view.from || at > view.to) continue;
          const x = Math.round(toX(at)) + 0.5;
          g.moveTo(x, PINNED);
          g.lineTo(x, view.height);
        }
      }
    }
    g.stroke();
  });
}

function boxOf(item, scroll) {
  const index = layout.rowOfItem[item];
  if (index < 0) return null;
  const row = layout.rows[index], x = toX(trace.items.begin[item]);
  return {
    x,
    right: Math.max(toX(itemEnd(item)), x + 1.5),
    y: PINNED + row.y - scroll,
    height: row.height - 2
  };
}

function drawMarksOver(g, scroll) {
  inLanes(g, () => {
    if (view.evidence) drawSpan(g, view.evidence, 'evidence');
    if (view.measure) drawSpan(g, view.measure, 'measure');
    const item = view.selected ? view.selected.item : undefined;
    if (view.selected && view.selected.gap) drawSpan(g, view.selected.gap, 'gap');
    if (item === undefined) return;
    const link = trace.items.link[item];
    if (isDevice(item) ? link >= 0 : trace.items.kind[item] === CALL && link >= 0) {
      isDevice(item) ? drawArrow(g, link, item, scroll) : drawArrow(g, item, link, scroll);
    }
    outline(g, boxOf(item, scroll), 2);
  });
}

function outline(g, box, width) {
  if (!box) return;
  g.strokeStyle = colors.ink;
  g.lineWidth = width;
  g.strokeRect(box.x - 1, box.y - 1, box.right - box.x + 2, box.height + 2);
  g.lineWidth = 1;
}

function drawSpan(g, span, why) {
  const from = toX(span.begin), to = Math.max(toX(span.end), from + 1);
  g.fillStyle = why === 'measure' ? colors.accent : colors.tint.gapInk;
  g.globalAlpha = 0.1;
  g.fillRect(from, PINNED, to - from, view.height);
  g.globalAlpha = 0.8;
  g.fillRect(Math.round(from), PINNED, 1, view.height);
  g.fillRect(Math.round(to), PINNED, 1, view.height);
  g.globalAlpha = 1;
  if (why !== 'measure') return;
  const label = duration(Math.abs(span.end - span.begin)), middle = (from + to) / 2;
  const width = g.measureText(label).width + 12;
  g.fillStyle = colors.panel;
  g.fillRect(middle - width / 2, PINNED + 6, width, 18);
  g.fillStyle = colors.ink;
  g.fillText(label, middle - width / 2 + 6, PINNED + 15);
}

// From a call to the work it launched.
function drawArrow(g, call, work, scroll) {
  const a = boxOf(call, scroll), b = boxOf(work, scroll);
  if (!a || !b) return;
  const fromX = (a.x + Math.min(a.right, a.x + 8)) / 2, fromY = a.y < b.y ? a.y + a.height : a.y;
  const toY = a.y < b.y ? b.y : b.y + b.height, bend = (toY - fromY) / 2;
  g.strokeStyle = g.fillStyle = colors.ink;
  g.lineWidth = 1.25;
  g.beginPath();
  g.moveTo(fromX, fromY);
  g.bezierCurveTo(fromX, fromY + bend, b.x, toY - bend, b.x, toY);
  g.stroke();
  const tip = a.y < b.y ? -6 : 6;
  g.beginPath();
  g.moveTo(b.x, toY);
  g.lineTo(b.x - 3.5, toY + tip);
  g.lineTo(b.x + 3.5, toY + tip);
  g.fill();
  g.lineWidth = 1;
  outline(g, call === (view.selected || {}).item ? b : a, 1);
}

// The whole cycle in one strip: where the devices work, and which part is shown below.
function drawOverview() {
  const canvas = byId('overview'), height = 30, width = view.width;
  const g = fitCanvas(canvas, width, height);
  g.fillStyle = colors.band;
  g.fillRect(0, 0, width, height);
  const scale = (view.most - view.least) / width;
  const rows = layout.rows.filter(row => row.kind === 'busy');
  const shown =
      rows.length > 0 ? rows : layout.rows.filter(row => row.kind === 'ranges').slice(0, 1);
  shown.forEach((row, at) => {
    const tall = (height - 8) / shown.length;
    g.fillStyle = row.kind === 'busy' ? colors.tint.busy : colors.tint.launch;
    for (let x = 0; x < width; ++x) {
      const share = coveredShare(row, view.least + x * scale, scale);
      if (share <= 0) continue;
      g.globalAlpha = 0.25 + 0.75 * share;
      g.fillRect(x, 4 + at * tall, 1, Math.max(tall - 1, 1));
    }
    g.globalAlpha = 1;
  });
  const from = (view.from - view.least) / scale,
        to = Math.max((view.to - view.least) / scale, from + 3);
  g.fillStyle = colors.accent;
  g.globalAlpha = 0.16;
  g.fillRect(from, 0, to - from, height);
  g.globalAlpha = 1;
  g.strokeStyle = colors.accent;
  g.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 2), height - 1);
}

function coveredShare(row, from, width) {
  const first = upperBound(row.ends, from), last = upperBound(row.begins, from + width);
  if (last <= first) return 0;
  let sum = row.covered[last] - row.covered[first];
  sum -= Math.max(0, from - row.begins[first]) + Math.max(0, row.ends[last - 1] - from - width);
  return clamp(sum / width, 0, 1);
}
