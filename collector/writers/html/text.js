'use strict';
// Numbers for people, and elements. Everything foreign becomes a text node: nothing is parsed.

function threeDigits(value, unit) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2) + '\u00a0' + unit;
}

function duration(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return Math.round(ns) + '\u00a0ns';
  if (size < 999.5e3) return threeDigits(ns / 1e3, 'us');
  if (size < 999.5e6) return threeDigits(ns / 1e6, 'ms');
  return threeDigits(ns / 1e9, 's');
}

function byteCount(bytes) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  if (bytes < 1000) return bytes + '\u00a0B';
  let unit = 0;
  while (bytes >= 999.5 && unit + 1 < units.length) {
    bytes /= 1000;
    ++unit;
  }
  return threeDigits(bytes, units[unit]);
}

function count(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ',');
}

function percent(share) {
  return (100 * share).toFixed(1) + '\u00a0%';
}

function plural(number, one, many = one + 's') {
  return count(number) + ' ' + (number === 1 ? one : many);
}

// A moment of the window, exact to the step that is visible; the unit suits moments up to `mostNs`.
function moment(ns, stepNs, mostNs) {
  const [unit, name] = mostNs >= 1e10 ? [1e9, 's'] :
      mostNs >= 1e6                   ? [1e6, 'ms'] :
      mostNs >= 1e3                   ? [1e3, 'us'] :
                                        [1, 'ns'];
  const decimals = Math.max(0, Math.ceil(-Math.log10(stepNs / unit) - 1e-9));
  const [whole, fraction] = Math.abs(ns / unit).toFixed(decimals).split('.');
  const isZero = Number(whole) === 0 && !Number(fraction || 0);
  return (ns < 0 && !isZero ? '\u2212' : '') + count(whole) + (fraction ? '.' + fraction : '') +
      '\u00a0' + name;
}

// A moment to the nanosecond, in a unit that keeps it short.
function exactly(ns) {
  const size = Math.abs(ns);
  const [unit, name, decimals] = size >= 1e9 ? [1e9, 's', 9] :
      size >= 1e6                            ? [1e6, 'ms', 6] :
      size >= 1e3                            ? [1e3, 'us', 3] :
                                               [1, 'ns', 0];
  return (ns / unit).toFixed(decimals) + '\u00a0' + name;
}

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on'))
      element.addEventListener(key.slice(2), value);
    else
      element.setAttribute(key, value === true ? '' : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

function byId(id) {
  return document.getElementById(id);
}

// First index whose value is greater than `value`; the array ascends.
function upperBound(array, value, from = 0, to = array.length) {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (array[middle] <= value)
      from = middle + 1;
    else
      to = middle;
  }
  return from;
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

// Numbers may be beyond 2^53 ns there: the difference to the origin is not.
function sinceOrigin(ns) {
  return typeof ns === 'number' ? Number(BigInt(Math.round(ns)) - BigInt(trace.originNs)) : null;
}
