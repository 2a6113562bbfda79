"""Caps of the event source mappings, which the emulator keeps, and the size of what the intake takes."""

import json
import os
from contextlib import contextmanager

import pytest
from botocore.exceptions import ClientError

LONG = os.environ.get("GROUPAGE_TESTS") == "long"
TASKS, TARGETS = (10_000 if LONG else 120), 8
"""Each Target's calls are made one after another, and eight may be made at once: caps below that are what limits."""


@contextmanager
def cap(stack, most: int):
    """No queue has more invocations under way than this meanwhile."""
    functions = stack.client("lambda")
    mappings = functions.list_event_source_mappings()["EventSourceMappings"]
    assert len(mappings) == len(stack.STEP_QUEUES)
    for mapping in mappings:
        functions.update_event_source_mapping(UUID=mapping["UUID"], ScalingConfig={"MaximumConcurrency": most})
    try:
        yield
    finally:
        for mapping in mappings:
            functions.update_event_source_mapping(UUID=mapping["UUID"], ScalingConfig=mapping["ScalingConfig"])


def burst(stack, crowd: str, tasks: int) -> None:
    """Sends tasks of a crowd, and waits until all have succeeded and nothing is under way."""
    ids = [f"{crowd}-{n}" for n in range(tasks)]
    payloads = [{"type": "parcel", "truck": f"crowd-{crowd}-{n % TARGETS}", "weight": 1} for n in range(tasks)]
    stack.send([json.dumps({"id": id, "payload": payload}) for id, payload in zip(ids, payloads)])

    def unsettled():
        status = stack.statuses()
        return [id for id in ids if status.get(id) != "succeeded"]

    stack.eventually("the burst to settle", lambda: not unsettled(), unsettled)
    stack.eventually("every queue to empty", stack.idle, lambda: "some step still has messages")


def dead(stack) -> dict[str, int]:
    return {queue: stack.waiting(queue) for queue in stack.queues() if queue.endswith("DeadLetterQueue")}


def test_a_burst_at_caps_of_two_loses_nothing(run, downstream):
    """No invocation is throttled: a mapping reads no more than its cap takes."""
    stack, before = run.stack, dead(run.stack)
    burst(stack, "wide", min(TASKS, 400))
    with cap(stack, 2):
        burst(stack, "capped", TASKS)
    assert downstream.ledger.most_at_once("wide") > 2, "else the caps limit nothing here"
    assert downstream.ledger.most_at_once("capped") <= 2
    assert dead(stack) == before


def test_a_message_that_the_intake_is_too_small_for_is_refused_to_its_sender(stack):
    assert stack.attributes("TaskQueue")["MaximumMessageSize"] == "256000"
    with pytest.raises(ClientError, match="256000"):
        stack.client("sqs").send_message(QueueUrl=stack.queue("TaskQueue"), MessageBody="x" * 256_001)
