"""How dumps of Slurm's accounting are read: joined together, odd, from another hour of the clock, and with eligibility."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Commands
from tests.emulator.workload.test_sacct import HEADER, made, row
from tests.plugin.slurm.bed import RECORDED

from cosched_emulator.workload.sacct import sacct_jobs as said
from cosched_emulator.workload.sacct.sacct_log import ImportOptions, ImportReport, import_dump
from cosched_emulator.workload.swf.swf_reader import load_swf, read_swf
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common import sacct_rows
from cosched_plugin.common.errors import PluginError
from cosched_plugin.common.sacct_dump import NOT_WHOLE, REPAIRED, read_dump
from cosched_plugin.common.sacct_rows import BAD_ROWS, TOLD_AGAIN, SacctRow
from cosched_plugin.common.sacct_times import AMBIGUOUS, LEFT_OUT

_LATE = f"{HEADER}|Eligible|Reason|SubmitLine"


def _read(tmp_path: Path, text: str, **options: Any) -> tuple[SacctRow, ...]:
    (tmp_path / "jobs").write_text(text)
    return tuple(read_dump(str(tmp_path / "jobs"), **options).rows)


def _jobs(tmp_path: Path) -> dict[int, tuple[int, int, int]]:
    """Return when each job of the log comes, how long it waited and ran, in seconds."""
    found = {}
    for line in (tmp_path / "out" / "trace.swf").read_text().splitlines():
        if not line.startswith(";"):
            number, comes, waited, ran = map(int, line.split()[:4])
            found[number] = comes, waited, ran
    return found


# ---------------------------------------------------------------- dumps joined together


def _monthly(number: int, state: str, end: str = "") -> str:
    """Return a row as a dump of some month has it: the job waits, runs or has ended."""
    start = "Unknown" if state == "PENDING" else "2026-01-31T12:00:00"
    nodes = "0|2|None assigned" if state == "PENDING" else "1|2|n1"
    elapsed = 3600 if end else 0 if state == "PENDING" else 1800
    return f"{number}|{number}|ua|co|{state}|2026-01-31T10:00:00|{start}|{end or 'Unknown'}|{elapsed}|90|{nodes}|solve"


_MONTHS = (
    [_monthly(1, "COMPLETED", "2026-01-31T13:00:00"), _monthly(2, "RUNNING"), _monthly(3, "PENDING"), _monthly(4, "PENDING")],
    [_monthly(2, "COMPLETED", "2026-01-31T13:00:00"), _monthly(3, "RUNNING"), _monthly(4, "PENDING")],
    [_monthly(2, "COMPLETED", "2026-01-31T13:00:00"), _monthly(3, "FAILED", "2026-01-31T13:00:00"), _monthly(4, "RUNNING")],
    [_monthly(3, "FAILED", "2026-01-31T13:00:00"), _monthly(4, "CANCELLED by 7", "2026-01-31T13:00:00")],
)  # fmt: skip


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)], ids=["in order", "as a shell sorts names"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("delimiter", ["|", "\t", ";", " | ", "\x1f"])
def test_a_job_of_several_dumps_is_one_in_its_latest_state(
    tmp_path: Path, order: tuple[int, ...], end: str, delimiter: str
) -> None:
    lines = [line for month in order for line in (HEADER, *_MONTHS[month])]
    text = end.join(lines).replace("|", delimiter)
    rows = {one.number: one for one in _read(tmp_path, text)}
    assert {number: one.state for number, one in rows.items()} == {
        "1": "COMPLETED", "2": "COMPLETED", "3": "FAILED", "4": "CANCELLED"
    }  # fmt: skip
    assert {one.name for one in rows.values()} == {"solve"}
    report = import_dump(str(tmp_path / "jobs"), tmp_path / "out", ImportOptions())
    assert (report.jobs, report.counts[TOLD_AGAIN], report.counts.get(said.TWICE)) == (4, 8, None)


@pytest.mark.parametrize("header", [HEADER, "JobName|" + HEADER.removesuffix("|JobName"), f"{HEADER}|"])
def test_a_header_in_the_middle_is_no_text_of_a_job(tmp_path: Path, header: str) -> None:
    """Also where its first column is not a number, the last one no text, and under ``-p``, which ends all lines with a delimiter."""
    names = header.split("|")
    by_name = [dict(zip(HEADER.split("|"), row(n).split("|"), strict=True)) for n in (1, 2, 3)]
    one, two, three = ("|".join(cells.get(name, "") for name in names) for cells in by_name)
    rows = _read(tmp_path, "\n".join([header, one, two, header, three, f"\ufeff{header}", ""]))
    assert [(one.number, one.node_list, one.name) for one in rows] == [(str(n), "n1", "solve") for n in (1, 2, 3)]


def test_dumps_of_other_columns_are_not_joined(tmp_path: Path) -> None:
    for other in (HEADER.replace("|User", ""), HEADER.replace("|", ",")):
        with pytest.raises(PluginError, match=r"jobs:3: expected the header of line 1 again"):
            _read(tmp_path, "\n".join([HEADER, row(1), other, row(2)]))


def test_a_header_of_other_columns_is_told_before_a_cell_above_it(tmp_path: Path) -> None:
    """The rest of a dump, which is read row by row, says that it is none that can be joined."""
    bad = row(1).replace("COMPLETED|2", "COMPLETED|x2")
    assert bad != row(1)
    with pytest.raises(PluginError, match=r"jobs:2: field 'Submit': expected a time"):
        _read(tmp_path, f"{HEADER}\n{bad}")
    with pytest.raises(PluginError, match=r"jobs:4: expected the header of line 1 again"):
        _read(tmp_path, "\n".join([HEADER, bad, row(2), f"{HEADER}|NNodes", row(3)]))


@pytest.mark.parametrize("block", [1, 2, 3])
def test_a_log_is_the_same_in_blocks_of_any_size(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs").write_text("\n".join([HEADER, *(row(number) for number in range(1, 8))]))
    import_dump(str(tmp_path / "jobs"), tmp_path / "out", ImportOptions())
    monkeypatch.setattr(sacct_rows, "_BLOCK", block)
    import_dump(str(tmp_path / "jobs"), tmp_path / "blocks", ImportOptions())
    written = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("out", "blocks")]
    assert written[0] == written[1]
    assert len(_jobs(tmp_path)) == 7


def test_runs_of_a_requeued_job_stay_apart_in_joined_dumps(tmp_path: Path) -> None:
    again = [row(7, state="REQUEUED"), row(7, submit="10:10:00", end="10:20:00")]
    report = made(tmp_path, *again, HEADER, *again)
    assert (report.jobs, report.counts[said.REQUEUED], report.counts[TOLD_AGAIN]) == (1, 1, 2)
    assert _jobs(tmp_path) == {7: (0, 600, 600)}


def test_a_task_that_waited_in_an_earlier_dump_has_its_arrays_number(tmp_path: Path) -> None:
    """The last task keeps the number that all waiting ones had."""
    waiting = f"9|9_[1-2]|ua|co|PENDING|{'2026-03-02T10:00:00|Unknown|Unknown'}|0|20|0|2|None assigned|solve"
    report = made(tmp_path, waiting, HEADER, row(10, label="9_1"), row(9, label="9_2"))
    assert (report.jobs, report.counts.get(said.NOT_ENDED), report.counts[said.ARRAYS]) == (2, None, 2)


def test_stray_lines_are_no_part_of_a_job(tmp_path: Path) -> None:
    header, body = HEADER.removesuffix("|JobName"), row(1).removesuffix("|solve")
    report = made(
        tmp_path, body, "sacct: error: the connection went away", row(2).removesuffix("|solve"), header=header
    )
    assert (report.jobs, report.nodes, report.counts[NOT_WHOLE]) == (2, 1, 1)


def _json_job(number: int, current: str = "COMPLETED", end: int = 1100, **more: Any) -> dict[str, Any]:
    return {
        "job_id": number, "cluster": "c", "user": "ua", "name": "x", "partition": "co", "nodes": "n1",
        "array": {"job_id": 0, "task_id": None}, "het": {"job_id": 0, "job_offset": None}, "required": {"CPUs": 4},
        "state": {"current": current, "reason": "None"},
        "time": {
            "submission": 1000, "eligible": 1005, "start": 1010, "end": end, "elapsed": 90, "suspended": 0, "limit": 20,
            "total": {"seconds": 1, "microseconds": 0},
        },
        "tres": {"allocated": [{"type": "cpu", "count": 4}, {"type": "node", "count": 1}], "requested": []},
        "steps": [], **more,
    }  # fmt: skip


def _json_report(tmp_path: Path, *documents: list[dict[str, Any]], **options: Any) -> ImportReport:
    (tmp_path / "jobs.json").write_text("\n".join(json.dumps({"jobs": jobs}) for jobs in documents))
    return import_dump(str(tmp_path / "jobs.json"), tmp_path / "out", ImportOptions(force=True, **options))


def test_a_job_twice_in_json_is_one(tmp_path: Path) -> None:
    """In one answer, and in two answers one after the other."""
    running = _json_job(1, "RUNNING", 0)
    for documents in (([running, _json_job(1), _json_job(2)],), ([_json_job(1)], [running, _json_job(2)])):
        report = _json_report(tmp_path, *documents)
        assert (report.jobs, report.counts[TOLD_AGAIN]) == (2, 1)
        assert _jobs(tmp_path) == {1: (0, 5, 90), 2: (0, 5, 90)}


def test_what_import_is_told_of_rows_whatif_is_told_too(tmp_path: Path, commands: Commands) -> None:
    (tmp_path / "jobs").write_text(f"{_LATE}\n{_late(1, '11:00:00')}\n{_late(2, '10:00:00')}\n{_late(3, 'noon')}\n")
    dump, out = ("--sacct", str(tmp_path / "jobs")), tmp_path / "whatif"
    for told, comes in (((), 3600), (("--as-submitted",), 0)):
        options = (*dump, "--skip-bad-rows", *told)
        done = commands.emulator("workload", "import", *options, "--out", str(tmp_path / "out"), "--force", "--json")
        assert json.loads(done.out)["counts"][BAD_ROWS] == 1
        # It reads the dump, and then finds that there is no such policy.
        assert "no-such" in commands.emulator("whatif", *options, "--policy", "no-such", "--out", str(out)).err
        assert (out / "log" / "trace.swf").read_text() == (tmp_path / "out" / "trace.swf").read_text()
        assert _jobs(tmp_path)[1][0] - _jobs(tmp_path)[2][0] == comes
    assert "--skip-bad-rows" in commands.emulator("whatif", *dump, "--out", str(out)).err
    assert "--as-submitted goes with --sacct" in commands.emulator("whatif", "--as-submitted", "--out", str(out)).err


_CASES = RECORDED.parents[1] / "cases"


@pytest.mark.skipif(not _CASES.is_dir(), reason="no cases beside the tree")
@pytest.mark.parametrize(
    ("file", "zone", "nodes", "names", "comes_min"),
    [
        ("01-concat.txt", "UTC", 2, {"x", "y"}, {1: 0, 2: 600, 3: 1440}),
        ("01b-header-in-the-middle.txt", "UTC", 2, {"x", "y", "z"}, {1: 0, 2: 120, 3: 1440}),
        (
            "02-eligible.txt", "UTC", 3, {"step0", "step1", "step2", "late", "arr"},
            {10: 0, 11: 60, 12: 120, 20: 600, 30: 0, 31: 0, 32: 0, 33: 0},
        ),
        ("06-cancelled-nnodes.txt", "UTC", 1, {"x"}, {1: 0, 3: 0}),
        ("07-dst.txt", "Europe/Athens", 1, {"x"}, {1: 0, 2: 50, 3: 170}),
        ("10-tres-comma.txt", "UTC", 2, {"solve"}, {1: 0, 2: 0}),
    ],
)  # fmt: skip
def test_small_dumps_that_were_read_wrongly(
    tmp_path: Path, file: str, zone: str, nodes: int, names: set[str], comes_min: Mapping[int, int]
) -> None:
    report = import_dump(str(_CASES / file), tmp_path / "out", ImportOptions(time_zone=zone))
    with (tmp_path / "out" / "names.csv").open(newline="") as stream:
        assert {line["name"] for line in csv.DictReader(stream) if line["kind"] == "name"} == names
    assert report.nodes == nodes
    assert {number: comes // 60 for number, (comes, _, _) in _jobs(tmp_path).items()} == comes_min


# ---------------------------------------------------------------- rows of one odd field


@pytest.mark.parametrize(
    ("good", "bad", "field"),
    [
        ("|n1|", "|n[1-99999999]|", "NodeList"),
        ("|n1|", "|n[1-|", "NodeList"),
        ("|1|2|", "|1|two|", "NCPUS"),
        ("|1|2|", "|1|-2|", "NCPUS"),
        ("|1|2|", "|9999999|2|", "AllocNodes"),
        ("|600|", "|9999-00:00:00:00|", "ElapsedRaw"),
        ("10:00:00|2026", "noon|2026", "Submit"),
        ("2026-03-02T10:10:00", "99999999999999999999", "End"),
        ("2026-03-02T10:10:00", "0001-01-01T00:00:00", "End"),
        ("1|1|", f"{'9' * 30}|1|", "JobIDRaw"),
        ("1|1|", "1|7_[1-99999999]|", "JobID"),
    ],
)
def test_rows_of_an_odd_field_are_left_out_where_that_is_asked_for(
    tmp_path: Path, good: str, bad: str, field: str
) -> None:
    odd = row(1).replace(good, bad, 1)
    assert odd != row(1)
    with pytest.raises(PluginError, match=rf"jobs\.txt:3: field '{field}': .*--skip-bad-rows"):
        made(tmp_path, row(2), odd)
    for zone in (None, "Asia/Tokyo"):
        options = ImportOptions(skip_bad_rows=True, force=True, time_zone=zone)
        report = made(tmp_path, row(2), odd, odd, options=options)
        assert (report.jobs, report.counts[BAD_ROWS]) == (1, 2)
        assert any(text.startswith(f"the first row that was left out: line 3, {field}: ") for text in report.remarks)


def test_a_row_says_which_field_of_its_dump_is_odd(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"jobs:2: field 'JobID': .*, got '7_\[1-99999999\]'"):
        _read(
            tmp_path,
            f"{HEADER.removeprefix('JobIDRaw|')}\n{row(1).removeprefix('1|').replace('1|', '7_[1-99999999]|', 1)}",
        )


@pytest.mark.parametrize(
    "odd",
    [
        {"time": None}, {"nodes": "n[1-9999][1-9999]"}, {"job_id": 10**30}, {"tres": {"allocated": [{"type": "cpu"}]}},
        {"required": {"CPUs": float("inf")}}, {"array": {"job_id": 7, "task_id": 99_999_999}}, {"state": {"current": []}},
    ],
    ids=lambda odd: next(iter(odd)),
)  # fmt: skip
def test_odd_jobs_of_json_are_left_out_where_that_is_asked_for(tmp_path: Path, odd: Mapping[str, Any]) -> None:
    jobs = [_json_job(1), _json_job(2, **odd)]
    with pytest.raises(PluginError, match=r"field 'jobs\[1\]': expected the answer of sacct --json"):
        _json_report(tmp_path, jobs)
    report = _json_report(tmp_path, jobs, skip_bad_rows=True)
    assert (report.jobs, report.counts[BAD_ROWS]) == (1, 1)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"jobs": ' + "[" * 100_000, '{"jobs": []} {', '{"jobs": []} 7'])
def test_json_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(PluginError, match="expected"):
        _read(tmp_path, text)


def test_bytes_of_no_letter_lose_no_job(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_bytes(f"{HEADER}\n{row(1)}\n".encode().replace(b"solve", b"l\xf6se"))
    assert import_dump(str(tmp_path / "jobs"), tmp_path / "out", ImportOptions()).jobs == 1
    assert _json_report(tmp_path, [_json_job(1, name="\ud800")]).jobs == 1


# ---------------------------------------------------------------- jobs that never ran


@pytest.mark.parametrize("nodes", ["AllocNodes", "NNodes"])
@pytest.mark.parametrize(
    ("state", "elapsed", "node_list", "ran"),
    [
        ("CANCELLED by 1000", 0, "None assigned", False),
        ("CANCELLED", 0, "", False),
        ("DEADLINE", 0, "None assigned", False),
        ("TIMEOUT", 0, "None assigned", False),
        ("COMPLETED", 0, "", True),  # a dump without NodeList
        ("COMPLETED", 0, "n1", True),
        ("CANCELLED by 1000", 0, "n1", True),  # as it started
        ("CANCELLED by 1000", 60, "", True),
    ],
)
def test_jobs_that_never_ran_stay_out(
    tmp_path: Path, nodes: str, state: str, elapsed: int, node_list: str, ran: bool
) -> None:
    """With NNodes they have as many nodes as they asked for, and their start is their end."""
    times = f"2026-03-02T10:00:00|2026-03-02T12:00:00|2026-03-02T12:0{elapsed // 60}:00"
    odd = f"2|2|ua|co|{state}|{times}|{elapsed}|20|1|2|{node_list}|solve"
    report = made(tmp_path, row(1), odd, header=HEADER.replace("AllocNodes", nodes))
    assert (report.jobs, report.counts.get(said.NEVER_RAN, 0)) == ((2, 0) if ran else (1, 1))


@pytest.mark.parametrize(("tres", "nodes"), [("billing=8,cpu=8,mem=8G,node=2", 2), ("", 0)])
def test_a_job_that_took_time_ran_whatever_the_dump_says_of_its_nodes(tmp_path: Path, tres: str, nodes: int) -> None:
    """Without AllocNodes, NNodes and NodeList their number is among the amounts of AllocTRES, or processes go where there is room."""
    header = "JobID|User|State|Submit|Start|End|Elapsed|Timelimit|AllocCPUS|AllocTRES"
    times = "2026-03-02T10:00:00|2026-03-02T10:05:00|2026-03-02T11:05:00|01:00:00|02:00:00"
    report = made(tmp_path, f"1|ua|COMPLETED|{times}|8|{tres}", header=header)
    assert report.jobs == 1
    assert report.counts.get(said.NO_NODES, 0) == (not nodes)
    (read,) = read_dump(str(tmp_path / "jobs.txt")).rows
    assert read.nodes == nodes


# ---------------------------------------------------------------- eligible


def _late(number: int, eligible: str, reason: str = "None", command: str = "sbatch s.sh", **more: str) -> str:
    """Return a row of a job that was submitted at 10:00 and ran from 12:00 to 12:10."""
    times = "2026-03-02T10:00:00|2026-03-02T12:00:00|2026-03-02T12:10:00"
    start = f"{number}|{more.get('label', number)}|ua|co|COMPLETED|{times}|600|20|1|2|n1|solve"
    return f"{start}|{eligible and f'2026-03-02T{eligible}'}|{reason}|{command}"


def test_a_job_comes_when_it_is_eligible(tmp_path: Path) -> None:
    rows = [
        _late(1, "10:00:00"), _late(2, "11:00:00"), _late(3, ""), _late(4, "13:00:00"), _late(5, "09:00:00"),
        _late(6, "11:00:00").replace("2026-03-02T11:00:00", "Unknown"),
    ]  # fmt: skip
    report = made(tmp_path, *rows, header=_LATE)
    assert _jobs(tmp_path) == {
        1: (0, 7200, 600), 2: (3600, 3600, 600), 3: (0, 7200, 600), 4: (7200, 0, 600), 5: (0, 7200, 600), 6: (0, 7200, 600)
    }  # fmt: skip
    assert (report.counts[said.ODD_ELIGIBLE], report.counts[said.OTHERWISE]) == (2, 2)
    assert any(text.startswith("jobs arrive when they are eligible, 3.0 h after") for text in report.remarks)
    made(tmp_path, *rows, header=_LATE, options=ImportOptions(as_submitted=True, force=True))
    assert set(_jobs(tmp_path).values()) == {(0, 7200, 600)}


@pytest.mark.parametrize(
    ("reason", "command", "words"),
    [
        ("Dependency", "", said.DEPENDENCY),
        ("None", "sbatch -d afterok:10 s.sh", said.DEPENDENCY),
        ("Priority", "sbatch --dependency=singleton s.sh", said.DEPENDENCY),
        ("BeginTime", "sbatch s.sh", said.BEGIN),
        ("None", "/usr/bin/sbatch --begin=20:00 s.sh", said.BEGIN),
        ("JobHeldUser", "", said.HELD),
        ("JobHeldAdmin", "", said.HELD),
        ("None", "sbatch -H s.sh", said.HELD),
        ("JobArrayTaskLimit", "", said.THROTTLED),
        ("None", "sbatch --array=0-3%1 s.sh", said.THROTTLED),
        ("None", "sbatch s.sh", said.OTHERWISE),
    ],
)
def test_why_jobs_were_eligible_later_is_counted(tmp_path: Path, reason: str, command: str, words: str) -> None:
    report = made(tmp_path, _late(1, "11:00:00", reason, command), header=_LATE)
    waits = (said.DEPENDENCY, said.BEGIN, said.HELD, said.THROTTLED, said.OTHERWISE)
    assert {text: report.counts[text] for text in waits if text in report.counts} == {words: 1}


def test_a_limit_of_an_array_is_counted_where_eligible_does_not_show_it(tmp_path: Path) -> None:
    command = "sbatch --array=0-1%1 s.sh"
    rows = [_late(n, "10:00:00", command=command, label=f"7_{n}") for n in (0, 1)]
    assert made(tmp_path, *rows, _late(9, "10:00:00"), header=_LATE).counts[said.THROTTLED] == 2
    limits = {"limits": {"max": {"running": {"tasks": 1}}}}
    report = _json_report(tmp_path, [_json_job(1, array={"job_id": 7, "task_id": 0, **limits})])
    assert {said.THROTTLED: 1}.items() <= report.counts.items()
    assert said.OTHERWISE not in report.counts


def test_a_requeued_job_comes_when_it_was_first_eligible(tmp_path: Path) -> None:
    """The second row's moment is the back-off of the requeue, for which the job's user did not ask."""
    first = "2026-03-02T10:00:00|2026-03-02T11:00:00|2026-03-02T11:30:00"
    then = "2026-03-02T11:30:00|2026-03-02T12:00:00|2026-03-02T12:10:00"
    rows = [
        f"7|7|ua|co|REQUEUED|{first}|1800|20|1|2|n1|solve|2026-03-02T10:30:00|Dependency|",
        f"7|7|ua|co|COMPLETED|{then}|600|20|1|2|n1|solve|2026-03-02T11:31:00|BeginTime|",
    ]
    report = made(tmp_path, *rows, header=_LATE)
    assert read_swf(tmp_path / "out" / "trace.swf").jobs[0].run_us == 600 * SECOND_US
    assert _jobs(tmp_path) == {7: (0, 5400, 600)}
    assert load_swf(tmp_path / "out" / "trace.swf").header["UnixStartTime"] == "1772447400"  # half past ten
    assert {said.DEPENDENCY: 1, said.REQUEUED: 1}.items() <= report.counts.items()
    assert said.BEGIN not in report.counts


def test_a_dump_without_eligible_says_so(tmp_path: Path) -> None:
    report = made(tmp_path, f"{row(1)}|Dependency", header=f"{HEADER}|Reason")
    assert "jobs arrive at their submission: the dump does not say when they were eligible" in report.remarks


# ---------------------------------------------------------------- clocks that change


def _zoned(number: int, submit: str, start: str, end: str, elapsed: int | str, eligible: str = "") -> str:
    times = "|".join(f"{time[:10]}T{time[11:]}:00" if time else "" for time in (submit, start, end, eligible))
    submitted, started, ended, late = times.split("|")
    return f"{number}|{number}|u|b|COMPLETED|{submitted}|{started}|{ended}|{elapsed}|120|1|4|n1|x|{late}"


_NIGHT = "2026-10-25 "  # in Athens 03:00 to 04:00 comes twice


@pytest.mark.parametrize(
    ("submit", "start", "end", "elapsed", "instants", "guesses"),
    [
        # The end is no time of that hour, so the start is of the second; the submission is rather short before it.
        ("03:30", "03:35", "04:00", 1500, (90, 95, 120), 1),
        (
            "03:40",
            "03:50",
            "03:20",
            1800,
            (40, 50, 80),
            0,
        ),  # ends in the second, though it seems to end before it starts
        ("02:50", "03:10", "03:40", 1800, (-10, 10, 40), 2),  # nothing decides: the first
        ("02:50", "02:55", "03:05", 4200, (-10, -5, 65), 0),
        ("02:50", "02:55", "03:05", 600, (-10, -5, 5), 0),
        ("03:10", "02:59", "03:30", 1860, (10, -1, 30), 1),  # submitted after it started: odd, and left so
        ("03:50", "03:10", "03:20", "", (50, 70, 80), 0),  # without a run time the order alone tells
    ],
)
def test_the_hour_that_clocks_repeat_is_resolved_from_the_run_time(
    tmp_path: Path, submit: str, start: str, end: str, elapsed: int | str, instants: tuple[int, ...], guesses: int
) -> None:
    """``instants`` are minutes after the first 03:00, midnight UTC."""
    submit, start, end = (f"{_NIGHT}{time}" for time in (submit, start, end))
    line = _zoned(1, submit, start, end, elapsed)
    (tmp_path / "jobs").write_text(f"{HEADER}|Eligible\n{line}\n")
    dump = read_dump(str(tmp_path / "jobs"), "Europe/Athens")
    (read,) = dump.rows
    assert [((time or 0) - 1792886400) // 60 for time in (read.submit_s, read.start_s, read.end_s)] == [*instants]
    assert dump.counts[AMBIGUOUS] == guesses
    assert dump.counts[LEFT_OUT] == 0


def test_jobs_around_that_hour_keep_their_distance(tmp_path: Path) -> None:
    rows = [
        _zoned(1, f"{_NIGHT}03:40", f"{_NIGHT}03:50", f"{_NIGHT}03:20", 1800),
        _zoned(2, f"{_NIGHT}03:30", f"{_NIGHT}03:35", f"{_NIGHT}04:00", 1500, f"{_NIGHT}03:32"),
        _zoned(3, f"{_NIGHT}05:30", f"{_NIGHT}05:35", f"{_NIGHT}06:00", 1500),
    ]
    made(tmp_path, *rows, header=f"{HEADER}|Eligible", options=ImportOptions(time_zone="Europe/Athens"))
    assert _jobs(tmp_path) == {1: (0, 600, 1800), 2: (52 * 60, 180, 1500), 3: (170 * 60, 300, 1500)}


def test_a_submission_of_that_hour_is_one_in_joined_dumps(tmp_path: Path) -> None:
    """While the job waits nothing tells its submission; once it has run, its start does."""
    ran = _zoned(1, f"{_NIGHT}03:40", f"{_NIGHT}03:50", f"{_NIGHT}03:20", 1800)
    waits = "1|1|u|b|PENDING|2026-10-25T03:40:00|Unknown|Unknown|0|120|0|4|None assigned|x|"
    header = f"{HEADER}|Eligible"
    for rows in ((waits, header, ran), (ran, header, waits)):
        options = ImportOptions(time_zone="Europe/Athens", force=True)
        report = made(tmp_path, *rows, header=header, options=options)
        assert (report.jobs, report.counts[TOLD_AGAIN]) == (1, 1)
        assert _jobs(tmp_path) == {1: (0, 600, 1800)}


def test_times_that_did_not_exist_are_called_so(tmp_path: Path) -> None:
    line = _zoned(1, "2026-03-29 03:30", "2026-03-29 04:10", "2026-03-29 04:20", 600)
    report = made(tmp_path, line, header=f"{HEADER}|Eligible", options=ImportOptions(time_zone="Europe/Athens"))
    assert (report.counts[LEFT_OUT], report.counts.get(AMBIGUOUS)) == (1, None)
    assert "did not exist" in LEFT_OUT


# ---------------------------------------------------------------- a delimiter in a text


_TRES = "JobIDRaw,JobID,User,Partition,State,Submit,Start,End,ElapsedRaw,TimelimitRaw,AllocNodes,NCPUS,AllocTRES,NodeList,JobName"


def _comma(nodes: int, tail: str) -> str:
    times = "2026-03-02T10:10:00,2026-03-02T10:20:00,2026-03-02T11:00:00"
    return f"1,1,u,b,COMPLETED,{times},2400,120,{nodes},4,{tail}"


@pytest.mark.parametrize(
    ("nodes", "tail", "found"),
    [
        (1, "billing=4,cpu=4,mem=8G,node=1,n1,solve", ("n1", "solve")),
        (1, "billing=4,cpu=4,node=1,n1,solve,fast", ("n1", "solve,fast")),  # NodeList has one node
        (3, "cpu=4,node=3,n[1,5],n7,solve", ("n[1,5],n7", "solve")),
        (2, "cpu=4,node=2,n[1,5],x,y", ("n[1,5]", "x,y")),
        (1, ",n1,a,b", ("n1", "a,b")),
        (1, "cpu=4,a=1,n1,a=2", ("n1", "a=2")),
    ],
)
def test_texts_with_the_delimiter_are_put_in_order_where_one_order_is_possible(
    tmp_path: Path, nodes: int, tail: str, found: tuple[str, str]
) -> None:
    (read,) = _read(tmp_path, f"{_TRES}\n{_comma(nodes, tail)}\n")
    assert (read.node_list, read.name) == found


@pytest.mark.parametrize(
    ("header", "line"),
    [
        # Two texts beside each other: where the first ends is not known.
        ("JobID,State,Submit,Start,End,NCPUS,JobName,WorkDir", "1,COMPLETED,{t},{t},{t},4,a,b,/home"),
        # The names of the nodes could go on.
        (f"{_TRES.replace(',AllocNodes', '')}", "1,1,u,b,COMPLETED,{t},{t},{t},1,1,4,cpu=4,n1,n2,solve"),
        (_TRES, "1,1,u,b,COMPLETED,{t},{t},{t},1,1,1,4,cpu=4,node=1"),
        (_TRES, "1,1,u,b,COMPLETED,{t},{t},{t},1,1,1,4," + ",".join(["cpu=4"] * 1000) + ",n1,x"),
        ("JobID,User,State,Submit,Start,End,NCPUS", "1,a,b,COMPLETED,{t},{t},{t},4"),
    ],
    ids=["two texts", "nodes or name", "too few", "too many", "no text"],
)
def test_rows_that_could_be_put_in_several_orders_are_left_out(tmp_path: Path, header: str, line: str) -> None:
    (tmp_path / "jobs").write_text(f"{header}\n{line.replace('{t}', '2026-03-02T10:10:00')}\n")
    dump = read_dump(str(tmp_path / "jobs"))
    assert ([*dump.rows], dict(dump.counts)) == ([], {NOT_WHOLE: 1})


def test_a_text_that_is_not_read_may_end_anywhere(tmp_path: Path) -> None:
    """Of two texts behind the name neither decides anything; a line of submission that could end at two places is not known."""
    header = "JobID|State|Submit|Start|End|NCPUS|JobName|NodeList|SubmitLine|Comment|AdminComment"
    line = "1|COMPLETED|{t}|{t}|{t}|4|a|b|n1|sbatch x|y|z|".replace("{t}", "2026-03-02T10:10:00")
    (tmp_path / "jobs").write_text(f"{header}\n{line}\n")
    dump = read_dump(str(tmp_path / "jobs"))
    assert [(read.name, read.node_list, read.command) for read in dump.rows] == [("a|b", "n1", "")]
    assert dump.counts == {REPAIRED: 1}


def test_a_last_text_that_is_empty_is_no_end_of_the_row(tmp_path: Path) -> None:
    """A name with the delimiter, before an empty text: the row has one cell too many, and the last one is empty."""
    (read,) = _read(tmp_path, f"{HEADER}|SubmitLine\n{row(1).replace('solve', 'a|b')}|\n")
    assert (read.name, read.command) == ("a|b", "")


def test_a_thousand_nodes_are_written_as_one_k(tmp_path: Path) -> None:
    (read,) = _read(tmp_path, f"{HEADER}\n{row(1).replace('|1|2|n1', '|1K|2048|n[1-1024]')}\n")
    assert read.nodes == 1024
