#!/usr/bin/env python3
"""Drives tasks through functions in containers, until all have settled: see docs/guides/sam-local.md.

    . target/sam-local/env
    target/tools/sam/bin/python tests/drive_functions.py http://127.0.0.1:3001 172.17.0.1:9000

`sam local start-lambda` has no event source mappings. So this script takes their place: it receives from the stack's
queues, invokes the functions with what it received, and deletes what they do not report as failed. It is the downstream
of the tasks, too, which it sends first. It fails unless each task was in one call and has succeeded.
"""

import argparse
import json
import os
import sys
import threading
import time
import uuid
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
from botocore.config import Config

MAPPINGS = {  # queue: the function that handles it, and how many messages one invocation takes
    "TASK": ("RegisterTaskFunction", 10),
    "IN_ORDER": ("RegisterTaskFunction", 10),
    "ELECT": ("ElectLeaderFunction", 10),
    "GROUP": ("GroupBatchFunction", 1),
    "HANDLE": ("BatchHandlerFunction", 1),
}
TARGETS = 3
REGION = "us-east-1"
PATIENCE_S = 300
"""Far more than it takes, so that only what never comes fails."""


class Downstream(BaseHTTPRequestHandler):
    """A batch API for which every item succeeds."""

    calls = Counter()
    """How often each item came."""

    def do_POST(self):
        items = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["items"]
        self.calls.update(item["id"] for item in items)
        answer = json.dumps({"results": [{"id": item["id"], "status": "succeeded"} for item in items]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        """What came is told in the end."""


class Mapping:
    """One queue and the function that handles it."""

    def __init__(self, queue: str, sqs, functions):
        self._url = os.environ[f"GROUPAGE_{queue}_QUEUE"]
        self._function, self._size = MAPPINGS[queue]
        self._sqs, self._functions = sqs, functions
        self._arn = f"arn:aws:sqs:{REGION}:000000000000:{self._url.rsplit('/', 1)[-1]}"
        self.invocations = 0

    def poll(self) -> bool:
        """Invokes the function with what is in the queue now; whether anything was."""
        received = self._sqs.receive_message(
            QueueUrl=self._url, MaxNumberOfMessages=self._size, AttributeNames=["All"], MessageAttributeNames=["All"]
        ).get("Messages", [])
        if not received:
            return False
        event = json.dumps({"Records": [self._record(message) for message in received]})
        answer = self._functions.invoke(FunctionName=self._function, Payload=event)
        body = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer and "batchItemFailures" in body, f"{self._function} failed: {body}"
        self.invocations += 1
        failed = {failure["itemIdentifier"] for failure in body["batchItemFailures"]}
        for message in received:
            if message["MessageId"] not in failed:
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        return True

    def _record(self, message: dict) -> dict:
        attributes = {
            name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
            for name, value in message.get("MessageAttributes", {}).items()
        }
        return {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "messageAttributes": attributes,
            "md5OfBody": message["MD5OfBody"],
            "eventSource": "aws:sqs",
            "eventSourceARN": self._arn,
            "awsRegion": REGION,
        }


def send(sqs, count: int) -> list[str]:
    """Sends this many parcels, and returns their ids."""
    run = uuid.uuid4().hex[:8]
    parcels = [
        {"id": f"driven-{run}-{n}", "payload": {"type": "parcel", "truck": f"truck-{n % TARGETS}", "weight": n}}
        for n in range(count)
    ]
    for parcel in parcels:
        sqs.send_message(QueueUrl=os.environ["GROUPAGE_TASK_QUEUE"], MessageBody=json.dumps(parcel))
    return [parcel["id"] for parcel in parcels]


def statuses(dynamodb, ids: list[str]) -> Counter:
    """How many of the tasks have which status."""
    table = os.environ["GROUPAGE_TASK_TABLE"]
    items = [dynamodb.get_item(TableName=table, Key={"Id": {"S": id}}).get("Item") for id in ids]
    return Counter(item["Status"]["S"] if item else "not registered" for item in items)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("functions", metavar="URL", help="where `sam local start-lambda` listens")
    arguments.add_argument("downstream", metavar="ADDRESS:PORT", help="where the functions' downstream is to listen")
    arguments.add_argument("--tasks", metavar="N", type=int, default=12, help="how many tasks are sent")
    options = arguments.parse_args()

    address, port = options.downstream.split(":")
    downstream = ThreadingHTTPServer((address, int(port)), Downstream)
    threading.Thread(target=downstream.serve_forever, daemon=True).start()
    sqs, dynamodb = (boto3.client(service, region_name=REGION) for service in ("sqs", "dynamodb"))
    # An invocation that starts a container takes long, and one that is repeated would not be one.
    patient = Config(read_timeout=PATIENCE_S, retries={"total_max_attempts": 1})
    functions = boto3.client("lambda", region_name=REGION, endpoint_url=options.functions, config=patient)
    mappings = {queue: Mapping(queue, sqs, functions) for queue in MAPPINGS}

    ids, start = send(sqs, options.tasks), time.monotonic()
    while (found := statuses(dynamodb, ids)) != {"succeeded": len(ids)}:
        if time.monotonic() > start + PATIENCE_S:
            sys.exit(f"after {PATIENCE_S} s the tasks are: {dict(found)}")
        # Every queue is asked, whatever another one held.
        if not any([mapping.poll() for mapping in mappings.values()]):
            time.sleep(0.2)
    # What is left would call a second time, if anything did.
    while any([mapping.poll() for mapping in mappings.values()]):
        pass
    calls = Counter(Downstream.calls[id] for id in ids)
    if calls != {1: len(ids)}:
        sys.exit(f"tasks by the number of calls that they were in: {dict(calls)}")
    took = ", ".join(f"{queue.lower()} {mapping.invocations}" for queue, mapping in mappings.items())
    print(f"{len(ids)} tasks settled once each, in {time.monotonic() - start:.0f} s; invocations by queue: {took}")


if __name__ == "__main__":
    main()
