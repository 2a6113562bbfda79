"""What comes from elsewhere is pinned by what it is, not by its name."""

import re
import subprocess

import pytest
import yaml

from template import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
REQUIREMENTS = sorted((ROOT / "tests").glob("requirements-*.txt"))


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.stem)
def test_each_python_package_is_pinned_with_its_hashes(path):
    text = re.sub(r"#.*\n", "", path.read_text()).replace("\\\n", " ")
    packages = [line for line in text.splitlines() if line.strip()]
    assert packages
    for package in packages:
        assert re.match(r"[A-Za-z0-9_.-]+(\[[^]]*\])?==\S+ ", package), package
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", package), package


def test_pip_takes_no_file_without_a_known_hash():
    assert "--require-hashes" in (ROOT / "tests/tools.sh").read_text()


def test_the_compiler_is_pinned_and_no_older_than_the_oldest_that_works():
    [pinned] = re.findall(r'^channel = "(\d+\.\d+\.\d+)"$', (ROOT / "rust-toolchain.toml").read_text(), re.MULTILINE)
    [oldest] = re.findall(r'^rust-version = "([\d.]+)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert [int(part) for part in pinned.split(".")] >= [int(part) for part in oldest.split(".")]


def test_there_are_workflows_for_changes_and_by_schedule():
    triggers = {path.stem: yaml.safe_load(path.read_text())[True] for path in WORKFLOWS}
    assert {"push", "pull_request"} <= set(triggers["ci"])
    assert "schedule" in triggers["scheduled"]
    assert triggers["release"] == {"push": {"tags": ["v*"]}}


def test_each_change_is_checked_once():
    on_change = [path.stem for path in WORKFLOWS if "pull_request" in yaml.safe_load(path.read_text())[True]]
    assert on_change == ["ci"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_action_is_pinned_by_its_commit_and_says_which_version_that_is(path):
    actions = re.findall(r"uses: *(.*)", path.read_text())
    assert actions
    for action in actions:
        assert re.fullmatch(r"[\w-]+/[\w.-]+@[0-9a-f]{40} # v[\d.]+", action), action


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_read_and_nothing_else(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert "permissions" not in job, name
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_scripts_that_are_there_and_no_text_of_strangers(path):
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        for step in job["steps"]:
            run = step.get("run", "")
            assert "${{" not in run, "a title of a pull request must not become a command"
            for script in re.findall(r"(?:bash )?((?:\.ci|tests)/[\w-]+)", run):
                assert (ROOT / script).is_file(), script


def test_each_finding_of_checkovs_that_stays_has_its_reason():
    stays = set(yaml.safe_load((ROOT / ".ci/checkov.yaml").read_text())["skip-check"])
    answered = re.findall(r"^\| (CKV_\w+), .+ \| .+ \|$", (ROOT / "docs/security.md").read_text(), re.MULTILINE)
    assert sorted(answered) == sorted(stays)


def test_release_notes_are_a_versions_section_of_the_changelog(tmp_path):
    script = ROOT / ".ci/release-notes"
    done = subprocess.run([script, "Unreleased"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("### Added")
    assert "\n## " not in done.stdout
    unknown = subprocess.run([script, "99.0.0"], capture_output=True, text=True)
    assert unknown.returncode == 1 and "no section 99.0.0" in unknown.stderr


def test_a_release_has_functions_what_went_into_them_and_their_digests():
    script = (ROOT / ".ci/functions").read_text()
    made = set(re.search(r"GROUPAGE_FUNCTIONS:-([^}]*)}", script)[1].split())
    assert made == {path.parent.name for path in ROOT.glob("functions/*/Cargo.toml")}
    assert re.search(r"^cargo_tool cargo-cyclonedx \d+\.\d+\.\d+$", script, re.MULTILINE)
    workflows = {path.stem: path.read_text() for path in WORKFLOWS}
    assert ".ci/functions dist" in workflows["release"] and ".ci/release-notes" in workflows["release"]
    assert "bash tests/reproducible" in workflows["scheduled"]
