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


def shown(api, ids: list[str]) -> list[str]:
    """How the tasks are shown: the table alone says of one that ended without a call that it failed."""
    answers = [api.call("GET", f"/tasks/{id}")[1] for id in ids]
    return [answer.get("status", "not known") for answer in answers]


def loaded(downstream, truck: str) -> list[str]:
    return [id for call in downstream.ledger.calls("/load") if call.target == truck for id in call.members]


def test_a_task_that_expires_at_a_gate_is_in_no_call_and_its_neighbours_are(run, downstream, api):
    stack, ids = run.stack, ["stale-1", "stale-2", "fresh-1"]
    stack.groupage("pause", "--target", "parcels:late", "--reason", "its road is closed")
    stack.send([json.dumps(parcel("stale-1", "late", expires_at=1)), json.dumps(parcel("fresh-1", "late"))])
    tasks = [parcel("stale-2", "late", expires_at="2026-01-01T00:00:00+01:00")]
    assert api.call("POST", "/tasks", {"tasks": tasks})[0] == 202
    states = lambda: shown(api, ids)
    stack.eventually("them to be in batches", lambda: states() == ["batched"] * 3, states)
    assert api.call("GET", "/tasks/stale-2")[1]["expires_at"] == "2025-12-31T23:00:00.000Z"
    stack.groupage("resume", "--target", "parcels:late")
    stack.eventually("the fresh one", lambda: states()[2] == "succeeded", states)
    stack.eventually("the stale ones", lambda: states()[:2] == ["expired"] * 2, states)
    assert loaded(downstream, "late") == ["fresh-1"]
    told = json.loads(stack.groupage("status", "task", "stale-1", "--json"))
    assert (told["status"], told["reason"]) == ("expired", "expired")
    retried = api.call("POST", "/failed/retries", {"ids": ["stale-1"]})[1]
    assert "was wanted until" in retried["refused"][0]["detail"]
    wrong = api.call("POST", "/tasks", {"tasks": [parcel("never", "late", expires_at="soon")]})
    assert (wrong[0], wrong[1]["field"]) == (422, "tasks[0].expires_at"), wrong


def test_a_task_waits_for_its_time_and_may_be_cancelled_before(run, downstream, api, tmp_path):
    stack, ids = run.stack, ["soon-1", "soon-2", "later-1"]
    tasks = [parcel("soon-1", "planned", not_before=12), parcel("later-1", "planned", not_before=31_000_000)]
    assert api.call("POST", "/tasks", {"tasks": tasks})[0] == 202
    (tmp_path / "tasks.ndjson").write_text(json.dumps(parcel("soon-2", "planned")))
    stack.groupage("send", tmp_path / "tasks.ndjson", "--not-before", "12s")
    states = lambda: shown(api, ids)
    stack.eventually("them to be scheduled", lambda: states() == ["scheduled"] * 3, states)
    assert "not before 20" in stack.groupage("status", "task", "later-1")
    assert api.call("GET", "/tasks/later-1")[1]["not_before"] > "2026"
    assert api.call("POST", "/tasks/cancellations", {"ids": ["later-1"]})[1]["done"] == ["later-1"]
    stack.eventually("their time to come", lambda: states()[:2] == ["succeeded"] * 2, states)
    assert (states()[2], sorted(loaded(downstream, "planned"))) == ("cancelled", ["soon-1", "soon-2"])


def test_tasks_of_some_targets_wait_until_the_clock_closes_their_window_and_have_limits_of_their_own(
    run, downstream, api
):
    stack, bus = run.stack, [f"bus-{n}" for n in range(5)]
    tasks = [*(parcel(id, "bus-9") for id in bus), parcel("coach-1", "coach-3"), parcel("tram-1", "tram")]
    assert api.call("POST", "/tasks", {"tasks": tasks})[0] == 202
    coach = lambda: api.call("GET", "/tasks/coach-1")[1]
    stack.eventually("the coach to wait for the new year", lambda: coach().get("status") == "scheduled", coach)
    assert coach()["not_before"].endswith("-12-31T23:00:00.000Z"), coach()
    states = lambda: shown(api, [*bus, "tram-1"])
    stack.eventually("all but the coach", lambda: states() == ["succeeded"] * 6, states)
    sizes = [len(call.members) for call in downstream.ledger.calls("/load") if call.target == "bus-9"]
    assert sum(sizes) == 5 and max(sizes) <= 3, sizes
    # Who registers them may meet the end of a minute.
    assert len(sizes) <= 3, sizes
    assert coach()["status"] == "scheduled"
    assert api.call("POST", "/tasks/cancellations", {"ids": ["coach-1"]})[1]["done"] == ["coach-1"]


def test_members_of_a_batch_that_waits_are_cancelled(run, downstream, api):
    stack, ids = run.stack, ["flood-3", "flood-1", "flood-2"]
    stack.groupage("pause", "--target", "parcels:hold", "--reason", "a flood")
    stack.send([json.dumps(parcel(id, "hold")) for id in ids])
    states = lambda: shown(api, ids)
    stack.eventually("them to be in a batch", lambda: states() == ["batched"] * 3, states)
    cancel = lambda: api.call("POST", "/tasks/cancellations", {"ids": ["flood-1"]})[1]
    stack.eventually("its batch to be closed", lambda: cancel()["done"] == ["flood-1"], cancel)
    assert json.loads(stack.groupage("cancel", "flood-1", "--json"))["done"] == 1
    assert api.call("POST", "/tasks/cancellations", {"ids": ["flood-1", "flood-2"]})[1]["done"] == ["flood-1", "flood-2"]
    assert states() == ["batched", "cancelled", "cancelled"]
    stack.groupage("resume", "--target", "parcels:hold")
    stack.eventually("the other one", lambda: states()[0] == "succeeded", states)
    assert loaded(downstream, "hold") == ["flood-3"]


def test_the_tasks_of_a_tracker_that_wait_are_cancelled_whatever_they_wait_for(run, downstream, api):
    stack = run.stack
    stack.groupage("pause", "--target", "parcels:fair", "--reason", "the fair is off")
    assert api.call("POST", "/trackers", {"id": "fair"})[0] == 201
    assert api.call("POST", "/trackers/fair/items", {"key": "all", "count": 4})[0] == 200
    tasks = [parcel(f"fair-{n}", "fair", item=f"fair:0:{n}") for n in range(3)]
    tasks.append(parcel("fair-3", "fair", item="fair:0:3", not_before=31_000_000))
    assert api.call("POST", "/tasks", {"tasks": [*tasks, parcel("unfair", "fair")]})[0] == 202
    ids = [task["id"] for task in tasks]
    states = lambda: shown(api, ids)
    waiting = ["batched"] * 3 + ["scheduled"]
    stack.eventually("them to wait", lambda: states() == waiting, states)
    # It is refused while its batch is being filled.
    cancel = lambda: api.call("POST", "/trackers/fair/cancellations", {})[1]
    stack.eventually("them to be cancelled", lambda: not cancel()["refused"], cancel)
    assert states() == ["cancelled"] * 4
    counted = json.loads(stack.groupage("status", "tracker", "fair", "--json"))
    assert (counted["succeeded"], counted["failed"]) == (0, 4), counted
    # By the command: nothing is left to cancel.
    report = json.loads(stack.groupage("cancel", "--tracker", "fair", "--json"))
    assert (report["tasks"], report["done"]) == (0, 0), report
    stack.groupage("resume", "--target", "parcels:fair")
    stack.eventually("the other", lambda: stack.status("unfair") == "succeeded", lambda: stack.status("unfair"))
    assert loaded(downstream, "fair") == ["unfair"]
