"""Stand-ins for the APIs of the cookbook that are not AWS's: small, and as their providers document them.

Each throttles the first call, in its own way. Each loses the answer of the first call that leaves something: it carries
the call out, and closes the connection. Those that can fail one object for now fail the parcel 7, in the first call
that has it and in each repeat of that call. What an API holds is counted here, not taken from what Groupage says.
"""

import base64
import json
import re
import socket
import struct
import threading
import urllib.parse
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

import graphql

from serving import Served

SECRET = "of-the-tests"
"""What each API knows its caller by."""


@dataclass(frozen=True)
class Answer:
    """What an API answers."""

    status: int
    body: object = None
    """JSON, or the text itself; `None` for no body."""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """A call that arrived, and what became of it: `throttled`, `lost` or `answered`."""

    key: str
    """Idempotency-Key."""
    fate: str
    status: int


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    """By their names in lower case."""
    body: str

    def json(self):
        return json.loads(self.body)


class Api(Served):
    """An API on a free port."""

    def __init__(self):
        self.calls: list[Call] = []
        self.held: list[str] = []
        """The parcels that it holds, once for each object."""
        self.lost: list[str] = []
        """Those that the lost call left."""
        self.tried: list[str] = []
        """The key of each call that had the parcel 7."""
        self._key = ""
        """That of the call that is being carried out."""
        self._lock, outer = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                answer = outer._take(Request(self.path, self._headers(), body))
                if answer is None:
                    self.close_connection = True
                    return self.connection.shutdown(socket.SHUT_RDWR)
                self._send(answer)

            def do_GET(self):
                with outer._lock:
                    self._send(outer.look(Request(self.path, self._headers(), "")))

            def _headers(self):
                return {name.lower(): value for name, value in self.headers.items()}

            def _send(self, answer):
                text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
                body = b"" if answer.body is None else text.encode()
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.serve(Handler)

    def throttled(self) -> Answer:
        """How it turns a call away that is one too many."""
        raise NotImplementedError

    def carry_out(self, request: Request) -> Answer:
        """Does what a call asks for."""
        raise NotImplementedError

    def look(self, request: Request) -> Answer:
        """Answers a read."""
        return Answer(405)

    def is_caller_known(self, headers: dict[str, str]) -> bool:
        return headers.get("authorization") == f"Bearer {SECRET}"

    def without_key(self, _: Request) -> Answer | None:
        """Answers what is no call of a batch."""

    def fails_for_now(self, parcel: str) -> bool:
        """Whether the object fails in this call."""
        if not parcel.endswith("_7"):
            return False
        self.tried.append(self._key)
        return self._key == self.tried[0]

    def answer_is_lost(self, key: str) -> None:
        """Learns that the answer of the call of this key went astray."""

    def _take(self, request: Request) -> Answer | None:
        with self._lock:
            if (aside := self.without_key(request)) is not None:
                return aside
            key, before = request.headers["idempotency-key"], len(self.held)
            self._key = key
            if not self.is_caller_known(request.headers):
                answer, fate = Answer(401), "answered"
            elif not self.calls:
                answer, fate = self.throttled(), "throttled"
            else:
                answer, fate = self.carry_out(request), "answered"
                if not self.lost and len(self.held) > before:
                    self.lost, fate = self.held[before:], "lost"
                    self.answer_is_lost(key)
            self.calls.append(Call(key, fate, answer.status))
            return answer if fate != "lost" else None


class Shop(Api):
    """Shopify's Admin API in GraphQL, as far as `metaobjectUpsert`, executed by a library of GraphQL.

    A request that is no GraphQL is answered with 400, as GraphQL over HTTP wants it for
    `application/graphql-response+json`. An upsert that breaks inside has no payload, and the error names its alias.
    """

    SCHEMA = graphql.build_schema("""
        type Query { shop: String }
        type Mutation {
            metaobjectUpsert(handle: MetaobjectHandleInput!, metaobject: MetaobjectUpsertInput!):
                MetaobjectUpsertPayload
        }
        input MetaobjectHandleInput { type: String! handle: String! }
        input MetaobjectUpsertInput { fields: [MetaobjectFieldInput!] }
        input MetaobjectFieldInput { key: String! value: String! }
        type MetaobjectUpsertPayload { metaobject: Metaobject userErrors: [MetaobjectUserError!]! }
        type Metaobject { id: ID! handle: String! }
        type MetaobjectUserError { code: String field: [String!] message: String! }
    """)

    def is_caller_known(self, headers):
        return headers.get("x-shopify-access-token") == SECRET

    def throttled(self):
        error = {"message": "Throttled", "extensions": {"code": "THROTTLED"}}
        status = {"maximumAvailable": 2000.0, "currentlyAvailable": 12, "restoreRate": 100.0}
        cost = {"requestedQueryCost": 110, "actualQueryCost": None, "throttleStatus": status}
        return Answer(200, {"errors": [error], "extensions": {"cost": cost}})

    def carry_out(self, request):
        asked = request.json()
        try:
            document = graphql.parse(asked["query"])
        except graphql.GraphQLSyntaxError as error:
            return Answer(400, {"errors": [error.formatted]})
        if errors := graphql.validate(self.SCHEMA, document):
            return Answer(400, {"errors": [error.formatted for error in errors]})
        done = graphql.execute(self.SCHEMA, document, {"metaobjectUpsert": self._upsert}, None, asked["variables"])
        errors = {"errors": [error.formatted for error in done.errors]} if done.errors else {}
        return Answer(200, {"data": done.data, **errors}, {"Content-Type": "application/graphql-response+json"})

    def _upsert(self, _, handle: dict, metaobject: dict) -> dict:
        [kg] = [one["value"] for one in metaobject["fields"] if one["key"] == "kg"]
        if not re.fullmatch(r"\d+", kg):
            where = ["metaobject", "fields", "0"]
            error = {"code": "INVALID_VALUE", "field": where, "message": "Value must be an integer."}
            return {"metaobject": None, "userErrors": [error]}
        if self.fails_for_now(handle["handle"]):
            raise graphql.GraphQLError("Internal error", extensions={"code": "INTERNAL_SERVER_ERROR"})
        if handle["handle"] not in self.held:
            self.held.append(handle["handle"])
        id = f"gid://shopify/Metaobject/{self.held.index(handle['handle'])}"
        return {"metaobject": {"id": id, "handle": handle["handle"]}, "userErrors": []}


class BusinessCentral(Api):
    """An OData service that creates items, and its token endpoint. Responses come in another order than requests."""

    def __init__(self):
        self.tokens = 0
        """How many it has given."""
        super().__init__()

    def without_key(self, request):
        if not request.path.endswith("/oauth2/v2.0/token"):
            return None
        form = dict(urllib.parse.parse_qsl(request.body))
        if form.get("client_secret") != SECRET or form.get("grant_type") != "client_credentials":
            return Answer(401, {"error": "invalid_client"})
        self.tokens += 1
        return Answer(200, {"token_type": "Bearer", "expires_in": 3599, "access_token": f"token-{SECRET}"})

    def is_caller_known(self, headers):
        return headers.get("authorization") == f"Bearer token-{SECRET}"

    def throttled(self):
        error = {"code": "Application_TooManyRequests", "message": "Too many requests reached."}
        return Answer(429, {"error": error}, {"Retry-After": "1"})

    def carry_out(self, request):
        responses = []
        for one in request.json()["requests"]:
            assert (one["method"], one["url"], one["headers"]["Content-Type"]) == ("POST", "items", "application/json")
            responses.append({"id": one["id"], "headers": {"odata-version": "4.0"}, **self._create(one["body"])})
            if responses[-1]["status"] >= 400 and request.headers.get("prefer") != "odata.continue-on-error":
                break
        return Answer(200, {"responses": responses[::-1]})

    def _create(self, item: dict) -> dict:
        def refused(code: str) -> dict:
            return {"status": 400, "body": {"error": {"code": code, "message": "…  CorrelationId:  x."}}}

        if not isinstance(item["unitPrice"], (int, float)):
            return refused("BadRequest")
        if self.fails_for_now(item["number"]):
            return {"status": 503, "body": {"error": {"code": "Internal_TenantUnavailable", "message": "…"}}}
        if item["number"] in self.held:
            return refused("Internal_EntityWithSameKeyExists")
        self.held.append(item["number"])
        return {"status": 201, "body": item}


class MessageBatches(Api):
    """Anthropic's Message Batches. A batch ends at the second look at it; the second look of all is turned away. It
    holds the requests of batches that were begun."""

    def __init__(self):
        self.results: dict[str, list[dict]] = {}
        """The lines of each batch."""
        self.looks: list[str] = []
        """The path of each."""
        self.carried: set[str] = set()
        """What looks must not have, and had."""
        super().__init__()

    def is_caller_known(self, headers):
        return headers.get("x-api-key") == SECRET and headers.get("anthropic-version") == "2023-06-01"

    def throttled(self):
        return Answer(429, self._error("rate_limit_error"), {"Retry-After": "1"})

    def carry_out(self, request):
        asked = request.json()["requests"]
        ids = [one["custom_id"] for one in asked]
        if len(set(ids)) < len(ids) or not all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", id) for id in ids):
            return Answer(400, self._error("invalid_request_error"))
        batch = f"msgbatch_{len(self.results)}"
        self.results[batch] = [{"custom_id": one["custom_id"], "result": self._result(one)} for one in asked][::-1]
        return Answer(200, self._batch(batch, "in_progress"))

    def look(self, request):
        if not self.is_caller_known(request.headers):
            return Answer(401, self._error("authentication_error"))
        self.carried |= {"idempotency-key", "content-type", "content-length"} & set(request.headers)
        self.looks.append(request.path)
        if len(self.looks) == 2:
            return Answer(529, self._error("overloaded_error"))
        found = re.fullmatch(r"/v1/messages/batches/(\w+)(/results)?", request.path)
        if not found or found[1] not in self.results:
            return Answer(404, self._error("not_found_error"))
        if found[2]:
            lines = "".join(json.dumps(line) + "\n" for line in self.results[found[1]])
            return Answer(200, lines, {"Content-Type": "application/x-jsonl"})
        return Answer(200, self._batch(found[1], "ended" if self.looks.count(request.path) > 1 else "in_progress"))

    def _batch(self, batch: str, status: str) -> dict:
        results = f"{self.url}/v1/messages/batches/{batch}/results" if status == "ended" else None
        return {"id": batch, "type": "message_batch", "processing_status": status, "results_url": results}

    def _result(self, one: dict) -> dict:
        params = one["params"]
        [message] = params["messages"]
        if not message["content"]:
            return {"type": "errored", "error": self._error("invalid_request_error")}
        if self.fails_for_now(one["custom_id"]):
            return {"type": "expired"}
        self.held.append(one["custom_id"])
        content = [{"type": "text", "text": f"About {message['content']}"}]
        return {"type": "succeeded", "message": {"type": "message", "model": params["model"], "content": content}}

    @staticmethod
    def _error(kind: str) -> dict:
        return {"type": "error", "error": {"type": kind, "message": "…"}}


class Embeddings(Api):
    """OpenAI's embeddings. Here a token is a word, and what it holds is the texts that it charged for."""

    MOST_TOKENS = 8192

    def throttled(self):
        error = {"message": "Rate limit reached", "type": "tokens", "param": None, "code": "rate_limit_exceeded"}
        return Answer(429, {"error": error}, {"Retry-After": "1"})

    def carry_out(self, request):
        asked = request.json()
        assert (asked["model"], asked["encoding_format"]) == ("text-embedding-3-small", "base64")
        if any(len(text.split()) > self.MOST_TOKENS for text in asked["input"]):
            message = f"This model's maximum context length is {self.MOST_TOKENS} tokens."
            error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
            return Answer(400, {"error": error})
        self.held += [text.split()[1] for text in asked["input"]]
        vector = base64.b64encode(struct.pack("<1536f", *[0.0125] * 1536)).decode()
        data = [{"object": "embedding", "index": at, "embedding": vector} for at in range(len(asked["input"]))]
        return Answer(200, {"object": "list", "data": data[::-1], "model": asked["model"]})


class Postmark(Api):
    """Postmark's batch of messages. Those to `gone@example.com` have an inactive recipient."""

    def is_caller_known(self, headers):
        return headers.get("x-postmark-server-token") == SECRET

    def throttled(self):
        return Answer(429, {"ErrorCode": 429, "Message": "Rate Limit Exceeded"})

    def carry_out(self, request):
        messages = request.json()
        if len(messages) > 500:
            return Answer(422, {"ErrorCode": 410, "Message": "Too many batch messages"})
        return Answer(200, [self._send(message) for message in messages])

    def _send(self, message: dict) -> dict:
        assert message["MessageStream"] == "outbound" and message["From"] and message["TextBody"]
        if message["To"] == "gone@example.com":
            return {"ErrorCode": 406, "Message": "You tried to send to a recipient that has been marked as inactive."}
        if self.fails_for_now(message["Metadata"]["task"]):
            return {"ErrorCode": 100, "Message": "Maintenance"}
        self.held.append(message["Metadata"]["task"])
        return {"ErrorCode": 0, "Message": "OK", "To": message["To"], "MessageID": f"m-{len(self.held)}"}


class Stripe(Api):
    """Stripe's payments (v1). It keeps the answer of each key from when the payment began, and gives it again.

    The payment whose answer is lost still runs when its key comes next: 409. One of the customer `broke` is declined.
    """

    def __init__(self):
        self._saved: dict[str, tuple[str, Answer]] = {}
        """Body and answer by key."""
        self._running: set[str] = set()
        self.replayed = 0
        """How many answers were given again."""
        super().__init__()

    def throttled(self):
        # The rate limiter comes before the keys: nothing is kept of this answer.
        return Answer(429, _stripe_error("invalid_request_error", "rate_limit"))

    def answer_is_lost(self, key):
        self._running.add(key)

    def carry_out(self, request):
        key = request.headers["idempotency-key"]
        if key in self._running:
            self._running.remove(key)
            return Answer(409, _stripe_error("invalid_request_error", "idempotency_key_in_use"))
        if key in self._saved:
            body, answer = self._saved[key]
            if body != request.body:
                return Answer(400, _stripe_error("idempotency_error", None))
            self.replayed += 1
            return Answer(answer.status, answer.body, {"Idempotent-Replayed": "true"})
        form = dict(urllib.parse.parse_qsl(request.body, strict_parsing=True))
        if not form["amount"].isdigit() or form["confirm"] != "true":
            return Answer(400, _stripe_error("invalid_request_error", "parameter_invalid_integer"))
        answer = self._pay(form)
        self._saved[key] = request.body, answer
        return answer

    def _pay(self, form: dict) -> Answer:
        if form["customer"] == "broke":
            return Answer(402, _stripe_error("card_error", "card_declined", decline_code="insufficient_funds"))
        self.held.append(form["metadata[task]"])
        intent = {"object": "payment_intent", "id": f"pi_{len(self.held)}", "status": "succeeded"}
        return Answer(200, intent | {"amount": int(form["amount"]), "currency": form["currency"]})


def _stripe_error(type: str, code: str | None, **more: str) -> dict:
    return {"error": {"type": type, "code": code, "message": "…", **more}}


class KafkaRest(Api):
    """A REST Proxy before a topic of one partition, whose `max.message.bytes` is small."""

    MOST_BYTES = 1_000

    def is_caller_known(self, headers):
        return headers.get("authorization") == SECRET

    def throttled(self):
        return Answer(429, {"error_code": 42901, "message": "Too many requests"})

    def carry_out(self, request):
        if request.path != "/topics/scans":
            return Answer(404, {"error_code": 40401, "message": "Topic not found."})
        if request.headers["content-type"] != "application/vnd.kafka.json.v2+json":
            return Answer(415, {"error_code": 415, "message": "HTTP 415 Unsupported Media Type"})
        offsets = [self._append(record) for record in request.json()["records"]]
        return Answer(200, {"offsets": offsets, "key_schema_id": None, "value_schema_id": None})

    def _append(self, record: dict) -> dict:
        def failed(code: int, error: str) -> dict:
            return {"partition": None, "offset": None, "error_code": code, "error": error}

        if len(json.dumps(record["value"])) > self.MOST_BYTES:
            return failed(50002, "The request included a message larger than the max message size.")
        if self.fails_for_now(record["key"]):
            return failed(50003, "There is no leader for this topic-partition.")
        self.held.append(record["key"])
        return {"partition": 0, "offset": len(self.held) - 1, "error_code": None, "error": None}
