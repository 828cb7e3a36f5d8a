"""The gate in virtual time: whatever a site forbids happens under no policy, and a scheduler that restarts decides the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from tests.contract.links import ShadowLink
from tests.reference.site_rules import check_site

from cosched_emulator import prepare, simulate
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.run.build import build_agenda, build_manager
from cosched_emulator.run.loop import Simulation
from cosched_emulator.scenario.limits import NO_RULES, Rules
from cosched_plugin.config import choose

JOBS: Final = 60
PAIRING: Final = ("lomarc-r", "symbiosis")
POLICIES: Final = ("fcfs", "easy", "sjbf", "conservative", "rua", *PAIRING)


def site(seed: int, folder: Path, policy: str = "easy") -> dict[str, Any]:
    """Return a small random site, with a side file of what binds its jobs; where a policy pairs jobs, cores have two threads."""
    pairs = policy in PAIRING
    random = Random(seed)
    nodes, cores = random.randint(4, 12), random.choice((2, 4, 8))
    log = [f"; MaxProcs: {nodes * cores}"]
    rows = ["job,partition,qos,account,after,begin_s,cancel_s,array,at_once,ppn,memory_mb,priority"]
    at_s = 0
    for job in range(1, JOBS + 1):
        at_s += random.choice((0, 0, 20, 300))
        run_s = random.randint(1, 3000)
        wide = random.random() < 0.3
        processes = random.randint(1, nodes // 2) if wide else random.randint(1, cores)
        estimate_s = run_s * random.randint(1, 3) + 60
        user = random.randint(1, 4)
        log.append(f"{job} {at_s} -1 {run_s} {processes} -1 -1 {processes} {estimate_s} -1 1 {user} 1 1 -1 -1 -1 -1")
        partition = random.choice(("", "long", "short", "short;long"))
        others = ";".join(
            f"{random.choice(('afterok', 'afterany', 'afternotok', 'after'))}:{random.randint(1, job - 1)}"
            for _ in range(random.choice((0, 0, 0, 0, 1, 2)) if job > 1 else 0)
        )
        array = random.choice(("", "", 1, 2))
        rows.append(
            f"{job},{partition},{random.choice(('', 'normal', 'high'))},{random.choice(('', 'physics', 'optics'))},{others},"
            f"{random.choice(('', '', '', 500))},{random.choice(('', '', '', 400))},{array},{array and 2},"
            f"{1 if wide else cores},{random.choice((0, 10, 60))},{random.randint(0, 3)}"
        )
    (folder / "jobs.swf").write_text("\n".join(log) + "\n")
    (folder / "facts.csv").write_text("\n".join(rows) + "\n")
    limits: list[dict[str, Any]] = [
        {"each": "user", "jobs": random.randint(1, 4)},
        {"qos": "high", "each": "user", "cpus": random.randint(cores, 3 * cores)},
        {"account": "physics", "nodes": random.randint(nodes // 2, nodes)},
        {"partition": "short", "cpus": random.randint(cores, 4 * cores)},
        {"user": "1", "qos": "normal", "jobs": 1},
    ]
    return {
        "seed": seed,
        "requeue": True,
        "cluster": {"nodes": nodes, "preset": f"1x{cores}x{1 + pairs}", "memory_mb": 200},
        "truth": {"contention": "lomarc"} if pairs else {},
        "workload": {
            "swf": str(folder / "jobs.swf"),
            "annotations": str(folder / "facts.csv"),
            **({"characteristics": "M1"} if pairs else {}),
        },
        "partitions": [
            {"name": "long", "nodes": f"0-{nodes - 2}", "default": True},
            {"name": "short", "nodes": f"{nodes // 2}-{nodes - 1}", "max_time_s": 9000.0, "tier": 2},
        ],
        "accounts": [{"name": "optics", "parent": "physics"}],
        "limits": random.sample(limits, random.randint(1, len(limits))),
        "script": [*happenings(random, nodes)],
    }


def happenings(random: Random, nodes: int) -> Iterator[dict[str, Any]]:
    """Yield drains, reservations and cancellations."""
    for do in random.sample(("drain-nodes", "reserve", "reserve", "cancel-pending", "fail-node"), 3):
        at_s = float(random.randint(100, 12_000))
        match do:
            case "cancel-pending":
                yield {"at_s": at_s, "do": do, "job": random.randint(1, JOBS)}
            case "fail-node":
                yield {"at_s": at_s, "do": do, "node": random.randrange(nodes)}
                yield {"at_s": at_s + 500, "do": "return-node", "node": random.randrange(nodes)}
            case _:
                first = random.randrange(nodes)
                some = {"nodes": f"{first}-{random.randrange(first, nodes)}"} if random.random() < 0.7 else {}
                yield {"at_s": at_s, "do": do, "until_s": at_s + random.randint(1, 8000), **some}


@pytest.mark.parametrize(("do", "starts_s"), [("reserve", (1000, 1500, 220)), ("drain-nodes", (2210, 210, 1000))])
@pytest.mark.parametrize(
    "policy",
    [
        {"preset": "easy"},
        {"preset": "easy", "shape": "nodes"},
        {"preset": "sjbf"},
        {"preset": "slurm"},
        {"preset": "conservative"},
        {"preset": "conservative", "placement": "spread", "shape": "nodes"},
        {"preset": "lomarc-r"},
        {"preset": "symbiosis"},
        {"preset": "rua"},
    ],
    ids=lambda policy: "-".join(policy.values()),
)
def test_plans_know_when_a_reservation_ends_and_not_when_a_drain_does(
    policy: dict[str, str], do: str, starts_s: tuple[int, ...], tmp_path: Path
) -> None:
    # The second wants all nodes; the third would hold the two others past the end of the reservation, the last would not.
    jobs = ((1, 0, 1, 1), (2, 200, 500, 4), (3, 210, 2000, 2), (4, 220, 700, 2))
    alike = "-1 1 1 1 1 -1 -1 -1 -1"
    rows = [f"{job} {at_s} -1 {run_s} {size} -1 -1 {size} {run_s} {alike}" for job, at_s, run_s, size in jobs]
    (tmp_path / "jobs.swf").write_text("\n".join(["; MaxProcs: 4", *rows]) + "\n")
    prepared = prepare(
        {
            "cluster": {"nodes": 4, "preset": "1x1x2" if policy["preset"] in PAIRING else "1x1x1"},
            "truth": {"contention": "lomarc"} if policy["preset"] in PAIRING else {},
            "workload": {"swf": str(tmp_path / "jobs.swf")},
            "script": [{"at_s": 100.0, "do": do, "nodes": "2-3", "until_s": 1000.0}],
        }
    )
    manager = build_manager(prepared)
    choice = choose(policy["preset"], {key: value for key, value in policy.items() if key != "preset"})
    link = ShadowLink(DirectLink(choice.scheduler), choice.scheduler)
    records = Simulation(manager, build_agenda(prepared, manager), link).run()
    assert tuple([record.intervals[0].start_us // 1_000_000 for record in records])[1:] == starts_s
    assert link.restarts > 1


@pytest.mark.parametrize("policy", ["pss", "conservative", "lomarc-r", "co-execution", "glts"])
def test_a_job_that_reservations_leave_too_few_whole_nodes_waits_for_them(policy: str, tmp_path: Path) -> None:
    # Eight threads are left, and the job takes a core for each of its eight processes, or more: its policy rejects it at first.
    row = "1 10 -1 1000 8 -1 -1 8 1100 -1 1 1 1 1 -1 -1 -1 -1"
    (tmp_path / "jobs.swf").write_text(f"; MaxProcs: 8\n{row}\n")
    prepared = prepare(
        {
            "cluster": {"nodes": 4, "preset": "1x2x2"},
            "workload": {"swf": str(tmp_path / "jobs.swf")},
            "script": [{"at_s": 500.0, "do": "reserve", "nodes": "0-1", "until_s": 600.0}],
        }
    )
    manager = build_manager(prepared)
    choice = choose(policy, {"shape": "nodes"} if policy == "conservative" else {})
    link = ShadowLink(DirectLink(choice.scheduler), choice.scheduler)
    (record,) = Simulation(manager, build_agenda(prepared, manager), link).run()
    assert record.intervals[0].start_us == 600_000_000
    assert manager.refused == 0


def test_what_several_jobs_give_back_at_once_goes_to_the_first_that_waits(tmp_path: Path) -> None:
    # Two end at 100, when the last one comes: the third has waited longest, and wants what both had.
    jobs = ((1, 0, 100, 4), (2, 0, 100, 4), (3, 10, 50, 8), (4, 20, 50, 4), (5, 100, 50, 2))
    alike = "-1 1 1 1 1 -1 -1 -1 -1"
    rows = [f"{job} {at_s} -1 {run_s} {size} -1 -1 {size} {run_s} {alike}" for job, at_s, run_s, size in jobs]
    (tmp_path / "jobs.swf").write_text("\n".join(["; MaxProcs: 16", *rows]) + "\n")
    prepared = prepare({"workload": {"swf": str(tmp_path / "jobs.swf")}, "limits": [{"cpus": 8}]})
    manager = build_manager(prepared)
    records = Simulation(manager, build_agenda(prepared, manager), DirectLink(choose("fcfs").scheduler)).run()
    assert [record.intervals[0].start_us // 1_000_000 for record in records] == [0, 0, 100, 150, 150]


def test_of_jobs_of_one_instant_the_highest_priority_gets_the_room(tmp_path: Path) -> None:
    # The last two come at 100, when nothing ends; the first two come when the run begins.
    jobs = ((1, 0, 50), (2, 0, 50), (3, 100, 50), (4, 100, 50))
    rows = [f"{job} {at_s} -1 {run_s} 4 -1 -1 4 {run_s} -1 1 1 1 1 -1 -1 -1 -1" for job, at_s, run_s in jobs]
    (tmp_path / "jobs.swf").write_text("\n".join(["; MaxProcs: 16", *rows]) + "\n")
    (tmp_path / "facts.csv").write_text("job,priority\n2,7\n4,7\n")
    workload = {name: str(tmp_path / file) for name, file in (("swf", "jobs.swf"), ("annotations", "facts.csv"))}
    site = {"workload": {**workload, "minimum_estimate_s": 0.0}, "limits": [{"each": "user", "jobs": 1}]}
    assert simulate(site, "slurm").jobs.start_s.tolist() == [50, 0, 150, 100]


SEEDS: Final = [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", POLICIES)
def test_no_schedule_has_what_the_site_forbids(policy: str, seed: int, tmp_path: Path) -> None:
    prepared = prepare(site(seed, tmp_path, policy))
    manager = build_manager(prepared)
    choice = choose(policy)
    link = ShadowLink(DirectLink(choice.scheduler), choice.scheduler)
    records = Simulation(manager, build_agenda(prepared, manager), link).run()
    assert check_site(prepared, records) > JOBS // 3
    assert manager.refused == 0
    assert not manager.running
    assert link.restarts > 1


@pytest.mark.parametrize("without", [name for name in Rules._fields if name not in ("parents", "apart")])
def test_the_checker_finds_what_is_broken_without_one_of_the_rules(without: str, tmp_path: Path) -> None:
    broken = 0
    for seed in range(5):
        prepared = prepare(site(seed, tmp_path))
        lax = replace(prepared, rules=prepared.rules._replace(**{without: NO_RULES._asdict()[without]}))
        manager = build_manager(lax)
        records = Simulation(manager, build_agenda(lax, manager), DirectLink(choose("easy").scheduler)).run()
        try:
            check_site(prepared, records)
        except AssertionError:
            broken += 1
    assert broken > 1
