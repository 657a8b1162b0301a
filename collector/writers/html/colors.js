// Colours of the time line, for both themes. Names get one of a few tints of their class.

const TINTS = {
  light: {
    compute: ['#5b84b1', '#6f9bc0', '#4f77a8', '#7c8fc4', '#5d96a6', '#8aa3bd'],
    ranges: ['#d5e0ea', '#dbe7dd', '#e6e0ee', '#e9e4d6', '#d8e6e8', '#e4dcdc'],
    copy: '#d9a441',
    set: '#c6b75c',
    collective: '#a06a9c',
    graph: '#4f9c80',
    launch: '#8d9db0',
    copyCall: '#cfb27c',
    wait: '#c4645c',
    alloc: '#9b7a6c',
    call: '#b3bac2',
    mark: '#6c7680',
    overhead: '#b98f8f',
    busy: '#5f7f78',
    gap: '#f6e3df',
    gapInk: '#9c3d30',
    suspect: '#d3d6da'
  },
  dark: {
    compute: ['#5f8fc4', '#79a9d1', '#527fb5', '#8598d2', '#5fa0b2', '#93b0cc'],
    ranges: ['#34475a', '#354b3d', '#443b54', '#4c4632', '#33494d', '#4a3b3d'],
    copy: '#d9a84e',
    set: '#bfb05a',
    collective: '#b57fb1',
    graph: '#57ab8e',
    launch: '#74869c',
    copyCall: '#a88f5f',
    wait: '#cc6f66',
    alloc: '#a88676',
    call: '#66707b',
    mark: '#a3adb8',
    overhead: '#8f6a6a',
    busy: '#7ea39b',
    gap: '#3b2724',
    gapInk: '#e69a8d',
    suspect: '#565c64'
  },
};
const colors = {
  tint: TINTS.light,
  ink: '#000',
  soft: '#000',
  line: '#000',
  panel: '#fff',
  accent: '#000',
  text: []
};

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen === 'dark';
  return matchMedia('(prefers-color-scheme: dark)').matches;
}

function readColors() {
  const style = getComputedStyle(document.documentElement);
  colors.isDark = isDark();
  colors.tint = colors.isDark ? TINTS.dark : TINTS.light;
  for (const name of ['ink', 'soft', 'line', 'panel', 'band', 'accent']) {
    colors[name] = style.getPropertyValue('--' + name).trim();
  }
}

// The same name has the same tint in every report: a hash, not an order.
function tintOf(text, tints) {
  if (text < 0) return tints[0];
  if (!colors.hashes) {
    colors.hashes = trace.texts.map(name => {
      let hash = 2166136261;
      for (let i = 0; i < name.length; ++i) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
      return (hash ^ (hash >>> 15)) >>> 0;
    });
  }
  return tints[colors.hashes[text] % tints.length];
}

const CALL_TINTS = ['call', 'launch', 'launch', 'copyCall', 'copyCall', 'wait', 'alloc'];

function colorOf(i) {
  const {kind, text, flags, ref, extra} = trace.items, tint = colors.tint;
  switch (kind[i]) {
    case KERNEL:
      if (extra[i] < 0) return tint.suspect;
      return flags[i] === 1 ? tint.collective : tintOf(text[i], tint.compute);
    case COPY:
      return tint.copy;
    case SET:
      return tint.set;
    case GRAPH:
      return tint.graph;
    case CALL:
      return tint[CALL_TINTS[ref[i]] || 'call'];
    case RANGE:
      return tintOf(text[i], tint.ranges);
    case MARK:
      return tint.mark;
    default:
      return tint.overhead;
  }
}

// Of what the short items of a bundle are: work, copies, calls, ranges.
function bundleColor(kind) {
  const tint = colors.tint;
  return [tint.compute[0], tint.copy, tint.launch, tint.ranges[0]][kind];
}

// Words, colour, and what has it.
const LEGEND = [
  ['kernels', t => t.compute[0], (kind, flags) => kind === KERNEL && flags === 0],
  ['collectives', t => t.collective, (kind, flags) => kind === KERNEL && flags === 1],
  ['copies', t => t.copy, kind => kind === COPY], ['sets', t => t.set, kind => kind === SET],
  ['CUDA graphs', t => t.graph, kind => kind === GRAPH],
  ['kernel and graph launches', t => t.launch, (kind, flags, ref) => kind === CALL && (ref === 1 || ref === 2)],
  [
    'copy and set calls', t => t.copyCall,
    (kind, flags, ref) => kind === CALL && (ref === 3 || ref === 4)
  ],
  ['waiting calls', t => t.wait, (kind, flags, ref) => kind === CALL && ref === WAIT_CALL],
  ['allocating calls', t => t.alloc, (kind, flags, ref) => kind === CALL && ref === 6],
  ['no work on the device', t => t.gap, null]
];

function isInTrace(has) {
  if (has === null) return trace.busy.length > 0;
  const {kind, flags, ref} = trace.items;
  for (let i = 0; i < trace.items.size; ++i)
    if (has(kind[i], flags[i], ref[i])) return true;
  return false;
}

function fillLegend() {
  colors.legend = colors.legend || LEGEND.filter(([, , has]) => isInTrace(has));
  byId('legend').replaceChildren(...colors.legend.map(([words, pick]) => {
    const swatch = make('i', {'aria-hidden': 'true'});
    swatch.style.backgroundColor = pick(colors.tint);
    return make('span', {}, swatch, words);
  }));
}
