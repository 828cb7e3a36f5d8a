"""How a help looks: options in groups, summaries and examples whole, within the width of the terminal, at most 80 columns.

`commands` makes its commands and groups of these classes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import click

_WHOLE: Final = 10_000  # characters: more than any summary has
_CONTINUED: Final = re.compile(r" *\\\n\s*")
_WORDS: Final = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+""")  # a text in quotes is not broken
_DEEPER: Final = 4  # columns by which the rest of a long line is indented


class Option(click.Option):
    """An option that stands under ``title`` in its command's help; without one under "Options", which comes first."""

    def __init__(self, *args: Any, title: str = "", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.title = title


def entitle(title: str, options: Iterable[object]) -> None:
    """Put options under a title."""
    for each in options:
        if not isinstance(each, Option):
            raise TypeError(f"{title}: no option: {each!r}")
        each.title = title


class Command(click.Command):
    """A command whose help has its options in groups, and no line that is wider than it may be; ``-h`` prints it, too."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        # Of its own, not of the group's context alone: click keeps the option that the first context asks for.
        super().__init__(*args, **{"context_settings": {"help_option_names": ["-h", "--help"]}, **settings})

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - signature of click
        """Write the text; lines of examples that are too long are continued."""
        _write(formatter, self.help)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - signature of click
        """Write what stands below the options likewise."""
        _write(formatter, self.epilog)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, group by group, in the order in which the first of each is declared."""
        groups: dict[str, list[tuple[str, str]]] = {"": []}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx) if isinstance(each, click.Option) else None
            if record is not None:
                groups.setdefault(each.title if isinstance(each, Option) else "", []).append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title or "Options"):
                    formatter.write_dl(records)


class Group(Command, click.Group):
    """A group of commands whose summaries stand whole in its help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - signature of click
        """Write the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary_of(self.commands[name])) for name in sorted(self.commands)])


def summary_of(command: click.Command) -> str:
    """Return the first sentence of a command's help."""
    return command.get_short_help_str(_WHOLE)


def _write(formatter: click.HelpFormatter, text: str | None) -> None:
    if text:
        formatter.write_paragraph()
        with formatter.indentation():
            cleaned = _CONTINUED.sub(" ", inspect.cleandoc(text))
            width = formatter.width - formatter.current_indent
            formatter.write_text("\n".join([part for line in cleaned.split("\n") for part in _folded(line, width)]))


def _folded(line: str, width: int) -> Iterator[str]:
    """Yield a line of an example, which begins with blanks, in parts that a shell reads as one; other lines as they are."""
    words = _WORDS.findall(line)
    indent = len(line) - len(line.lstrip(" "))
    if not indent or len(line) <= width:
        yield line
        return
    part = " " * indent
    for number, word in enumerate(words):
        # An option's value stays with it.
        whole = " ".join(words[number : number + 2]) if word.startswith("-") else word
        if part.strip() and len(part) + 1 + len(whole) + len(" \\") > width and not _is_value(words, number):
            yield f"{part} \\"
            part = " " * (indent + _DEEPER)
        part += f" {word}" if part.strip() else word
    yield part


def _is_value(words: list[str], number: int) -> bool:
    return words[number - 1].startswith("-") and not words[number].startswith("-")
