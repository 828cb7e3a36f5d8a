"""The command ``history``."""

from __future__ import annotations

from cosched_emulator.cli.commands.options.manager_options import Caller
from cosched_emulator.cli.users.asking import ask, show, user_name
from cosched_emulator.cli.users.tables import history_table
from cosched_emulator.users.client.history import read_history
from cosched_emulator.users.requests import ListHistory


def history(caller: Caller, user: str, me: bool, most: int, database: str | None) -> None:
    """List jobs that have ended, from the manager or from its database."""
    name = user_name(caller, user, me=me)
    rows = list(
        ask(caller, ListHistory(name, most))["jobs"] if database is None else read_history(database, name, most)
    )
    rows.reverse()
    show(caller, {"jobs": rows}, lambda: history_table(rows))
