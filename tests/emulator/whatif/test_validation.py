"""Validation names what is wrong, and only that: logs that our own simulation made, each with one thing that EASY does not have."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Final

import pytest
from tests.commands import Commands, assert_one_line

from cosched_emulator import simulate
from cosched_emulator.whatif.causes import HOLDS, LIMITS, OUTAGES, POOLS, PRIORITIES
from cosched_emulator.whatif.question import Question, prepare_question
from cosched_emulator.whatif.validation import Validation, run_whole, text, validation_of

PROCESSORS: Final = 32
DAY_S: Final = 86_400


def write_log(file: Path, seed: int, jobs: int = 1_500) -> list[list[str]]:
    """Write a log of twelve users, who submit up to twelve jobs at once, in three queues and two partitions; return its rows."""
    draw, now = random.Random(seed), 0.0
    rows: list[list[str]] = []
    while len(rows) < jobs:
        now, user = now + draw.expovariate(1 / 2_800), draw.randrange(1, 13)
        for _ in range(draw.choice([1, 2, 4, 12])):
            run, size = int(draw.lognormvariate(7.3, 1.2)) + 30, draw.choice([1, 1, 2, 4, 8, 16])
            estimate = run * draw.choice([1, 2, 5]) + 60
            row = f"{len(rows) + 1} {now:.0f} -1 {run} {size} -1 -1 {size} {estimate} -1 1 {user} -1 1 {user % 3} {user % 2} -1 -1"
            rows.append(row.split())
    file.write_text(f"; MaxProcs: {PROCESSORS}\n" + "".join(f"{' '.join(row)}\n" for row in rows))
    return rows


def made_under(folder: Path, kind: str, seed: int) -> Path:
    """Return the log, with waits, that a simulation under EASY made of one without, with one thing more."""
    rows = write_log(folder / "asked.swf", seed)
    workload = {"swf": str(folder / "asked.swf"), "limits": "none", "cap_runs": False}
    scenario: dict[str, Any] = {"cluster": {"nodes": PROCESSORS}, "workload": workload}
    half, at_s, settings = f"0-{PROCESSORS // 2 - 1}", float(rows[len(rows) // 3][1]), ""
    said = ""
    if kind == LIMITS:
        scenario["limits"] = [{"each": "user", "jobs": 4}]
    elif kind == POOLS:
        scenario["partitions"] = [
            {"name": "a", "nodes": half},
            {"name": "b", "nodes": f"{PROCESSORS // 2}-{PROCESSORS - 1}"},
        ]
        said = "job,partition\n" + "".join(f"{row[0]},{'ab'[int(row[15])]}\n" for row in rows)
    elif kind == OUTAGES:
        scenario["script"] = [{"at_s": at_s, "do": "drain-nodes", "until_s": at_s + 1.5 * DAY_S}]
    elif kind == f"{OUTAGES} of half the nodes":
        scenario["script"] = [{"at_s": at_s, "do": "drain-nodes", "nodes": half, "until_s": at_s + 3 * DAY_S}]
    elif kind == f"{OUTAGES} of a third of the nodes":
        scenario["script"] = [{"at_s": at_s, "do": "drain-nodes", "nodes": "0-9", "until_s": at_s + 10 * 3_600}]
    elif kind == f"{PRIORITIES} of sizes":
        said, settings = "job,priority\n" + "".join(f"{row[0]},{-int(row[4])}\n" for row in rows), "order=priority"
    elif kind == f"{HOLDS} of few jobs":
        said = "job,begin_s\n" + "".join(
            f"{row[0]},{3_600 * (2 + 3 * (place % 3))}\n" for place, row in enumerate(rows[::7])
        )
    elif kind == PRIORITIES:
        said, settings = (
            "job,priority\n" + "".join(f"{row[0]},{1000 * int(row[14])}\n" for row in rows),
            "order=priority",
        )
    elif kind == HOLDS:
        said = "job,begin_s\n" + "".join(f"{row[0]},{DAY_S // 4}\n" for row in rows[::5])
    if said:
        (folder / "said.csv").write_text(said)
        workload["annotations"] = str(folder / "said.csv")
    simulate(scenario, "easy", settings=[settings] if settings else (), out=folder / "made")
    return folder / "made" / "schedule.swf"


def validated(folder: Path, kind: str, seed: int) -> Validation:
    log = made_under(folder, kind, seed)
    question = Question({"workload": {"swf": str(log)}})
    return validation_of(run_whole(prepare_question(question, folder / "files")))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_log_made_under_easy_is_equal_to_its_baseline(tmp_path: Path, seed: int) -> None:
    found = validated(tmp_path, "plain", seed)
    assert found.distance is not None
    assert found.distance.ratio == pytest.approx(1, abs=1e-6)
    assert found.distance.spearman == pytest.approx(1, abs=1e-6)
    assert (found.distance.held_share, found.distance.weeks_within_2, found.distance.credible) == (0, 1, True)
    assert found.causes == ()


TOLD = {LIMITS: "12 of 12 users never ran more than 4 jobs at once", POOLS: "16 of 32 processors"}


@pytest.mark.by_default(9)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "kind",
    [
        LIMITS, POOLS, OUTAGES, f"{OUTAGES} of half the nodes", f"{OUTAGES} of a third of the nodes", PRIORITIES,
        f"{PRIORITIES} of sizes", HOLDS, f"{HOLDS} of few jobs",
    ],
)  # fmt: skip
def test_what_a_log_has_beyond_easy_is_named_first(tmp_path: Path, kind: str, seed: int) -> None:
    found = validated(tmp_path, kind, seed)
    assert found.distance is not None
    assert found.distance.spearman < 0.999
    assert found.causes[0].name == kind.split(maxsplit=1)[0], found.causes
    assert found.causes[0].tell
    assert seed > 1 or TOLD.get(kind, "") in found.causes[0].evidence
    lines = text(found).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80


# ---------------------------------------------------------------- the command


def test_the_command_says_the_same_in_words_and_as_json(tmp_path: Path, commands: Commands) -> None:
    log = made_under(tmp_path, LIMITS, 1)
    ran = commands.emulator("workload", "validate", str(log), "--json")
    assert ran.code == 0
    told = json.loads(ran.out)
    assert (told["present"], told["checked"]) == ("easy", True)
    assert told["ratio"] == pytest.approx(told["simulated_wait_min"]["mean"] / told["recorded_wait_min"]["mean"])
    assert told["causes"][0]["name"] == LIMITS
    assert {len(told["classes"][kind]) for kind in ("queue", "user")} == {3, 12}
    words = commands.emulator("workload", "validate", str(log)).out
    assert f"{told['recorded_wait_min']['mean']:,.1f}" in words
    assert "limits (" in words


def test_facts_of_the_site_bring_the_baseline_to_the_record(tmp_path: Path, commands: Commands) -> None:
    """With the limit in the scenario nothing is left to explain."""
    log = made_under(tmp_path, LIMITS, 1)
    site = tmp_path / "site.toml"
    site.write_text(f'[workload]\nswf = "{log.name}"\n[[limits]]\neach = "user"\njobs = 4\n')
    log.rename(tmp_path / log.name)
    told = json.loads(commands.emulator("workload", "validate", str(site), "--json").out)
    assert told["ratio"] == pytest.approx(1, abs=1e-6)
    assert (told["credible"], told["causes"]) == (True, [])


def test_a_log_without_recorded_waits_cannot_be_checked(tmp_path: Path, commands: Commands) -> None:
    write_log(tmp_path / "asked.swf", 1, 100)
    ran = commands.emulator("workload", "validate", str(tmp_path / "asked.swf"))
    assert (ran.code, ran.out.count("\n")) == (0, 1)
    assert "cannot be checked" in ran.out
    told = json.loads(commands.emulator("workload", "validate", str(tmp_path / "asked.swf"), "--json").out)
    assert told["checked"] is False


@pytest.mark.parametrize("content", ["1 2 3\n", "; MaxProcs: 4\n", "a = [\n"])
def test_a_file_that_is_no_log_is_refused_in_one_line(tmp_path: Path, commands: Commands, content: str) -> None:
    file = tmp_path / ("site.toml" if "=" in content else "log.swf")
    file.write_text(content)
    ran = commands.emulator("workload", "validate", str(file))
    assert str(file) in assert_one_line(ran, 2)
