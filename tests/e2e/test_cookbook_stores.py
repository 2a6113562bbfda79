"""The cookbook's pages on databases and search engines, each as it is written, from a laptop stack to a small server
that answers as the store's documentation says.

Each page gets a burst with tasks that the store refuses, a call for which the store has no room, and one whose answer
is lost. What arrived is counted at the store.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from cookbook_stores import SECRET, Clickhouse, Couchdb, Elasticsearch, Influxdb, Store, Victoriametrics, is_part
from local import local_stack
from sites import Site
from stack import ROOT

STORES = {
    "elasticsearch": Elasticsearch,
    "elasticsearch-create": Elasticsearch,
    "clickhouse": Clickhouse,
    "influxdb": Influxdb,
    "couchdb": Couchdb,
    "victoriametrics": Victoriametrics,
}
"""By the route's name. The second is the first with what its page says of data streams."""
TASKS = 23
"""For each page, beside those that are refused."""
REFUSED = {
    "elasticsearch-heavy": ({"kg": "heavy"}, "document_parsing_exception"),
    "elasticsearch-create-heavy": ({"kg": "heavy"}, "document_parsing_exception"),
    "clickhouse-heavy": ({"kg": "heavy"}, "code_72"),
    "clickhouse-weightless": ({"kg": 0}, "code_469"),
    "influxdb-heavy": ({"kg": "heavy"}, "http_422"),
    "influxdb-tagless": ({"truck": ""}, "http_400"),
    "couchdb-heavy": ({"kg": "heavy"}, "forbidden"),
    "_couchdb-reserved": ({}, "illegal_docid"),
    "victoriametrics-heavy": ({"kg": "heavy"}, "template_error:3:operation"),
    "victoriametrics-weightless": ({"kg": None}, "template_error:3:operation"),
}
"""What is odd about a task, and the reason for which it fails, by its id."""
VARIABLE = "GROUPAGE_SECRET_OF_STORES"


def route(name: str, url: str) -> dict:
    """The only route of a page, with its host and its secret's place replaced, in batches of ten."""
    page = (ROOT / f"docs/cookbook/{name.removesuffix('-create')}.md").read_text()
    [block] = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    [route] = yaml.safe_load(block)["routes"]
    if True in route.get("retry", {}):
        route["retry"]["on"] = route["retry"].pop(True)  # as YAML 1.1 reads `on`
    if name == "elasticsearch-create":
        route = json.loads(json.dumps(route).replace("elasticsearch", name).replace("index", "create"))
        [already_done] = re.findall(r'`already_done: "(.*)"`', page)
        route["downstream"]["http"]["response"]["already_done"] = already_done
    http = route["downstream"]["http"]
    http["url"], replaced = re.subn(r"^https://\w+\.example\.com", url, http["url"])
    assert replaced
    http["secrets"] = {secret: {"env": VARIABLE} for secret in http["secrets"]}
    route["batch"]["max_items"] = min(route["batch"]["max_items"], 10)
    route["notify"] = {"failure": "none", "success": "none"}
    return route


def task(id: str, name: str, number: int, odd: dict = {}) -> str:
    usual = {"to": name, "parcel": f"{number:03}", "kg": 12, "truck": "truck 7", "at_ms": 1764000000000 + number}
    return json.dumps({"id": id, "payload": usual | odd})


def name_of(id: str) -> str:
    """The name of the route that a refused task takes."""
    return id.strip("_").rpartition("-")[0]


def run(folder: Path, stores: dict[str, Store]) -> tuple[dict[str, tuple[str, str | None]], str]:
    """Sends the burst of each store: what became of each task, and the stack's log."""
    routes = [route(name, store.url) for name, store in stores.items()]
    with local_stack(folder, yaml.safe_dump({"version": 1, "routes": routes}), {VARIABLE: SECRET}) as environment:
        site = Site.of_laptop(folder, environment)
        bodies = []
        for name in stores:
            # Refused tasks come first, so that they have company in their batches.
            bodies += [task(id, name, TASKS, odd) for id, (odd, _) in REFUSED.items() if name_of(id) == name]
            bodies += [task(f"{name}-{number}", name, number) for number in range(TASKS)]
        site.send(bodies)
        return site.settled([json.loads(body)["id"] for body in bodies]), site.logs()


@pytest.fixture(scope="module")
def burst(tmp_path_factory):
    """A burst for each page at once: the stores, and what became of each task."""
    stores = {name: store() for name, store in STORES.items()}
    try:
        yield stores, *run(tmp_path_factory.mktemp("stores"), stores)
    finally:
        for store in stores.values():
            store.stop()


def of_fate(store: Store, fate: str) -> list[int]:
    """The places of the calls with this fate."""
    return [place for place, call in enumerate(store.calls) if call.fate == fate]


def of_lost(store: Store, pattern: str) -> list[str]:
    """All that calls whose answer was lost have of this."""
    return [found for place in of_fate(store, "lost") for found in re.findall(pattern, store.calls[place].body)]


@pytest.mark.parametrize("name", STORES)
def test_a_burst_arrives_whole_through_a_throttled_call_and_a_lost_answer(burst, name, report):
    stores, settled, _ = burst
    store = stores[name]
    assert {settled[f"{name}-{number}"] for number in range(TASKS)} == {("succeeded", None)}
    held = store.held()
    report.append(f"cookbook, {name}: {len(store.calls)} calls for {TASKS} tasks, {len(held)} held")
    assert set(held) == {f"{number:03}" for number in range(TASKS)}
    if name == "victoriametrics":
        assert len(held) > TASKS, "a repeat adds its samples once more"
    else:
        assert len(held) == TASKS, "a repeat adds nothing"
    assert len(of_fate(store, "throttled")) == 1 and of_fate(store, "lost")
    for place in of_fate(store, "throttled") + of_fate(store, "lost"):
        made = store.calls[place]
        again = [call for call in store.calls[place + 1 :] if call.key == made.key]
        assert {call.body for call in again} == {made.body}, "it is called again under its key, whole"
        assert again[-1].fate == "answered"


@pytest.mark.parametrize("id", REFUSED)
def test_a_task_that_is_refused_fails_alone_with_its_reason(burst, id):
    _, settled, _ = burst
    assert settled[id] == ("failed", REFUSED[id][1])


def test_elasticsearch_takes_a_repeat_for_the_same_documents(burst):
    store = burst[0]["elasticsearch"]
    repeated = set(of_lost(store, r'"_id": "(.*?)"'))
    assert {id for id, (version, _) in store.documents.items() if version == 2} == repeated
    assert max(version for version, _ in store.documents.values()) == 2


def test_elasticsearch_creates_no_document_twice(burst):
    store = burst[0]["elasticsearch-create"]
    assert {version for version, _ in store.documents.values()} == {1}


@pytest.mark.parametrize("name", ["elasticsearch", "elasticsearch-create"])
def test_a_document_for_which_the_write_queue_is_full_goes_in_another_call(burst, name):
    store = burst[0][name]
    [id] = store.rejected
    keys = {call.key for call in store.calls if f'"{id}"' in call.body}
    assert len(keys) == 2 and id in store.documents


def test_clickhouse_knows_a_repeat_by_its_token(burst):
    store = burst[0]["clickhouse"]
    assert store.repeats == len(of_fate(store, "lost")) == 2, "of a whole batch, and of a part"


def test_influxdb_writes_a_point_over_itself(burst):
    store = burst[0]["influxdb"]
    assert store.written > len(store.points)
    assert {truck for truck, _ in store.points} == {"truck%207"}


def test_couchdb_answers_a_repeat_with_conflicts(burst):
    store = burst[0]["couchdb"]
    assert [is_part(store.calls[place].key) for place in of_fate(store, "lost")] in ([False, True], [True, False])
    assert store.conflicts == len(of_lost(store, '"_id"'))


def test_victoriametrics_skips_no_line_since_the_template_refuses_it(burst):
    assert burst[0]["victoriametrics"].skipped == []


def test_no_secret_is_logged(burst):
    assert SECRET not in burst[2]
