#!/usr/bin/env python3
"""report.html in headless Chromium: what a reader does with it, and that it asks nobody.

    page_test.py PAGE_WRITE

Skipped by name where there is no Chromium.
"""
import os
import subprocess
import sys
import tempfile
import time
import unittest

from chromium import Browser

WRITER = sys.argv[1] if len(sys.argv) > 1 else ''
CTRL, SHIFT = 2, 8  # Input.dispatchMouseEvent's modifiers
VIEW = '[view.from, view.to]'


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix='stepagent-pages-')
        subprocess.run([WRITER, cls.folder.name], check=True)
        cls.browser = Browser().__enter__()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.addClassCleanup(cls.browser.__exit__)

    def open(self, name, **how):
        page = self.browser.open(f'file://{self.folder.name}/{name}/report.html', **how)
        self.addCleanup(page.close)
        return page

    def quiet(self, page):
        self.assertEqual(page.problems(), [])
        self.assertEqual(page.requests(), [])

    def width(self, page):
        begin, end = page.value(VIEW)
        return end - begin

    def test_every_cycle_opens_without_a_word_and_without_a_request(self):
        names = sorted(os.listdir(self.folder.name))
        self.assertIn('host_only', names)
        for name in names:
            with self.subTest(name):
                page = self.open(name)
                page.drawn()
                self.quiet(page)
                self.assertGreater(page.value("document.querySelectorAll('.reading').length"), 0)
                self.doCleanups()

    def test_names_are_text(self):
        page = self.open('attack')
        page.click('.reading button')
        page.click('#tab-kernels')
        page.drawn()
        self.assertIsNone(page.value('window.hit'))
        self.assertEqual(page.value("document.querySelectorAll('img').length"), 0)
        self.assertTrue(page.value("byId('program').textContent").startswith('</script><img'))
        self.assertTrue(page.value("document.querySelector('td.name').textContent")
                        .startswith('</script><img'))
        self.quiet(page)

    def test_the_policy_refuses_scripts_and_connections(self):
        page = self.open('train')
        violated = '''new Promise(done => {
            document.addEventListener('securitypolicyviolation', e => done(e.effectiveDirective));
            %s
        })'''
        self.assertEqual(page.value(violated % "fetch('http://127.0.0.1:9/').catch(() => 0)"),
                         'connect-src')
        self.assertEqual(page.value(violated % '''
            const script = document.createElement('script');
            script.textContent = 'window.hit = 3';
            document.body.append(script)'''), 'script-src-elem')
        self.assertIsNone(page.value('window.hit'))

    def test_zoom_and_move_by_keys(self):
        page = self.open('slow_loader')
        whole = self.width(page)
        page.key('w')
        page.drawn()
        self.assertLess(self.width(page), whole)
        before = page.value(VIEW)
        page.key('d')
        self.assertGreater(page.value(VIEW)[0], before[0])
        page.key('a')
        page.key('s')
        page.key('0')
        self.assertEqual(self.width(page), whole)
        page.key(']')
        self.assertLess(self.width(page), whole)
        self.quiet(page)

    def test_zoom_and_move_by_pointer(self):
        page = self.open('slow_loader')
        whole = self.width(page)
        x, y, width, height = page.box('#canvas')
        page.wheel(x + width / 2, y + height / 2, -200, CTRL)
        page.wait(f'view.to - view.from < {whole}')
        before = page.value(VIEW)
        page.drag(x + width * 0.7, y + height / 2, x + width * 0.5, y + height / 2)
        page.wait(f'view.from > {before[0]}')
        page.drag(x + width * 0.4, y + height / 2, x + width * 0.6, y + height / 2, SHIFT)
        self.assertGreater(page.value('view.measure.end - view.measure.begin'), 0)
        page.click('#zoom-all')
        self.assertEqual(self.width(page), whole)
        self.quiet(page)

    def test_search_finds_marks_and_goes(self):
        page = self.open('slow_loader')
        page.box('#search')
        page.key('/')
        self.assertEqual(page.value('document.activeElement.id'), 'search')
        page.type('GEMM')
        self.assertIn('3 matches', page.value("byId('matches').textContent"))
        page.key('Enter')
        first = page.value('trace.items.begin[view.selected.item]')
        page.key('Enter')
        self.assertGreater(page.value('trace.items.begin[view.selected.item]'), first)
        self.assertIn('2 of 3', page.value("byId('matches').textContent"))
        self.assertIn('gemm', page.value("document.querySelector('#detail h3').textContent"))
        page.type('nothing like this')
        self.assertIn('no match', page.value("byId('matches').textContent"))
        page.key('Escape')
        page.key('Escape')
        self.assertEqual(page.value("byId('search').value"), '')
        self.quiet(page)

    def test_a_reading_leads_to_its_evidence(self):
        page = self.open('slow_loader')
        self.assertEqual(page.value("document.querySelector('.reading').dataset.id"),
                         'device_idle_in_range')
        page.click('.reading button')
        page.drawn()
        begin, end = page.value('[view.evidence.begin, view.evidence.end]')
        item = page.value('view.selected.item')
        self.assertEqual(page.value(f'itemName({item})'), 'load_batch')
        self.assertEqual(page.value(f'[trace.items.begin[{item}], itemEnd({item})]'), [begin, end])
        view = page.value(VIEW)
        self.assertLess(view[0], begin)
        self.assertGreater(view[1], end)
        self.assertLess(view[1] - view[0], 3 * (end - begin))
        self.assertLess(page.value("byId('timeline').getBoundingClientRect().top"), 200)
        self.assertIn('reading 1', page.value("byId('said').textContent"))
        self.quiet(page)

    def test_a_kernel_leads_to_its_launch(self):
        page = self.open('slow_loader')
        page.click('#tab-kernels')
        page.click('#panel-kernels tbody .link')
        kernel = page.value('view.selected.item')
        self.assertEqual(page.value(f'trace.items.kind[{kernel}]'), 0)
        buttons = page.value(
            "[...document.querySelectorAll('#detail button')].map(b => b.textContent)")
        self.assertIn('Go to its launch', buttons)
        page.value("[...document.querySelectorAll('#detail button')].find("
                   "b => b.textContent === 'Go to its launch').click()")
        self.assertEqual(page.value('itemName(view.selected.item)'), 'cudaLaunchKernel')
        self.quiet(page)

    def test_a_click_selects_what_is_under_it(self):
        page = self.open('slow_loader')
        x, y, _, _ = page.box('#canvas')
        spot = page.value('''(() => {
            const row = layout.rows.find(
                r => r.kind === 'ranges' && r.ids.some(i => itemName(i) === 'load_batch'));
            const item = row.ids.find(i => itemName(i) === 'load_batch');
            return [toX((trace.items.begin[item] + itemEnd(item)) / 2), PINNED + row.y + 6];
        })()''')
        page.click_at(x + spot[0], y + spot[1])
        page.wait("view.selected && itemName(view.selected.item) === 'load_batch'")
        gap = page.value('''(() => {
            const row = layout.rows.find(r => r.kind === 'busy');
            const [begin, length] = trace.busy[0].longest;
            return [toX(begin + length / 2), PINNED + row.y + 6];
        })()''')
        page.click_at(x + gap[0], y + gap[1])
        page.wait('view.selected && view.selected.gap')
        self.assertIn('load_batch', page.value("byId('detail').textContent"))
        self.quiet(page)

    def test_tables_sort_and_filter(self):
        page = self.open('many')
        page.click('#tab-kernels')
        names = "[...document.querySelectorAll('#panel-kernels td.name')].map(e => e.textContent)"
        by_total = page.value(names)
        self.assertEqual(len(by_total), 20)
        page.click('#panel-kernels thead th:first-child button')
        self.assertEqual(page.value("document.querySelector('#panel-kernels th').ariaSort"),
                         'ascending')
        ascending = page.value(names)
        self.assertEqual(ascending, sorted(ascending))
        self.assertNotEqual(ascending, by_total)
        page.click('#panel-kernels thead th:first-child button')
        descending = page.value(names)
        self.assertEqual(descending, sorted(descending, reverse=True))
        page.click('#panel-kernels input')
        page.type('kernel_2')
        self.assertTrue(all('kernel_2' in name for name in page.value(names)))
        self.assertIn(' of ', page.value(
            "document.querySelector('#panel-kernels .table-tools span').textContent"))
        page.click('#tab-gaps')
        self.assertTrue(page.value("byId('panel-gaps').classList.contains('open')"))
        self.quiet(page)

    def test_it_has_what_the_summary_has(self):
        page = self.open('slow_loader')
        figures = page.value("byId('figures').textContent")
        self.assertIn('Launch latency, median', figures)
        self.assertIn('6 pieces of device work', figures)
        self.assertIn('at most 1 queued, on GPU 0 stream', figures)
        cost = page.value("byId('cost-fields').textContent")
        self.assertIn('ratio of recorded to other steps', cost)
        ratio = page.value('summary.cost.ratio')
        self.assertIn(f'{ratio["value"]:.3f}, between {ratio["low"]:.3f} and {ratio["high"]:.3f}',
                      cost)
        self.assertIn('bytes a step in raw.steps', cost)
        self.assertIn('4.00\u00a0kB (12.0\u00a0kB of this cycle', cost)
        page.click('#tab-copies')
        rows = page.value('summary.copies')
        self.assertIn(f'{rows[0]["bytes"] / rows[0]["total_ns"]:.2f}\u00a0GB/s',
                      page.value("byId('panel-copies').textContent"))
        self.assertIn('Pinned', page.value("byId('panel-copies').textContent"))
        page.click('#tab-queues')
        self.assertIn('longest queue', page.value("byId('panel-queues').textContent"))
        page.click('#tab-ranges')
        self.assertIn('device, projected', page.value("byId('panel-ranges').textContent"))
        page = self.open('train')
        self.assertIn('not measured: 2 and 4 values, 3 of each are needed',
                      page.value("byId('cost-fields').textContent"))

    def test_idle_time_by_where_the_host_was(self):
        page = self.open('slow_loader')
        page.click('#tab-idle')
        words = page.value("byId('panel-idle').textContent")
        idle = page.value('summary.idle')
        self.assertGreater(len(idle['rows']), 1)
        self.assertIn('thread 4242 (python), which runs the steps', words)
        self.assertIn('(no range)', words)
        shown = page.value("[...document.querySelectorAll('#panel-idle tbody tr')].map("
                           "r => r.children[0].textContent)")
        self.assertEqual(len(shown), len(idle['rows']))
        self.assertEqual(shown[0], 'load_batch')
        page.click('#panel-idle tbody .link')
        self.assertEqual(page.value('itemName(view.selected.item)'), 'load_batch')
        page = self.open('host_only')
        page.click('#tab-idle')
        self.assertIn('not collected: no driver library in the process',
                      page.value("byId('panel-idle').textContent"))
        self.quiet(page)

    def test_light_and_dark(self):
        back = 'getComputedStyle(document.body).backgroundColor'
        for dark in (False, True):
            page = self.open('train', dark=dark)
            first = page.value(back)
            self.assertEqual(page.value('isDark()'), dark)
            page.click('#theme')
            self.assertNotEqual(page.value(back), first)
            self.assertEqual(page.value('isDark()'), not dark)
            self.assertEqual(page.value("byId('theme').getAttribute('aria-pressed')"),
                             str(not dark).lower())
            page.click('#theme')
            self.assertEqual(page.value(back), first)
            self.quiet(page)

    def test_keys_are_explained_and_everything_has_a_name(self):
        page = self.open('slow_loader')
        page.key('?')
        self.assertTrue(page.value("byId('keys').open"))
        page.click('#keys-close')
        self.assertFalse(page.value("byId('keys').open"))
        self.assertEqual(page.value('''
            [...document.querySelectorAll('button, input, canvas, a')].filter(
                e => !(e.getAttribute('aria-label') || e.textContent.trim())).map(
                e => e.outerHTML)'''), [])
        self.assertEqual(page.value('''
            ['aria-labelledby', 'aria-controls', 'aria-describedby'].flatMap(
                a => [...document.querySelectorAll(`[${a}]`)].map(e => e.getAttribute(a))).filter(
                id => !byId(id))'''), [])
        # Tab reaches the time line, where the arrows move it.
        page.value("byId('zoom-all').focus()")
        page.call('Input.dispatchKeyEvent', type='keyDown', key='Tab', code='Tab',
                  windowsVirtualKeyCode=9)
        self.assertEqual(page.value('document.activeElement.id'), 'canvas')
        page.key('w')
        before = page.value(VIEW)
        page.key('ArrowRight')
        self.assertGreater(page.value(VIEW)[0], before[0])
        self.quiet(page)

    def test_it_prints(self):
        page = self.open('slow_loader', dark=True)
        path = os.path.join(self.folder.name, 'slow_loader', 'page.pdf')
        page.pdf(path)
        with open(path, 'rb') as file:
            self.assertEqual(file.read(5), b'%PDF-')
        page.wait("document.documentElement.dataset.print === undefined")
        self.assertTrue(page.value('isDark()'))
        self.quiet(page)

    def test_without_scripts_it_is_the_summary_as_text(self):
        page = self.open('host_only', script=False)
        until = time.monotonic() + 60
        while not page.value("document.querySelector('noscript pre')?.textContent"):
            self.assertLess(time.monotonic(), until)
        self.assertIn('HOST ONLY', page.value("document.querySelector('noscript pre').textContent"))

    def test_host_only_losses_and_notes_stand_at_the_head(self):
        page = self.open('host_only')
        self.assertIn('Host only', page.value("byId('banners').textContent"))
        self.assertIn('no driver library in the process', page.value("byId('banners').textContent"))
        page = self.open('cut')
        words = page.value("byId('banners').textContent")
        self.assertIn('Incomplete', words)
        self.assertIn('1 invalid', words)
        self.assertIn('1 range was open', words)

    def test_a_hundred_thousand_items(self):
        page = self.open('many')
        items = page.value('trace.items.size')
        size = os.path.getsize(f'{self.folder.name}/many/report.html')
        self.assertGreater(items, 100_000)
        frame = page.value('''(() => {
            const begun = performance.now();
            for (let i = 0; i < 20; ++i) draw();
            return (performance.now() - begun) / 20;
        })()''')
        print(f'{items} items, {size / 1e6:.1f} MB: open in {page.load_s:.2f} s, '
              f'drawn in {frame:.1f} ms', flush=True)
        # The rows are really drawn: many pixels that are not the panel's.
        self.assertGreater(page.value('''(() => {
            const c = byId('canvas'), g = c.getContext('2d');
            const d = g.getImageData(200, 60, c.width - 220, c.height - 80).data;
            let other = 0;
            for (let i = 0; i < d.length; i += 4) other += d[i] !== d[0] || d[i + 1] !== d[1];
            return other / (d.length / 4);
        })()'''), 0.05)
        page.value("setSearch('kernel_1()')")
        self.assertGreater(page.value('search.ids.length'), 100)
        for _ in range(12):
            page.key('w')
        page.drawn()
        self.quiet(page)

    def test_a_cut_page_says_so(self):
        page = self.open('many_cut')
        self.assertIn('20,000 longest of 120,800', page.value("byId('banners').textContent"))
        self.assertIn('20,000 of 120,800', page.value("byId('drawn').textContent"))
        together = page.value('''(() => {
            let sum = 0;
            for (let at = 4; at < trace.bundles.length; at += 6) sum += trace.bundles[at];
            return sum;
        })()''')
        self.assertEqual(together, 100_800)
        self.quiet(page)


if __name__ == '__main__':
    if Browser.program() is None:
        print('skipped: Chromium is not installed')
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
