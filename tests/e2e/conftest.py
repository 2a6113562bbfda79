"""One deployed stack and one run of work for all tests: each test looks at another side of what came out."""

import io
import shutil
import signal
import string
import tempfile
import zipfile
from pathlib import Path

import pytest

import hostile as corpus
from collector import Collector
from downstream import API_KEY, Downstream
from emulator import Emulator
from handed import Handed
from recovery import Recovery
from stack import ARCHITECTURE, Stack, client
from work import Run, Work

HERE = Path(__file__).parent

# `tests/run` ends this process when another test has failed: what it started must be stopped as after Ctrl-C.
signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def emulator(request):
    home = Path(tempfile.mkdtemp(prefix="groupage-e2e-"))
    emulator = Emulator(home)
    yield emulator
    emulator.stop()
    # Who stops the tests ends functions in the middle of their invocations.
    if request.session.exitstatus != pytest.ExitCode.INTERRUPTED:
        emulator.check()
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def downstream():
    downstream = Downstream()
    yield downstream
    downstream.stop()


@pytest.fixture(scope="session")
def hostile():
    hostile = corpus.Downstream()
    yield hostile
    hostile.stop()


@pytest.fixture(scope="session")
def handed(emulator):
    handed = Handed(emulator)
    yield handed
    handed.stop()


@pytest.fixture(scope="session")
def collector():
    collector = Collector()
    yield collector
    collector.stop()


@pytest.fixture(scope="session")
def stack(emulator, downstream, hostile, handed, collector) -> Stack:
    """The stack with everything a route may name beside it, and the routes in place."""
    secret = client(emulator, "secretsmanager").create_secret(Name="truck-api-key", SecretString=API_KEY + "\n")["ARN"]
    success_queue = client(emulator, "sqs").create_queue(QueueName="letters-sorted")["QueueUrl"]
    attributes = client(emulator, "sqs").get_queue_attributes(QueueUrl=success_queue, AttributeNames=["QueueArn"])
    function = _stamps_function(emulator)
    stack = Stack(
        emulator,
        "groupage-e2e",
        {
            "Architecture": ARCHITECTURE,
            "NotificationQueueArns": attributes["Attributes"]["QueueArn"],
            "SecretArns": secret,
            "DownstreamFunctionArns": f"{function},{handed.later}",
            **handed.parameters(),
            "SecretHosts": f"127.0.0.1={secret}",
            "PrivateHosts": "127.0.0.1",
            "LongCalls": "true",
            # As much as can be asked for: what must not be logged is not logged even so.
            "LogFilter": "trace,aws_smithy_runtime::client=trace,lambda_runtime=trace,lambda_http=trace",
            "LogTargets": "false",
            "OtlpEndpoint": collector.url,
        },
    )
    stack.success_queue = success_queue
    stack.allow_batches()
    routes = string.Template((HERE / "routes.yaml").read_text()).substitute(
        downstream=downstream.url, secret=secret, success_queue=success_queue, function=function
    )
    file = emulator.log.with_name("routes.yaml")
    file.write_text(routes + hostile.routes() + handed.routes())
    stack.groupage("push", file)
    return stack


def _stamps_function(emulator: Emulator) -> str:
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.write(HERE / "stamps.py", "stamps.py")
    role = client(emulator, "iam").create_role(RoleName="stamps", AssumeRolePolicyDocument='{"Statement": []}')
    return client(emulator, "lambda").create_function(
        FunctionName="stamps",
        Runtime="python3.12",
        Handler="stamps.handler",
        Role=role["Role"]["Arn"],
        Code={"ZipFile": code.getvalue()},
    )["FunctionArn"]


@pytest.fixture(scope="session")
def run(stack, downstream) -> Run:
    """All the work, sent, and everything about it settled."""
    return Run(stack, downstream, Work())


@pytest.fixture(scope="session")
def recovery(run, stack, downstream, report) -> Recovery:
    """The stack after it lost everything that can be lost, and recovered."""
    recovery = Recovery(stack, downstream)
    report.extend(recovery.report())
    return recovery


def pytest_addoption(parser):
    parser.addoption(
        "--emulator", choices=["only", "not"],
        help="run only the tests that need the emulator of AWS, or only those that do not, side by side in two processes",
    )


def pytest_collection_modifyitems(config, items):
    """Keeps the tests of this process: a fixture of theirs starts the shared emulator, by name or as a parameter."""
    def needs_it(item) -> bool:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        return "emulator" in item.fixturenames or "deployed" in parameters

    if half := config.getoption("emulator"):
        others = {item for item in items if needs_it(item) != (half == "only")}
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]


REPORT = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def report(request) -> list[str]:
    """Lines for people, printed after all tests: what was measured and is not judged."""
    return request.config.stash.setdefault(REPORT, [])


def pytest_terminal_summary(terminalreporter, config):
    for line in config.stash.get(REPORT, []):
        terminalreporter.write_line(line)
