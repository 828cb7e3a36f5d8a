"""Commands that are imported on use, so that help and typing errors cost no more than the import of click.

A program's group has a table of command names and one-line helps. It imports the module that declares a command when the command
line names it. The declaration (options and help) names the module that does the work, which is imported when the command runs.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from functools import update_wrapper
from importlib import import_module
from typing import Any, Final

import click

_WIDTH: Final = 8  # width of a name, so that the helps of all groups begin in one column


class LazyGroup(click.Group):
    """A group that prints its help from ``table``, and imports the command that is called.

    The table maps the title of a group of commands in the help to module -> name -> help in one line.
    """

    def __init__(self, table: Mapping[str, Mapping[str, Mapping[str, str]]], **settings: Any) -> None:
        self._table = table
        modules = [item for group in table.values() for item in group.items()]
        self._module_of = {name: module for module, helps in modules for name in helps}
        summaries = [click.Command(name, help=text) for _, helps in modules for name, text in helps.items()]
        super().__init__(commands=summaries, **settings)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - signature of click
        """Write the commands, group by group, in the order of the table."""
        limit = formatter.width - 6 - max(map(len, self.commands))
        for title, modules in self._table.items():
            names = [name for helps in modules.values() for name in helps]
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:<{_WIDTH}}", self.commands[name].get_short_help_str(limit)) for name in names]
                )

    def load(self, name: str) -> click.Command:
        """Return a command with its options, which the module declares under the same name."""
        command: click.Command = getattr(import_module(self._module_of[name]), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name, the command and the rest of the arguments of a command line."""
        name, summary, rest = super().resolve_command(ctx, args)
        return name, self.load(name) if name is not None and summary is not None else None, rest


class Implementation:
    """The function of a command: the one with the same name in ``module``, which is imported when the command runs."""

    def __init__(self, module: str, declaration: Callable[[], None]) -> None:
        update_wrapper(self, declaration)
        self.module = module
        self.attribute = declaration.__name__

    def load(self) -> Callable[..., object]:
        """Return the function that does the work."""
        collecting = gc.isenabled()
        gc.disable()  # modules are no garbage: to look for some in between takes a thirtieth of the imports
        try:
            function: Callable[..., object] = getattr(import_module(self.module), self.attribute)
        finally:
            if collecting:
                gc.enable()
        return function

    def __call__(self, *arguments: Any, **options: Any) -> object:
        """Do the work."""
        return self.load()(*arguments, **options)


def implementation(module: str) -> Callable[[Callable[[], None]], Implementation]:
    """Decorate the declaration of a command, an empty function with the help: `Implementation` in ``module`` does the work."""
    return lambda declaration: Implementation(module, declaration)
