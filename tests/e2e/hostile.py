"""The hostile corpus of `tests/corpus`: messages, routes and answers, each with the outcome that it must have.

A file has a case on each line. A text in it is a string, or a list of strings and `{"repeat": …, "times": …}`; in an
answer also `{"hex": …}`, for bytes that are no text. `$ID` in an answer stands for the id of the member.
"""

import json
import socketserver
import threading
from pathlib import Path
from string import Template

from stack import ROOT

CORPUS = ROOT / "tests/corpus"
ROUTES = Path(__file__).with_name("hostile.yaml")


def cases(kind: str) -> list[dict]:
    """The cases of a file."""
    return [json.loads(line) for line in (CORPUS / f"{kind}.jsonl").read_text().splitlines()]


def text(parts) -> str:
    """A text as the corpus writes it."""
    if isinstance(parts, str):
        return parts
    return "".join(part if isinstance(part, str) else part["repeat"] * part["times"] for part in parts)


def answer(case: dict, member: str) -> bytes:
    """What a server answers a call with this member, byte by byte."""
    if "raw" in case:
        return _bytes(case["raw"], member)
    body = _bytes(case["body"], member)
    headers = {"Content-Length": str(len(body)), "Connection": "close"} | case.get("headers", {})
    lines = [f"HTTP/1.1 {case['status']} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def _bytes(parts, member: str) -> bytes:
    written = b""
    for part in parts if isinstance(parts, list) else [parts]:
        match part:
            case {"hex": digits}:
                written += bytes.fromhex(digits)
            case {"repeat": unit, "times": times}:
                written += unit.replace("$ID", member).encode() * times
            case _:
                written += part.replace("$ID", member).replace("$UPPER", member.upper()).encode()
    return written


class Downstream:
    """A server that answers `/answers` as the case says that a call is for, and `/good` with success. It remembers what
    came."""

    def __init__(self):
        self._answers = {case["name"]: case for case in cases("answers")}
        self.came: dict[str, list[dict]] = {}
        """Payloads by id, of `/good`."""
        self._lock = threading.Lock()
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                outer._handle(self.rfile, self.wfile)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def routes(self) -> str:
        """The routes that lead here, as entries of a routes file."""
        return Template(ROUTES.read_text()).substitute(hostile=self.url)

    def _handle(self, request, reply) -> None:
        first = request.readline().decode()
        length = 0
        while (line := request.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = json.loads(request.read(length))
        if first.startswith("POST /good "):
            with self._lock:
                for item in body["items"]:
                    self.came.setdefault(item["id"], []).append(item["payload"])
            written = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        else:
            [item] = body["items"]
            written = answer(self._answers[item["payload"]["case"]], item["id"])
        try:
            reply.write(written)
            reply.flush()
        except OSError:
            pass  # the caller has seen enough

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
