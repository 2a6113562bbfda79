"""Failed tasks on the deployed stack: found, run again and dropped, by the command and over HTTP."""

import json

import pytest

from door import Door


@pytest.fixture(scope="module")
def api(run) -> Door:
    """After the run: what these tests send is none of its work."""
    return Door(run.stack, run.stack.user("retrier", "Api"))


def letter(id: str) -> str:
    """A letter that never gets better."""
    return json.dumps({"id": id, "payload": {"type": "letter", "district": "nowhere"}})


def failed(stack, id: str) -> bool:
    return stack.status(id) == "failed"


def calls_of(downstream, id: str) -> int:
    return sum(id in call.members for call in downstream.ledger.calls("/sort"))


def listed(stack) -> list[str]:
    lines = stack.groupage("failed", "list", "--target", "letters:nowhere", "--json").splitlines()
    return [json.loads(line)["id"] for line in lines]


def test_a_failed_task_is_found_run_again_and_dropped(run, downstream, api):
    stack, ids = run.stack, ["lost-1", "lost-2"]
    stack.send([letter(id) for id in ids])
    stack.eventually("letters to fail", lambda: all(failed(stack, id) for id in ids), lambda: map(stack.status, ids))
    stack.eventually("both to be listed", lambda: sorted(listed(stack)) == ids, lambda: listed(stack))
    shown = json.loads(stack.groupage("failed", "show", "lost-1", "--json"))
    assert (shown["target"], shown["attempts"]) == ("letters:nowhere", 2)
    before = calls_of(downstream, "lost-1")
    assert json.loads(stack.groupage("failed", "retry", "lost-1", "--json"))["done"] == 1
    stack.eventually("it to fail again", lambda: calls_of(downstream, "lost-1") == before + 2, lambda: before)
    stack.eventually("its new outcome", lambda: failed(stack, "lost-1"), lambda: stack.status("lost-1"))

    # The function behind the door may do the same.
    before = calls_of(downstream, "lost-2")
    status, answer = api.call("POST", "/failed/retries", {"ids": ["lost-2", "nobody"]})
    assert (status, answer["done"], len(answer["refused"])) == (200, ["lost-2"], 1)
    stack.eventually("it to fail again", lambda: calls_of(downstream, "lost-2") == before + 2, lambda: before)
    stack.eventually("its new outcome", lambda: failed(stack, "lost-2"), lambda: stack.status("lost-2"))
    assert api.call("GET", "/tasks/lost-2/failure")[1]["target"] == "letters:nowhere"
    assert api.call("POST", "/failed/drops", {"ids": ids})[1]["done"] == ids
    query = "route=letters&target=letters%3Anowhere"
    listing = lambda: api.call("GET", "/failed", query=query)
    stack.eventually("the list to be empty", lambda: listing()[1].get("tasks") == [], listing)
    assert [stack.status(id) for id in ids] == ["failed", "failed"]


def entry(account: str, n: int) -> str:
    return json.dumps({"id": f"{account}-{n}", "payload": {"type": "entry", "bank": "b9", "account": account, "n": n}})


def test_what_waits_is_cancelled_and_what_comes_after_it_goes_on(run, downstream, api):
    stack = run.stack
    waits = lambda id: stack.eventually(f"{id} to wait", lambda: stack.status(id) == "queued", lambda: stack.status(id))
    done = lambda id: stack.eventually(f"{id}", lambda: stack.status(id) == "succeeded", lambda: stack.status(id))
    stack.send([entry("dropped", n) for n in (2, 3)])
    waits("dropped-2"), waits("dropped-3")
    cancelled = stack.groupage("cancel", "dropped-2", "--json")
    assert json.loads(cancelled)["done"] == 1
    status, answer = api.call("POST", "/tasks/cancellations", {"ids": ["dropped-2", "dropped-3", "nobody"]})
    assert (status, answer["done"], len(answer["refused"])) == (200, ["dropped-2", "dropped-3"], 1)
    assert stack.groupage("status", "task", "dropped-2").splitlines()[1].split()[1] == "cancelled"
    stack.send([entry("dropped", n) for n in (1, 4)])
    done("dropped-1"), done("dropped-4")
    called = {id for call in downstream.ledger.calls("/pay") for id in call.members}
    assert not called & {"dropped-2", "dropped-3"}
    assert api.call("POST", "/tasks/cancellations", {"ids": ["dropped-1"]})[1]["refused"][0]["id"] == "dropped-1"
