"""Writes the pages of docs/reference and docs/man, or tells which of them differ from what the programs say.

Usage: python -m scripts.reference_pages.main [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from scripts.reference_pages.emulator import PAGES as EMULATOR
from scripts.reference_pages.imports import PAGES as IMPORTS
from scripts.reference_pages.man_pages import PAGES as MANUAL_PAGES
from scripts.reference_pages.metrics import PAGES as METRICS
from scripts.reference_pages.policies import PAGES as POLICIES
from scripts.reference_pages.records import PAGES as RECORDS

FOLDER: Final = Path(__file__).parents[2] / "docs" / "reference"
PAGES: Final[Mapping[str, Callable[[], Iterable[str]]]] = {**POLICIES, **RECORDS, **EMULATOR, **METRICS, **IMPORTS}
MAN: Final = FOLDER.parent / "man"
MANUAL: Final = MANUAL_PAGES
FIRST: Final = "<!-- Printed by scripts/reference from the code; do not edit. -->"
_FIRST_OF_MAN: Final = '.\\" Printed by scripts/reference from the code; do not edit.'


def page_text(name: str) -> str:
    """Return the text of a page."""
    lines = [_FIRST_OF_MAN, *MANUAL[name]()] if name in MANUAL else [FIRST, "", *PAGES[name]()]
    return "\n".join(lines).rstrip("\n") + "\n"


def stale(folder: Path = FOLDER, man: Path = MAN) -> list[str]:
    """Return the names of pages that are missing, differ from what the programs say, or belong to no program."""
    files = [*folder.glob("*.md"), *man.glob("*")]
    found = {file.name: file.read_text(encoding="utf-8") for file in files}
    known = (*PAGES, *MANUAL)
    return sorted({*found} - {*known}) + [name for name in known if found.get(name) != page_text(name)]


def main() -> int:
    """Write the pages, or check them; return the exit code."""
    if sys.argv[1:] == ["--check"]:
        names = stale()
        if names:
            print(f"reference: not as the programs say: {', '.join(names)}; run scripts/reference", file=sys.stderr)
        return 1 if names else 0
    if sys.argv[1:]:
        print("reference: expected --check or nothing", file=sys.stderr)
        return 2
    for folder, names in ((FOLDER, [*PAGES]), (MAN, [*MANUAL])):
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).write_text(page_text(name), encoding="utf-8")
    for name in sorted({file.name for file in FOLDER.glob("*.md")} - {*PAGES}):
        (FOLDER / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
