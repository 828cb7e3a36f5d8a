"""What the commands for users share: options that say which manager is asked, jobs and nodes as arguments, and the asking."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from cosched_emulator.cli.job_options import read_seconds
from cosched_emulator.errors import ConfigurationError, EmulatorError, LinkError
from cosched_emulator.users.idset import read_idset, read_job
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.endpoint import USERS_SOCKET, takes_keys, usual_endpoint
from cosched_terminal.commands import Reader, Values, argument, command, option
from cosched_terminal.console import say

if TYPE_CHECKING:  # a help must not load zmq and msgpack
    from cosched_emulator.users.client import ManagerConnection
    from cosched_emulator.users.requests import Request, Target

MOST_NAMED: Final = 20  # jobs or nodes in an error's text
DEFAULT_TIMEOUT_S: Final = 10.0
SECONDS: Final = Reader(lambda text: read_seconds(text) / SECOND_US)
_TITLE: Final = "The manager that is asked"


class Caller(NamedTuple):
    """The common options: the manager's endpoint, how long to wait for it, the keys, and the form of output."""

    manager: str = option(
        "--manager ENDPOINT",
        "The manager's endpoint for users.  [env: COSCHED_MANAGER; default: ipc:///run/cosched/users.sock, if that folder is there]",
        default="",
        envvar="COSCHED_MANAGER",
        title=_TITLE,
    )
    timeout_s: float | None = option(
        "--timeout S",
        f"Seconds to wait for a manager and its answer.  [default: {DEFAULT_TIMEOUT_S:g}, only for a manager that runs]",
        SECONDS,
        title=_TITLE,
    )
    key: str = option(
        "--key FILE", "Own secret key.  [env: COSCHED_KEY]", default="", envvar="COSCHED_KEY", title=_TITLE
    )
    manager_key: str = option(
        "--manager-key FILE",
        "The manager's public key.  [env: COSCHED_MANAGER_KEY]",
        default="",
        envvar="COSCHED_MANAGER_KEY",
        title=_TITLE,
    )
    as_json: bool = option("--json", "Print JSON; times in seconds.")


Named = tuple[tuple[tuple[int, "int | None"], ...], ...]  # for each word: (job, task) of everything it names
Words = tuple[tuple[int, ...], ...]  # for each word: the nodes that it names
_NAMED_JOBS: Final = Reader(lambda text: tuple(read_job(text)))
_KNOWN_JOBS: Final = Values("cosched_emulator.cli.completing:jobs")
JOBS: Final = argument("JOB...", _NAMED_JOBS, shell_complete=_KNOWN_JOBS)
SOME_JOBS: Final = argument("[JOB...]", _NAMED_JOBS, required=False, shell_complete=_KNOWN_JOBS)
NODES: Final = argument("NODE...", Reader(read_idset), shell_complete=Values("cosched_emulator.cli.completing:nodes"))
Selected = list[str] | None  # some of a list; None: all
NAMES: Final = Reader(lambda text: [name for name in text.split(",") if name])
USER: Final = option("-u --user NAME", "Only jobs of this user.", default="")
ME: Final = option("--me", "Only your own jobs.")


def user_command(**settings: Any) -> Callable[[Callable[..., object]], click.Command]:
    """Return the decorator of a command that asks a manager: as `command`.

    What an answer of another form raises where it is read becomes LinkError: whoever listens may answer anything.
    """

    def make(function: Callable[..., object]) -> click.Command:
        @wraps(function)
        def call(*, caller: Caller, **values: Any) -> object:
            try:
                return function(caller=caller, **values)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                text = f"the answer cannot be read ({type(error).__name__}: {error}): expected a manager of the same version of cosched"
                raise LinkError(text, str(values.get("database") or caller.manager)) from error

        return command(**settings)(call)

    return make


def targets_of(jobs: Named) -> tuple[Target, ...]:
    """Return the jobs and tasks that are named, as requests name them."""
    from cosched_emulator.users.requests import Target

    return tuple([Target(*each) for word in jobs for each in word])


def connect(caller: Caller) -> ManagerConnection:
    """Return a connection to the manager, to be closed."""
    from cosched_emulator.users.client import ManagerConnection

    manager = caller.manager or usual_endpoint(USERS_SOCKET)
    if not manager:
        expected = "a manager's endpoint for users, also as COSCHED_MANAGER in the environment"
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
