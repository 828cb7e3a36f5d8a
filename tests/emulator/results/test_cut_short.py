"""Jobs that run when a live manager stops: their start, allocation and work are in the run folder, without an end."""

from __future__ import annotations

from csv import DictReader
from pathlib import Path

import pytest
from tests.emulator.live.test_views import SECOND, Site, begin, submit
from tests.emulator.parts import node_class
from tests.emulator.results.samples import TWO_NODES, record, six_jobs, stay, workload_of, write_run
from tests.runs import run_on, runs_on

from cosched_emulator.results.figures.metrics import Selection, summarise, summarise_columns
from cosched_emulator.results.files.run_reader import read_run
from cosched_emulator.run.from_accounts import records_of
from cosched_plugin.protocol import messages as m


def test_the_folder_of_a_run_that_was_cut_short(tmp_path: Path) -> None:
    running = record(7, 55, "RUNNING", stays=(stay(60, 65, run_on(0, 1, 1, 1)),), work_s=30, run_s=99)
    running = running._replace(end_us=None, present=stay(70, 110, run_on(0, 1, 0b1100, 2)))
    records = [*six_jobs(), running, record(8, 58, "PENDING", run_s=9)]
    summary = summarise(records, TWO_NODES, Selection())
    out = write_run(
        tmp_path / "run",
        records,
        TWO_NODES,
        summary=summary,
        resolved_config={},
        workload=workload_of(records),
        timing={},
    )
    rows = list(DictReader((out / "jobs.csv").read_text().splitlines()))
    shown = ("job_id", "final_state", "starting_time", "execution_time", "finish_time", "waiting_time", "metadata")
    assert [[row[name] for name in shown] for row in rows[-2:]] == [
        ["7", "RUNNING", "70", "", "", "15", "state=RUNNING;run_s=99;work_s=30;expected_s=99;starts=2;until_s=110"],
        ["8", "SUBMITTED", "", "", "", "", "state=PENDING;run_s=9"],
    ]
    stays = [line for line in (out / "allocations.csv").read_text().splitlines() if line.startswith("7,")]
    assert stays == ["7,0,60,65,0,1,0x1,1", "7,1,70,,0,1,0xc,2"]
    swf = next(line.split() for line in (out / "schedule.swf").read_text().splitlines() if line.startswith("7 "))
    assert (swf[2], swf[3], swf[4], swf[10]) == ("15", "-1", "2", "-1")
    assert (summary["states"]["UNFINISHED"], summary["machine"]["makespan_s"]) == (2, 110)
    run = read_run(out)
    assert summarise_columns(run.jobs, run.stays, run.machine, run.selection) == summary


@pytest.mark.parametrize("suspended", [False, True])
def test_a_live_managers_records_of_unended_jobs(suspended: bool) -> None:
    site = Site(node_class(2, 4, swap_mb=1000))
    for _ in range(4):
        site.do(submit(2, memory_mb=10))
    runs: list[tuple[m.Run, ...]] = [runs_on((0, 1, 3, 2)), runs_on((0, 1, 12, 2)), runs_on((1, 1, 3, 2))]
    site.start(5, *[begin(number, *allocation) for number, allocation in enumerate(runs, 1)])
    site.do(submit(1), 10)
    site.start(10, m.SuspendJob(2, to_disk=True), *([m.SuspendJob(3)] if suspended else []))
    site.advance(25)
    unfinished = site.live.manager.unfinished_records(25 * SECOND)
    running, on_disk, third, pending, _ = records_of(site.books, unfinished)
    assert (running.state, running.end_us, running.intervals) == ("RUNNING", None, ())
    assert running.present == (5 * SECOND, 25 * SECOND, runs[0], False)
    assert (running.work_us, running.starts) == (20 * SECOND, 1)
    assert (on_disk.present, on_disk.intervals[0].end_us, on_disk.disk[0]) == (None, 10 * SECOND, (10 * SECOND, None))
    assert (on_disk.work_us, on_disk.suspended_us) == (5 * SECOND, 15 * SECOND)
    assert third.present is not None
    assert third.present.runs == runs[2]
    assert (third.work_us, third.suspended_us) == ((5 * SECOND, 15 * SECOND) if suspended else (20 * SECOND, 0))
    assert (pending.state, pending.stays, pending.work_us) == ("PENDING", (), 0)
