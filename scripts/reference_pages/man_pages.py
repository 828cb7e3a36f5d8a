"""Manual pages of the three programs, from their helps: a page a program, with a section for each command."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

import click

from cosched_emulator.cli.main import cli as emulator
from cosched_hwmodel.cli.main import cli as hwmodel
from cosched_plugin.cli.main import cli as plugin
from cosched_terminal.commands import LazyGroup
from cosched_terminal.completion import PROGRAMS
from cosched_terminal.help_text import Option, summary_of

_WIDTH: Final = 10_000  # of a line that troff breaks itself


def _page(name: str, program: click.Group) -> Iterator[str]:
    """Yield the lines of a page."""
    context = click.Context(program, info_name=name, terminal_width=_WIDTH, **program.context_settings)
    yield f'.TH {_text(name.upper())} 1 "" cosched'
    yield from (".SH NAME", f"{_text(name)} \\- {_text(_small(summary_of(program)))}")
    yield from (".SH SYNOPSIS", _text(f"{name} COMMAND [OPTIONS] [ARGS]..."))
    yield ".SH DESCRIPTION"
    yield from _help(program.help)
    yield from _options(context)
    yield ".SH COMMANDS"
    yield from _summaries(program)
    for command in _commands(program, context):
        yield f".SH {_text(command.command_path)}"
        yield from (".PP", _text(" ".join([command.command_path, *command.command.collect_usage_pieces(command)])))
        yield from _help(command.command.help)
        if isinstance(command.command, click.Group):
            yield from _summaries(command.command)
        yield from _options(command)
        yield from _help(command.command.epilog)
    others = [f"{_text(each)}(1)" for each in PROGRAMS if each != name]
    yield from (".SH SEE ALSO", ", ".join(others))


def _commands(group: click.Group, context: click.Context) -> Iterator[click.Context]:
    for name in group.commands:
        command = group.load(name) if isinstance(group, LazyGroup) else group.commands[name]
        inner = click.Context(command, context, name, terminal_width=_WIDTH)
        yield inner
        if isinstance(command, click.Group):
            yield from _commands(command, inner)


def _summaries(group: click.Group) -> Iterator[str]:
    for name, command in group.commands.items():
        yield from (".TP", f".B {_text(name)}", _text(summary_of(command)))


def _options(context: click.Context) -> Iterator[str]:
    """Yield the options, group by group, as the help has them."""
    groups: dict[str, list[tuple[str, str]]] = {"": []}
    for each in context.command.get_params(context):
        record = each.get_help_record(context) if isinstance(each, click.Option) else None
        if record is not None:
            groups.setdefault(each.title if isinstance(each, Option) else "", []).append(record)
    for title, records in groups.items():
        if records:
            yield f".SS {_text(title or 'Options')}"
        for names, text in records:
            yield from (".TP", f".B {_text(names)}", _text(text))


def _help(text: str | None) -> Iterator[str]:
    """Yield the paragraphs of a help; lines of a block stay as they are."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text or "")):
        if paragraph.startswith("\b"):
            yield from (".PP", ".nf", *map(_text, paragraph.split("\n")[1:]), ".fi")
        elif paragraph:
            yield from (".PP", _text(" ".join(paragraph.split())))


def _small(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _text(text: str) -> str:
    """Return a text as troff prints it: no character of it is a command."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'", " ")) else escaped


_CLI: Final[Mapping[str, click.Group]] = dict(zip(PROGRAMS, (emulator, plugin, hwmodel), strict=True))
PAGES: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    f"{name}.1": partial(_page, name, program) for name, program in _CLI.items()
}
