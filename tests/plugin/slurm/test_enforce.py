"""On a real Slurm: jobs are placed as a core decides, every job ends once, and what users and operators do is taken as it is."""

from __future__ import annotations

import getpass
import os
import signal
import time
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from tests.plugin.slurm.bed import Bed, absent, bed, each_slurm, needs_slurm, on_each_slurm
from tests.plugin.slurm.enforcing import (
    decided,
    enforcing,
    latencies_ms,
    most_on_a_node,
    neighbours,
    replayed,
    stamped,
    stamps,
)
from tests.plugin.slurm.record import manage
from tests.processes import environment, run_python

from cosched_plugin.slurm.rest import LIMITS_S

pytestmark = needs_slurm
DONE = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}


def all_ended(jobs: dict[int, dict[str, object]]) -> bool:
    return all(row["job_state"] in DONE for row in jobs.values())


def submit_mixed(one: Bed, count: int, random: Random, longest_s: float = 1.0) -> list[int]:
    """Submit jobs of all sizes, on whole nodes and on cores, with estimates in seconds."""
    found = []
    for _ in range(count):
        nodes = random.choice((1, 1, 1, 2, 2, 3, 4, 8))
        per_node = random.choice((4, 4, 2, 1))
        run_s = round(random.uniform(0.2, longest_s), 2)
        options = ["-N", str(nodes), "-n", str(nodes * per_node), f"--ntasks-per-node={per_node}", "-t", "2"]
        script = stamped(one, f"sleep {run_s}")
        found.append(one.submit(*options, script=script, comment={"estimate_s": round(1.5 * run_s, 2)}))
    return found


@on_each_slurm(always=True)
def test_jobs_run_as_a_core_decides(tmp_path: Path, slurm: str) -> None:
    with bed(slurm=slurm) as one, enforcing(one, tmp_path, "--policy", "easy", "--partition", "co") as driver:
        wanted = submit_mixed(one, 20, Random(3))
        array = one.submit("--array=1-3", "-n2", "-t", "1", run_s=0.3)
        fill = one.submit("-n6", script=stamped(one, "sleep 0.5"))  # 4 + 2: Slurm fills nodes
        alone = one.submit("-n2", "--exclusive", "-t", "1", script=stamped(one, "sleep 0.5"))
        odd = one.submit("-N3", "-n6", script=stamped(one, "sleep 0.5"))  # 4 + 1 + 1: told of as three times four cores
        picky = one.submit("-N1", "-C", "b", "-x", "n4,n5,n6", script=stamped(one, "sleep 0.5"))
        left = one.submit("-N1", "--reboot")
        jobs = one.until(lambda jobs: sum(row["job_state"] == "COMPLETED" for row in jobs.values()) == 27, 60)
        assert {job for job, row in jobs.items() if row["job_state"] != "COMPLETED"} == {left}
        assert (jobs[left]["state_reason"], jobs[picky]["nodes"]) == ("JobHeldUser", "n7")
        driver.wait_for(f"job {left} is left to Slurm: it asks for --reboot")
        assert jobs[array]["job_state"] == "COMPLETED"
        assert jobs[fill]["cpus"] == 6
        ran = stamps(one)
        assert {
            job: (len(ran[job].starts), len(ran[job].ends)) for job in (*wanted, fill, alone, odd, picky)
        } == dict.fromkeys((*wanted, fill, alone, odd, picky), (1, 1))
        assert (
            os.getloadavg()[0] > 4 or latencies_ms(driver)[0] < 400
        )  # it would be half a second if nothing woke Slurm
        assert replayed(driver.records, "easy") > 10  # a slow machine has fewer, larger batches
        assert {*wanted, fill, alone, odd, picky} <= decided(driver.records).keys()


@each_slurm
@pytest.mark.slow
def test_what_others_do_is_a_fact(tmp_path: Path, slurm: str) -> None:
    with (
        bed("--slurmd-timeout", "10", slurm=slurm) as one,
        enforcing(one, tmp_path, "--policy", "easy", "--partition", "co") as driver,
    ):
        whole = ("-N8", "-n32", "--ntasks-per-node=4")
        first = one.submit(*whole, "-t", "5", run_s=3)
        one.until(lambda jobs: jobs[first]["job_state"] == "RUNNING", 60)
        hand = one.submit("-N1", "-n4", "-t", "1", run_s=0.5)  # waits behind the first, until somebody releases it
        gone = one.submit("-N1", "-n4", "-t", "1", run_s=0.5)
        kept = one.submit("-N1", "-n4", "-t", "1", run_s=0.5)
        later = one.submit("-N1", "-n4", "-t", "1", "--begin=now+5", run_s=0.5)
        after = one.submit("-N1", "-n4", "-t", "1", f"--dependency=afterok:{later}", run_s=0.5)
        grown = one.submit("-N1", "-n4", "--ntasks-per-node=4", "-t", "1", run_s=0.5)
        never = int(one.run("sbatch", "--parsable", "-o", "/dev/null", "-D", "/", "-n1", "-t1", "--wrap", "sleep 1"))
        driver.wait_for(f"job {never} is left to Slurm")
        one.run("scontrol", "release", str(hand))
        one.run("scancel", str(gone))
        one.run("scontrol", "hold", str(kept))
        one.run("scontrol", "update", f"JobId={grown}", "TimeLimit=3", "JobName=renamed")
        one.run("scontrol", "suspend", str(first))
        time.sleep(2.5)
        one.run("scontrol", "resume", str(first))
        jobs = one.until(
            lambda jobs: all(jobs[job]["job_state"] == "COMPLETED" for job in (first, hand, grown, never, after)), 60
        )
        assert jobs[kept]["job_state"] == "PENDING"
        assert jobs[gone]["job_state"] == "CANCELLED"
        assert jobs[after]["start_time"] >= jobs[later]["end_time"]
        one.run("scontrol", "uhold", str(kept))
        one.until(lambda jobs: jobs[kept]["job_state"] == "COMPLETED", 20)
        again = one.submit("-N1", "-n4", "-t", "2", "--requeue", script=stamped(one, "sleep 5"))
        one.until(lambda jobs: jobs[again]["job_state"] == "RUNNING", 60)
        time.sleep(1.1)
        one.run("scontrol", "requeue", str(again))
        one.until(lambda jobs: jobs[again]["job_state"] == "COMPLETED", 30)
        assert (len(stamps(one)[again].starts), len(stamps(one)[again].ends)) == (2, 1)
        driver.wait_for(f"job {again} was requeued, and is held")
        assert replayed(driver.records, "easy") > 10


@each_slurm
def test_release_all_is_the_way_back(tmp_path: Path, slurm: str) -> None:
    with bed(slurm=slurm) as one:
        jobs = [one.submit("-N1", "-n4", "-t", "1", run_s=0.2) for _ in range(3)]
        array = one.submit("--array=1-2", "-n1", "-t", "1", run_s=0.2)
        kept = one.submit("-N1", "-n1", run_s=0.2)
        one.run("scontrol", "hold", str(kept))
        command = ("-m", "cosched_plugin", "slurm", "release-all", *one.way, "--partition", "co")
        env = environment(**one.told)
        said = run_python(*command, "--dry-run", env=env)
        assert (said.code, said.out.count("would be released")) == (0, 4), said
        assert one.jobs()[jobs[0]]["job_state"] == "PENDING"
        said = run_python(*command, env=env)
        assert (said.code, said.out.count(": released")) == (0, 4), said
        rows = one.until(lambda rows: sum(row["job_state"] == "COMPLETED" for row in rows.values()) == 5, 30)
        assert rows[array]["job_state"] == "COMPLETED"
        assert rows[kept]["state_reason"] == "JobHeldAdmin"


PAIRS = """
[ours]
unknown_alone = true

[belief]
contention = "lomarc"
parameters = { good_share_ppm = 1_000_000, good_c_ppm = 1_100_000, pair_seed = 3 }
"""
BUSY = {"usage": {"bound": "cpu", "cpu": 0.9, "network": 0.05, "disk": 0.05, "memory": 0.1}}
TALKING = {"usage": {"bound": "network", "cpu": 0.2, "network": 0.75, "disk": 0.05, "memory": 0.1}}


@each_slurm
def test_pairs_share_nodes_and_nobody_else_does(tmp_path: Path, slurm: str) -> None:
    (tmp_path / "site.toml").write_text(PAIRS)
    site = ("--site", str(tmp_path / "site.toml"))
    with (
        bed(slurm=slurm) as one,
        enforcing(one, tmp_path, "--policy", "lomarc-r", "--guests", "co:guest", *site) as driver,
    ):
        driver.wait_for("2 jobs a core")
        wanted = []
        for number in range(16):
            nodes = (1, 2, 4, 8)[number % 4]
            whole = ["-N", str(nodes), "-n", str(4 * nodes), "--ntasks-per-node=4", "-t", "15"]
            # a job that is expected to take less than ten minutes is a short one for LOMARC, and never paired
            told = {**(BUSY if number % 2 else TALKING), "estimate_s": 900.0}
            wanted.append(one.submit(*whole, script=stamped(one, f"sleep {1 + number % 3 / 2}"), comment=told))
        whole = ["-N2", "-n8", "--ntasks-per-node=4", "-t", "15"]
        alone = [
            one.submit(*whole, "--exclusive", script=stamped(one, "sleep 2"), comment={**BUSY, "estimate_s": 900.0}),
            one.submit(*whole, script=stamped(one, "sleep 2")),  # nothing is known of it
        ]
        one.until(lambda jobs: all_ended(jobs) and len(jobs) == 18, 90)
        ran = stamps(one)
        assert {job: (len(ran[job].starts), len(ran[job].ends)) for job in (*wanted, *alone)} == dict.fromkeys(
            (*wanted, *alone), (1, 1)
        )
        most = most_on_a_node(one)
        assert set(most.values()) == {2}, most
        for job in alone:
            assert not neighbours(one, job)
        assert sum(bool(neighbours(one, job)) for job in wanted) >= 8
        limits = {job: row["time_limit"] for job, row in one.jobs().items()}
        assert {limits[job] for job in alone} == {15}
        assert max(limits.values()) > 15  # a pair has more time, in whole minutes
        assert replayed(driver.records, "lomarc-r") > 10


def test_policies_that_a_cluster_cannot_serve_are_refused_at_the_start(tmp_path: Path) -> None:
    with bed() as one:
        env = environment(**one.told)
        command = ("-m", "cosched_plugin", "slurm", *one.way, "--state", str(tmp_path / "state"))
        for policy, words in (("gang", "slots"), ("glts", "disk")):
            ran = run_python(*command, "--partition", "co", "--policy", policy, env=env)
            assert ran.code == 2
            assert words in ran.err
        ran = run_python(*command, "--partition", "nosuch", env=env)
        assert (ran.code, "no nodes in partition nosuch; there are co, ex, guest, shr, tick" in ran.err) == (2, True)
        (tmp_path / "site.toml").write_text("[ours]\npartition = ['co']\n")
        ran = run_python(*command, "--partition", "co", "--site", str(tmp_path / "site.toml"), env=env)
        assert (ran.code, f"{tmp_path}/site.toml: ours: no such key 'partition'" in ran.err) == (2, True)


RATES = """
[machine]
memory_bandwidth_mbs = 4000

[belief]
contention = "bandwidth"
resources = ["memory_bandwidth"]
"""
SITES = {"easy": "", "rua": RATES, "lomarc-r": PAIRS}


@each_slurm
@pytest.mark.slow
@pytest.mark.parametrize(("policy", "count"), [("easy", 300), ("rua", 200), ("lomarc-r", 200)])
def test_hundreds_of_jobs_at_five_a_second(tmp_path: Path, slurm: str, policy: str, count: int) -> None:
    """Mixed sizes and demands: every job ends once, a fresh core gives the same answers, and starts follow decisions quickly."""
    busy = os.getloadavg()[0]
    (tmp_path / "site.toml").write_text(SITES[policy])
    options = ("--policy", policy, "--guests", "co:guest", "--site", str(tmp_path / "site.toml"))
    with bed(slurm=slurm) as one, enforcing(one, tmp_path, *options) as driver:
        random = Random(7)
        wanted = []
        begun = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, begun + number * 0.2 - time.monotonic()))
            per_node = 4 if policy == "lomarc-r" else random.choice((4, 2, 1))
            nodes = random.choice((1, 1, 1, 1, 2)) if number % 25 else 4
            run_s = round(random.uniform(0.3, 1.2), 2)
            told: dict[str, object] = {"estimate_s": 900.0 if policy == "lomarc-r" else run_s}
            if policy == "rua":
                told["demand"] = {"memory_mbs": random.choice((100, 600, 1200))}
            if policy == "lomarc-r":
                told.update(random.choice((BUSY, TALKING)))
            layout = ["-N", str(nodes), "-n", str(nodes * per_node), f"--ntasks-per-node={per_node}", "-t", "15"]
            wanted.append(one.submit(*layout, script=stamped(one, f"sleep {run_s}"), comment=told))
        one.until(lambda jobs: all(row["job_state"] in DONE for row in jobs.values()), 120)
        time.sleep(0.5)
        ran = stamps(one)
        assert {job: (len(ran[job].starts), len(ran[job].ends)) for job in wanted} == dict.fromkeys(wanted, (1, 1))
        assert max(most_on_a_node(one).values()) <= (2 if policy == "lomarc-r" else 4)
        assert replayed(driver.records, policy) >= 100
        median, late, most = latencies_ms(driver)
        paired = sum(bool(neighbours(one, job)) for job in wanted)
        print(
            f"{policy}: {count} jobs, {paired} beside others; decision to start, ms: "
            f"median {median:.0f}, p95 {late:.0f}, max {most:.0f}; load before {busy:.1f}"
        )
        if busy < 2:  # two cores hold Slurm, its jobs and the driver, and nothing else
            assert median < 100
            assert late < 250


# ---------------------------------------------------------------- limits


def times(one: Bed, jobs: list[int]) -> list[tuple[float, float]]:
    rows = one.jobs()
    return [(rows[job]["start_time"], rows[job]["end_time"]) for job in jobs]


def most_at_once(spans: list[tuple[float, float]]) -> int:
    return max(sum(other[0] <= begin < other[1] for other in spans) for begin, _ in spans)


def done(one: Bed, jobs: list[int]) -> None:
    one.until(lambda rows: all(rows[job]["job_state"] == "COMPLETED" for job in jobs), 90)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can submit jobs of several users")
@on_each_slurm("slurmdbd", "sacctmgr")
def test_no_start_beyond_a_limit_is_tried_while_slurmdbd_lives_changes_and_dies(tmp_path: Path, slurm: str) -> None:
    """A QOS of 2 jobs a user, an account below another with 4 CPUs in all, and a third user whom nothing binds."""
    with bed("--accounting", "--nodes", "4", slurm=slurm) as one:
        manage(one, BED)
        with enforcing(one, tmp_path, "--policy", "easy", "--partition", "co") as driver:

            def tried() -> int:
                return driver.log.count("has not started in time") + driver.log.count("refuses")

            def submit(count: int, who: str, *options: str, run_s: float = 6.0) -> list[int]:
                return [one.submit(f"--uid={who}", "-t5", *options, run_s=run_s) for _ in range(count)]

            def known(times: int) -> None:
                end = time.monotonic() + LIMITS_S + 10
                while driver.log.count("the scheduler keeps limits of") < times:
                    assert time.monotonic() < end, driver.log
                    time.sleep(0.2)

            known(1)
            few = submit(4, "games", "-n1", "-A", "phys", "--qos=few")
            cpus = submit(3, "news", "-n2", "-A", "chem")
            free = submit(2, "daemon", "-n4", "-A", "phys", run_s=2.0)
            done(one, few + cpus + free)
            assert tried() == 0, driver.log
            assert (most_at_once(times(one, few)), most_at_once(times(one, cpus))) == (2, 2)
            first_end = min(end for _, end in times(one, few + cpus))
            assert max(begin for begin, _ in times(one, free)) < first_end  # those that are limited delay nobody
            driver.wait_for("waits: QOSMaxJobsPerUserLimit")
            driver.wait_for("waits: AssocGrpCpuLimit")

            one.run("sacctmgr", "-i", "modify", "qos", "few", "set", "MaxJobsPerUser=4")  # it is followed
            known(2)
            few = submit(5, "games", "-n1", "-A", "phys", "--qos=few")
            done(one, few)
            assert (tried(), most_at_once(times(one, few))) == (0, 4), driver.log

            one.run("sacctmgr", "-i", "modify", "qos", "few", "set", "MaxJobsPerUser=1")
            known(3)
            pid = int((one.folder / "pids" / "slurmdbd.pid").read_text())
            os.kill(
                pid, signal.SIGSTOP
            )  # slurmrestd has no answer to a question for limits or partitions for 45 to 90 s
            asked = time.monotonic()
            while time.monotonic() < asked + LIMITS_S + 20:
                begun = time.monotonic()
                done(one, submit(1, "daemon", "-n1", "-A", "phys", run_s=0.2))  # and no job waits for it
                assert time.monotonic() - begun < 30, driver.log
                time.sleep(2)
            os.kill(pid, signal.SIGKILL)
            driver.wait_for("slurmdbd reports no limits", LIMITS_S + 10)
            few = submit(3, "games", "-n1", "-A", "phys", "--qos=few", run_s=2.0)
            done(one, few)
            assert (tried(), most_at_once(times(one, few))) == (0, 1), driver.log
            one.up()
            driver.wait_for("slurmdbd reports limits again", LIMITS_S + 10)
            assert driver.log.count("slurmdbd reports no limits") == 1
            assert driver.log.count("the last known limits stay") == 1


BED = """
add account phys
add account chem parent=phys
add qos few set MaxJobsPerUser=2
add user games,daemon account=phys
add user news account=chem
modify user where name=games set qos+=few
modify account chem set GrpTRES=cpu=4
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(absent("24.11")), reason=absent("24.11"))
def test_jobs_above_a_limit_that_slurm_alone_judges_cost_an_attempt_each_and_one_an_end(tmp_path: Path) -> None:
    with bed("--accounting", slurm="24.11") as one:
        one.run("sacctmgr", "-i", "modify", "qos", "normal", "set", "MaxTRESPerUser=billing=1")
        one.run("sacctmgr", "-i", "add", "account", "root", ok=False)
        one.run("sacctmgr", "-i", "add", "user", getpass.getuser(), "account=root", "qos=normal", ok=False)
        with enforcing(one, tmp_path, "--policy", "easy", "--partition", "co") as driver:
            jobs = [one.submit("-n1", "-t", "5", run_s=4.0) for _ in range(4)]
            done = one.until(lambda rows: all(rows[job]["job_state"] == "COMPLETED" for job in jobs), 60)
            assert 0 < driver.log.count("has not started in time") <= 6, driver.log
            gaps = sorted((done[job]["start_time"], done[job]["end_time"]) for job in jobs)
            assert all(later[0] - before[1] <= 2 for before, later in pairwise(gaps)), gaps
