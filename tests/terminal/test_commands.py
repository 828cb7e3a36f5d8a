"""Commands whose parameters are their options, and a group that imports the command that is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from cosched_emulator.cli.main import cli
from cosched_terminal.commands import Reader, argument, command, option, several


class Common(NamedTuple):
    """Options of several commands."""

    out: Path | None = option("-o --out FILE", "Where to.")
    wait_s: float = option("--wait S", "How long.", click.FloatRange(min=0), 2.5)


MORE = several([click.Option(["--more"], type=int), click.Option(["--ignored"], hidden=True, expose_value=False)])
got: list[dict[str, Any]] = []


def doubled(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("a whole number")
    return 2 * int(text)


@command(epilog="Example: none.")
def work(
    *,
    names: tuple[str, ...] = argument("NAME..."),
    count: int = option("-n --count N", "How many."),
    kind: str = option("--kind", "Which.", ("red", "green"), "red"),
    parts: tuple[int, ...] = option("--part N", "Some; may be repeated."),
    even: int | None = option("--even N", "Half of it.", Reader(doubled)),
    force: bool = option("--force", "At any rate."),
    sign: bool | None = option("--sign/--no-sign", "Neither: as usual."),
    more: dict[str, Any] = MORE,
    common: Common,
) -> None:
    """Do the work.

    More of it.
    """
    got.append(locals().copy())


@command()
def patient(*, limit_s: int = option("--wait N", "For ever."), common: Common) -> None:
    """Wait."""
    got.append({"limit_s": limit_s, "common": common})


def run(made: click.Command, *words: str) -> str:
    got.clear()
    return CliRunner().invoke(made, words).output


def test_values_have_the_types_of_the_parameters() -> None:
    assert (
        run(
            work,
            "a",
            "b",
            "-n",
            "3",
            "--part",
            "1",
            "--part",
            "2",
            "--even",
            "4",
            "--no-sign",
            "--more",
            "5",
            "--out",
            "x",
        )
        == ""
    )
    assert got == [
        {
            "names": ("a", "b"), "count": 3, "kind": "red", "parts": (1, 2), "even": 8, "force": False, "sign": False,
            "more": {"more": 5}, "common": Common(Path("x"), 2.5),
        }
    ]  # fmt: skip
    run(work, "a", "--count", "1", "--force", "--ignored", "x")
    assert got[0] == {
        "names": ("a",), "count": 1, "kind": "red", "parts": (), "even": None, "force": True, "sign": None,
        "more": {"more": None}, "common": Common(None, 2.5),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("a",), "Missing option '-n' / '--count'"),
        (("-n", "1"), "Missing argument 'NAME...'"),
        (("a", "-n", "1", "--kind", "blue"), "'blue' is not one of 'red', 'green'"),
        (("a", "-n", "1", "--even", "x"), "Invalid value for '--even': expected a whole number, got 'x'"),
        (("a", "-n", "1", "--wait", "-1"), "-1.0 is not in the range x>=0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_does_not_fit_is_refused(words: tuple[str, ...], text: str) -> None:
    assert text in run(work, *words)
    assert got == []


def test_the_help_is_the_functions() -> None:
    shown = run(work, "--help")
    for text in (
        "NAME...", "Do the work.\n\n  More of it.", "-n, --count N", "[required]", "--kind [red|green]", "[default: red]",
        "--wait S", "[default: 2.5; x>=0]", "--sign / --no-sign", "Example: none.",
    ):  # fmt: skip
        assert text in shown, text
    assert "--ignored" not in shown


def test_an_option_of_a_command_replaces_one_of_a_record() -> None:
    assert run(patient, "--wait", "3") == ""
    assert got == [{"limit_s": 3, "common": Common(None, None)}]  # type: ignore[arg-type]  # not asked for


@pytest.mark.parametrize(
    ("words", "begun", "expected"),
    [
        ((), "sim", ["simulate"]),
        (("simulate",), "--li", ["--limits", "--link"]),
        (("simulate", "--link"), "z", ["zmq"]),
        (("study",), "r", ["run"]),
    ],
)
def test_the_shell_completes_commands_that_are_imported_on_use(
    words: tuple[str, ...], begun: str, expected: list[str]
) -> None:
    offered = ShellComplete(cli, {}, "cosched-emulator", "_COMPLETE").get_completions([*words], begun)
    assert [item.value for item in offered] == expected
