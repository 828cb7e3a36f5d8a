"""Whole runs: jobs per second of a scheduler in the same process, at a given load, and the runs with goals."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.bench.process import Figures, in_process, memory_mb
from scripts.papers.glts import experiment as glts_paper
from scripts.papers.lomarc import experiment as lomarc_paper
from scripts.papers.rua import experiment as rua_paper
from scripts.papers.study import LOGS, Size, scenario_of

import cosched_emulator
from cosched_emulator import prepare
from cosched_emulator.cli.main import cli
from cosched_emulator.run.prepare import Prepared
from cosched_plugin.policies.composition.presets import PRESETS
from cosched_plugin.policies.composition.resolved import resolve

Table = Mapping[str, Any]  # a scenario

IN_ROWS: Final = tuple(  # presets that put all jobs into rows, and so keep no queue
    name for name in PRESETS if resolve({"preset": name})["backfill"]["name"] == "gang"
)
SHARED: Final[Table] = {
    "cluster": {"preset": "lomarc-ht"},
    "workload": {"characteristics": "M1"},
    "truth": {"contention": "lomarc"},
}
STANDARD: Final[Table] = {
    **SHARED,
    "cluster": {"preset": "lomarc-standard"},
    "truth": {"contention": "lomarc", "cpu": "standard"},
}
SLICED: Final[Table] = {
    "cluster": {"preset": "g-lomarc-2x2"},
    "workload": {"self_slowdowns": "table4", "grow": True},
    "truth": {"contention": "statistical"},
    "preemption": {"resume_s": glts_paper.RESUME_S},
}
USAGE: Final[Table] = {"cluster": {"preset": "rua-4way"}, "workload": {"mix": "med", "limits": "estimate"}}
SPACE: Final[Table] = {"cluster": {}, "workload": {}}
CONTEXTS: Final[Table] = {"cluster": {"preset": "1x1x3"}, "workload": {}}
TIME_SHARED: Final[Table] = {
    "cluster": {"preset": "single"},
    "workload": {"programs": "fine", "run_factor": 1 / 40, "limits": "none"},
    "time_sharing": {"nodes": "fluid"},
}


def machine_for(policy: str) -> Table:
    """Return the scenario for a preset, without size and load: its kind of nodes and of jobs."""
    parts = PRESETS[policy].table
    if policy in IN_ROWS:
        return TIME_SHARED
    if "slices" in parts:
        return SLICED
    placement = parts.get("placement", "")
    name = placement["name"] if isinstance(placement, Mapping) else placement
    if name in ("contiguous", "scattered"):
        return CONTEXTS
    if name.startswith("lessconsume"):
        return USAGE
    if parts.get("shape") != "nodes":
        return SPACE
    matching = parts.get("matching")
    return STANDARD if isinstance(matching, Mapping) and matching.get("cpu") == "standard" else SHARED


def model(policy: str, jobs: int, nodes: int) -> dict[str, Any]:
    """Return a scenario of the Lublin model with job sizes for the size of the machine."""
    table = machine_for(policy)
    sections = {"cluster": {"nodes": nodes}, "workload": {"lublin": jobs}}
    return {name: {**values, **sections.get(name, {})} for name, values in table.items()}


def offered_load(prepared: Prepared) -> float:
    """Return the work of all jobs over the capacity of the machine's cores between first and last submission."""
    cores = sum(item.nodes * item.sockets * item.cores_per_socket for item in prepared.nodes)
    jobs = prepared.workload.jobs
    span_us = max(1, jobs[-1].spec.submit_us - jobs[0].spec.submit_us)
    return sum(job.spec.processes * job.run_us for job in jobs) / (cores * span_us)


def prepare_at(table: Table, load: float) -> Prepared:
    """Return a prepared scenario of the model, with its gaps scaled to this load."""
    found = offered_load(prepare(table))
    changed = {**table, "workload": {**table["workload"], "gap_factor": found / load}}
    return prepare(changed)


def simulate(table: Table, load: float | None, policy: str, settings: Sequence[str], repetitions: int) -> Figures:
    """Run a scenario here, at this load (None: as it is), and return its speed (the best of several), load and memory."""
    prepared = prepare(table) if load is None else prepare_at(table, load)
    walls_s = []
    for _ in range(repetitions):
        finished = cosched_emulator.simulate(prepared, policy, settings=settings)
        walls_s.append(finished.wall_s)
    machine = finished.summary["machine"]
    jobs = len(finished.records)
    return {
        "jobs": jobs,
        "wall_s": round(min(walls_s), 6),
        "jobs_per_second": round(jobs / min(walls_s)),
        "offered_load": machine["offered_load"],
        "mean_queue_length": machine["mean_queue_length"],
        "peak_mb": round(memory_mb("VmHWM"), 1),
    }


class Goal(NamedTuple):
    """A run with a goal of the project."""

    name: str
    goal: float
    unit: str  # jobs/s: at least; all others: at most
    table: Table
    policy: str
    load: float | None = None
    needs: Path | None = None  # a file that the run needs
    repetitions: int = 1

    def measured(self, found: Figures) -> float:
        """Return the figure in the goal's unit."""
        return float(found["jobs_per_second" if self.unit == "jobs/s" else "wall_s"])

    def reached(self, measured: float) -> bool:
        """Return whether the goal is reached."""
        return measured >= self.goal if self.unit == "jobs/s" else measured <= self.goal


def sample(aarr: float, jobs: int) -> Table:
    """Return the stored sample of the model with this arrival parameter; without one, a sample of this program."""
    file = LOGS / f"lublin128_a{aarr:.2f}.swf.gz"
    workload = {"swf": str(file), "jobs": jobs} if file.exists() else {"lublin": jobs, "aarr": aarr}
    return {"cluster": {"nodes": 128}, "workload": workload}


def rua_log(log: str, part: int) -> Table:
    """Return the first jobs of a log on the machine of the RUA paper; ``part`` shrinks their number."""
    experiment = rua_paper.experiment(Size(rua_paper.JOBS // part, 1), LOGS)
    experiment["scenario"]["results"]["warmup"] = 0
    return scenario_of(experiment, workloads=f"{log} MED 1", seeds="1")


def goals(part: int = 1) -> list[Goal]:
    """Return the goals; ``part`` divides the numbers of jobs, for a quick look."""
    jobs = 10_000 // part
    lomarc = scenario_of(lomarc_paper.experiment(Size(lomarc_paper.JOBS // part, 1)), workloads="W3 M1", seeds="1")
    glts = glts_paper.scenario_of("W2", glts_paper.JOBS // part)
    easy = [(10.23, 40_000.0), (9.83, 40_000.0), (8.83, 15_000.0)]
    logs = [("CTC", 20.0), ("BLUE", 60.0)]
    return [
        *[Goal(f"easy, {a}", goal, "jobs/s", sample(a, jobs), "easy", repetitions=3) for a, goal in easy],
        Goal("conservative, load 1.3", 20.0, "s", model("conservative", jobs, 128), "conservative", 1.3),
        Goal("lomarc-r, W3", 5.0, "s", lomarc, "lomarc-r"),
        Goal("glts, W2", 30.0, "s", glts, "glts"),
        *[
            Goal(f"rua, {log}", goal, "s", rua_log(log, part), "rua", needs=LOGS / rua_paper.LOGS[log][0])
            for log, goal in logs
        ],
    ]


def run_goal(goal: Goal, most_s: float) -> Figures:
    """Return the goal and the measured figure, or the reason why there is none."""
    if goal.needs is not None and not goal.needs.exists():
        found: Figures = {"reason": f"there is no {goal.needs}"}
    else:
        found = in_process(simulate, goal.table, goal.load, goal.policy, (), goal.repetitions, timeout_s=most_s)
    row = {"name": goal.name, "goal": goal.goal, "unit": goal.unit, **found}
    if "reason" not in found:
        measured = goal.measured(found)
        row |= {"measured": round(measured, 2), "reached": goal.reached(measured)}
    return row


def run_and_store(jobs: int) -> Figures:
    """Run the command that writes a run folder, here, and return its time and its memory."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = ["simulate", "--lublin", str(jobs), "--nodes", "128", "--policy", "easy", "--out", str(out)]
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            cli.main(command, standalone_mode=False)
        wall_s = json.loads((out / "timing.json").read_text(encoding="utf-8"))["wall_s"]
    return {"jobs": jobs, "wall_s": wall_s, "peak_mb": round(memory_mb("VmHWM"), 1)}


def growth(few: int, many: int, most_s: float) -> list[Figures]:
    """Return the goals of many jobs: the cost of a job relative to that in a small run, and the memory of each further job."""
    small = in_process(run_and_store, few, timeout_s=most_s)
    large = in_process(run_and_store, many, timeout_s=most_s)
    names = (f"easy, time a job at {many:,} over that at {few:,}", f"easy, memory a job, {few:,} to {many:,}")
    rows: list[Figures] = [
        {"name": names[0], "goal": 1.5, "unit": "x"},
        {"name": names[1], "goal": 400.0, "unit": "bytes"},
    ]
    if reason := small.get("reason", large.get("reason")):
        return [{**row, "reason": reason} for row in rows]
    ratio = large["wall_s"] / many / (small["wall_s"] / few)
    size = (large["peak_mb"] - small["peak_mb"]) * 1024 * 1024 / (many - few)
    for row, measured in zip(rows, (ratio, size), strict=True):
        row |= {"jobs": many, "measured": round(measured, 2), "reached": measured <= row["goal"]}
        row["peak_mb"] = large["peak_mb"]
    return rows


def dump_lines(rows: int) -> Iterator[str]:
    """Yield what sacct prints of jobs on 400 nodes of 128 CPUs; half of them are tasks of arrays."""
    yield (
        "JobIDRaw|JobID|User|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocNodes|NCPUS|ReqCPUS|NodeList|"
        "JobName|AllocTRES|SubmitLine\n"
    )
    for number in range(1, rows + 1):
        task, kind, cpus, run_s = number % 32, number % 50, 1 << number % 8, 60 + number % 7_919
        begin = 1_772_323_200 + 30 * number
        start = begin + number % 900
        yield (
            f"{number}|{f'{number - task}_{task}' if task < 16 else number}|u{number % 97}|p{number % 3}|COMPLETED|"
            f"{begin}|{start}|{start + run_s}|{run_s}|240|1|{cpus}|{cpus}|n{number % 400}|app{kind}|"
            f"cpu={cpus},mem={cpus}G,node=1|sbatch -c {cpus} --mem={cpus}G app{kind}.sh\n"
        )


def run_import(rows: int) -> Figures:
    """Import a dump, here, and return its time and its memory."""
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "dump"
        with dump.open("w", encoding="ascii") as stream:
            stream.writelines(dump_lines(rows))
        began_s = time.perf_counter()
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            command = ["workload", "import", "--sacct", str(dump), "--out", str(Path(folder) / "log")]
            cli.main(command, standalone_mode=False)
        return {"jobs": rows, "wall_s": time.perf_counter() - began_s, "peak_mb": round(memory_mb("VmHWM"), 1)}


def imports(rows: int, most_s: float) -> list[Figures]:
    """Return the goals of a large dump: time and memory."""
    found = in_process(run_import, rows, timeout_s=most_s)
    wanted = (
        ("workload import --sacct, time", "wall_s", 15.0, "s"),
        ("workload import --sacct, memory", "peak_mb", 400.0, "MB"),
    )
    return [
        {"name": name, "goal": goal, "unit": unit, **found}
        | ({} if "reason" in found else {"measured": round(found[key], 2), "reached": found[key] <= goal})
        for name, key, goal, unit in wanted
    ]
