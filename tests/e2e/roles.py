"""Who may do what: every role of the template against every action on every resource, as a page of the reference.

`python tests/e2e/roles.py > docs/reference/roles.md` writes the page anew.
"""

from template import ACCOUNT, DOWNSTREAMS, PARAMETERS, REGION, STACK, Role, Template, functions, parsed, people

ACTIONS = {
    "AWS::DynamoDB::Table": [
        "GetItem", "BatchGetItem", "Query", "Scan", "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem",
        "ConditionCheckItem", "UpdateTable", "DeleteTable", "UpdateTimeToLive", "ExportTableToPointInTime",
        "DescribeTimeToLive", "DescribeContinuousBackups",
    ],
    "AWS::SQS::Queue": [
        "SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes", "GetQueueUrl",
        "PurgeQueue", "SetQueueAttributes", "AddPermission", "DeleteQueue", "StartMessageMoveTask",
    ],
    "AWS::Serverless::Function": [
        "InvokeFunction", "InvokeFunctionUrl", "UpdateFunctionCode", "GetFunction", "GetFunctionConfiguration",
        "GetFunctionConcurrency", "GetFunctionRecursionConfig",
    ],
    "AWS::Logs::LogGroup": ["CreateLogStream", "PutLogEvents", "GetLogEvents", "FilterLogEvents", "DeleteLogGroup"],
    "secret": ["GetSecretValue", "PutSecretValue", "DescribeSecret"],
    "functions": ["GetAccountSettings", "ListEventSourceMappings", "UpdateEventSourceMapping"],
    "metrics": ["DescribeAlarms", "GetMetricData", "PutMetricData", "DisableAlarmActions"],
    "stack": ["DescribeStacks", "UpdateStack", "DeleteStack"],
}
"""Every action that is asked about: those that some statement allows, and those that nobody should have."""

SERVICES = {
    "AWS::DynamoDB::Table": "dynamodb", "AWS::SQS::Queue": "sqs", "AWS::Serverless::Function": "lambda",
    "AWS::Logs::LogGroup": "logs", "secret": "secretsmanager", "functions": "lambda", "metrics": "cloudwatch",
    "stack": "cloudformation",
}

for parameter, (action, _) in DOWNSTREAMS.items():
    SERVICES[parameter], name = action.split(":")
    ACTIONS[parameter] = [name]

KEYS = {
    "SessionTable": ("labels", "parcels"),
    "BatchTable index Unfinished": ("labels#0#pull", "parcels#0#pull"),
    "BatchLockTable": ("#target:labels:printer", "#target:parcels:truck"),
    "LaneTable": ("labels:key", "parcels:key"),
}
"""Where a policy looks at keys: one of a route that the worker is given, and one of another."""


def operations() -> list[tuple[str, str]]:
    """Method and path of each operation of the HTTP API."""
    keys = [
        resource["Properties"]["RouteKey"].split(" ")
        for resource in parsed("infra/api.yaml")["Resources"].values()
        if resource["Type"] == "AWS::ApiGatewayV2::Route"
    ]
    return [(method, path) for method, path in keys]


def resources(template: Template) -> list[tuple[str, str, str, dict]]:
    """What each action is asked about: name, kind, ARN, and the keys of the request."""
    rows = []
    for kind in ("AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::Serverless::Function", "AWS::Logs::LogGroup"):
        for name in template.of_type(kind):
            arn = template.arn(name).removesuffix(":*")
            rows.append((name, kind, arn, {}))
            for index in template.properties(name).get("GlobalSecondaryIndexes", []):
                rows.append((f"{name} index {index['IndexName']}", kind, f"{arn}/index/{index['IndexName']}", {}))
    keyed = []
    for name, kind, arn, _ in rows:
        if name not in KEYS:
            keyed.append((name, kind, arn, {}))
            continue
        own, other = KEYS[name]
        keyed.append((name, kind, arn, {"dynamodb_LeadingKeys": [own]}))
        keyed.append((f"{name}, another route", kind, arn, {"dynamodb_LeadingKeys": [other]}))
    keyed.append(("somebody else's queue", "AWS::SQS::Queue", PARAMETERS["NotificationQueueArns"][0], {}))
    keyed += [(f"one of `{name}`", name, arn, {}) for name, (_, arn) in DOWNSTREAMS.items()]
    keyed.append(("a secret of `SecretArns`", "secret", PARAMETERS["SecretArns"][0], {}))
    keyed.append(("the account's functions", "functions", "*", {}))
    keyed.append(("the account's metrics and alarms", "metrics", "*", {}))
    keyed.append(("the stack", "stack", f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{STACK}/id", {}))
    return keyed


def allowed(role: Role, kind: str, arn: str, keys: dict) -> list[str]:
    """The actions that a role may do."""
    log_stream = ":stream" if kind == "AWS::Logs::LogGroup" else ""
    return [
        action for action in ACTIONS[kind] if role.may(f"{SERVICES[kind]}:{action}", arn + log_stream, **keys)
    ]


def table(template: Template, roles: dict[str, Role], of_people: bool) -> list[str]:
    """A row for each resource that any of the roles may do something to."""
    lines = [f"| | {' | '.join(roles)} |", f"|---|{'---|' * len(roles)}"]
    for name, kind, arn, keys in resources(template):
        cells = [", ".join(allowed(role, kind, arn, keys)) for role in roles.values()]
        if any(cells):
            lines.append(f"| {name} | {' | '.join(cells)} |")
    if of_people:
        for method, path in operations():
            arn = f"{template.resolved({'Fn::GetAtt': 'ApiDoor.Outputs.Arn'})}/{method}{path}"
            cells = ["Invoke" if role.may("execute-api:Invoke", arn) else "" for role in roles.values()]
            lines.append(f"| `{method} {path}` | {' | '.join(cells)} |")
    return lines


def page() -> str:
    """The whole page."""
    template = Template(**PARAMETERS)
    return "\n".join([
        "# Roles",
        "",
        "Who may do what, as the statements of `template.yaml` say it. A test evaluates them (`tests/e2e/test_roles.py`) and",
        "fails if this page says anything else. `python tests/e2e/roles.py > docs/reference/roles.md` writes it anew, with the",
        "Python of `target/tools/stack`. An action that is in no row is allowed to none of the roles: no role here changes or",
        "removes a table, a queue, a function or a log.",
        "",
        "## People and programs",
        "",
        "Each column is a managed policy of the stack. Its ARN is the output `…PolicyArn`; attach it to a role or a user.",
        "The worker is here one of a stack whose `WorkerRoutes` is `labels`.",
        "",
        *table(template, people(template), True),
        "",
        "## The functions",
        "",
        *table(template, functions(template), False),
        "",
    ])


if __name__ == "__main__":
    print(page(), end="")
