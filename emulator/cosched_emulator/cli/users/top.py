"""The command ``top``."""

from __future__ import annotations

from cosched_emulator.cli.commands.options.manager_options import Caller
from cosched_emulator.cli.users.asking import ask, connect, show
from cosched_emulator.cli.users.top_frame import plain_frame
from cosched_emulator.cli.users.top_screen import run_top
from cosched_emulator.users.requests import ShowOverview


def top(caller: Caller, interval_s: float, once: bool, most: int) -> None:
    """Show an overview of the machine, once or until q is pressed."""
    request = ShowOverview(most)
    if once or caller.as_json:
        result = ask(caller, request)
        show(caller, result, lambda: plain_frame(result))
        return
    with connect(caller) as connection:
        run_top(connection, request, interval_s)
