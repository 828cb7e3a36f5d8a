"""The help of every command of the three programs: no line too wide, nothing cut, long lists of options in groups."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from cosched_emulator.cli.main import cli as emulator
from cosched_hwmodel.cli.main import cli as hwmodel
from cosched_plugin.cli.main import cli as plugin
from cosched_terminal.commands import LazyGroup
from cosched_terminal.help_text import Command

WIDTH = 80
MOST_OPTIONS = 16  # in one list


def commands_of(command: click.Command, parent: click.Context | None, name: str) -> Iterator[click.Context]:
    context = click.Context(command, parent, name, terminal_width=WIDTH, **command.context_settings)
    yield context
    if isinstance(command, click.Group):
        for each in command.commands:
            inner = command.load(each) if isinstance(command, LazyGroup) else command.commands[each]
            yield from commands_of(inner, context, each)


PROGRAMS = {"cosched-emulator": emulator, "cosched-plugin": plugin, "cosched-hwmodel": hwmodel}
ALL = [context for name, program in PROGRAMS.items() for context in commands_of(program, None, name)]


@pytest.mark.parametrize("context", ALL, ids=lambda context: context.command_path)
def test_a_help_fits_the_terminal_and_is_whole(context: click.Context) -> None:
    text = context.get_help()
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []
    assert [line for line in text.splitlines() if re.search(r"[a-z0-9,:)]\.\.\.$", line)] == []  # JOB... is no summary
    for section in re.split(r"\n(?=\S)", text):
        assert len(re.findall(r"^  -", section, re.MULTILINE)) <= MOST_OPTIONS, section


def test_a_long_example_is_continued_as_a_shell_reads_it() -> None:
    example = "prog run file.toml --set placement.threshold=1.25 --filter '.pairs[] | .verdict == \"worse\"' --out runs/x --json"
    command = Command("run", help=f"Run.\n\n\b\nExample:\n  {example}")
    shown = click.Context(command, terminal_width=60, info_name="run").get_help()
    lines = shown[shown.index("  prog") :].split("\n\nOptions:")[0].splitlines()
    assert len(lines) > 2
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(example)
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert not re.search(r"(--set|--out|--filter) \\\n", shown)  # an option and its value are not parted


@pytest.mark.parametrize(("program", "command"), [(emulator, "simulate"), (plugin, "check")])
def test_the_time_of_a_decision_has_the_same_names_where_policies_are_tried(program: LazyGroup, command: str) -> None:
    (option,) = [each for each in program.load(command).params if "--decision-timeout" in each.opts]
    assert "--deadline" in option.opts
