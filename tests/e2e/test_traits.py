"""Tasks that weigh, close their batch, are urgent or replace older ones, on the deployed stack."""

import json

import pytest

from door import Door


@pytest.fixture(scope="module")
def api(run) -> Door:
    """After the run: what these tests send is none of its work."""
    return Door(run.stack, run.stack.user("indexer", "Api"))


def reindex(id: str, index: str, product: str | None = None, fields: int = 1, **more) -> str:
    payload = {"type": "reindex", "index": index, "product": product, "fields": fields, "weight": 1, **more}
    return json.dumps({"id": id, "payload": payload})


def calls(downstream, index: str) -> list[list[str]]:
    return [sorted(call.members) for call in downstream.ledger.calls("/load") if call.target == index]


def test_of_many_tasks_of_one_key_the_newest_is_called(run, downstream, api):
    stack, ids = run.stack, [f"reindex-{n:02}" for n in range(40)]
    for at in range(0, 40, 10):
        stack.send([reindex(id, "wares", "product-7") for id in ids[at:at + 10]])
    others = ["reindex-other", "reindex-free"]
    stack.send([reindex("reindex-other", "wares", "product-8"), reindex("reindex-free", "wares")])
    waiting = lambda: [stack.status(id) for id in [*ids, *others]]
    stack.eventually("all to wait", lambda: None not in waiting(), waiting)
    stack.send([reindex("reindex-last", "wares", last=True)])
    shown = lambda: [api.call("GET", f"/tasks/{id}")[1] for id in [*ids, *others, "reindex-last"]]
    states = lambda: [task.get("status") for task in shown()]
    settled = {"succeeded", "superseded"}
    stack.eventually("all to be settled", lambda: set(states()) <= settled, states)
    called = [id for call in calls(downstream, "wares") for id in call]
    assert sorted(called) == sorted(task["id"] for task in shown() if task["status"] == "succeeded")
    assert set(others) < set(called) and len(called) < 40, called
    by = {task["superseded_by"] for task in shown() if task["status"] == "superseded"}
    assert by and by <= set(called), by
    first = json.loads(stack.groupage("status", "task", next(iter(set(ids) - set(called))), "--json"))
    assert (first["status"], first["superseded_by"] in called) == ("superseded", True)


def test_a_task_that_closes_its_batch_ends_the_wait_and_weights_bound_it(run, downstream, api):
    stack = run.stack
    stack.send([reindex(f"page-{n}", "books", fields=4) for n in range(2)])
    pages = lambda: [stack.status(f"page-{n}") for n in range(2)]
    stack.eventually("them to wait", lambda: pages() == ["batched"] * 2, pages)
    assert calls(downstream, "books") == []
    stack.send([reindex("page-last", "books", last=True)])
    stack.eventually("the batch", lambda: calls(downstream, "books") != [], pages)
    assert calls(downstream, "books") == [["page-0", "page-1", "page-last"]]
    ids = [f"leaf-{n}" for n in range(4)]
    stack.send([reindex(id, "leaves", fields=10) for id in ids])
    leaves = lambda: [stack.status(id) for id in ids]
    stack.eventually("all", lambda: leaves() == ["succeeded"] * 4, leaves)
    assert sorted(calls(downstream, "leaves")) == [[id] for id in ids], "each weighs all that a call may carry"
