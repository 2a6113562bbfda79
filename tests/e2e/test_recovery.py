"""What is lost comes back by itself: the deployed sweep under its own role, called by its schedule."""

import json

from downstream import HANGS


def test_every_task_settles_whatever_was_lost(recovery):
    statuses = {task: recovery.stack.status(task) for loss in recovery.losses for task in loss.tasks}
    failed = {task for task, status in statuses.items() if status != "succeeded"}
    assert failed == {"follow-up-1"}
    assert statuses["follow-up-1"] == "failed"


def test_nothing_but_sweep_sent_it_on(recovery):
    """Lost messages are gone from their queues, and the killed handler's is not visible yet."""
    assert recovery.hidden == 1


def test_a_lost_message_or_leader_costs_no_second_call(recovery):
    for target in ("call", "leader", "election", "follow-up"):
        [call] = recovery.calls(target)
        assert (call.attempt, set(call.members)) == (1, set(recovery.loss(target).tasks))


def test_a_frozen_batch_is_handed_on_by_a_newer_message(recovery):
    assert recovery.batches["call"]["Nudges"] >= 1


def test_the_batch_of_a_dead_worker_is_called_again_unchanged(recovery):
    calls = recovery.calls("deadly")
    assert [(call.attempt, call.status) for call in calls] == [(1, HANGS), (2, 200)]
    assert len({(call.key, call.members) for call in calls}) == 1


def test_a_dead_workers_session_names_its_claim_and_is_removed(recovery):
    assert recovery.dead_session["Claims"] == [recovery.batches["deadly"]["BatchId"]]
    assert recovery.sessions == []


def test_a_claim_without_a_session_is_taken_over(recovery):
    calls = recovery.calls("claim")
    assert [call.attempt for call in calls] == [1, 2]
    assert len({(call.key, call.members) for call in calls}) == 1


def test_a_repeated_follow_up_notifies_under_the_same_id(recovery):
    assert recovery.notice_again == recovery.notice
    assert recovery.notice["subject"] == "follow-up-1"


def test_sweep_counts_what_it_sent_on(recovery):
    # Those of a call, a leader, a dead worker, a follow-up and a claim.
    least = {"SessionsExpired": 1, "BatchesRevived": 5, "TasksRevived": 3}

    def lines() -> list[dict]:
        return [json.loads(line[line.index("{") :]) for line in recovery.stack.logs("sweep") if '"_aws"' in line]

    def sums() -> dict[str, int]:
        return {name: sum(line.get(name, 0) for line in lines()) for name in least}

    # The sweep that sent on the last of them may still be at work, and counts at its end.
    recovery.stack.eventually("sweep to count", lambda: all(sums()[name] >= least[name] for name in least), sums)
    assert {line["Function"] for line in lines()} == {recovery.stack.outputs["SweepFunctionName"]}


def test_sweep_may_do_all_that_it_has_to(recovery):
    """It did every kind of request there is for it to do; none was refused."""
    lines = recovery.stack.logs("sweep")
    assert lines
    assert [line for line in lines if "AccessDenied" in line or '"level":"ERROR"' in line] == []


def test_sweep_finds_nothing_to_do_when_all_is_done(recovery):
    stack = recovery.stack
    before = len(stack.logs("sweep"))
    answer = stack.client("lambda").invoke(FunctionName=stack.outputs["SweepFunctionName"], Payload=b"{}")
    assert "FunctionError" not in answer, answer["Payload"].read()
    assert [line for line in stack.logs("sweep")[before:] if "sent on" in line] == []
