// Puts the page together.

function applyColors() {
  readColors();
  fillLegend();
  fillFigures();
  byId('theme').setAttribute('aria-pressed', String(colors.isDark));
  byId('theme').textContent = colors.isDark ? 'Light' : 'Dark';
  drawStrip();
  redraw();
}

function toggleTheme() {
  document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
  applyColors();
}

// Paper is light, and has room for what a screen scrolls.
function listenPrint() {
  let theme;
  addEventListener('beforeprint', () => {
    theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = 'light';
    document.documentElement.dataset.print = 'yes';
    applyColors();
    resize();
    draw();
    drawStrip();
  });
  addEventListener('afterprint', () => {
    delete document.documentElement.dataset.print;
    if (theme)
      document.documentElement.dataset.theme = theme;
    else
      delete document.documentElement.dataset.theme;
    applyColors();
    resize();
  });
}

function listenPage() {
  byId('theme').addEventListener('click', toggleTheme);
  byId('help').addEventListener('click', () => byId('keys').showModal());
  byId('keys-close').addEventListener('click', () => byId('keys').close());
  byId('print').addEventListener('click', () => window.print());
  byId('zoom-in').addEventListener('click', () => zoom(0.6));
  byId('zoom-out').addEventListener('click', () => zoom(1 / 0.6));
  byId('zoom-all').addEventListener('click', () => setView(view.least, view.most));
  byId('lanes').addEventListener('scroll', redraw);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', applyColors);
  new ResizeObserver(() => {
    resize();
    drawStrip();
  }).observe(byId('timeline'));
}

function drawnWords() {
  return trace.drawn < trace.all ?
      `${count(trace.drawn)} of ${count(trace.all)} items drawn singly, the rest together` :
      `${plural(trace.all, 'item')}, all drawn`;
}

function start() {
  resetView();
  buildLayout();
  readColors();
  fillHead();
  fillReadings();
  fillSteps();
  buildTables();
  byId('drawn').textContent = drawnWords();
  fillDetail();
  listenPointer();
  listenOverview();
  listenKeys();
  listenSearch();
  listenPage();
  listenPrint();
  resize();
  applyColors();
  sayMatches();
  document.documentElement.dataset.ready = 'yes';
}

start();
