"""The common options of the commands for users: the manager's endpoint, and the form of output; jobs and nodes as arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar

import click

from cosched_emulator.cli.commands.options.job_options import Reader, read_seconds
from cosched_emulator.errors import LinkError
from cosched_emulator.users.idset import read_idset, read_job
from cosched_hwmodel.units import SECOND_US

Command = TypeVar("Command", bound=Callable[..., object])
Named = tuple[tuple[tuple[int, "int | None"], ...], ...]  # for each word: (job, task) of everything it names
DEFAULT_TIMEOUT_S: Final = 10.0
SECONDS: Final = Reader(lambda text: read_seconds(text) / SECOND_US, "S")


class Caller(NamedTuple):
    """The values of the common options: the manager's endpoint, how long to wait for it, the keys, and the form of output."""

    manager: str
    timeout_s: float | None  # None: not given
    key: str
    manager_key: str
    as_json: bool


@contextmanager
def understood(place: str) -> Iterator[None]:
    """Turn what an answer of another form raises where it is read into LinkError: whoever listens at ``place`` may answer anything."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        text = f"the answer cannot be read ({type(error).__name__}: {error}): expected a manager of the same version of cosched"
        raise LinkError(text, place) from error


def common_options(*, timeout: bool = True) -> Callable[[Command], Command]:
    """Add the common options, and pass them on as one argument. Without ``timeout`` the command declares that option itself."""
    deadline = click.option(
        "--timeout",
        "timeout_s",
        type=SECONDS,
        metavar="S",
        help=f"Seconds to wait for a manager and its answer.  [default: {DEFAULT_TIMEOUT_S:g}, only for a manager that runs]",
    )
    options = [
        click.option(
            "--manager",
            envvar="COSCHED_MANAGER",
            default="",
            metavar="ENDPOINT",
            help="The manager's endpoint for users.  [env: COSCHED_MANAGER; default: ipc:///run/cosched/users.sock, if that "
            "folder is there]",
        ),
        *([deadline] if timeout else []),
        click.option(
            "--key", envvar="COSCHED_KEY", default="", metavar="FILE", help="Own secret key.  [env: COSCHED_KEY]"
        ),
        click.option(
            "--manager-key",
            envvar="COSCHED_MANAGER_KEY",
            default="",
            metavar="FILE",
            help="The manager's public key.  [env: COSCHED_MANAGER_KEY]",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON; times in seconds."),
    ]

    def decorate(command: Command) -> Command:
        @wraps(command)
        def call(
            manager: str, key: str, manager_key: str, as_json: bool, timeout_s: float | None = None, **rest: Any
        ) -> object:
            with understood(str(rest.get("database") or manager)):
                return command(Caller(manager, timeout_s, key, manager_key, as_json), **rest)

        decorated: Any = call
        for option in reversed(options):
            decorated = option(decorated)
        result: Command = decorated
        return result

    return decorate


JOBS: Final = click.argument(
    "jobs", nargs=-1, required=True, metavar="JOB...", type=Reader(lambda text: tuple(read_job(text)), "JOB")
)
NODES: Final = click.argument("nodes", nargs=-1, required=True, metavar="NODE...", type=Reader(read_idset, "NODE"))
WHOSE: Final = (
    click.option("-u", "--user", default="", metavar="NAME", help="Only jobs of this user."),
    click.option("--me", is_flag=True, help="Only your own jobs."),
)


def whose(command: Command) -> Command:
    """Add --user and --me."""
    for option in reversed(WHOSE):
        command = option(command)
    return command
