"""What comes from outside and means no good: each case of the corpus has its outcome, on the embedded and the deployed
stack.

Each is sent beside a neighbour that does nothing wrong. No neighbour is lost, nothing panics, and a refusal names what
is wrong and why.
"""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hostile import answer, cases, text
from local import local_stack
from sites import Site
from stack import PATIENCE_S


@pytest.fixture(scope="module")
def embedded(hostile, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "data"
    folder.mkdir()
    with local_stack(folder, f"version: 1\nroutes:\n{hostile.routes()}") as environment:
        yield Site.of_laptop(folder, environment)


@pytest.fixture(scope="module")
def deployed(run, stack):
    """After the run, whose rejected messages are counted."""
    steps = ("register-task", "elect-leader", "group-batch", "batch-handler")
    yield Site(
        stack.client("sqs"), stack.client("dynamodb"), stack.queue("TaskQueue"), stack.queue("RejectedQueue"),
        stack.outputs["TaskTableName"], stack.environment, ("--stack", stack.name),
        lambda: "\n".join(line for step in steps for line in stack.logs(step)),
    )


@pytest.fixture(params=["embedded", "deployed"])
def site(request) -> Site:
    return request.getfixturevalue(request.param)


def neighbour(id: str) -> str:
    return json.dumps({"id": id, "payload": {"type": "hostile", "to": "neighbours"}})


def of_phase(number: int) -> list[dict]:
    return [case for case in cases("messages") if case.get("phase", 1) == number]


def test_the_corpus_is_large_and_each_refusal_says_what_is_wrong():
    every = {kind: cases(kind) for kind in ("messages", "routes", "answers")}
    assert sum(map(len, every.values())) >= 300
    assert all(len(of_kind) >= 100 for of_kind in every.values()), {kind: len(of_kind) for kind, of_kind in every.items()}
    for kind, of_kind in every.items():
        names = [case["name"] for case in of_kind]
        assert len(set(names)) == len(names), kind
    assert all(case["says"] for case in every["messages"] if case["outcome"] != "succeeded")
    assert all(case["says"] for case in every["routes"])
    assert all(case["reason"] for case in every["answers"] if case["outcome"] == "failed")


def test_a_hostile_message_is_refused_by_name_or_taken_as_it_is_and_harms_no_neighbour(site, hostile):
    neighbours = []
    for phase in (1, 2):
        of_this = of_phase(phase)
        bodies = [text(case["body"]) for case in of_this]
        beside = [f"neighbour-{len(neighbours) + n}" for n in range(len(of_this))]
        neighbours += beside
        hostile.came.clear()
        site.send([body for pair in zip(bodies, map(neighbour, beside)) for body in pair])
        refused = {body: case for body, case in zip(bodies, of_this) if case["outcome"] != "succeeded"}
        rejected = site.rejected(len(refused))
        wrong = []
        for body, case in refused.items():
            told = rejected.get(body, {})
            detail = told.get("Detail", "is not among the rejected")
            if told.get("Reason") != case["outcome"] or not all(word in detail for word in case["says"]):
                wrong.append((case["name"], case["outcome"], told.get("Reason"), detail))
        assert wrong == []
        assert set(site.settled(beside).values()) == {("succeeded", None)}, "no neighbour is lost"
        # The ids of those that bring none follow from their messages: what came downstream is counted instead.
        taken = [case for case in of_this if case["outcome"] == "succeeded"]
        deadline = time.monotonic() + PATIENCE_S
        while len(hostile.came) < len(beside) + len(taken):
            assert time.monotonic() < deadline, f"{len(hostile.came)} of {len(beside) + len(taken)} came downstream"
            time.sleep(0.1)
        came = [json.dumps(payload) for payloads in hostile.came.values() for payload in payloads]
        for case in taken:
            payload = json.loads(text(case["body"]).removeprefix("\ufeff"))["payload"]
            assert came.count(json.dumps(payload)) >= 1, case["name"]


def test_a_hostile_answer_settles_its_task_by_the_rules_and_no_other(site):
    answers = cases("answers")
    ids = [f"answer-{n}" for n in range(len(answers))]
    beside = [f"beside-{id}" for id in ids]
    tasks = [
        json.dumps({"id": id, "payload": {"type": case["route"], "case": case["name"]}}) for id, case in zip(ids, answers)
    ]
    site.send([body for pair in zip(tasks, map(neighbour, beside)) for body in pair])
    settled = site.settled(ids)
    expected = {id: (case["outcome"], case.get("reason")) for id, case in zip(ids, answers)}
    wrong = {case["name"]: (expected[id], settled[id]) for id, case in zip(ids, answers) if settled[id] != expected[id]}
    assert wrong == {}
    assert set(site.settled(beside).values()) == {("succeeded", None)}, "no neighbour is lost"


def test_hostile_routes_are_refused_with_place_and_reason_and_change_nothing(site, tmp_path):
    in_force = site.groupage("push", "--history", "--json")
    assert in_force[0] == 0, in_force

    def push(numbered: tuple[int, dict]) -> tuple[int, str]:
        number, case = numbered
        file = tmp_path / f"{number}.yaml"
        file.write_text(text(case["yaml"]))
        return site.groupage("push", file)

    with ThreadPoolExecutor(4) as four:
        told = list(four.map(push, enumerate(cases("routes"))))
    wrong = [
        (case["name"], code, said)
        for case, (code, said) in zip(cases("routes"), told)
        if code != 1 or not all(word in said for word in case["says"])
    ]
    assert wrong == []
    assert site.groupage("push", "--history", "--json") == in_force


def test_nothing_panicked(site):
    """After the tests above: in the same order pytest runs them."""
    logs = site.logs()
    assert len(logs) > 1_000, "these are not the logs"
    assert "panicked" not in logs


def test_the_server_says_what_the_corpus_says():
    hello = {"status": 200, "body": ["$ID", {"repeat": "$ID", "times": 2}, {"hex": "ff"}], "headers": {"X": "y"}}
    assert answer(hello, "a").endswith(b"X: y\r\n\r\naaa\xff")
    assert answer({"raw": "HTTP/9 $UPPER"}, "a") == b"HTTP/9 A"
