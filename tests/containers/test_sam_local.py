"""The walk of `docs/guides/sam-local.md`, as it is written: every function in a container, on its event, then all of
them together on tasks. `tests/sam-local` runs this with a container engine. Only the ports differ."""

from emulator import free_port
from stack import PATIENCE_S, ROOT
from walk import script, type_in

FUNCTIONS = ["RegisterTask", "ElectLeader", "GroupBatch", "BatchHandler", "Sweep", "Api"]


def test_each_function_handles_its_event_in_a_container_as_the_guide_says(tmp_path):
    (tmp_path / "target").mkdir()
    for name in ("tests", "infra", "examples", "rust-toolchain.toml", "target/tools", "target/debug", "target/sam"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("local.yaml", "env.json"):
        (ROOT / "target/sam" / name).unlink(missing_ok=True)
    ports = " ".join(f"--{name}-port {free_port()}" for name in ("dynamodb", "sqs", "http"))
    walk = script("docs/guides/sam-local.md", "containers")
    assert all(f"invoke {name}Function " in walk for name in FUNCTIONS)
    walk = walk.replace("groupage local ", f"groupage local {ports} ").replace("3001", str(free_port()))
    downstream = free_port()  # The routes file of the example has 9000 at another address, and keeps it.
    for address in ("localhost", "172.17.0.1"):
        walk = walk.replace(f"{address}:9000", f"{address}:{downstream}")
    printed = type_in(walk, tmp_path, patience_s=5 * PATIENCE_S)
    answers = [line for line in printed.splitlines() if line in ('{"batchItemFailures": []}', "null")]
    assert answers == ['{"batchItemFailures": []}'] * 4 + ["null"], printed
    assert '"statusCode": 200' in printed and '\\"succeeded\\"' in printed, printed
    assert "12 tasks settled once each" in printed, printed
    for told in ('"TasksGathered":2', '"ElectionsWon":1'):
        assert told in printed, f"{told} is missing: the functions did not reach the stack\n{printed}"
