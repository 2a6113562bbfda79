"""A downstream that is away, and calls that a person holds back, on the deployed stack."""

import json

import pytest

from door import Door


@pytest.fixture(scope="module")
def api(run) -> Door:
    """After the run: what these tests send is none of its work."""
    return Door(run.stack, run.stack.user("holder", "Api"))


def parcel(id: str, truck: str) -> str:
    return json.dumps({"id": id, "payload": {"type": "parcel", "truck": truck, "weight": 1}})


def state(stack, target: str) -> str:
    """As `groupage status routes` shows it; nothing is shown of a Target that is well."""
    told = json.loads(stack.groupage("status", "routes", "--targets", "--json"))
    return next((told["state"] for told in told if told.get("target") == target), "well")


def calls_to(downstream, target: str) -> int:
    return sum(call.target == target for call in downstream.ledger.calls("/load"))


def test_a_downstream_that_is_away_is_probed_and_fails_nobody(run, downstream):
    stack, ids = run.stack, [f"gone-{n}" for n in range(3)]
    stack.send([parcel(id, "gone") for id in ids])
    stack.eventually("it to count as away", lambda: state(stack, "parcels:gone") == "away", lambda: ids)
    assert [stack.status(id) for id in ids] == ["batched"] * 3, "more failures than a task has attempts fail nobody"
    done = lambda: all(stack.status(id) == "succeeded" for id in ids)
    stack.eventually("a probe to be answered", done, lambda: map(stack.status, ids))
    assert calls_to(downstream, "gone") == 6
    # Before the outcome was recorded, people were told.
    told = [json.loads(message["Body"]) for message in stack.take("NotificationQueue", 2)]
    of_it = {event["type"]: event["data"] for event in told if event["subject"] == "gone"}
    assert sorted(of_it) == ["groupage.outage.began.v1", "groupage.outage.ended.v1"]
    assert {data["reason"] for data in of_it.values()} == {"http_503"}


def test_what_a_person_holds_is_not_called_until_it_is_resumed(run, downstream, api):
    stack = run.stack
    stack.groupage("pause", "--target", "parcels:ill", "--reason", "its driver is ill")
    stack.send([parcel("ill-1", "ill"), parcel("well-1", "beside")])
    beside = lambda: stack.status("well-1")
    stack.eventually("its neighbour to be called", lambda: beside() == "succeeded", beside)
    stack.eventually("it to be in a batch", lambda: stack.status("ill-1") == "batched", lambda: stack.status("ill-1"))
    assert (state(stack, "parcels:ill"), calls_to(downstream, "ill")) == ("held", 0)
    status, calls = api.call("GET", "/targets/parcels%3Aill/calls")
    assert (status, calls["state"], calls["reason"]) == (200, "held", "its driver is ill")
    assert api.call("POST", "/targets/parcels%3Aill/resume")[0] == 200
    held = lambda: stack.status("ill-1")
    stack.eventually("it to be called", lambda: held() == "succeeded", held)
    assert state(stack, "parcels:ill") == "well"
