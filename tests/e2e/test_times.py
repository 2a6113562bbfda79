"""Tasks with times, on the deployed stack."""

import json

import pytest

from door import Door


@pytest.fixture(scope="module")
def api(run) -> Door:
    """After the run: what these tests send is none of its work."""
    return Door(run.stack, run.stack.user("planner", "Api"))


def parcel(id: str, truck: str, **times) -> dict:
    return {"id": id, "payload": {"type": "parcel", "truck": truck, "weight": 1}, **times}


def loaded(downstream, truck: str) -> list[str]:
    return [id for call in downstream.ledger.calls("/load") if call.target == truck for id in call.members]


def test_a_task_that_expires_at_a_gate_is_in_no_call_and_its_neighbours_are(run, downstream, api):
    stack, ids = run.stack, ["stale-1", "stale-2", "fresh-1"]
    stack.groupage("pause", "--target", "parcels:late", "--reason", "its road is closed")
    stack.send([json.dumps(parcel("stale-1", "late", expires_at=1)), json.dumps(parcel("fresh-1", "late"))])
    tasks = [parcel("stale-2", "late", expires_at="2026-01-01T00:00:00+01:00")]
    assert api.call("POST", "/tasks", {"tasks": tasks})[0] == 202
    in_batch = lambda: [stack.status(id) for id in ids]
    stack.eventually("them to be in batches", lambda: in_batch() == ["batched"] * 3, in_batch)
    assert api.call("GET", "/tasks/stale-2")[1]["expires_at"] == "2025-12-31T23:00:00.000Z"
    stack.groupage("resume", "--target", "parcels:late")
    stack.eventually("the fresh one", lambda: stack.status("fresh-1") == "succeeded", in_batch)
    stack.eventually("the stale ones", lambda: in_batch()[:2] == ["expired"] * 2, in_batch)
    assert loaded(downstream, "late") == ["fresh-1"]
    shown = json.loads(stack.groupage("status", "task", "stale-1", "--json"))
    assert (shown["status"], shown["reason"]) == ("expired", "expired")
    retried = api.call("POST", "/failed/retries", {"ids": ["stale-1"]})[1]
    assert "was wanted until" in retried["refused"][0]["detail"]
    wrong = api.call("POST", "/tasks", {"tasks": [parcel("never", "late", expires_at="soon")]})
    assert (wrong[0], wrong[1]["field"]) == (422, "tasks[0].expires_at"), wrong
