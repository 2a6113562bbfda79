"""A small batch API: POST /load loads the parcels of one truck.

Run it with `python3 examples/trucks/downstream.py [PORT]`. It prints one line for each call. A parcel over 1,000 kg fails
for good. The first call for truck-3 is answered 503, so Groupage makes it again. A call that comes twice under one
Idempotency-Key gets the first answer again and loads nothing.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

LIMIT_KG = 1000


class Trucks:
    """What was loaded, and what each call was answered."""

    def __init__(self):
        self._lock = Lock()
        self._answers = {}
        self._busy = {"truck-3"}

    def load(self, key: str, truck: str, items: list) -> tuple[int, dict]:
        """Loads the parcels of one call. Returns the HTTP status and the answer."""
        with self._lock:
            if key in self._answers:
                return 200, self._answers[key]
            if truck in self._busy:
                self._busy.discard(truck)
                return 503, {}
            answer = {"results": [outcome(item) for item in items]}
            self._answers[key] = answer
            return 200, answer


def outcome(item: dict) -> dict:
    if item["payload"].get("kg", 0) > LIMIT_KG:
        return {"id": item["id"], "status": "failed", "reason": "too_heavy"}
    return {"id": item["id"], "status": "succeeded"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    trucks = Trucks()

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        truck, items = call["target"], call["items"]
        status, answer = self.trucks.load(self.headers["Idempotency-Key"], truck, items)
        print(f"{truck}: {len(items)} parcels in one call, answered {status}", flush=True)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

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
