"""Guests beside Slurm's own scheduler: the rules, and a real Slurm whose pending jobs join running ones."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.plugin.slurm.bed import Bed, bed, each_slurm
from tests.plugin.slurm.enforcing import Enforcing, seating
from tests.processes import environment, run_python

from cosched_hwmodel.units import ThreadMask
from cosched_plugin.protocol.messages import Run, StartJob
from cosched_plugin.site.books import Books
from cosched_plugin.site.poll_loop import Clock
from cosched_plugin.slurm.actuator import Commands
from cosched_plugin.slurm.adapter import rest_of, token_of
from cosched_plugin.slurm.asking import GuestActuator
from cosched_plugin.slurm.cluster import Cluster
from cosched_plugin.slurm.rest import Polls
from cosched_plugin.slurm.site_file import Site
from cosched_terminal.console import Log

LIGHT = {"usage": {"bound": "cpu", "cpu": 0.9, "network": 0.05, "disk": 0.05, "memory": 0.2}}
DISK = {"usage": {"bound": "disk", "cpu": 0.3, "network": 0.1, "disk": 0.6, "memory": 0.2}}
SITE = '[belief]\ncontention = "lomarc"\n'


REFUSED = {
    (): "which jobs does cosched place? expected --partition NAME, or [ours] partitions in the site file",
    ("--partition", "co"): "--mode guests: expected --guests HOST:GUEST, two partitions over the same nodes",
    (
        "--guests",
        "co:guest",
        "--partition",
        "shr",
    ): "--mode guests: partition shr has no partition for guests; expected --guests",
    (
        "--guests",
        "co:guest",
        "--policy",
        "easy",
    ): "--mode guests: policy easy seats no guests; expected one that pairs jobs, such as guests",
    ("--guests", "shr:guest"): (
        "slurm.conf does not let jobs share nodes: partition shr is OverSubscribe=NO: PartitionName=shr OverSubscribe=FORCE:1"
    ),
    ("--guests", "co:guest", "--out", "/x"): "--out has no effect with --mode guests",
}


def submit(one: Bed, *options: str, run_s: float, minutes: int = 5, comment: object = LIGHT, nodes: int = 1) -> int:
    size = (f"-n{4 * nodes}", f"-N{nodes}", "--ntasks-per-node=4", "--mem=100", "-t", str(minutes))
    return one.submit(*size, *options, run_s=run_s, comment=comment, held=False)


def move(one: Bed, job: int, node: str) -> None:
    """Put a job among the guests; without accounting some such changes are refused for no reason."""
    change = ("scontrol", "update", f"JobId={job}", "Partition=guest", f"NodeList={node}")
    for _ in range(60):
        one.run(*change, ok=False)
        if one.jobs()[job]["partition"] == "guest":
            return
    raise AssertionError(change)


def state(jobs: Mapping[int, Mapping[str, Any]], job: int) -> tuple[str, str]:
    return jobs[job]["job_state"], jobs[job]["partition"]


def slow_backfill(folder: Path) -> Path:
    """Return lines of slurm.conf with which a guest behind a blocked head waits for so long that something may happen."""
    file = folder / "slow.conf"
    file.write_text(
        "SchedulerType=sched/backfill\nSchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=60\n"
    )
    return file


def full(one: Bed) -> tuple[int, int]:
    """Fill both nodes, and let a job for both wait; return the jobs that run."""
    jobs = submit(one, run_s=120), submit(one, run_s=120)
    one.until(lambda shown: all(shown[job]["job_state"] == "RUNNING" for job in jobs), 20)
    submit(one, nodes=2, run_s=1)
    return jobs


def is_asked(one: Bed, *jobs: int) -> None:
    one.until(lambda shown: all(state(shown, job) == ("PENDING", "guest") for job in jobs), 20)


def is_back(one: Bed, *jobs: int, seconds: float = 10) -> None:
    one.until(
        lambda shown: all(state(shown, job) == ("PENDING", "co") and not shown[job]["required_nodes"] for job in jobs),
        seconds,
    )


@each_slurm
def test_what_is_asked_is_put_back_when_it_cannot_begin_any_more(tmp_path: Path, slurm: str) -> None:
    site = tmp_path / "site.toml"
    site.write_text(SITE)
    told = ("--mode", "guests", "--guests", "co:guest", "--site", str(site))
    with bed("--conf", str(slow_backfill(tmp_path)), "--nodes", "2", slurm=slurm) as one:
        driver = Enforcing(one, tmp_path, *told, keeps=False)
        driver.begin()
        try:
            driver.wait_for("guest beside co")
            first, second = full(one)
            guests = [submit(one, run_s=1, minutes=2, comment=DISK) for _ in range(2)]
            is_asked(one, *guests)
            one.run("scontrol", "hold", str(guests[0]))
            is_back(one, guests[0])
            assert one.jobs()[guests[0]]["priority"] == 0  # still held
            driver.wait_for(f"job {guests[0]} is back: it was held")
            one.run("scontrol", "update", "NodeName=n0,n1", "State=DRAIN", "Reason=test")
            is_back(one, guests[1])
            one.run("scontrol", "update", "NodeName=n0,n1", "State=RESUME")
            is_asked(one, guests[1])
            shown = one.jobs()
            host = next(job for job in (first, second) if shown[job]["nodes"] in shown[guests[1]]["required_nodes"])
            one.run("scancel", str(host))
            driver.wait_for(f"job {guests[1]} is back: its host on node")
            one.run("scancel", "--me")
            one.until(lambda shown: all(row["job_state"] in ("CANCELLED", "COMPLETED") for row in shown.values()), 20)

            first, second = full(one)
            guests = [submit(one, run_s=1, minutes=2, comment=DISK) for _ in range(2)]
            is_asked(one, *guests)
            driver.end(signal.SIGKILL)
            driver.begin()
            driver.wait_for(f"job {guests[0]} is back: it was pending in the partition of guests")
            driver.wait_for(f"job {guests[1]} is back: it was pending")
            is_asked(one, *guests)  # after a while
            assert driver.end(signal.SIGTERM) == 128 + signal.SIGTERM
            is_back(one, *guests, seconds=1)
            for job in guests:
                move(one, job, "n0")
            command = ("-m", "cosched_plugin", "slurm", "withdraw-all", *one.way, "--guests", "co:guest")
            ran = run_python(*command, "--dry-run", env=environment(**one.told))
            assert f"job {guests[0]}: would be put back\n" in ran.out
            is_asked(one, *guests)
            ran = run_python(*command, env=environment(**one.told))
            assert ran.code == 0, ran.err
            is_back(one, *guests, seconds=1)
            assert {"RUNNING"} == {one.jobs()[job]["job_state"] for job in (first, second)}
        finally:
            driver.end(signal.SIGKILL)


@each_slurm
def test_a_pending_job_starts_beside_a_running_one_and_comes_back_where_it_cannot(tmp_path: Path, slurm: str) -> None:
    site = tmp_path / "site.toml"
    site.write_text(SITE)
    with bed("--scheduler", "backfill", "--nodes", "2", slurm=slurm) as one:
        with seating(one, tmp_path, "--site", str(site), "--metrics", "127.0.0.1:0") as driver:
            host = submit(one, nodes=2, run_s=30)
            one.until(lambda jobs: jobs[host]["job_state"] == "RUNNING", 20)
            guest = submit(one, run_s=3, minutes=2, comment=DISK)
            one.until(lambda jobs: state(jobs, guest) == ("RUNNING", "guest"), 20)
            driver.wait_for(f"job {guest} is a guest on")
            assert (
                f"job {guest} is asked to be a guest: on n0, 1.00 times as slow as alone, beside job {host}, which"
                in driver.log
            )
            page = re.search(r"metrics at (\S+)", driver.log)
            assert page
            with urlopen(page[1], timeout=10) as answer:
                figures = answer.read().decode()
            assert "# TYPE cosched_plugin_guests_begun_total counter\ncosched_plugin_guests_begun_total 1\n" in figures
            longer = submit(one, run_s=3, minutes=60, comment=DISK)
            driver.wait_for(f"job {longer} is no guest: slowed down")
            assert one.jobs()[longer]["partition"] == "co"
            one.until(lambda jobs: jobs[guest]["job_state"] == "COMPLETED", 20)
            one.run("scontrol", "update", "NodeName=n0,n1", "State=DRAIN", "Reason=test")
            other = submit(one, run_s=3, minutes=2, comment=DISK)
            move(one, other, "n1")
            one.until(lambda jobs: state(jobs, other) == ("PENDING", "co") and not jobs[other]["required_nodes"], 60)
            driver.wait_for(f"job {other} is back: it was pending in the partition of guests")
        assert "1 guest shared nodes" in driver.log
        assert driver.log.count("asked to be a guest") == 1


@each_slurm
def test_arrays_and_jobs_of_several_nodes_join_hosts_and_pairs_that_slurm_makes_are_told(
    tmp_path: Path, slurm: str
) -> None:
    site = tmp_path / "site.toml"
    site.write_text(SITE)
    told = ("--site", str(site), "--set", "matching.empty_nodes=true")
    with bed("--scheduler", "backfill", "--nodes", "4", slurm=slurm) as one, seating(one, tmp_path, *told) as driver:
        first, second = submit(one, run_s=25), submit(one, nodes=2, run_s=25)
        alone = submit(one, "--exclusive", run_s=25)
        one.until(lambda jobs: all(jobs[job]["job_state"] == "RUNNING" for job in (first, second, alone)), 20)
        last = submit(one, "--exclusive", run_s=1, minutes=2, comment=DISK)
        tasks = submit(one, "--array=0-2", run_s=2, minutes=2, comment=DISK)
        driver.wait_for(f"job {tasks}_2 is a guest on")
        assert [driver.log.count(f"job {tasks}_{task} is a guest on") for task in range(3)] == [1, 1, 1]
        driver.wait_for(f"job {last} is no guest: it has its nodes alone")
        where = one.jobs()
        assert [row["nodes"] for row in where.values() if row["job_state"] == "RUNNING"].count(
            where[alone]["nodes"]
        ) == 1
        wide = submit(one, nodes=3, run_s=15, minutes=2, comment=DISK)
        driver.wait_for(f"job {wide} is a guest on n0,n1,n2, beside job {first}, {second},")
        one.run("scancel", str(last), str(second))
        one.until(lambda jobs: jobs[second]["job_state"] == "CANCELLED", 30)
        other = submit(one, nodes=2, run_s=1)
        driver.wait_for(f"Slurm itself has co-located guest {wide} and job {other} on n1,n2")
        one.run("scontrol", "requeue", str(wide))
        driver.wait_for(f"job {wide} is back: Slurm has requeued it")
        one.until(lambda jobs: state(jobs, wide) == ("PENDING", "co") and not jobs[wide]["required_nodes"], 60)


@each_slurm
def test_slurm_refuses_whole_what_it_has_started(tmp_path: Path, slurm: str) -> None:
    with bed("--nodes", "2", slurm=slurm) as one:
        rest = rest_of(one.way[1], token_of(one.way[3], fetches=False) if one.way[2:] else None)
        polls = Polls(rest)
        polls.connect(float("inf"))
        one.run("scontrol", "update", "NodeName=n0,n1", "State=DRAIN", "Reason=test")
        job = submit(one, run_s=20)
        one.until(lambda jobs: jobs[job]["state_reason"] not in ("", "None"), 60)
        cluster = Cluster(polls, Site().with_partitions((), ["co:guest"]), 2, observed=True)
        rest.forget()
        polls.poll(time.time())
        cluster.snapshot(0, Books(cluster.machine))
        one.run("scontrol", "update", "NodeName=n0,n1", "State=RESUME")
        one.until(lambda jobs: jobs[job]["job_state"] == "RUNNING", 20)
        lines: list[str] = []
        actuator = GuestActuator(cluster, Commands(None), Clock(), Log(write=lines.append))
        outcome = actuator.carry_out(StartJob(job, (Run(0, 1, ThreadMask(240), 4),), 1, None))
        assert isinstance(outcome, str)
        assert actuator.counts["first"] == 1
        assert lines == [f"job {job}: Slurm itself has started it first"]
        assert (state(one.jobs(), job), actuator.asked) == (("RUNNING", "co"), {})
        for options, words in REFUSED.items():
            ran = run_python(
                "-m", "cosched_plugin", "slurm", *one.way, "--mode", "guests", *options, env=environment(**one.told)
            )
            assert (ran.code, ran.err.splitlines()[-1]) == (2, f"cosched-plugin: error: {words}")
