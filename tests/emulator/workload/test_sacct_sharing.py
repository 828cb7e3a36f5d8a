"""Who of a dump can never be beside others, and for how much of its time there was room for a second job."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.commands import Commands
from tests.properties import drawn

from cosched_emulator.scenario.reader import read_scenario
from cosched_emulator.scenario.scenario_jobs import build_workload
from cosched_emulator.workload.sacct.sacct_log import (
    ImportOptions,
    ImportReport,
    assumptions_of,
    import_dump,
    sharing_in,
)
from cosched_emulator.workload.sacct.sacct_sharing import room_of

_HEADER = (
    "JobID|User|Partition|State|Submit|Start|End|TimelimitRaw|AllocNodes|NCPUS|ReqCPUS|NodeList|JobName|ReqMem|AllocTRES|"
    "SubmitLine"
)


def row(number: int, *, cpus: int = 8, asked: int = 8, partition: str = "b", first: int = 0, **told: Any) -> str:
    """Return a row of a job of one node of 8 CPUs, which waited for ``first`` thousand seconds and ran for thousand."""
    begin = 1_772_400_000
    times = f"{begin}|{begin + 1000 * first}|{begin + 1000 * first + 1000}"
    return (
        f"{number}|u|{partition}|COMPLETED|{times}|60|1|{cpus}|{asked}|{told.get('node', f'n{number % 10}')}|x|"
        f"{told.get('mem', '')}|{told.get('alloc', '')}|{told.get('line', '')}"
    )


def imported(folder: Path, *rows: str, memory_mb: int | None = None) -> ImportReport:
    (folder / "jobs.txt").write_text("\n".join([_HEADER, *rows]) + "\n", encoding="utf-8")
    return import_dump(str(folder / "jobs.txt"), folder / "out", ImportOptions(memory_mb=memory_mb))


def others(count: int = 8, **told: Any) -> list[str]:
    """Return jobs that ask for all CPUs of a node, and for little memory unless it is told."""
    return [row(100 + number, **{"mem": "1G", **told}) for number in range(count)]


# ---------------------------------------------------------------- who


@pytest.mark.parametrize(
    ("told", "exclusive", "large"),
    [
        ({"line": "sbatch --exclusive job.sh"}, 1, 0),
        ({"line": "sbatch --exclusive=user job.sh"}, 1, 0),
        ({"line": "sbatch job.sh --exclusive"}, 0, 0),  # an argument of the script
        ({"alloc": "cpu=8,mem=9G,node=1"}, 0, 1),
        ({"alloc": "cpu=8,mem=8G,node=1"}, 0, 0),  # half
        ({"mem": "9G"}, 0, 1),
        ({"mem": "9000Mn"}, 0, 1),
        ({"mem": "2Gc"}, 0, 1),
        ({"mem": "1Gc"}, 0, 0),
        ({"mem": "9G", "line": "sbatch --exclusive job.sh"}, 1, 0),
    ],
)
def test_jobs_that_can_never_share_are_counted(
    tmp_path: Path, told: dict[str, Any], exclusive: int, large: int
) -> None:
    """In the report, in its JSON, in the log's header for whatif, and as flags of the scenario's jobs."""
    found = imported(tmp_path, row(1, **told), *others(), memory_mb=16 * 1024).sharing
    assert (sum(found.exclusive), sum(found.large)) == (exclusive, large)
    assert found.as_dict()["exclusive_jobs"] == exclusive
    assert found.outside == pytest.approx((exclusive + large) / 9)
    assert [*found.lines()] == [*sharing_in(assumptions_of(str(tmp_path / "out" / "trace.swf"), 1, 1))]
    jobs = build_workload(read_scenario(str(tmp_path / "out" / "scenario.toml"), {}), 80).jobs
    assert sum(job.spec.exclusive for job in jobs) == exclusive
    assert sum(job.spec.unpaired for job in jobs) == large


def test_whole_nodes_that_a_job_did_not_need_are_its_wish_unless_all_of_the_partition_have_them(tmp_path: Path) -> None:
    wish = [row(1, asked=1), *(row(number, cpus=1, asked=1, first=number, node="n1") for number in range(2, 8))]
    rule = [row(20 + number, asked=1, partition="whole", node=f"m{number}") for number in range(6)]
    found = imported(tmp_path, *wish, *rule).sharing
    assert found.exclusive == (True, *[False] * 12)


def test_memory_of_nodes_is_guessed_from_what_was_held_and_a_default_of_all_of_it_is_nobodys_wish(
    tmp_path: Path,
) -> None:
    found = imported(tmp_path, row(1, mem="9G"), row(2, mem="16G"), *others()).sharing
    assert (sum(found.large), found.memory_mb, found.given) == (2, (16 * 1024,), False)
    some = [row(1, mem="16G", line="sbatch --mem=16G job.sh"), *others(mem="16G", line="sbatch job.sh")]
    (tmp_path / "default").mkdir()
    found = imported(tmp_path / "default", *some).sharing
    assert (sum(found.large), found.by_default) == (1, 8)
    assert "8 more hold as much only by their partition's default" in next(found.lines())
    (tmp_path / "kinds").mkdir()
    two = [row(1, mem="64G", node="fat1"), row(2, mem="20G", node="fat2"), row(3, mem="16G", node="n1"), *others()]
    found = imported(tmp_path / "kinds", *two).sharing
    assert (found.large[:3], found.memory_mb) == ((True, False, True), (16 * 1024, 64 * 1024))
    (tmp_path / "none").mkdir()
    assert "memory is not known" in next(imported(tmp_path / "none", row(1), row(2)).sharing.lines())


# ---------------------------------------------------------------- room


def test_room_is_where_a_job_runs_and_another_one_that_fits_waits(tmp_path: Path) -> None:
    """One job of a node runs for the first half of the time in which others wait: half of all that ran."""
    report = imported(tmp_path, row(1, node="n1"), row(2, first=1, node="n1"))
    assert report.sharing.room == pytest.approx(0.5)
    assert "of sharing: room for a second job: at most 50 %" in "\n".join(report.lines())


class Stay(NamedTuple):
    """A job as `room_of` sees it."""

    submit: int
    start: int
    end: int
    size: int


def slowly(stays: Sequence[Stay]) -> int:
    """Return the same as `room_of`, looking at all jobs at each instant."""
    times = sorted({at for stay in stays for at in (stay.submit, stay.start, stay.end)})
    room = 0
    for begin, end in pairwise(times):
        held = sum(stay.size for stay in stays if stay.start <= begin < stay.end)
        waiting = [stay.size for stay in stays if stay.submit <= begin < stay.start]
        room += (end - begin) * min(held, sum(size for size in waiting if size <= held))
    return room


_STAYS = st.builds(
    lambda submit, wait, run, size: Stay(submit, submit + wait, submit + wait + run, size),
    st.integers(0, 30), st.integers(0, 20), st.integers(0, 20), st.integers(1, 9),
)  # fmt: skip


@drawn(st.lists(_STAYS, max_size=30), few=100, many=3_000)
def test_room_is_that_of_a_slow_reference(stays: list[Stay]) -> None:
    columns = np.array(stays, dtype=np.int64).reshape(-1, 4).T
    assert room_of(*columns) == slowly(stays)


def test_whatif_says_it_before_anything_is_run(tmp_path: Path, commands: Commands) -> None:
    (tmp_path / "jobs.txt").write_text("\n".join([_HEADER, row(1, node="n1"), row(2, first=1, node="n1")]))
    words = ("whatif", "--sacct", str(tmp_path / "jobs.txt"), "--node", "1x8x2", "--out", str(tmp_path / "out"))
    made = commands.emulator(*words, "--json")
    assert made.code == 0, made.err
    told = json.loads(made.out)
    assert told["sharing"][1].startswith("room for a second job: at most 50 %")
    for shown in (commands.emulator(*words, "--wide").out, (tmp_path / "out" / "report.html").read_text()):
        assert "from the log alone: never co-located: 0 jobs that are exclusive" in shown
        assert "room for a second job: at most 50 % of the CPU time" in shown
