"""Each alarm under its cause: arithmetic over the metrics that the functions publish, or that AWS does for them."""

import json
import re
from dataclasses import dataclass
from math import ceil

import pytest

from stack import ROOT
from template import Template

STEPS = {
    "register-task": {"QueueName": "q", "DeadLetterQueueName": "d", "RejectedQueueName": "r", "CalledBy": "queue"},
    "batch-handler": {"QueueName": "q", "DeadLetterQueueName": "d", "CalledBy": "queue"},
    "sweep": {"CalledBy": "schedule"},
    "api": {"CalledBy": "http", "ApiId": "a"},
}
"""Sets of alarms that together have every one, as `template.yaml` makes them."""


@dataclass(frozen=True)
class Case:
    """What a metric shows each minute when all is well, and under the alarm's cause. `None` is a minute without data.
    An alarm over several metrics has them by their names."""

    alarm: str
    well: list
    cause: list
    minutes: int
    """How long the cause lasts before the alarm goes off."""
    before: object = None
    """What each minute showed before the cause, as far as the alarm looks back."""


def tasks(failed: int, of: int) -> dict[str, int]:
    """A minute in which batch-handler settled these tasks. It publishes both metrics, or neither."""
    return {"TasksFailed": failed, "TasksSucceeded": of - failed}


USUAL = tasks(1, of=1_000)
"""Just what the budget allows."""

CASES = [
    Case("DeadLetters", [0, 0, 0], [1], 1),
    Case("Rejections", [0, None, 0], [3], 1),
    # A queue that is worked off has a message of some seconds; the alarm is about a quarter of an hour.
    Case("OldestMessage", [4, 900, 30, None, 899, 12], [901, 960, 1_020, 1_080, 1_140], 5),
    Case("Errors", [0, 1, 0, 0, 0, 0], [2, 0, 1], 3),
    Case("Silence", [1, 1, 1, 1, 1], [None, None, None, None, None], 5, before=1),
    # Milliseconds since sweep came to an entry.
    Case("Unvisited", [None, 60_000, 599_999, None, 300_000], [600_001, 660_000, 720_000, 780_000, 840_000], 5),
    # Milliseconds. A sweep that comes to the others alone says nothing of the oldest.
    Case("OldestWaiting", [None, 61_000, 900_000, 901_000, None, 960_000], [901_000, None, 1_021_000, 61_000, 1_141_000],
         5),
    Case("Stranded", [None, 2, None, None, 1, None], [7, 7, 7], 3),
    # A minute in which the table did not answer is nothing to look at.
    Case("UnusableRoutes", [None, 1, None, None, 1, None], [1, 1, 1], 3),
    Case("LostTasks", [None, None], [1], 1),
    Case("Failures", [0, 1, None, 0, 0, 0], [4, 4], 2),
    # Less than every minute is what the dead-letter queue is for.
    Case("FailedRecords", [3, 3, None] * 5, [1] * 15, 15),
    # A braked message comes each quarter of an hour.
    Case("BrakedMessages", [None] * 20, [1] + [None] * 14, 1),
    Case("StoppedLanes", [None], [1], 1),
    # Sums of half hours: a notice is sent again at least each 16 minutes, so the second half hour has one, too.
    Case("RefusedNotices", [1] + [None] * 59, ([1] + [None] * 15) * 4, 31),
    Case("UndeliverableNotices", [None], [1], 1),
    # Batches look rarely in a long outage: one within a quarter of an hour is enough.
    Case("Outages", [None] * 15, [2] + [None] * 13, 1),
    Case("Throttles", [0, 1, 1, 0, 0, 0], [1, 1, 1], 3),
    Case("WriteThrottles", [9, 9, None] * 5, [1] * 15, 15),
    # 14 in a thousand; one of ten in a night; nine of nine.
    Case("BudgetBurnHour", [tasks(14, of=1_000)], [tasks(100, of=1_000)] * 10, 9, before=USUAL),
    Case("BudgetBurnHour", [tasks(1, of=10)] + [None] * 59, [tasks(1, of=1)] * 10, 10),
    Case("BudgetBurnHour", [tasks(9, of=9)] + [None] * 59, [tasks(10, of=10)], 1),
    Case("BudgetBurnNow", [tasks(14, of=1_000)], [tasks(15, of=1_000)] * 5, 5, before=USUAL),
    # A minute in which most tasks fail is not yet an hour's worth.
    Case("BudgetBurn", [tasks(14, of=1_000)], [tasks(100, of=1_000)] * 10, 9, before=USUAL),
    Case("BudgetBurn", [USUAL] * 59 + [tasks(800, of=1_000)], [tasks(1_000, of=1_000)], 1, before=USUAL),
    Case("BudgetBurn", [tasks(1, of=10)] + [None] * 59, [tasks(10, of=10)], 1),
]


def alarms() -> dict[str, dict]:
    """Every alarm with its properties."""
    found = {}
    for step, parameters in STEPS.items():
        template = Template("infra/alarms.yaml", Step=step, FunctionName="f", TableName="t", **parameters)
        for kind in ("Alarm", "CompositeAlarm"):
            found |= {name: template.properties(name) for name in template.of_type(f"AWS::CloudWatch::{kind}")}
    return found


def parts(alarm: dict) -> list[dict]:
    """The alarms that a composite alarm is made of, all of which must be off; another is made of itself."""
    if "AlarmRule" not in alarm:
        return [alarm]
    names = alarm["AlarmRule"].split(" AND ")
    return [alarms()[re.fullmatch(r'ALARM\("(\w+)"\)', name)[1]] for name in names]


def watched(alarm: dict) -> list[dict]:
    """What an alarm reads: each metric with its statistic and its period."""
    if "Metrics" not in alarm:
        return [alarm]
    stats = [query["MetricStat"] for query in alarm["Metrics"] if "MetricStat" in query]
    return [stat["Metric"] | {"Statistic": stat["Stat"], "Period": stat["Period"]} for stat in stats]


def span(alarm: dict) -> int:
    """How many minutes an alarm looks back."""
    return max(watched(part)[0]["Period"] // 60 * part["EvaluationPeriods"] for part in parts(alarm))


def value(alarm: dict, minutes: list):
    """What a period of an alarm comes to, `None` without data."""
    data = [minute for minute in minutes if minute is not None]
    of = {"Sum": sum, "Maximum": max}
    if not data:
        return None
    if "Metrics" not in alarm:
        return of[alarm["Statistic"]](data)
    ids = [query["Id"] for query in alarm["Metrics"] if "MetricStat" in query]
    named = {
        id: of[metric["Statistic"]](minute[metric["MetricName"]] for minute in data)
        for id, metric in zip(ids, watched(alarm), strict=True)
    }
    [returned] = [query for query in alarm["Metrics"] if query.get("ReturnData", True)]
    choose = {"IF": lambda condition, then, otherwise: then if condition else otherwise}
    return eval(returned["Expression"], {"__builtins__": {}}, choose | named)


def is_off(alarm: dict, minutes: list) -> bool:
    """Whether an alarm is off after these minutes of data, as CloudWatch evaluates it: enough of the last periods
    breach."""
    if "AlarmRule" in alarm:
        return all(is_off(part, minutes) for part in parts(alarm))
    compare = {
        "GreaterThanThreshold": lambda value: value > alarm["Threshold"],
        "LessThanThreshold": lambda value: value < alarm["Threshold"],
    }[alarm["ComparisonOperator"]]
    [each] = {metric["Period"] // 60 for metric in watched(alarm)}
    periods = alarm["EvaluationPeriods"]
    missing = {"breaching": True, "notBreaching": False}[alarm["TreatMissingData"]]
    breaches = []
    for end in range(len(minutes), len(minutes) - each * periods, -each):
        found = value(alarm, minutes[max(end - each, 0) : max(end, 0)])
        breaches.append(missing and end > 0 if found is None else compare(found))
    return sum(breaches) >= alarm.get("DatapointsToAlarm", periods)


def test_there_is_a_case_for_every_alarm():
    assert {case.alarm for case in CASES} == set(alarms())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alarm)
def test_an_alarm_goes_off_under_its_cause_and_not_before(case):
    alarm = alarms()[case.alarm]
    well = case.well * ceil(2 * span(alarm) / len(case.well))
    assert not any(is_off(alarm, well[: end + 1]) for end in range(len(well))), "all is well"
    before = [case.before] * span(alarm)
    off = [minute for minute in range(1, len(case.cause) + 1) if is_off(alarm, before + case.cause[:minute])]
    assert off and off[0] == case.minutes, off


def test_a_burn_that_is_over_tells_nobody_for_the_rest_of_the_hour():
    alarm, hour = alarms()["BudgetBurn"], alarms()["BudgetBurnHour"]
    minutes = [USUAL] * 60 + [tasks(300, of=1_000)] * 10
    assert is_off(alarm, minutes)
    off = [is_off(alarm, minutes + [USUAL] * well) for well in range(1, 50)]
    assert off[:4] == [True] * 4 and not any(off[4:]), "the last five minutes are well"
    assert is_off(hour, minutes + [USUAL] * 45)


@pytest.mark.parametrize("budget", [0.1, 0.5, 6])
def test_a_burn_is_measured_by_the_budget(budget):
    given = Template("infra/alarms.yaml", Step="batch-handler", FunctionName="f", ErrorBudget=budget)
    for name in ("BudgetBurnHour", "BudgetBurnNow"):
        alarm, allowed = given.properties(name), round(14.4 * budget * 1_000)
        # Of a hundred thousand tasks an hour, or five minutes.
        assert not is_off(alarm, [tasks(allowed, of=100_000)])
        assert is_off(alarm, [tasks(allowed + 1, of=100_000)])


def test_without_a_budget_there_is_no_alarm_for_it():
    without = Template("infra/alarms.yaml", Step="batch-handler", FunctionName="f", ErrorBudget=0)
    made = without.of_type("AWS::CloudWatch::Alarm") | without.of_type("AWS::CloudWatch::CompositeAlarm")
    assert "Outages" in made and not [name for name in made if "Burn" in name]


def test_the_burn_is_that_of_what_batch_handler_wrote(run):
    """The lines that CloudWatch makes the metrics of, from the run of all tests."""
    lines = [json.loads(line) for line in run.stack.logs("batch-handler") if line.startswith("{") and '"_aws"' in line]
    settled = [line for line in lines if "TasksFailed" in line or "TasksSucceeded" in line]
    assert settled
    for line in settled:
        assert line["Function"] == run.stack.outputs["BatchHandlerFunctionName"]
        [declared] = line["_aws"]["CloudWatchMetrics"]
        assert {"TasksFailed", "TasksSucceeded"} <= {metric["Name"] for metric in declared["Metrics"]}
    failed = sum(line["TasksFailed"] for line in settled)
    share = failed / sum(line["TasksFailed"] + line["TasksSucceeded"] for line in settled)
    # Some fail for good there, as they should.
    assert failed > 0
    assert value(alarms()["BudgetBurnNow"], settled) == pytest.approx(share / 0.001)


def test_only_the_composite_alarm_tells_its_topic():
    template = Template("infra/alarms.yaml", Step="batch-handler", FunctionName="f", AlarmTopicArn="topic")
    for name in template.of_type("AWS::CloudWatch::Alarm"):
        told = template.properties(name).get("AlarmActions")
        assert told == (None if name in ("BudgetBurnHour", "BudgetBurnNow") else ["topic"]), name
    assert template.properties("BudgetBurn")["AlarmActions"] == ["topic"]


def read_by_alarms() -> list[dict]:
    """Every metric that an alarm reads."""
    return [metric for alarm in alarms().values() for part in parts(alarm) for metric in watched(part)]


def test_alarms_of_our_own_watch_metrics_that_the_functions_publish():
    source = (ROOT / "shared/aws/src/entry/metrics.rs").read_text()
    published = set(re.findall(r"^    ([A-Z]\w+),$", source, re.MULTILINE))
    counted = set(re.findall(r"Metric::(\w+)", (ROOT / "shared/aws/src/entry/steps.rs").read_text() + source))
    ours = {metric["MetricName"] for metric in read_by_alarms() if metric["Namespace"] == "Groupage"}
    assert len(ours) == 13
    assert ours <= published & counted


def test_an_alarm_of_our_own_looks_where_the_functions_publish():
    """One dimension, the deployed function's name: see `to_emf`."""
    source = (ROOT / "shared/aws/src/entry/metrics.rs").read_text()
    assert '"Dimensions": [["Function"]]' in source and 'const NAMESPACE: &str = "Groupage";' in source
    for metric in read_by_alarms():
        if metric["Namespace"] == "Groupage":
            assert metric["Dimensions"] == [{"Name": "Function", "Value": "f"}], metric["MetricName"]


def test_the_oldest_message_of_every_queue_that_a_step_reads_and_every_dead_letter_is_watched():
    template = Template(LongCalls="true")
    sets = [template.properties(name)["Parameters"] for name in template.of_type("AWS::CloudFormation::Stack")]
    sets = [parameters for parameters in sets if "Step" in parameters]
    named = {parameters.get(key) for parameters in sets for key in ("QueueName", "DeadLetterQueueName", "RejectedQueueName")}
    # Nobody but a person or a program of yours reads notifications; how soon is theirs to say.
    assert {name.removesuffix(".QueueName") for name in named if name} == (
        set(template.of_type("AWS::SQS::Queue")) - {"NotificationQueue"}
    )


def test_every_function_has_alarms_for_errors_and_throttles():
    template = Template(LongCalls="true")
    sets = [template.properties(name)["Parameters"] for name in template.of_type("AWS::CloudFormation::Stack")]
    watched = {parameters.get("FunctionName") for parameters in sets}
    assert set(template.of_type("AWS::Serverless::Function")) <= watched
    assert {"Errors", "Throttles"} <= set(alarms())
