"""The cookbook's pages on AWS's batch APIs, each as it is written, from a laptop stack to an emulator of AWS.

Between the two stands a proxy that checks each signature with AWS's own library for Python, throttles one call of each
service, and loses the answer of another. The emulator checks those by an assumed role, of which only it knows the
secret. What arrived is counted at the service.
"""

import hashlib
import json
import re
import socket
import threading
import urllib.error
import urllib.request
from datetime import datetime
from http.server import BaseHTTPRequestHandler

import boto3
import pytest
import yaml
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from emulator import CREDENTIALS, Emulator
from local import local_stack
from serving import Served
from sites import Site
from stack import ROOT

PAGES = ("dynamodb", "eventbridge", "firehose", "kinesis", "sns", "sqs")
REGION, ACCOUNT = "eu-west-1", "000000000000"
TASKS = 23
"""For each page, beside one that is refused."""
THROTTLED = {
    "sns": "<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code></Error></ErrorResponse>",
    "": '{"__type": "ThrottlingException", "message": "Rate exceeded"}',
}
"""What a service answers with status 400 when it is too busy."""
REFUSED = {
    "dynamodb": {"kg": "heavy"},
    "kinesis": {},
    "sqs": {"text": ""},
}
"""Tasks that the service or the page's template refuses."""


def page(name: str) -> str:
    return (ROOT / f"docs/cookbook/{name}.md").read_text()


def route(name: str, proxy: str, emulator: str) -> dict:
    """The only route of a page, with its host and its account replaced."""
    [block] = re.findall(r"^```yaml\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL)
    [route] = yaml.safe_load(block)["routes"]
    http = route["downstream"]["http"]
    assert re.fullmatch(rf"https://\w+\.{REGION}\.amazonaws\.com/", http["url"])
    http["body"] = http["body"].replace(http["url"], f"{emulator}/").replace("123456789012", ACCOUNT)
    http["url"] = f"{proxy}/"
    route["notify"] = {"failure": "none", "success": "none"}
    return route


class Proxy(Served):
    """Between Groupage and the emulator."""

    def __init__(self, emulator: str):
        self.calls: list[tuple[str, str, str]] = []
        """Service, batch, and what became of it."""
        self.signers: set[tuple[str, str]] = set()
        """Service and access key."""
        self.wrong: list[str] = []
        self._emulator, self._lock, outer = emulator, threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service, fate = outer._take(self.path, self.headers, body)
                if fate == "throttled":
                    return self._answer(400, THROTTLED.get(service, THROTTLED[""]).encode())
                status, said = outer._forward(self.path, self.headers, body)
                if fate == "lost":
                    self.close_connection = True
                    return self.connection.shutdown(socket.SHUT_RDWR)
                return self._answer(status, said)

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.serve(Handler)

    def _take(self, path: str, headers, body: bytes) -> tuple[str, str]:
        found = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=(\w+)/\d+/([\w-]+)/(\w+)/aws4_request, SignedHeaders=(\S+), Signature=(\w+)",
            headers["Authorization"],
        )
        key, region, service, signed, signature = found.groups()
        with self._lock:
            self.signers.add((service, key))
            if key == CREDENTIALS["AWS_ACCESS_KEY_ID"] and signature != self._signature(path, headers, body, service, signed):
                self.wrong.append(f"{service}: {signed}")
            if region != REGION:
                self.wrong.append(region)
            # The emulator takes a field with spaces around its value. AWS does not.
            if service == "sns" and b"+" in body + body.replace(b" ", b"+"):
                self.wrong.append(body.decode())
            number = sum(of == service for of, _, _ in self.calls)
            fate = {0: "throttled", 2: "lost"}.get(number, "forwarded")
            self.calls.append((service, headers["Idempotency-Key"], fate))
        return service, fate

    def _signature(self, path: str, headers, body: bytes, service: str, signed: str) -> str:
        """The signature that AWS's own library makes for this request."""
        auth = SigV4Auth(Credentials(CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"]), service, REGION)
        chosen = {name: headers[name] for name in signed.split(";") if name != "host"}
        request = AWSRequest("POST", f"http://{headers['Host']}{path}", data=body, headers=chosen)
        request.context["timestamp"] = headers["X-Amz-Date"]
        assert datetime.strptime(headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ")
        assert hashlib.sha256(body).hexdigest() == headers["X-Amz-Content-SHA256"]
        return auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)

    def _forward(self, path: str, headers, body: bytes) -> tuple[int, bytes]:
        kept = {name: value for name, value in headers.items() if name.lower() != "content-length"}
        try:
            with urllib.request.urlopen(urllib.request.Request(self._emulator + path, body, kept)) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()


class Services:
    """What the emulator's services hold."""

    def __init__(self, endpoint: str):
        keys = {name.lower(): value for name, value in CREDENTIALS.items() if name != "AWS_DEFAULT_REGION"}
        self.client = lambda service: boto3.client(service, endpoint_url=endpoint, region_name=REGION, **keys)
        bucket = "arn:aws:s3:::firehose-scans"
        self.client("s3").create_bucket(
            Bucket="firehose-scans", CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        self.client("firehose").create_delivery_stream(
            DeliveryStreamName="scans",
            ExtendedS3DestinationConfiguration={
                "RoleARN": f"arn:aws:iam::{ACCOUNT}:role/scans", "BucketARN": bucket,
                "BufferingHints": {"IntervalInSeconds": 60, "SizeInMBs": 1},
            },
        )
        self.client("kinesis").create_stream(StreamName="scans", ShardCount=1)
        self.client("dynamodb").create_table(
            TableName="scans", KeySchema=[{"AttributeName": "Id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "Id", "AttributeType": "S"}], BillingMode="PAY_PER_REQUEST",
        )
        self.queues = {name: self.client("sqs").create_queue(QueueName=name)["QueueUrl"] for name in ("scans", "sns", "events")}
        topic = self.client("sns").create_topic(Name="scans")["TopicArn"]
        allowed = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        self.client("sqs").set_queue_attributes(QueueUrl=self.queues["sns"], Attributes={"Policy": policy})
        self.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=self._queue_arn("sns"))
        events = self.client("events")
        events.create_event_bus(Name="scans")
        events.put_rule(Name="scans", EventBusName="scans", EventPattern='{"source": ["parcels"]}')
        events.put_targets(Rule="scans", EventBusName="scans", Targets=[{"Id": "q", "Arn": self._queue_arn("events")}])
        trust = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}],
        }
        self.client("iam").create_role(RoleName="scans", AssumeRolePolicyDocument=json.dumps(trust))
        self.client("iam").put_role_policy(
            RoleName="scans", PolicyName="put",
            PolicyDocument=json.dumps({
                "Version": "2012-10-17",
                "Statement": [{"Effect": "Allow", "Action": "kinesis:PutRecords", "Resource": "*"}],
            }),
        )

    @staticmethod
    def _queue_arn(name: str) -> str:
        return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"

    def held(self, name: str) -> list[str]:
        """The parcels that a service holds, once for each time that it was given."""
        return getattr(self, f"_in_{name}")()

    def _in_dynamodb(self) -> list[str]:
        return [item["Id"]["S"].removeprefix("dynamodb-") for item in self.client("dynamodb").scan(TableName="scans")["Items"]]

    def _in_kinesis(self) -> list[str]:
        kinesis = self.client("kinesis")
        shard = kinesis.list_shards(StreamName="scans")["Shards"][0]["ShardId"]
        at = kinesis.get_shard_iterator(StreamName="scans", ShardId=shard, ShardIteratorType="TRIM_HORIZON")
        records = kinesis.get_records(ShardIterator=at["ShardIterator"], Limit=1000)["Records"]
        return [json.loads(record["Data"])["parcel"] for record in records]

    def _in_firehose(self) -> list[str]:
        s3 = self.client("s3")
        keys = [item["Key"] for item in s3.list_objects_v2(Bucket="firehose-scans").get("Contents", [])]
        texts = [s3.get_object(Bucket="firehose-scans", Key=key)["Body"].read().decode() for key in keys]
        return [json.loads(line)["parcel"] for text in texts for line in text.splitlines()]

    def _in_sqs(self) -> list[str]:
        return [body.removeprefix("parcel ") for body in self._received("scans")]

    def _in_sns(self) -> list[str]:
        return [json.loads(json.loads(body)["Message"])["parcel"] for body in self._received("sns")]

    def _in_eventbridge(self) -> list[str]:
        return [json.loads(body)["detail"]["parcel"] for body in self._received("events")]

    def _received(self, queue: str) -> list[str]:
        bodies = []
        while messages := self.client("sqs").receive_message(
            QueueUrl=self.queues[queue], MaxNumberOfMessages=10, WaitTimeSeconds=2
        ).get("Messages", []):
            bodies += [message["Body"] for message in messages]
            entries = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)]
            self.client("sqs").delete_message_batch(QueueUrl=self.queues[queue], Entries=entries)
        return bodies


def task(name: str, number: int | str, payload: dict | None = None) -> str:
    usual = {"parcel": str(number), "kg": 12, "text": f"parcel {number}"}
    return json.dumps({"id": f"{name}-{number}", "payload": {"to": name} | (usual if payload is None else payload)})


@pytest.fixture(scope="module")
def burst(tmp_path_factory):
    """A burst for each page at once: the proxy, the services, and what became of each task."""
    home = tmp_path_factory.mktemp("cookbook")
    emulator = Emulator(home)
    proxy = Proxy(emulator.endpoint)
    try:
        services = Services(emulator.endpoint)
        routes = [route(name, proxy.url, emulator.endpoint) for name in PAGES]
        [kinesis] = [one for one in routes if one["name"] == "kinesis"]
        kinesis["downstream"]["http"]["auth"]["sigv4"]["role"] = f"arn:aws:iam::{ACCOUNT}:role/scans"
        # Batches of ten make three calls of a burst.
        for one in routes:
            one["batch"]["max_items"] = min(one["batch"]["max_items"], 10)
        variables = CREDENTIALS | {"AWS_ENDPOINT_URL": emulator.endpoint, "AWS_REGION": REGION}
        folder = home / "data"
        folder.mkdir()
        with local_stack(folder, yaml.safe_dump({"version": 1, "routes": routes}), variables) as environment:
            site = Site.of_laptop(folder, environment)
            site.send([task(name, number) for number in range(TASKS) for name in PAGES])
            site.send([task(name, "refused", payload) for name, payload in REFUSED.items()])
            ids = [f"{name}-{number}" for number in range(TASKS) for name in PAGES]
            settled = site.settled(ids + [f"{name}-refused" for name in REFUSED])
            log = site.logs()
        yield proxy, services, settled, log
    finally:
        proxy.stop()
        emulator.stop()


@pytest.mark.parametrize("name", PAGES)
def test_a_burst_arrives_whole_through_a_throttled_call_and_a_lost_answer(burst, name, report):
    proxy, services, settled, _ = burst
    assert {settled[f"{name}-{number}"] for number in range(TASKS)} == {("succeeded", None)}
    service = "events" if name == "eventbridge" else name
    calls = [(batch, fate) for of, batch, fate in proxy.calls if of == service]
    held = services.held(name)
    report.append(f"cookbook, {name}: {len(calls)} calls for {TASKS} tasks, {len(held)} records held")
    assert set(held) == {str(number) for number in range(TASKS)}
    for fate in ("throttled", "lost"):
        [batch] = [batch for batch, of in calls if of == fate]
        assert [of for other, of in calls if other == batch][-1] == "forwarded", "it is called again under its key, whole"
    if name == "dynamodb":
        assert len(held) == TASKS, "a repeat puts the same items"
    else:
        assert len(held) > TASKS, "a repeat is a second record, as the page says"


def test_a_task_that_is_refused_fails_alone_with_its_reason(burst):
    _, _, settled, _ = burst
    assert {name: settled[f"{name}-refused"] for name in REFUSED} == {
        "dynamodb": ("failed", "http_400"),
        "kinesis": ("failed", "template_error:3:undefined"),
        "sqs": ("failed", "MissingParameter"),
    }


def test_each_call_is_signed_as_awss_own_library_signs_it(burst):
    proxy, _, _, log = burst
    assert proxy.wrong == []
    own = CREDENTIALS["AWS_ACCESS_KEY_ID"]
    assert {service for service, key in proxy.signers if key == own} == {"dynamodb", "events", "firehose", "sns", "sqs"}
    [assumed] = [key for service, key in proxy.signers if service == "kinesis"]
    assert assumed != own
    assert assumed not in log and "AWS4-HMAC-SHA256" not in log
