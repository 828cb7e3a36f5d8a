"""The commands for users of a running manager, with the habits of Slurm's: sbatch, scancel, squeue, sinfo, scontrol, sacct."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cosched_emulator.cli.users.caller import JOBS, NODES, SECONDS, Caller, Named, common_options, whose
from cosched_emulator.cli.users.job_options import ignored_names, ignored_options, job_options
from cosched_emulator.errors import EmulatorError

# zmq and msgpack are imported inside the commands: `--help` of the whole program must not pay for them.
if TYPE_CHECKING:
    from cosched_emulator.users.client import Connection
    from cosched_emulator.users.requests import Request, Target

MOST_NAMED: Final = 20  # jobs in an error's text


# ---------------------------------------------------------------- jobs


@click.command(params=[*job_options(), *ignored_options()])
@click.argument("script", required=False, type=click.Path())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--parsable", is_flag=True, help="Print the job's number alone.")
@click.option("-W", "--wait", "and_wait", is_flag=True, help="Wait for its end; exit code 1 unless it completes.")
@common_options()
@click.pass_context
def submit(
    context: click.Context,
    /,
    caller: Caller,
    script: str | None,
    arguments: tuple[str, ...],  # noqa: ARG001 - the script's own, which is not executed
    parsable: bool,
    and_wait: bool,
    **options: Any,
) -> None:
    """Submit a job, or an array of jobs.

    Lines "#SBATCH" and "#COSCHED" in the head of SCRIPT hold the same options; the command line wins. SCRIPT is not executed: nodes
    are emulated, and --run says how long the job takes. TIME is one of min, min:s, h:m:s, d-h, d-h:m, d-h:m:s, in emulated time.
    Other options of sbatch are taken and ignored, with a note.

    \b
    Examples:
      cosched-emulator submit -n 16 -t 2:00:00 --run 5400 --demand 2000
      cosched-emulator submit -N 2 --ntasks-per-node 8 --array 0-9%2 --dependency afterok:12 job.sh
    """
    from cosched_emulator.cli.users.job_script import read_script, request_of  # noqa: PLC0415
    from cosched_emulator.users.requests import Target  # noqa: PLC0415

    values: dict[str, Any] = {}
    ignored = list(ignored_names(context))
    name = ""
    if script is not None:
        found = read_script(script)
        values.update(found.values)
        ignored = [*found.ignored, *ignored]
        name = "stdin" if script == "-" else Path(script).name
    values.update({key: value for key, value in options.items() if value is not None})
    request, notes = request_of(values, name)
    if ignored:
        notes.append(f"without a meaning here, ignored: {', '.join(dict.fromkeys(ignored))}")
    for note in notes:
        click.echo(f"note: {note}", err=True)
    with caller.connected() as connection:
        result = connection.result(request)
        number = result["job_ids"][0]
        caller.show(result, lambda: f"{number}\n" if parsable else f"Submitted batch job {number}\n")
        if and_wait:
            sys.stdout.flush()
            _wait(connection, [Target(number)], None)


def _targets(jobs: Named) -> tuple[Target, ...]:
    from cosched_emulator.users.requests import Target  # noqa: PLC0415

    return tuple([Target(*each) for word in jobs for each in word])


def _change(caller: Caller, request: Request, what: str) -> None:
    """Have something changed; fail if some of it could not be."""
    result = caller.ask(request)
    caller.show(result, lambda: "")
    unchanged = [f"{what} {name}: {why}" for name, why in result["unchanged"]]
    if unchanged:
        more = [f"{len(unchanged) - MOST_NAMED} more"] if len(unchanged) > MOST_NAMED else []
        raise EmulatorError("; ".join([*unchanged[:MOST_NAMED], *more]))


@click.command()
@JOBS
@common_options()
def cancel(caller: Caller, jobs: Named) -> None:
    """End jobs, waiting or running: 12, a task 12_3, several 12_[1-3,7]; the number of an array is all of it.

    \b
    Example:
      cosched-emulator cancel 12 15_[3-7]
    """
    from cosched_emulator.users.requests import CancelJobs  # noqa: PLC0415

    _change(caller, CancelJobs(_targets(jobs)), "job")


@click.command()
@JOBS
@common_options()
def hold(caller: Caller, jobs: Named) -> None:
    """Keep waiting jobs from being started.

    \b
    Example:
      cosched-emulator hold 12
    """
    from cosched_emulator.users.requests import HoldJobs  # noqa: PLC0415

    _change(caller, HoldJobs(_targets(jobs)), "job")


@click.command()
@JOBS
@common_options()
def release(caller: Caller, jobs: Named) -> None:
    """Let held jobs be started.

    \b
    Example:
      cosched-emulator release 12
    """
    from cosched_emulator.users.requests import ReleaseJobs  # noqa: PLC0415

    _change(caller, ReleaseJobs(_targets(jobs)), "job")


@click.command()
@click.option("-r", "--array", "expand", is_flag=True, help="A line for each task of an array, also of waiting ones.")
@whose
@common_options()
def queue(caller: Caller, user: str, me: bool, expand: bool) -> None:
    """List the jobs that run or wait, with whom they share nodes, and how much that was found to slow them.

    \b
    Example:
      cosched-emulator queue --me
    """
    from cosched_emulator.cli.users.tables import queue_table, rows_of  # noqa: PLC0415
    from cosched_emulator.users.requests import ListJobs  # noqa: PLC0415

    result = caller.ask(ListJobs(caller.user(user, me=me)))
    rows = rows_of(result)
    caller.show({"now_s": result["now_s"], "jobs": rows}, lambda: queue_table(rows, expand=expand))


@click.command()
@JOBS
@common_options()
def job(caller: Caller, jobs: Named) -> None:
    """Show all that is known of jobs, also of those that have ended.

    \b
    Example:
      cosched-emulator job 12
    """
    from cosched_emulator.cli.users.tables import job_text  # noqa: PLC0415
    from cosched_emulator.users.requests import ShowJobs  # noqa: PLC0415

    result = caller.ask(ShowJobs(_targets(jobs)))
    caller.show(result, lambda: "\n".join([job_text(row) for row in result["jobs"]]))
    if result["missing"]:
        raise EmulatorError(f"there is no such job: {', '.join(result['missing'][:MOST_NAMED])}")


@click.command("wait")
@JOBS
@click.option(
    "--timeout", "limit_s", type=SECONDS, metavar="S", help="Give up after so many seconds.  [default: never]"
)
@common_options(timeout=False)
def wait_for_jobs(caller: Caller, jobs: Named, limit_s: float | None) -> None:
    """Wait until jobs have ended; exit code 0 if all of them completed, else 1.

    A manager that is restarted meanwhile is waited for, for a minute.

    \b
    Example:
      cosched-emulator wait 12 13 --timeout 3600
    """
    with caller.connected() as connection:
        _wait(connection, _targets(jobs), limit_s, caller)


def _wait(
    connection: Connection, targets: Sequence[Target], limit_s: float | None, caller: Caller | None = None
) -> None:
    """Wait for jobs, telling on a terminal how it goes; print them as JSON if ``caller`` wants that."""
    from cosched_emulator.cli.users.tables import job_label  # noqa: PLC0415
    from cosched_emulator.cli.users.wait import failures, wait_for  # noqa: PLC0415

    shown = sys.stderr.isatty()

    def tell(ended: int, count: int) -> None:
        if shown:
            sys.stderr.write(f"\r{ended} of {count} jobs have ended ")
            sys.stderr.flush()

    try:
        rows = wait_for(connection, targets, limit_s, tell)
    finally:
        if shown:
            sys.stderr.write("\r" + " " * 60 + "\r")
            sys.stderr.flush()
    if caller is not None:
        ends = [{"job": job_label(row), "job_id": row["job_id"], "state": row["state"]} for row in rows]
        caller.show({"jobs": ends}, lambda: "")
    failed = failures(rows)
    if failed:
        more = ", ..." if len(failed) > MOST_NAMED else ""
        raise EmulatorError(
            f"{len(failed)} of {len(rows)} jobs did not complete: {', '.join(failed[:MOST_NAMED])}{more}"
        )


@click.command()
@whose
@click.option(
    "-n", "--most", type=click.IntRange(1, 10_000), default=100, show_default=True, help="The latest so many."
)
@click.option("--db", "database", metavar="FILE", help="Read the manager's database instead; it need not run.")
@common_options()
def history(caller: Caller, user: str, me: bool, most: int, database: str | None) -> None:
    """List jobs that have ended, the latest last.

    \b
    Example:
      cosched-emulator history --user ann --most 20
    """
    from cosched_emulator.cli.users.tables import history_table  # noqa: PLC0415

    user = caller.user(user, me=me)
    if database is None:
        from cosched_emulator.users.requests import ListHistory  # noqa: PLC0415

        rows = list(caller.ask(ListHistory(user, most))["jobs"])
    else:
        from cosched_emulator.users.history import read_history  # noqa: PLC0415

        rows = read_history(database, user, most)
    rows.reverse()
    caller.show({"jobs": rows}, lambda: history_table(rows))


# ---------------------------------------------------------------- nodes and the manager


@click.command()
@click.option("-l", "--long", "one_by_one", is_flag=True, help="A line for each node, with the jobs there.")
@common_options()
def nodes(caller: Caller, one_by_one: bool) -> None:
    """List the nodes by state: IDLE, MIXED (some threads free), ALLOCATED, DRAINING, DRAINED, DOWN.

    \b
    Example:
      cosched-emulator nodes --long
    """
    from cosched_emulator.cli.users.tables import long_node_table, node_table, rows_of  # noqa: PLC0415
    from cosched_emulator.users.requests import ListNodes  # noqa: PLC0415

    result = caller.ask(ListNodes())
    rows = rows_of(result)
    shown = long_node_table if one_by_one else node_table
    caller.show({"now_s": result["now_s"], "nodes": rows}, lambda: shown(rows))


@click.command()
@NODES
@click.option("--reason", default="", help="Why, for those who look.")
@common_options()
def drain(caller: Caller, nodes: tuple[tuple[int, ...], ...], reason: str) -> None:
    """Give nodes no more work: 3, 0-3,7. What runs there goes on. For operators.

    \b
    Example:
      cosched-emulator drain 0-3,7 --reason "new fans"
    """
    from cosched_emulator.users.requests import DrainNodes  # noqa: PLC0415

    _change(caller, DrainNodes(_nodes(nodes), reason), "node")


@click.command()
@NODES
@common_options()
def resume(caller: Caller, nodes: tuple[tuple[int, ...], ...]) -> None:
    """Put nodes back into service that were drained or have failed. For operators.

    \b
    Example:
      cosched-emulator resume 0-3,7
    """
    from cosched_emulator.users.requests import ResumeNodes  # noqa: PLC0415

    _change(caller, ResumeNodes(_nodes(nodes)), "node")


def _nodes(words: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys([node for word in words for node in word]))


@click.command()
@common_options()
def status(caller: Caller) -> None:
    """Show how the manager and its scheduler are.

    \b
    Example:
      cosched-emulator status --json
    """
    from cosched_emulator.cli.users.tables import status_text  # noqa: PLC0415
    from cosched_emulator.users.requests import ShowStatus  # noqa: PLC0415

    result = caller.ask(ShowStatus())
    caller.show(result, lambda: status_text(result))


@click.command()
@click.option(
    "-d",
    "--interval",
    "interval_s",
    type=SECONDS,
    default=1.0,
    show_default=True,
    metavar="S",
    help="Seconds between two pictures.",
)
@click.option("--once", is_flag=True, help="Print one picture as text, for no terminal at all.")
@click.option(
    "--most", type=click.IntRange(1, 10_000), default=200, show_default=True, metavar="N", help="Jobs to show, at most."
)
@common_options()
def top(caller: Caller, interval_s: float, once: bool, most: int) -> None:
    """Watch the machine: utilisation, nodes and who shares them, queue, last decisions. q ends it, arrows scroll and choose a node.

    \b
    Example:
      cosched-emulator top --interval 0.5
    """
    from cosched_emulator.users.requests import ShowOverview  # noqa: PLC0415

    request = ShowOverview(most)
    if once or caller.as_json:
        from cosched_emulator.cli.users.top_frame import plain_frame  # noqa: PLC0415

        result = caller.ask(request)
        caller.show(result, lambda: plain_frame(result))
        return
    from cosched_emulator.cli.users.top import run_top  # noqa: PLC0415

    with caller.connected() as connection:
        run_top(connection, request, interval_s)


COMMANDS: Final = (
    submit, cancel, hold, release, queue, job, wait_for_jobs, history, nodes, drain, resume, status, top,
)  # fmt: skip
