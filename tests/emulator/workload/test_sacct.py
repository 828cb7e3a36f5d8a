"""Logs from Slurm's accounting: real dumps of about 140 odd jobs, beside the tree, and small ones of our own.

``submitted.tsv`` of the dumps says what each job was.
"""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path
from typing import Any, cast

import pytest
from tests.plugin.slurm.bed import RECORDED, bed, needs_recordings, on_each_slurm

from cosched_emulator import simulate
from cosched_emulator.errors import EmulatorError
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.sacct import sacct_jobs as said
from cosched_emulator.workload.sacct.sacct_log import ImportOptions, ImportReport, import_dump, kept_names
from cosched_emulator.workload.swf.swf_reader import SwfOptions, load_swf, read_swf
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.errors import PluginError
from cosched_plugin.common.sacct_dump import REPAIRED, read_dump
from cosched_plugin.common.sacct_rows import COMMAND
from cosched_plugin.common.sacct_times import AMBIGUOUS

DUMPS = RECORDED / "sacct"
PLAIN = ImportOptions()
AS_LOGGED = SwfOptions(minimum_estimate_s=0, cap_run_at_estimate=False)
HEADER = (
    "JobIDRaw|JobID|User|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocNodes|NCPUS|NodeList|JobName"
)


def imported(file: Path, out: Path, options: ImportOptions = PLAIN) -> tuple[ImportReport, Workload]:
    report = import_dump(str(file), out, options)
    return report, read_swf(out / "trace.swf", AS_LOGGED)


def made(tmp_path: Path, *rows: str, header: str = HEADER, options: ImportOptions = PLAIN) -> ImportReport:
    file = tmp_path / "jobs.txt"
    file.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return import_dump(str(file), tmp_path / "out", options)


def row(
    number: int = 1, *, label: str = "", state: str = "COMPLETED", submit: str = "10:00:00", end: str = "10:10:00"
) -> str:
    times = f"2026-03-02T{submit}|2026-03-02T{submit}|2026-03-02T{end}"
    return f"{number}|{label or number}|ua|co|{state}|{times}|600|20|1|2|n1|solve"


# ---------------------------------------------------------------- a real Slurm's


@needs_recordings
def test_every_odd_row_of_a_real_dump(tmp_path: Path) -> None:
    report, workload = imported(DUMPS / "sacct-all-states.txt", tmp_path / "out")
    jobs = {job.source_id: job for job in workload.jobs}
    assert (report.rows, report.jobs, report.nodes, report.cores) == (144, 134, 8, 4)
    counts = report.counts
    assert counts[said.REQUEUED] == 4
    assert counts[said.NEVER_RAN] == 4
    assert not {117, 122, 132, 137} & jobs.keys()
    assert counts[said.NOT_ENDED] == 2
    assert not {139, 141} & jobs.keys()
    assert counts[said.VANISHED] == 2  # 79_2 and 79_3: their submission asked for 0-3
    assert (counts[said.ARRAYS], counts[said.COMPONENTS]) == (24, 5)
    assert counts[REPAIRED] == 1
    # requeued after a second: submitted at the first submission, 22 s after the log's begin, with the run time of the last run
    assert (jobs[85].spec.submit_us, jobs[85].run_us) == (22 * SECOND_US, 4 * SECOND_US)
    # suspended for 3 of 7 s
    assert jobs[111].run_us == 4 * SECOND_US
    # a limit of a minute, after 81 s; UNLIMITED; 525600 by sched/backfill
    assert (jobs[1].spec.estimate_us, jobs[1].run_us) == (60 * SECOND_US, 81 * SECOND_US)
    assert jobs[28].spec.estimate_us == jobs[124].spec.estimate_us == 86_400 * SECOND_US
    # EXCLUSIVE partition: four CPUs asked for, eight held
    assert jobs[59].spec.processes == 8
    # their name holds the delimiter, blanks and quotes
    assert {126, 127} <= jobs.keys()
    text = (tmp_path / "out" / "names.csv").read_text(encoding="utf-8")
    names = [(kind, name) for kind, _, name in csv.reader(text.splitlines())]
    assert {("name", "a|b"), ("name", "two words 'q' `d` ü"), ("user", "root"), ("partition", "shr")} <= set(names)
    assert any(text.startswith("partitions: co (99 jobs on 8 nodes)") for text in report.remarks)


@needs_recordings
def test_listings_of_the_same_jobs_agree(tmp_path: Path) -> None:
    """The same hour in another delimiter, with steps, and as JSON: the same jobs, sizes and run times, whatever else differs."""

    def facts(name: str) -> dict[int, tuple[int, int, int]]:
        _, workload = imported(DUMPS / name, tmp_path / name, ImportOptions(time_zone="UTC"))
        return {job.source_id: (job.processes, job.run_us, job.spec.estimate_us) for job in workload.jobs}

    whole = facts("sacct-all-states.txt")
    assert len(whole) == 134
    for name in ("sacct-delimiter.txt", "sacct-duplicates.txt", "sacct-steps.txt", "sacct.json"):
        assert facts(name) == whole, name


@needs_recordings
def test_a_dump_without_times_says_which_line_makes_one(tmp_path: Path) -> None:
    with pytest.raises(PluginError) as caught:
        import_dump(str(DUMPS / "sacct-default-fields.txt"), tmp_path / "out", ImportOptions())
    assert "got none of Submit, Start, End" in str(caught.value)
    assert COMMAND in str(caught.value)


@needs_recordings
def test_an_anonymous_log_names_nobody(tmp_path: Path) -> None:
    out = tmp_path / "out"
    import_dump(str(DUMPS / "sacct-all-states.txt"), out, ImportOptions(anonymous=True))
    assert sorted(path.name for path in out.iterdir()) == ["jobs.csv", "scenario.toml", "trace.swf"]
    kept = kept_names(out).read_text().splitlines()
    assert {"user,1,ua", "name,1,solve"} & {*kept}
    text = "".join(path.read_text() for path in out.iterdir())
    for word in ("ua", "ub", "proj1", "solve", "mesh", "shr", "sbatch", "17954", "n1\n", "2026"):
        assert word not in text.split(), word
        assert f"{word} (" not in text, word
    numbers = [job.source_id for job in read_swf(out / "trace.swf", AS_LOGGED).jobs]
    assert numbers == list(range(1, 135))
    assert load_swf(out / "trace.swf").workload.calendar is None


@needs_recordings
def test_the_folder_is_a_scenario(tmp_path: Path) -> None:
    import_dump(str(DUMPS / "sacct-jobs-duplicates.txt"), tmp_path / "out", ImportOptions())
    run = simulate(str(tmp_path / "out" / "scenario.toml"), "easy")
    assert len(run.jobs) == 134
    assert run.jobs.processes.max() == 8
    assert not run.unfinished


@pytest.mark.slow
@on_each_slurm("slurmdbd", "mariadbd", "sacct")
def test_the_printed_line_works_with_a_real_slurm(tmp_path: Path, slurm: str) -> None:
    with bed("--accounting", slurm=slurm) as one:
        one.run("sbatch", "-p", "co", "-n2", "-t", "2", "-J", "a|b", "--wrap", "sleep 0.1\nsleep 0.1")
        one.run("sbatch", "-p", "co", "--array=0-2", "-n1", "--wrap", "sleep 0.1")
        dump = tmp_path / "jobs.txt"

        def listed() -> str:
            one.run("bash", "-c", COMMAND.replace("jobs.txt", str(dump)))
            return dump.read_text()

        end = time.monotonic() + 30
        while "2_2" not in listed() or listed().count("COMPLETED") < 4:  # rows are completed some seconds late
            assert time.monotonic() < end, listed()
            time.sleep(0.3)
    report, workload = imported(dump, tmp_path / "out")
    assert report.jobs == 4
    assert report.counts[said.ARRAYS] == 3
    assert sorted(job.processes for job in workload.jobs) == [1, 1, 1, 2]
    assert not any("no time zone" in text for text in report.remarks)


# ---------------------------------------------------------------- cases that those dumps do not have


def test_a_number_that_slurm_gives_again_is_another_job(tmp_path: Path) -> None:
    report = made(tmp_path, row(7), row(7, submit="11:00:00", end="11:10:00"))
    assert (report.jobs, report.counts[said.TWICE]) == (2, 1)
    assert [job.source_id for job in read_swf(tmp_path / "out" / "trace.swf").jobs] == [1, 2]


def test_a_job_that_lost_its_node_runs_again(tmp_path: Path) -> None:
    report = made(tmp_path, row(7, state="NODE_FAIL"), row(7, submit="10:10:00", end="10:20:00"))
    assert (report.jobs, report.counts[said.REQUEUED]) == (1, 1)
    assert "earlier runs of requeued jobs used 0.3 CPU hours that the log does not have" in report.remarks


def test_parts_of_a_job_that_changed_its_size_are_one(tmp_path: Path) -> None:
    report = made(tmp_path, row(7, state="RESIZING"), row(7, submit="10:10:00", end="10:20:00"))
    assert (report.jobs, report.counts[said.RESIZED]) == (1, 1)
    assert read_swf(tmp_path / "out" / "trace.swf").jobs[0].run_us == 1200 * SECOND_US


def test_gaps_of_an_array_are_counted_where_no_submission_tells_its_range(tmp_path: Path) -> None:
    report = made(tmp_path, row(7, label="7_0"), row(8, label="7_3"), row(9, label="9_[4-6]", state="PENDING"))
    assert (
        report.counts["tasks of arrays without a row, probably cancelled while pending: left out"] == 2
    )  # or none: 0,3


@pytest.mark.parametrize(
    ("submit", "zone", "hours"),
    [("2026-10-25T03:30:00", "Europe/Athens", 0.5), ("1792888200", None, 0.5), ("2026-10-25T03:30:00+0300", None, 0.5)],
)
def test_times_of_every_form_are_instants(tmp_path: Path, submit: str, zone: str | None, hours: float) -> None:
    """Clocks go back at 04:00 that night: half past three comes twice. The other job is submitted at midnight UTC."""
    other = {"2026": "2026-10-25T03:00:00" + submit[19:], "1792": "1792886400"}[submit[:4]]
    rows = [f"{n}|{n}|ua|co|COMPLETED|{t}|{t}|{t}|600|20|1|2|n1|x" for n, t in ((1, other), (2, submit))]
    report = made(tmp_path, *rows, options=ImportOptions(time_zone=zone))
    trace = load_swf(tmp_path / "out" / "trace.swf")
    assert trace.workload.jobs[1].spec.submit_us == hours * 3600 * SECOND_US
    assert trace.header["UnixStartTime"] == "1792886400"
    assert report.counts.get(AMBIGUOUS, 0) == (6 if zone else 0)
    assert not any("no time zone" in text for text in report.remarks)


_ACCOUNT_FIELDS = {
    "Eligible": "2026-03-02T10:00:30", "Account": "proj", "QOS": "high", "Priority": "4294901759", "Reservation": "maint",
    "Reason": "Dependency", "ReqMem": "8G", "ReqTRES": "billing=4,cpu=2,gres/gpu:a100=1,mem=1.50G,node=1",
    "AllocTRES": "cpu=2,energy=18446744073709551614,gres/gpu=2,license/x=3,mem=2T,node=1",
}  # fmt: skip


def test_what_a_dump_says_of_account_priority_and_amounts(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text(
        f"{HEADER}|{'|'.join(_ACCOUNT_FIELDS)}\n{row()}|{'|'.join(_ACCOUNT_FIELDS.values())}\n"
    )
    (read,) = read_dump(str(tmp_path / "jobs")).rows
    assert read.eligible_s == read.submit_s + 30
    assert (read.account, read.qos, read.priority, read.reservation) == ("proj", "high", 4294901759, "maint")
    assert (read.reason, read.memory) == ("Dependency", "8G")
    assert read.requested == {"billing": 4, "cpu": 2, "gres/gpu:a100": 1, "mem": 1536, "node": 1}
    assert {"gres/gpu": 2, "license/x": 3, "mem": 2 << 20}.items() <= read.allocated.items()
    (tmp_path / "jobs").write_text(f"{HEADER}|Eligible|Priority|AllocTRES\n{row()}|Unknown||\n")
    (read,) = read_dump(str(tmp_path / "jobs")).rows
    assert (read.eligible_s, read.priority, read.qos, dict(read.allocated)) == (None, None, "", {})


@needs_recordings
def test_json_says_the_same_of_them_as_text() -> None:
    text, other = ([*read_dump(str(DUMPS / name)).rows] for name in ("sacct-all-states.txt", "sacct.json"))
    by_run = {(row.number, row.submit_s): row for row in text}
    rows = [row for row in other if "." not in row.label]
    assert len(rows) > 100
    for row in rows:
        twin = by_run[row.number, row.submit_s]
        for key in ("eligible_s", "account", "qos", "priority", "reservation", "reason"):
            assert getattr(row, key) == getattr(twin, key), (key, row.label)
        assert row.requested.items() >= twin.requested.items(), row.label
        assert row.allocated.items() >= twin.allocated.items(), row.label


def test_a_range_in_a_program_of_the_user_is_none_of_an_array(tmp_path: Path) -> None:
    command = "sbatch --wrap 'program -a 1-999999999'"
    report = made(tmp_path, *(f"{row(n, label=f'7_{n}')}|{command}" for n in (1, 3)), header=f"{HEADER}|SubmitLine")
    assert report.counts[said.VANISHED] == 1


def test_line_breaks_and_delimiters_in_texts_lose_no_job(tmp_path: Path) -> None:
    header = f"{HEADER}|SubmitLine"
    split = row(1) + "|sbatch --wrap sleep 1\nsleep 2"
    piped = row(2).replace("solve", "a|b") + "|sbatch -J a|b"
    report = made(tmp_path, split, piped, row(3) + "|sbatch", header=header)
    assert report.jobs == 3
    assert report.counts[REPAIRED] == 1


def test_json_of_later_slurms(tmp_path: Path) -> None:
    """Numbers are tables, states are lists: after the published schema."""
    unset = {"set": False, "infinite": True, "number": 0}
    job = {
        "job_id": 5, "cluster": "c", "user": "ua", "name": "x", "partition": "co", "nodes": "n[1-2]",
        "array": {"job_id": 4, "task_id": {"set": True, "infinite": False, "number": 3}},
        "het": {"job_id": 0, "job_offset": unset}, "required": {"CPUs": 4},
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "time": {
            "submission": 1000, "start": 1010, "end": 1100, "elapsed": 90, "suspended": 0, "limit": unset,
            "total": {"seconds": 1, "microseconds": 0},
        },
        "tres": {"allocated": [{"type": "cpu", "count": 4}, {"type": "node", "count": 2}], "requested": []},
        "steps": [{"step": {"id": "5.0"}}],
    }  # fmt: skip
    # 26.05: what sacct -P shows as REQUEUED
    times = {**cast("dict[str, Any]", job["time"]), "submission": 900, "start": 910, "end": 950, "elapsed": 40}
    earlier = {**job, "state": {"current": ["PENDING", "REQUEUED"], "reason": "None"}, "time": times}
    (tmp_path / "jobs.json").write_text(json.dumps({"jobs": [earlier, job]}))
    report = import_dump(str(tmp_path / "jobs.json"), tmp_path / "out", ImportOptions())
    assert (report.jobs, report.nodes, report.cores) == (1, 2, 2)
    assert {said.ARRAYS: 1, said.NO_LIMIT: 1, said.STEPS: 2, said.REQUEUED: 1}.items() <= report.counts.items()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{HEADER}\n{row().replace('n1', 'n[1-99999999]')}\n", ":2: field 'NodeList': expected a list of at most 65536 nodes"),
        (f"{HEADER}\n{row().replace('n1', 'n[1-9999][1-9999]')}\n", ":2: field 'NodeList': expected a list of at most"),
        (f"{HEADER}\n{row(label='7_[1-99999999]')}\n", ":2: field 'JobID': expected a job such as 12, 12_3 or 12_[1-3,7]"),
        (f"{HEADER}\n{row(label='7_99999999999')}\n", ":2: field 'JobID': expected a job such as 12, 12_3 or 12_[1-3,7]"),
        (f"{HEADER}|ReqTRES\n{row()}|cpu=four\n", ":2: field 'ReqTRES': expected amounts such as cpu=4,mem=8G"),
        ("", "expected a dump of sacct -P"),
        ("JobID  JobName State\n------ ------- -----\n1 x COMPLETED\n", "expected a dump of sacct -P"),
        ("{", "expected JSON"),
        ('{"jobs": [{}]}', "expected the answer of sacct --json"),
        (f"{HEADER}\n", "expected at least one job that ran to its end, got no rows"),
        (f"{HEADER}\n{row().replace('10:00:00', 'noon')}\n", ":2: field 'Submit': expected a time"),
        (f"{HEADER}\n{row().replace('|1|2|', '|1|two|')}\n", ":2: field 'NCPUS': expected a number of CPUs, got 'two'"),
        (f"{HEADER}\n{row(state='PENDING')}\n", "got 1 jobs that are pending, running or suspended"),
        (f"Cluster|{HEADER}\na|{row(1)}\nb|{row(2)}\n", ":3: field 'Cluster': expected the jobs of one cluster"),
    ],
    ids=[
        "range", "ranges", "tasks", "task", "amounts", "empty", "not parsable", "half", "other JSON", "no rows", "time", "number",
        "pending", "clusters",
    ],
)  # fmt: skip
def test_what_is_no_dump_is_refused_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "jobs").write_text(text)
    with pytest.raises((PluginError, EmulatorError)) as caught:
        import_dump(str(tmp_path / "jobs"), tmp_path / "out", ImportOptions())
    assert expected in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_an_unknown_time_zone_and_an_existing_file_are_errors(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="expected a time zone that this machine knows"):
        made(tmp_path, row(), options=ImportOptions(time_zone="Nowhere/Else"))
    made(tmp_path, row())
    with pytest.raises(EmulatorError, match="--force overwrites"):
        made(tmp_path, row())
