"""Schedules and all messages are unchanged, and restarts at any time do not change them."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.contract.cases import SLICED, cases, lomarc, quiet, statistical
from tests.contract.golden import GOLDEN, Proof, prove
from tests.contract.links import DigestLink, ShadowLink

from cosched_emulator import prepare
from cosched_emulator.couplings.link import LoopbackLink
from cosched_emulator.run.run import run
from cosched_emulator.studies.cells import CHANGED, behaviour_of
from cosched_plugin.config import choose, from_table

TRACED = (("lomarc-r", "lomarc"), ("lomarc-fm", "lomarc"), ("am", "lomarc"), ("ac", "lomarc"), ("easy", "swf"))
# Events and actions that these cases must have: without them they would prove little.
PAIRED = {"JobRequeued", "JobHeld", "SetNote", "StartTogether", "ReviseJob", "ProgressMeasured"}
IN_SLICES = {"SuspendJob", "ResumeJob", "WakeAt"}
SEEN = {
    ("lomarc-r", "lomarc"): PAIRED | {"SuspendJob", "ResumeJob"},
    ("lomarc-n", "lomarc"): PAIRED | {"SuspendJob", "ResumeJob"},
    ("am", "lomarc"): PAIRED,
    ("ac", "lomarc"): PAIRED,
    ("ssp", "statistical"): {"JobRequeued", "JobHeld", "SetNote"} | IN_SLICES,
    ("glts", "statistical"): PAIRED | IN_SLICES,
}


# Long cases of presets that have a shorter one, and that differ from a preset with all of its cases in little.
LONG = {
    *((preset, "mixed") for preset in ("conservative", "conservative-starts", "lc", "lct", "slurm")),
    *(
        (preset, "groups")
        for preset in ("co-execution", "co-execution-easy", "co-execution-shortest", "spread", "glts-ns")
    ),
    *((preset, "statistical") for preset in ("ssp", "glts", "glts-fbo", "glts-nh", "cst", "cstws")),
    *((preset, "lomarc") for preset in ("glts", "lomarc-n", "lomarc-u1", "lomarc-u2", "lomarc-u1-shortest", "guests")),
    *(
        (preset, "pairs")
        for preset in ("easy-suspending", "easy-suspending-unreserved", "symbiosis", "symbiosis-express")
    ),
}


@pytest.mark.parametrize(
    ("preset", "scenario"), [pytest.param(*case, marks=[pytest.mark.slow] if case in LONG else []) for case in cases()]
)
def test_the_schedule_and_its_messages_have_the_golden_digests(preset: str, scenario: str) -> None:
    traced = (preset, scenario) in TRACED
    proof = prove(preset, scenario, traced=traced)
    assert proof.digests == json.loads(GOLDEN.read_text())["digests"][f"{preset} {scenario}"]
    assert SEEN.get((preset, scenario), set()) <= set(proof.kinds)
    if traced:
        assert_complete(proof)


def test_stored_runs_of_a_preset_are_repeated_once_its_schedules_have_changed() -> None:
    assert json.loads(GOLDEN.read_text())["changed"] == CHANGED
    assert [behaviour_of(choose(preset)) for preset in CHANGED] == [*CHANGED.values()]
    assert behaviour_of(choose("easy")) == 0
    other = from_table({"backfill": "easy"})  # it may have parts of any
    assert behaviour_of(other) >= max(CHANGED.values(), default=0)


def assert_complete(proof: Proof) -> None:
    """Assert that a decision trace has every decision, in JSON."""
    told = Counter(record["kind"] for record in proof.trace)
    assert told["start"] == proof.kinds["StartJob"] + 2 * proof.kinds["StartTogether"]
    assert (told["suspend"], told["resume"]) == (proof.kinds["SuspendJob"], proof.kinds["ResumeJob"])
    assert told["reserve"] > 0
    assert json.loads(json.dumps(proof.trace, allow_nan=False)) == proof.trace


@pytest.mark.parametrize(
    "preset",
    ["lomarc-r", "ssp", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lomarc-n", "am", "ac", "glts"))],
)
def test_restarts_change_nothing_without_measurements(preset: str) -> None:
    table = quiet(statistical() if preset in SLICED else lomarc())
    choice = choose(preset)
    shadowed = ShadowLink(LoopbackLink(choice.scheduler), choice.scheduler)
    link = DigestLink(shadowed)
    run(prepare(table), link)
    assert shadowed.restarts > 5
    assert {"JobRequeued", "JobHeld", "SetNote"} <= set(link.kinds)
    assert (IN_SLICES if preset in SLICED else set()) <= set(link.kinds)
    assert (set() if preset == "ssp" else {"StartTogether", "ReviseJob"}) <= set(link.kinds)
    assert not link.kinds["ProgressMeasured"]


def test_every_case_has_a_digest_and_most_digests_differ() -> None:
    golden = json.loads(GOLDEN.read_text())["digests"]
    assert set(golden) == {f"{preset} {scenario}" for preset, scenario in cases()}
    assert {preset for preset, _ in set(cases()) - LONG} == {preset for preset, _ in cases()}
    assert set(cases()) >= LONG
    busy = [value["files"] for case, value in golden.items() if case.split()[1] in ("plain", "pairs", "groups")]
    assert len(set(busy)) > len(busy) / 2
