"""The commands for jobs of a running manager, modelled on Slurm's sbatch, scancel, squeue, scontrol and sacct."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cosched_emulator.cli import asking
from cosched_emulator.cli.job_options import JobCommand, ignored_names, ignored_options, job_options
from cosched_emulator.cli.user_tables import history_table, job_states, queue_table, selected, start_table, start_text
from cosched_emulator.errors import EmulatorError
from cosched_emulator.users.told import expected_start, job_label, job_text, rows_of, why_text
from cosched_terminal.commands import Reader, argument, option, several
from cosched_terminal.console import ProgressLine, say

if TYPE_CHECKING:
    from cosched_emulator.users.client import ManagerConnection
    from cosched_emulator.users.requests import SubmitJob, Target

_STATES: Final = Reader(job_states)
JOB: Final = several([*job_options(), *ignored_options()])


@asking.user_command(cls=JobCommand)
def submit(
    *,
    options: dict[str, Any] = JOB,
    script: str | None = argument(kind=click.Path()),
    arguments: tuple[str, ...] = argument(kind=click.UNPROCESSED, required=False),  # noqa: ARG001 - of the script, which is not executed
    parsable: bool = option("--parsable", "Print only the number of the job."),
    token: str | None = option(
        "--token TEXT", "Name of this submission; another one with the same name submits nothing."
    ),
    test_only: bool = option("--test-only", "Submit nothing: say when the job would start."),
    and_wait: bool = option("-W --wait", "Wait for its end; exit code 1 unless it completes."),
    caller: asking.Caller,
) -> None:
    """Submit a job, or an array of jobs.

    Lines "#SBATCH" and "#COSCHED" in the head of SCRIPT hold the same options; the command line wins. SCRIPT is not executed: nodes
    are emulated, and --run says how long the job takes. TIME is one of min, min:s, h:m:s, d-h, d-h:m, d-h:m:s, in emulated time.
    WHEN is one of HH:MM[:SS], YYYY-MM-DD[THH:MM[:SS]], now+COUNT[UNIT], today, tomorrow, midnight, noon, teatime.
    Other options of sbatch have no effect; a note names them.

    \b
    Examples:
      cosched-emulator submit -n 16 -t 2:00:00 --run 5400 --demand 2000
      cosched-emulator submit -N 2 --ntasks-per-node 8 --array 0-9%2 --dependency afterok:12 job.sh
    """
    from cosched_emulator.users.requests import EstimateStart, Target

    if test_only and and_wait:
        raise click.UsageError("--test-only and --wait exclude each other")
    request, notes = _request(script, options, ignored_names(click.get_current_context()))
    for note in notes:
        say(f"note: {note}", err=True)
    request = request._replace(token=token or "")
    with asking.connect(caller) as connection:
        if test_only:
            told = connection.result(EstimateStart(request))
            asking.show(caller, told, lambda: start_text(told))
            return
        result = connection.result(request)
        number = result["job_ids"][0]
        if result.get("repeated"):
            say("note: submitted before with this token; nothing was submitted now", err=True)
        asking.show(caller, result, lambda: f"{number}\n" if parsable else f"Submitted batch job {number}\n")
        if and_wait:
            sys.stdout.flush()
            check_success(wait_at_terminal(connection, [Target(number)], None))


def _request(script: str | None, options: dict[str, Any], ignored: list[str]) -> tuple[SubmitJob, list[str]]:
    """Return the request of a script and the command line (which overrides the script), and notes for the user."""
    from cosched_emulator.cli.job_script import read_script, request_of

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


@asking.user_command()
def cancel(*, jobs: asking.Named = asking.JOBS, caller: asking.Caller) -> None:
    """End pending or running jobs: 12, a task 12_3, several tasks 12_[1-3,7]; the number of an array names all tasks.

    \b
    Example:
      cosched-emulator cancel 12 15_[3-7]
    """
    from cosched_emulator.users.requests import CancelJobs

    asking.ask_for_change(caller, CancelJobs(asking.targets_of(jobs)), "job")


@asking.user_command()
def hold(*, jobs: asking.Named = asking.JOBS, caller: asking.Caller) -> None:
    """Hold pending jobs: they do not start until released.

    \b
    Example:
      cosched-emulator hold 12
    """
    from cosched_emulator.users.requests import HoldJobs

    asking.ask_for_change(caller, HoldJobs(asking.targets_of(jobs)), "job")


@asking.user_command()
def release(*, jobs: asking.Named = asking.JOBS, caller: asking.Caller) -> None:
    """Release held jobs.

    \b
    Example:
      cosched-emulator release 12
    """
    from cosched_emulator.users.requests import ReleaseJobs

    asking.ask_for_change(caller, ReleaseJobs(asking.targets_of(jobs)), "job")


@asking.user_command(prints="tables")
def queue(
    *,
    expand: bool = option("-r --array", "Print one line per task of an array, also for pending tasks."),
    start: bool = option("--start", "List when pending jobs are expected to start, in what range, and where."),
    user: str = asking.USER,
    me: bool = asking.ME,
    states: asking.Selected = option(
        "-t --states LIST", "Only jobs in these states: PENDING or PD, RUNNING or R ...", _STATES
    ),
    names: asking.Selected = option(
        "-n --name LIST", "Only jobs of these names; * stands for any letters.", asking.NAMES
    ),
    partitions: asking.Selected = option("-p --partition LIST", "Only jobs of these partitions.", asking.NAMES),
    caller: asking.Caller,
) -> None:
    """List running and pending jobs, the jobs co-located with them, and their measured slowdown.

    \b
    Examples:
      cosched-emulator queue --me --states PD
      cosched-emulator queue --start
      cosched-emulator queue -o jobid,name,state,reason --sort=-priority
    """
    from cosched_emulator.users.requests import ListJobs, ListStarts

    whose = asking.user_name(caller, user, me=me)
    result = asking.ask(caller, ListJobs(whose))
    rows = selected(rows_of(result), {"state": states, "name": names, "partitions": partitions})
    if start:
        told = asking.ask(caller, ListStarts(whose))
        pending = {row["job_id"]: row for row in rows if row["start_s"] is None}
        rows = [
            {**pending[each["job_id"]], **expected_start(each, pending[each["job_id"]])}
            for each in rows_of(told)
            if each["job_id"] in pending
        ]
        asking.show(caller, {**told, "jobs": rows}, lambda: start_table(told, rows))
        return
    asking.show(caller, {"now_s": result["now_s"], "jobs": rows}, lambda: queue_table(rows, expand=expand))


@asking.user_command(prints="text")
def why(*, jobs: asking.Named = asking.SOME_JOBS, caller: asking.Caller) -> None:
    """Say why jobs do not run, and when they will.

    Without a JOB: all own pending jobs.

    \b
    Examples:
      cosched-emulator why
      cosched-emulator why 12
    """
    from cosched_emulator.users.requests import ListJobs, ShowJobs

    if not jobs:
        whose = asking.user_name(caller, "", me=True)
        listed = asking.ask(caller, ListJobs(whose))
        mine = dict.fromkeys([row["job_id"] for row in rows_of(listed) if row["state"] == "PENDING"])
        if not mine:
            nothing = {"now_s": listed["now_s"], "jobs": []}
            asking.show(caller, nothing, lambda: f"{whose} has no pending jobs\n")
            return
        jobs = (tuple([(job_id, None) for job_id in mine]),)
    shown = asking.ask(caller, ShowJobs(asking.targets_of(jobs)))
    pending = {row["job_id"]: row for row in shown["jobs"] if row["state"] == "PENDING"}
    told = _estimates(caller) if pending else {}
    starts = {row["job_id"]: row for row in rows_of(told)} if "rows" in told else {}
    rows = []
    for row in shown["jobs"]:
        job_id = row["job_id"]
        known = (
            expected_start(starts[job_id], row) if job_id in starts and job_id in pending else {"reason": row["reason"]}
        )
        asked = {key: row[key] for key in ("partitions", "resources", "licences", "memory_mb") if row.get(key)}
        rows.append({"job": job_label(row), "job_id": job_id, "state": row["state"], **asked, **known})
    about = {key: told[key] for key in ("age_s", "draws", "trouble", "record") if key in told}
    asking.show(caller, {"now_s": shown["now_s"], **about, "jobs": rows}, lambda: why_text(about, rows))
    _check_all_exist(shown)


def _estimates(caller: asking.Caller) -> Mapping[str, Any]:
    """Return when pending jobs are expected to start; from a manager that makes no estimates why there are none."""
    from cosched_emulator.users.client import refusal_text
    from cosched_emulator.users.requests import Done, ListStarts

    with asking.connect(caller) as connection:
        answer = connection.ask(ListStarts())
    if isinstance(answer, Done):
        return answer.result
    if answer.code != "missing":
        raise EmulatorError(refusal_text(answer))
    return {"age_s": None, "draws": 0, "trouble": answer.text}


@asking.user_command(prints="text")
def job(*, jobs: asking.Named = asking.JOBS, caller: asking.Caller) -> None:
    """Show all details of jobs, also of jobs that have ended.

    \b
    Example:
      cosched-emulator job 12
    """
    from cosched_emulator.users.requests import ShowJobs

    result = asking.ask(caller, ShowJobs(asking.targets_of(jobs)))
    asking.show(caller, result, lambda: "\n".join([job_text(row) for row in result["jobs"]]))
    _check_all_exist(result)


def _check_all_exist(result: Mapping[str, Any]) -> None:
    if result["missing"]:
        raise EmulatorError(f"there is no such job: {', '.join(result['missing'][: asking.MOST_NAMED])}")


@asking.user_command()
def wait(
    *,
    jobs: asking.Named = asking.JOBS,
    limit_s: float | None = option("--timeout S", "Give up after S seconds.  [default: never]", asking.SECONDS),
    caller: asking.Caller,
) -> None:
    """Wait until jobs have ended; exit code 0 if all of them completed, else 1.

    If the manager restarts meanwhile, the command waits up to a minute for it.

    \b
    Example:
      cosched-emulator wait 12 13 --timeout 3600
    """
    with asking.connect(caller) as connection:
        rows = wait_at_terminal(connection, asking.targets_of(jobs), limit_s)
    ends = [{"job": job_label(row), "job_id": row["job_id"], "state": row["state"]} for row in rows]
    asking.show(caller, {"jobs": ends}, lambda: "")
    check_success(rows)


def wait_at_terminal(
    connection: ManagerConnection, targets: Sequence[Target], limit_s: float | None
) -> list[dict[str, Any]]:
    """Return the jobs when all have ended, and show on a terminal meanwhile how many have."""
    from cosched_emulator.users.waiting import wait_for

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
        more = ", ..." if len(failed) > asking.MOST_NAMED else ""
        raise EmulatorError(
            f"{len(failed)} of {len(rows)} jobs did not complete: {', '.join(failed[: asking.MOST_NAMED])}{more}"
        )


@asking.user_command(prints="tables")
def history(
    *,
    user: str = asking.USER,
    me: bool = asking.ME,
    most: int = option("-n --most", "Show at most N jobs, the latest.", click.IntRange(1, 10_000), 100),
    database: str | None = option("--db FILE", "Read the manager's database; no manager is needed."),
    caller: asking.Caller,
) -> None:
    """List jobs that have ended, the latest last.

    \b
    Example:
      cosched-emulator history --user ann --most 20
    """
    from cosched_emulator.cli.history_file import read_history
    from cosched_emulator.users.requests import ListHistory

    name = asking.user_name(caller, user, me=me)
    rows = list(
        asking.ask(caller, ListHistory(name, most))["jobs"] if database is None else read_history(database, name, most)
    )
    rows.reverse()
    asking.show(caller, {"jobs": rows}, lambda: history_table(rows))
