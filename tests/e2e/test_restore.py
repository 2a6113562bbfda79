"""A stack whose tables were lost in the middle of a burst, restored by the commands of `docs/guides/restoring.md`."""

import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest

from downstream import Downstream
from emulator import Emulator
from restore import SUFFIX, TASKS, Drill
from stack import ROOT


@pytest.fixture(scope="module")
def drill(report):
    """In an emulator of its own: other tests count what there is in theirs."""
    home = Path(tempfile.mkdtemp(prefix="groupage-drill-"))
    emulator, downstream = Emulator(home), Downstream()
    try:
        drill = Drill(emulator, downstream)
        report.extend(drill.report())
        yield drill
    finally:
        downstream.stop()
        emulator.stop()
        emulator.check()
        shutil.rmtree(home)


def test_the_copy_is_of_the_middle_of_a_burst(drill):
    """Else it would show nothing: some tasks are settled, some open, some not there, and calls were made since."""
    assert 0 < len(drill.open) < len(drill.tasks) < TASKS
    assert len(drill.before) >= 11


def test_the_plan_names_every_table_and_the_commands_in_their_order(drill):
    assert [table["from"] for table in drill.plan["tables"]] == [table["from"] for table in drill.restored["tables"]]
    assert {table["from"] for table in drill.plan["tables"]} == set(drill.used.values())
    assert {table["to"] for table in drill.plan["tables"]} == {f"{name}{SUFFIX}" for name in drill.used.values()}
    guide = (ROOT / "docs/guides/restoring.md").read_text()
    for step, words in zip(drill.plan["next"], ["Stopped=true", "--run", "TableSuffix", "--revive", "Stopped=false", "again"]):
        assert words in step
        assert words in guide


def test_a_restore_names_the_pauses_made_since_with_their_commands_and_those_that_hold_again(drill):
    [late] = drill.restored["pauses_not_restored"]
    assert (late["route"], late["reason"]) == ("idle", "it's late")
    assert drill.plan["pauses_not_restored"] == []
    again = drill.restored["next"].index(r"groupage pause --route 'idle' --reason 'it'\''s late' --stack groupage-drill")
    assert "--revive" in drill.restored["next"][again - 1] and "Stopped=false" in drill.restored["next"][again + 1]
    assert "idle:before" in [paused.get("target") for paused in drill.revived["pauses"]]


def test_restored_tables_have_what_a_restore_leaves_out(drill):
    dynamodb = drill.stack.client("dynamodb")
    for name in drill.used.values():
        of = {table: dynamodb.describe_table(TableName=table)["Table"] for table in (name, f"{name}{SUFFIX}")}
        old, new = of.values()
        assert old["DeletionProtectionEnabled"] == new["DeletionProtectionEnabled"], name
        expires = [
            dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"].get("AttributeName") for table in of
        ]
        assert expires[0] == expires[1], name
        backups = dynamodb.describe_continuous_backups(TableName=f"{name}{SUFFIX}")["ContinuousBackupsDescription"]
        assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED", name


def test_every_task_of_the_copy_settles_although_all_messages_are_gone(drill):
    assert {drill.settled_alone[id] for id in drill.tasks} == {"succeeded"}


def test_nothing_is_lost_once_senders_have_sent_again(drill):
    assert len(drill.statuses) == TASKS
    assert set(drill.statuses.values()) == {"succeeded"}


def test_only_what_was_open_and_without_an_outcome_is_called_again(drill):
    assert drill.again <= drill.open - drill.recorded
    assert drill.revived["may_be_called_again"] == len(drill.open - drill.recorded)
    assert drill.revived["outcome_recorded"] == len(drill.recorded)


def test_after_the_loss_each_task_is_called_once(drill):
    calls = defaultdict(set)
    for call in drill.after:
        for member in call.members:
            calls[member].add(call.key)
    assert [id for id, keys in calls.items() if len(keys) != 1] == []


def test_no_downstream_takes_a_new_call_for_an_old_one(drill):
    """Under a key of the time before the loss come no tasks that its downstream does not know by it."""
    members = defaultdict(set)
    for call in drill.before:
        members[call.key] |= set(call.members)
    mistaken = [call.key for call in drill.after if call.key in members and not set(call.members) <= members[call.key]]
    assert mistaken == []
