"""The commands for submitted jobs: cancel, hold, release, queue, job, wait."""

from __future__ import annotations

from cosched_emulator.cli.commands.options.manager_options import Caller, Named
from cosched_emulator.cli.users.asking import MOST_NAMED, ask, ask_for_change, connect, show, user_name
from cosched_emulator.cli.users.tables import job_label, job_text, queue_table, rows_of
from cosched_emulator.cli.users.wait import check_success, wait_at_terminal
from cosched_emulator.errors import EmulatorError
from cosched_emulator.users.requests import CancelJobs, HoldJobs, ListJobs, ReleaseJobs, ShowJobs, Target


def cancel(caller: Caller, jobs: Named) -> None:
    """End jobs, pending or running."""
    ask_for_change(caller, CancelJobs(_targets(jobs)), "job")


def hold(caller: Caller, jobs: Named) -> None:
    """Hold pending jobs: they do not start until released."""
    ask_for_change(caller, HoldJobs(_targets(jobs)), "job")


def release(caller: Caller, jobs: Named) -> None:
    """Release held jobs."""
    ask_for_change(caller, ReleaseJobs(_targets(jobs)), "job")


def queue(caller: Caller, user: str, me: bool, expand: bool) -> None:
    """List the jobs that have not ended."""
    result = ask(caller, ListJobs(user_name(caller, user, me=me)))
    rows = rows_of(result)
    show(caller, {"now_s": result["now_s"], "jobs": rows}, lambda: queue_table(rows, expand=expand))


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
