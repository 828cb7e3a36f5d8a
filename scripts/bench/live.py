"""Decisions of a live scheduler with a long queue: a manager and a plugin in two processes, and users who go on submitting jobs.

Half of the pending jobs are tasks of one array, the others are of the model. The manager's clock runs so fast that as many jobs end
as are submitted. The times are those that ``--metrics`` of the plugin tells; beside them stands what the system says of its process:
CPU time, and how long it waited for a processor.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, product
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple
from urllib.request import urlopen

from scripts.bench.process import Figures
from scripts.bench.runs import model
from scripts.processes import Programs, environment
from scripts.tables import NOTHING, aligned_table

from cosched_emulator import prepare
from cosched_emulator.errors import EmulatorError
from cosched_emulator.users.client import ManagerConnection
from cosched_emulator.users.requests import SubmitJob
from cosched_emulator.workload.job import WorkloadJob
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import JobSpec

NODES: Final = 128
GOALS_MS: Final = {1_000: 5.0, 10_000: 50.0}  # of the 99th percentile, by pending jobs
TASK: Final = 16  # processes of each task of the array, which do as much work as the mean job
ESTIMATED: Final = 3  # factor on run times: most jobs end early
BUSY: Final = 0.8  # of the machine, for how many jobs end
SHORTEST: Final = 0.5  # of the mean run time: where the queue is long, short jobs go first, and many would end at once
START_S: Final = 60.0  # longest time until a process answers
SLICE_S: Final = 0.05
PREFIX: Final = "cosched_plugin_"
QUANTILES: Final = {"p50_ms": "0.5", "p99_ms": "0.99"}


class Extent(NamedTuple):
    """The extent of the measurement."""

    queue: int = 10_000  # pending jobs
    a_second: float = 5.0  # submissions, and about as many ends
    warm_up_s: float = 10.0  # before CPU time is counted
    timed_s: float = 60.0


def measure(policies: Sequence[str], budget: str, extent: Extent, tell: Callable[[str], None]) -> Iterator[Figures]:
    """Yield two rows for each preset: without and with start estimates, which another process makes."""
    for policy, estimated in product(policies, (False, True)):
        tell(f"{policy}: live, {extent.queue:,} jobs queued{', with start estimates' * estimated}")
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            try:
                found = _one(policy, budget, extent, estimated, Path(folder))
            except (EmulatorError, OSError, TimeoutError) as error:
                found = {"reason": f"{type(error).__name__}: {error}"}
        yield {"policy": policy, "budget": budget, "estimates": estimated, "queue": extent.queue, **found}


class Load(NamedTuple):
    """What a manager has to do: the scenario with the jobs at its begin, the array, and the jobs that users submit later."""

    scenario: str
    array: SubmitJob
    coming: Sequence[WorkloadJob]
    speed: float


def _load(policy: str, extent: Extent, log: Path) -> Load:
    """Return the load for a preset; the jobs at the begin are written to ``log``."""
    table = model(policy, extent.queue // 2, NODES)
    jobs = prepare(table).workload.jobs
    mean_us = fmean([job.run_us for job in jobs])
    jobs = [job._replace(run_us=max(job.run_us, round(SHORTEST * mean_us))) for job in jobs]
    log.write_text("".join(map(_row, jobs)))
    area_us = fmean([job.spec.processes * job.run_us for job in jobs])
    speed = extent.a_second * area_us / (BUSY * NODES * SECOND_US)
    kept = {key: value for key, value in table["workload"].items() if key != "lublin"}
    estimates = {"estimates": "f-model", "estimate_factor": 2.0 * ESTIMATED, "limits": "none"}
    workload = {**kept, "swf": str(log), **estimates}
    scenario = {**table, "workload": workload, "clock": {"mode": "scaled", "speed": round(speed, 3)}}
    run_us = round(area_us / TASK)
    tasks = tuple(range(extent.queue - len(jobs)))
    array = SubmitJob(JobSpec(0, 0, TASK, ESTIMATED * run_us, name="array"), run_us, tasks)
    return Load(_toml(scenario), array, jobs, speed)


def _one(policy: str, budget: str, extent: Extent, estimated: bool, folder: Path) -> Figures:
    """Return the figures of one preset."""
    load = _load(policy, extent, folder / "jobs.swf")
    scenario, users, endpoint = folder / "scenario.toml", f"ipc://{folder}/users", f"ipc://{folder}/scheduler"
    scenario.write_text(load.scenario)
    coming = cycle(load.coming)
    with Programs(folder, environment()) as programs, ManagerConnection(users, START_S) as manager:
        estimating = ["--estimate-starts"] * estimated
        programs.start(
            "manager", "cosched_emulator", "serve", str(scenario), "--users", users, "--bind", endpoint, *estimating
        )
        manager.result(load.array, START_S)
        options = ("--set", f"budget={budget}", "--metrics", "127.0.0.1:0")
        programs.start("plugin", "cosched_plugin", "serve", "--connect", endpoint, "--policy", policy, *options)
        address = _address(folder / "plugin.log")
        _submit(manager, coming, extent.a_second, extent.warm_up_s)
        before, began_s = {**_metrics(address), **_clocks(programs["plugin"].pid)}, time.monotonic()
        _submit(manager, coming, extent.a_second, extent.timed_s)
        after, took_s = {**_metrics(address), **_clocks(programs["plugin"].pid)}, time.monotonic() - began_s
        if codes := programs.exit_codes():
            raise TimeoutError(f"ended: {codes}; {programs.tail()}")
    batches = max(1.0, after["batches_total"] - before["batches_total"])
    quantiles = {name: after[f'decision_seconds{{quantile="{share}"}}'] for name, share in QUANTILES.items()}
    means = {f"{name}_ms": (after[name] - before[name]) / batches for name in ("cpu", "waited")}
    times_s = {**quantiles, "most_ms": after["decision_max_seconds"], **means}
    return {
        "batches": round(batches),
        "a_second": round(batches / took_s, 1),
        "queued": round(after["queue_length"]),
        "speed": round(load.speed),
        **{name: round(1000 * value, 2) for name, value in times_s.items()},
    }


def _submit(manager: ManagerConnection, jobs: Iterator[WorkloadJob], a_second: float, for_s: float) -> None:
    """Submit jobs evenly for so many seconds."""
    began_s = time.monotonic()
    submitted = 0
    while (passed_s := time.monotonic() - began_s) < for_s:
        if submitted < passed_s * a_second:
            job = next(jobs)
            manager.result(SubmitJob(job.spec._replace(limit_us=None, name=""), job.run_us))
            submitted += 1
        else:
            time.sleep(SLICE_S)


def _row(job: WorkloadJob) -> str:
    """Return a job of the model, submitted at the beginning, as a row of a log."""
    size, run_s = job.spec.processes, max(1, round(job.run_us / SECOND_US))
    return f"{job.spec.id} 0 -1 {run_s} {size} -1 -1 {size} {run_s} -1 1 1 1 1 1 -1 -1 -1\n"


def _address(log: Path) -> str:
    """Return where the plugin tells its metrics, once it says so."""
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s:
        found = re.search(r"metrics at (http://\S+)", log.read_text()) if log.exists() else None
        if found is not None:
            return found[1]
        time.sleep(SLICE_S)
    raise TimeoutError(f"no address in {log.name}")


def _metrics(address: str) -> dict[str, float]:
    """Return the metrics of a plugin by name."""
    with urlopen(address, timeout=START_S) as answer:
        rows = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name.removeprefix(PREFIX): float(value) for name, value in rows}


def _clocks(process: int) -> dict[str, float]:
    """Return the seconds that a process had a processor, and those that it waited for one (of its main thread)."""
    had_ns, waited_ns, _ = Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()
    return {"cpu": int(had_ns) / 1e9, "waited": int(waited_ns) / 1e9}


def _toml(table: dict[str, Any]) -> str:
    """Return a scenario of flat sections as text."""
    sections = [
        "\n".join([f"[{name}]", *[f"{key} = {json.dumps(value)}" for key, value in values.items()]])
        for name, values in table.items()
    ]
    return "\n\n".join(sections) + "\n"


def lines(rows: Sequence[Figures]) -> list[str]:
    """Return a row for each preset."""
    times = ("p50, ms", "p99, ms", "most, ms", "CPU, ms", "waited, ms")
    header = ("preset", "estimates", "queued", "batches", "a second", *times, "reached")
    found = []
    for row in rows:
        names = [row["policy"], "on" if row["estimates"] else "off"]
        if "reason" in row:
            found.append([*names, *[NOTHING] * 8, row["reason"]])
            continue
        reached = "yes" if row["p99_ms"] < GOALS_MS.get(row["queue"], float("inf")) else "**no**"
        counts = [f"{row[name]:,}" for name in ("queued", "batches", "a_second")]
        spent = [f"{row[name]:.1f}" for name in ("p50_ms", "p99_ms", "most_ms", "cpu_ms", "waited_ms")]
        found.append([*names, *counts, *spent, reached])
    about = (
        "Milliseconds of the last 1,000 batches, by the plugin's metrics; CPU and waiting for a processor are means of a batch, of"
        " everything that the plugin does."
    )
    return [*aligned_table(header, found, 2), about, ""]
