"""Drives a headless Chromium over its debugging pipe, with the standard library alone.

    with Browser() as browser:
        page = browser.open('file:///…/report.html')
        page.value('document.title')

Without Chromium on this machine Browser.program() is None; tests then skip by name.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

LIMIT_S = 90  # of one answer: machines with neighbours start a browser slowly
OUR_PAGE_IS_READY = "document.documentElement?.dataset.ready === 'yes'"
PROGRAMS = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable')
# It must ask nobody: no component updates, no first-run pages, no name but this machine's.
ARGUMENTS = [
    '--headless=new', '--no-first-run', '--disable-background-networking', '--disable-sync',
    '--disable-component-update', '--disable-default-apps', '--disable-extensions', '--disable-gpu',
    '--disable-dev-shm-usage', '--enable-features=NetworkServiceInProcess2', '--hide-scrollbars',
    '--mute-audio', '--remote-debugging-pipe', '--window-size=1440,900',
    '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1']


class Browser:
    @staticmethod
    def program():
        named = os.environ.get('STEPAGENT_CHROMIUM')
        return named or next(filter(None, map(shutil.which, PROGRAMS)), None)

    def __enter__(self):
        self.home = tempfile.TemporaryDirectory(prefix='stepagent-chromium-')
        self.log = open(os.path.join(self.home.name, 'log'), 'w+', encoding='utf-8')
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()
        arguments = [self.program(), *ARGUMENTS, f'--user-data-dir={self.home.name}/profile']
        if os.geteuid() == 0:
            arguments.append('--no-sandbox')  # it refuses to run as root otherwise
        # Chromium reads from descriptor 3 and writes to 4. The shell puts the pipes there.
        command = 'exec "$@" 3<&%d 4>&%d' % (to_read, to_write)
        self.process = subprocess.Popen(
            ['/bin/bash', '-c', command, 'chromium', *arguments], pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL, stderr=self.log, stdin=subprocess.DEVNULL,
            env={**os.environ, 'HOME': self.home.name})
        os.close(to_read)
        os.close(to_write)
        self.pending, self.last_id, self.events = b'', 0, []
        return self

    def __exit__(self, *_):
        try:
            self.call('Browser.close')
        except OSError:
            pass
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.log.close()
        self.home.cleanup()

    def call(self, method, session=None, limit_s=LIMIT_S, **params):
        self.last_id += 1
        message = {'id': self.last_id, 'method': method, 'params': params}
        if session:
            message['sessionId'] = session
        os.write(self.to_browser, json.dumps(message).encode() + b'\0')
        until = time.monotonic() + limit_s
        while True:
            answer = self.receive(until)
            if answer.get('id') == self.last_id:
                break
            if 'method' in answer:
                self.events.append(answer)
        if 'error' in answer:
            raise RuntimeError(f'{method}: {answer["error"]}')
        return answer['result']

    def receive(self, until):
        while b'\0' not in self.pending:
            left_s = max(0, until - time.monotonic())
            ready, _, _ = select.select([self.from_browser], [], [], left_s)
            if not ready:
                raise TimeoutError(f'chromium: no answer in time: {self.log_tail()}')
            got = os.read(self.from_browser, 1 << 20)
            if not got:
                raise ConnectionError(f'chromium ended: {self.log_tail()}')
            self.pending += got
        message, self.pending = self.pending.split(b'\0', 1)
        return json.loads(message)

    def log_tail(self):
        self.log.flush()
        with open(self.log.name, encoding='utf-8', errors='replace') as log:
            return log.read()[-2000:]

    def open(self, url, dark=False, width=1440, height=900, script=True, ready=OUR_PAGE_IS_READY):
        return Page(self, url, dark, width, height, ready if script else None)


class Page:
    """One tab. Console messages, uncaught errors and requests are kept from the start."""

    def __init__(self, browser, url, dark, width, height, ready):
        self.browser = browser
        self.target = browser.call('Target.createTarget', url='about:blank')['targetId']
        attached = browser.call('Target.attachToTarget', targetId=self.target, flatten=True)
        self.session = attached['sessionId']
        for domain in ('Page', 'Runtime', 'Network', 'Log'):
            self.call(domain + '.enable')
        self.size(width, height)
        self.prefer_dark(dark)
        if ready is None:
            self.call('Emulation.setScriptExecutionDisabled', value=True)
        browser.events.clear()
        begun = time.monotonic()
        self.url = url
        try:
            self.call('Page.navigate', url=url, limit_s=30)
        except TimeoutError:  # a helper process of its own died under it: the next one serves
            begun = time.monotonic()
            self.call('Page.navigate', url=url)
        if ready is not None:
            self.wait(ready)
        self.load_s = time.monotonic() - begun

    def close(self):
        self.browser.call('Target.closeTarget', targetId=self.target)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def size(self, width, height, ratio=1):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height,
                  deviceScaleFactor=ratio, mobile=False)

    def prefer_dark(self, dark):
        self.call('Emulation.setEmulatedMedia',
                  features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'},
                            {'name': 'prefers-reduced-motion', 'value': 'reduce'}])

    def value(self, expression):
        result = self.call('Runtime.evaluate', expression=expression, returnByValue=True,
                           awaitPromise=True)
        if 'exceptionDetails' in result:
            raise RuntimeError(f'{expression}: {json.dumps(result["exceptionDetails"])[:1000]}')
        return result['result'].get('value')

    def wait(self, expression, limit_s=LIMIT_S):
        until = time.monotonic() + limit_s
        while not self.value(expression):
            if time.monotonic() > until:
                raise RuntimeError(f'not true in {limit_s} s: {expression}; {self.problems()}')
            self.value('new Promise(done => setTimeout(done, 20))')

    def drawn(self):
        """Returns once everything that is to be drawn has been."""
        self.value('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))')

    def key(self, key):
        text = key if len(key) == 1 else ''
        self.call('Input.dispatchKeyEvent', type='keyDown', key=key, text=text)
        self.call('Input.dispatchKeyEvent', type='keyUp', key=key)

    def type(self, text):
        self.call('Input.insertText', text=text)

    def click_at(self, x, y, count=1):
        for kind in ('mousePressed', 'mouseReleased'):
            self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', buttons=1,
                      clickCount=count)

    def drag(self, from_x, from_y, to_x, to_y, modifiers=0):
        steps = [('mousePressed', from_x, from_y), ('mouseMoved', (from_x + to_x) / 2, from_y),
                 ('mouseMoved', to_x, to_y), ('mouseReleased', to_x, to_y)]
        for kind, x, y in steps:
            self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', buttons=1,
                      modifiers=modifiers, clickCount=1)

    def wheel(self, x, y, delta, modifiers=0):
        self.call('Input.dispatchMouseEvent', type='mouseWheel', x=x, y=y, deltaX=0, deltaY=delta,
                  modifiers=modifiers)

    def box(self, selector):
        """x, y, width, height of an element, scrolled into sight."""
        return self.value(f'''(() => {{
            const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: 'center'}});
            const r = e.getBoundingClientRect();
            return [r.left, r.top, r.width, r.height];
        }})()''')

    def click(self, selector):
        x, y, width, height = self.box(selector)
        self.click_at(x + width / 2, y + height / 2)

    def screenshot(self, path, whole=False):
        self.drawn()
        result = self.call('Page.captureScreenshot', format='png', captureBeyondViewport=whole)
        with open(path, 'wb') as file:
            file.write(base64.b64decode(result['data']))

    def pdf(self, path):
        result = self.call('Page.printToPDF', printBackground=True, paperWidth=8.27,
                           paperHeight=11.69)
        with open(path, 'wb') as file:
            file.write(base64.b64decode(result['data']))

    def problems(self):
        """Errors, warnings and blocked loads that the browser reported for this page."""
        out = []
        for event in self.browser.events:
            params = event.get('params', {})
            if event.get('sessionId') != self.session:
                continue
            if event['method'] == 'Runtime.exceptionThrown':
                out.append(json.dumps(params['exceptionDetails'])[:600])
            elif event['method'] == 'Runtime.consoleAPICalled' and params['type'] != 'log':
                out.append(json.dumps(params['args'])[:600])
            elif event['method'] == 'Log.entryAdded' and params['entry']['level'] != 'info':
                out.append(params['entry']['text'][:600])
        return out

    def requests(self):
        """What was asked for beside the page itself."""
        asked = [event['params']['request']['url'] for event in self.browser.events
                 if event.get('sessionId') == self.session and
                 event['method'] == 'Network.requestWillBeSent']
        return [url for url in asked if url != self.url and not url.startswith('data:')]
