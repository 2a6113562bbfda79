"""Two versions of the functions on one stack, and a burst for both to work on."""

import io
import json
import random
import subprocess
import threading
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from samtranslator.yaml_helper import yaml_parse

from downstream import API_KEY, Downstream
from stack import BUILT, GROUPAGE, PATIENCE_S, ROOT, Stack
from work import STEPS, Fate

FORMER = ROOT / "target/former/target"
BUILT_FORMER, GROUPAGE_FORMER = FORMER / "sam/template.yaml", FORMER / "debug/groupage"
TODAYS, FORMERS = "1", "2"
"""The versions of each function, as Lambda numbers them."""

ROUTES = """
version: 1
routes:
  - name: parcels
    when: "type == 'parcel'"
    target: truck
    # So slow that a burst has a middle.
    batch: {{ max_items: 10, wait_ms: 1000 }}
    limits: {{ calls_per_second: 5, in_flight_per_target: 2 }}
    downstream: {{ http: {{ url: "{url}/load", headers: {{ X-Api-Key: {key} }} }} }}
    retry: {{ attempts: 5, base_ms: 500, cap_ms: 2000 }}
  - name: letters
    when: "type == 'letter'"
    target: district
    shards: 4
    batch: {{ max_items: 20, wait_ms: 500 }}
    downstream: {{ http: {{ url: "{url}/sort", headers: {{ X-Api-Key: {key} }} }} }}
    retry: {{ attempts: 2, base_ms: 500, cap_ms: 1000 }}
    notify: {{ success: default }}
  - name: payments
    when: "type == 'payment'"
    target: bank
    ordered_by: account
    batch: {{ max_items: 50, wait_ms: 200 }}
    downstream: {{ http: {{ url: "{url}/pay", headers: {{ X-Api-Key: {key} }} }} }}
    retry: {{ attempts: 5, base_ms: 200, cap_ms: 1000 }}
  - name: entries
    when: "type == 'entry'"
    target: bank
    ordered_by: account
    order: {{ sequence: n, on_failure: fail_rest }}
    batch: {{ max_items: 50, wait_ms: 200 }}
    downstream: {{ http: {{ url: "{url}/pay", headers: {{ X-Api-Key: {key} }} }} }}
"""
"""Routes that both versions can read: a former one refuses a file with options that it does not know."""


class Versions:
    """The stack with both versions of its functions. Its queues are read by an alias, as where a deployment moves one:
    an invocation that is under way ends in the version in which it began. The emulator would kill it if a function's
    code were changed in its place; AWS does not."""

    def __init__(self, stack: Stack, downstream: Downstream):
        self.stack, self._functions = stack, stack.client("lambda")
        self._steps = {step: stack.outputs[f"{function}Name"] for step, function in STEPS.items()}
        self._sweep = stack.outputs["SweepFunctionName"]
        stack.allow_batches()
        file = Path(stack.environment["HOME"]) / "versions.yaml"
        file.write_text(ROUTES.format(url=downstream.url, key=API_KEY))
        stack.groupage("push", file)
        self._mappings = self._functions.list_event_source_mappings()["EventSourceMappings"]
        assert len(self._mappings) == len(stack.STEP_QUEUES)
        for name, program in [*STEPS.items(), ("sweep", "SweepFunction")]:
            self._publish(stack.outputs[f"{program}Name"], program)
        self._call_by_the_schedule(BUILT)
        for name in self._steps.values():
            for alias, version in (("live", TODAYS), ("other", FORMERS)):
                self._functions.create_alias(FunctionName=name, Name=alias, FunctionVersion=version)
        for mapping in self._mappings:
            live = f"{_function_of(mapping)}:live"
            self._functions.update_event_source_mapping(UUID=mapping["UUID"], FunctionName=live)

    def _publish(self, name: str, resource: str) -> None:
        for version, built in ((TODAYS, BUILT), (FORMERS, BUILT_FORMER)):
            self._functions.update_function_code(FunctionName=name, ZipFile=_code(built, resource))
            self._functions.get_waiter("function_updated_v2").wait(FunctionName=name)
            assert self._functions.publish_version(FunctionName=name)["Version"] == version

    def _call_by_the_schedule(self, built: Path) -> None:
        """The schedule calls sweep without a version."""
        self._functions.update_function_code(FunctionName=self._sweep, ZipFile=_code(built, "SweepFunction"))

    def deploy(self, version: str) -> None:
        """Whatever is under way."""
        self._point("live", version)
        self._call_by_the_schedule({TODAYS: BUILT, FORMERS: BUILT_FORMER}[version])

    def _point(self, alias: str, version: str) -> None:
        for name in self._steps.values():
            self._functions.update_alias(FunctionName=name, Name=alias, FunctionVersion=version)

    @contextmanager
    def mixed(self):
        """Meanwhile each queue has two readers with the same settings, one of each version, and both versions of sweep
        look in all the time. On AWS an alias can give each version a share of the invocations; the emulator keeps such
        weights and does not heed them."""
        second = [
            self._functions.create_event_source_mapping(
                EventSourceArn=mapping["EventSourceArn"],
                FunctionName=f"{_function_of(mapping)}:other",
                **{name: mapping[name] for name in ("BatchSize", "FunctionResponseTypes", "ScalingConfig")},
            )
            for mapping in self._mappings
        ]
        over = threading.Event()
        try:
            with ThreadPoolExecutor(1) as pool:
                turns = pool.submit(self._take_turns, over)
                try:
                    yield
                finally:
                    over.set()
                turns.result()
        finally:
            for mapping in second:
                self._functions.delete_event_source_mapping(UUID=mapping["UUID"])
            self._point("live", TODAYS)

    def _take_turns(self, over: threading.Event) -> None:
        """The emulator asks one reader first, and the other for what is left: so they change places."""
        event, (live, other) = (ROOT / "infra/events/sweep.json").read_bytes(), (TODAYS, FORMERS)
        while not over.wait(0.5):
            live, other = other, live
            self._point("live", live)
            self._point("other", other)
            answer = self._functions.invoke(FunctionName=f"{self._sweep}:{live}", Payload=event)
            assert "FunctionError" not in answer, answer["Payload"].read()

    def invocations(self) -> dict[str, Counter]:
        """How often each version of each step was called."""
        return {
            step: Counter(line.rsplit(": ", 1)[1] for line in self.stack.logs(step) if line.startswith("START "))
            for step in self._steps
        }


def _function_of(mapping: dict) -> str:
    return mapping["FunctionArn"].split(":")[6]


def _code(built: Path, resource: str) -> bytes:
    """The zip of a function, by its name in a built template."""
    folder = yaml_parse(built.read_text())["Resources"][resource]["Properties"]["CodeUri"]
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        program = zipfile.ZipInfo("bootstrap")
        program.external_attr = 0o755 << 16
        archive.writestr(program, (built.parent / folder / "bootstrap").read_bytes())
    return code.getvalue()


PARTS = 3
HELD, FANNED, ACCOUNTS, EACH = 120, 200, 10, 6
DECLINED, DECLINED_AT = 3, 4
"""The account of an entry that fails, and its number: those behind it fail, too."""


class Burst:
    """A thousand tasks, sent in three parts: parcels for trucks with tempers, letters, payments in the order of the
    FIFO queue, entries in the order of their numbers, a list that the former command fills and both release, and a
    fan-out. Some fail, and some are told once to come back."""

    def __init__(self, stack: Stack, downstream: Downstream, name: str):
        self.stack, self._ledger, self.name = stack, downstream.ledger, name
        self._home = Path(stack.environment["HOME"])
        self.fates: dict[str, Fate] = {}
        self._queued = self._parcels() + self._letters() + self._bookings("entry")
        random.Random(7).shuffle(self._queued)
        self._in_order = self._bookings("payment")
        self._held = self._file("held", HELD)
        self._fanned = self._file("fan", FANNED)

    def _task(self, id: str, payload: dict, fate: Fate = Fate("succeeded")) -> str:
        id = f"{self.name}-{id}"
        self.fates[id] = fate
        return json.dumps({"id": id, "payload": payload})

    def _parcels(self) -> list[str]:
        def parcel(id: str, truck: str, weight: int = 1, fate: Fate = Fate("succeeded"), **more) -> str:
            return self._task(id, {"type": "parcel", "truck": truck, "weight": weight} | more, fate)

        trucks = ("calm", "heavy", "fragile", "busy", "flaky")
        return (
            [parcel(f"{truck}-{n}", truck) for truck in trucks for n in range(84)]
            + [parcel(f"poison-{n}", "heavy", 5000, Fate("failed", "too_heavy")) for n in range(5)]
            + [parcel(f"glass-{n}", "fragile", fragile=True) for n in range(20)]
        )

    def _letters(self) -> list[str]:
        def letter(id: str, fate: Fate = Fate("succeeded"), **more) -> str:
            return self._task(id, {"type": "letter", "district": "north"} | more, fate)

        return [letter(f"letter-{n}", address="here") for n in range(110)] + [
            letter(f"lost-{n}", Fate("failed", "item_failure")) for n in range(5)
        ]

    def _bookings(self, kind: str) -> list[str]:
        """In the order of their numbers, for all accounts side by side."""
        bodies = []
        for n in range(1, EACH + 1):
            for account in range(ACCOUNTS):
                fails = (kind, account) == ("entry", DECLINED) and n >= DECLINED_AT
                reason = "declined" if n == DECLINED_AT else "predecessor_failed"
                payload = {
                    "type": kind, "bank": "b", "account": f"{self.name}-{account}", "n": n, "declined": fails,
                    "slow": kind == "payment" and n % 3 == 0,
                }
                fate = Fate("failed", reason) if fails else Fate("succeeded")
                bodies.append(self._task(f"{kind}-{account}-{n}", payload, fate))
        return bodies

    def _file(self, what: str, count: int) -> Path:
        file = self._home / f"{self.name}-{what}.ndjson"
        payloads = [{"type": "parcel", "truck": f"{what}-{n % 4}", "weight": 1} for n in range(count)]
        file.write_text("\n".join(self._task(f"{what}-{n}", payload) for n, payload in enumerate(payloads)))
        return file

    # --- sending ---

    def begin(self) -> None:
        self.stack.groupage("list", "put", self.name, self._held, program=GROUPAGE_FORMER)
        command = [GROUPAGE, "send", self._fanned, f"--track={self.name}", "--notify=default", "--json"]
        self._sender = subprocess.Popen(
            [*command, "--stack", self.stack.name], env=self.stack.environment, cwd=ROOT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self._send(0)

    def go_on(self) -> None:
        self.stack.groupage("list", "release", self.name, HELD // 2, program=GROUPAGE)
        self._send(1)

    def end(self) -> None:
        self.stack.groupage("list", "release", self.name, "--all", program=GROUPAGE_FORMER)
        self._send(2)

    def _send(self, part: int) -> None:
        def of(bodies: list[str]) -> list[str]:
            size = len(bodies) // PARTS
            return bodies[part * size : (part + 1) * size if part + 1 < PARTS else None]

        self.stack.send(of(self._queued))
        self.stack.send(of(self._in_order), "InOrderQueue", lambda body: json.loads(body)["payload"]["account"])

    # --- what becomes of it ---

    def calls(self) -> int:
        """Calls of the downstream with tasks of this burst."""
        return sum(call.members[0].startswith(f"{self.name}-") for call in self._ledger.calls())

    def statuses(self) -> dict[str, tuple[str, str | None]]:
        items = self.stack.items("TaskTable")
        return {item["Id"]: (item["Status"], item.get("Reason")) for item in items if item["Id"] in self.fates}

    def unsettled(self) -> list[str]:
        statuses = self.statuses()
        return [id for id in self.fates if statuses.get(id, ("",))[0] not in ("succeeded", "failed")]

    def has_called(self, calls: int) -> None:
        """Waits until that number of further calls has come, and knows that others are still to come."""
        enough = self.calls() + calls
        self.stack.eventually(f"{calls} calls more", lambda: self.calls() >= enough, self.calls)
        assert self.unsettled(), "the burst is over before its middle"

    def settle(self) -> None:
        """Waits until nothing is left to do, and copies what came out."""
        self.stack.eventually("every task to settle", lambda: not self.unsettled(), self._seen)
        self.stack.eventually("every queue to empty", self.stack.idle, lambda: "some step still has messages")
        out, err = self._sender.communicate(timeout=PATIENCE_S)
        assert out and self._sender.returncode >= 0, err
        self.tracked = json.loads(out)["tracked"]
        self.shown = json.loads(self.stack.groupage("list", "show", self.name, "--json"))
        self.ended = self.statuses()
        accepted = self._ledger.acceptances()
        self.accepted = {id: accepted[id] for id in self.fates if id in accepted}
        told = sum(fate.status == "failed" or "-letter-" in id for id, fate in self.fates.items()) + 1
        self.notices = [json.loads(message["Body"]) for message in self.stack.take("NotificationQueue", told)]
        self.order = self._order()
        self.rejected = self.stack.waiting("RejectedQueue")
        self.dead = self._dead_letters()

    def _seen(self) -> str:
        rejected = self.stack.waiting("RejectedQueue")
        return f"unsettled: {self.unsettled()[:20]}; rejected: {rejected}; dead letters: {self._dead_letters()}"

    def _dead_letters(self) -> dict[str, int]:
        return {q: self.stack.waiting(q) for q in self.stack.queues() if q.endswith("DeadLetterQueue")}

    def _order(self) -> dict[str, list[int]]:
        """The numbers of each account's payments and entries, in the order in which they were first called."""
        order: dict[str, dict[int, None]] = {}
        for call in self._ledger.calls("/pay"):
            for id in call.members:
                if id in self.fates:
                    account, number = id.rsplit("-", 1)
                    order.setdefault(account, {}).setdefault(int(number))
        return {account: list(numbers) for account, numbers in order.items()}
