// The head of the report: who and when, what a reader must know first, the figures, the cost.

function fillTitle() {
  const s = manifest.session,
        rank = s.rank === null ?
      null :
      `rank ${s.rank}` + (s.world_size === null ? '' : ` of ${s.world_size}`);
  byId('program').textContent = s.exe || s.title || 'unnamed program';
  byId('who').textContent = [
    rank, s.host && `host ${s.host}`, s.pid ? `pid ${s.pid}` : null,
    `cycle ${manifest.cycle.index}`, startText(),
    summary.gpu.status === 'unavailable' ? 'host only' : null
  ].filter(Boolean).join('  \u00b7  ');
  byId('labels').replaceChildren(...Object.entries(s.labels).map(
      ([key, value]) => make('li', {}, make('b', {}, key), ' ', value)));
  byId('labels').hidden = Object.keys(s.labels).length === 0;
}

// The moment at which the window began, in UTC.
function startText() {
  const base = BigInt(Math.round(manifest.clock.base_unix_ns || 0)) + BigInt(trace.originNs);
  const ms = Number(base / 1000000n);
  if (!(ms > 0 && ms < 8.6e15) || !manifest.clock.base_unix_ns) return null;
  return new Date(ms).toISOString().slice(0, 19).replace('T', ' ') + ' UTC';
}

// What must be known before any figure is read.
function banners() {
  const out = [], gpu = summary.gpu, cycle = summary.cycle;
  const say = (level, title, text) =>
      out.push(make('li', {class: level}, make('b', {}, title), ' ', text));
  if (gpu.status === 'unavailable') {
    say('bad', 'Host only.',
        `There is no device data: ${gpu.reason || 'the reason is not known'}. ` +
            'What follows is what the host did.');
  } else if (gpu.status !== 'collected') {
    say('bad', 'Device data in part.', gpu.reason || '');
  }
  if (cycle.complete === false) {  // null: a trace file does not tell
    say('bad', 'Incomplete.',
        (cycle.ended === 'schedule' ? 'All steps ran, but not all of their work was recorded' :
                                      `Cut short, ended by ${cycle.ended}`) +
            (cycle.reason ? ` (${cycle.reason})` : '') + '; figures hold what was recorded.');
  }
  for (const [kind, lost] of Object.entries(summary.losses)) {
    say('bad', 'Lost.', `${kind}: ${count(lost.dropped)} dropped, ${count(lost.invalid)} invalid.`);
  }
  for (const row of summary.set_aside || []) {
    say('warn', 'Set aside.',
        `One execution of ${row.name} of ${duration(row.dur_ns)}: ${row.why}.`);
  }
  const graphs = summary.graph_launches;
  if (graphs && graphs.count > 0) {
    say('note', 'CUDA graphs.',
        plural(graphs.count, 'launch', 'launches') + ' hold ' + duration(graphs.total_ns) +
            ' (sum); the kernels inside are not listed (--graph node lists them).');
  }
  for (const note of summary.notes) say('note', note.code.replace(/_/g, ' ') + '.', note.text);
  if (trace.drawn < trace.all) {
    say('note', 'Not all is drawn singly.',
        'The page draws the ' + count(trace.drawn) + ' longest of ' + count(trace.all) +
            ' calls, ranges and pieces of work; the others are drawn together, as paler bars. ' +
            'Tables and readings are of all of them.');
  }
  if (trace.marksDrawn < trace.marksAll) {
    say('note', 'Marks.', `${count(trace.marksDrawn)} of ${count(trace.marksAll)} are drawn.`);
  }
  if (layout.notDrawn > 0) {
    say('note', 'Deep nesting.',
        `${count(layout.notDrawn)} items nested deeper than ${MOST_ROWS} rows ` +
            'are not drawn; the tables have them.');
  }
  return out;
}

function figure(title, value, ...more) {
  return make(
      'div', {class: 'figure'}, make('h3', {}, title), make('p', {class: 'value'}, value),
      more.map(line => typeof line === 'string' ? make('p', {class: 'soft'}, line) : line));
}

function figures() {
  const steps = summary.steps, out = [];
  out.push(figure(
      'Window', duration(summary.window.dur_ns), 'of host time, ' + plural(steps.count, 'step')));
  const left = steps.count - steps.counted;
  out.push(
      steps.median_ns === null ?
          figure(
              'Step', '\u2013',
              steps.count === 0 ? 'no step was recorded' : 'no whole step to take a median of') :
          figure(
              'Step, median', duration(steps.median_ns),
              `${duration(steps.min_ns)} to ${duration(steps.max_ns)} (n=${steps.counted})`,
              left > 0 ? `${left} left out: cut, or with the tracer\u2019s start` : '',
              summary.examples_per_second ?
                  `${count(Number(summary.examples_per_second.toPrecision(4)))} ` +
                      'examples per second' :
                  ''));
  for (const device of summary.devices || []) out.push(deviceFigure(device));
  out.push(...latencyFigure());
  if (!summary.devices) {
    out.push(figure('Device', 'not collected', (summary.absent || {}).devices || ''));
  } else if (summary.devices.length === 0) {
    out.push(figure('Device', 'none', 'no device work was recorded'));
  }
  return out;
}

// From a launch call's return until its work begins, and how much was queued at most.
function latencyFigure() {
  const launches = summary.launches;
  if (!launches || launches.count === 0) return [];
  const delay = launches.delay;
  const deepest = launches.queues.reduce((a, b) => !a || b.max > a.max ? b : a, null);
  return [figure(
      'Launch latency, median', duration(delay.median_ns),
      'from a launch call\u2019s return until its work began',
      `${plural(launches.count, 'piece')} of device work, ${duration(delay.max_ns)} the longest` +
          (delay.p90_ns === null ? '' : `, nine of ten within ${duration(delay.p90_ns)}`),
      deepest ? `at most ${count(deepest.max)} queued, on ${deepest.name}` : '')];
}

// Work that no step and no range holds.
function outsideWords(d) {
  return [['launched_outside_steps_ns', 'step'], ['launched_outside_ranges_ns', 'range']]
      .filter(([key]) => d[key] > 0)
      .map(([key, what]) => `${duration(d[key])} with work launched outside every ${what}`)
      .join(', ');
}

// Parts that add up to the span: compute, collectives alone, the rest of busy, idle.
function deviceFigure(d) {
  if (d.busy_ns === null) {
    return figure(
        `GPU ${d.ordinal}`, 'busy not known', (summary.absent || {})['devices.busy_ns'] || '');
  }
  const span = d.device_span.dur_ns, tint = colors.tint;
  const rest = Math.max(0, d.busy_ns - d.compute_ns - d.exposed_collective_ns);
  const parts = [
    ['compute', d.compute_ns, tint.compute[0]],
    ['collectives alone', d.exposed_collective_ns, tint.collective],
    ['copies alone', rest, tint.copy], ['idle', d.idle_ns, tint.gap]
  ];
  const bar = make('div', {
    class: 'bar',
    role: 'img',
    'aria-label': parts.map(([name, ns]) => `${name} ${percent(span ? ns / span : 0)}`).join(', ')
  });
  const key = make('ul', {class: 'key'});
  for (const [name, ns, color] of parts) {
    const part = make('i'), swatch = make('i', {'aria-hidden': 'true'});
    part.style.flexGrow = String(ns);
    part.style.backgroundColor = swatch.style.backgroundColor = color;
    if (ns > 0) bar.append(part);
    if (ns > 0 || name === 'idle') {
      key.append(make(
          'li', {}, swatch, `${name} `, make('b', {}, duration(ns)),
          ` ${percent(span ? ns / span : 0)}`));
    }
  }
  const window = summary.window.dur_ns;
  return make(
      'div', {class: 'figure wide'},
      make('h3', {}, `GPU ${d.ordinal}` + (d.name ? ` \u00b7 ${d.name}` : '')),
      make(
          'p', {class: 'value'}, percent(span ? d.busy_ns / span : 0),
          make('small', {}, ` busy of its span of ${duration(span)}, first to last work`)),
      bar, key,
      make(
          'p', {class: 'soft'},
          `Busy for ${percent(window ? d.busy_in_window_ns / window : 0)} of ` +
              `the window; compute and copies at once ${duration(d.overlap_ns)}.` +
              (outsideWords(d) ? ` Of it ${outsideWords(d)}.` : '')));
}

function fillCost() {
  const cost = summary.cost, rows = [
    ['before', 'Steps before, not collected'], ['active', 'Steps while collecting'],
    ['after', 'Steps after, not collected']
  ];
  byId('cost-steps')
      .replaceChildren(
          make(
              'thead', {},
              make(
                  'tr', {},
                  ['', 'n', 'median', 'min', 'max', 'p90'].map(
                      (word, at) =>
                          make('th', {scope: 'col', class: at > 0 ? 'number' : null}, word)))),
          make('tbody', {}, rows.map(([key, words]) => {
            const d = cost[key],
                  cellOf = v => v === null || v === undefined ? '\u2013' : duration(v);
            return make(
                'tr', {}, make('th', {scope: 'row'}, words),
                make('td', {class: 'number'}, d.steps ? count(d.steps) : 'not measured'),
                ['median_ns', 'min_ns', 'max_ns', 'p90_ns'].map(
                    k => make('td', {class: 'number'}, cellOf(d[k]))));
          })));
  const words = [
    ['callback_ns', 'time in callbacks of ours, all threads', duration],
    ['callbacks', 'callbacks', count],
    ['arm_wait_ns', 'the first step waited for arming', duration],
    ['drain_cpu_ns', 'processor time of our thread', duration],
    ['device_flush_age_ns', 'oldest device record at its flush', duration]
  ];
  const fields = words.filter(([key]) => typeof cost[key] === 'number')
                     .map(([key, name, format]) => [name, format(cost[key])]);
  if (cost.memory && typeof cost.memory.host_bytes === 'number') {
    fields.push(['memory in the process', byteCount(cost.memory.host_bytes)]);
  }
  if (typeof cost.bytes_per_step === 'number') {
    fields.push([
      'bytes a step in raw.steps',
      `${byteCount(cost.bytes_per_step)} (${byteCount(cost.raw_bytes)} of this cycle, its warmup ` +
          `included, over its ${plural(cost.raw_bytes_steps, 'step')})`
    ]);
  }
  byId('cost-fields').replaceChildren(...fieldList([ratioField(cost.ratio), ...fields]));
}

// Recorded steps to others, with the interval that surely holds it.
function ratioField(ratio) {
  const isKnown = ratio && typeof ratio.low === 'number';
  return [
    'ratio of recorded to other steps',
    isKnown ? `${ratio.value.toFixed(3)}, between ${ratio.low.toFixed(3)} and ` +
            `${ratio.high.toFixed(3)} (at least ${(100 * ratio.coverage).toFixed(0)}\u00a0% sure)` :
              (ratio && ratio.reason) || 'not measured'
  ];
}

function fieldList(fields) {
  return fields.map(
      ([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value)));
}

function fillBalance() {
  const columns = ['produced', 'written', 'dropped', 'out_of_window', 'invalid'];
  const kinds = Object.entries(manifest.balance).filter(([kind]) => manifest.kinds[kind].requested);
  byId('balance').replaceChildren(
      make(
          'thead', {},
          make(
              'tr', {}, make('th', {scope: 'col'}, 'kind'),
              columns.map(c => make('th', {scope: 'col', class: 'number'}, c.replace(/_/g, ' '))),
              make('th', {scope: 'col'}, 'collected'))),
      make(
          'tbody', {},
          kinds.map(
              ([kind, b]) => make(
                  'tr', {}, make('th', {scope: 'row'}, kind),
                  columns.map(
                      c => make(
                          'td', {
                            class: 'number' +
                                (b[c] > 0 && (c === 'dropped' || c === 'invalid') ? ' lost' : '')
                          },
                          b[c] === null ? 'not known' : count(b[c]))),
                  make(
                      'td', {},
                      manifest.kinds[kind].enabled ?
                          'yes' :
                          `no${
                              manifest.kinds[kind].error ? ': ' + manifest.kinds[kind].error :
                                                           ''}`)))));
}

function fillAbout() {
  const s = manifest.session, g = manifest.gpu,
        version = v => v === null ? null : `${Math.floor(v / 1000)}.${Math.floor(v % 1000 / 10)}`;
  const schedule = manifest.schedule &&
      Object.entries(manifest.schedule).map(([key, value]) => `${key}=${value}`).join(', ');
  const fields = [
    ['program', s.title || s.exe], ['session', s.id], ['run', s.run],
    ['ended', manifest.cycle.ended + (manifest.cycle.reason ? `: ${manifest.cycle.reason}` : '')],
    ['schedule', schedule], ['step', manifest.step_source],
    ['step extent', manifest.step_source ? manifest.step_extent : null],
    ['CUDA driver', version(g.driver_version)], ['CUPTI', g.cupti_version],
    ['CUDA graphs as', g.graph_level], ['rank from', s.rank_source],
    [
      'device clock\u2019s residual',
      manifest.clock.device_residual_ns === null ? null :
                                                   duration(manifest.clock.device_residual_ns)
    ],
    ['collective', summary.collective_rule], ['agent', s.agent_version],
    ['page by', `stepagent ${data.version}`]
  ];
  byId('about-fields')
      .replaceChildren(...fieldList(
          fields.filter(([, value]) => value !== null && value !== undefined && value !== '')
              .map(([name, value]) => [name, String(value)])));
}

function fillFigures() {
  byId('figures').replaceChildren(...figures());
}

function fillHead() {
  fillTitle();
  const lines = banners();
  byId('banners').replaceChildren(...lines);
  byId('banners').hidden = lines.length === 0;
  fillFigures();
  fillCost();
  fillBalance();
  fillAbout();
}
