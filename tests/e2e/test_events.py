"""The event files for `sam local invoke` and `cargo lambda invoke` are what the functions take."""

import json

from stack import ROOT
from work import STEPS


def test_each_event_file_is_an_event_that_its_function_handles(run):
    stack = run.stack
    for step, function in STEPS.items():
        event = (ROOT / f"infra/events/{step}.json").read_bytes()
        answer = stack.client("lambda").invoke(FunctionName=stack.outputs[f"{function}Name"], Payload=event)
        assert "FunctionError" not in answer, step
        assert json.loads(answer["Payload"].read()) == {"batchItemFailures": []}, step
    for parcel in ("parcel-1", "parcel-2"):
        stack.eventually(
            f"{parcel} of the event file to succeed",
            lambda: stack.status(parcel) == "succeeded",
            lambda: stack.status(parcel),
        )


def test_the_schedules_event_file_is_one_that_sweep_handles(run):
    event = (ROOT / "infra/events/sweep.json").read_bytes()
    answer = run.stack.client("lambda").invoke(FunctionName=run.stack.outputs["SweepFunctionName"], Payload=event)
    assert "FunctionError" not in answer, answer["Payload"].read()
    assert json.loads(answer["Payload"].read()) is None


def test_the_apis_event_file_asks_where_a_task_is(run):
    event = (ROOT / "infra/events/api.json").read_bytes()
    answer = run.stack.client("lambda").invoke(FunctionName=run.stack.outputs["ApiFunctionName"], Payload=event)
    assert "FunctionError" not in answer, answer["Payload"].read()
    # The task is that of register-task's event file, which another test hands over.
    assert json.loads(answer["Payload"].read())["statusCode"] in (200, 404)
