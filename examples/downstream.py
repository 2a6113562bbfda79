"""A small batch API for the documentation: each POST carries the items of one Target.

Run it with `python3 examples/downstream.py [PORT]`. It prints one line for each call. A parcel over 1,000 kg fails for
good, and so does a payment over 1,000; a PUT to /kg or /amount changes that limit. The first call for truck-3 is
answered 503, so Groupage makes it again. A call that comes twice under one Idempotency-Key gets the first answer again,
and its items are not worked on twice.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

LIMITS = {"kg": (1000, "too_heavy"), "amount": (1000, "over_limit")}


class Work:
    """What each call was answered."""

    def __init__(self):
        self._lock = Lock()
        self._answers = {}
        self._busy = {"truck-3"}

    def do(self, key: str, target: str, items: list) -> tuple[int, dict]:
        """Works on the items of one call. Returns the HTTP status and the answer."""
        with self._lock:
            if key in self._answers:
                return 200, self._answers[key]
            if target in self._busy:
                self._busy.discard(target)
                return 503, {}
            answer = {"results": [outcome(item) for item in items]}
            self._answers[key] = answer
            return 200, answer


def outcome(item: dict) -> dict:
    for field, (limit, reason) in LIMITS.items():
        if item["payload"].get(field, 0) > limit:
            return {"id": item["id"], "status": "failed", "reason": reason}
    return {"id": item["id"], "status": "succeeded"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    work = Work()

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        target, items = call["target"], call["items"]
        status, answer = self.work.do(self.headers["Idempotency-Key"], target, items)
        print(f"{target}: {len(items)} items in one call, answered {status}", flush=True)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        field, reason = self.path.strip("/"), LIMITS[self.path.strip("/")][1]
        LIMITS[field] = (int(self.rfile.read(int(self.headers["Content-Length"]))), reason)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        """One line for each call is enough."""


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
