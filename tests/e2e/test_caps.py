"""Caps of the event source mappings, which the emulator keeps, and the size of what the intake takes."""

import json

import pytest
from botocore.exceptions import ClientError

TASKS, TARGETS = 400, 8


def test_a_burst_at_caps_of_two_loses_nothing(run):
    """No invocation is throttled: a mapping reads no more than its cap takes."""
    stack = run.stack
    functions = stack.client("lambda")
    mappings = [mapping["UUID"] for mapping in functions.list_event_source_mappings()["EventSourceMappings"]]
    assert len(mappings) == len(stack.STEP_QUEUES)

    def cap(most):
        for mapping in mappings:
            functions.update_event_source_mapping(UUID=mapping, ScalingConfig={"MaximumConcurrency": most})

    def dead():
        return {queue: stack.waiting(queue) for queue in stack.queues() if queue.endswith("DeadLetterQueue")}

    dead_before = dead()
    ids = [f"capped-{n}" for n in range(TASKS)]
    payloads = [{"type": "parcel", "truck": f"capped-{n % TARGETS}", "weight": 1} for n in range(TASKS)]
    cap(2)
    try:
        stack.send([json.dumps({"id": id, "payload": payload}) for id, payload in zip(ids, payloads)])

        def unsettled():
            status = {item["Id"]: item["Status"] for item in stack.items("TaskTable")}
            return [id for id in ids if status.get(id) != "succeeded"]

        stack.eventually("the burst to settle", lambda: not unsettled(), unsettled)
        stack.eventually("every queue to empty", stack.idle, lambda: "some step still has messages")
    finally:
        cap(5)
    assert dead() == dead_before


def test_a_message_that_the_intake_is_too_small_for_is_refused_to_its_sender(stack):
    assert stack.attributes("TaskQueue")["MaximumMessageSize"] == "256000"
    with pytest.raises(ClientError, match="256000"):
        stack.client("sqs").send_message(QueueUrl=stack.queue("TaskQueue"), MessageBody="x" * 256_001)
