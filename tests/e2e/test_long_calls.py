"""Calls of over 30 seconds, as the route's `timeout_ms` says it, on the deployed stack: a function of their own makes
them, and the other one hands their batches on."""

import json

from downstream import API_KEY, Downstream
from local import local_stack
from sites import Site
from template import Template

LAPTOP = """
version: 1
routes:
  - name: surveys
    target: region
    downstream:
      http:
        url: "%s/load"
        headers: { X-Api-Key: { secret: { env: GROUPAGE_SECRET_OF_SURVEYS } } }
        timeout_ms: 840000
"""


def batch_of(stack, task: str) -> str:
    [batch] = [batch["BatchId"] for batch in stack.batches_of("surveys:north") if task in str(batch["Members"])]
    return batch


def test_a_long_call_is_made_by_the_function_that_has_the_time(run, downstream):
    stack = run.stack
    stack.send([json.dumps({"id": "survey-1", "payload": {"type": "survey", "region": "north", "weight": 1}})])
    stack.eventually("the survey", lambda: stack.status("survey-1") == "succeeded", lambda: stack.status("survey-1"))
    stack.eventually("every queue to empty", stack.idle, lambda: "some step still has messages")
    assert len([call for call in downstream.ledger.calls("/load") if "survey-1" in call.members]) == 1
    settled = [line for line in stack.logs("long-batch-handler") if "batch settled" in line]
    assert len(settled) == 1 and batch_of(stack, "survey-1") in settled[0], settled
    assert not [line for line in stack.logs("batch-handler") if batch_of(stack, "survey-1") in line and "settled" in line]


def test_the_function_for_long_calls_has_the_longest_time_and_its_messages_stay_hidden_for_it():
    template = Template()
    assert template.properties("LongBatchHandlerFunction")["Timeout"] == 900
    assert template.properties("LongHandleQueue")["VisibilityTimeout"] == 6 * 900


def test_a_laptop_makes_long_calls_without_a_setting(tmp_path):
    downstream = Downstream()
    try:
        with local_stack(tmp_path, LAPTOP % downstream.url, {"GROUPAGE_SECRET_OF_SURVEYS": API_KEY}) as environment:
            site = Site.of_laptop(tmp_path, environment)
            site.send([json.dumps({"id": "survey-1", "payload": {"region": "north", "weight": 1}})])
            assert site.settled(["survey-1"]) == {"survey-1": ("succeeded", None)}
            assert "long-handle-dlq" in site.groupage("--json", "status")[1]
    finally:
        downstream.stop()
