"""The downstream batch APIs that the tests group calls for, with a ledger of every call and what it was answered."""

import json
import socket
import threading
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

from serving import Served

API_KEY = "open-sesame-7731"


@dataclass(frozen=True)
class Call:
    """One request that arrived."""

    path: str
    key: str
    """Idempotency-Key."""
    target: str
    attempt: int
    members: tuple[str, ...]
    """Ids, in the order of the body."""
    status: int
    """HTTP status answered; 0 when the connection was cut instead, `HANGS` when nothing was answered."""
    accepted: frozenset[str]
    """Ids answered as done."""
    port: int
    """The caller's port: says which process made the call."""
    trace: str | None
    """traceparent."""


HANGS = -1
"""The status of a call that is never answered."""


class Ledger:
    """Every call, in the order of arrival."""

    def __init__(self, calls: list[Call] = ()):
        self._lock = threading.Lock()
        self._under_way: Counter = Counter()
        self._most_at_once: Counter = Counter()
        self._calls: list[Call] = list(calls)

    def copy(self) -> "Ledger":
        """The ledger as it is now."""
        return Ledger(self.calls())

    def calls(self, path: str | None = None) -> list[Call]:
        with self._lock:
            return [call for call in self._calls if path in (None, call.path)]

    def by_key(self) -> dict[str, list[Call]]:
        keys = defaultdict(list)
        for call in self.calls():
            keys[call.key].append(call)
        return keys

    def acceptances(self) -> dict[str, list[str]]:
        """For each item that was accepted, the Idempotency-Key of each call that accepted it."""
        accepted = defaultdict(list)
        for call in self.calls():
            for item in call.accepted:
                accepted[item].append(call.key)
        return accepted

    def most_at_once(self, crowd: str) -> int:
        """The most calls of a crowd that were under way at one time."""
        with self._lock:
            return self._most_at_once[crowd]

    @contextmanager
    def under_way(self, crowd: str):
        """A call of a crowd is answered meanwhile."""
        with self._lock:
            self._under_way[crowd] += 1
            self._most_at_once[crowd] = max(self._under_way[crowd], self._most_at_once[crowd])
        try:
            yield
        finally:
            with self._lock:
                self._under_way[crowd] -= 1

    def enter(self, decide) -> Call:
        """Adds the call that `decide` makes of the ledger so far."""
        with self._lock:
            call = decide(self._calls)
            self._calls.append(call)
            return call


class Downstream(Served):
    """A running server. Each truck has a temper, named in its Target:

    - `busy`: answers a batch's first attempt 503 with Retry-After.
    - `flaky`: cuts the connection of a batch's first call, unanswered.
    - `deadly`: leaves a batch's first call unanswered until its caller is gone.
    - `gone`: answers the first five calls 503: it counts as away after them.
    - `crowd-NAME-…`: takes half a second, and it is noted how many calls of a name are under way at one time.
    - any other: loads. A parcel heavier than 1,000 is refused for good; a fragile one is told once to come back.

    `/pay` refuses what is declined, and tells a slow payment once to come back. `/sort` answers in AWS's own form:
    letters without an address fail. `/declare` refuses every call. `/apply` refuses every event of the user `u13`.
    """

    def __init__(self):
        self.ledger = Ledger()
        handler = type("Handler", (_Handler,), {"ledger": self.ledger})
        self.serve(handler)


class _Handler(BaseHTTPRequestHandler):
    ledger: Ledger
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {}

        def decide(earlier: list[Call]) -> Call:
            status, results = self._answer(body, earlier)
            answer.update(status=status, results=results)
            members = tuple(item["id"] for item in body["items"])
            return Call(
                path=self.path,
                key=self.headers["Idempotency-Key"],
                target=body["target"],
                attempt=int(self.headers["Groupage-Attempt"]),
                members=members,
                status=status,
                accepted=frozenset(_accepted(members, results) if status == 200 else ()),
                port=self.client_address[1],
                trace=self.headers["traceparent"],
            )

        self.ledger.enter(decide)
        if body["target"].startswith("crowd-"):
            with self.ledger.under_way(body["target"].split("-")[1]):
                time.sleep(0.5)
        self._reply(**answer)

    def _answer(self, body: dict, earlier: list[Call]) -> tuple[int, dict | None]:
        if self.headers["X-Api-Key"] != API_KEY:
            return 401, None
        if self.path == "/declare":
            return 422, None
        if self.path == "/sort":
            bad = [item["id"] for item in body["items"] if not item["payload"].get("address")]
            return 200, {"batchItemFailures": [{"itemIdentifier": id} for id in bad]}
        if self.path == "/pay":
            return 200, {"results": [self._pay(item, earlier) for item in body["items"]]}
        if self.path == "/apply":
            fails = {True: {"status": "failed", "reason": "no_such_user"}, False: {"status": "succeeded"}}
            return 200, {
                "results": [{"id": item["id"], **fails[item["payload"]["user"] == "u13"]} for item in body["items"]]
            }
        seen = any(call.key == self.headers["Idempotency-Key"] for call in earlier)
        if body["target"] == "busy" and not seen:
            return 503, None
        if body["target"] == "gone" and sum(call.target == "gone" for call in earlier) < 5:
            return 503, None
        if body["target"] == "flaky" and not seen:
            return 0, None
        if body["target"] == "deadly" and not seen:
            return HANGS, None
        return 200, {"results": [self._load(item, earlier) for item in body["items"]]}

    @staticmethod
    def _load(item: dict, earlier: list[Call]) -> dict:
        if item["payload"]["weight"] > 1000:
            return {"id": item["id"], "status": "failed", "reason": "too_heavy"}
        offered = any(call.status == 200 and item["id"] in call.members for call in earlier)
        if item["payload"].get("fragile") and not offered:
            return {"id": item["id"], "status": "retry", "reason": "not_now"}
        return {"id": item["id"], "status": "succeeded"}

    @staticmethod
    def _pay(item: dict, earlier: list[Call]) -> dict:
        if item["payload"].get("declined"):
            return {"id": item["id"], "status": "failed", "reason": "declined"}
        offered = any(item["id"] in call.members for call in earlier)
        if item["payload"].get("slow") and not offered:
            return {"id": item["id"], "status": "retry", "reason": "not_now"}
        return {"id": item["id"], "status": "succeeded"}

    def _reply(self, status: int, results: dict | None) -> None:
        if status == HANGS:
            self.close_connection = True
            self.rfile.read(1)  # ends when the caller does
            return
        if status == 0:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        body = json.dumps(results).encode() if results else b""
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """The ledger is the log."""


def _accepted(members: tuple[str, ...], results: dict | None) -> set[str]:
    if "batchItemFailures" in results:
        return set(members) - {failure["itemIdentifier"] for failure in results["batchItemFailures"]}
    return {result["id"] for result in results["results"] if result["status"] == "succeeded"}
