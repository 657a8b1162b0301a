// The strip of all steps of the process, collected or not.

const strip = {
  steps: [],
  top: 1,
  hover: -1
};
const STRIP_HEIGHT = 112, STRIP_LEFT = 62, STRIP_BOTTOM = 20;

function readStrip() {
  const collected = new Map(trace.steps.map((step, at) => [step.index, at]));
  const all = manifest.all_steps.each.map(s => ({index: s.index, ns: s.dur_ns}));
  const known = new Set(all.map(s => s.index));
  for (const step of trace.steps) {
    if (!known.has(step.index)) all.push({index: step.index, ns: step.end - step.begin});
  }
  all.sort((a, b) => a.index - b.index);
  strip.steps = all.map(s => ({...s, at: collected.has(s.index) ? collected.get(s.index) : -1}));
  // One slow step (the first, mostly) must not flatten the others: what is higher is cut off, and
  // its bar says so.
  const lengths = all.map(s => s.ns).sort((a, b) => a - b);
  const usual = lengths.length > 0 ? lengths[Math.floor((lengths.length - 1) * 0.9)] : 1;
  strip.top = Math.max(1, Math.min(lengths[lengths.length - 1] || 1, usual * 2)) * 1.08;
}

function fillSteps() {
  readStrip();
  const words = byId('steps-words'), total = manifest.all_steps.count;
  byId('steps').hidden = strip.steps.length === 0;
  const collected = strip.steps.filter(s => s.at >= 0).length;
  const shown = strip.steps.length;
  words.textContent =
      `${plural(Math.max(total, shown), 'step')} seen, ${count(collected)} collected` +
      (total > shown ? `; ${count(shown)} are drawn (a sample)` : '') + '.';
  byId('strip').setAttribute(
      'aria-label',
      `Durations of ${plural(shown, 'step')}, ${collected} of them ` +
          'collected; the table of steps has the numbers');
  listenStrip();
}

// Few steps stand together at the left: bars as wide as a page are no easier to compare.
function stripEach(width) {
  return Math.min((width - STRIP_LEFT - 8) / strip.steps.length, 72);
}

function stripX(at, width) {
  return STRIP_LEFT + at * stripEach(width);
}

function drawStrip() {
  const canvas = byId('strip'),
        width = isPrinted() ? PRINTED_WIDTH : canvas.parentElement.clientWidth - 32;
  if (strip.steps.length === 0 || width === 0) return;
  const g = fitCanvas(canvas, width, STRIP_HEIGHT), bottom = STRIP_HEIGHT - STRIP_BOTTOM;
  g.clearRect(0, 0, width, STRIP_HEIGHT);
  g.font = FONT;
  g.textBaseline = 'middle';
  const scale = (bottom - 12) / strip.top;
  stripGrid(g, width, bottom, scale);
  const each = stripEach(width), gap = each > 5 ? Math.min(each * 0.2, 6) : 0;
  strip.steps.forEach((step, at) => {
    const x = stripX(at, width) + gap / 2, wide = Math.max(Math.min(each - gap, 46), 0.6);
    const isCut = step.ns > strip.top, tall = Math.min(step.ns, strip.top) * scale;
    const own = step.at >= 0 ? trace.steps[step.at] : null;
    g.fillStyle = own ? colors.accent : colors.soft;
    g.globalAlpha =
        (own ? own.isCut || own.hasStart ? 0.5 : 0.9 : 0.32) + (at === strip.hover ? 0.1 : 0);
    g.fillRect(x, bottom - tall, wide, tall);
    g.globalAlpha = 1;
    if (isCut && wide >= 3) {
      g.fillStyle = colors.panel;
      g.fillRect(x - 1, bottom - tall + 7, wide + 2, 3);
    }
    if (isCut && each >= 60) {
      g.fillStyle = colors.ink;
      g.fillText(duration(step.ns), x + wide + 4, bottom - tall + 5);
    }
  });
  stripLabels(g, width, bottom, each);
}

function stripGrid(g, width, bottom, scale) {
  const power = 10 ** Math.floor(Math.log10(strip.top)),
        step = [0.25, 0.5, 1, 2.5].map(f => f * power).find(s => strip.top / s <= 3.5) || power * 5;
  for (let ns = 0; ns <= strip.top; ns += step) {
    const y = Math.round(bottom - ns * scale) + 0.5;
    g.strokeStyle = colors.line;
    g.beginPath();
    g.moveTo(STRIP_LEFT, y);
    g.lineTo(width, y);
    g.stroke();
    g.fillStyle = colors.soft;
    const label = duration(ns);
    g.fillText(label, STRIP_LEFT - 8 - g.measureText(label).width, y);
  }
}

function stripLabels(g, width, bottom, each) {
  g.fillStyle = colors.soft;
  const every =
      [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000].find(n => n * each >= 34) ||
      20000;
  strip.steps.forEach((step, at) => {
    if (step.index % every !== 0) return;
    g.fillText(String(step.index), stripX(at, width) + 2, bottom + 11);
  });
}

function stripAt(event) {
  const box = byId('strip').getBoundingClientRect();
  const at = Math.floor((event.clientX - box.left - STRIP_LEFT) / stripEach(box.width));
  return at >= 0 && at < strip.steps.length ? at : -1;
}

function listenStrip() {
  const canvas = byId('strip'), tip = byId('strip-tip');
  canvas.addEventListener('pointermove', event => {
    strip.hover = stripAt(event);
    const step = strip.steps[strip.hover];
    tip.textContent = step ? `step ${step.index}: ${duration(step.ns)}` +
            (step.at >= 0 ? ', collected' : ', not collected') :
                             '';
    canvas.style.cursor = step && step.at >= 0 ? 'pointer' : 'default';
    drawStrip();
  });
  canvas.addEventListener('pointerleave', () => {
    strip.hover = -1;
    tip.textContent = '';
    drawStrip();
  });
  canvas.addEventListener('click', event => {
    const step = strip.steps[stripAt(event)];
    if (!step || step.at < 0) return;
    showStep(step.at);
    toTimeline();
  });
}
