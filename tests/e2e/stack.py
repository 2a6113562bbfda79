"""The deployed stack as the tests see it: `sam deploy`, then its tables, queues and logs through the AWS SDK."""

import json
import os
import platform
import subprocess
import time
import zipfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import boto3
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from samtranslator.yaml_helper import yaml_parse

from emulator import Emulator

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "target/sam/template.yaml"
SAM = ROOT / "target/tools/sam/bin/sam"
AWS_CLI = ROOT / "target/tools/cli/bin/aws"
GROUPAGE = ROOT / "target/debug/groupage"

ARCHITECTURE = "arm64" if platform.machine() in ("arm64", "aarch64") else "x86_64"
"""This machine's, as the template names it."""

PATIENCE_S = 300
"""How long a test waits for what must happen, and a command may take: far more than it does, so that only what never
comes fails."""


class Stack:
    """A deployed stack."""

    STEP_QUEUES = ("TaskQueue", "InOrderQueue", "ElectQueue", "GroupQueue", "HandleQueue", "LongHandleQueue")

    def __init__(self, emulator: Emulator, name: str, parameters: dict[str, str]):
        self.name = name
        self._emulator = emulator
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(emulator.log.parent)} | emulator.environment()
        self.deploy(parameters)

    def deploy(self, parameters: dict[str, str]) -> None:
        """Deploys it, or deploys it anew with other parameters; those that are not given stay as they are."""
        overrides = [f"{key}={value}" for key, value in parameters.items()]
        self._run(
            SAM, "deploy", "--template-file", _for_the_emulator(), "--stack-name", self.name, "--resolve-s3",
            "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--parameter-overrides", *overrides,
        )
        self.outputs = {
            output["OutputKey"]: output["OutputValue"]
            for output in self.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"][0]["Outputs"]
        }

    def client(self, service: str):
        return client(self._emulator, service)

    def groupage(self, *arguments, program: Path = GROUPAGE) -> str:
        """Runs the command, today's or another version's, against this stack and returns what it printed."""
        return self._run(program, *arguments, "--stack", self.name)

    def _run(self, *command) -> str:
        environment = self.environment | {"SAM_CLI_TELEMETRY": "0"}
        try:
            done = subprocess.run(
                [str(word) for word in command], env=environment, cwd=ROOT, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=PATIENCE_S,
            )
        except subprocess.TimeoutExpired as hung:
            raise AssertionError(f"{command} did not end:\n{hung.stdout}\n{hung.stderr}\n{self.tails()}") from None
        assert done.returncode == 0, f"{command} ended {done.returncode}:\n{done.stdout}\n{done.stderr}\n{self.tails()}"
        return done.stdout

    def roles(self) -> list[str]:
        """The names of the functions' roles."""
        resources = self.client("cloudformation").describe_stack_resources(StackName=self.name)["StackResources"]
        return [r["PhysicalResourceId"] for r in resources if r["ResourceType"] == "AWS::IAM::Role"]

    def policies(self) -> list[str]:
        """The ARNs of the policies for people and programs."""
        return [arn for name, arn in self.outputs.items() if name.endswith("PolicyArn")]

    def user(self, name: str, policy: str) -> dict[str, str]:
        """The environment of a new user that has one of these policies and nothing else."""
        iam = self.client("iam")
        iam.create_user(UserName=name)
        iam.attach_user_policy(UserName=name, PolicyArn=self.outputs[f"{policy}PolicyArn"])
        key = iam.create_access_key(UserName=name)["AccessKey"]
        credentials = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
        return self.environment | credentials

    def policy(self, arn: str) -> dict:
        """What a managed policy says."""
        iam = self.client("iam")
        version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        return iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]

    # --- queues ---

    def queue(self, name: str) -> str:
        """A queue's URL, by its name in the template."""
        return self.outputs[f"{name}Url"]

    def queues(self) -> list[str]:
        """The names of all queues in the template."""
        return [name.removesuffix("Url") for name in self.outputs if name.endswith("QueueUrl")]

    def send(self, bodies: list[str], queue: str = "TaskQueue", group=None) -> None:
        """Sends messages in tens; to a FIFO queue, each in the group that `group` gives for it."""
        sqs = self.client("sqs")
        for start in range(0, len(bodies), 10):
            entries = [
                {"Id": str(n), "MessageBody": body} | ({"MessageGroupId": group(body)} if group else {})
                for n, body in enumerate(bodies[start : start + 10])
            ]
            answer = sqs.send_message_batch(QueueUrl=self.queue(queue), Entries=entries)
            assert not answer.get("Failed"), answer["Failed"]

    def attributes(self, queue: str) -> dict[str, str]:
        """A queue's attributes."""
        answer = self.client("sqs").get_queue_attributes(QueueUrl=self.queue(queue), AttributeNames=["All"])
        return answer["Attributes"]

    def waiting(self, queue: str) -> int:
        """Messages in a queue: visible, in flight and delayed."""
        return sum(
            int(count) for name, count in self.attributes(queue).items() if name.startswith("ApproximateNumberOf")
        )

    def idle(self) -> bool:
        """Whether no step has anything left to do."""
        return not any(self.waiting(queue) for queue in self.STEP_QUEUES)

    def take(self, queue: str, at_least: int) -> list[dict]:
        """Receives and deletes messages until `at_least` have come and no more come."""
        sqs = self.client("sqs")
        url = queue if queue.startswith("http") else self.queue(queue)
        taken = []

        def drained() -> bool:
            answer = sqs.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], WaitTimeSeconds=1
            )
            for message in answer.get("Messages", []):
                taken.append(message)
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            return not answer.get("Messages") and len(taken) >= at_least

        self.eventually(f"{at_least} messages in {queue}", drained, lambda: f"{len(taken)} came")
        return taken

    @contextmanager
    def unread(self, queue: str):
        """No function reads the queue meanwhile."""
        functions, arn = self.client("lambda"), self.attributes(queue)["QueueArn"]
        [mapping] = functions.list_event_source_mappings(EventSourceArn=arn)["EventSourceMappings"]
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
        try:
            yield
        finally:
            functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)

    def allow_batches(self) -> None:
        """AWS checks a batch of messages as one message; the emulator asks for actions that AWS does not know.
        Every role, and every principal with one of the policies, may do in batches exactly what the template lets them
        do.
        """
        iam = self.client("iam")
        for arn in self.policies():
            policy = self.policy(arn)
            document = json.dumps(policy | {"Statement": policy["Statement"] + _in_batches(policy)})
            iam.create_policy_version(PolicyArn=arn, PolicyDocument=document, SetAsDefault=True)
        for role in self.roles():
            [name] = iam.list_role_policies(RoleName=role)["PolicyNames"]
            policy = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
            document = json.dumps(policy | {"Statement": _in_batches(policy)})
            iam.put_role_policy(RoleName=role, PolicyName="in-batches", PolicyDocument=document)

    # --- tables ---

    def alarms(self) -> list[dict]:
        """Every alarm on a metric."""
        pages = self.client("cloudwatch").get_paginator("describe_alarms").paginate()
        return [alarm for page in pages for alarm in page["MetricAlarms"]]

    def items(self, table: str) -> list[dict]:
        """Every item of a table."""
        read = TypeDeserializer().deserialize
        pages = self.client("dynamodb").get_paginator("scan").paginate(TableName=self.outputs[f"{table}Name"])
        return [{name: read(value) for name, value in item.items()} for page in pages for item in page["Items"]]

    def statuses(self) -> dict[str, str]:
        """The status of every task, without all else that is written of it."""
        pages = self.client("dynamodb").get_paginator("scan").paginate(
            TableName=self.outputs["TaskTableName"], ProjectionExpression="Id, #status",
            ExpressionAttributeNames={"#status": "Status"},
        )
        return {item["Id"]["S"]: item["Status"]["S"] for page in pages for item in page["Items"]}

    def status(self, task: str) -> str | None:
        """A task's status, if it is registered."""
        key = {"Id": {"S": task}}
        item = self.client("dynamodb").get_item(TableName=self.outputs["TaskTableName"], Key=key).get("Item")
        return item["Status"]["S"] if item else None

    def batches_of(self, target: str) -> list[dict]:
        """The batches of a stored Target."""
        return [batch for batch in self.items("BatchTable") if batch["Target"] == target]

    def change(self, table: str, key: dict[str, str], put: dict, remove: tuple[str, ...]) -> None:
        """Changes an item's attributes without any condition, as no step ever does."""
        write = TypeSerializer().serialize
        names = {f"#{name}": name for name in [*put, *remove]}
        sets = ", ".join(f"#{name} = :{name}" for name in put)
        removes = f" REMOVE {', '.join(f'#{name}' for name in remove)}" if remove else ""
        self.client("dynamodb").update_item(
            TableName=self.outputs[f"{table}Name"],
            Key={name: write(value) for name, value in key.items()},
            UpdateExpression=f"SET {sets}{removes}",
            ExpressionAttributeNames=names,
            ExpressionAttributeValues={f":{name}": write(value) for name, value in put.items()},
        )

    # --- logs ---

    def logs(self, step: str) -> list[str]:
        """Every line that a step logged."""
        group = f"/aws/lambda/{self.name}/{step}"
        logs = self.client("logs")
        pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group)
        return [event["message"].rstrip("\n") for page in pages for event in page["events"]]

    def tails(self) -> str:
        """The end of every log, for a failure's text."""
        tails = [f"--- emulator\n{_tail(self._emulator.log.read_text().splitlines())}"]
        steps = ("register-task", "elect-leader", "group-batch", "batch-handler", "long-batch-handler", "sweep", "api")
        for step in steps:
            try:
                tails.append(f"--- {step}\n{_tail(self.logs(step))}")
            except Exception as error:  # a failure's text must not fail itself
                tails.append(f"--- {step}\nno log: {error}")
        return "\n".join(tails)

    def eventually(self, what: str, holds, seen) -> None:
        """Waits until `holds()`; if it never does, says what was last `seen()`, and prints the ends of all logs."""
        deadline = time.monotonic() + PATIENCE_S
        asked = time.monotonic()
        while not holds():
            if time.monotonic() > deadline:
                print(self.tails())
                raise AssertionError(f"waited in vain for {what}; {seen()}")
            # A question that takes long is asked less often: that leaves the processor to what it waits for.
            time.sleep(min(max(0.5, 4 * (time.monotonic() - asked)), 2))
            asked = time.monotonic()


def _for_the_emulator() -> Path:
    """The built template without what refuses plain HTTP, which is all that the emulator speaks, and without alarms
    that do arithmetic, which it does not know; and with caps that are numbers, as in `tests/functions`. `test_data.py`
    tries that refusal on a queue of its own, and `test_alarms.py` does the arithmetic."""
    template = yaml_parse(BUILT.read_text())
    for resource in template["Resources"].values():
        if "CodeUri" in resource.get("Properties", {}):
            resource["Properties"]["CodeUri"] = _zipped(BUILT.parent / resource["Properties"]["CodeUri"])
        for event in resource["Properties"].get("Events", {}).values():
            if "ScalingConfig" in event["Properties"]:
                event["Properties"]["ScalingConfig"] = {"MaximumConcurrency": 5}
    document = template["Resources"]["QueuePolicy"]["Properties"]["PolicyDocument"]
    document["Statement"] = [statement for statement in document["Statement"] if statement["Sid"] != "OnlyWithTls"]
    for name, resource in template["Resources"].items():
        if resource["Type"] == "AWS::CloudFormation::Stack":
            nested = BUILT.with_name(f"{name}.json")
            _put(nested, json.dumps(_without_arithmetic(BUILT.parent / resource["Properties"]["TemplateURL"])))
            resource["Properties"]["TemplateURL"] = nested.name
    path = BUILT.with_name("for-the-emulator.json")
    _put(path, json.dumps(template))
    return path


def _put(path: Path, text: str) -> None:
    """Writes a file at once: another process may read it, and write the same."""
    begun = path.with_name(f"{path.name}.{os.getpid()}")
    begun.write_text(text)
    begun.replace(path)


def _zipped(folder: Path) -> str:
    """A function's folder as a file beside it. `sam deploy` would compress the programs for each deployment anew, which
    takes longer than all else that it does."""
    path = folder.with_name(f"{folder.name}.zip")
    files = [file for file in folder.rglob("*") if file.is_file()]
    if not path.exists() or path.stat().st_mtime < max(file.stat().st_mtime for file in files):
        begun = path.with_name(f"{path.name}.{os.getpid()}")
        with zipfile.ZipFile(begun, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for file in files:
                archive.write(file, file.relative_to(folder))
        begun.replace(path)
    return str(path.relative_to(BUILT.parent))


def _without_arithmetic(path: Path) -> dict:
    template = yaml_parse(path.read_text())
    left_out = [
        name for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::CloudWatch::CompositeAlarm" or "Metrics" in resource.get("Properties", {})
    ]
    for name in left_out:
        del template["Resources"][name]
    return template


@cache
def client(emulator: Emulator, service: str):
    """An SDK client of the emulator, whatever the environment says. Making one takes longer than most of its calls."""
    return boto3.client(
        service,
        endpoint_url=emulator.endpoint,
        region_name=emulator.environment()["AWS_DEFAULT_REGION"],
        aws_access_key_id=emulator.environment()["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=emulator.environment()["AWS_SECRET_ACCESS_KEY"],
    )


def _in_batches(policy: dict) -> list[dict]:
    statements = []
    for statement in policy["Statement"]:
        allowed = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        batches = [f"{action}Batch" for action in ("sqs:SendMessage", "sqs:ChangeMessageVisibility") if action in allowed]
        if batches:
            statements.append(statement | {"Action": batches})
    return statements


def _tail(lines: list[str], count: int = 30) -> str:
    return "\n".join(lines[-count:])
