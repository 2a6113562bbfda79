"""The walk of `docs/guides/emulators.md`, as it is written: deployed to an emulator, a task that failed and was run
again.

It runs in a folder like the repository. Only the two ports differ."""

from emulator import free_port
from stack import ROOT
from walk import script, type_in


def test_the_walk_through_the_emulator_is_as_the_guide_says(tmp_path):
    api, emulator = str(free_port()), str(free_port())
    (tmp_path / "target").mkdir()
    for name in ("tests", "rust-toolchain.toml", "target/tools", "target/debug", "target/sam"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "examples/trucks").mkdir(parents=True)
    for name in ("downstream.py", "trucks/parcels.ndjson", "trucks/routes.yaml"):
        (tmp_path / "examples" / name).write_text((ROOT / "examples" / name).read_text().replace("9000", api))
    walk = script("docs/guides/emulators.md", "emulator")
    printed = type_in(walk.replace("4566", emulator).replace("9000", api), tmp_path)
    events = ["Successfully created/updated stack", "truck-3: ", "answered 503", "too_heavy", "run again", "succeeded"]
    places = [printed.find(event) for event in events]
    places[-1] = printed.rfind(events[-1])
    assert -1 not in places and places == sorted(places), f"{events} are at {places}:\n{printed}"
