"""Commands that are imported on use: the table of the help, and what a command loads."""

from __future__ import annotations

import re

import click
import click.testing
import pytest
from tests.processes import run_python

from cosched_emulator.cli.main import COMMANDS, cli
from cosched_plugin.cli.main import cli as plugin
from cosched_terminal.commands import LazyGroup

# Modules that users' programs do not need: the server, the scheduler, and numpy.
SERVER = (
    "numpy",
    *(
        f"cosched_emulator.{part}"
        for part in ("live", "manager", "run", "couplings", "scenario", "workload", "results")
    ),
    "cosched_plugin.core",
    "cosched_plugin.policies",
)


@pytest.mark.parametrize(
    ("program", "name"), [(program, name) for program in (cli, plugin) for name in program.commands]
)
def test_the_table_has_the_name_and_the_help_of_the_command(program: LazyGroup, name: str) -> None:
    command, summary = program.load(name), program.commands[name]
    assert command.name == name
    for limit in range(20, 200):
        assert summary.get_short_help_str(limit) == command.get_short_help_str(limit)


def test_the_help_shows_the_commands_in_groups() -> None:
    shown = click.testing.CliRunner().invoke(cli, ["--help"], terminal_width=120).output
    places = [shown.index(f"\n{title}:\n") for title in COMMANDS]
    assert places == sorted(places)
    for title, rows in COMMANDS.items():
        group = shown[shown.index(f"\n{title}:\n") :].split("\n\n")[0]
        assert re.findall(r"^  (\w+)", group, re.MULTILINE) == [*rows]
    assert len({line.index("  ", 3) for line in shown.splitlines() if re.match(r"  \w{8}  ", line)}) == 1
    assert "Commands:" not in shown


def test_a_client_loads_no_server() -> None:
    program = (
        "import sys; from cosched_emulator.cli.main import cli\n"
        "for command in ('queue', 'submit', 'top --once', 'history'):\n"
        "    try: cli.main([*command.split(), *sys.argv[1:]], standalone_mode=False)\n"
        "    except Exception as error: print(command, error)\n"
        f"print(sorted(name for name in sys.modules if name.startswith({SERVER!r})))"
    )
    code, out, err = run_python("-c", program, "--manager", "ipc:///tmp/no-such-manager", "--timeout", "0.1")
    assert (code, err) == (0, "")
    *errors, loaded = out.splitlines()
    assert [error.split(" ipc:")[0] for error in errors if "no manager there" in error] == [
        "queue",
        "submit",
        "top --once",
        "history",
    ]
    assert loaded == "[]"
