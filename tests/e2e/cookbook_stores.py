"""The stores of the cookbook's pages as their documentation describes them, each as small as the page needs it.

A store checks who calls, keeps what it is given, and notes each call. The first call is turned away as this store does
it when it has too much to do. The answer of the first call with a whole batch that is carried out whole is lost.
"""

import json
import re
import socket
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

from serving import Served

SECRET = "b3Blbi1zZXNhbWU6NzczMQ"
"""The value of each page's secret."""


@dataclass(frozen=True)
class Answer:
    """What a store says of a call."""

    status: int
    body: object = None
    headers: tuple[tuple[str, str], ...] = ()
    whole: bool = False
    """Whether everything in the call was carried out."""

    def text(self) -> bytes:
        if self.body is None:
            return b""
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


@dataclass(frozen=True)
class Call:
    """A call that arrived, and what became of it: `throttled`, `lost` or `answered`."""

    key: str
    body: str
    fate: str
    status: int


class Store(Served):
    """A server with one batch API."""

    throttled: Answer
    """The answer to a call for which there is no room."""
    login: tuple[str, str]
    """The header that says who calls, and its value."""

    def __init__(self):
        self.calls: list[Call] = []
        self._lock, store = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                call, answer = store._take(urlsplit(self.path), self.headers, body)
                if call.fate == "lost":
                    self.close_connection = True
                    return self.connection.shutdown(socket.SHUT_RDWR)
                text = answer.text()
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                """The list of calls is the log."""

        self.serve(Handler)

    def _take(self, url, headers, body: str) -> tuple[Call, Answer]:
        """Carries out a call, and decides its fate."""
        with self._lock:
            name, value = self.login
            if headers[name] != value:
                answer, fate = Answer(401, {"error": "unauthorized"}), "answered"
            elif not self.calls:
                answer, fate = self.throttled, "throttled"
            else:
                query = {key: values[0] for key, values in parse_qs(url.query).items()}
                answer = self.carry_out(url.path, query, headers, body)
                lost = [is_part(call.key) for call in self.calls if call.fate == "lost"]
                is_first = answer.whole and is_part(headers["Idempotency-Key"]) not in lost
                fate = "lost" if is_first else "answered"
            call = Call(headers["Idempotency-Key"], body, fate, answer.status)
            self.calls.append(call)
            return call, answer

    def carry_out(self, path: str, query: dict[str, str], headers, body: str) -> Answer:
        """Carries out a call."""
        raise NotImplementedError

    def held(self) -> list[str]:
        """The numbers of the tasks that the store holds, one for each document, row or sample."""
        raise NotImplementedError


def is_part(key: str) -> bool:
    """Whether a key is that of a part of a batch. The first answer to a part is lost, as is that to a whole batch."""
    return re.search(r"\.\d+-\d+$", key) is not None


class Elasticsearch(Store):
    """`_bulk` of Elasticsearch 8. The first document that could be stored finds the write queue full."""

    throttled = Answer(429, {"error": {"type": "circuit_breaking_exception"}, "status": 429})
    login = ("Authorization", f"ApiKey {SECRET}")

    def __init__(self):
        super().__init__()
        self.documents: dict[str, tuple[int, dict]] = {}
        """Version and document by id."""
        self.rejected: list[str] = []
        """Ids for which the write queue had no room."""

    def carry_out(self, path, query, headers, body):
        if path != "/scans/_bulk" or headers["Content-Type"] != "application/x-ndjson" or not body.endswith("\n"):
            return Answer(400, {"error": {"type": "illegal_argument_exception"}, "status": 400})
        lines = [json.loads(line) for line in body.splitlines() if line.strip()]
        items = [self._act(action, document) for action, document in zip(lines[::2], lines[1::2], strict=True)]
        assert query["filter_path"] == "error.type,items.*.status,items.*.error.type"
        return Answer(200, {"items": items}, whole=all(item["status"] < 300 for one in items for item in one.values()))

    def _act(self, action: dict, document: dict) -> dict:
        [(verb, meta)] = action.items()
        id = meta["_id"]
        if isinstance(document["kg"], str):
            return {verb: {"status": 400, "error": {"type": "document_parsing_exception"}}}
        if not self.rejected:
            self.rejected.append(id)
            return {verb: {"status": 429, "error": {"type": "es_rejected_execution_exception"}}}
        version, _ = self.documents.get(id, (0, None))
        if verb == "create" and version:
            return {verb: {"status": 409, "error": {"type": "version_conflict_engine_exception"}}}
        self.documents[id] = (version + 1, document)
        return {verb: {"status": 200 if version else 201}}

    def held(self):
        return [document["parcel"] for _, document in self.documents.values()]


class Clickhouse(Store):
    """`INSERT … FORMAT JSONEachRow` into a table that remembers the tokens of its inserts."""

    login = ("X-ClickHouse-Key", SECRET)

    def __init__(self):
        super().__init__()
        self.rows: list[dict] = []
        self.repeats = 0
        """Inserts of which the table already had the token."""
        self._tokens: set[str] = set()

    @staticmethod
    def _refuse(status: int, code: int, name: str) -> Answer:
        return Answer(status, f"Code: {code}. DB::Exception: ({name})", (("X-ClickHouse-Exception-Code", str(code)),))

    throttled = _refuse(500, 252, "TOO_MANY_PARTS")

    def carry_out(self, path, query, headers, body):
        if path != "/" or query["query"] != "INSERT INTO scans FORMAT JSONEachRow":
            return self._refuse(404, 60, "UNKNOWN_TABLE")
        assert (query["async_insert"], query["wait_end_of_query"]) == ("0", "1")
        rows = [json.loads(line) for line in body.splitlines() if line.strip()]
        if not all(isinstance(row["kg"], (int, float)) for row in rows):
            return self._refuse(400, 72, "CANNOT_PARSE_NUMBER")
        if not all(row["kg"] > 0 for row in rows):
            return self._refuse(500, 469, "VIOLATED_CONSTRAINT")
        if query["insert_deduplication_token"] in self._tokens:
            self.repeats += 1
        else:
            self._tokens.add(query["insert_deduplication_token"])
            self.rows += rows
        return Answer(200, whole=True)

    def held(self):
        return [row["parcel"] for row in self.rows]


class Influxdb(Store):
    """`/api/v2/write` of InfluxDB 2: writes the points that fit their fields, and names the others."""

    throttled = Answer(429, {"code": "too many requests"}, (("Retry-After", "1"),))
    login = ("Authorization", f"Token {SECRET}")
    LINE = re.compile(r'scans,truck=([^ ,=]+) kg=(-?[\d.]+|"(?:[^"\\]|\\.)*"|true|false) (-?\d+)')

    def __init__(self):
        super().__init__()
        self.points: dict[tuple[str, str], str] = {}
        """Fields by tags and time."""
        self.written = 0
        """Points that were written, again or not."""

    def carry_out(self, path, query, headers, body):
        if (path, query) != ("/api/v2/write", {"org": "parcels", "bucket": "scans", "precision": "ms"}):
            return Answer(404, {"code": "not found"})
        lines = [self.LINE.fullmatch(line) for line in body.splitlines() if line]
        if not all(lines):
            return Answer(400, {"code": "invalid", "message": "unable to parse"})
        points = [line.groups() for line in lines]
        fit = [point for point in points if point[1][0] not in '"tf']
        self.points.update({(truck, at): kg for truck, kg, at in fit})
        self.written += len(fit)
        if len(fit) < len(points):
            message = f"partial write: field type conflict dropped={len(points) - len(fit)}"
            return Answer(422, {"code": "unprocessable entity", "message": message})
        return Answer(204, whole=True)

    def held(self):
        return [at.removeprefix("1764000000") for _, at in self.points]


class Couchdb(Store):
    """`_bulk_docs` of CouchDB 3, with a validation that wants `kg` to be a number."""

    throttled = Answer(503, {"error": "service_unavailable"})
    login = ("Authorization", f"Basic {SECRET}")

    def __init__(self):
        super().__init__()
        self.documents: dict[str, dict] = {}
        self.conflicts = 0

    def carry_out(self, path, query, headers, body):
        if path != "/scans/_bulk_docs":
            return Answer(404, {"error": "not_found", "reason": "Database does not exist."})
        documents = json.loads(body)["docs"]
        if any(document["_id"].startswith("_") for document in documents):
            return Answer(400, {"error": "illegal_docid", "reason": "Only reserved document ids may start so."})
        entries = [self._put(document) for document in documents]
        return Answer(201, entries, whole=all("ok" in entry for entry in entries))

    def _put(self, document: dict) -> dict:
        id = document["_id"]
        if isinstance(document["scan"]["kg"], str):
            return {"id": id, "error": "forbidden", "reason": "kg must be a number"}
        if id in self.documents:
            self.conflicts += 1
            return {"id": id, "error": "conflict", "reason": "Document update conflict."}
        self.documents[id] = document
        return {"ok": True, "id": id, "rev": "1-1"}

    def held(self):
        return [document["scan"]["parcel"] for document in self.documents.values()]


class Victoriametrics(Store):
    """`/api/v1/import` of VictoriaMetrics: keeps each sample that it can read, skips the others, and answers 204."""

    throttled = Answer(503, "cannot process insert request: 4 concurrent insert requests are executed")
    login = ("Authorization", f"Bearer {SECRET}")

    def __init__(self):
        super().__init__()
        self.samples: list[tuple[str, float, int]] = []
        self.skipped: list[str] = []

    def carry_out(self, path, query, headers, body):
        if path != "/api/v1/import":
            return Answer(400, f"unsupported path requested: {path}")
        for line in body.splitlines():
            try:
                series = json.loads(line)
                [value], [at] = series["values"], series["timestamps"]
                self.samples.append((series["metric"]["truck"], float(value), int(at)))
            except (ValueError, KeyError, TypeError):
                self.skipped += [line] if line else []
        return Answer(204, whole=True)

    def held(self):
        return [str(at).removeprefix("1764000000") for _, _, at in self.samples]
