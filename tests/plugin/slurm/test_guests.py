"""Guests beside Slurm's own scheduler: the rules, and a real Slurm whose pending jobs join running ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.plugin.slurm.bed import Bed, bed, each_slurm
from tests.plugin.slurm.enforcing import seating

WHOLE = ("-n4", "-N1", "--mem=100")
LIGHT = {"usage": {"bound": "cpu", "cpu": 0.9, "network": 0.05, "disk": 0.05, "memory": 0.2}}
DISK = {"usage": {"bound": "disk", "cpu": 0.3, "network": 0.1, "disk": 0.6, "memory": 0.2}}
SITE = '[belief]\ncontention = "lomarc"\n'


def submit(one: Bed, *options: str, run_s: float, minutes: int = 5, comment: object = LIGHT, nodes: int = 1) -> int:
    size = (f"-n{4 * nodes}", f"-N{nodes}", "--ntasks-per-node=4", "--mem=100", "-t", str(minutes))
    return one.submit(*size, *options, run_s=run_s, comment=comment, held=False)


def move(one: Bed, job: int, node: str) -> None:
    """Put a job among the guests; without accounting some such changes are refused for no reason."""
    change = ("scontrol", "update", f"JobId={job}", "Partition=guest", f"NodeList={node}")
    for _ in range(20):
        one.run(*change, ok=False)
        if one.jobs()[job]["partition"] == "guest":
            return
    raise AssertionError(change)


def state(jobs: Mapping[int, Mapping[str, Any]], job: int) -> tuple[str, str]:
    return jobs[job]["job_state"], jobs[job]["partition"]


@each_slurm
def test_a_pending_job_starts_beside_a_running_one_and_comes_back_where_it_cannot(tmp_path: Path, slurm: str) -> None:
    site = tmp_path / "site.toml"
    site.write_text(SITE)
    with bed("--scheduler", "backfill", "--nodes", "2", slurm=slurm) as one:
        with seating(one, tmp_path, "--site", str(site)) as driver:
            host = submit(one, nodes=2, run_s=30)
            one.until(lambda jobs: jobs[host]["job_state"] == "RUNNING", 20)
            guest = submit(one, run_s=3, minutes=2, comment=DISK)
            one.until(lambda jobs: state(jobs, guest) == ("RUNNING", "guest"), 20)
            driver.wait_for(f"job {guest} is a guest on")
            assert f"job {guest} is asked to be a guest: on n0, beside job {host}" in driver.log
            longer = submit(one, run_s=3, minutes=60, comment=DISK)
            driver.wait_for(f"job {longer} is no guest: its limit")
            assert one.jobs()[longer]["partition"] == "co"
            one.until(lambda jobs: jobs[guest]["job_state"] == "COMPLETED", 20)
            one.run("scontrol", "update", "NodeName=n0,n1", "State=DRAIN", "Reason=test")
            other = submit(one, run_s=3, minutes=2, comment=DISK)
            move(one, other, "n1")
            one.until(lambda jobs: state(jobs, other) == ("PENDING", "co") and not jobs[other]["required_nodes"], 10)
            driver.wait_for(f"job {other} is back: it waited in the partition of guests")
        assert "1 guests shared nodes" in driver.log
        assert driver.log.count("asked to be a guest") == 1
