"""The tables of paths in the pages for authors: what a reader looks up there exists."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.processes import ROOT

FOLDERS = {
    "P": "plugin/cosched_plugin",
    "E": "emulator/cosched_emulator",
    "H": "hwmodel/cosched_hwmodel",
    "T": "tests",
    "S": "scripts",
    "D": "docs",
}
WORD = re.compile(r"\b([PEHTSD]) (?=`)|`([^`]+)`")
PATH = re.compile(r"[\w.-]+(/[\w.-]+)+/?|[\w-]+\.(py|md|toml|c)")


def rows() -> Iterator[list[str]]:
    for page in ("design", "not-modelled"):
        for line in (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").splitlines():
            if line.startswith("| "):
                yield [cell.strip() for cell in line.strip("|").split(" | ")]


def paths_in(cell: str) -> list[str]:
    """Return the paths that a cell names: a letter holds for all that follow, up to the next one."""
    found, folder = [], None
    for letter, word in WORD.findall(cell):
        if letter:
            folder = FOLDERS[letter]
        elif folder is not None and PATH.fullmatch(word):
            found.append(f"{folder}/{word}")
    return found


def test_a_letter_holds_for_the_paths_behind_it() -> None:
    assert paths_in("P `core/engine.py`, `handle`; E `a/b.py`, `c.py`") == [
        "plugin/cosched_plugin/core/engine.py",
        "emulator/cosched_emulator/a/b.py",
        "emulator/cosched_emulator/c.py",
    ]
    assert paths_in("`module:Class` without a letter, `gone/file.py`") == []


def test_the_tables_name_existing_files() -> None:
    named = [path for row in rows() for cell in row for path in paths_in(cell)]
    assert len(named) > 150
    assert [path for path in named if not (ROOT / path).exists()] == []
