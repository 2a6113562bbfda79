"""Batches that become messages, events and executions on the deployed stack, each of them once."""

import json

import pytest

from handed import KINDS

TENANT = "north/../7 é"
"""A Target that would leave its place in a URL."""


@pytest.fixture(scope="module")
def settled(stack):
    """Three tasks for each kind have succeeded."""
    ids = {kind: [f"handed-{kind}-{n}" for n in range(3)] for kind in KINDS}
    stack.send([
        json.dumps({"id": id, "payload": {"type": "handed", "to": kind, "depot": TENANT}})
        for kind, of_kind in ids.items()
        for id in of_kind
    ])

    def unsettled():
        return [id for of_kind in ids.values() for id in of_kind if stack.status(id) != "succeeded"]

    stack.eventually("what is handed on to settle", lambda: not unsettled(), unsettled)
    return ids


def members(bodies: list[dict]) -> list[str]:
    assert {body["target"] for body in bodies} == {TENANT}
    return sorted(item["id"] for body in bodies for item in body["items"])


@pytest.mark.parametrize("kind", ["standard", "fifo"])
def test_a_queue_gets_a_message_for_each_batch(settled, stack, handed, kind):
    messages = stack.take(getattr(handed, kind), 1)
    assert members([json.loads(message["Body"]) for message in messages]) == settled[kind]
    for message in messages:
        key = message["MessageAttributes"]["Idempotency-Key"]["StringValue"]
        assert key == json.loads(message["Body"])["batch"]
        assert message["MessageAttributes"]["Groupage-Attempt"] == {"DataType": "Number", "StringValue": "1"}


def test_a_bus_gets_an_event_for_each_batch(settled, stack, handed):
    events = [json.loads(message["Body"]) for message in stack.take(handed.events, 1)]
    assert {(event["source"], event["detail-type"]) for event in events} == {("depot", "Scans")}
    assert members([event["detail"] for event in events]) == settled["bus"]


def test_a_state_machine_runs_once_for_each_batch_and_is_named_by_it(settled, stack, handed):
    machines = stack.client("stepfunctions")
    executions = machines.list_executions(stateMachineArn=handed.machine)["executions"]
    inputs = [
        json.loads(machines.describe_execution(executionArn=execution["executionArn"])["input"])
        for execution in executions
    ]
    assert members(inputs) == settled["machine"]
    assert [execution["name"] for execution in executions] == [body["batch"] for body in inputs]


def test_an_execution_that_has_ended_is_not_begun_again(settled, stack, handed):
    """What batch-handler meets if it died after it had begun an execution: the batch's name is taken, whatever else
    the request says."""
    machines = stack.client("stepfunctions")
    before = machines.list_executions(stateMachineArn=handed.machine)["executions"]
    [execution, *_] = before
    assert execution["status"] == "SUCCEEDED"
    with pytest.raises(machines.exceptions.ExecutionAlreadyExists):
        machines.start_execution(stateMachineArn=handed.machine, name=execution["name"], input='{"other": 1}')
    assert len(machines.list_executions(stateMachineArn=handed.machine)["executions"]) == len(before)


def test_a_function_that_nobody_waits_for_gets_an_event_and_may_fail(settled, stack):
    logs = stack.client("logs")

    def taken() -> list[dict]:
        events = logs.filter_log_events(logGroupName="/aws/lambda/later")["events"]
        told = {event["message"].strip().removeprefix("TOOK ") for event in events if "TOOK {" in event["message"]}
        return [json.loads(text) for text in told]

    stack.eventually("the function to be called", lambda: len(members(taken())) == 3 if taken() else False, taken)
    assert members(taken()) == settled["later"]


def test_a_tenant_has_a_url_that_its_name_cannot_leave(settled, handed):
    assert members([body for _, _, body in handed.calls]) == settled["tenant"]
    for path, headers, body in handed.calls:
        assert path == f"/t/north%2F..%2F7%20%C3%A9/load?key={body['batch']}"
        assert headers["X-Tenant"] == "north/../7%20%C3%A9"


def test_a_batch_waits_for_a_queue_that_the_stack_may_not_use_until_it_may(settled, stack, handed):
    """IAM is enforced here. That it says no is no fault of the task."""
    stack.send([json.dumps({"id": "handed-forbidden", "payload": {"type": "handed", "to": "forbidden", "depot": "d"}})])

    def said() -> str:
        return stack.groupage("status", "task", "handed-forbidden")

    stack.eventually("its task to be registered", lambda: stack.status("handed-forbidden") is not None, list)
    stack.eventually("the call to be refused", lambda: "AccessDenied" in said(), said)
    assert stack.status("handed-forbidden") not in ("failed", "succeeded")
    [role] = [role for role in stack.roles() if "BatchHandler" in role]
    allow = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": handed.forbidden_arn}
    document = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
    stack.client("iam").put_role_policy(RoleName=role, PolicyName="mended", PolicyDocument=document)
    stack.eventually(
        "the batch to be sent", lambda: stack.status("handed-forbidden") == "succeeded", said
    )
    [message] = stack.take(handed.forbidden, 1)
    assert int(message["MessageAttributes"]["Groupage-Attempt"]["StringValue"]) > 1
