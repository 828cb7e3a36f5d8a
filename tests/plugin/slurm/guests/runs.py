"""Slurm alone beside Slurm with guests, on a test bed: 150 jobs of four users, about ten minutes a run.

    python -m tests.plugin.slurm.guests.runs run SEED KIND [RELEASE [FOLDER]]    one run; its figures are printed
    python -m tests.plugin.slurm.guests.runs report [FOLDER]                     all stored runs beside each other

KIND: alone; again (the same: how much two such runs differ); guests; chaos (with guests: the driver is killed -9, slurmctld is killed,
jobs are requeued and held, nodes drained); or chaos-alone, the same without guests and driver. Of the jobs 70 % are of `co` (four
fifths of them say how they use a node, for the belief), 20 % of `batch` (OverSubscribe=NO), and 10 % of `co`, --exclusive.
Slurm has sched/backfill, priority/multifactor, fair share from slurmdbd, and the shipped lines of slurm.conf and job_submit.lua. A job
that shares a node with another makes itself 1.25 times as slow for that time, and notes its start and end by its own clock.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, Final, NamedTuple

from tests.plugin.slurm.bed import Bed, bed
from tests.plugin.slurm.enforcing import Enforcing, nodes_in
from tests.plugin.slurm.guests.figures import report, summary
from tests.processes import ROOT

FOLDER: Final = Path(__file__).parents[1] / "recorded" / "guests"
EXAMPLES: Final = ROOT / "docs" / "examples"
COUNT: Final = 150
NODES: Final = 8
GOES_ON: Final = ("PENDING", "RUNNING", "COMPLETING")
QUIET: Final = 5  # after so many looks without such a job all is over: jobs that slurmctld has lost never come
LOAD: Final = 1.1
SLOWER: Final = 1.25
USERS: Final = {"daemon": "physics", "bin": "physics", "sys": "chemistry", "games": "biology"}
KINDS: Final = {"in": 0.56, "other": 0.14, "batch": 0.2, "exclusive": 0.1}  # of jobs; `in` and `other` are of `co`
USAGES: Final = (
    {"bound": "cpu", "cpu": 0.9, "network": 0.05, "disk": 0.05, "memory": 0.1},
    {"bound": "network", "cpu": 0.2, "network": 0.75, "disk": 0.05, "memory": 0.1},
)
SITE: Final = (
    '[ours]\nunknown_alone = true\n[belief]\ncontention = "lomarc"\nparameters = { good_share_ppm = 1_000_000 }\n'
)
# Jobs here take seconds where those of a site take hours: so do the intervals of backfill and of fair share.
CONF: Final = """
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=3,bf_resolution=1,sched_interval=5
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityMaxAge=0-0:10:00
PriorityCalcPeriod=1
NodeName=DEFAULT Sockets=2 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=4000 State=UNKNOWN
NodeName=n[0-7] NodeHostname=%H NodeAddr=127.0.0.1 Port=[%P+10-%P+17]
"""
# It shares where another job's mark is on one of its nodes: a file that is named after a process that lives.
BODY: Final = """note() { echo "$SLURM_JOB_NAME $SLURM_JOB_ID $1 $EPOCHREALTIME $SLURM_JOB_NODELIST $SLURM_JOB_PARTITION" >> BED/ran; }
note start
IFS=, read -ra parts <<< "$(sed 's/^n//; s/[][]//g' <<< "$SLURM_JOB_NODELIST")"
marks=()
for part in "${parts[@]}"; do for ((n = ${part%-*}; n <= ${part#*-}; n++)); do marks+=("BED/marks/$n"); done; done
for mark in "${marks[@]}"; do : > "$mark/$$"; done
exec 9<> BED/idle
left=RUN_US last=${EPOCHREALTIME/./}
while ((left > 0)); do
    printf -v pause '0.%06d' $((left < 200000 ? left : 200000))
    read -rt "$pause" -u 9
    now=${EPOCHREALTIME/./} share=1000
    for mark in "${marks[@]}"; do
        for other in "$mark"/*; do [[ ${other##*/} == "$$" || ! -d /proc/${other##*/} ]] || share=SLOWER; done
    done
    ((left -= (now - last) * 1000 / share, last = now))
done
for mark in "${marks[@]}"; do rm -f "$mark/$$"; done
note end
"""


class Job(NamedTuple):
    """A job as it is submitted; its number here is its place in the list, and its name in Slurm says it."""

    at_s: float
    kind: str
    user: str
    nodes: int
    run_s: float
    minutes: int  # its limit
    use: int


def jobs_of(seed: int, count: int = COUNT) -> list[Job]:
    """Draw the jobs of a run: whole nodes, 4 to 40 s, with limits of minutes."""
    random = Random(seed)
    found, at_s = [], 0.0
    for _ in range(count):
        nodes = random.choice((1, 1, 1, 2, 2, 4))
        run_s = round(min(40.0, 4.0 + random.expovariate(1 / 12)), 2)
        kind = random.choices(list(KINDS), list(KINDS.values()))[0]
        user = random.choice(list(USERS))
        found.append(Job(round(at_s, 2), kind, user, nodes, run_s, random.choice((1, 2, 2, 3, 4)), random.randrange(2)))
        at_s += random.expovariate(1.0) * nodes / NODES * run_s / LOAD
    return found


# ---------------------------------------------------------------- the bed


@contextmanager
def shared_bed(folder: Path, slurm: str, cap: int = 0) -> Iterator[Bed]:
    """Bring up a Slurm of several users with the shipped lines, and a cap on guests, if any."""
    shipped = (EXAMPLES / "cosched-guests.conf").read_text()
    lines = re.sub(r"\s*(QOS=\S+|#.*)", "", shipped)
    (folder / "site.conf").write_text(CONF + lines)
    (folder / "site.lua").write_text((EXAMPLES / "cosched-guests.lua").read_text())
    with bed("--conf", str(folder / "site.conf"), "--accounting", "--min-job-age", "6000", slurm=slurm) as one:
        add_accounts(one)
        one.run("sacctmgr", "-i", "add", "qos", "guestq", *([f"GrpJobs={cap}"] if cap else []))
        conf = one.folder / "etc" / "slurm.conf"  # a partition's QOS must be there before slurm.conf names it
        conf.write_text(conf.read_text().replace("PartitionName=guest ", "PartitionName=guest QOS=guestq "))
        one.run("scontrol", "reconfigure")
        for name in ("ran", "idle"):
            (os.mkfifo if name == "idle" else Path.touch)(one.folder / name)
            (one.folder / name).chmod(0o666)
        for node in range(NODES):
            (one.folder / "marks" / str(node)).mkdir(parents=True)
            (one.folder / "marks" / str(node)).chmod(0o777)
        (one.folder / "marks").chmod(0o755)
        time.sleep(3)
        yield one


def add_accounts(one: Bed) -> None:
    """Give each user an account of the same share."""
    for account in sorted(set(USERS.values())):
        one.run("sacctmgr", "-i", "add", "account", account, "fairshare=1")
    people = USERS if os.geteuid() == 0 else {os.environ["USER"]: "physics"}
    for user, account in people.items():
        one.run("sacctmgr", "-i", "add", "user", user, f"account={account}")


def as_user(one: Bed, user: str, *command: str) -> list[str]:
    """Return a command as another user runs it, where root may: in the root of the bed's Slurm, which only root can reach."""
    if os.geteuid():
        return list(command)
    pid = (one.folder / "pids" / "slurmd.n0.pid").read_text().strip()
    there = (
        "nsenter",
        "--target",
        pid,
        "--mount",
        "--root",
        "--",
        "setpriv",
        "--reuid",
        user,
        "--regid",
        user,
        "--clear-groups",
    )
    return [*there, "env", "-i", "-C", "/", "PATH=/usr/bin:/bin", f"SLURM_CONF={one.told['SLURM_CONF']}", *command]


def submit(one: Bed, number: int, job: Job) -> str:
    """Submit a job as its user; return what sbatch says."""
    partition = "batch" if job.kind == "batch" else "co"
    layout = (
        ["--exclusive", "-n", str(job.nodes)]
        if job.kind == "exclusive"
        else ["-n", str(4 * job.nodes), "--ntasks-per-node=4"]
    )
    told = [] if job.kind == "other" else ["--comment", json.dumps({"usage": USAGES[job.use]})]
    options = ["-J", f"r{number:03d}", "-p", partition, "-N", str(job.nodes), "-t", str(job.minutes), *layout, *told]
    body = BODY.replace("BED", str(one.folder)).replace("RUN_US", str(int(1e6 * job.run_s)))
    script = f"#!/bin/bash\n{body.replace('SLOWER', str(int(1000 * SLOWER)))}"
    return one.run(*as_user(one, job.user, "sbatch", "-D", "/", "-o", "/dev/null", *options), stdin=script)


# ---------------------------------------------------------------- what is seen


class Seen(NamedTuple):
    """A job as scontrol shows it."""

    job: int
    name: str
    partition: str
    state: str
    reason: str
    priority: int
    start_s: float | None  # planned, as long as it waits
    cores: tuple[str, ...]


def seen_in(text: str) -> Iterator[Seen]:
    """Read the lines of `scontrol -d -o show job`."""
    for line in text.splitlines():
        told = dict(re.findall(r"(\w+)=(\S*)", line))
        if "JobState" not in told:
            continue
        start = told["StartTime"]
        start_s = None if start == "Unknown" else time.mktime(time.strptime(start, "%Y-%m-%dT%H:%M:%S"))
        cores = []
        if told["JobState"] == "RUNNING":
            for nodes, cpus in re.findall(r" Nodes=(n\S+) CPU_IDs=(\S+)", line):
                cores += [f"{node}.{cpu}" for node in nodes_in(nodes) for cpu in nodes_in(f"n[{cpus}]")]
        yield Seen(
            int(told["JobId"]), told["JobName"], told["Partition"], told["JobState"], told["Reason"], int(told["Priority"]),
            start_s, tuple(cores),
        )  # fmt: skip


class Watch:
    """Looks at all jobs every other second, as long as the block lasts."""

    PAUSE_S: Final = 1.5

    def __init__(self, one: Bed, jobs: Sequence[Job], zero: float) -> None:
        self.one, self.jobs, self.zero = one, jobs, zero
        self.latest: dict[int, Seen] = {}
        self.heads: list[tuple[float, int, float]] = []  # when, the first pending job of the others, its planned start
        self.most = 0  # jobs on a core at once
        self.shared: set[int] = set()  # exclusive jobs that were seen beside others
        self.looks = 0
        self.quiet = 0  # so many looks ago a job waited or ran
        self._end = Event()
        self._thread = Thread(target=self._look_on)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(60)

    def _look_on(self) -> None:
        while not self._end.wait(self.PAUSE_S):
            with contextlib.suppress(subprocess.TimeoutExpired, AssertionError):
                self._look(list(seen_in(self.one.run("scontrol", "-d", "-o", "show", "job", seconds=10))))

    def _look(self, rows: Sequence[Seen]) -> None:
        now = time.time() - self.zero
        self.looks += 1
        self.latest |= {row.job: row for row in rows}
        # a job whose launch has failed is held by Slurm, and will never start
        goes_on = [row for row in rows if row.state in GOES_ON and "launch" not in row.reason]
        self.quiet = 0 if goes_on else self.quiet + 1
        users = Counter(core for row in rows for core in row.cores)
        self.most = max([self.most, *users.values()])
        for row in rows:
            if self.kind(row) == "exclusive" and any(users[core] > 1 for core in row.cores):
                self.shared.add(int(row.name[1:]))
        first = max(
            (row for row in rows if row.state == "PENDING" and row.start_s and row.priority and self.kind(row) != "in"),
            key=lambda row: (row.priority, -row.job),
            default=None,
        )
        if first is not None and first.start_s is not None:
            self.heads.append((round(now, 1), int(first.name[1:]), round(first.start_s - self.zero, 1)))

    def kind(self, row: Seen) -> str:
        return self.jobs[int(row.name[1:])].kind


class Ran(NamedTuple):
    """One start of a job, by its own clock."""

    number: int
    job: int
    start_s: float
    end_s: float | None
    nodes: tuple[str, ...]
    partition: str


def ran_in(file: Path, zero: float) -> list[Ran]:
    """Return each start; one without an end was killed."""
    found: list[Ran] = []
    for line in file.read_text().splitlines():
        name, job, what, at, nodes, partition = line.split()
        if what == "start":
            found.append(
                Ran(int(name[1:]), int(job), round(float(at) - zero, 2), None, tuple(nodes_in(nodes)), partition)
            )
            continue
        place = max(place for place, one in enumerate(found) if one.job == int(job))
        found[place] = found[place]._replace(end_s=round(float(at) - zero, 2))
    return found


# ---------------------------------------------------------------- what goes wrong


class Chaos:
    """Kills, requeues, drained nodes and holds, at the same instants with and without guests."""

    def __init__(self, one: Bed, watch: Watch, driver: Enforcing | None, seed: int) -> None:
        self.one, self.watch, self.driver = one, watch, driver
        self.random = Random(seed)
        self.did: list[tuple[float, str]] = []
        self.agenda: list[tuple[float, Callable[[], object]]] = []
        for number in range(12):
            self.agenda.append((20.0 + 37.0 * number, self.kill_driver))
        for number in range(4):
            at_s = 60.0 + 110.0 * number
            self.agenda += [(at_s, partial(self.script, "ctld-kill")), (at_s + 1.5, partial(self.script, "ctld-start"))]
        for number in range(6):
            self.agenda.append((45.0 + 71.0 * number, self.requeue))
        for number in range(5):
            node = f"n{self.random.randrange(NODES)}"
            at_s = 30.0 + 83.0 * number
            self.agenda += [
                (at_s, partial(self.state, node, "DRAIN")),
                (at_s + 20, partial(self.state, node, "RESUME")),
            ]
            self.agenda.append((52.0 + 79.0 * number, self.hold))

    def play(self) -> None:
        begun = time.monotonic()
        for at_s, what in sorted(self.agenda, key=lambda item: item[0]):
            time.sleep(max(0.0, begun + at_s - time.monotonic()))
            what()

    def note(self, what: str) -> None:
        self.did.append((round(time.time() - self.watch.zero, 1), what))

    def kill_driver(self) -> None:
        if self.driver is not None:
            self.note("driver killed")
            self.driver.end(signal.SIGKILL)
            self.driver.begin()

    def script(self, what: str) -> None:
        self.note(what)
        self.one.script(what)

    def state(self, node: str, state: str) -> None:
        self.note(f"{node} {state}")
        self.one.run("scontrol", "update", f"NodeName={node}", f"State={state}", "Reason=chaos", ok=False)

    def some(self, state: str) -> int | None:
        """Return the last job that is in a state; a guest, if there is one."""
        rows = [row for row in self.watch.latest.values() if row.state == state and row.reason != "JobHeldUser"]
        guests = [row.job for row in rows if row.partition == "guest"]
        return max(guests or [row.job for row in rows], default=None)

    def requeue(self) -> None:
        job = self.some("RUNNING")
        if job is not None:
            self.note(f"requeue {job}")
            self.one.run("scontrol", "requeue", str(job), ok=False)

    def hold(self) -> None:
        job = self.some("PENDING")
        if job is not None:
            self.note(f"hold {job}")
            self.one.run("scontrol", "hold", str(job), ok=False)
            Thread(target=self.release, args=(job,)).start()

    def release(self, job: int) -> None:
        time.sleep(15)
        self.one.run("scontrol", "release", str(job), ok=False)


# ---------------------------------------------------------------- a run


def run(seed: int, kind: str, slurm: str, count: int = COUNT, options: Sequence[str] = ()) -> dict[str, Any]:
    """Run the jobs of a seed; return what happened."""
    jobs = jobs_of(seed, count)
    load = os.getloadavg()[1]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        one = stack.enter_context(shared_bed(folder, slurm))
        driver = None
        if kind in ("guests", "chaos"):
            (folder / "site.toml").write_text(SITE)
            asked = ("--mode", "guests", "--guests", "co:guest", "--site", str(folder / "site.toml"), "--log-json")
            driver = Enforcing(one, folder, *asked, *options, keeps=False)
            driver.begin()
            time.sleep(5)
            stack.callback(driver.end)
        zero = time.time()
        watch = stack.enter_context(Watch(one, jobs, zero))
        chaos = Chaos(one, watch, driver, seed)
        if kind.startswith("chaos"):
            player = Thread(target=chaos.play)
            player.start()
            stack.callback(player.join, 120)
        submitted = submit_all(one, jobs, zero, tries=20 if kind.startswith("chaos") else 1)
        end_s = time.time() + 900
        while time.time() < end_s and watch.quiet < QUIET:
            time.sleep(1)
        ran = ran_in(one.folder / "ran", zero)
        columns = "JobIDRaw,JobName,State,Partition,Start,End,NodeList,AllocTRES"
        accounts = one.run("sacct", "-a", "-D", "-X", "-n", "-P", "-o", columns)
        log = [] if driver is None else [json.loads(line) for line in driver.log.splitlines() if line.startswith("{")]
    return {
        "seed": seed, "kind": kind, "slurm": slurm, "load": [round(load, 1), round(os.getloadavg()[1], 1)],
        "jobs": [job._asdict() for job in jobs],
        "submitted": submitted,
        "ran": [one._asdict() for one in ran],
        "states": {row.job: (int(row.name[1:]), row.state) for row in watch.latest.values()},
        "heads": watch.heads, "most": watch.most, "shared": sorted(watch.shared), "looks": watch.looks,
        "accounts": accounts.splitlines(), "log": log, "chaos": chaos.did,
    }  # fmt: skip


def submit_all(one: Bed, jobs: Sequence[Job], zero: float, tries: int) -> dict[int, float]:
    """Submit the jobs when they are due; return when each was accepted. Users whose slurmctld is away try again."""
    submitted: dict[int, float] = {}
    for number, job in enumerate(jobs):
        time.sleep(max(0.0, zero + job.at_s - time.time()))
        while number not in submitted:
            try:
                submit(one, number, job)
                submitted[number] = round(time.time() - zero, 2)
            except (AssertionError, subprocess.TimeoutExpired):
                tries -= 1
                if tries <= 0:
                    raise
                time.sleep(1.0)
    return submitted


def main(arguments: Sequence[str]) -> None:
    """Run, or report."""
    if arguments[0] == "report":
        print(report(Path(arguments[1]) if len(arguments) > 1 else FOLDER))
        return
    seed, kind, slurm, folder = [*arguments[1:], "24.11", str(FOLDER)][:4] if len(arguments) < 5 else arguments[1:5]
    found = run(int(seed), kind, slurm)
    file = Path(folder) / f"{slurm}-{seed}-{kind}.json.gz"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(json.dumps(found, separators=(",", ":")).encode(), mtime=0))
    print(file, json.dumps(summary(found), indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
