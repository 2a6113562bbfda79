"""The HTTP API: what it answers is what its document says, and the deployed function answers it, too."""

import base64
import json
import re
import subprocess
from pathlib import Path

import pytest

from local import local_stack
from stack import ROOT

SCHEMATHESIS = ROOT / "target/tools/api/bin/schemathesis"


def test_every_answer_is_as_the_document_says(tmp_path, report):
    """Requests made from the document, good and bad: none is answered by a server error, an undocumented status, media
    type or body; bad ones are refused, good ones are not."""
    with local_stack(tmp_path) as environment:
        done = subprocess.run(
            [
                SCHEMATHESIS, "--config-file", Path(__file__).with_name("schemathesis.toml"),
                "run", f"{environment['GROUPAGE_API_URL']}/openapi.json", "--continue-on-failure", "--no-color",
            ],
            # A proxy of the machine's must not see requests to itself.
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "NO_PROXY": "*"},
            cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr}"
    summary = re.search(r"(\d+) generated", done.stdout)
    assert summary and int(summary[1]) > 500, done.stdout
    report.append(f"HTTP API: {summary[1]} requests made from its document, all answered as it says")


class Api:
    """The deployed function, called as its URL calls it."""

    def __init__(self, stack):
        self._functions, self._name = stack.client("lambda"), stack.outputs["ApiFunctionName"]

    def call(self, method: str, path: str, body: dict | None = None, query: str = "") -> tuple[int, dict]:
        """The status and the body of the answer."""
        event = {
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": path,
            "rawQueryString": query,
            "headers": {"host": "api.example"} | ({} if body is None else {"content-type": "application/json"}),
            "requestContext": {
                "accountId": "000000000000",
                "apiId": "api",
                "domainName": "api.example",
                "domainPrefix": "api",
                "http": {
                    "method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "test"
                },
                "requestId": "request",
                "routeKey": "$default",
                "stage": "$default",
                "time": "21/Nov/2026:00:00:00 +0000",
                "timeEpoch": 1795219200000,
            },
            "isBase64Encoded": False,
        }
        if body is not None:
            event["body"] = json.dumps(body)
        answer = json.load(self._functions.invoke(FunctionName=self._name, Payload=json.dumps(event))["Payload"])
        assert "statusCode" in answer, answer
        text = base64.b64decode(answer["body"]) if answer.get("isBase64Encoded") else answer["body"]
        return answer["statusCode"], json.loads(text)


@pytest.fixture(scope="module")
def api(run) -> Api:
    """After the run: what these tests send is none of its work."""
    return Api(run.stack)


def test_the_deployed_function_completes_a_tracker(api, stack):
    tracker = {"id": "over-http", "notify": stack.success_queue}
    assert api.call("POST", "/trackers", tracker)[0] == 201
    assert api.call("POST", "/trackers", tracker)[0] == 200
    status, added = api.call("POST", "/trackers/over-http/items", {"key": "all", "count": 8000})
    assert (status, [group["size"] for group in added["groups"]]) == (200, [7168, 832])
    assert api.call("POST", "/trackers/over-http/seal")[1]["state"] == "sealed"
    acks = {"succeeded": ["over-http:0:0-7167", "over-http:1:0-830"]}
    assert api.call("POST", "/trackers/over-http/acks", acks)[1]["state"] == "sealed"
    query = "outcome=missing&limit=10"
    assert api.call("GET", "/trackers/over-http/items", query=query)[1]["items"] == ["over-http:1:831"]
    last = {"failed": ["over-http:1:831"]}
    assert api.call("POST", "/trackers/over-http/acks", last)[1] == {"acked": 1, "repeated": 0, "state": "completed"}
    shown = api.call("GET", "/trackers/over-http")[1]
    assert (shown["succeeded"], shown["failed"], shown["missing"]) == (7999, 1, 0)
    assert shown["notice_sent"]
    assert api.call("POST", "/trackers/given-up/abandon")[0] == 404


def test_a_task_sent_over_http_is_registered_and_settled(api, stack):
    task = {"id": "sent-over-http", "payload": {"type": "stamp", "country": "FI"}}
    assert api.call("POST", "/tasks", {"tasks": [task]}) == (202, {"ids": ["sent-over-http"]})
    shown = {}

    def settled() -> bool:
        shown.update(api.call("GET", "/tasks/sent-over-http")[1])
        return shown.get("status") == "succeeded"

    stack.eventually("a task sent over HTTP", settled, lambda: shown)
    status, batch = api.call("GET", f"/batches/{shown['batch']}")
    assert (status, batch["status"], batch["members"]) == (200, "settled", ["sent-over-http"])


def test_the_deployed_function_names_the_field_at_fault(api):
    status, problem = api.call("POST", "/tasks", {"tasks": [{"id": "no-payload"}]})
    assert (status, problem["field"]) == (422, "tasks[0].payload")


def test_only_signed_requests_reach_the_function(stack):
    url = stack.client("lambda").get_function_url_config(FunctionName=stack.outputs["ApiFunctionName"])
    assert url["AuthType"] == "AWS_IAM"
    assert stack.outputs["ApiUrl"] == url["FunctionUrl"]
