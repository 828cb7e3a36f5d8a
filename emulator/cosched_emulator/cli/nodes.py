"""The commands for a running manager and its nodes, modelled on Slurm's sinfo and scontrol."""

from __future__ import annotations

from typing import Final

import click

from cosched_emulator.cli import asking, user_tables
from cosched_emulator.offered import NODE_STATES
from cosched_emulator.users.idset import read_idset
from cosched_emulator.users.told import rows_of
from cosched_terminal.commands import Reader, argument, option

_STATES: Final = Reader(user_tables.node_states)
_IN_STATES: Final = f"Only nodes in these states: {','.join(NODE_STATES)}."
_IDSET: Final = Reader(lambda text: [*read_idset(text)])


@asking.user_command(prints="tables")
def nodes(
    *,
    one_by_one: bool = option("-l --long", "Print one line per node, with its jobs."),
    numbers: list[int] | None = option("-n --nodes LIST", "Only these nodes: 3, 0-3,7.", _IDSET),
    states: asking.Selected = option("-t --states LIST", _IN_STATES, _STATES),
    partitions: asking.Selected = option("-p --partition LIST", "Only nodes of these partitions.", asking.NAMES),
    caller: asking.Caller,
) -> None:
    """List the nodes by state; MIXED: some of their threads are free.

    \b
    Examples:
      cosched-emulator nodes --long
      cosched-emulator nodes --states DOWN,DRAINED -o nodelist,reason
    """
    from cosched_emulator.users.requests import ListNodes

    result = asking.ask(caller, ListNodes())
    rows = user_tables.selected(rows_of(result), {"state": states, "partitions": partitions})
    if numbers is not None:
        rows = [row for row in rows if row["node"] in set(numbers)]
    table = user_tables.long_node_table if one_by_one else user_tables.node_table
    asking.show(caller, {"now_s": result["now_s"], "nodes": rows}, lambda: table(rows))


@asking.user_command()
def drain(
    *,
    nodes: asking.Words = asking.NODES,
    reason: str = option("--reason", "The reason; nodes and top show it.", default=""),
    caller: asking.Caller,
) -> None:
    """Start no more jobs on nodes: 3, 0-3,7. Running jobs continue. For operators.

    \b
    Example:
      cosched-emulator drain 0-3,7 --reason "new fans"
    """
    from cosched_emulator.users.requests import DrainNodes

    asking.ask_for_change(caller, DrainNodes(_numbers(nodes), reason), "node")


@asking.user_command()
def resume(*, nodes: asking.Words = asking.NODES, caller: asking.Caller) -> None:
    """Put drained or failed nodes back into service. For operators.

    \b
    Example:
      cosched-emulator resume 0-3,7
    """
    from cosched_emulator.users.requests import ResumeNodes

    asking.ask_for_change(caller, ResumeNodes(_numbers(nodes)), "node")


def _numbers(words: asking.Words) -> tuple[int, ...]:
    return tuple(dict.fromkeys([node for word in words for node in word]))


@asking.user_command(prints="tables")
def status(*, caller: asking.Caller) -> None:
    """Show the state of the manager and its scheduler.

    \b
    Example:
      cosched-emulator status --json
    """
    from cosched_emulator.users.requests import ShowStatus

    result = asking.ask(caller, ShowStatus())
    asking.show(caller, result, lambda: user_tables.status_text(result))


@asking.user_command(prints="tables")
def config(*, name: str | None = argument("[NAME]"), caller: asking.Caller) -> None:
    """Show the settings of the manager's scenario; with NAME only those that begin with it.

    \b
    Example:
      cosched-emulator config clock
    """
    from cosched_emulator.users.requests import ShowConfig

    result = asking.ask(caller, ShowConfig())
    asking.show(caller, result, lambda: user_tables.config_table(result["config"], name or ""))


@asking.user_command(prints="text")
def web(*, caller: asking.Caller) -> None:
    """Print where the manager's pages are, with a ticket for a browser.

    The browser sees what you may see, read only, for twelve hours.

    \b
    Example:
      cosched-emulator web
    """
    from cosched_emulator.users.requests import OpenWeb

    result = asking.ask(caller, OpenWeb())
    asking.show(caller, result, lambda: f"{result['url']}\n")


@asking.user_command()
def top(
    *,
    interval_s: float = option("-d --interval S", "Seconds between refreshes.", asking.SECONDS, 1.0),
    once: bool = option("--once", "Print one picture as text; needs no terminal."),
    most: int = option("--most N", "Most jobs to show.", click.IntRange(1, 10_000), 200),
    caller: asking.Caller,
) -> None:
    """Watch the machine: utilisation, nodes and the jobs on them, queue, last decisions. q ends it, ? shows the keys.

    \b
    Example:
      cosched-emulator top --interval 0.5
    """
    from cosched_emulator.users.requests import ShowOverview

    request = ShowOverview(most)
    if once or caller.as_json:
        from cosched_emulator.cli.top_frame import plain_frame

        result = asking.ask(caller, request)
        asking.show(caller, result, lambda: plain_frame(result))
        return
    from cosched_emulator.cli.top import run_top

    with asking.connect(caller) as connection:
        run_top(connection, request, interval_s)
