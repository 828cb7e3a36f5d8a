"""What the commands for users have in common: where the manager is, who asks, how to print; and jobs and nodes as arguments."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from cosched_emulator.cli.users.job_options import Reader, read_seconds
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.users.idset import read_idset, read_job
from cosched_hwmodel.units import SECOND_US

# zmq and msgpack are imported inside the commands: `--help` of the whole program must not pay for them.
if TYPE_CHECKING:
    from cosched_emulator.users.client import Connection
    from cosched_emulator.users.requests import Request

Command = TypeVar("Command", bound=Callable[..., object])
Named = tuple[tuple[tuple[int, "int | None"], ...], ...]  # of each word: (job, task) of all that it names
DEFAULT_TIMEOUT_S: Final = 10.0
SECONDS: Final = Reader(lambda text: read_seconds(text) / SECOND_US, "S")


class Caller:
    """What the common options say: where the manager is, how long it may take, and how to print."""

    def __init__(self, manager: str, timeout_s: float, key: str, manager_key: str, *, as_json: bool) -> None:
        self.manager = manager
        self.timeout_s = timeout_s
        self.key = key
        self.manager_key = manager_key
        self.as_json = as_json

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Yield a connection to the manager."""
        from cosched_emulator.users.client import Connection  # noqa: PLC0415

        if not self.manager:
            expected = "the endpoint of a manager, here or as COSCHED_MANAGER in the environment"
            raise ConfigurationError("--manager", expected, "none")
        with Connection(self.manager, self.timeout_s, self.key, self.manager_key) as connection:
            yield connection

    def ask(self, request: Request) -> Mapping[str, Any]:
        """Return the result of one request."""
        with self.connected() as connection:
            return connection.result(request)

    def show(self, result: Mapping[str, Any], text: Callable[[], str]) -> None:
        """Print a result, as JSON or as text."""
        click.echo(json.dumps(result, indent=2) + "\n" if self.as_json else text(), nl=False)

    def user(self, user: str, *, me: bool) -> str:
        """Return whose jobs are meant; one's own name is what the manager knows us by: the key's on tcp, else the system's."""
        from cosched_plugin.protocol.endpoint import takes_keys  # noqa: PLC0415 - few need it

        if not me:
            return user
        if user:
            raise click.UsageError("--user and --me exclude each other")
        if self.key and takes_keys(self.manager):
            return Path(self.key).name.removesuffix(".key_secret")
        number = os.geteuid()
        try:
            return pwd.getpwuid(number).pw_name
        except KeyError:
            return str(number)


def common_options(*, timeout: bool = True) -> Callable[[Command], Command]:
    """Add the options that all commands have, and pass them on as one argument. Without ``timeout`` a command has its own."""
    deadline = click.option(
        "--timeout",
        "timeout_s",
        type=SECONDS,
        default=DEFAULT_TIMEOUT_S,
        show_default=True,
        metavar="S",
        help="Seconds that the manager may take to answer.",
    )
    options = [
        click.option(
            "--manager",
            envvar="COSCHED_MANAGER",
            default="",
            metavar="ENDPOINT",
            help="The manager's endpoint for users.  [env: COSCHED_MANAGER]",
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
            manager: str, key: str, manager_key: str, as_json: bool, timeout_s: float = DEFAULT_TIMEOUT_S, **rest: Any
        ) -> object:
            return command(Caller(manager, timeout_s, key, manager_key, as_json=as_json), **rest)

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
    click.option("--me", is_flag=True, help="Only one's own."),
)


def whose(command: Command) -> Command:
    """Add --user and --me."""
    for option in reversed(WHOSE):
        command = option(command)
    return command
