"""docs/performance.md from one or more runs of run_bench.py.

    make_performance.py RESULTS.json… > docs/performance.md

Every number is out of the files; notes.md beside this script holds the sentences.
"""
import json
import os
import statistics
import sys

from bars import BARS, LESS, WITHIN

HERE = os.path.dirname(os.path.abspath(__file__))


class Run:
    def __init__(self, path):
        with open(path, encoding='utf-8') as source:
            self.document = json.load(source)
        self.samples = {(r['row'], r['variant']): r['samples'] for r in self.document['rows']}

    def median(self, row, variant):
        samples = self.samples.get((row, variant))
        return statistics.median(samples) if samples else None

    def value(self, row, variant):
        """Of `ours`, `ours/peer`, `ours/row:peer` or `ours-peer`; None when something lacks."""
        for sign in '/-':
            if sign not in variant:
                continue
            ours, other = variant.split(sign)
            other_row, _, other_variant = other.rpartition(':')
            a, b = self.median(row, ours), self.median(other_row or row, other_variant)
            if a is None or b is None:
                return None
            return a / b if sign == '/' else a - b
        return self.median(row, variant)


def number(value):
    if value is None:
        return '–'
    if value == 0 or abs(value) >= 100:
        return '{:,.0f}'.format(value)
    return '%.3g' % value


def spread(samples):
    return '%s / %s / %s' % tuple(number(f(samples)) for f in (min, statistics.median, max))


def paced(bar, run):
    """Ours at the pace of the quiet reference machine, or None."""
    if bar.pace is None:
        return None
    row, variant, known = bar.pace
    here = run.median(row, variant)
    value = run.value(bar.row, bar.variant)
    return None if here is None or value is None else value * known / here


def holds(bar, run):
    value = run.value(bar.row, bar.variant)
    if value is None:
        return None
    return any(is_good(bar, v) for v in (value, paced(bar, run)) if v is not None)


def is_good(bar, value):
    if bar.compare == WITHIN:
        return bar.limit[0] <= value <= bar.limit[1]
    return value <= bar.limit if bar.compare == LESS else value >= bar.limit


def limit_text(bar):
    if bar.compare == WITHIN:
        return '%s to %s %s' % (number(bar.limit[0]), number(bar.limit[1]), bar.unit)
    return '%s %s %s' % ('≤' if bar.compare == LESS else '≥', number(bar.limit), bar.unit)


def peers(bar, run):
    found = []
    ours = run.median(bar.row, bar.variant)
    for peer in bar.peers:
        value = run.median(bar.row, peer)
        if value is None:
            continue
        ratio = '' if not ours else ' (%.2g x)' % (value / ours)
        found.append('%s %s%s' % (peer, number(value), ratio))
    if bar.cited:
        found.append('*cited:* ' + bar.cited)
    return '; '.join(found)


def verdict(bar, run):
    state = holds(bar, run)
    return 'not measured' if state is None else 'met' if state else '**over**'


def table(runs):
    heads = ['what', 'bar'] + ['run %d' % (i + 1) for i in range(len(runs))]
    heads += ['at the reference pace', 'peers and floor in the same run']
    lines = ['| ' + ' | '.join(heads) + ' |', '|' + '---|' * len(heads)]
    for bar in BARS:
        cells = [bar.title, limit_text(bar)]
        for run in runs:
            cells.append('%s %s' % (number(run.value(bar.row, bar.variant)), verdict(bar, run)))
        cells.append(' / '.join(number(paced(bar, r)) for r in runs) if bar.pace else '')
        cells.append(peers(bar, runs[-1]))
        lines.append('| ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


def details(run):
    lines = ['| row | variant | unit | min / median / max | n |', '|---|---|---|---|---|']
    for row in run.document['rows']:
        lines.append('| %s | %s | %s | %s | %d |' % (
            row['row'], row['variant'], row['unit'], spread(row['samples']), len(row['samples'])))
    return '\n'.join(lines)


def instructions(run):
    found = run.document.get('instructions')
    if not found:
        return 'Not counted in this run.'
    lines = ['| path | instructions | budget |', '|---|---|---|']
    for name, budget in sorted(found['budget'].items()):
        lines.append('| %s | %s | %d |' % (name, number(found['instructions'].get(name)), budget))
    return '\n'.join(lines)


def machine(run):
    m = run.document['machine']
    return ('%d x %s, %d GiB, %s, kernel %s, %s; load average %.1f before and %.1f after. Begun %s%s.'
            % (m['cpus'], m['cpu'], m['memory_gib'], m['os'], m['kernel'], m['compiler'],
               m['load_before'], m.get('load_after', 0), run.document['begun'],
               ', reduced' if run.document['quick'] else
               ', smaller sizes (--small)' if run.document.get('small') else ''))


def main():
    runs = [Run(path) for path in sys.argv[1:]]
    if not runs:
        sys.exit(__doc__)
    with open(os.path.join(HERE, 'notes.md'), encoding='utf-8') as source:
        text = source.read()
    missing = sorted({m for r in runs for m in r.document['missing']})
    values = {
        'MACHINES': '\n'.join('* run %d: %s' % (i + 1, machine(r)) for i, r in enumerate(runs)),
        'BARS': table(runs), 'DETAILS': details(runs[-1]),
        'INSTRUCTIONS': instructions(next((r for r in reversed(runs)
                                           if r.document.get('instructions')), runs[-1])),
        'MISSING': '\n'.join('* ' + m for m in missing) or 'Nothing.'}
    for key, value in values.items():
        text = text.replace('{{%s}}' % key, value)
    sys.stdout.write(text)


if __name__ == '__main__':
    main()
