"""A carrier that prints labels: a downstream that gives each parcel a number."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NO_ADDRESS = "no such street, 1 \u00dcberweg"
"""What it says of the parcel `bad`."""
ROUTE = """
  - name: labels
    when: label
    target: "'carrier'"
    batch: {{ max_items: 10, wait_ms: 500 }}
    notify: {{ success: default, failure: default }}
    downstream:
      http:
        url: "{url}"
        response:
          results: body.labels
          succeeded: number
          reason: code
          output: "number || message"
"""
"""The route to it, with its place for the URL."""


@contextmanager
def carrier():
    """Runs it; gives the route to it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Carrier)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield ROUTE.format(url=f"http://127.0.0.1:{server.server_port}/labels")
    finally:
        server.shutdown()
        server.server_close()


class _Carrier(BaseHTTPRequestHandler):
    def do_POST(self):
        items = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["items"]
        body = json.dumps({"labels": [_label(item) for item in items]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def _label(item: dict) -> dict:
    match item["id"]:
        case "bad":
            return {"code": "no_address", "message": NO_ADDRESS}
        case "large":
            return {"number": "x" * 140_000}
        case id:
            return {"number": f"N-{id}"}
