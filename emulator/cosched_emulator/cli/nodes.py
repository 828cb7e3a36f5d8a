"""The commands for nodes and the manager: nodes, drain, resume, status."""
# Under 60 lines: an entry point, loaded when the command runs.

from __future__ import annotations

from collections.abc import Sequence

from cosched_emulator.cli.asking import ask, ask_for_change, show
from cosched_emulator.cli.commands.options.manager_options import Caller
from cosched_emulator.cli.user_tables import long_node_table, node_table, rows_of, status_text
from cosched_emulator.users.requests import DrainNodes, ListNodes, ResumeNodes, ShowStatus

Words = Sequence[Sequence[int]]  # for each argument: the nodes that it names


def nodes(caller: Caller, one_by_one: bool) -> None:
    """List the nodes, by state or one by one."""
    result = ask(caller, ListNodes())
    rows = rows_of(result)
    table = long_node_table if one_by_one else node_table
    show(caller, {"now_s": result["now_s"], "nodes": rows}, lambda: table(rows))


def drain(caller: Caller, nodes: Words, reason: str) -> None:
    """Drain nodes: they get no more work."""
    ask_for_change(caller, DrainNodes(_numbers(nodes), reason), "node")


def resume(caller: Caller, nodes: Words) -> None:
    """Put nodes back into service."""
    ask_for_change(caller, ResumeNodes(_numbers(nodes)), "node")


def status(caller: Caller) -> None:
    """Show the state of the manager and its scheduler."""
    result = ask(caller, ShowStatus())
    show(caller, result, lambda: status_text(result))


def _numbers(words: Words) -> tuple[int, ...]:
    return tuple(dict.fromkeys([node for word in words for node in word]))
