"""The policies for people and programs at work: each with what it is for, and with what it must not do."""

import json
import subprocess
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

import boto3
import pytest
from botocore.exceptions import ClientError

from door import Door
from stack import GROUPAGE, ROOT, Stack


class Person:
    """Somebody with one of the policies."""

    def __init__(self, stack: Stack, policy: str):
        self._stack, self._environment = stack, stack.user(f"person-{policy}", policy)
        self.door = Door(stack, self._environment)

    def groupage(self, *arguments) -> str:
        """Runs the command as this person; what it printed, or the error if it failed."""
        done = subprocess.run(
            [str(word) for word in (GROUPAGE, *arguments, "--stack", self._stack.name)],
            env=self._environment, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )
        return done.stdout if done.returncode == 0 else f"failed: {done.stderr}"

    @contextmanager
    def console(self):
        """Gives a function that asks for a page of the console as this person: its status and text."""
        command = [GROUPAGE, "console", "--stack", self._stack.name, "--port", "0", "--json"]
        process = subprocess.Popen(command, env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        try:
            printed = ""
            while not printed.endswith("}\n"):
                line = process.stdout.readline()
                assert line, "groupage console ended"
                printed += line
            link = json.loads(printed)["console"]
            opener = build_opener(ProxyHandler({}), HTTPCookieProcessor())
            opener.open(link).close()

            def page(path: str) -> tuple[int, str]:
                try:
                    with opener.open(f"{link.split('?')[0]}/{path}") as answer:
                        return answer.status, answer.read().decode()
                except HTTPError as error:
                    return error.code, error.read().decode()

            yield page
        finally:
            process.terminate()
            process.wait()

    def client(self, service: str):
        """An SDK client with this person's key."""
        return boto3.client(
            service, endpoint_url=self._environment["AWS_ENDPOINT_URL"], region_name=self._environment["AWS_DEFAULT_REGION"],
            aws_access_key_id=self._environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self._environment["AWS_SECRET_ACCESS_KEY"],
        )


@pytest.fixture(scope="module")
def person(run):
    """Makes somebody with a policy, once."""
    made = {}

    def of(policy: str) -> Person:
        if policy not in made:
            made[policy] = Person(run.stack, policy)
        return made[policy]

    return of


def test_a_sender_sends_tasks_and_is_refused_at_every_other_queue(person, stack):
    sqs = person("Sender").client("sqs")
    task = {"id": "from-a-sender", "payload": {"type": "stamp", "country": "FI"}}
    sqs.send_message(QueueUrl=stack.queue("TaskQueue"), MessageBody=json.dumps(task))
    stack.eventually("a sender's task", lambda: stack.status("from-a-sender") == "succeeded", lambda: "not settled")
    for queue in ("ElectQueue", "GroupQueue", "HandleQueue", "LongHandleQueue", "RejectedQueue", "NotificationQueue"):
        with pytest.raises(ClientError, match="AccessDenied"):
            sqs.send_message(QueueUrl=stack.queue(queue), MessageBody="{}")
    with pytest.raises(ClientError, match="AccessDenied"):
        sqs.receive_message(QueueUrl=stack.queue("TaskQueue"))
    assert person("Sender").door.call("POST", "/tasks", {"tasks": [task]})[0] == 403


def test_a_reader_looks_and_changes_nothing(person, stack):
    reader = person("Reader")
    shown = reader.groupage("status")
    assert "handle-dlq" in shown and "What waits, and why, cannot be read" in shown, shown
    assert reader.door.call("GET", "/tasks/calm-0")[1]["status"] == "succeeded"
    assert reader.door.call("GET", "/lists/none")[1]["status"] == 404, "the function's own answer"
    for method, path in [("GET", "/lists/none/tasks"), ("POST", "/tasks"), ("POST", "/lists/none/releases")]:
        assert reader.door.call(method, path)[0] == 403, (method, path)
    assert "AccessDenied" in reader.groupage("status", "task", "calm-0"), "a task's item holds its payload"
    assert "AccessDenied" in reader.groupage("redrive", "show", "rejected")


def test_an_operator_looks_everywhere_and_sends_again_what_failed(person, stack):
    operator = person("Operator")
    assert "succeeded" in operator.groupage("status", "task", "calm-0")
    shown = operator.groupage("status")
    assert "handle-dlq" in shown and "cannot be read" not in shown, shown
    assert "failed" not in operator.groupage("status", "target", "parcels:calm")[:6]
    assert "failed" not in operator.groupage("status", "sessions")[:6]
    assert "failed" not in operator.groupage("lane", "stopped", "payments")[:6]
    assert "failed" not in operator.groupage("status", "routes", "--targets")[:6]
    assert "held" in operator.groupage("pause", "--target", "parcels:calm", "--reason", "a drill")
    assert "parcels:calm" in operator.groupage("status", "routes")
    assert "well" in operator.groupage("resume", "--target", "parcels:calm")
    refused = json.dumps({"payload": {"type": "unheard-of"}})
    # What the tests before this one left there goes, too.
    there = stack.waiting("RejectedQueue")
    stack.send([refused])
    stack.eventually("a rejection", lambda: stack.waiting("RejectedQueue") > there, lambda: there)
    assert "no_route" in operator.groupage("redrive", "show", "rejected")
    assert f"{there + 1} sent again from rejected" in operator.groupage("redrive", "send", "rejected")
    assert len(stack.take("RejectedQueue", there + 1)) == there + 1, "each is rejected once more"
    assert operator.door.call("POST", "/lists/none/close")[0] == 404
    assert operator.door.call("POST", "/tasks", {"tasks": []})[0] == 403
    assert "AccessDenied" in operator.groupage("push", "infra/routes.yaml")
    assert "version 1" in operator.groupage("push", "infra/routes.yaml", "--dry-run"), "the difference to what is in force"


PAGES = ["overview", "routes", "targets", "target?id=parcels%3Acalm", "task?id=calm-0", "failed", "trackers", "held",
         "dead-letters?queue=rejected"]
"""Pages that every stack has."""


def test_a_viewer_sees_every_page_of_the_console_and_no_button_that_works(person, stack):
    with person("Viewer").console() as page:
        for path in PAGES:
            status, text = page(path)
            assert status == 200 and "AccessDenied" not in text, (path, text)
        _, text = page("target?id=parcels%3Acalm")
        assert "<button disabled>Hold calls back</button>" in text, text
        assert "AWS refuses you this: " in text and "dynamodb:PutItem" in text, text


def test_a_viewer_sees_charts_of_what_the_functions_wrote_for_cloudwatch(person, run):
    """CloudWatch makes metrics of the functions' log lines; here the test does, as if written ten minutes ago."""
    cloudwatch, at = run.stack.client("cloudwatch"), datetime.now(UTC) - timedelta(minutes=10)
    written = [
        (event["Function"], metric["Name"], event[metric["Name"]])
        for _, event in run.metric_events()
        for directive in event["_aws"]["CloudWatchMetrics"]
        for metric in directive["Metrics"]
    ]
    for function, name, value in [*written, ("of-another-stack", "TasksRegistered", 1_000_000)]:
        dimensions = [{"Name": "Function", "Value": function}]
        datum = {"MetricName": name, "Dimensions": dimensions, "Timestamp": at, "Value": value}
        cloudwatch.put_metric_data(Namespace="Groupage", MetricData=[datum])
    with person("Viewer").console() as page:
        _, text = page("overview")
    series = {"tasks in": "TasksRegistered", "batches out": "BatchesFrozen", "calls settled": "CallsSettled",
              "tasks failed": "TasksFailed"}
    for title, name in series.items():
        assert run.metrics()[name] > 0
        assert f"{title}: {run.metrics()[name]:,} in the last hour" in text, text


def test_an_operators_buttons_work(person, stack):
    with person("Operator").console() as page:
        status, text = page("target?id=parcels%3Acalm")
        assert status == 200 and "<button>Hold calls back</button>" in text, text
        assert "AWS refuses you this" not in text, text


def test_a_publisher_puts_routes_in_force_and_reads_no_task(person, emulator):
    publisher = person("Publisher")
    routes, changed = (emulator.log.with_name(name) for name in ("routes.yaml", "changed.yaml"))
    assert "in force already, as version 1" in publisher.groupage("push", routes)
    changed.write_text(routes.read_text() + "# checked again\n")
    pushed = publisher.groupage("push", changed)
    assert "\n+# checked again\n" in pushed and "is pushed as version 2" in pushed
    history = json.loads(publisher.groupage("push", "--history", "--json"))
    assert [version["version"] for version in history][:2] == [2, 1]
    assert history[0]["pushed_by"].endswith(":user/person-Publisher"), history[0]
    assert "\n-# checked again\n" in publisher.groupage("push", "--rollback")
    assert "in force already, as version 3" in publisher.groupage("push", routes)
    changed.write_text(routes.read_text().replace("http://127.0.0.1", "https://evil.example"))
    assert "`SecretHosts` does not allow" in publisher.groupage("push", changed)
    assert "AccessDenied" in publisher.groupage("status", "task", "calm-0")
    assert publisher.door.call("GET", "/tasks/calm-0")[0] == 403


def test_an_eraser_exports_and_erases_what_a_task_said_and_nothing_is_done_twice(person, stack):
    eraser, task = person("Eraser"), {"id": "of-somebody", "payload": {"type": "stamp", "country": "ER", "note": "1 Main Street"}}
    stack.send([json.dumps(task)])
    stack.eventually("the task", lambda: stack.status("of-somebody") == "succeeded", lambda: "not settled")
    assert json.loads(eraser.groupage("export", "of-somebody"))["payload"] == task["payload"]
    assert json.loads(eraser.groupage("--json", "erase", "--target", "stamps:ER", "--dry-run")) == ["of-somebody"]
    erase = ("--json", "erase", "--task", "of-somebody")
    # Until what follows from its batch's outcome is done, it is refused.
    stack.eventually("the erasure", lambda: not eraser.groupage(*erase).startswith("failed"), lambda: eraser.groupage(*erase))
    [item] = [item for item in stack.items("TaskTable") if item["Id"] == "of-somebody"]
    [batch] = [batch for batch in stack.items("BatchTable") if batch["BatchId"] == item["BatchId"]]
    assert (item["Payload"], item["Digest"], batch["Target"]) == ("", "", "stamps:erased")
    assert "Main Street" not in json.dumps([item, batch], default=str)
    held = json.loads(eraser.groupage("export", "of-somebody"))
    assert (held["erased"], held["payload"], held["task"]["status"]) == (True, None, "succeeded")
    # Another task under its id is a repeat of it.
    stack.send([json.dumps(task | {"payload": {"type": "stamp", "country": "FI"}})])
    stack.eventually("the repeat to be taken", stack.idle, lambda: "some step still has messages")
    assert [batch for batch in stack.items("BatchTable") if "of-somebody" in batch["Members"]] == [batch]
    assert "AccessDenied" in eraser.groupage("push", "infra/routes.yaml")
