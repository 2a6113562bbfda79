"""The main job on the deployed stack: real binaries, event source mappings, roles, queues and tables."""

from collections import Counter

from downstream import API_KEY
from work import CANARY, STEPS


def test_every_task_ends_as_its_downstream_said(run):
    fates = {id: (item["Status"], item.get("Reason")) for id, item in run.tasks.items()}
    assert fates == {id: (fate.status, fate.reason) for id, fate in run.work.fates.items()}


def test_every_task_that_succeeded_was_accepted_in_one_batch_only(run):
    loaded = {id for id, fate in run.work.fates.items() if fate.status == "succeeded" and not id.startswith("stamp")}
    acceptances = run.ledger.acceptances()
    assert set(acceptances) == loaded
    assert {id: keys for id, keys in acceptances.items() if len(keys) != 1} == {}


def test_the_batch_that_accepted_a_task_is_the_one_it_names(run):
    for id, keys in run.ledger.acceptances().items():
        assert run.tasks[id]["BatchId"] == keys[0], id


def test_every_attempt_of_a_batch_is_the_same_call(run):
    repeated = 0
    for key, calls in run.ledger.by_key().items():
        assert len({(call.path, call.target, call.members) for call in calls}) == 1, key
        assert [call.attempt for call in calls] == sorted(call.attempt for call in calls), key
        repeated += len(calls) > 1
    assert repeated > 0, "the downstream was made to fail, so some batch must have been sent twice"


def test_every_batch_has_one_target_and_respects_its_limits(run):
    limits = {"/load": 50, "/sort": 20, "/declare": 100}
    grouped_by = {"/load": "truck", "/sort": "district", "/declare": "office"}
    for call in run.ledger.calls():
        targets = {run.work.tasks[id][grouped_by[call.path]] for id in call.members}
        assert targets == {call.target}, call
        assert len(set(call.members)) == len(call.members) <= limits[call.path], call


def test_the_ledger_and_the_batch_table_tell_the_same_story(run):
    for key, calls in run.ledger.by_key().items():
        batch = run.batches[key]
        assert batch["Status"] == "settled", batch
        assert batch["Attempts"] == calls[-1].attempt, batch
        assert batch["Target"].endswith(f":{calls[0].target}"), batch
    assert {batch["Status"] for batch in run.batches.values()} <= {"settled", "empty", "void"}


def test_a_target_has_no_more_batches_than_its_windows_and_the_full_ones(run):
    """A batch that is not full lasts its window, however slow the machine. So there is at most one of them for each
    window that began while the Target's tasks came in."""
    max_items, wait_ms = 50, 1000
    for truck in ("calm", "heavy", "fragile", "busy", "flaky"):
        came = [run.tasks[id]["CreatedAt"] for id, payload in run.work.tasks.items() if payload.get("truck") == truck]
        windows = 1 + int(max(came) - min(came)) // wait_ms
        most = windows + (len(came) - windows) // max_items
        batches = [calls[0].members for calls in run.ledger.by_key().values() if calls[0].target == truck]
        # A member that failed alone came back in another batch, perhaps in one of its own.
        returned = sum(map(len, batches)) - len(came)
        assert len(batches) <= most + returned, f"{truck}: {len(batches)} batches in {windows} windows"


def test_a_busy_downstream_is_called_again_with_the_same_batch(run):
    busy = [calls for calls in run.ledger.by_key().values() if calls[0].target == "busy"]
    assert busy
    for calls in busy:
        assert [(call.attempt, call.status) for call in calls] == [(1, 503), (2, 200)]


def test_a_cut_connection_is_an_attempt_and_its_call_is_made_again_under_the_same_key(run):
    flaky = [calls for calls in run.ledger.by_key().values() if calls[0].target == "flaky"]
    assert flaky
    for calls in flaky:
        assert [(call.attempt, call.status) for call in calls] == [(1, 0), (2, 200)]


def test_members_that_fail_alone_come_back_in_another_batch(run):
    for id in ("glass-0", "glass-1", "glass-2"):
        keys = [call.key for call in run.ledger.calls("/load") if id in call.members]
        assert len(set(keys)) == 2, id
    lost = [call.key for call in run.ledger.calls("/sort") if "letter-lost" in call.members]
    assert len(lost) == len(set(lost)) == 2


def test_sending_a_task_again_calls_nobody(run):
    assert len(run.ledger.calls()) == run.calls_before_repeat


def test_each_failed_task_is_notified_once_as_a_cloudevent(run):
    failed = {id: fate for id, fate in run.work.fates.items() if fate.status == "failed"}
    assert Counter(event["subject"] for event in run.failures) == Counter(list(failed))
    assert len({event["id"] for event in run.failures}) == len(failed)
    for event in run.failures:
        fate = failed[event["subject"]]
        assert event["specversion"] == "1.0"
        assert event["type"] == "groupage.task.failed.v1"
        assert event["source"].startswith("groupage/")
        assert event["datacontenttype"] == "application/json"
        assert event["data"]["task"] == event["subject"]
        assert event["data"]["batch"] == run.tasks[event["subject"]]["BatchId"]
        assert (event["data"]["reason"], event["data"]["attempts"]) == (fate.reason, fate.attempts)


def test_success_is_notified_to_the_queue_that_a_route_names(run):
    sorted_letters = {
        id for id, fate in run.work.fates.items() if fate.status == "succeeded" and id.startswith("letter")
    }
    assert Counter(event["subject"] for event in run.successes) == Counter(sorted_letters)
    assert {event["type"] for event in run.successes} == {"groupage.task.succeeded.v1"}
    assert {event["source"] for event in run.successes} == {"groupage/letters"}


def test_each_bad_message_is_rejected_as_it_came_with_its_reason(run):
    expected = Counter([*run.work.rejects, (run.conflict, "id_conflict")])
    got = Counter(
        (message["Body"], message["MessageAttributes"]["Reason"]["StringValue"]) for message in run.rejected
    )
    assert got == expected
    for message in run.rejected:
        attributes = message["MessageAttributes"]
        assert attributes["Detail"]["StringValue"] and attributes["MessageId"]["StringValue"]
        assert CANARY not in attributes["Detail"]["StringValue"]


def test_nothing_is_left_in_a_dead_letter_queue(run):
    assert len(run.dead_letters) == 6
    assert set(run.dead_letters.values()) == {0}


def test_settled_tasks_and_batches_expire_and_waiting_marks_are_gone(run):
    for id, item in run.tasks.items():
        assert "Target" not in item, f"{id} is still in the index of waiting tasks"
        assert item["Ttl"] > 0, id
    for id, batch in run.batches.items():
        assert "Open" not in batch, f"{id} is still in the index of unfinished batches"
        assert batch["Ttl"] > 0, id


def test_no_lock_is_held_when_the_work_is_done(run):
    assert run.locks
    assert [lock for lock in run.locks if "LockHolder" in lock] == []


def test_no_session_outlives_its_work(run):
    assert run.sessions == []


def test_logs_and_notifications_carry_neither_payloads_nor_secrets(run):
    """At the lowest level of all modules."""
    for step, lines in run.logs.items():
        assert lines, f"{step} logged nothing"
        leaked = [line for line in lines if CANARY in line or API_KEY in line]
        assert leaked == [], f"{step}: {len(leaked)} of {len(lines)} lines"
    assert [event for event in run.failures + run.successes if CANARY in str(event) or API_KEY in str(event)] == []


def test_logs_name_no_target_if_the_stack_says_so(run):
    for step, lines in run.logs.items():
        assert not any("parcels:calm" in line or "letters:north" in line for line in lines), step
    assert any('"target":"parcels"' in line for line in run.logs["group-batch"]), "the route is said instead"


def test_metrics_add_up_to_what_happened(run):
    metrics = run.metrics()
    failed = sum(fate.status == "failed" for fate in run.work.fates.values())
    assert metrics["TasksRegistered"] == len(run.work.tasks)
    assert metrics["TasksRejected"] == len(run.rejected)
    assert metrics["TasksFailed"] == failed
    assert metrics["TasksSucceeded"] == len(run.work.tasks) - failed
    assert metrics["ElectionsWon"] >= 1


def test_each_metric_is_under_the_name_of_the_deployed_function(run):
    """The dashboard looks there, and two stacks in one account must not add up."""
    events = run.metric_events()
    assert {step for step, _ in events} == set(STEPS)
    for step, event in events:
        assert event["Function"] == run.stack.outputs[f"{STEPS[step]}Name"]
        assert {d["Namespace"] for d in event["_aws"]["CloudWatchMetrics"]} == {"Groupage"}
