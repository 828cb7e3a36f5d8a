"""The files in pages of the documentation: Markdown blocks with ``file=NAME``. With ``from=PATH`` the text is that of a file.

Usage: python -m scripts.doc_files FOLDER    writes the Python files of all pages there, for the type check; a folder for each page
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parents[1] / "docs"
FENCE = re.compile(r"^```(\w*)[ ]*([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Fence(NamedTuple):
    """A block: its language, the words after that, its text."""

    language: str
    words: list[str]
    text: str

    def option(self, name: str) -> str | None:
        """Return the value of ``name=value`` among the words; None if there is none."""
        return next((word.partition("=")[2] for word in self.words if word.startswith(f"{name}=")), None)


def fences(page: str) -> list[Fence]:
    """Return the blocks of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [_complete(Fence(match[1], match[2].split(), match[3])) for match in FENCE.finditer(text)]


def _complete(fence: Fence) -> Fence:
    path = fence.option("from")
    return fence if path is None else fence._replace(text=(DOCS.parent / path).read_text(encoding="utf-8"))


def write_files(page: str, target: Path, ending: str = "") -> list[Path]:
    """Write the files of a page whose names have this ending, and return them."""
    written = []
    for fence in fences(page):
        name = fence.option("file")
        if name is not None and name.endswith(ending):
            (target / name).write_text(fence.text, encoding="utf-8")
            written.append(target / name)
    return written


def main() -> None:
    """Write the Python files of all pages."""
    target = Path(sys.argv[1])
    for page in sorted(path.name for path in DOCS.glob("*.md")):
        if any((fence.option("file") or "").endswith(".py") for fence in fences(page)):
            folder = target / page.removesuffix(".md").replace("-", "_")
            folder.mkdir(parents=True)
            write_files(page, folder, ".py")


if __name__ == "__main__":
    main()
