"""Batsim's protocol between the emulator and schedulers: cosched's own decide as without it, and pybatsim's run to the end.

pybatsim runs in an environment of its own, which `scripts/pybatsim` makes.
"""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Commands
from tests.processes import ROOT, ended, environment

from cosched_emulator.batsim.run import Built, Inputs, Outputs, build, simulate
from cosched_emulator.batsim.simulator import Options
from cosched_emulator.batsim.workload import Ended
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.run.run import run
from cosched_plugin.batsim.adapter import Decisions, features_of
from cosched_plugin.batsim.site import SiteFile
from cosched_plugin.config import choose
from cosched_terminal.console import Log

Times = dict[int, tuple[int | None, int | None]]  # start and end of each job, in microseconds
PYBATSIM = Path(os.environ.get("COSCHED_PYBATSIM") or ROOT / ".venv-pybatsim" / "bin" / "pybatsim")


class Recorder(Outputs):
    """Outputs that keep the times of jobs."""

    def __init__(self) -> None:
        super().__init__(None, force=False)
        self.times: Times = {}

    def add(self, ended: Ended) -> None:
        super().add(ended)
        self.times[ended.job.work.spec.id] = (ended.start_us, ended.end_us)


def over_both(built: Built, policy: str, site: SiteFile, options: Options) -> Times:
    """Return when jobs run if emulator and scheduler speak Batsim's protocol, in one process."""
    choice = choose(policy)
    decisions = Decisions(choice.scheduler, features_of(choice.make()), site, 0, Log(quiet=True))
    outputs = Recorder()
    with outputs:
        simulate(built.simulator(options, outputs), decisions.answer)
    assert decisions.ended
    return outputs.times


def natively(built: Built, policy: str) -> Times:
    finished = run(built.prepared, DirectLink(choose(policy).scheduler))
    return {record.job.spec.id: (record.intervals[-1].start_us, record.end_us) for record in finished.records}


@pytest.mark.parametrize("policy", ["fcfs", "easy", "sjbf", "conservative"])
def test_schedules_are_the_native_ones(policy: str) -> None:
    table = {"workload": {"lublin": 400, "aarr": 9.0}, "cluster": {"nodes": 128, "cores": 1}}
    built = build(None, table, Inputs(), sharing=False)
    times = over_both(built, policy, SiteFile(), Options())
    assert len(times) == 400
    assert times == natively(built, policy)


def test_energy_is_the_native_one() -> None:
    cluster = {"nodes": 32, "cores": 1, "idle_w": 100.0, "busy_w": 50.0, "spin_w": 10.0}
    built = build(None, {"workload": {"lublin": 200, "aarr": 9.0}, "cluster": cluster}, Inputs(), sharing=False)
    decisions = Decisions(choose("easy").scheduler, frozenset(), SiteFile(), 0, Log(quiet=True))
    with Recorder() as outputs:
        simulator = built.simulator(Options(energy=True), outputs)
        simulate(simulator, decisions.answer)
        figures = outputs.finish(simulator, "", 0.0, 0.0)
    finished = run(built.prepared, DirectLink(choose("easy").scheduler))
    assert float(figures["consumed_joules"]) == pytest.approx(finished.summary["energy"]["total_j"], abs=0.01)


@pytest.mark.parametrize("policy", ["lomarc-r", "ac"])
def test_schedules_with_pairs_are_the_native_ones(policy: str) -> None:
    """Jobs share hosts and slow each other down; without limits, as Batsim's do not grow with the slowdown."""
    workload = {"lublin": 150, "aarr": 9.0, "characteristics": "M1", "limits": "none"}
    table = {"workload": workload, "cluster": {"nodes": 32, "preset": "lomarc-ht"}, "truth": {"contention": "lomarc"}}
    built = build(None, table, Inputs(), sharing=True)
    site = SiteFile(belief=built.prepared.belief, capacities={"memory_mb": 512})
    times = over_both(built, policy, site, Options(sharing=True))
    assert times == natively(built, policy)
    assert len(times) == 150


def test_jobs_of_several_cores_have_whole_hosts() -> None:
    table = {"workload": {"lublin": 300, "aarr": 9.0}, "cluster": {"nodes": 32, "cores": 4}}
    built = build(None, table, Inputs(), sharing=False)
    assert {job.res for job in built.jobs} <= set(range(1, 33))
    times = over_both(built, "easy", SiteFile(), Options())
    assert len(times) == 300


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def schedule_of(file: Path) -> Mapping[str, Any]:
    return {
        row["job_id"]: (float(row["starting_time"]), float(row["finish_time"]), row["allocated_resources"])
        for row in rows_of(file)
    }


@pytest.mark.parametrize("jobs", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_both_commands_make_the_native_schedule(jobs: int, commands: Commands) -> None:
    machine = ("--nodes", "128", "--cores", "1")
    made = commands.emulator(
        "workload", "lublin", "--jobs", str(jobs), "--aarr", "9.83", "--seed", "3", "--out", "w.swf"
    )
    assert made.code == 0
    assert commands.emulator("simulate", "--swf", "w.swf", *machine, "--policy", "easy", "--out", "native").code == 0
    plugin = commands.start("cosched_plugin", "batsim", "--bind", "ipc://b.sock", "--policy", "easy", "--quiet")
    ran = commands.emulator("batsim", "--connect", "ipc://b.sock", "--swf", "w.swf", *machine, "--export", "out")
    assert (ran.code, ran.err) == (0, "")
    assert ended(plugin) == (0, "", "")
    schedule = schedule_of(commands.folder / "out_jobs.csv")
    assert len(schedule) == jobs
    assert schedule == schedule_of(commands.folder / "native" / "jobs.csv")


def check_schedule(file: Path, hosts: int) -> int:
    """Assert that no host has two jobs at once, and no job starts before its submission; return the number of jobs."""
    rows = rows_of(file)
    changes = []
    for row in rows:
        start, end = float(row["starting_time"]), float(row["finish_time"])
        assert start >= float(row["submission_time"])
        assert end - start <= float(row["requested_time"]) + 1e-6
        used: list[int] = []
        for part in row["allocated_resources"].split(" "):
            first, _, last = part.partition("-")
            used += range(int(first), int(last or first) + 1)
        assert len(used) == int(row["requested_number_of_resources"])
        assert max(used) < hosts
        changes += [(start, 1, used), (end, 0, used)] if end > start else []
    busy: set[int] = set()
    for _, begins, used in sorted(changes, key=lambda change: change[:2]):
        assert busy.isdisjoint(used) if begins else busy.issuperset(used)
        busy = busy | set(used) if begins else busy - set(used)
    return len(rows)


@contextmanager
def pybatsim_at(commands: Commands, endpoint: str, scheduler: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield pybatsim as a process."""
    arguments = [str(PYBATSIM), "-v", "error", "-t", "0", "-s", endpoint, scheduler]
    with (commands.folder / "pybatsim.log").open("w") as log:
        process = subprocess.Popen(arguments, cwd=commands.folder, env=environment(), stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.mark.skipif(
    not PYBATSIM.exists(), reason="pybatsim is not installed: scripts/pybatsim makes an environment with it"
)
@pytest.mark.parametrize("jobs", [500, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("scheduler", ["easyBackfill", "fillerSched"])
def test_pybatsims_schedulers_drive_the_emulator(scheduler: str, jobs: int, commands: Commands) -> None:
    made = commands.emulator(
        "workload", "lublin", "--jobs", str(jobs), "--aarr", "10.2", "--seed", "4", "--out", "w.swf"
    )
    assert made.code == 0
    endpoint = f"ipc://{commands.folder}/p.sock"
    with pybatsim_at(commands, endpoint, scheduler) as process:
        ran = commands.emulator(
            "batsim", "--connect", endpoint, "--swf", "w.swf", "--nodes", "128", "--cores", "1", "--export", "out", "--wait", "60"
        )  # fmt: skip
        assert (ran.code, ran.err) == (0, ""), (commands.folder / "pybatsim.log").read_text()
        assert process.wait(timeout=10) == 0
    assert check_schedule(commands.folder / "out_jobs.csv", 128) == jobs
