"""`groupage doctor` on a deployed stack: well at first, and then each planted fault is found by the name of its check.

The stack is one of its own: what is planted here would break the work of the others' tests. The doctor has its own
policy and no other, so what the policy lacks shows as a finding that is not well."""

import json
import subprocess
import time

import pytest

from emulator import Emulator
from local import local_stack
from localstack import mixed_stack
from stack import GROUPAGE, PATIENCE_S, ROOT, Stack, client

ROUTES = """\
version: 1
routes:
  - name: canary
    when: "canary"
    target: canary.target
    batch: { max_items: 100, wait_ms: 120000, express: false }
    downstream: pull
    notify: { failure: none, success: none }
    keep_failed_days: 1
  - name: labels
    target: printer
    downstream: { http: { url: "https://api.example.com/", headers: { X-Key: { secret: { secrets_manager: "%s" } } } } }
"""
LOOPING = ("RegisterTask", "ElectLeader", "GroupBatch", "BatchHandler", "LongBatchHandler")
EXPIRING = ("Task", "BatchLock", "Batch", "Session", "List", "Lane")
TABLES = (*EXPIRING, "Tracker", "Stream", "Route")
LONG_AGO_MS = 1_700_000_000_000


class Patient(Stack):
    """A stack with a doctor."""

    def __init__(self, emulator, routes_file):
        secret = client(emulator, "secretsmanager").create_secret(Name="label-key", SecretString="hunter2")["ARN"]
        topic = client(emulator, "sns").create_topic(Name="on-call")["TopicArn"]
        parameters = {"AlarmTopicArn": topic, "SecretArns": secret, "SecretHosts": f"api.example.com={secret}"}
        super().__init__(emulator, "groupage-ill", parameters)
        self.secret, self.routes_file = secret, routes_file
        self.allow_batches()
        self.doctor = self.user("the-doctor", "Doctor")
        self.emulator_asks_for_other_actions()
        self.emulator_takes_what_it_leaves_out()
        routes_file.write_text(ROUTES % secret)
        self.groupage("push", routes_file)

    def emulator_asks_for_other_actions(self):
        """Two reads of a function are, to the emulator, actions that AWS asks for elsewhere."""
        actions = ["lambda:GetFunction", "lambda:PutFunctionConcurrency"]
        document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}
        self.client("iam").put_user_policy(UserName="the-doctor", PolicyName="here", PolicyDocument=json.dumps(document))

    def emulator_takes_what_it_leaves_out(self):
        """It deploys a template without time to live, recovery and loops, and keeps all three if it is asked."""
        dynamodb, functions = self.client("dynamodb"), self.client("lambda")
        for table in EXPIRING:
            self.expire(table, True)
        for table in TABLES:
            dynamodb.update_continuous_backups(
                TableName=self.outputs[f"{table}TableName"],
                PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
            )
        for step in LOOPING:
            functions.put_function_recursion_config(FunctionName=self.function(step), RecursiveLoop="Allow")

    def expire(self, table, is_on):
        self.client("dynamodb").update_time_to_live(
            TableName=self.outputs[f"{table}TableName"],
            TimeToLiveSpecification={"AttributeName": "Ttl", "Enabled": is_on},
        )

    def function(self, step):
        return self.outputs[f"{step}FunctionName"]

    def mapping(self, queue):
        arn = self.attributes(queue)["QueueArn"]
        [mapping] = self.client("lambda").list_event_source_mappings(EventSourceArn=arn)["EventSourceMappings"]
        return mapping["UUID"]

    def change_mapping(self, queue, **changes):
        self.client("lambda").update_event_source_mapping(UUID=self.mapping(queue), **changes)

    def change_queue(self, queue, **attributes):
        self.client("sqs").set_queue_attributes(QueueUrl=self.queue(queue), Attributes=attributes)

    def put(self, table, item):
        self.client("dynamodb").put_item(TableName=self.outputs[f"{table}TableName"], Item=item)

    def remove(self, table, key):
        self.client("dynamodb").delete_item(TableName=self.outputs[f"{table}TableName"], Key=key)

    def look(self, *options):
        """What the doctor finds: its exit code, and what is not well, by check."""
        code, report = ended(start(self.doctor, "--stack", self.name, *options))
        assert report["well"] == (code == 0)
        ill = [finding for finding in report["findings"] if finding["verdict"] != "well"]
        assert all(finding["todo"] and finding["see"].startswith("docs/guides/doctor.md#") for finding in ill), ill
        return code, {finding["check"]: finding for finding in ill}


def start(environment, *options):
    """A doctor at work."""
    return subprocess.Popen(
        [GROUPAGE, "doctor", "--json", *options],
        env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


def ended(doctor):
    """Its exit code and what it reports."""
    said, complained = doctor.communicate(timeout=PATIENCE_S)
    assert said, complained
    return doctor.returncode, json.loads(said)


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """In an emulator of its own: other tests look at all alarms and mappings of theirs."""
    home = tmp_path_factory.mktemp("doctor")
    emulator = Emulator(home)
    yield Patient(emulator, home / "routes.yaml")
    emulator.stop()
    emulator.check()


def test_a_stack_that_is_well_is_found_so_with_no_more_than_the_doctors_policy(patient):
    assert patient.look() == (0, {})


def test_an_alarm_of_a_stack_whose_name_begins_alike_is_none_of_this_one(patient):
    cloudwatch = patient.client("cloudwatch")
    name = f"{patient.name}-too-ElectAlarms-A-OldestMessage-B"
    cloudwatch.put_metric_alarm(
        AlarmName=name, Namespace="AWS/SQS", MetricName="ApproximateAgeOfOldestMessage", Statistic="Maximum",
        Dimensions=[{"Name": "QueueName", "Value": f"{patient.name}-too-ElectQueue-C"}],
        Period=60, EvaluationPeriods=1, Threshold=900, ComparisonOperator="GreaterThanThreshold",
    )
    cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="a drill")
    try:
        assert patient.look() == (0, {})
    finally:
        cloudwatch.delete_alarms(AlarmNames=[name])


def test_canaries_settle_once_each_on_every_engine_and_leave_nothing_that_waits(patient, tmp_path):
    """On a laptop, deployed, and with LocalStack's queues. All at once: each takes more than two minutes."""
    iam = patient.client("iam")
    for policy in ("Sender", "Worker"):
        iam.attach_user_policy(UserName="the-doctor", PolicyArn=patient.outputs[f"{policy}PolicyArn"])
    (tmp_path / "laptop").mkdir()
    (tmp_path / "mixed").mkdir()
    with local_stack(tmp_path / "laptop", ROUTES % "x") as laptop, mixed_stack(tmp_path / "mixed", ROUTES % "x") as mixed:
        # The route's secret is none of a laptop's.
        at_home = start(laptop, "--exercise", "--skip", "secrets")
        on_localstack = start(mixed.environment, "--exercise", "--skip", "secrets")
        deployed = start(patient.doctor, "--stack", patient.name, "--exercise")
        for code, report in (ended(at_home), ended(on_localstack), ended(deployed)):
            found = {finding["of"][0]: finding for finding in report["findings"] if finding["check"] == "exercise"}
            assert list(found) == ["burst", "refused", "retried", "trickle", "cost"]
            assert (code, [f for f in report["findings"] if f["verdict"] != "well"]) == (0, [])
            assert report["costs"]["dollars"] > 0
    assert patient.items("SessionTable") == [] and patient.idle()
    assert [lock for lock in patient.items("BatchLockTable") if "LockHolder" in lock] == []
    tomorrow = time.time() + 90_000
    canaries = patient.items("TaskTable")
    assert len(canaries) == 197 and all(float(task["Ttl"]) < tomorrow for task in canaries)
    assert [task["Id"] for task in canaries if "Filed" in task] == []
    # The stack's own functions end a batch of which a member came back.
    assert all("Ttl" in batch for batch in patient.items("BatchTable"))


def number(value):
    return {"N": str(value)}


LOCK = {
    "Target": {"S": "labels:left"}, "LockHolder": {"S": "w"}, "WaitsSince": number(LONG_AGO_MS),
    "LeaseUntil": number(LONG_AGO_MS), "Fence": number(1), "Seq": number(0), "Signals": number(0),
}
TASK = {
    "Id": {"S": "left"}, "Target": {"S": "gone:left"}, "Status": {"S": "CREATED"}, "Round": number(0),
    "Bytes": number(2), "WaitsSince": number(LONG_AGO_MS), "CreatedAt": number(LONG_AGO_MS),
    "Payload": {"S": "{}"}, "Digest": {"S": "0"},
}


def lock(patient):
    patient.put("BatchLock", LOCK)


def task(patient):
    patient.put("Task", TASK)


def routes(patient):
    """As nobody pushes them: what a former version, or a hand, left there."""
    key = {"Name": {"S": "routes"}}
    table = patient.outputs["RouteTableName"]
    item = patient.client("dynamodb").get_item(TableName=table, Key=key)["Item"]
    patient.put("Route", item | {"Yaml": {"S": "version: 1\nroutes: 7\n"}, "Digest": {"S": "other"}})


def age(patient):
    """The emulator takes a metric of AWS's own; its queues report none."""
    patient.client("cloudwatch").put_metric_data(
        Namespace="AWS/SQS",
        MetricData=[{
            "MetricName": "ApproximateAgeOfOldestMessage", "Value": 5_000, "Timestamp": time.time(),
            "Dimensions": [{"Name": "QueueName", "Value": patient.queue("HandleQueue").rsplit("/", 1)[1]}],
        }],
    )


def alarm_names(patient):
    alarms = patient.client("cloudwatch").describe_alarms(AlarmNamePrefix=f"{patient.name}-")["MetricAlarms"]
    return [alarm["AlarmName"] for alarm in alarms]


def redrive(patient):
    dead = patient.attributes("ElectDeadLetterQueue")["QueueArn"]
    return json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": 10})


FAULTS = {
    "a disabled mapping": (
        "mappings", "group", lambda p: p.change_mapping("GroupQueue", Enabled=False),
        lambda p: p.change_mapping("GroupQueue", Enabled=True),
    ),
    "a mapping that reports no failures": (
        "mappings", "elect", lambda p: p.change_mapping("ElectQueue", FunctionResponseTypes=[]),
        lambda p: p.change_mapping("ElectQueue", FunctionResponseTypes=["ReportBatchItemFailures"]),
    ),
    "a table without time to live": (
        "expiry", "batches", lambda p: p.expire("Batch", False), lambda p: p.expire("Batch", True),
    ),
    "a table without recovery": (
        "recovery", "tasks",
        lambda p: p.client("dynamodb").update_continuous_backups(
            TableName=p.outputs["TaskTableName"],
            PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": False},
        ),
        lambda p: p.emulator_takes_what_it_leaves_out(),
    ),
    "a visibility that is too short": (
        "visibility", "handle", lambda p: p.change_queue("HandleQueue", VisibilityTimeout="75"),
        lambda p: p.change_queue("HandleQueue", VisibilityTimeout="450"),
    ),
    "routes that cannot be read": (
        "routes", None, routes, lambda p: p.groupage("push", p.routes_file),
    ),
    "a secret that is about to be deleted": (
        "secrets", "labels", lambda p: p.client("secretsmanager").delete_secret(SecretId=p.secret),
        lambda p: p.client("secretsmanager").restore_secret(SecretId=p.secret),
    ),
    "a dead letter": (
        "dead-letters", "elect-dlq", lambda p: p.send(["{}"], "ElectDeadLetterQueue"),
        lambda p: p.take("ElectDeadLetterQueue", 1),
    ),
    "a rejected message": (
        "dead-letters", "rejected", lambda p: p.send(["{}"], "RejectedQueue"), lambda p: p.take("RejectedQueue", 1),
    ),
    "a loop that would be cut": (
        "loops", "group-batch",
        lambda p: p.client("lambda").put_function_recursion_config(
            FunctionName=p.function("GroupBatch"), RecursiveLoop="Terminate",
        ),
        lambda p: p.emulator_takes_what_it_leaves_out(),
    ),
    "a function that may not run": (
        "concurrency", "batch-handler",
        lambda p: p.client("lambda").put_function_concurrency(
            FunctionName=p.function("BatchHandler"), ReservedConcurrentExecutions=0,
        ),
        lambda p: p.client("lambda").delete_function_concurrency(FunctionName=p.function("BatchHandler")),
    ),
    "a reservation that leaves the others too little": (
        "concurrency", "account",
        lambda p: p.client("lambda").put_function_concurrency(
            FunctionName=p.function("Api"), ReservedConcurrentExecutions=950,
        ),
        lambda p: p.client("lambda").delete_function_concurrency(FunctionName=p.function("Api")),
    ),
    "a queue without a dead-letter queue": (
        "redrive", "elect", lambda p: p.change_queue("ElectQueue", RedrivePolicy=""),
        lambda p: p.change_queue("ElectQueue", RedrivePolicy=redrive(p)),
    ),
    "a lock of a leader that died": (
        "locks", "labels:left", lock, lambda p: p.remove("BatchLock", {"Target": {"S": "labels:left"}}),
    ),
    "a task of a route that is gone": (
        "waiting", None, task, lambda p: p.remove("Task", {"Id": {"S": "left"}}),
    ),
    "alarms that tell nobody": (
        "alarms", None, lambda p: p.client("cloudwatch").disable_alarm_actions(AlarmNames=alarm_names(p)),
        lambda p: p.client("cloudwatch").enable_alarm_actions(AlarmNames=alarm_names(p)),
    ),
    "an alarm": (
        "ringing", None,
        lambda p: p.client("cloudwatch").set_alarm_state(
            AlarmName=alarm_names(p)[0], StateValue="ALARM", StateReason="a drill",
        ),
        lambda p: p.client("cloudwatch").set_alarm_state(
            AlarmName=alarm_names(p)[0], StateValue="OK", StateReason="over",
        ),
    ),
}
"""By what is planted: the check that finds it, of what, how it is planted, and how it is mended."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_by_the_name_of_its_check(patient, fault):
    check, of, plant, mend = FAULTS[fault]
    plant(patient)
    try:
        code, ill = patient.look()
    finally:
        mend(patient)
    assert code == 1
    assert ill[check]["verdict"] == "wrong", ill
    assert of is None or of in ill[check]["of"], ill[check]


def test_an_old_message_is_found(patient):
    age(patient)
    code, ill = patient.look()
    assert (code, ill["oldest"]["of"]) == (1, ["handle"])


def test_a_function_that_is_gone_is_found(patient):
    """The last: nothing brings it back."""
    patient.client("lambda").delete_function(FunctionName=patient.function("Sweep"))
    _, ill = patient.look("--skip", "oldest")
    assert ill["functions"]["of"] == ["sweep"] and ill["functions"]["verdict"] == "wrong"
