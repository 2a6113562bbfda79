"""A collector of traces: takes OTLP over HTTP, as protobuf, and keeps every span."""

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from serving import Served


@dataclass(frozen=True)
class Span:
    """One span. Ids are as `traceparent` has them."""

    name: str
    trace: str
    id: str
    parent: str
    links: tuple[tuple[str, str], ...]
    """Trace and span of each."""
    attributes: dict = field(hash=False)


class Collector(Served):
    """A running collector. While it is `away`, it answers 503."""

    def __init__(self):
        self.away = False
        self.refused = 0
        self._spans: list[Span] = []
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"collector": self})
        self.serve(handler)

    def take(self, spans: list[Span]) -> None:
        with self._lock:
            self._spans.extend(spans)

    def spans(self, name: str, **attributes) -> list[Span]:
        """The spans of this name that have these attributes, with `_` for dots in their names."""
        wanted = {f"groupage.{key}": value for key, value in attributes.items()}
        with self._lock:
            return [span for span in self._spans if span.name == name and wanted.items() <= span.attributes.items()]


class _Handler(BaseHTTPRequestHandler):
    collector: Collector
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.collector.away:
            self.collector.refused += 1
        else:
            assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
            self.collector.take(_spans(body))
        self.send_response(503 if self.collector.away else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """What matters is in the spans."""


def _spans(request: bytes) -> list[Span]:
    """Of an ExportTraceServiceRequest (opentelemetry/proto/trace/v1/trace.proto)."""
    return [
        _span(span)
        for resource in _fields(request, 1)
        for scope in _fields(resource, 2)
        for span in _fields(scope, 2)
    ]


def _span(span: bytes) -> Span:
    [trace], [id], [name] = _fields(span, 1), _fields(span, 2), _fields(span, 5)
    return Span(
        name=name.decode(),
        trace=trace.hex(),
        id=id.hex(),
        parent=b"".join(_fields(span, 4)).hex(),
        links=tuple((b"".join(_fields(link, 1)).hex(), b"".join(_fields(link, 2)).hex()) for link in _fields(span, 13)),
        attributes=dict(_attribute(attribute) for attribute in _fields(span, 9)),
    )


def _attribute(attribute: bytes) -> tuple[str, object]:
    [key], [value] = _fields(attribute, 1), _fields(attribute, 2)
    texts, numbers = _fields(value, 1), _fields(value, 3)
    return key.decode(), texts[0].decode() if texts else numbers[0]


def _fields(message: bytes, wanted: int) -> list:
    """The values of one field of a protobuf message: bytes, or numbers."""
    found, at = [], 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _varint(message, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                assert kind == 2, f"no message has a field of wire type {kind}"
                size, at = _varint(message, at)
            value, at = message[at : at + size], at + size
            assert len(value) == size, "the message ends in the middle of a field"
        if number == wanted:
            found.append(value)
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 0x80:
            return value, at
