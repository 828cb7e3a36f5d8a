"""A whole made site, from its accounting and what it says of itself to a simulation of its jobs: near what its own scheduler did.

That scheduler is an independent one, with rules of its own (README.md beside its files); what it did is read for the comparison alone.
"""

from __future__ import annotations

import gzip
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.processes import ROOT
from tests.reference.site_rules import check_site

from cosched_emulator.api.simulate import simulate
from cosched_emulator.workload.sacct.sacct_log import ImportOptions, import_dump
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import CANCELLED

SITE = ROOT.parent / "shared" / "site2026"
FACTS = ("config", "partitions", "nodes", "reservations", "qos", "assoc", "events")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SITE.exists(), reason="the site of 2026 is not beside the checkout"),
]


class Waits(NamedTuple):
    """Waits from submission by job, in minutes, as they were and as simulated."""

    real: Mapping[int, float]
    simulated: Mapping[int, float]

    def means(self, chosen: Callable[[int], bool] = bool) -> tuple[float, float]:
        """Return the mean waits of some jobs."""
        jobs = [job for job in self.real if chosen(job)]
        return statistics.fmean(self.real[job] for job in jobs), statistics.fmean(self.simulated[job] for job in jobs)

    def correlation(self) -> float:
        """Return Pearson's r of the waits by job."""
        return statistics.correlation([*self.real.values()], [self.simulated[job] for job in self.real])


def table(name: str) -> dict[int, list[int]]:
    """Return the rows of a file by the number of a job, without the nodes: a list, or none."""
    with gzip.open(SITE / name, "rt") as lines:
        rows = [[int(cell) for cell in line.split() if "," not in cell and cell != "-"] for line in lines]
    return {row[0]: row for row in rows}


def imported(tmp_path: Path) -> Path:
    """Import the site with all of its facts; return its scenario."""
    facts = tuple([str(SITE / f"{name}.txt") for name in FACTS])
    import_dump(str(SITE / "sacct.txt.gz"), tmp_path / "site", ImportOptions(facts=facts))
    return tmp_path / "site" / "scenario.toml"


def waits(tmp_path: Path, jobs: int | None, *, check: bool) -> Waits:
    """Simulate the first jobs of the site; all of them with None."""
    overrides = {} if jobs is None else {"workload": {"jobs": jobs}}
    ran = simulate(imported(tmp_path), overrides=overrides)
    if check:
        check_site(ran.prepared, ran.records)
    found = {
        record.job.source_id: (record.intervals[0].start_us - record.job.spec.submit_us) / SECOND_US / 60
        for record in ran.records
        if record.intervals
    }
    submitted, truth = table("jobs.txt.gz"), table("truth.txt.gz")
    real = {job: (truth[job][1] - submitted[job][1]) / 60 for job in found if truth[job][1] >= 0}
    return Waits(real, {job: found[job] for job in real})


def test_the_first_jobs_wait_as_they_did_and_no_rule_is_broken(tmp_path: Path) -> None:
    found = waits(tmp_path, 6_000, check=True)
    real, simulated = found.means()
    assert simulated == pytest.approx(real, rel=0.1)
    assert found.correlation() > 0.95


@pytest.mark.parametrize("policy", ["ssp", "glts", "co-execution-easy"])
def test_policies_that_divide_nodes_which_are_alike_break_no_rule_on_nodes_that_differ(
    tmp_path: Path, policy: str
) -> None:
    """Two kinds of nodes, of which one has GPUs; three partitions, of which one has both kinds."""
    overrides = {"workload": {"jobs": 6_000}, "truth": {"contention": "statistical"}}
    ran = simulate(imported(tmp_path), policy, overrides=overrides)
    assert not ran.unfinished
    never = [record for record in ran.records if not record.intervals]  # they were cancelled while they were pending
    assert {record.state for record in never} <= {CANCELLED}
    assert check_site(ran.prepared, ran.records) >= 6_000 - len(never) > 5_900


def test_all_jobs_wait_as_they_did_in_every_class(tmp_path: Path) -> None:
    found = waits(tmp_path, None, check=False)
    jobs = table("jobs.txt.gz")
    assert 250 < found.means()[1] < 335
    assert found.correlation() > 0.9
    preempt, normal, high = (found.means(lambda job, qos=qos: jobs[job][9] == qos) for qos in range(3))  # type: ignore[misc]  # bound
    assert high[1] < normal[1] < preempt[1]
    classes: dict[str, Callable[[int], bool]] = {
        "of several nodes": lambda job: jobs[job][4] > 1,
        "with GPUs": lambda job: jobs[job][7] > 0,
        "of arrays": lambda job: jobs[job][12] > 0,
        "that depend on others": lambda job: jobs[job][13] > 0,
        "of QOS preempt": lambda job: jobs[job][9] == 0,
        "of QOS normal": lambda job: jobs[job][9] == 1,
        "of QOS high": lambda job: jobs[job][9] == 2,
    }
    for name, chosen in classes.items():
        real, simulated = found.means(chosen)
        assert simulated == pytest.approx(real, rel=0.25), name
