"""What the template promises beside the main job: permissions, alarms, the dashboard, outputs."""

import json
import re
import subprocess

import boto3
import botocore.exceptions
import pytest
from samtranslator.yaml_helper import yaml_parse

from local import local_stack
from pages import blocks, commands
from stack import AWS_CLI, PATIENCE_S, ROOT
from template import Template
from work import STEPS


def test_roles_are_enforced_here(stack, emulator):
    """Without this, the run would prove nothing about the template's policies."""
    iam = stack.client("iam")
    iam.create_user(UserName="nobody")
    key = iam.create_access_key(UserName="nobody")["AccessKey"]
    nobody = boto3.client(
        "dynamodb", endpoint_url=emulator.endpoint, region_name="us-east-1",
        aws_access_key_id=key["AccessKeyId"], aws_secret_access_key=key["SecretAccessKey"],
    )
    with pytest.raises(botocore.exceptions.ClientError, match="AccessDenied"):
        nobody.scan(TableName=stack.outputs["TaskTableName"])


WHOLE_ACCOUNT = {
    "cloudwatch:DescribeAlarms", "cloudwatch:GetMetricData", "lambda:GetAccountSettings", "lambda:ListEventSourceMappings",
}
"""Reads of which AWS knows no narrower resource than the account."""


def test_no_policy_has_a_wildcard(stack):
    iam = stack.client("iam")
    assert len(stack.roles()) == 6
    policies = [stack.policy(arn) for arn in stack.policies()]
    for role in stack.roles():
        assert iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"] == []
        names = iam.list_role_policies(RoleName=role)["PolicyNames"]
        policies += [iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"] for name in names]
    for statement in (statement for policy in policies for statement in policy["Statement"]):
        for action in _listed(statement["Action"]):
            assert "*" not in action
        if statement["Resource"] == "*":
            assert set(_listed(statement["Action"])) <= WHOLE_ACCOUNT
            continue
        for resource in _listed(statement["Resource"]):
            if ":execute-api:" in resource:
                # Paths hold ids: an API's own part is named in full.
                resource = resource[: resource.index("/$default/")]
            assert "*" not in resource.removesuffix(_unnamed(resource))


def test_every_alarm_watches_something_that_exists(stack):
    sqs, functions = stack.client("sqs"), stack.client("lambda")
    alarms = stack.alarms()
    watched = {(a["MetricName"], a["Dimensions"][0]["Value"]) for a in alarms}
    assert len(alarms) == len(watched) == 58
    for alarm in alarms:
        [dimension] = alarm["Dimensions"]
        if dimension["Name"] == "QueueName":
            sqs.get_queue_url(QueueName=dimension["Value"])
        elif dimension["Name"] == "TableName":
            stack.client("dynamodb").describe_table(TableName=dimension["Value"])
        elif dimension["Name"] == "ApiId":
            stack.client("apigatewayv2").get_api(ApiId=dimension["Value"])
        else:
            functions.get_function(FunctionName=dimension["Value"])


def test_the_runbooks_commands_of_aws_answer_what_it_asks(stack):
    """As it says them, with the name of this stack's function in its place."""
    written = [command.line for block in blocks("docs/operations.md") for command in commands(block)]
    written = [line for line in written if line.startswith("aws ")]
    function = stack.outputs["SweepFunctionName"]
    asked = {line: json.loads(_answer(stack, line.replace("SWEEP_FUNCTION_NAME", function))) for line in written}
    [rules] = [answer for line, answer in asked.items() if "list-rules" in line]
    assert [rule["State"] for rule in rules] == ["ENABLED"]
    assert len(asked) == 2


def _answer(stack, line: str) -> str:
    environment = stack.environment | {"PATH": f"{AWS_CLI.parent}:{stack.environment['PATH']}"}
    done = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    # What sweep answers, `null`, stands before what Lambda says of it.
    return re.search(r"[\[{].*", done.stdout, re.DOTALL)[0]


def test_sweep_is_called_every_minute_and_an_alarm_says_if_it_is_not(stack):
    function, events = stack.outputs["SweepFunctionName"], stack.client("events")
    arn = stack.client("lambda").get_function_configuration(FunctionName=function)["FunctionArn"]
    [name] = events.list_rule_names_by_target(TargetArn=arn)["RuleNames"]
    rule = events.describe_rule(Name=name)
    assert (rule["ScheduleExpression"], rule["State"]) == ("rate(1 minute)", "ENABLED")
    alarms = stack.alarms()
    [alarm] = [alarm for alarm in alarms if alarm["MetricName"] == "Invocations"]
    assert alarm["Dimensions"] == [{"Name": "FunctionName", "Value": function}]
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 1)
    assert alarm["TreatMissingData"] == "breaching"


def test_each_dead_letter_queue_has_an_alarm(stack):
    alarms = stack.alarms()
    watched = {alarm["Dimensions"][0]["Value"] for alarm in alarms}
    dead = {url.rsplit("/", 1)[1] for name, url in stack.outputs.items() if name.endswith("DeadLetterQueueUrl")}
    assert len(dead) == 6
    assert dead <= watched


def test_the_dashboard_shows_queues_functions_and_tables_that_exist(stack):
    body = stack.client("cloudwatch").get_dashboard(DashboardName=stack.name)["DashboardBody"]
    functions = {name for key, name in stack.outputs.items() if key.endswith("FunctionName")}
    queues = {url.rsplit("/", 1)[1] for key, url in stack.outputs.items() if key.endswith("QueueUrl")}
    shown = {
        field
        for widget in json.loads(body)["widgets"]
        for metric in widget["properties"]["metrics"]
        for field in metric
        if isinstance(field, str) and field.startswith(stack.name)
    }
    tables = {name for key, name in stack.outputs.items() if key.endswith("TableName")}
    assert functions <= shown
    assert shown <= functions | queues | tables


def test_the_dashboard_shows_metrics_that_the_functions_publish(stack):
    source = (ROOT / "shared/aws/src/entry/metrics.rs").read_text()
    published = set(re.findall(r"^    ([A-Z]\w+),$", source, re.MULTILINE))
    body = json.loads(stack.client("cloudwatch").get_dashboard(DashboardName=stack.name)["DashboardBody"])
    shown = set()
    for widget in body["widgets"]:
        metrics = widget["properties"]["metrics"]
        for before, metric in zip([None, *metrics], metrics):
            # "." repeats the field of the metric before.
            metric[:2] = [old if new == "." else new for new, old in zip(metric, before or metric)][:2]
            if metric[0] == "Groupage":
                shown.add(metric[1])
    assert len(shown) >= 10
    assert shown <= published


def test_a_dead_letter_queue_outlives_its_source_and_takes_messages_from_nowhere_else(stack):
    for step in ("Task", "InOrder", "Elect", "Group", "Handle", "LongHandle"):
        source, dead = stack.attributes(f"{step}Queue"), stack.attributes(f"{step}DeadLetterQueue")
        assert json.loads(source["RedrivePolicy"])["deadLetterTargetArn"] == dead["QueueArn"]
        assert json.loads(dead["RedriveAllowPolicy"])["sourceQueueArns"] == [source["QueueArn"]]
        assert int(dead["MessageRetentionPeriod"]) > int(source["MessageRetentionPeriod"])


def test_a_message_stays_hidden_for_six_function_timeouts(stack):
    functions, sqs = stack.client("lambda"), stack.client("sqs")
    mappings = functions.list_event_source_mappings()["EventSourceMappings"]
    assert len(mappings) == 6
    for mapping in mappings:
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        timeout = functions.get_function_configuration(FunctionName=mapping["FunctionArn"])["Timeout"]
        url = sqs.get_queue_url(QueueName=mapping["EventSourceArn"].rsplit(":", 1)[1])["QueueUrl"]
        hidden = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"]
        assert int(hidden["VisibilityTimeout"]) >= 6 * timeout


LOOPING = ["RegisterTask", "ElectLeader", "GroupBatch", "BatchHandler", "LongBatchHandler"]


def test_each_function_that_a_message_may_come_back_to_is_allowed_to_loop():
    """Lambda refuses about the 17th invocation in a chain of messages, unless the function says that it means it."""
    resources = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]
    looping = _functions_on_a_cycle(resources)
    assert looping == {f"{step}Function" for step in LOOPING}
    assert _cut_by_aws(resources) == set()
    for name in _functions(resources) - looping:
        assert "RecursiveLoop" not in resources[name]["Properties"], f"{name} is on no cycle: leave it AWS's guard"


@pytest.mark.parametrize("step", LOOPING)
def test_a_function_on_a_cycle_that_lacks_the_setting_is_found(step):
    resources = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]
    del resources[f"{step}Function"]["Properties"]["RecursiveLoop"]
    assert _cut_by_aws(resources) == {f"{step}Function"}
    resources[f"{step}Function"]["Properties"]["RecursiveLoop"] = "Terminate"
    assert _cut_by_aws(resources) == {f"{step}Function"}


def test_a_new_loop_is_found_by_its_event_source_and_its_grant():
    """The graph decides, not a list: sweep is on no cycle until a queue that it may send to calls it."""
    resources = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]
    queue = {"Fn::GetAtt": "ElectQueue.Arn"}
    resources["SweepFunction"]["Properties"]["Events"]["Looped"] = {"Type": "SQS", "Properties": {"Queue": queue}}
    assert "SweepFunction" in _functions_on_a_cycle(resources)


def test_a_stack_that_nobody_watches_has_no_alarms_and_no_dashboard():
    nested = Template(Watched="true").of_type("AWS::CloudFormation::Stack")
    unwatched = Template(Watched="false").of_type("AWS::CloudFormation::Stack")
    assert len(nested) == len(unwatched) + 8
    assert not [name for name in unwatched if name.endswith("Alarms") or name == "Dashboard"]


def test_a_stack_without_long_calls_polls_no_queue_of_them_and_has_no_alarm_for_it():
    without, stopped = Template(), Template(LongCalls="true", Stopped="true")
    reads = {
        name: template.properties("LongBatchHandlerFunction")["Events"]["LongBatches"]["Properties"]["Enabled"]
        for name, template in {"without": without, "with": Template(LongCalls="true"), "stopped": stopped}.items()
    }
    assert reads == {"without": False, "with": True, "stopped": False}
    alarms = "LongBatchHandlerAlarms"
    assert alarms not in without.of_type("AWS::CloudFormation::Stack")
    assert alarms in Template(LongCalls="true").of_type("AWS::CloudFormation::Stack")
    assert alarms not in Template(LongCalls="true", Watched="false").of_type("AWS::CloudFormation::Stack")


def test_both_batch_handlers_are_one_program_with_one_role():
    usual, long = (Template().properties(f"{name}Function") for name in ("BatchHandler", "LongBatchHandler"))
    for same in ("CodeUri", "MemorySize", "Role", "RecursiveLoop"):
        assert usual[same] == long[same], same
    assert long["Environment"]["Variables"] == usual["Environment"]["Variables"] | {"GROUPAGE_LONG_CALLS": "true"}


def test_the_functions_take_what_the_template_says_of_sessions(stack):
    functions = stack.client("lambda")
    for function in STEPS.values():
        configuration = functions.get_function_configuration(FunctionName=stack.outputs[f"{function}Name"])
        variables = configuration["Environment"]["Variables"]
        assert (variables["GROUPAGE_HEARTBEAT_MS"], variables["GROUPAGE_SESSION_EXPIRY_MS"]) == ("1000", "5000")


TABLES = {
    "TASK": "TaskTable",
    "LOCK": "BatchLockTable",
    "BATCH": "BatchTable",
    "SESSION": "SessionTable",
    "TRACKER": "TrackerTable",
    "LIST": "ListTable",
    "LANE": "LaneTable",
    "STREAM": "StreamTable",
    "ROUTE": "RouteTable",
}
"""Each table's word in the environment, and its name in the template."""


def test_the_tables_are_those_of_the_embedded_stack(stack, tmp_path):
    """What runs on a laptop must run on AWS: keys, indexes, what these carry, and what expires."""
    with local_stack(tmp_path) as environment:
        endpoint = environment["AWS_ENDPOINT_URL_DYNAMODB"]
        local = boto3.client(
            "dynamodb", endpoint_url=endpoint, region_name="us-east-1",
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"], aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        )
        for word, name in TABLES.items():
            embedded = environment[f"GROUPAGE_{word}_TABLE"]
            assert _shape(stack.client("dynamodb"), stack.outputs[f"{name}Name"]) == _shape(local, embedded), name
            # The emulator takes no notice of it.
            expiry = _properties(name).get("TimeToLiveSpecification", {"AttributeName": None})
            expires_by = local.describe_time_to_live(TableName=embedded)["TimeToLiveDescription"].get("AttributeName")
            assert expiry["AttributeName"] == expires_by, name


def test_tables_are_encrypted_and_can_be_restored():
    for name in TABLES.values():
        properties = _properties(name)
        assert properties["SSESpecification"]["SSEEnabled"], name
        assert properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], name


def _functions(resources: dict) -> set[str]:
    """The names of all functions."""
    return {name for name, resource in resources.items() if resource["Type"] == "AWS::Serverless::Function"}


def _functions_on_a_cycle(resources: dict) -> set[str]:
    """Functions that may send to a queue from which, by way of other functions or none, a message calls them again."""
    calls = {name: set() for name in _functions(resources)}
    for name in calls:
        events = resources[name]["Properties"].get("Events", {}).values()
        sources = {_resource(event["Properties"]["Queue"]) for event in events if event["Type"] == "SQS"}
        for sender in calls:
            if sources & _sends_to(resources[_resource(resources[sender]["Properties"]["Role"])]):
                calls[sender].add(name)
    reached = {name: _reached(calls, name) for name in calls}
    return {name for name in calls if name in reached[name]}


def _cut_by_aws(resources: dict) -> set[str]:
    """Functions to which a message may come back, and which AWS then refuses to call."""
    return {
        name for name in _functions_on_a_cycle(resources)
        if resources[name]["Properties"].get("RecursiveLoop") != "Allow"
    }


def _reached(calls: dict[str, set[str]], start: str) -> set[str]:
    """What a call of `start` may lead to, in one step or more."""
    found, left = set(), [start]
    while left:
        new = calls[left.pop()] - found
        found |= new
        left.extend(new)
    return found


def _sends_to(role: dict) -> set[str]:
    """The stack's queues that a role may send to."""
    statements = (
        statement
        for policy in role["Properties"]["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if "Fn::If" not in statement and "sqs:SendMessage" in _listed(statement["Action"])
    )
    return {_resource(queue) for statement in statements for queue in _listed(statement["Resource"])}


def _resource(reference: dict) -> str:
    """The resource that a `!GetAtt` is about."""
    named = reference["Fn::GetAtt"]
    return named.split(".")[0] if isinstance(named, str) else named[0]


def _properties(resource: str) -> dict:
    """What the template says of a resource."""
    return yaml_parse((ROOT / "template.yaml").read_text())["Resources"][resource]["Properties"]


def _shape(dynamodb, name: str) -> dict:
    """Keys and indexes of a table."""
    table = dynamodb.describe_table(TableName=name)["Table"]
    types = {a["AttributeName"]: a["AttributeType"] for a in table["AttributeDefinitions"]}
    return {
        "keys": _keys(table, types),
        "indexes": {
            index["IndexName"]: (
                _keys(index, types),
                index["Projection"]["ProjectionType"],
                sorted(index["Projection"].get("NonKeyAttributes", [])),
            )
            for index in table.get("GlobalSecondaryIndexes", [])
        },
    }


def _keys(described: dict, types: dict[str, str]) -> list[tuple[str, str, str]]:
    return [(key["KeyType"], key["AttributeName"], types[key["AttributeName"]]) for key in described["KeySchema"]]


def _unnamed(resource: str) -> str:
    """The end of an ARN that has no name before it is used: the streams of a log group, the id of the stack itself."""
    if ":log-group:" in resource:
        return ":*"
    return "/*" if ":cloudformation:" in resource else ""


def _listed(value) -> list[str]:
    return value if isinstance(value, list) else [value]
