// Search by name: what matches stays, the rest fades; Enter goes from match to match.

const search = {
  query: '',
  ids: [],
  at: -1
};

// "=name" asks for the whole name, anything else for a part of it in any case.
function setSearch(query) {
  search.query = query;
  if (byId('search').value !== query) byId('search').value = query;
  const isWhole = query.startsWith('='), wanted = isWhole ? query.slice(1) : query.toLowerCase();
  const hit = wanted === '' ?
      null :
      trace.texts.map(text => isWhole ? text === wanted : text.toLowerCase().includes(wanted));
  search.ids = [];
  search.at = -1;
  for (const row of layout.rows) {
    if (!row.ids) continue;
    row.matches = hit ? new Int32Array(row.ids.length + 1) : null;
    if (!hit) continue;
    row.ids.forEach((item, i) => {
      const isHit = hit[trace.items.text[item]] === true;
      row.matches[i + 1] = row.matches[i] + (isHit ? 1 : 0);
      if (isHit) search.ids.push(item);
    });
  }
  search.ids.sort((a, b) => trace.items.begin[a] - trace.items.begin[b] || a - b);
  sayMatches();
  redraw();
}

function sayMatches() {
  const words = byId('matches');
  if (search.query === '')
    words.textContent = '';
  else if (search.ids.length === 0)
    words.textContent = 'no match' + amongDrawn();
  else {
    const total = search.ids.reduce((sum, i) => sum + trace.items.length[i], 0);
    words.textContent = (search.at >= 0 ? `${count(search.at + 1)} of ` : '') +
        `${plural(search.ids.length, 'match', 'matches')}, ${duration(total)} in sum` +
        amongDrawn();
  }
  for (const id of ['previous', 'next']) byId(id).disabled = search.ids.length === 0;
}

function amongDrawn() {
  return trace.drawn < trace.all ? ' (of what is drawn singly)' : '';
}

function nextMatch(by) {
  if (search.ids.length === 0) return;
  if (search.at < 0) {
    // The first that begins in sight, or after it.
    const first = search.ids.findIndex(i => trace.items.begin[i] >= view.from);
    search.at = by > 0 ? Math.max(first, 0) : (first <= 0 ? search.ids.length : first) - 1;
  } else {
    search.at = (search.at + by + search.ids.length) % search.ids.length;
  }
  sayMatches();
  showMatch(search.ids[search.at]);
}

// Keeps the zoom if the match is wide enough to be seen at it.
function showMatch(i) {
  const pixels = trace.items.length[i] / nsPerPixel();
  const isWideEnough = pixels >= 3 && pixels <= (view.width - view.labels) * 0.8;
  if (isWideEnough) {
    const middle = (trace.items.begin[i] + itemEnd(i)) / 2, half = (view.to - view.from) / 2;
    show(trace.items.begin[i], itemEnd(i), i);
    setView(middle - half, middle + half);
    select({item: i});
  } else {
    showItem(i);
  }
}

function longestNamed(name) {
  let best = -1;
  for (let i = 0; i < trace.items.size; ++i) {
    if (trace.items.text[i] < 0 || trace.texts[trace.items.text[i]] !== name) continue;
    if (best < 0 || trace.items.length[i] > trace.items.length[best]) best = i;
  }
  return best;
}

function listenSearch() {
  const field = byId('search');
  field.addEventListener('input', () => setSearch(field.value));
  field.addEventListener('keydown', event => {
    if (event.key === 'Enter') nextMatch(event.shiftKey ? -1 : 1);
  });
  byId('previous').addEventListener('click', () => nextMatch(-1));
  byId('next').addEventListener('click', () => nextMatch(1));
}
