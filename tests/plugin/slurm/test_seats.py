"""Pairs on the two hardware threads of the same cores: each job on its own thread, by affinity masks, and a whole queue of pairs."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
from tests.plugin.slurm.bed import Bed, bed, each_slurm
from tests.plugin.slurm.enforcing import (
    enforcing,
    latencies_ms,
    most_on_a_node,
    neighbours,
    nodes_in,
    planned,
    replayed,
    seating,
    stamped,
    stamps,
)
from tests.plugin.slurm.test_enforce import BUSY, DONE, PAIRS, TALKING
from tests.processes import ROOT

SCRIPT = ROOT / "docs" / "examples" / "cosched-seats.sh"
HINT = "--hint=nomultithread"


def seats_script(folder: Path, siblings: Mapping[int, str]) -> Path:
    """Return the shipped script, with the hardware threads of a machine that is not this one."""
    for cpu, threads in siblings.items():
        file = folder / "cpus" / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{threads}\n")
    text, count = re.subn(r"^cpus=\S+", f"cpus={folder}/cpus", SCRIPT.read_text(), flags=re.MULTILINE)
    assert count == 1
    script = folder / "seats.sh"
    script.write_text(text)
    script.chmod(0o755)
    return script


# 4 cores of 2 threads, numbered as Linux does on most machines, and 2 cores of 4 threads in a row
WIDE = {cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)}
DEEP = {cpu: "0-3" if cpu < 4 else "4-7" for cpu in range(8)}


@pytest.mark.parametrize(
    ("partition", "siblings", "mask", "told", "seats"),
    [
        ("co", WIDE, "0", {"SLURM_HINT": "nomultithread"}, "0"),
        ("guest", WIDE, "0", {"SLURM_HINT": "nomultithread"}, "4"),
        ("guest", WIDE, "2", {"SLURM_THREADS_PER_CORE": "1"}, "6"),  # each task on its own core
        ("guest", WIDE, "0-7", {"SLURM_HINT": "nomultithread"}, "4,5,6,7,4,5,6,7"),  # the batch script
        ("co", WIDE, "0-1,4-5", {"SLURM_NTASKS_PER_CORE": "1"}, "0,1,0,1"),
        ("co", WIDE, "3,7", {"SLURM_CPUS_PER_TASK": "2"}, "3,3"),
        ("guest", WIDE, "3,7", {"SLURM_CPUS_PER_TASK": "2"}, "7,7"),
        ("co", WIDE, "3", {}, ""),  # it uses both threads of its cores
        ("co", WIDE, "0-1,4", {"SLURM_CPUS_PER_TASK": "3"}, ""),
        ("batch", WIDE, "0", {"SLURM_HINT": "nomultithread"}, ""),
        ("guest", DEEP, "4", {"SLURM_HINT": "nomultithread"}, "5"),
        ("guest", {0: "0", 1: "1"}, "0-1", {"SLURM_HINT": "nomultithread"}, ""),  # one thread a core
    ],
)
def test_a_task_gets_the_thread_of_its_partition_on_each_of_its_cores(
    tmp_path: Path, partition: str, siblings: Mapping[int, str], mask: str, told: Mapping[str, str], seats: str
) -> None:
    assert seats_of(tmp_path, seats_script(tmp_path, siblings), partition, mask, told) == seats


@pytest.mark.parametrize(("told", "seats"), [({}, "3"), ({"SLURM_NTASKS_PER_CORE": "2"}, "")])
def test_where_slurm_gives_each_task_a_core_every_job_may_be_a_host(
    tmp_path: Path, told: Mapping[str, str], seats: str
) -> None:
    script = seats_script(tmp_path, WIDE)
    script.write_text(script.read_text().replace('tasks_per_core=""', "tasks_per_core=1"))
    assert seats_of(tmp_path, script, "co", "3", told) == seats


def seats_of(folder: Path, script: Path, partition: str, mask: str, told: Mapping[str, str]) -> str:
    """Return to which CPUs a task is bound that may run on some; empty if it stays there."""
    (folder / "taskset").write_text(
        f'#!/bin/bash\n(($# == 2)) && echo "pid $2\'s current affinity list: {mask}" || echo "$@" >>{folder}/asked\n'
    )
    (folder / "taskset").chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_PARTITION": partition, "SLURM_TASK_PID": "77", **told}
    done = subprocess.run([script], env=env, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    asked = (folder / "asked").read_text() if (folder / "asked").exists() else ""
    return asked.removeprefix("-cp ").removesuffix(" 77\n")


# ---------------------------------------------------------------- on a real Slurm: cores of two threads, one core a node, or four

CONF = """
TaskPlugin=task/{binding}
TaskProlog={script}
SelectTypeParameters=CR_Core_Memory
NodeName=DEFAULT Sockets=1 CoresPerSocket={cores} ThreadsPerCore=2 RealMemory=4000 State=UNKNOWN
NodeName=n[0-7] NodeHostname=%H NodeAddr=127.0.0.1 Port=[%P+10-%P+17]
NodeName=tick NodeHostname=%H NodeAddr=127.0.0.1 Port=%P+18
PartitionName=DEFAULT Nodes=n[0-7] DefMemPerCPU=500 MaxTime=INFINITE State=UP
PartitionName=co Default=YES OverSubscribe=FORCE:1
PartitionName=guest OverSubscribe=FORCE:1
PartitionName=tick Nodes=tick OverSubscribe=FORCE:64 PriorityTier=10 Hidden=YES
"""
needs_two_cpus = pytest.mark.skipif(
    not {0, 1} <= os.sched_getaffinity(0), reason="two real CPUs are the two threads of a core here"
)


def hyperthreads(folder: Path, cores: int) -> list[str]:
    """Return the options of such a bed; two real CPUs are a core, so more cores are not bound to any."""
    script = seats_script(folder, {0: "0-1", 1: "0-1"})
    binding = "affinity" if cores == 1 else "none"
    (folder / "bed.conf").write_text(CONF.format(script=script, cores=cores, binding=binding))
    return ["--conf", str(folder / "bed.conf"), "--min-job-age", "900"]


def masked(one: Bed, run_s: float, *, steps: bool) -> str:
    """Return a script that notes its start and end, and on which CPUs it and its tasks may run."""
    note = f'echo "$SLURM_JOB_ID $SLURM_JOB_PARTITION $(grep Cpus_allowed_list /proc/self/status | cut -f2)" >> {one.folder}/masks'
    step = f"srun --overlap bash -c '{note}'\n" if steps else ""
    return stamped(one, f"{note}\n{step}sleep {run_s}")


def masks(one: Bed) -> dict[int, set[tuple[str, str]]]:
    found: dict[int, set[tuple[str, str]]] = {}
    for line in (one.folder / "masks").read_text().splitlines():
        job, partition, cpus = line.split()
        found.setdefault(int(job), set()).add((partition, cpus))
    return found


def queue_of(one: Bed, count: int, cores: int, kinds: Sequence[str], pause_s: float) -> tuple[list[int], list[int]]:
    """Submit jobs that may be paired, and among them such as use all threads of their cores, and exclusive ones; return both kinds."""
    random = Random(count)
    pairable: list[int] = []
    alone: list[int] = []
    for number in range(count):
        time.sleep(pause_s)
        nodes = random.choice((1, 1, 1, 2, 2, 4))
        tasks = random.choice((cores, cores, -(-cores // 2)))
        whole = ["-N", str(nodes), "-n", str(nodes * tasks), f"--ntasks-per-node={tasks}", "-t", "15"]
        told = {**random.choice((BUSY, TALKING)), "estimate_s": 900.0}
        script = masked(one, round(random.uniform(0.5, 2.0), 2), steps=number % 5 in (0, 4))
        kind = {4: ("-n", str(2 * cores * nodes), f"--ntasks-per-node={2 * cores}"), 9: ("--exclusive", HINT)}.get(
            number % 10
        )
        jobs = pairable if kind is None else alone
        jobs.append(one.submit(*whole, *(kind or (random.choice(kinds),)), script=script, comment=told))
    return pairable, alone


def check_queue(tmp_path: Path, slurm: str, count: int, cores: int = 1, pause_s: float = 0.0) -> None:
    """Every job ends once, on the planned nodes; two a core at most, each on its own thread; exclusive jobs are alone."""
    (tmp_path / "site.toml").write_text(PAIRS)
    options = ("--policy", "lomarc-r", "--guests", "co:guest", "--site", str(tmp_path / "site.toml"))
    with bed(*hyperthreads(tmp_path, cores), slurm=slurm) as one, enforcing(one, tmp_path, *options) as driver:
        driver.wait_for("2 jobs a core")
        # The interface of 22.05 does not show --cpus-per-task.
        kinds = (HINT, "--ntasks-per-core=1", *(["-c2"] if slurm != "22.05" else []))
        pairable, alone = queue_of(one, count, cores, kinds, pause_s)
        wanted = [*pairable, *alone]
        one.until(lambda jobs: len(jobs) == count and all(row["job_state"] in DONE for row in jobs.values()), 240)
        time.sleep(0.5)
        ran, seen = stamps(one), masks(one)
        assert {job: (len(ran[job].starts), len(ran[job].ends)) for job in wanted} == dict.fromkeys(wanted, (1, 1))
        assert max(most_on_a_node(one).values()) <= 2
        for job in alone:
            assert not neighbours(one, job)
        assert {job: nodes_in(ran[job].nodes) for job in wanted} == planned(driver.records)
        right = ({("co", "0")}, {("guest", "1")})
        both = {
            ("co", "0-1"),
            ("co", "0"),
            ("co", "1"),
        }  # of a job that uses all threads: its script, and its two tasks
        assert cores > 1 or not [
            job for job in wanted if seen[job] not in right and not (job in alone and seen[job] <= both)
        ]
        paired = [job for job in pairable if neighbours(one, job)]
        assert replayed(driver.records, "lomarc-r")
        median, late, most = latencies_ms(driver)
        guests = sum(("guest", "1") in seen[job] for job in wanted)
        print(
            f"{slurm}: {count} jobs, {len(paired)} beside others, {guests} in guest; decision to start, ms: median {median:.0f}, "
            f"p95 {late:.0f}, max {most:.0f}; refused {driver.log.count('refused')}, withdrawn {driver.log.count('withdrawn')}"
        )
        assert len(paired) >= count // 4


@needs_two_cpus
@each_slurm
def test_a_queue_of_pairs_has_each_job_on_its_own_thread(tmp_path: Path, slurm: str) -> None:
    check_queue(tmp_path, slurm, 30)


@needs_two_cpus
@each_slurm
def test_a_guest_beside_slurms_own_jobs_has_the_other_thread(tmp_path: Path, slurm: str) -> None:
    (tmp_path / "site.toml").write_text('[belief]\ncontention = "lomarc"\n')
    with (
        bed(*hyperthreads(tmp_path, 1), "--scheduler", "backfill", slurm=slurm) as one,
        seating(one, tmp_path, "--site", str(tmp_path / "site.toml")),
    ):
        sizes = ("-N2", "-n2", "--ntasks-per-node=1", HINT)

        def submit(minutes: int, run_s: float, comment: object) -> int:
            script = masked(one, run_s, steps=True)
            return one.submit(*sizes, "-t", str(minutes), script=script, comment=comment, held=False)

        hosts = [submit(5, 12, BUSY) for _ in range(4)]
        one.until(lambda rows: all(rows[job]["job_state"] == "RUNNING" for job in hosts), 20)
        guests = [submit(3, 3, TALKING) for _ in range(4)]
        jobs = one.until(lambda rows: all(row["job_state"] == "COMPLETED" for row in rows.values()), 90)
        assert {jobs[guest]["partition"] for guest in guests} == {"guest"}
        seen = masks(one)
        assert [seen[job] for job in (*hosts, *guests)] == [{("co", "0")}] * 4 + [{("guest", "1")}] * 4


@pytest.mark.slow
@needs_two_cpus
@each_slurm
@pytest.mark.parametrize(("cores", "count"), [(1, 300), (4, 100)])
def test_hundreds_of_pairs_on_hyperthreads(tmp_path: Path, slurm: str, cores: int, count: int) -> None:
    check_queue(tmp_path, slurm, count, cores, 0.1)
