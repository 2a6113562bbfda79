"""The cookbook's pages on APIs that are not AWS's, each as it is written, from a laptop stack to a stand-in of the API.

Only hosts, secrets and the batches' size are replaced. Each API throttles a call, and loses the answer of another. What
it holds afterwards is counted there.
"""

import json
import re

import pytest
import yaml

from cookbook_apis import SECRET, BusinessCentral, Embeddings, KafkaRest, MessageBatches, Postmark, Shop, Stripe
from local import local_stack
from sites import Site
from stack import ROOT

APIS = {
    "embeddings": Embeddings,
    "graphql": Shop,
    "kafka": KafkaRest,
    "llm-batches": MessageBatches,
    "mail": Postmark,
    "odata": BusinessCentral,
    "payments": Stripe,
}
TASKS = 23
"""For each page, beside those that are refused."""
REFUSED = {
    "embeddings": {"refused": ({"text": "word " * 9_000}, "invalid_request_error")},
    "graphql": {
        "refused": ({"kg": "heavy"}, "INVALID_VALUE"),
        "no-name": ({}, "http_400"),
        "a{b}": ({}, "template_error:5:undefined"),
    },
    "kafka": {"refused": ({"text": "word " * 1_000}, "50002")},
    "llm-batches": {"refused": ({"text": ""}, "invalid_request_error")},
    "mail": {"refused": ({"address": "gone@example.com"}, "406")},
    "odata": {"refused": ({"price": "dear"}, "BadRequest")},
    "payments": {
        "refused": ({"customer": "broke"}, "insufficient_funds"),
        "half-a-cent": ({"cents": 9.5}, "parameter_invalid_integer"),
    },
}
"""For each page the tasks that the API or the page's template refuses: what their payload says, and the reason."""
FOR_NOW = ("graphql", "kafka", "llm-batches", "mail", "odata")
"""Whose answers say of one task that it fails for now."""
TWICE = ("embeddings", "kafka", "llm-batches", "mail")
"""Where a repeat does its work a second time, as the page says."""


def route(name: str, url: str) -> dict:
    """The only route of a page, with its hosts and its secrets replaced."""
    page = (ROOT / f"docs/cookbook/{name}.md").read_text()
    [block] = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    block, hosts = re.subn(r"(url: \")https://[^/]+", rf"\g<1>{url}", block)
    block, secrets = re.subn(r"\{ secrets_manager: [\w-]+ \}", "{ env: GROUPAGE_SECRET_OF_TESTS }", block)
    assert (hosts, secrets) == (2 if name == "odata" else 1, 1), f"{name}: {hosts} hosts, {secrets} secrets"
    [route] = yaml.safe_load(block)["routes"]
    # Batches of ten make three calls of a burst.
    route["batch"]["max_items"] = min(route["batch"]["max_items"], 10)
    route["notify"] = {"failure": "none", "success": "none"}
    if job := route["downstream"]["http"].get("job"):
        job["every_s"] = 2
    return route


def task(name: str, which: int | str, payload: dict = {}) -> str:
    id = f"{name}_{which}"
    usual = {
        "to": name, "parcel": id, "kg": 12, "price": 9.5, "text": f"parcel {id}", "address": f"{id}@example.com",
        "customer": f"cus_{which}", "method": "pm_card_visa", "cents": 950,
    }
    return json.dumps({"id": id, "payload": usual | payload})


def tasks() -> list[str]:
    """A burst for each page at once, with the refused ones among the others."""
    bodies = [task(name, number) for number in range(TASKS) for name in APIS]
    refused = [task(name, which, payload) for name, all in REFUSED.items() for which, (payload, _) in all.items()]
    return bodies[: len(bodies) // 2] + refused + bodies[len(bodies) // 2 :]


@pytest.fixture(scope="module")
def burst(tmp_path_factory):
    """The APIs after the burst, what became of each task, and the log."""
    folder = tmp_path_factory.mktemp("cookbook-apis")
    apis = {name: api() for name, api in APIS.items()}
    try:
        routes = [route(name, api.url) for name, api in apis.items()]
        variables = {"GROUPAGE_SECRET_OF_TESTS": SECRET}
        with local_stack(folder, yaml.safe_dump({"version": 1, "routes": routes}), variables) as environment:
            site = Site.of_laptop(folder, environment)
            site.send(tasks())
            settled = site.settled([json.loads(body)["id"] for body in tasks()])
            log = site.logs()
        yield apis, settled, log
    finally:
        for api in apis.values():
            api.stop()


@pytest.mark.parametrize("name", APIS)
def test_a_burst_succeeds_through_a_throttled_call_and_a_lost_answer(burst, name, report):
    apis, settled, _ = burst
    api, ids = apis[name], [f"{name}_{number}" for number in range(TASKS)]
    assert {id: settled[id] for id in ids} == {id: ("succeeded", None) for id in ids}
    report.append(f"cookbook, {name}: {len(api.calls)} calls for {TASKS} tasks, {len(api.held)} objects held")
    assert api.lost, "the call whose answer is lost leaves something"
    again = api.lost if name in TWICE else []
    assert sorted(api.held) == sorted(ids + again), "a repeat does what the page says"
    for fate in ("throttled", "lost"):
        [key] = [call.key for call in api.calls if call.fate == fate]
        fates = [call.fate for call in api.calls if call.key == key]
        assert fates[-1] == "answered", f"the {fate} call is made again under its key"


@pytest.mark.parametrize("name", APIS)
def test_a_task_that_is_refused_fails_alone_with_its_reason(burst, name):
    _, settled, _ = burst
    expected = {f"{name}_{which}": ("failed", reason) for which, (_, reason) in REFUSED[name].items()}
    assert {id: settled[id] for id in expected} == expected


@pytest.mark.parametrize("name", FOR_NOW)
def test_a_task_that_fails_for_now_is_retried_in_another_batch(burst, name):
    apis, settled, _ = burst
    assert settled[f"{name}_7"] == ("succeeded", None)
    assert len(set(apis[name].tried)) > 1, "it has been called under a second key"


def test_a_payment_whose_answer_is_lost_waits_for_its_key_and_gets_the_answer_that_was_kept(burst):
    stripe = burst[0]["payments"]
    [lost] = [number for number, call in enumerate(stripe.calls) if call.fate == "lost"]
    of_its_key = [call.status for call in stripe.calls[lost:] if call.key == stripe.calls[lost].key]
    assert of_its_key == [200, 409, 200]
    assert stripe.replayed == 1


def test_a_job_is_looked_at_without_a_key_until_its_results_are_read_once(burst):
    batches = burst[0]["llm-batches"]
    results = [look for look in batches.looks if look.endswith("/results")]
    assert sorted(results) == sorted(set(results)) and len(results) == len(batches.results) - 1, "one was never told"
    assert batches.carried == set()


def test_a_token_serves_many_calls(burst):
    service = burst[0]["odata"]
    assert 0 < service.tokens < len(service.calls)


def test_no_secret_is_logged(burst):
    assert SECRET not in burst[2]
