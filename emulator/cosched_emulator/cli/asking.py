"""Helpers of the commands for users: send a request to the manager, and print the answer."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from cosched_emulator.cli.commands.options.manager_options import DEFAULT_TIMEOUT_S, Caller
from cosched_emulator.errors import ConfigurationError, EmulatorError
from cosched_emulator.users.client import ManagerConnection
from cosched_emulator.users.requests import Request
from cosched_plugin.protocol.endpoint import USERS_SOCKET, takes_keys, usual_endpoint
from cosched_terminal.console import say

MOST_NAMED: Final = 20  # jobs or nodes in an error's text


def connect(caller: Caller) -> ManagerConnection:
    """Return a connection to the manager, to be closed."""
    manager = caller.manager or usual_endpoint(USERS_SOCKET)
    if not manager:
        expected = "the endpoint of a manager for users, here or as COSCHED_MANAGER in the environment"
        raise ConfigurationError("--manager", expected, "none")
    given = caller.timeout_s is not None
    timeout_s = caller.timeout_s if caller.timeout_s is not None else DEFAULT_TIMEOUT_S
    return ManagerConnection(manager, timeout_s, caller.key, caller.manager_key, awaits_manager=given)


def ask(caller: Caller, request: Request) -> Mapping[str, Any]:
    """Return the result of one request."""
    with connect(caller) as connection:
        return connection.result(request)


def ask_for_change(caller: Caller, request: Request, what: str) -> None:
    """Change jobs or nodes; raise EmulatorError if some could not be changed. ``what`` is the word for one of them."""
    result = ask(caller, request)
    show(caller, result, lambda: "")
    unchanged = [f"{what} {name}: {why}" for name, why in result["unchanged"]]
    if unchanged:
        more = [f"{len(unchanged) - MOST_NAMED} more"] if len(unchanged) > MOST_NAMED else []
        raise EmulatorError("; ".join([*unchanged[:MOST_NAMED], *more]))


def show(caller: Caller, result: Mapping[str, Any], text: Callable[[], str]) -> None:
    """Print a result, as JSON or as text."""
    say(json.dumps(result, indent=2) + "\n" if caller.as_json else text(), nl=False)


def user_name(caller: Caller, user: str, *, me: bool) -> str:
    """Return the user to select; with ``me`` the caller's name as the manager knows it: the key's on tcp, else the system's."""
    if not me:
        return user
    if user:
        raise click.UsageError("--user and --me exclude each other")
    if caller.key and takes_keys(caller.manager):
        return Path(caller.key).name.removesuffix(".key_secret")
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
