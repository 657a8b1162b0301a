// Tables that sort and filter. Columns come from the rows' own keys, so that a table of a newer
// summary is shown too.

const FIRST_ROWS = 20;
const TABLES = [
  ['kernels', 'Kernels'], ['calls', 'Calls'], ['copies', 'Copies'], ['sets', 'Sets'],
  ['ranges', 'Ranges'], ['waits', 'Waits'], ['steps', 'Steps'], ['idle', 'Idle time'],
  ['gaps', 'Idle gaps'], ['streams', 'Streams'], ['queues', 'Queues'], ['threads', 'Threads']
];
const NOT_TABLES = new Set([
  'readings', 'readings_without_input', 'devices', 'notes', 'set_aside', ...TABLES.map(t => t[0])
]);
const WORDS = {
  name: 'name',
  count: 'number',
  total_ns: 'total',
  mean_ns: 'mean',
  min_ns: 'shortest',
  max_ns: 'longest',
  share_of_busy: 'share of busy',
  self_ns: 'own',
  launches: 'kernel and graph launches',
  launch_ns: 'in launch calls',
  wait_ns: 'in waits',
  other_ns: 'other',
  device_ns: 'device',
  projected_ns: 'device, projected',
  rate_gbs: 'rate',
  waits_for: 'waits for',
  share_of_idle: 'share of idle',
  outside_steps_ns: 'outside steps',
  max: 'longest queue',
  mean: 'mean queue',
  wall_ns: 'wall',
  gpu: 'GPU',
  begin_ns: 'begins',
  host_range: 'host in range',
  host_call: 'in call'
};
// What a figure is of; shown under the table.
const FOOTNOTES = {
  kernels:
      'Total: sum of durations. Share of busy: the union of its time of the time in which any ' +
      'work of this process was on the devices.',
  calls: 'Sums of the time inside the calls, all threads.',
  copies:
      'Total: sum of durations; copies that run at once count more than once. Rate: bytes over ' +
      'that total, by direction and kind of memory.',
  ranges: 'Total, own (no range inside it open), in launch calls (of kernels, graphs, copies and ' +
      'sets), in waits and other are host time, summed. Device: the union of the time in which ' +
      'the work launched inside it ran, whenever that was. Projected: from the first begin of ' +
      'that work to its last end, gaps counted.',
  waits: 'Host time inside calls that wait, summed over all threads.',
  steps:
      'Wall: host time of the step. Device: the union of the work launched in it, whenever it ran; ' +
      'not known of a step that was recorded in part.',
  gaps:
      'The longest stretches of the window in which no work of this process was on the device, and ' +
      'where the thread that launches most was at the middle of each.',
  streams: 'Total: the union of the time in which work of this process was on the stream.',
  queues:
      'Work launched and not begun yet, from the begin of its launch call on. Changes: a launch or ' +
      'a begin; the mean is over them.',
  threads: 'Sums of the time inside launch calls (of kernels, graphs, copies and sets) and waits.'
};
const tables = {};

function gapRows() {
  const rows = [];
  for (const device of trace.busy) {
    for (let at = 0; at < device.longest.length; at += 2) {
      const gap = {
        begin: device.longest[at],
        end: device.longest[at] + device.longest[at + 1],
        device: device.device
      };
      const place = hostOfGap(gap), step = stepAt((gap.begin + gap.end) / 2);
      rows.push({
        gpu: gap.device,
        length_ns: gap.end - gap.begin,
        begin_ns: gap.begin,
        step: step >= 0 ? trace.steps[step].index : null,
        host_range: place.range,
        host_call: place.call,
        gap
      });
    }
  }
  return rows.sort((a, b) => b.length_ns - a.length_ns);
}

function rowsOf(key) {
  if (key === 'steps') return summary.steps.each;
  if (key === 'gaps') return trace.busy.length > 0 ? gapRows() : null;
  if (key === 'idle') return summary.idle ? summary.idle.rows.map(idleRow) : null;
  if (key === 'queues') return summary.launches ? summary.launches.queues : null;
  if (key === 'copies' && summary.copies) return summary.copies.map(copyRow);
  return summary[key];
}

// Null: in none, unless that was not recorded at all.
function idleRow(row) {
  const absent = summary.absent || {};
  return {
    range: row.range ?? (absent['idle.range'] ? null : '(no range)'),
    domain: row.domain || undefined,
    call: row.call ?? (absent['idle.call'] ? null : '(no CUDA call)'),
    waits_for: row.waits_for || undefined,
    gpu: row.device,
    idle_ns: row.idle_ns,
    share_of_idle: row.share_of_idle,
    outside_steps_ns: row.outside_steps_ns,
    own: row
  };
}

function copyRow(row) {
  const isKnown = typeof row.bytes === 'number' && row.total_ns > 0;
  return {...row, rate_gbs: isKnown ? row.bytes / row.total_ns : null};
}

// Whose place the rows of idle time tell, and of what time.
function idleWords() {
  const idle = summary.idle, thread = idle.thread, absent = summary.absent || {};
  const left = [];
  if (idle.steps_left_out > 0) {
    left.push(`${duration(idle.left_out_ns)} of steps with the tracer\u2019s start`);
  }
  if (idle.not_known_ns > 0) {
    left.push(
        `${duration(idle.not_known_ns)} until each stream\u2019s first work, when earlier work ` +
        'may still run');
  }
  const devices = idle.devices.map(
      d => `GPU ${d.ordinal} idle ${duration(d.idle_ns)}` +
          (d.outside_steps_ns === null ?
               '' :
               `, ${duration(d.outside_steps_ns)} of it outside every step`));
  const missing =
      [['ranges', 'idle.range'], ['calls', 'idle.call']].filter(([, key]) => absent[key]);
  return 'Time in which a device had no work of this process, by the innermost range and call of ' +
      `thread ${thread.tid}${thread.name ? ` (${thread.name})` : ''}, which ${thread.why}. ` +
      `Looked at: ${duration(idle.looked_at_ns)} of the window\u2019s ` +
      `${duration(summary.window.dur_ns)}${
             left.length ? ', without ' + left.join(' and ') : ''}. ` +
      `${devices.join('; ')}; the rows of a device add up to that. Only calls that launch, copy, ` +
      'set, wait or allocate are recorded.' +
      missing.map(([what, key]) => ` Not known: ${what} (${absent[key]}).`).join('');
}

function footnote(key) {
  return key === 'idle' ? idleWords() : FOOTNOTES[key] || '';
}

function whyNone(key, rows) {
  if (rows) return 'none';
  const needs = {gaps: 'devices', queues: 'launches'}[key];
  const why = (summary.absent || {})[key] || (summary.absent || {})[needs];
  return why ? `not collected: ${why}` : 'no device work was recorded';
}

function cell(key, value) {
  if (value === null || value === undefined) return '\u2013';
  if (key === 'begin_ns') return exactly(value);
  if (key.endsWith('_ns')) return duration(value);
  if (key === 'rate_gbs') return `${value.toFixed(2)}\u00a0GB/s`;
  if (key === 'bytes' || key.endsWith('_bytes')) return byteCount(value);
  if (key.startsWith('share') || key.endsWith('_share')) return percent(value);
  if (typeof value === 'number') return Number.isInteger(value) ? count(value) : value.toFixed(3);
  if (typeof value === 'boolean') return value ? 'yes' : key === 'collective' ? '' : 'no';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function columnsOf(rows) {
  const keys = [];
  for (const row of rows.slice(0, 50)) {
    for (const [key, value] of Object.entries(row)) {
      if (!keys.includes(key) && (value === null || typeof value !== 'object')) keys.push(key);
    }
  }
  // A flag that no row has says nothing.
  return keys.filter(
      key => !rows.every(
          row => row[key] === false || row[key] === '' || row[key] === undefined ||
              (key === 'cut' && row[key] === 0)));
}

function isNumeric(rows, key) {
  // What was not collected in any row is a figure too.
  return rows.every(row => typeof row[key] === 'number' || row[key] === null);
}

function makeTable(key, title) {
  const rows = rowsOf(key);
  const table = {
    key,
    title,
    rows,
    columns: rows ? columnsOf(rows) : [],
    sort: null,
    down: true,
    filter: '',
    shown: FIRST_ROWS
  };
  tables[key] = table;
  table.panel = make('section', {
    class: 'panel',
    role: 'tabpanel',
    id: `panel-${key}`,
    'aria-labelledby': `tab-${key}`,
    tabindex: '0'
  });
  if (!rows || rows.length === 0) {
    table.panel.append(
        make('h3', {class: 'print-only'}, title), make('p', {class: 'soft'}, whyNone(key, rows)));
    return table;
  }
  table.largestShare = Math.max(...rows.map(row => row.share_of_busy || 0));
  table.numeric = new Set(table.columns.filter(column => isNumeric(rows, column)));
  table.filterField = make('input', {
    type: 'search',
    placeholder: `Filter ${title.toLowerCase()}`,
    'aria-label': `Filter ${title.toLowerCase()}`,
    oninput: event => {
      table.filter = event.target.value.toLowerCase();
      table.shown = FIRST_ROWS;
      fillTable(table);
    }
  });
  table.words = make('span', {class: 'soft', 'aria-live': 'polite'});
  table.head = make('thead');
  table.body = make('tbody');
  table.more = make('p', {class: 'buttons'});
  table.panel.append(
      make('h3', {class: 'print-only'}, title),
      make('div', {class: 'table-tools'}, table.filterField, table.words),
      make(
          'div', {class: 'table-box'},
          make('table', {}, make('caption', {class: 'aside'}, title), table.head, table.body)),
      table.more, make('p', {class: 'footnote'}, footnote(key)));
  fillTable(table);
  return table;
}

function visibleRows(table) {
  const text = table.columns.filter(column => !table.numeric.has(column));
  let rows = table.rows;
  if (table.filter) {
    rows = rows.filter(
        row =>
            text.some(column => String(row[column] ?? '').toLowerCase().includes(table.filter)) ||
            (text.length === 0 && JSON.stringify(row).includes(table.filter)));
  }
  if (table.sort === null) return rows;
  const key = table.sort, sign = table.down ? -1 : 1;
  const compare = (x, y) => {
    // What was not collected stays at the end.
    if (x === null || y === null || typeof x !== typeof y) return (x === null) - (y === null);
    return sign * (x < y ? -1 : x > y ? 1 : 0);
  };
  return [...rows].sort((a, b) => compare(a[key] ?? null, b[key] ?? null));
}

function sortBy(table, column) {
  if (table.sort === column)
    table.down = !table.down;
  else
    [table.sort, table.down] = [column, table.numeric.has(column)];
  fillTable(table);
  table.head.querySelectorAll('button')[table.columns.indexOf(column)].focus();
}

// Rows there are, of which a page holds the first.
function allRows(table) {
  if (table.key === 'gaps') return trace.busy.reduce((sum, device) => sum + device.in_window, 0);
  return data.cut[table.key] || (table.rows ? table.rows.length : 0);
}

function fillTable(table) {
  const rows = visibleRows(table), all = allRows(table);
  table.head.replaceChildren(make(
      'tr', {},
      table.columns.map(
          (column, at) => make(
              'th', {
                scope: 'col',
                class: at > 0 && table.numeric.has(column) ? 'number' : null,
                'aria-sort': table.sort !== column ? null :
                    table.down                     ? 'descending' :
                                                     'ascending'
              },
              button(
                  (WORDS[column] || column.replace(/_ns$/, '').replace(/_/g, ' ')) +
                      (table.sort !== column ? '' :
                           table.down        ? ' \u2193' :
                                               ' \u2191'),
                  () => sortBy(table, column))))));
  table.body.replaceChildren(...rows.slice(0, table.shown).map(row => tableRow(table, row)));
  table.words.textContent = (rows.length < table.rows.length ?
                                 `${count(rows.length)} of ${plural(table.rows.length, 'row')}` :
                                 plural(rows.length, 'row')) +
      (all > table.rows.length ? `, the first of ${count(all)}` : '');
  const left = rows.length - table.shown;
  table.more.replaceChildren(...(
      left <= 0 ?
          [] :
          [button(left > 500 ? `500 more of ${count(left)}` : `${plural(left, 'more row')}`, () => {
            table.shown += Math.min(left, 500);
            fillTable(table);
          })]));
}

function tableRow(table, row) {
  const act = rowAction(table, row), line = make('tr', {class: act ? 'acts' : null});
  table.columns.forEach((column, at) => {
    const value = cell(column, row[column]), isNumber = at > 0 && table.numeric.has(column);
    const words = row[column] === '' ? '(empty)' : value;
    const isName = !isNumber && words.length > 60;
    const content = at === 0 && act ?
        make(
            'button', {type: 'button', class: 'link', title: isName ? words : null, onclick: act},
            words) :
        isName ? make('span', {class: 'long', title: words}, words) :
                 words;
    const td = make(
        'td',
        {class: isNumber       ? 'number' :
             column === 'name' ? 'name' :
                                 null},
        content);
    if (column === 'share_of_busy' && typeof row[column] === 'number') {
      const bar = make('i', {class: 'share', 'aria-hidden': 'true'});
      bar.style.width = (100 * row[column] / Math.max(table.largestShare, 1e-9)).toFixed(1) + '%';
      td.append(bar);
    }
    line.append(td);
  });
  return line;
}

// What a click on a row shows in the time line.
function rowAction(table, row) {
  if (table.key === 'gaps') {
    return () => {
      show(row.gap.begin, row.gap.end);
      select({gap: row.gap});
      toTimeline();
    };
  }
  if (table.key === 'steps') {
    const at = trace.steps.findIndex(step => step.index === row.index);
    return at < 0 ? null : () => {
      showStep(at);
      toTimeline();
    };
  }
  const name = table.key === 'copies' ? `Memcpy ${row.direction} (${row.source} -> ${row.target})` :
      table.key === 'sets' ? `Memset (${row.memory})` :
      table.key === 'idle'                                        ? row.own.range :
      ['kernels', 'calls', 'ranges', 'waits'].includes(table.key) ? row.name :
                                                                    null;
  if (name === null) return null;
  return () => showNamed(name);
}

function showNamed(name) {
  setSearch('=' + name);
  const longest = longestNamed(name);
  if (longest >= 0) {
    search.at = search.ids.indexOf(longest);
    sayMatches();
    showItem(longest);
  }
  toTimeline();
}

function toTimeline() {
  const isCalm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  byId('timeline').scrollIntoView({behavior: isCalm ? 'auto' : 'smooth', block: 'start'});
}

function buildTables() {
  const extra = Object.keys(summary).filter(
      key => !NOT_TABLES.has(key) && Array.isArray(summary[key]) && summary[key].length > 0 &&
          typeof summary[key][0] === 'object');
  const all = [...TABLES, ...extra.map(key => [key, key.replace(/_/g, ' ')])];
  const tabs = byId('tabs'), panels = byId('panels');
  for (const [key, title] of all) {
    const table = makeTable(key, title);
    table.tab = make(
        'button', {
          type: 'button',
          role: 'tab',
          id: `tab-${key}`,
          'aria-controls': `panel-${key}`,
          onclick: () => openTab(key)
        },
        title, make('small', {}, table.rows ? count(allRows(table)) : '\u2013'));
    tabs.append(table.tab);
    panels.append(table.panel);
  }
  tabs.addEventListener('keydown', event => {
    const by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const keys = Object.keys(tables),
          at = keys.findIndex(key => tables[key].tab === document.activeElement);
    const next = keys[(at + by + keys.length) % keys.length];
    openTab(next);
    tables[next].tab.focus();
  });
  openTab(all.find(([key]) => tables[key].rows && tables[key].rows.length > 0)?.[0] || 'kernels');
}

function openTab(key) {
  for (const table of Object.values(tables)) {
    const isOpen = table.key === key;
    table.tab.setAttribute('aria-selected', String(isOpen));
    table.tab.tabIndex = isOpen ? 0 : -1;
    table.panel.classList.toggle('open', isOpen);
  }
}
