"""The commands for submitted jobs: cancel, hold, release, queue, why, job, wait."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from cosched_emulator.cli.asking import MOST_NAMED, ask, ask_for_change, connect, show, user_name
from cosched_emulator.cli.commands.options.job_options import ignored_names
from cosched_emulator.cli.commands.options.manager_options import Caller, Named
from cosched_emulator.cli.job_script import read_script, request_of
from cosched_emulator.cli.user_tables import (
    QUEUED,
    job_label,
    job_text,
    queue_table,
    rows_of,
    start_table,
    start_text,
    why_text,
)
from cosched_emulator.errors import EmulatorError, LinkError
from cosched_emulator.users.client import TEMPORARY, ManagerConnection, SilenceError, refusal_text
from cosched_emulator.users.requests import (
    CancelJobs,
    Done,
    EstimateStart,
    HoldJobs,
    ListJobs,
    ListStarts,
    Refused,
    ReleaseJobs,
    ShowJobs,
    SubmitJob,
    Target,
)
from cosched_plugin.protocol.messages import END_STATES
from cosched_terminal.console import ProgressLine, say

# Wait for jobs to end: poll at growing intervals, and tolerate a restart of the manager.

PATIENCE_S: Final = 60.0  # how long a manager that has answered once may be silent
_FIRST_S, _MOST_S = 0.1, 2.0  # between two polls
_AT_A_TIME: Final = 500  # targets of one poll


def wait_for(
    connection: ManagerConnection,
    targets: Sequence[Target],
    limit_s: float | None,
    tell: Callable[[int, int], None],
    patience_s: float = PATIENCE_S,
) -> list[dict[str, Any]]:
    """Return the jobs, with arrays as single tasks, when all have ended.

    ``tell`` is called with (ended, all) after every round. Raises EmulatorError for jobs that do not exist and after ``limit_s``,
    SilenceError without a manager.
    """
    began = heard = time.monotonic()
    open_ones = list(targets)
    seen: dict[int, dict[str, Any]] = {}
    pause_s = _FIRST_S
    run = ""
    while True:
        try:
            rows, missing, answering = _look(connection, open_ones)
            heard = time.monotonic()
            if run not in ("", answering):
                raise LinkError("another manager answers: it knows nothing of these jobs", connection.endpoint)
            run = answering
        except SilenceError:
            if not seen or time.monotonic() - heard > patience_s:
                raise
        else:
            if missing and not seen:
                raise EmulatorError(f"there is no such job: {', '.join(missing)}")
            seen.update({row["job_id"]: row for row in rows})
            # A job that has disappeared from the answers has ended while the accounting lags behind: its end state follows later.
            open_ones = [_target(row) for row in seen.values() if row["state"] not in END_STATES]
            tell(len(seen) - len(open_ones), len(seen))
            if not open_ones:
                return list(seen.values())
        if limit_s is not None and time.monotonic() - began + pause_s > limit_s:
            raise EmulatorError(f"{len(open_ones)} of {len(seen)} jobs have not ended within {limit_s:g} s")
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, _MOST_S)


def _look(connection: ManagerConnection, targets: Sequence[Target]) -> tuple[list[dict[str, Any]], list[str], str]:
    """Return the known jobs, the names of the unknown ones, and the name of the manager's run."""
    run = ""
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    for first in range(0, len(targets), _AT_A_TIME):
        answer = connection.ask(ShowJobs(tuple(targets[first : first + _AT_A_TIME])))
        if isinstance(answer, Refused):
            kind = SilenceError if answer.code in TEMPORARY else EmulatorError
            raise kind(refusal_text(answer))
        rows += answer.result["jobs"]
        missing += answer.result["missing"]
        run = answer.result.get("run", "")
    return rows, missing, run


def _target(row: Mapping[str, Any]) -> Target:
    return Target(row["job_id"]) if row["array_id"] is None else Target(row["array_id"], row["array_index"])


def wait_at_terminal(
    connection: ManagerConnection, targets: Sequence[Target], limit_s: float | None
) -> list[dict[str, Any]]:
    """Return the jobs as `wait_for` does, and show on a terminal how many have ended."""
    line = ProgressLine()
    try:
        return wait_for(
            connection, targets, limit_s, lambda ended, count: line.text(f"{ended} of {count} jobs have ended")
        )
    finally:
        line.clear()


def check_success(rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise EmulatorError unless all of these jobs completed."""
    failed = [f"{job_label(row)} {row['state']}" for row in rows if row["state"] != "COMPLETED"]
    if failed:
        more = ", ..." if len(failed) > MOST_NAMED else ""
        raise EmulatorError(
            f"{len(failed)} of {len(rows)} jobs did not complete: {', '.join(failed[:MOST_NAMED])}{more}"
        )


def cancel(caller: Caller, jobs: Named) -> None:
    """End jobs, pending or running."""
    ask_for_change(caller, CancelJobs(_targets(jobs)), "job")


def hold(caller: Caller, jobs: Named) -> None:
    """Hold pending jobs: they do not start until released."""
    ask_for_change(caller, HoldJobs(_targets(jobs)), "job")


def release(caller: Caller, jobs: Named) -> None:
    """Release held jobs."""
    ask_for_change(caller, ReleaseJobs(_targets(jobs)), "job")


def queue(caller: Caller, user: str, me: bool, expand: bool, start: bool) -> None:
    """List the jobs that have not ended, or with ``start`` when the pending ones will start."""
    whose = user_name(caller, user, me=me)
    result = ask(caller, ListJobs(whose))
    if start:
        told = ask(caller, ListStarts(whose))
        pending = {row["job_id"]: row for row in rows_of(result) if row["start_s"] is None}
        rows = [
            {**pending[each["job_id"]], **_reason_first(each, pending)}
            for each in rows_of(told)
            if each["job_id"] in pending
        ]
        show(caller, {**told, "jobs": rows}, lambda: start_table(told, rows))
        return
    rows = rows_of(result)
    show(caller, {"now_s": result["now_s"], "jobs": rows}, lambda: queue_table(rows, expand=expand))


def _reason_first(told: Mapping[str, Any], pending: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return an estimate, with the manager's own reason where the job waits for something besides the scheduler."""
    row = pending[told["job_id"]]
    asked = row["reason"] == QUEUED and told["reason"]
    return {**told, "reason": told["reason"] if asked else row["reason"]}


def why(caller: Caller, jobs: Named) -> None:
    """Say why jobs do not run."""
    shown = ask(caller, ShowJobs(_targets(jobs)))
    pending = {row["job_id"]: row for row in shown["jobs"] if row["state"] == "PENDING"}
    told = _estimates(caller) if pending else {}
    starts = {row["job_id"]: row for row in rows_of(told)} if "rows" in told else {}
    rows = []
    for row in shown["jobs"]:
        job_id = row["job_id"]
        known = (
            _reason_first(starts[job_id], pending)
            if job_id in starts and job_id in pending
            else {"reason": row["reason"]}
        )
        rows.append({"job": job_label(row), "job_id": job_id, "state": row["state"], **known})
    about = {key: told[key] for key in ("age_s", "draws", "trouble", "record") if key in told}
    show(caller, {"now_s": shown["now_s"], **about, "jobs": rows}, lambda: why_text(about, rows))
    if shown["missing"]:
        raise EmulatorError(f"there is no such job: {', '.join(shown['missing'][:MOST_NAMED])}")


def _estimates(caller: Caller) -> Mapping[str, Any]:
    """Return when pending jobs are expected to start; from a manager that makes no estimates why there are none."""
    with connect(caller) as connection:
        answer = connection.ask(ListStarts())
    if isinstance(answer, Done):
        return answer.result
    if answer.code != "missing":
        raise EmulatorError(refusal_text(answer))
    return {"age_s": None, "draws": 0, "trouble": answer.text}


def job(caller: Caller, jobs: Named) -> None:
    """Show all details of jobs."""
    result = ask(caller, ShowJobs(_targets(jobs)))
    show(caller, result, lambda: "\n".join([job_text(row) for row in result["jobs"]]))
    if result["missing"]:
        raise EmulatorError(f"there is no such job: {', '.join(result['missing'][:MOST_NAMED])}")


def wait(caller: Caller, jobs: Named, limit_s: float | None) -> None:
    """Wait until jobs have ended."""
    with connect(caller) as connection:
        rows = wait_at_terminal(connection, _targets(jobs), limit_s)
    ends = [{"job": job_label(row), "job_id": row["job_id"], "state": row["state"]} for row in rows]
    show(caller, {"jobs": ends}, lambda: "")
    check_success(rows)


def _targets(jobs: Named) -> tuple[Target, ...]:
    return tuple([Target(*each) for word in jobs for each in word])


# The command ``submit``.


def submit(
    context: click.Context,
    /,
    caller: Caller,
    script: str | None,
    arguments: tuple[str, ...],  # noqa: ARG001 - arguments of the script, which is not executed
    parsable: bool,
    token: str | None,
    test_only: bool,
    and_wait: bool,
    **options: Any,
) -> None:
    """Submit a job, or an array of jobs, and wait for its end if requested; or only ask when it would start."""
    if test_only and and_wait:
        raise click.UsageError("--test-only and --wait exclude each other")
    request, notes = _request(script, options, ignored_names(context))
    for note in notes:
        say(f"note: {note}", err=True)
    request = request._replace(token=token or "")
    with connect(caller) as connection:
        if test_only:
            told = connection.result(EstimateStart(request))
            show(caller, told, lambda: start_text(told))
            return
        result = connection.result(request)
        number = result["job_ids"][0]
        if result.get("repeated"):
            say("note: submitted before with this token; nothing was submitted now", err=True)
        show(caller, result, lambda: f"{number}\n" if parsable else f"Submitted batch job {number}\n")
        if and_wait:
            sys.stdout.flush()
            check_success(wait_at_terminal(connection, [Target(number)], None))


def _request(script: str | None, options: dict[str, Any], ignored: list[str]) -> tuple[SubmitJob, list[str]]:
    """Return the request of a script and the command line (which overrides the script), and notes for the user."""
    values: dict[str, Any] = {}
    name = ""
    if script is not None:
        found = read_script(script)
        values.update(found.values)
        ignored = [*found.ignored, *ignored]
        name = "stdin" if script == "-" else Path(script).name
    values.update({key: value for key, value in options.items() if value is not None})
    request, notes = request_of(values, name)
    if ignored:
        notes.append(f"without effect here: {', '.join(dict.fromkeys(ignored))}")
    return request, notes
