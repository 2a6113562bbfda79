"""Calls of over 30 seconds, as the route's `timeout_ms` says it, on the deployed stack: a function of their own makes
them, and the other one hands their batches on."""

import json

from template import Template


def batch_of(stack, task: str) -> str:
    [batch] = [batch["BatchId"] for batch in stack.batches_of("surveys:north") if task in str(batch["Members"])]
    return batch


def test_a_long_call_is_made_by_the_function_that_has_the_time(run, downstream):
    stack = run.stack
    stack.send([json.dumps({"id": "survey-1", "payload": {"type": "survey", "region": "north"}})])
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

