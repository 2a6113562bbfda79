"""A carrier that prints labels: a downstream that gives each parcel a number."""

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from serving import Served

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
    served = Served()
    served.serve(_Carrier)
    try:
        yield ROUTE.format(url=f"{served.url}/labels")
    finally:
        served.stop()


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
