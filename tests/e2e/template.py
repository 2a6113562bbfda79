"""The template without a stack: its resources with every reference resolved, and its policies evaluated as IAM does."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ministack.core import iam_evaluator
from samtranslator.yaml_helper import yaml_parse

ROOT = Path(__file__).resolve().parents[2]

ACCOUNT, REGION, STACK = "111122223333", "eu-north-1", "groupage"

DOWNSTREAMS = {
    "DownstreamFunctionArns": ("lambda:InvokeFunction", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:downstream"),
    "DownstreamQueueArns": ("sqs:SendMessage", f"arn:aws:sqs:{REGION}:{ACCOUNT}:downstream"),
    "DownstreamBusArns": ("events:PutEvents", f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/downstream"),
    "DownstreamStateMachineArns": (
        "states:StartExecution", f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:downstream"
    ),
}
"""The parameters that allow a kind of downstream: with what batch-handler may do, and to what."""

PARAMETERS = {
    "NotificationQueueArns": [f"arn:aws:sqs:{REGION}:{ACCOUNT}:somebody-elses"],
    "SecretArns": [f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:downstream-key"],
    "WorkerRoutes": ["labels"],
} | {name: [arn] for name, (_, arn) in DOWNSTREAMS.items()}
"""Parameters of a stack that uses everything. The others have their defaults, each list one of strings."""

ARNS = {
    "AWS::DynamoDB::Table": "dynamodb:{region}:{account}:table/{name}",
    "AWS::SQS::Queue": "sqs:{region}:{account}:{name}",
    "AWS::Serverless::Function": "lambda:{region}:{account}:function:{name}",
    "AWS::Logs::LogGroup": "logs:{region}:{account}:log-group:{name}:*",
    "AWS::IAM::Role": "iam::{account}:role/{name}",
}
"""What an ARN of each type looks like. Each resource is named as in the template."""


@cache
def parsed(path: str = "template.yaml") -> dict:
    """A template of the repository as YAML."""
    return yaml_parse((ROOT / path).read_text())


class Template:
    """A template with these parameters; those that are not given have their defaults."""

    def __init__(self, path: str = "template.yaml", **parameters):
        self.source = parsed(path)
        self.resources = self.source["Resources"]
        self._parameters = {
            name: self._default(parameter) for name, parameter in self.source.get("Parameters", {}).items()
        } | parameters

    @staticmethod
    def _default(parameter: dict):
        value = parameter.get("Default", "")
        return value.split(",") if parameter["Type"] == "CommaDelimitedList" else value

    def of_type(self, kind: str) -> dict[str, dict]:
        """Resources of a type by name, those that a condition leaves out excepted."""
        return {
            name: resource
            for name, resource in self.resources.items()
            if resource["Type"] == kind and self.holds(resource.get("Condition"))
        }

    def properties(self, name: str) -> dict:
        """What a resource is made with."""
        return self.resolved(self.resources[name].get("Properties", {}))

    def arn(self, name: str) -> str:
        shape = ARNS[self.resources[name]["Type"]]
        return "arn:aws:" + shape.format(region=REGION, account=ACCOUNT, name=name)

    def holds(self, condition) -> bool:
        """Whether a condition, by name or spelt out, holds."""
        match condition:
            case None:
                return True
            case str():
                return self.holds(self.source["Conditions"][condition])
            case {"Condition": name}:
                return self.holds(name)
            case {"Fn::Not": [negated]}:
                return not self.holds(negated)
            case {"Fn::And": all_of}:
                return all(self.holds(one) for one in all_of)
            case {"Fn::Or": any_of}:
                return any(self.holds(one) for one in any_of)
            case {"Fn::Equals": [one, other]}:
                return str(self.resolved(one)) == str(self.resolved(other))
        raise AssertionError(f"an unknown condition: {condition}")

    def resolved(self, value):
        """A value with every function of CloudFormation's carried out. What comes to nothing is left out of lists."""
        match value:
            case {"Ref": name}:
                return self._reference(name)
            case {"Fn::GetAtt": [name, attribute]}:
                return self._attribute(name, attribute)
            case {"Fn::GetAtt": str(path)}:
                return self._attribute(*path.split(".", 1))
            case {"Fn::Sub": [text, names]}:
                return self._substituted(text, {name: self.resolved(given) for name, given in names.items()})
            case {"Fn::Sub": text}:
                return self._substituted(text, {})
            case {"Fn::Join": [separator, parts]}:
                return separator.join(str(part) for part in self.resolved(parts))
            case {"Fn::Split": [separator, text]}:
                return self.resolved(text).split(separator)
            case {"Fn::If": [condition, then, otherwise]}:
                return self.resolved(then if self.holds(condition) else otherwise)
            case dict():
                resolved = {key: self.resolved(given) for key, given in value.items()}
                return {key: given for key, given in resolved.items() if given is not None}
            case list():
                return [given for given in map(self.resolved, value) if given is not None]
        return value

    def _reference(self, name: str):
        pseudo = {
            "AWS::AccountId": ACCOUNT, "AWS::Region": REGION, "AWS::Partition": "aws", "AWS::StackName": STACK,
            "AWS::NoValue": None, "AWS::URLSuffix": "amazonaws.com",
        }
        if name in pseudo:
            return pseudo[name]
        return self._parameters[name] if name in self._parameters else name

    def _attribute(self, name: str, attribute: str) -> str:
        if attribute == "Arn":
            return self.arn(name)
        if attribute == "Outputs.Arn":
            return f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{name}/$default"
        return f"{name}.{attribute}"

    def _substituted(self, text: str, names: dict[str, str]) -> str:
        parts = text.split("${")
        done = [parts[0]]
        for part in parts[1:]:
            name, rest = part.split("}", 1)
            if name in names:
                given = names[name]
            elif "." in name:
                given = self._attribute(*name.split(".", 1))
            else:
                given = self._reference(name)
            done.append(f"{given}{rest}")
        return "".join(done)


@dataclass(frozen=True)
class Role:
    """A role of the template, or a policy that is attached to one, and what it may do."""

    name: str
    documents: tuple[dict, ...]

    def may(self, action: str, resource: str, secure: bool = True, **keys) -> bool:
        """Whether IAM lets somebody with this role alone do this to that; `keys` are those of the request's
        conditions."""
        context = iam_evaluator.EvalContext(
            principal_arn=f"arn:aws:iam::{ACCOUNT}:role/{self.name}", principal_type="AssumedRole",
            principal_account=ACCOUNT, action=action, resource_arn=resource, region=REGION, secure_transport=secure,
            service_context={name.replace("_", ":").lower(): value for name, value in keys.items()},
        )
        policies = [iam_evaluator.parse_policy_document(document) for document in self.documents]
        return iam_evaluator.evaluate(context, policies).decision == "Allow"


def people(template: Template) -> dict[str, Role]:
    """The managed policies, by their names without `Policy`."""
    return {
        name.removesuffix("Policy"): Role(name, (template.properties(name)["PolicyDocument"],))
        for name in template.of_type("AWS::IAM::ManagedPolicy")
    }


def functions(template: Template) -> dict[str, Role]:
    """The functions' roles, by their names without `Role`."""
    return {
        name.removesuffix("Role"): Role(
            name, tuple(policy["PolicyDocument"] for policy in template.properties(name)["Policies"])
        )
        for name in template.of_type("AWS::IAM::Role")
    }
