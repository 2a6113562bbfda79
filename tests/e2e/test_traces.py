"""A sender's trace on the deployed stack: it comes to the call, to the notice and to a collector."""

import json

import pytest

from collector import Collector
from door import Door

SENDERS = {"traced-sqs": "a1", "traced-field": "b2", "traced-http": "c3", "traced-file": "d4"}
"""A task for each way to say a trace, and what its sender's ids consist of."""


@pytest.fixture(scope="module")
def api(run) -> Door:
    return Door(run.stack, run.stack.user("tracer", "Api"))


def traceparent(sender: str) -> str:
    return f"00-{sender * 16}-{sender * 8}-01"


def letter(id: str, **more) -> dict:
    return {"id": id, "payload": {"type": "letter", "district": "traces", "address": "street 1"}, **more}


def attribute(value: str) -> dict:
    return {"traceparent": {"DataType": "String", "StringValue": value}}


def send_each_way(stack, api, folder) -> None:
    send = stack.client("sqs").send_message
    # The attribute counts more than the field.
    body = json.dumps(letter("traced-sqs", traceparent=traceparent("ff")))
    queue = stack.queue("TaskQueue")
    send(QueueUrl=queue, MessageBody=body, MessageAttributes=attribute(traceparent(SENDERS["traced-sqs"])))
    stack.send([json.dumps(letter("traced-field", traceparent=traceparent(SENDERS["traced-field"])))])
    sent = api.call("POST", "/tasks", {"tasks": [letter("traced-http")]}, traceparent=traceparent(SENDERS["traced-http"]))
    assert sent[0] == 202, sent
    file = folder / "letters.ndjson"
    file.write_text(json.dumps(letter("traced-file")))
    stack.groupage("send", file, "--traceparent", traceparent(SENDERS["traced-file"]))
    # One that is malformed is ignored.
    body = json.dumps(letter("traced-not", traceparent="00-1"))
    send(QueueUrl=queue, MessageBody=body, MessageAttributes=attribute("nonsense"))


def test_a_trace_comes_to_its_call_its_notice_and_the_collector(run, downstream, collector, api, tmp_path):
    stack, ids = run.stack, [*SENDERS, "traced-not"]
    send_each_way(stack, api, tmp_path)
    states = lambda: [stack.status(id) for id in ids]
    stack.eventually("the letters to be sorted", lambda: states() == ["succeeded"] * 5, states)

    calls = [call for call in downstream.ledger.calls("/sort") if set(call.members) & set(ids)]
    for call in calls:
        # An earlier attempt may have been lost: the batch is the same then, and so is its trace.
        _, trace, id, flags = call.trace.split("-")
        spans = lambda: [span for span in collector.spans("groupage call", batch=call.key) if span.id == id]
        stack.eventually("the span of a call", spans, lambda: collector.spans("groupage call"))
        [span] = spans()
        members = {SENDERS[member] * 16 for member in call.members if member in SENDERS}
        assert (span.trace, flags) == (trace, "01")
        assert {linked for linked, _ in span.links} == members, call
    for name in ("groupage register task", "groupage settle task"):
        for id, sender in SENDERS.items():
            spans = lambda: collector.spans(name, task=id)
            stack.eventually(f"{name} of {id}", spans, spans)
            assert {(span.trace, span.parent) for span in spans()} == {(sender * 16, sender * 8)}
        assert not collector.spans(name, task="traced-not")
    settled = {link for id in SENDERS for span in collector.spans("groupage settle task", task=id) for link in span.links}
    assert {trace for trace, _ in settled} <= {call.trace.split("-")[1] for call in calls}

    told = {}
    for message in stack.take(stack.success_queue, len(ids)):
        attributes = message.get("MessageAttributes", {})
        told[json.loads(message["Body"])["subject"]] = attributes.get("traceparent", {}).get("StringValue")
    assert {id: told[id] for id in ids} == {id: traceparent(sender) for id, sender in SENDERS.items()} | {"traced-not": None}


def test_each_step_has_a_span(run, collector):
    for step in ("register", "elect", "group", "call", "follow up"):
        spans = lambda: collector.spans(f"groupage {step}")
        run.stack.eventually(f"a span of {step}", spans, lambda: "none came")


def test_tasks_settle_though_the_collector_takes_nothing(run, collector: Collector):
    stack, ids = run.stack, [f"untold-{n}" for n in range(5)]
    collector.away = True
    try:
        stack.send([json.dumps(letter(id, traceparent=traceparent("e5"))) for id in ids])
        states = lambda: [stack.status(id) for id in ids]
        stack.eventually("the letters to be sorted", lambda: states() == ["succeeded"] * 5, states)
        stack.eventually("a request to the collector", lambda: collector.refused, lambda: "none came")
    finally:
        collector.away = False
