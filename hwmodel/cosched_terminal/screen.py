"""What a person sees of a command: tables as the options say, paragraphs that wrap, and a pager for what is longer than the screen.

`commands.command` makes it so for commands that say what they print. In a pipe, and with --json, output goes out as it comes.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any

import click

from cosched_terminal.console import folded
from cosched_terminal.tables import VIEW, View


def show(call: Callable[[], object], asked: Mapping[str, Any], *, as_json: bool, waits: bool) -> object:
    """Return what a command returns, and show what it prints.

    ``asked`` are the values of `commands.table_options`; ``waits``: a pager may wait for a person.
    """
    with _shown(asked, as_json=as_json, paged=waits):
        return call()


@contextmanager
def _shown(asked: Mapping[str, Any], *, as_json: bool, paged: bool) -> Iterator[None]:
    person = sys.stdout is not None and sys.stdout.isatty() and not as_json
    wide = bool(asked.get("wide"))
    view = View(asked.get("columns") or (), asked.get("order") or (), everything=wide)
    if person:
        view.colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "", "dumb")
        view.folds = shutil.get_terminal_size().columns
        view.width = None if wide else view.folds
    token = VIEW.set(view)
    collected = io.StringIO() if person or view.columns or view.order else None
    try:
        if collected is None:
            yield
            return
        try:
            with redirect_stdout(collected):
                yield
        finally:
            _check_names(view, as_json=as_json)
            _print(collected.getvalue(), view, paged=paged and person)
    finally:
        VIEW.reset(token)


def _check_names(view: View, *, as_json: bool) -> None:
    """Refuse names of columns that no table has; raises UsageError."""
    if as_json and (view.columns or view.order):
        raise click.UsageError("--format and --sort are about tables: --json has all fields")
    if view.offered and sys.exc_info()[0] is None:
        for name in (*view.columns, *view.order):
            if name not in view.found:
                known = ", ".join(view.offered)
                raise click.UsageError(f"there is no column {name.lstrip('+-')!r}; expected some of {known}")


def _print(text: str, view: View, *, paged: bool) -> None:
    if view.folds is not None:
        text = "".join([_folded(line, view, view.folds) for line in text.splitlines(keepends=True)])
    if paged and text.count("\n") >= shutil.get_terminal_size().lines and sys.stdin is not None and sys.stdin.isatty():
        click.echo_via_pager(text.removesuffix("\n"))
    else:
        sys.stdout.write(text)
        sys.stdout.flush()


def _folded(line: str, view: View, width: int) -> str:
    """Return a line of a text wrapped; one with colours is of a table, which fits or is as wide as asked for."""
    whole = line.removesuffix("\n")
    return line if "\x1b" in line or whole in view.lines else folded(whole, width) + "\n" * line.endswith("\n")
