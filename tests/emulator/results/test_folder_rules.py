"""Random small runs over every policy and kind of node keep the rules of docs/run-folder.md, and a broken folder does not."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.emulator.results.folder_rules import problems

from cosched_emulator import simulate
from cosched_emulator.errors import ConfigurationError
from cosched_plugin.common.errors import MachineError, UsageError
from cosched_plugin.policies.composition.presets import PRESETS

Table = dict[str, Any]
DEMAND = {"mix": "1:0:0", "demand_high": [2000, 0, 0]}  # the same for all: the checker knows their speeds
# What a kind of node is, and what its jobs need that its model knows them.
SPACE: dict[str, tuple[Table, Table, Table]] = {
    "single": ({"preset": "single"}, {}, {}),
    "rua-4way": ({"preset": "rua-4way"}, DEMAND, {"contention": "bandwidth"}),
    "lomarc-ht": ({"preset": "lomarc-ht"}, {"characteristics": "M1"}, {"contention": "lomarc"}),
    "2x2x2": ({"preset": "2x2x2"}, {}, {}),
    "g-lomarc": (
        {"preset": "g-lomarc-2x2", "swap_mb": 100_000},
        {"self_slowdowns": "table4"},
        {"contention": "statistical"},
    ),
}
SHARED = [(nodes, preset) for nodes in ("exact", "fluid", "windows") for preset in ("single", "1x1x2")]
KINDS = [*SPACE, *[f"{nodes} {preset}" for nodes, preset in SHARED]]
CANNOT = (MachineError, UsageError, ConfigurationError)


def drawn_log(random: Random, folder: Path, cores: int, longest_s: int = 200) -> str:
    rows, submit = [], 0.0
    for number in range(1, random.randint(3, 12)):
        submit += random.choice((0, 0, random.expovariate(0.1), round(random.expovariate(0.02), 6)))
        run = random.choice((1, round(random.uniform(2, 90), 6), random.randint(60, longest_s)))
        size = random.choice((1, 2, random.randint(1, cores), cores, random.randint(1, 2 * cores)))
        estimate = random.choice((run, 2 * run, 60, random.randint(1, 200)))
        rows.append(
            f"{number} {submit:.6f} -1 {run} {size} -1 -1 {size} {estimate} -1 1 {random.randint(1, 3)} 1 -1 -1 -1 -1 -1"
        )
    file = folder / "drawn.swf"
    file.write_text("\n".join([*rows, ""]), encoding="ascii")
    return str(file)


def drawn_script(random: Random, nodes: int, jobs: int) -> Iterator[Table]:
    for _ in range(random.choice((0, 1, 4))):
        at_s = round(random.uniform(0, 120), random.choice((0, 3)))
        job = random.randint(1, jobs)
        do = random.choice(("cancel", "hold", "fail-node", "outage"))
        if do in ("fail-node", "outage"):
            failing = [random.randrange(nodes)] if do == "fail-node" else range(nodes)
            yield from ({"at_s": at_s, "do": "fail-node", "node": node} for node in failing)
            later_s = at_s + random.choice((0, 5, 100))
            yield from ({"at_s": later_s, "do": "return-node", "node": node} for node in failing)
            if do == "outage":  # some of those that wait again do so in vain
                some = random.sample(range(1, jobs + 1), (jobs + 1) // 2)
                yield from ({"at_s": at_s + random.choice((0, 1, 5)), "do": "cancel", "job": each} for each in some)
            continue
        yield {"at_s": at_s, "do": do, "job": job}
        if do == "hold":
            yield {"at_s": at_s + random.choice((1, 50)), "do": "release", "job": job}


def drawn_scenario(kind: str, seed: str, folder: Path) -> Table:
    random = Random(seed)
    nodes = random.randint(2, 5)
    cluster: Table = {"nodes": nodes}
    if random.random() < 0.6:
        cluster |= {"idle_w": random.choice((100.0, 219.1)), "busy_w": random.choice((10.0, 18.968))}
    workload: Table = {"limits": random.choice(("none", "estimate")), "cap_runs": random.random() < 0.5}
    workload |= {"exclusive": random.random() < 0.15, "memory_mb": random.choice((0, 0, 0, 200, 300))}
    table: Table = {"seed": random.randint(1, 99), "cluster": cluster, "workload": workload}
    if kind in SPACE:
        shape, jobs, truth = SPACE[kind]
        cluster |= shape
        workload |= jobs
        table |= {"truth": truth} if truth else {}
        table |= {"preemption": {"resume_s": 5.0}} if kind == "g-lomarc" else {}
        cores = {"rua-4way": 4, "2x2x2": 4, "g-lomarc": 4}.get(kind, 1) * nodes
    else:
        name, preset = kind.split()
        cluster["preset"] = preset
        workload["programs"] = random.choice(("fine", "uniform", "qcrd"))
        table["time_sharing"] = {"nodes": name, "quantum_s": random.choice((1.0, 5.0))}
        cores = nodes
    workload["swf"] = drawn_log(random, folder, cores, 200 if kind in SPACE else 80)
    with_jobs = Path(workload["swf"]).read_text(encoding="ascii").count("\n")
    table["script"] = list(drawn_script(random, nodes, with_jobs))
    table["requeue"] = random.random() < 0.6
    if kind in SPACE and random.random() < 0.4:  # the manager suspends jobs on their nodes
        table["manager"] = {"suspend_every_s": 30.0, "suspended_s": 20.0}
        table["preemption"] = {**table.get("preemption", {}), "switch_s": random.choice((0.0, 2.5))}
    table["results"] = {"warmup": random.choice((0, 0, 1)), "cooldown": random.choice((0, 0, 1))}
    return table


def settings_of(preset: str) -> Table:
    if preset.startswith(("ssp", "glts", "cst")):
        return {"slices.interval_s": 60.0, "slices.short_slice_s": 10.0}
    if "express" in preset or "suspending" in preset:
        return {"matching.express_s": 60.0, "matching.stops": 9.0}
    return {}


def wrong(preset: str, kind: str, seed: int, folder: Path) -> list[str] | None:
    """Return the problems of a drawn run; None where the policy does not go with the nodes."""
    scenario = drawn_scenario(kind, f"{preset} {kind} {seed}", folder)
    try:
        simulate(scenario, preset, settings=settings_of(preset), out=str(folder / "run"), force=True)
    except CANNOT:
        return None
    return problems(folder / "run")


@pytest.mark.by_default(15)
@pytest.mark.parametrize("preset", PRESETS)
def test_runs_of_every_policy_keep_the_rules(preset: str, tmp_path: Path) -> None:
    """Each policy on one kind of nodes; the slow test has them all."""
    first = 7 * list(PRESETS).index(preset)
    for step in range(len(KINDS)):
        kind = KINDS[(first + 4 * step) % len(KINDS)]
        found = wrong(preset, kind, 1, tmp_path)
        assert not found, f"{preset} on {kind}: {found}"
        if found is not None:
            return
    raise AssertionError(preset)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", PRESETS)
def test_many_runs_keep_the_rules(preset: str, kind: str, tmp_path: Path) -> None:
    for seed in range(3):
        found = wrong(preset, kind, seed, tmp_path)
        assert not found, f"{preset} on {kind}, seed {seed}: {found}"
        if found is None:
            return


# What is broken in a folder that has nothing wrong, and the rule that notices: (policy, file, column, value, rule).
BREAKS = [
    ("easy", "allocations.csv", "thread_mask", "0x80", "places"),
    ("easy", "allocations.csv", "first_node", "0", "places"),
    ("easy", "allocations.csv", "end_s", "9999", "figures"),
    ("easy", "suspensions.csv", "end_s", "9999", "suspensions"),
    ("easy", "suspensions.csv", "end_s", "", "suspensions"),
    ("easy", "suspensions.csv", "start_s", "0", "suspensions"),
    ("easy", "suspensions.csv", "start_s", "88", "progress"),
    ("easy", "jobs.csv", "execution_time", "1.5", "jobs"),
    ("easy", "jobs.csv", "starting_time", "9999", "jobs"),
    ("easy", "jobs.csv", "stretch", "7", "jobs"),
    ("easy", "jobs.csv", "consumed_energy", "7", "energy"),
    ("easy", "power.csv", "watts", "7", "energy"),
    ("gang", "quanta.csv", "allowed_s", "1.234", "quanta"),
    ("gang", "quanta.csv", "cpu_s", "11", "quanta"),
    ("gang", "quanta.csv", "share_ppm", "999999", "quanta"),
    ("gang", "quanta.csv", "length_s", "6", "quanta"),
    ("gang", "quanta.csv", "paired", "1", "quanta"),
    ("gang", "quanta.csv", "quantum", "7", "quanta"),
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a folder for each of two policies, in which nothing is wrong."""
    folders = {}
    for preset, kind in (("easy", {"preset": "2x2x2"}), ("gang", {"preset": "1x1x2"})):
        place = tmp_path_factory.mktemp(preset)
        log = drawn_log(Random(3), place, 4)
        table: Table = {
            "workload": {"swf": log, "limits": "none"},
            "cluster": {"nodes": 4, "idle_w": 100.0, "busy_w": 10.0, **kind},
        }
        if preset == "gang":
            table["time_sharing"] = {"nodes": "fluid", "quantum_s": 5.0}
        else:
            table |= {"manager": {"suspend_every_s": 30.0, "suspended_s": 20.0}, "preemption": {"switch_s": 1.0}}
        simulate(table, preset, out=str(place / "run"))
        assert problems(place / "run") == []
        folders[preset] = place / "run"
    return folders


@pytest.mark.parametrize(("preset", "file", "column", "value", "rule"), BREAKS)
def test_a_broken_folder_is_noticed(
    preset: str, file: str, column: str, value: str, rule: str, sound: dict[str, Path], tmp_path: Path
) -> None:
    """One value of a file is another."""
    broken = tmp_path / "run"
    shutil.copytree(sound[preset], broken)
    with (broken / file).open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    row = next(row for row in reversed(rows) if row[column] not in ("", value))
    row[column] = value
    with (broken / file).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    found = problems(broken)
    assert any(text.startswith(f"{rule}:") for text in found), found
