"""An embeddings API behind a budget of tokens on a laptop stack, with limits as docs/guides/limits.md has them.

The API counts tokens itself, and answers 429 with `Retry-After`, in seconds or as a date, when it is told to.
"""

import json
import random
import threading
import time
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler

import pytest

from local import local_stack
from serving import Served
from sites import Site

TOKENS_A_SECOND, MOST_TOKENS = 2_000, 800
ROUTES = f"""version: 1
routes:
  - name: embed
    target: model
    batch: {{ weight: tokens, max_weight: {MOST_TOKENS}, max_items: 100, wait_ms: 200 }}
    limits:
      rates:
        - {{ amount: {TOKENS_A_SECOND}, per: second, of: weight }}
        - {{ amount: 600, per: minute }}
        - {{ amount: 1000000, per: day, of: items }}
    downstream: {{ http: {{ url: "$URL/v1/embeddings" }} }}
    notify: {{ failure: none, success: none }}
"""
ASKED_S = 8
"""For how long the API asks to be left alone: longer than Groupage waits by itself at first."""


@dataclass(frozen=True)
class Seen:
    """One request that arrived."""

    at: float
    key: str
    tokens: dict[str, int]
    """By task."""
    until: float | None
    """The time before which it was not to be made again, if it was answered 429."""


class Embeddings(Served):
    """The API, with what it has seen."""

    def __init__(self):
        self.seen: list[Seen] = []
        self._refusing: list[str] = []
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                retry_after = outer._take(self.headers["Idempotency-Key"], body["items"])
                self.send_response(200 if retry_after is None else 429)
                if retry_after is not None:
                    self.send_header("Retry-After", retry_after)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.serve(Handler)

    def refuse_next(self, *forms: str) -> None:
        """Answers the next calls with 429: each one's `Retry-After` is in `seconds`, or a `date`."""
        with self._lock:
            self._refusing.extend(forms)

    def _take(self, key: str, items: list[dict]) -> str | None:
        with self._lock:
            now, retry_after, until = time.time(), None, None
            if self._refusing:
                in_seconds = self._refusing.pop(0) == "seconds"
                until = now + ASKED_S if in_seconds else float(int(now) + 1 + ASKED_S)
                retry_after = str(ASKED_S) if in_seconds else formatdate(until, usegmt=True)
            tokens = {item["id"]: item["payload"]["tokens"] for item in items}
            self.seen.append(Seen(now, key, tokens, until))
            return retry_after


@pytest.fixture
def embeddings():
    embeddings = Embeddings()
    yield embeddings
    embeddings.stop()


def text(id: str, tokens: int) -> str:
    return json.dumps({"id": id, "payload": {"model": "small", "tokens": tokens, "text": "…"}})


def test_an_embeddings_api_is_called_within_its_budget_and_left_alone_as_it_asks(embeddings, tmp_path, report):
    dice = random.Random(7)
    texts = {f"text-{n}": dice.randint(20, 600) for n in range(50)}
    with local_stack(tmp_path, ROUTES.replace("$URL", embeddings.url)) as environment:
        site, began = Site.of_laptop(tmp_path, environment), time.time()
        site.send([text(id, tokens) for id, tokens in texts.items()] + [text("novel", MOST_TOKENS + 1)])
        settled = site.settled(list(texts))
        [rejected] = site.rejected(1).values()
        in_budget = list(embeddings.seen)
        for form in ("seconds", "date"):
            embeddings.refuse_next(form)
            site.send([text(form, 100)])
            settled |= site.settled([form])
    assert set(settled.values()) == {("succeeded", None)}
    assert str(MOST_TOKENS) in rejected["Detail"], rejected
    # No call starts before the budget has its tokens, whenever it arrives.
    used = 0
    for seen in sorted(in_budget, key=lambda seen: seen.at):
        used += sum(seen.tokens.values())
        assert used <= MOST_TOKENS + TOKENS_A_SECOND * (seen.at - began), "more tokens than the budget has by then"
    took = max(seen.at for seen in in_budget) - began
    # What is refused is called again, with the same tasks under the same key, and not before the time that was asked.
    refused, again = embeddings.seen[len(in_budget) :: 2], embeddings.seen[len(in_budget) + 1 :: 2]
    assert [seen.until is None for seen in [*refused, *again]] == [False, False, True, True]
    for first, second in zip(refused, again):
        assert (second.key, second.tokens) == (first.key, first.tokens)
        assert second.at >= first.until, f"called again {first.until - second.at} s early"
    waited = ", ".join(f"{second.at - first.at:.1f} s" for first, second in zip(refused, again))
    report.append(
        f"embeddings: {used} tokens in {len(in_budget)} calls took {took:.1f} s of at least "
        f"{(used - MOST_TOKENS) / TOKENS_A_SECOND:.1f}; called again after {waited}, asked for {ASKED_S} s and a date "
        f"up to a second later"
    )
