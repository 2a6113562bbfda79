"""What the template's policies allow, evaluated without a stack."""

import json
from urllib.request import ProxyHandler, Request, build_opener

import pytest

import roles
from local import local_stack
from stack import ROOT
from template import DOWNSTREAMS, PARAMETERS, STACK, Template, functions, parsed, people

TABLES = "AWS::DynamoDB::Table"
QUEUES = "AWS::SQS::Queue"


@pytest.fixture(scope="module")
def template() -> Template:
    return Template(**PARAMETERS)


def test_the_reference_says_what_the_policies_allow():
    written = (ROOT / "docs/reference/roles.md").read_text()
    assert written == roles.page(), "write it anew: target/tools/stack/bin/python tests/e2e/roles.py > docs/reference/roles.md"


def test_the_reference_asks_about_every_action_that_a_statement_names(template):
    asked = {f"{roles.SERVICES[kind]}:{action}" for kind, actions in roles.ACTIONS.items() for action in actions}
    named = set()
    for role in [*people(template).values(), *functions(template).values()]:
        for statement in (statement for document in role.documents for statement in document["Statement"]):
            actions = statement["Action"]
            named |= {actions} if isinstance(actions, str) else set(actions)
    assert named - asked == {"execute-api:Invoke"}


def test_a_sender_puts_messages_into_the_intake_and_does_nothing_else(template):
    sender = people(template)["Sender"]
    may = {
        (name, action)
        for name, kind, arn, keys in roles.resources(template)
        for action in roles.allowed(sender, kind, arn, keys)
    }
    assert may == {("TaskQueue", "SendMessage"), ("InOrderQueue", "SendMessage")}


def test_a_reader_sees_no_payload(template):
    """Payloads are in tables, in messages, in logs of nobody, and in the answer that shows what waits on a list."""
    reader, door = people(template)["Reader"], template.resolved({"Fn::GetAtt": "ApiDoor.Outputs.Arn"})
    for name, kind, arn, keys in roles.resources(template):
        if kind in (TABLES, "AWS::Logs::LogGroup", "secret"):
            assert roles.allowed(reader, kind, arn, keys) == [], name
        assert not reader.may("sqs:ReceiveMessage", arn), name
    assert reader.may("execute-api:Invoke", f"{door}/GET/lists/parcels")
    assert not reader.may("execute-api:Invoke", f"{door}/GET/lists/parcels/tasks")


def test_a_reader_changes_nothing_over_http(template):
    reader, door = people(template)["Reader"], template.resolved({"Fn::GetAtt": "ApiDoor.Outputs.Arn"})
    posts = [path for method, path in roles.operations() if method != "GET"]
    assert len(posts) >= 10
    assert not any(reader.may("execute-api:Invoke", f"{door}/POST{path}") for path in posts)


READS = {
    "/batches/{id}", "/failed", "/lists/{id}", "/openapi.json", "/routes", "/routes/{id}/calls", "/streams/{id}",
    "/targets/{id}/calls", "/tasks/{id}", "/trackers/{id}", "/trackers/{id}/items",
}
"""What a reader may get. An operation that is added belongs here, or to what ReaderPolicy does not allow."""


def test_a_reader_gets_what_is_listed_and_nothing_that_is_added(template):
    reader = people(template)["Reader"]
    door = template.resolved({"Fn::GetAtt": "ApiDoor.Outputs.Arn"})
    gets = {path for method, path in roles.operations() if method == "GET"} | {"/secrets", "/routes/{id}/secret"}
    assert {path for path in gets if reader.may("execute-api:Invoke", f"{door}/GET{path}")} == READS


def test_the_door_takes_a_bounded_number_of_calls_a_second():
    stage = Template("infra/api.yaml", CallsPerSecond=500).properties("Stage")
    assert stage["DefaultRouteSettings"] == {"ThrottlingRateLimit": 500, "ThrottlingBurstLimit": 500}
    assert Template().properties("ApiDoor")["Parameters"]["CallsPerSecond"] == 500


def test_a_viewer_sees_every_table_and_queue_that_needs_a_person_and_changes_nothing(template):
    viewer = people(template)["Viewer"]
    may = {
        (name, action)
        for name, kind, arn, keys in roles.resources(template)
        for action in roles.allowed(viewer, kind, arn, keys)
    }
    assert [name for name, action in may if action == "Scan"] == ["TaskTable index Waiting"]
    looks = {"GetItem", "BatchGetItem", "Query", "Scan", "GetQueueAttributes", "GetQueueUrl", "DescribeStacks"}
    looks |= {"GetMetricData"}
    received = {name for name, action in may if action not in looks}
    assert {action for _, action in may} == looks | {"ReceiveMessage", "ChangeMessageVisibility"}
    assert received == {"NotificationQueue", "RejectedQueue"} | {
        f"{step}DeadLetterQueue" for step in ("Task", "InOrder", "Elect", "Group", "Handle", "LongHandle")
    }, "to look at a message is to receive it and to give it back"
    seen = {name.split(" ")[0].removesuffix(",") for name, action in may if action == "Query"}
    assert seen == set(template.of_type(TABLES)), "no table is left out"


def test_only_a_publisher_writes_the_routes(template):
    arn = template.arn("RouteTable")
    writers = [
        name
        for name, role in {**functions(template), **people(template)}.items()
        if any(role.may(f"dynamodb:{action}Item", arn) for action in ("Put", "Update", "Delete", "BatchWrite"))
    ]
    assert writers == ["Publisher"]


def test_who_makes_calls_takes_tickets_at_gates(template):
    """In a busy line that is an update, which no read and no put stands for."""
    locks = template.arn("BatchLockTable")
    assert functions(template)["BatchHandler"].may("dynamodb:UpdateItem", locks)
    worker = people(template)["Worker"]
    for key in ("#route:{}", "#target:{}:printer"):
        for route, may in (("labels", True), ("parcels", False)):
            keys = {"dynamodb_LeadingKeys": [key.format(route)]}
            assert worker.may("dynamodb:UpdateItem", locks, **keys) == may, (key, route)
    assert worker.may("dynamodb:UpdateItem", locks, dynamodb_LeadingKeys=["#limit:tokens"]), "of several routes"


def test_only_an_eraser_erases(template):
    """The API's own policy allows every operation, these too."""
    door = template.resolved({"Fn::GetAtt": "ApiDoor.Outputs.Arn"})
    for operation in ("POST/tasks/erasures", "GET/tasks/p1/export"):
        may = [name for name, role in people(template).items() if role.may("execute-api:Invoke", f"{door}/{operation}")]
        assert may == (["Api", "Operator", "Eraser"] if "GET" in operation else ["Api", "Eraser"]), operation
    scans = [name for name, role in people(template).items() if role.may("dynamodb:Scan", template.arn("TaskTable"))]
    assert scans == ["Eraser"]
    eraser = people(template)["Eraser"]
    assert not eraser.may("dynamodb:PutItem", template.arn("RouteTable"))
    assert not eraser.may("sqs:ReceiveMessage", template.arn("TaskQueue"))


def test_only_the_handler_reads_secrets_and_only_it_calls_downstreams(template):
    everybody = {**functions(template), **people(template)}
    [secret] = PARAMETERS["SecretArns"]
    for action, arn in [("secretsmanager:GetSecretValue", secret), *DOWNSTREAMS.values()]:
        assert [n for n, role in everybody.items() if role.may(action, arn)] == ["BatchHandler"], action
        assert not [n for n, role in everybody.items() if role.may(action, f"{arn}-other")], action


def test_no_statement_for_things_beside_the_stack_goes_unasked():
    """A list of ARNs that is empty switches its statement off, and then no test here sees it."""
    optional = [name for name, one in parsed()["Parameters"].items() if name.endswith("Arns") and one["Default"] == ""]
    assert len(optional) >= 3
    assert [name for name in optional if name not in PARAMETERS] == []


def test_a_worker_reaches_the_routes_that_it_was_given():
    """Batches of other routes are not found, other pools not joined, gates and lanes of other routes not touched."""
    template = Template(**PARAMETERS | {"WorkerRoutes": ["labels", "letters"]})
    worker = people(template)["Worker"]
    batches, locks = template.arn("BatchTable") + "/index/Unfinished", template.arn("BatchLockTable")
    for action, arn, key in [
        ("Query", batches, "{}#0#pull"),
        ("Query", template.arn("SessionTable"), "{}"),
        ("PutItem", template.arn("SessionTable"), "{}"),
        ("PutItem", locks, "#route:{}"),
        ("PutItem", locks, "#target:{}:printer"),
        ("PutItem", template.arn("LaneTable"), "{}:key"),
    ]:
        for route, may in [("labels", True), ("letters", True), ("parcels", False), ("lab", False), ("labels2", False)]:
            keys = {"dynamodb_LeadingKeys": [key.format(route)]}
            assert worker.may(f"dynamodb:{action}", arn, **keys) == may, (action, key, route)
    both = {"dynamodb_LeadingKeys": ["labels#0#pull", "parcels#0#pull"]}
    assert not worker.may("dynamodb:Query", batches, **both), "one key of another route spoils the request"


def test_a_worker_of_a_stack_that_names_no_routes_reaches_all():
    worker = people(Template())["Worker"]
    keys = {"dynamodb_LeadingKeys": ["parcels#0#pull"]}
    assert worker.may("dynamodb:Query", Template().arn("BatchTable") + "/index/Unfinished", **keys)
    sessions = Template().arn("SessionTable")
    pools = {pool: worker.may("dynamodb:PutItem", sessions, dynamodb_LeadingKeys=[pool]) for pool in ("parcels", "#handlers-0")}
    assert pools == {"parcels": True, "#handlers-0": False}, "a worker that pulls is no batch-handler"


def test_every_function_that_sends_tasks_is_known_to_register_task(template):
    """Who may send to the intake and is none of the stack's own could not hand on what names an item or an event."""
    variables = template.properties("RegisterTaskFunction")["Environment"]["Variables"]
    own, trusted = (variables[f"GROUPAGE_{kind}_SENDERS"].split(",") for kind in ("OWN", "TRUSTED"))
    intake = [template.arn(name) for name in ("TaskQueue", "InOrderQueue")]
    senders = {
        f"{name}Role.RoleId"
        for name, role in functions(template).items()
        if any(role.may("sqs:SendMessage", queue) for queue in intake)
    }
    assert len(senders) == 3
    assert own == ["RegisterTaskRole.RoleId", "111122223333"]
    assert senders == {own[0], *trusted} - {""}


@pytest.mark.parametrize(("named", "others"), [({}, ""), ({"TrustedSenderIds": ["AROASHOP", "AIDAFEEDER"]}, "AROASHOP,AIDAFEEDER")])
def test_nobody_beside_the_stack_acks_by_a_message_unless_the_stack_names_them(named, others):
    """What register-task makes of the list is `a_role_is_known_by_its_id_whatever_its_session_is_named`."""
    variables = Template(**named).properties("RegisterTaskFunction")["Environment"]["Variables"]
    assert variables["GROUPAGE_TRUSTED_SENDERS"] == f"ApiRole.RoleId,SweepRole.RoleId,{others}"


def test_the_door_has_each_operation_of_the_document_and_asks_iam_at_each(tmp_path):
    with local_stack(tmp_path) as environment:
        request = Request(f"{environment['GROUPAGE_API_URL']}/openapi.json")
        with build_opener(ProxyHandler({})).open(request) as response:
            document = json.load(response)
    documented = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert set(roles.operations()) == documented
    assert len(roles.operations()) == len(documented)
    door = parsed("infra/api.yaml")["Resources"].values()
    ways_in = [resource["Properties"] for resource in door if resource["Type"] == "AWS::ApiGatewayV2::Route"]
    assert {way["AuthorizationType"] for way in ways_in} == {"AWS_IAM"}
    assert "FunctionUrlConfig" not in parsed()["Resources"]["ApiFunction"]["Properties"]


def test_each_policy_fits_what_iam_takes(template):
    """6,144 characters without white space, with names as long as CloudFormation makes them."""
    for name, role in people(template).items():
        text = json.dumps(role.documents[0], separators=(",", ":"))
        arns = text.count("arn:aws:")
        # A generated name is STACK-NAME-TWELVE_CHARACTERS; a stack's name here has 20.
        longest = len(text) + arns * (20 + 14) - text.count(STACK) * len(STACK)
        assert longest <= 6144, (name, longest)
