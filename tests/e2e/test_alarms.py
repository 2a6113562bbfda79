"""Each alarm under its cause: arithmetic over the metrics that the functions publish, or that AWS does for them."""

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
    """What a metric shows each minute when all is well, and under the alarm's cause. `None` is a minute without
    data."""

    alarm: str
    well: list
    cause: list
    minutes: int
    """How long the cause lasts before the alarm goes off."""


CASES = [
    Case("DeadLetters", [0, 0, 0], [1], 1),
    Case("Rejections", [0, None, 0], [3], 1),
    # A queue that is worked off has a message of some seconds; the alarm is about a quarter of an hour.
    Case("OldestMessage", [4, 900, 30, None, 899, 12], [901, 960, 1_020, 1_080, 1_140], 5),
    Case("Errors", [0, 1, 0, 0, 0, 0], [2, 0, 1], 3),
    Case("Silence", [1, 1, 1, 1, 1], [None, None, None, None, None], 5),
    # Milliseconds since sweep came to an entry.
    Case("Unvisited", [None, 60_000, 599_999, None, 300_000], [600_001, 660_000, 720_000, 780_000, 840_000], 5),
    Case("Stranded", [None, 2, None, None, 1, None], [7, 7, 7], 3),
    # A minute in which the table did not answer is nothing to look at.
    Case("UnusableRoutes", [None, 1, None, None, 1, None], [1, 1, 1], 3),
    Case("LostTasks", [None, None], [1], 1),
    Case("Failures", [0, 1, None, 0, 0, 0], [4, 4], 2),
    # Less than every minute is what the dead-letter queue is for.
    Case("FailedRecords", [3, 3, None] * 5, [1] * 15, 15),
    Case("StoppedLanes", [None], [1], 1),
    # Sums of half hours: a notice is sent again at least each 16 minutes, so the second half hour has one, too.
    Case("RefusedNotices", [1] + [None] * 59, ([1] + [None] * 15) * 4, 31),
    Case("UndeliverableNotices", [None], [1], 1),
    # Batches look rarely in a long outage: one within a quarter of an hour is enough.
    Case("Outages", [None] * 15, [2] + [None] * 13, 1),
    Case("Throttles", [0, 1, 1, 0, 0, 0], [1, 1, 1], 3),
    Case("WriteThrottles", [9, 9, None] * 5, [1] * 15, 15),
]


def alarms() -> dict[str, dict]:
    """Every alarm with its properties."""
    found = {}
    for step, parameters in STEPS.items():
        template = Template("infra/alarms.yaml", Step=step, FunctionName="f", TableName="t", **parameters)
        found |= {name: template.properties(name) for name in template.of_type("AWS::CloudWatch::Alarm")}
    return found


def is_off(alarm: dict, minutes: list) -> bool:
    """Whether an alarm is off after these minutes of data, as CloudWatch evaluates it: enough of the last periods
    breach."""
    compare = {
        "GreaterThanThreshold": lambda value: value > alarm["Threshold"],
        "LessThanThreshold": lambda value: value < alarm["Threshold"],
    }[alarm["ComparisonOperator"]]
    of = {"Sum": sum, "Maximum": max}[alarm["Statistic"]]
    each, periods = alarm["Period"] // 60, alarm["EvaluationPeriods"]
    missing = {"breaching": True, "notBreaching": False}[alarm["TreatMissingData"]]
    breaches = []
    for end in range(len(minutes), len(minutes) - each * periods, -each):
        data = [value for value in minutes[max(end - each, 0) : max(end, 0)] if value is not None]
        breaches.append(compare(of(data)) if data else missing and end > 0)
    return sum(breaches) >= alarm.get("DatapointsToAlarm", periods)


def test_there_is_a_case_for_every_alarm():
    assert {case.alarm for case in CASES} == set(alarms())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alarm)
def test_an_alarm_goes_off_under_its_cause_and_not_before(case):
    alarm = alarms()[case.alarm]
    well = case.well * ceil(60 / len(case.well))
    assert not any(is_off(alarm, well[: end + 1]) for end in range(len(well))), "all is well"
    # Quiet first, as far as the alarm looks back.
    quiet = [1 if case.alarm == "Silence" else None] * (alarm["Period"] // 60 * alarm["EvaluationPeriods"])
    off = [minute for minute in range(1, len(case.cause) + 1) if is_off(alarm, quiet + case.cause[:minute])]
    assert off and off[0] == case.minutes, off


def test_alarms_of_our_own_watch_metrics_that_the_functions_publish():
    source = (ROOT / "shared/aws/src/entry/metrics.rs").read_text()
    published = set(re.findall(r"^    ([A-Z]\w+),$", source, re.MULTILINE))
    counted = set(re.findall(r"Metric::(\w+)", (ROOT / "shared/aws/src/entry/steps.rs").read_text() + source))
    ours = {alarm["MetricName"] for alarm in alarms().values() if alarm["Namespace"] == "Groupage"}
    assert len(ours) == 9
    assert ours <= published & counted


def test_an_alarm_of_our_own_looks_where_the_functions_publish():
    """One dimension, the deployed function's name: see `to_emf`."""
    source = (ROOT / "shared/aws/src/entry/metrics.rs").read_text()
    assert '"Dimensions": [["Function"]]' in source and 'const NAMESPACE: &str = "Groupage";' in source
    for name, alarm in alarms().items():
        if alarm["Namespace"] == "Groupage":
            assert alarm["Dimensions"] == [{"Name": "Function", "Value": "f"}], name


def test_the_oldest_message_of_every_queue_that_a_step_reads_and_every_dead_letter_is_watched():
    template = Template()
    sets = [template.properties(name)["Parameters"] for name in template.of_type("AWS::CloudFormation::Stack")]
    sets = [parameters for parameters in sets if "Step" in parameters]
    named = {parameters.get(key) for parameters in sets for key in ("QueueName", "DeadLetterQueueName", "RejectedQueueName")}
    # Nobody but a person or a program of yours reads notifications; how soon is theirs to say.
    assert {name.removesuffix(".QueueName") for name in named if name} == (
        set(template.of_type("AWS::SQS::Queue")) - {"NotificationQueue"}
    )


def test_every_function_has_alarms_for_errors_and_throttles():
    template = Template()
    sets = [template.properties(name)["Parameters"] for name in template.of_type("AWS::CloudFormation::Stack")]
    watched = {parameters.get("FunctionName") for parameters in sets}
    assert set(template.of_type("AWS::Serverless::Function")) <= watched
    assert {"Errors", "Throttles"} <= set(alarms())
