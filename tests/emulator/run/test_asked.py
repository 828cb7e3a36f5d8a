"""What jobs ask for besides threads and memory, from a file of annotations to the schedule."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cosched_emulator import Run, simulate
from cosched_emulator.workload.beliefs import with_opted_in
from cosched_emulator.workload.lublin import generate
from cosched_plugin.common.errors import MachineError
from cosched_plugin.common.threads import each_node

LOG = "".join(f"{job} 0 -1 100 1 -1 -1 1 100 -1 1 1 1 1 -1 -1 -1 -1\n" for job in (1, 2, 3))
MACHINE = 'licences = "solver:1"\n[[nodes]]\npreset = "1x4x1"\nresources = "gpu:1"\n[[nodes]]\npreset = "1x4x1"\n'


def scenario(folder: Path, annotations: str, cluster: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, text in {"log.swf": LOG, "asked.csv": annotations, "machine.toml": MACHINE}.items():
        (folder / name).write_text(text)
    workload = {"swf": str(folder / "log.swf"), "annotations": str(folder / "asked.csv")}
    return {"cluster": cluster, "workload": workload}


def schedule(run: Run) -> list[tuple[int, int]]:
    """Return the start, in seconds, and the node of each job."""
    stays = [record.stays[0] for record in sorted(run.finished.records, key=lambda record: record.job.spec.id)]
    return [(stay.start_us // 1_000_000, stay.runs[0].first) for stay in stays]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ("job,resources\n1,gpu:1\n2,gpu:1\n", [(0, 0), (100, 0), (0, 0)]),
        ("user,licences\n1,solver:1\n", [(0, 0), (100, 0), (200, 0)]),
        ("job,eligible\n1,1\n2,1\n", [(0, 1), (0, 1), (0, 0)]),
    ],
)
def test_jobs_wait_for_what_is_counted_and_get_eligible_nodes(
    annotations: str, expected: list[tuple[int, int]], tmp_path: Path
) -> None:
    table = scenario(tmp_path, annotations, {"file": str(tmp_path / "machine.toml")})
    assert schedule(simulate(table, policy="easy")) == expected


@pytest.mark.parametrize(("order", "expected"), [("priority", [100, 200, 0]), ("fcfs", [0, 100, 200])])
def test_an_order_goes_by_the_annotated_priority(order: str, expected: list[int], tmp_path: Path) -> None:
    table = scenario(tmp_path, "job,priority\n3,5\n2,-1\n", {"nodes": 1, "preset": "1x1x1"})
    assert [start_s for start_s, _ in schedule(simulate(table, policy="easy", settings={"order": order}))] == expected


def test_a_policy_that_does_not_count_declines_jobs_that_ask_for_resources(tmp_path: Path) -> None:
    table = scenario(tmp_path, "job,resources\n1,gpu:1\n", {"nodes": 1, "resources": "gpu:1"})
    with pytest.raises(MachineError, match=r"a pending job asks for countable resources, which .* does not honour"):
        simulate(table, policy="batch-contiguous")


def beside_others(run: Run) -> set[int]:
    """Return the jobs that were on a node at the time of another one."""
    stays = [
        (record.job.spec.id, stay.start_us, stay.end_us, dict(each_node(stay.runs)).keys())
        for record in run.finished.records
        for stay in record.stays
    ]
    return {
        one[0]
        for one in stays
        for other in stays
        if one[0] != other[0] and one[1] < other[2] and other[1] < one[2] and one[3] & other[3]
    }


@pytest.mark.by_default(4)
@pytest.mark.parametrize("policy", ["guests", "symbiosis", "lomarc-r", "lomarc-fm", "am", "ac", "glts", "cst"])
def test_jobs_of_users_who_have_not_opted_in_share_no_core(policy: str) -> None:
    """No job of this model has a user, so each is drawn by itself."""
    groups = policy in ("glts", "cst")  # they want jobs that slow themselves down
    workload = (
        {"lublin": 150, "aarr": 8.5, "self_slowdowns": "table4"}
        if groups
        else {"lublin": 150, "aarr": 8.5, "characteristics": "M1"}
    )
    told = {
        "cluster": {"nodes": 16, "preset": "g-lomarc-2x2" if groups else "lomarc-ht"},
        "truth": {"contention": "statistical" if groups else "lomarc"},
    }
    everybody = simulate({**told, "workload": workload}, policy)
    some = simulate({**told, "workload": {**workload, "opted_in": 0.5}}, policy)
    out = {record.job.spec.id for record in some.finished.records if record.job.spec.unpaired}
    assert beside_others(everybody) & out
    assert beside_others(some)
    assert not beside_others(some) & out


def test_a_user_opts_in_with_all_jobs_and_at_every_larger_share() -> None:
    drawn = generate(400, 16, seed=1)
    workload = drawn._replace(
        jobs=[each._replace(spec=each.spec._replace(user=str(each.spec.id % 40))) for each in drawn.jobs]
    )
    before: set[str] = set()
    for share in (0.0, 0.25, 0.5, 1.0):
        jobs = with_opted_in(workload, share).jobs
        sharing = {job.spec.user for job in jobs if not job.spec.unpaired}
        assert not sharing & {job.spec.user for job in jobs if job.spec.unpaired}
        assert before <= sharing
        assert abs(len(sharing) / 40 - share) < 0.2
        before = sharing
