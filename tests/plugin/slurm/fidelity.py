"""How far the emulator is from a real Slurm: the same jobs on the test bed and in the emulator.

    python -m tests.plugin.slurm.fidelity run SEED POLICY KIND [RELEASE]    150 jobs on a test bed, about four minutes

KIND is nodes (whole ones), long (the same jobs, eight times as long: half an hour), cores, minutes (whole nodes, of which only limits
in whole minutes are known), or defaults: nodes, on a Slurm with sched/backfill and priority/multifactor as they come, and with jobs of
others in a partition of the same nodes that is not ours. POLICY may be backfill: Slurm's own, which knows limits alone.
    python -m tests.plugin.slurm.fidelity report    the table of docs/results/appendix/slurm.md, from the stored runs

A run is stored in recorded/fidelity, in a folder for each release but the oldest: for each job what it was, and when it was submitted,
seen, decided, started, ended, and seen to have ended; starts and ends by the job's own clock.
"""

from __future__ import annotations

import csv
import json
import math
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from tests.plugin.slurm.bed import Bed, bed
from tests.plugin.slurm.enforcing import enforcing, messages, stamped, stamps
from tests.processes import run_python

from cosched_plugin.protocol.messages import JobEnded, JobSubmitted, StartJob, StartTogether

FOLDER = Path(__file__).parent / "recorded" / "fidelity"
OLDEST: Final = "22.05"
COUNT: Final = 150
OTHERS: Final = 5  # to each fifth job there is one of others
DEFAULTS: Final = """SchedulerType=sched/backfill
SchedulerParameters=bf_interval=30,sched_interval=60
PriorityType=priority/multifactor
"""
DRAWS: Final = 10
LONGER: Final = 8
NODES: Final = 8
COLUMNS = (
    "job",
    "nodes",
    "per_node",
    "kind",
    "run_s",
    "estimate_s",
    "submitted",
    "seen",
    "decided",
    "started",
    "ended",
    "told",
)
USAGES: Mapping[str, dict[str, Any]] = {
    "cpu": {"bound": "cpu", "cpu": 0.9, "network": 0.05, "disk": 0.05, "memory": 0.1},
    "network": {"bound": "network", "cpu": 0.2, "network": 0.75, "disk": 0.05, "memory": 0.1},
}
SITE = '[ours]\nunknown_alone = true\n[belief]\ncontention = "lomarc"\nparameters = { good_share_ppm = 1_000_000 }\n'
LAGS = ("submitted_s", "start_s", "ended_s", "extra_s")


class Row(NamedTuple):
    """A job of a run; moments are seconds since the run's beginning."""

    job: int
    nodes: int
    per_node: int
    kind: str
    run_s: float
    estimate_s: float
    submitted: float
    seen: float
    decided: float
    started: float
    ended: float
    told: float

    @property
    def lags(self) -> tuple[float, ...]:
        """Return its latencies, in the order of `LAGS`."""
        extra_s = self.ended - self.started - self.run_s
        spans = (self.seen - self.submitted, self.started - self.decided, self.told - self.ended, extra_s)
        return tuple(max(0.0, span) for span in spans)


# ---------------------------------------------------------------- on the test bed


def jobs_of(seed: int, kind: str, policy: str) -> list[tuple[float, int, int, str, float, float]]:
    """Return the jobs: when, nodes, processes on each, use of nodes, run time, estimate; half a second to twenty, load about .9."""
    random = Random(seed)
    longer = LONGER if kind == "long" else 1
    found = []
    at_s = 0.0
    for _ in range(COUNT):
        nodes = random.choice((1, 1, 1, 2, 2, 4, 4, 8)) if kind != "cores" else random.choice((1, 1, 1, 2, 2, 4))
        per_node = 4 if kind != "cores" else random.choice((1, 2, 4))
        run_s = round(longer * min(20.0, 0.5 + random.expovariate(1 / 3.1)), 2)
        factor = random.uniform(1.0, 3.0)
        estimate_s = round(600.0 + 60 * run_s if policy == "lomarc-r" else run_s * factor, 2)
        if kind == "minutes":
            estimate_s = 60.0 * math.ceil(estimate_s / 60)
        found.append((at_s, nodes, per_node, random.choice(list(USAGES)), run_s, estimate_s))
        share = nodes / NODES * (1.0 if kind != "cores" else per_node / 4)
        at_s += random.expovariate(1.0) * share * (run_s + 0.15) / (1.3 if policy == "lomarc-r" else 0.9)
    return found


def run(seed: int, policy: str, kind: str, release: str = OLDEST) -> Path:
    """Run the jobs of a seed, and store what happened."""
    scheduler: tuple[str, ...] = ("--scheduler", "backfill") if policy == "backfill" else ()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if kind == "defaults":
            (folder / "part.conf").write_text(DEFAULTS)
            scheduler = ("--conf", str(folder / "part.conf"))
        one = stack.enter_context(bed("--min-job-age", "6000", *scheduler, slurm=release))
        (folder / "site.toml").write_text(SITE if policy == "lomarc-r" else "")
        options = ("--policy", policy, "--guests", "co:guest", "--site", str(folder / "site.toml"), "--log-json")
        driver = None if policy == "backfill" else stack.enter_context(enforcing(one, folder, *options))
        told: dict[int, tuple[int, int, str, float, float, float]] = {}
        time.sleep(3)  # slurmctld's first seconds are slower
        zero = time.time()
        for at_s, nodes, per_node, use, run_s, estimate_s in jobs_of(seed, kind, policy):
            time.sleep(max(0.0, zero + at_s - time.time()))
            minutes = math.ceil(estimate_s / 60) if kind == "minutes" else 30
            layout = [
                "-N",
                str(nodes),
                "-n",
                str(nodes * per_node),
                f"--ntasks-per-node={per_node}",
                "-t",
                str(minutes),
            ]
            comment = {"usage": USAGES[use]} | ({} if kind == "minutes" else {"estimate_s": estimate_s})
            # Slurm itself must not let two jobs share a node
            where: dict[str, Any] = {"held": False, "partition": "ex"} if policy == "backfill" else {}
            job = one.submit(*layout, script=stamped(one, f"sleep {run_s}"), comment=comment, **where)
            told[job] = (nodes, per_node, use, run_s, estimate_s, time.time() - zero)
            if kind == "defaults" and len(told) % OTHERS == 0:
                one.submit("-N", "1", "-n", "4", "-t", "1", run_s=run_s, partition="shr", held=False)
        one.until(lambda jobs: all(jobs[job]["job_state"] == "COMPLETED" for job in told), 900)
        time.sleep(1)
        rows = rows_of(one, [] if driver is None else driver.records, told, zero)
        if driver is not None:
            events = Counter(json.loads(line)["event"] for line in driver.log.splitlines() if line.startswith("{"))
            print({event: events[event] for event in ("placed", "refused", "withdrawn", "unsettled", "silent")})
    file = (FOLDER if release == OLDEST else FOLDER / release) / f"{policy}-{kind}-{seed}.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    return file


def rows_of(
    one: Bed,
    records: Sequence[dict[str, Any]],
    told: Mapping[int, tuple[int, int, str, float, float, float]],
    zero: float,
) -> list[list[Any]]:
    seen: dict[int, float] = {}
    decided: dict[int, float] = {}
    ended: dict[int, float] = {}
    for record in records:
        for message in messages(record):
            now_s = message.now_us / 1e6 - zero
            for event in getattr(message, "events", ()):
                if isinstance(event, JobSubmitted):
                    seen[event.job.id] = now_s
                elif isinstance(event, JobEnded):
                    ended[event.job_id] = now_s
            for action in getattr(message, "actions", ()):
                for start in action.starts if isinstance(action, StartTogether) else (action,):
                    if isinstance(start, StartJob):
                        decided[start.job_id] = now_s
    rows = []
    for job, stamp in sorted(stamps(one).items()):
        nodes, per_node, use, run_s, estimate_s, submitted = told[job]
        started, over = stamp.starts[-1] - zero, stamp.ends[-1] - zero
        moments = (submitted, seen.get(job, submitted), decided.get(job, started), started, over, ended.get(job, over))
        rows.append([job, nodes, per_node, use, run_s, estimate_s, *(round(moment, 4) for moment in moments)])
    return rows


# ---------------------------------------------------------------- in the emulator


def stored(file: Path) -> list[Row]:
    with open(file, newline="") as stream:
        return [
            Row(
                int(row["job"]), int(row["nodes"]), int(row["per_node"]), row["kind"],
                *(float(row[name]) for name in COLUMNS[4:]),
            )
            for row in csv.DictReader(stream)
        ]  # fmt: skip


def emulated(rows: Sequence[Row], policy: str, manager: str, folder: Path) -> dict[int, float]:
    """Return each job's start in the emulator, with a table [manager] of these lines; without any, it has no latency."""
    folder.mkdir(parents=True)
    first = min(row.submitted for row in rows)
    lines = [f"; MaxNodes: {NODES}", f"; MaxProcs: {4 * NODES}"]
    notes = ["job,bound,cpu,network,disk,memory,ppn"]
    for row in rows:
        processes = row.nodes * row.per_node
        submitted = f"{row.submitted - first:.6f}"
        lines.append(
            f"{row.job} {submitted} -1 {row.run_s} {processes} -1 -1 {processes} {max(row.estimate_s, row.run_s)} -1 1 1 1 1 1 -1 -1 -1"
        )
        use = USAGES[row.kind]
        notes.append(
            f"{row.job},{use['bound']},{use['cpu']},{use['network']},{use['disk']},{use['memory']},{row.per_node}"
        )
    (folder / "jobs.swf").write_text("\n".join(lines) + "\n")
    (folder / "jobs.csv").write_text("\n".join(notes) + "\n")
    shape, belief = (
        ("2x2x2", 'good_share = 1.0\n[belief]\ncontention = "lomarc"\n') if policy == "lomarc-r" else ("2x2x1", "")
    )
    (folder / "scenario.toml").write_text(
        f'[cluster]\nnodes = {NODES}\npreset = "{shape}"\nmemory_mb = 4000\n[truth]\ncontention = "none"\n{belief}'
        '[workload]\nswf = "jobs.swf"\nannotations = "jobs.csv"\nminimum_estimate_s = 0.0\nlimits = "none"\nlog_memory = false\n'
        f"{manager}"
    )
    ran = run_python(
        "-m", "cosched_emulator", "simulate", "scenario.toml", "--policy", policy, "--out", "out", folder=folder
    )
    assert ran.code == 0, ran.err
    with open(folder / "out" / "jobs.csv", newline="") as stream:
        # it numbers jobs from 1, in the order of their submission
        begun = {int(row["job_id"]): float(row["starting_time"]) + first for row in csv.DictReader(stream)}
    return {row.job: begun[number] for number, row in enumerate(sorted(rows, key=lambda row: row.submitted), 1)}


def constants(rows: Sequence[Row]) -> tuple[float, ...]:
    """Return the median of each latency."""
    return tuple(statistics.median(row.lags[place] for row in rows) for place in range(len(LAGS)))


def mean_wait(rows: Sequence[Row], starts: Mapping[int, float]) -> float:
    return statistics.fmean(starts[row.job] - row.submitted for row in rows)


class Compared(NamedTuple):
    """A run beside the emulator: mean waits in seconds, differences in percent of the real one."""

    name: str
    real_s: float
    without: float
    constant: float
    own: float
    gap_s: float  # the largest difference of a start, with each job's own latencies
    turned: tuple[
        int, int, float
    ]  # with constant ones: jobs that start more than a second off, the first of them, and by how much
    spread: float  # standard deviation of the mean wait where latencies are drawn anew
    latency_ms: tuple[float, float]  # decision to start: median, 95th percentile


def compare(file: Path, calibration: Sequence[Row], folder: Path) -> Compared:
    """Compare a run with the emulator; constant latencies are those of another run."""
    rows = stored(file)
    policy = file.stem.rpartition("-")[0].rpartition("-")[0]
    real = mean_wait(rows, {row.job: row.started for row in rows})
    table = "\n".join(f"{name} = {value:.6f}" for name, value in zip(LAGS, constants(calibration), strict=True))
    runs = [
        emulated(rows, policy, manager, folder / name)
        for name, manager in (
            ("without", ""),
            ("constant", f"[manager]\n{table}\n"),
            ("own", own_lags(rows, [row.lags for row in rows], folder)),
        )
    ]
    differences = [100 * (mean_wait(rows, starts) / real - 1) for starts in runs]
    off = [(runs[1][row.job] - row.started, row) for row in sorted(rows, key=lambda row: row.started)]
    turned = [(gap, row.job) for gap, row in off if abs(gap) > 1]
    random = Random(1)
    drawn = []
    for draw in range(DRAWS):
        lags = [random.choice(rows).lags for _ in rows]
        drawn.append(mean_wait(rows, emulated(rows, policy, own_lags(rows, lags, folder), folder / f"draw-{draw}")))
    latencies = sorted(1000 * (row.started - row.decided) for row in rows)
    late = latencies[int(0.95 * (len(latencies) - 1))]
    name = file.stem if file.parent == FOLDER else f"{file.stem}, {file.parent.name}"
    return Compared(
        name, real, differences[0], differences[1], differences[2], max(abs(runs[2][row.job] - row.started) for row in rows),
        (len(turned), turned[0][1] if turned else 0, turned[0][0] if turned else 0.0), 100 * statistics.stdev(drawn) / real,
        (statistics.median(latencies), late),
    )  # fmt: skip


def own_lags(rows: Sequence[Row], lags: Sequence[tuple[float, ...]], folder: Path) -> str:
    """Return a table [manager] with a latency of each kind for each job."""
    file = folder / "lags.csv"
    told = [f"{row.job},{','.join(f'{lag:.6f}' for lag in mine)}" for row, mine in zip(rows, lags, strict=True)]
    file.write_text("\n".join([f"job,{','.join(LAGS)}", *told]) + "\n")
    return f'[manager]\nlags = "{file}"\n'


def report() -> list[Compared]:
    """Compare all stored runs; each is given the constant latencies of the run of its policy before it, the first those of the last."""
    found = []
    files = sorted(file for file in FOLDER.rglob("*.csv") if not file.stem.startswith("backfill"))
    for policy in sorted({file.stem.rpartition("-")[0].rpartition("-")[0] for file in files}):
        mine = [file for file in files if file.stem.startswith(policy)]
        for place, file in enumerate(mine):
            with tempfile.TemporaryDirectory() as folder:
                found.append(compare(file, stored(mine[place - 1]), Path(folder)))
    return found


def table(compared: Sequence[Compared]) -> str:
    """Return the table of the page."""
    lines = [
        "| run | mean wait, real, s | no latency | constant latencies | each job's own | largest difference of a start, s "
        "| drawn anew, sd | starts changed by constants | decision to start: median, p95, ms |",
        "|---|---:|---:|---:|---:|---:|---:|---|---:|",
    ]
    for one in compared:
        differences = f"{one.without:+.1f} % | {one.constant:+.2f} % | {abs(one.own):.2f} % | {one.gap_s:.3f} | {one.spread:.1f} %"
        count, first, gap = one.turned
        turned = f"{count}, first job {first} by {gap:+.1f} s" if count else "none"
        lines.append(
            f"| {one.name} | {one.real_s:.2f} | {differences} | {turned} | {one.latency_ms[0]:.0f}, {one.latency_ms[1]:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        print(run(int(sys.argv[2]), *sys.argv[3:]))
    else:
        print(table(report()))
