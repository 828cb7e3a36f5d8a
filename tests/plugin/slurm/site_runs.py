"""How far a simulation of a site's own facts is from the site: 150 jobs of four users on a real Slurm, imported as any site would.

    python -m tests.plugin.slurm.site_runs run SEED [RELEASE]    on a test bed with accounting, about ten minutes
    python -m tests.plugin.slurm.site_runs report    the stored runs beside their simulations

The Slurm has fair share in a tree of accounts, QOS with priorities and limits, two partitions that overlap, arrays with %N and
dependencies. A run is stored in recorded/site as what sacct, scontrol and sacctmgr printed, and nothing else is known of it.
"""

from __future__ import annotations

import gzip
import re
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from tests.plugin.slurm.bed import bed
from tests.plugin.slurm.guests.runs import USERS, as_user

from cosched_emulator import simulate
from cosched_emulator.workload.sacct.sacct_log import ImportOptions, import_dump
from cosched_emulator.workload.sacct.site_facts import COMMANDS
from cosched_plugin.common.sacct_rows import COMMAND

FOLDER: Final = Path(__file__).parent / "recorded" / "site"
RELEASE: Final = "24.11"
COUNT: Final = 150
NODES: Final = 8
LOAD: Final = 1.2
SHARES: Final = {"physics": 4, "chemistry": 2, "biology": 1}
# Jobs here take seconds where those of a site take hours: so do the intervals of backfill, of priorities and of the decay of use.
CONF: Final = """
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_resolution=1,bf_max_job_test=100
PriorityType=priority/multifactor
PriorityFlags=NO_FAIR_TREE
PriorityWeightAge=1000
PriorityWeightFairshare=4000
PriorityWeightQOS=3000
PriorityWeightPartition=500
PriorityMaxAge=00:10:00
PriorityDecayHalfLife=00:05:00
PriorityCalcPeriod=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=DEFAULT Sockets=2 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=4000 State=UNKNOWN
NodeName=n[0-7] NodeHostname=%H NodeAddr=127.0.0.1 Port=[%P+10-%P+17]
PartitionName=main Nodes=n[0-7] Default=YES OverSubscribe=NO MaxTime=1-00:00:00 State=UP
PartitionName=fast Nodes=n[0-3] OverSubscribe=NO MaxTime=00:02:00 PriorityJobFactor=2 State=UP
"""

_OF_SITE: Final = re.compile(
    "Configuration|AccountingStorageEnforce|Fair|Licenses|Preempt|Priority|Scheduler|Select|GresTypes"
)


class Job(NamedTuple):
    """A submission: one job, or an array."""

    at_s: float
    user: str
    options: tuple[str, ...]
    run_s: float
    tasks: int


def jobs_of(seed: int) -> list[Job]:
    """Draw the submissions of a run: 4 to 40 s, with limits of minutes."""
    random = Random(seed)
    found: list[Job] = []
    at_s, jobs = 0.0, 0
    while jobs < COUNT:
        nodes, per_node = random.choice(((1, 1), (1, 2), (1, 4), (1, 4), (2, 4), (2, 4), (4, 4)))
        run_s = round(min(40.0, 4.0 + random.expovariate(1 / 12)), 1)
        tasks = random.choice((2, 3, 4)) if nodes == 1 and random.random() < 0.15 else 1
        fast = nodes < 4 and random.random() < 0.25
        options = ["-N", str(nodes), "-n", str(nodes * per_node), f"--ntasks-per-node={per_node}"]
        options += ["-p", "fast" if fast else "main", "-t", str(random.choice((1, 2) if fast else (1, 2, 3, 4)))]
        options += [f"--qos={random.choice(('normal', 'normal', 'normal', 'high'))}"]
        options += [f"--array=0-{tasks - 1}%2"] if tasks > 2 else [f"--array=0-{tasks - 1}"] if tasks > 1 else []
        found.append(Job(round(at_s, 2), random.choice(list(USERS)), tuple(options), run_s, tasks))
        jobs += tasks
        at_s += random.expovariate(1.0) * tasks * nodes * per_node / 4 / NODES * run_s / LOAD
    return found


def run(seed: int, release: str = RELEASE) -> Path:
    """Run the jobs of a seed, and store what a site would give away of it."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as name:
        conf = Path(name) / "site.conf"
        conf.write_text(CONF)
        with bed("--conf", str(conf), "--accounting", "--min-job-age", "6000", slurm=release) as one:
            one.run("sacctmgr", "-i", "add", "qos", "high", "priority=10")
            one.run("sacctmgr", "-i", "modify", "qos", "normal", "set", "priority=1", "MaxJobsPU=6")
            for account, share in SHARES.items():
                one.run("sacctmgr", "-i", "add", "account", account, f"fairshare={share}")
            one.run("sacctmgr", "-i", "modify", "account", "biology", "set", "GrpTRES=cpu=16")
            for user, account in USERS.items():
                one.run(
                    "sacctmgr", "-i", "add", "user", user, f"account={account}", "qos+=normal,high", "defaultqos=normal"
                )
            time.sleep(5)
            zero, numbers = time.time(), list[int]()
            for job in jobs_of(seed):
                time.sleep(max(0.0, zero + job.at_s - time.time()))
                after = (
                    [f"--dependency=afterany:{random.choice(numbers[-8:])}"]
                    if numbers and random.random() < 0.05
                    else []
                )
                command = ("sbatch", "--parsable", "-D", "/", "-o", "/dev/null", *job.options, *after)
                script = f"#!/bin/bash\nsleep {job.run_s}\n"
                numbers.append(int(one.run(*as_user(one, job.user, *command), stdin=script).split(";")[0]))
            ended = ("COMPLETED", "CANCELLED")
            one.until(lambda jobs: all(row["job_state"] in ended for row in jobs.values()), 1_800)
            time.sleep(8)  # slurmdbd gets the last ends
            folder = FOLDER / f"{release}-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            for line in (COMMAND, *COMMANDS):
                text, _, file = line.rpartition(" >")
                said = one.run("bash", "-c", text).replace(socket.gethostname().partition(".")[0], "host")
                if file == "config.txt":  # the rest is about the machine of the bed
                    said = "".join([each for each in said.splitlines(keepends=True) if _OF_SITE.match(each)])
                with gzip.GzipFile(folder / f"{file}.gz", "wb", mtime=0) as stream:
                    stream.write(said.encode())
    return folder


# ---------------------------------------------------------------- beside its simulation


class Compared(NamedTuple):
    """A run beside its simulation; waits in seconds, by job of the log."""

    real: Mapping[int, float]
    simulated: Mapping[int, float]

    def mean(self) -> tuple[float, float]:
        return statistics.fmean(self.real.values()), statistics.fmean(self.simulated[job] for job in self.real)

    def correlation(self) -> float:
        return statistics.correlation([*self.real.values()], [self.simulated[job] for job in self.real])

    def within(self, seconds: float) -> float:
        """Return the share of jobs that start within so many seconds of the real start."""
        return statistics.fmean(abs(self.real[job] - self.simulated[job]) <= seconds for job in self.real)


def compared(folder: Path, work: Path, policy: str | None = None) -> Compared:
    """Import a stored run with its facts, and simulate it: under its own policy, or another one."""
    work.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.gz"):
        (work / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    facts = tuple([str(work / command.rpartition(">")[2]) for command in COMMANDS])
    import_dump(str(work / "jobs.txt"), work / "site", ImportOptions(facts=facts, force=True))
    jobs = simulate(str(work / "site" / "scenario.toml"), policy).jobs
    started = zip(jobs.source_id, jobs.start_s - jobs.submit_s, strict=True)
    simulated = {int(job): round(float(wait_s), 6) for job, wait_s in started if wait_s >= 0}
    log = (work / "site" / "trace.swf").read_text().splitlines()
    real = {int(row[0]): float(row[2]) for row in map(str.split, log) if row[0] != ";" and float(row[2]) >= 0}
    return Compared({job: wait_s for job, wait_s in real.items() if job in simulated}, simulated)


def row_of(folder: Path) -> str:
    """Return what is told of a stored run."""
    with tempfile.TemporaryDirectory() as name:
        own, plain = (compared(folder, Path(name) / str(policy), policy) for policy in (None, "easy"))
    (real, simulated), (_, other) = own.mean(), plain.mean()
    shares = f"{own.within(2):.0%} | {own.within(10):.0%}"
    waits = (
        f"{real:.1f} | {simulated:.1f} | {own.correlation():.2f} | {shares} | {other:.1f} | {plain.correlation():.2f}"
    )
    return f"| {folder.name} | {len(own.real)} | {waits} |"


def report() -> None:
    """Print a row for each stored run."""
    print(
        "| run | jobs | mean wait, s | simulated | r by job | starts within 2 s | within 10 s | as plain `easy` | r |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for folder in sorted(FOLDER.iterdir()):
        print(row_of(folder))


if __name__ == "__main__":
    if sys.argv[1] == "run":
        print(run(int(sys.argv[2]), *sys.argv[3:]))
    else:
        report()
