"""Targets that share a limit on the deployed stack: the one batch of a Target does not wait for all of another."""

import json

MANY = 30


def visit(id: str, clinic: str) -> str:
    return json.dumps({"id": id, "payload": {"type": "visit", "clinic": clinic, "weight": 1}})


def test_one_batch_goes_before_most_of_the_many_of_another_target(run, downstream):
    stack, many = run.stack, [f"visit-{n}" for n in range(MANY)]
    called = lambda: [call.target for call in downstream.ledger.calls("/load") if call.target.startswith("clinic-")]
    stack.send([visit(id, "clinic-many") for id in many])
    stack.eventually("the first visits to be called", lambda: len(called()) > 2, called)
    stack.send([visit("visit-one", "clinic-one")])
    done = lambda: all(stack.status(id) == "succeeded" for id in [*many, "visit-one"])
    stack.eventually("all visits to be called", done, called)
    assert called().index("clinic-one") < MANY - 5, called()
    assert len(called()) == MANY + 1
    # What a downstream denies is another test's.
    denied = [line for line in stack.logs("batch-handler") if "AccessDenied" in line and "downstream" not in line]
    assert not denied
