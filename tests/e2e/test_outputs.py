"""A downstream's output for each task: its notice has it, the command, the API and an export show it, and erasing the
task deletes it."""

import json
import urllib.error
import urllib.request

import pytest

from carrier import NO_ADDRESS, carrier
from local import local_stack
from sites import Site

EXPECTED = {
    "good": {"output": "N-good"},
    "bad": {"output": NO_ADDRESS},
    "large": {"output_omitted_bytes": 140_002},
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    with carrier() as route, local_stack(folder, f"version: 1\nroutes:{route}") as environment:
        site = Site.of_laptop(folder, environment)
        site.send([json.dumps({"id": id, "payload": {"label": True}}) for id in EXPECTED])
        site.settled(list(EXPECTED))
        yield site, environment


def get(environment, path: str) -> tuple[int, dict]:
    key = {"Authorization": f"Bearer {environment['GROUPAGE_API_TOKEN']}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(environment["GROUPAGE_API_URL"] + path, headers=key)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def command(site: Site, *arguments: str) -> str:
    code, said = site.groupage(*arguments)
    assert code == 0, said
    return said


def outputs(value: dict) -> dict:
    return {name: value[name] for name in ("output", "output_omitted_bytes") if name in value}


def test_a_notice_has_the_output(stack):
    site, _ = stack
    told = {}
    while len(told) < len(EXPECTED):
        for line in command(site, "--json", "notices", "--take").splitlines():
            notice = json.loads(line)
            told[notice["subject"]] = outputs(notice["data"])
    assert told == EXPECTED


def test_the_command_the_api_and_an_export_show_it(stack):
    site, environment = stack
    for id, expected in EXPECTED.items():
        assert outputs(json.loads(command(site, "--json", "status", "task", id))) == expected
        status, shown = get(environment, f"/tasks/{id}/output")
        omitted = expected.get("output_omitted_bytes")
        said = {"output": expected.get("output")} | ({"omitted_bytes": omitted} if omitted else {})
        assert (status, shown) == (200, said)
        assert get(environment, f"/tasks/{id}")[1]["has_output"]
        assert get(environment, f"/tasks/{id}/export")[1]["output"] == expected.get("output")
    assert "N-good" in command(site, "status", "task", "good")


def test_an_erased_task_has_none_and_its_neighbours_keep_theirs(stack):
    site, environment = stack
    command(site, "erase", "--task", "good")
    assert outputs(json.loads(command(site, "--json", "status", "task", "good"))) == {}
    assert get(environment, "/tasks/good/output")[0] == 404
    assert get(environment, "/tasks/bad/output")[1] == {"output": EXPECTED["bad"]["output"]}


def test_a_task_that_nobody_knows_has_none(stack):
    _, environment = stack
    assert get(environment, "/tasks/unknown/output")[0] == 404
