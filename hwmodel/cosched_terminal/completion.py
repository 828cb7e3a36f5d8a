"""Completion in bash, zsh and fish by click, and what click's bash lacks: values with ``=`` and ``:`` in them.

`command_line` imports it where a shell asks; `commands.Values` says which values are offered.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

PROGRAMS: Final = ("cosched-emulator", "cosched-plugin", "cosched-hwmodel")
_BREAKS: Final = "=:"  # bash takes these for words of their own, and replaces only what follows them


def variable_of(program: str) -> str:
    """Return the variable of the environment by which a shell asks a program."""
    return f"_{program.replace('-', '_')}_COMPLETE".upper()


def script_of(shell: str) -> str:
    """Return what a shell reads at its start, for all programs."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    parts = [ShellComplete.source(kind(click.Command(name), {}, name, variable_of(name))) for name in PROGRAMS]
    return "\n".join(parts)


class Bash(BashComplete):
    """Completion in bash of words that it has broken."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the whole words before the one that is typed, and that one, as far as it is typed."""
        place = int(os.environ["COMP_CWORD"])
        words = split_arg_string(os.environ["COMP_WORDS"])[: place + 1]
        if len(words) <= place:  # nothing of it yet
            words.append("")
        joined = words[:1]
        for before, word in pairwise(words):
            if len(joined) > 1 and (_breaks(word) or _breaks(before)):
                joined[-1] += word
            else:
                joined.append(word)
        self._typed = joined[-1]
        return joined[1:-1], joined[-1]

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return what takes the place of the part that bash replaces."""
        typed = self._typed.partition("=")[2] if self._typed.startswith("--") else self._typed
        kept = 1 + max(typed.rfind(char) for char in _BREAKS)
        value = item.value[kept:] if item.value.startswith(typed[:kept]) else item.value
        return f"{item.type},{value}"


def _breaks(word: str) -> bool:
    return bool(word) and not word.strip(_BREAKS)


def begin() -> None:
    """Make click ask this module where bash asks."""
    add_completion_class(Bash)
