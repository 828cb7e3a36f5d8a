"""The commands for a running manager and its nodes, modelled on Slurm's sinfo and scontrol."""

from __future__ import annotations

import click

from cosched_emulator.cli.asking import NODES, SECONDS, Caller, Words, ask, ask_for_change, connect, show, user_command
from cosched_emulator.cli.user_tables import long_node_table, node_table, rows_of, status_text
from cosched_terminal.commands import option


@user_command()
def nodes(*, one_by_one: bool = option("-l --long", "Print one line per node, with its jobs."), caller: Caller) -> None:
    """List the nodes by state: IDLE, MIXED (some threads free), ALLOCATED, DRAINING, DRAINED, DOWN.

    \b
    Example:
      cosched-emulator nodes --long
    """
    from cosched_emulator.users.requests import ListNodes

    result = ask(caller, ListNodes())
    rows = rows_of(result)
    table = long_node_table if one_by_one else node_table
    show(caller, {"now_s": result["now_s"], "nodes": rows}, lambda: table(rows))


@user_command()
def drain(
    *,
    nodes: Words = NODES,
    reason: str = option("--reason", "The reason; nodes and top show it.", default=""),
    caller: Caller,
) -> None:
    """Start no more jobs on nodes: 3, 0-3,7. Running jobs continue. For operators.

    \b
    Example:
      cosched-emulator drain 0-3,7 --reason "new fans"
    """
    from cosched_emulator.users.requests import DrainNodes

    ask_for_change(caller, DrainNodes(_numbers(nodes), reason), "node")


@user_command()
def resume(*, nodes: Words = NODES, caller: Caller) -> None:
    """Put drained or failed nodes back into service. For operators.

    \b
    Example:
      cosched-emulator resume 0-3,7
    """
    from cosched_emulator.users.requests import ResumeNodes

    ask_for_change(caller, ResumeNodes(_numbers(nodes)), "node")


def _numbers(words: Words) -> tuple[int, ...]:
    return tuple(dict.fromkeys([node for word in words for node in word]))


@user_command()
def status(*, caller: Caller) -> None:
    """Show the state of the manager and its scheduler.

    \b
    Example:
      cosched-emulator status --json
    """
    from cosched_emulator.users.requests import ShowStatus

    result = ask(caller, ShowStatus())
    show(caller, result, lambda: status_text(result))


@user_command()
def top(
    *,
    interval_s: float = option("-d --interval S", "Seconds between two pictures.", SECONDS, 1.0),
    once: bool = option("--once", "Print one picture as text; needs no terminal."),
    most: int = option("--most N", "Most jobs to show.", click.IntRange(1, 10_000), 200),
    caller: Caller,
) -> None:
    """Watch the machine: utilisation, nodes and the jobs on them, queue, last decisions. q ends it, arrows scroll and choose a node.

    \b
    Example:
      cosched-emulator top --interval 0.5
    """
    from cosched_emulator.users.requests import ShowOverview

    request = ShowOverview(most)
    if once or caller.as_json:
        from cosched_emulator.cli.top_frame import plain_frame

        result = ask(caller, request)
        show(caller, result, lambda: plain_frame(result))
        return
    from cosched_emulator.cli.top import run_top

    with connect(caller) as connection:
        run_top(connection, request, interval_s)
