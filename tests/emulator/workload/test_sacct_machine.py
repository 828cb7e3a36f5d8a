"""The machine behind a dump: never fewer nodes than were held, each with the CPUs that its jobs show; jobs keep their nodes."""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from cosched_emulator import simulate
from cosched_emulator.workload.sacct import sacct_machine
from cosched_emulator.workload.sacct.sacct_log import UNEVEN, ImportOptions, ImportReport, import_dump

PLAIN = ImportOptions()
HEADER = "JobID|User|Partition|State|Submit|Start|End|Suspended|TimelimitRaw|AllocNodes|NCPUS|ReqCPUS|NodeList|JobName"
HOUR = 3600


def row(
    number: int,
    nodes: str,
    cpus: int,
    begin: int = 0,
    end: int = HOUR,
    *,
    count: int = 1,
    partition: str = "b",
    **more: str,
) -> str:
    """Return a row; times in seconds after some day's midnight."""
    start_s, end_s = 1_772_400_000 + begin, 1_772_400_000 + end
    suspended, asked, state = more.get("suspended", ""), more.get("asked", ""), more.get("state", "COMPLETED")
    return (
        f"{number}|u|{partition}|{state}|{start_s}|{start_s}|{end_s}|{suspended}|1440|{count}|{cpus}|{asked}|{nodes}|x"
    )


def imported(folder: Path, rows: Iterable[str], options: ImportOptions = PLAIN, header: str = HEADER) -> ImportReport:
    (folder / "jobs.txt").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return import_dump(str(folder / "jobs.txt"), folder / "out", options)


# ---------------------------------------------------------------- nodes with names


def test_other_partitions_show_the_size_of_the_same_nodes_alone(tmp_path: Path) -> None:
    rows = [row(1, "n1", 2), row(2, "n1", 16, HOUR, 2 * HOUR, partition="o"), row(3, "m1", 64, partition="o")]
    assert imported(tmp_path, rows, ImportOptions(partitions=("b",))).classes == ((1, 16),)


def test_cpus_of_slurm_may_be_threads(tmp_path: Path) -> None:
    rows = [row(1, "n1", 32), row(2, "f1", 256), row(3, "n[2-9]", 8, count=8)]
    assert imported(tmp_path, rows, ImportOptions(threads_per_core=2)).classes == ((9, 16), (1, 128))


# ---------------------------------------------------------------- nodes without names


@pytest.mark.parametrize(
    ("rows", "classes"),
    [
        ([row(n, "", 16, 10) for n in range(1, 21)], ((20, 16),)),
        ([row(n, "", 16, HOUR * n, HOUR * n + HOUR) for n in range(1, 21)], ((1, 16),)),
        ([*(row(n, "", 16) for n in range(1, 41)), *(row(n, "", 128) for n in range(41, 45))], ((40, 16), (4, 128))),
        ([row(1, "", 64, count=4), row(2, "", 8, count=8)], ((8, 1), (4, 16))),
        ([row(1, "", 8, count=4, end=0)], ((4, 2),)),
        ([row(1, "n1", 16), row(2, "", 16), row(3, "", 16, HOUR, 2 * HOUR)], ((2, 16),)),
    ],
    ids=["at once", "in turn", "two sizes", "wide", "no time", "some named"],
)
def test_without_names_there_are_as_many_nodes_as_were_held_at_one_time(
    tmp_path: Path, rows: Sequence[str], classes: tuple[tuple[int, int], ...]
) -> None:
    assert imported(tmp_path, rows).classes == classes


def test_a_log_without_names_waits_no_longer_than_it_did(tmp_path: Path) -> None:
    imported(tmp_path, [row(n, "", 16, 10) for n in range(1, 21)])
    assert simulate(str(tmp_path / "out" / "scenario.toml")).jobs.wait_s.max() == 0


# ---------------------------------------------------------------- random sites

_KINDS: Mapping[str, Sequence[tuple[int, int]]] = {  # (nodes, CPUs of each); 0 nodes: from one node to the next
    "serial": ((1, 1), (1, 1), (1, 2), (1, 4), (1, 8), (1, 16)),
    "whole": ((1, 16), (2, 16), (4, 16)),
    "even": ((2, 8), (4, 8), (3, 4), (2, 16)),
    "filled": ((0, 20), (0, 24), (0, 40)),
}


def site(seed: int, kinds: Sequence[str], sizes: Mapping[str, Sequence[int]], gap_s: float) -> tuple[list[str], int]:
    """Return 400 jobs, first fit at their submission or not at all, and how many nodes they held at one time."""
    draw = random.Random(seed)
    names = [
        (f"{prefix}{place + 1:03}", prefix, size) for prefix, own in sizes.items() for place, size in enumerate(own)
    ]
    free = {name: size for name, _, size in names}
    choices = [choice for kind in kinds for choice in _KINDS[kind]]
    running: list[tuple[int, dict[str, int]]] = []
    rows, now, most = [], 0.0, 0
    for number in range(1, 401):
        now += draw.expovariate(1 / gap_s)
        for _, taken in [ended for ended in running if ended[0] <= now]:
            free.update({name: free[name] + cpus for name, cpus in taken.items()})
        running = [still for still in running if still[0] > now]
        prefix, (nodes, each) = draw.choice(list(sizes)), draw.choice(choices)
        took: dict[str, int] = {}
        for name, own, size in names:
            want = each * size // 16 if nodes else each * size // 16 - sum(took.values())
            if (
                own == prefix
                and free[name] >= (want if nodes else 1)
                and (len(took) < nodes or (not nodes and want > 0))
            ):
                took[name] = min(want, free[name])
        if (nodes and len(took) < nodes) or (not nodes and sum(took.values()) < each * sizes[prefix][0] // 16):
            continue
        free.update({name: free[name] - cpus for name, cpus in took.items()})
        end = int(now) + int(draw.lognormvariate(8, 1))
        running.append((end, took))
        most = max(most, len({name for _, taken in running for name in taken}))
        text, cpus = ",".join(took), sum(took.values())
        rows.append(row(number, text, cpus, int(now), end, count=len(took), partition=prefix))
    return rows, most


@pytest.mark.parametrize(
    "kinds", [("whole",), ("even",), ("filled",), ("serial", "filled"), tuple(_KINDS)], ids=",".join
)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_machine_of_a_busy_site_is_found(tmp_path: Path, seed: int, kinds: Sequence[str]) -> None:
    """However jobs are divided over nodes, which a dump does not say; nodes that nobody used cannot be known."""
    rows, most = site(seed, kinds, {"c": [16] * 40, "fat": [128] * 4}, gap_s=20)
    report = imported(tmp_path, rows)
    used = Counter(
        128 if name.startswith("fat") else 16
        for name in {name for text in rows for name in text.split("|")[-2].split(",")}
    )
    assert report.classes == tuple((nodes, size) for size, nodes in sorted(used.items()))
    assert report.nodes >= most
    assert not simulate(str(tmp_path / "out" / "scenario.toml")).unfinished


def test_sweeping_some_nodes_after_the_others_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = site(3, tuple(_KINDS), {"c": [16] * 40, "fat": [128] * 4}, gap_s=20)
    rows += [row(500 + n, "", 4, 100 * n, 100 * n + 900) for n in range(100)]
    whole = imported(tmp_path, rows, ImportOptions(force=True))
    monkeypatch.setattr(sacct_machine, "_BLOCK", 50)
    assert imported(tmp_path, rows, ImportOptions(force=True)) == whole


# ---------------------------------------------------------------- jobs on it


@pytest.mark.parametrize(
    ("cpus", "nodes", "threads", "layout"),
    [
        (10, 8, 1, (8, 1)),
        (15, 8, 1, (15, 2)),
        (14, 8, 1, (15, 2)),
        (100, 7, 1, (100, 15)),
        (8, 8, 2, (8, 1)),  # a core is on one node
        (20, 8, 2, (8, 1)),
        (16, 1, 1, (16, 16)),
    ],
)
def test_a_job_stays_on_as_many_nodes(
    tmp_path: Path, cpus: int, nodes: int, threads: int, layout: tuple[int, int]
) -> None:
    """The last node of a job may have fewer processes, no other one: of other divisions the nearest is taken."""
    report = imported(tmp_path, [row(1, f"n[1-{nodes}]", cpus, count=nodes)], ImportOptions(threads_per_core=threads))
    cores = max(nodes, -(-cpus // threads))
    assert report.counts.get(UNEVEN, 0) == (layout[0] != cores)
    run = simulate(str(tmp_path / "out" / "scenario.toml"), settings=["shape=threads"])
    assert run.allocations.node_count.sum() == nodes
    assert run.jobs.processes.tolist() == [layout[0]]
    assert run.allocations.threads.max() == layout[1]


# ---------------------------------------------------------------- what is said of it


def test_guesses_stand_at_their_lines(tmp_path: Path) -> None:
    imported(tmp_path, [*(row(n, f"c{n}", 4) for n in range(1, 9)), row(9, "fat1", 128)])
    text = (tmp_path / "out" / "scenario.toml").read_text()
    lines = {line.split(" = ")[0]: line.partition("  # ")[2] for line in text.splitlines()}
    assert lines["file"].startswith("guessed: 9 nodes that jobs name, each with the most CPUs that they held on it")
    assert lines["contention"].startswith("guessed")
    assert lines["preset"].startswith("guessed")
    assert "100 % of the node time" in lines["shape"]
    nodes = tomllib.loads((tmp_path / "out" / "machine.toml").read_text())["nodes"]
    assert nodes == [{"count": 8, "preset": "1x4x1"}, {"count": 1, "preset": "1x128x1"}]
