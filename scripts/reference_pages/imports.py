"""The page of packages: what each is for, in the first sentence of its docstring, and which others it imports directly."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from scripts.reference_pages.policies import table

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = {
    "cosched_terminal": "hwmodel",
    "cosched_hwmodel": "hwmodel",
    "cosched_plugin": "plugin",
    "cosched_emulator": "emulator",
}
# Packages and modules with a row of their own; a module belongs to the longest of these names.
ROWS: Final = (
    "cosched_terminal", "cosched_hwmodel", "cosched_hwmodel.cli",
    "cosched_plugin.protocol", "cosched_plugin.common", "cosched_plugin.core", "cosched_plugin.parts", "cosched_plugin.api",
    "cosched_plugin.policies", "cosched_plugin.testing", "cosched_plugin.batsim", "cosched_plugin",
    "cosched_emulator.errors", "cosched_emulator.offered", "cosched_emulator.bounds", "cosched_emulator.needs",
    "cosched_emulator.statistics",
    "cosched_emulator.nodeos", "cosched_emulator.workload", "cosched_emulator.scenario", "cosched_emulator.manager",
    "cosched_emulator.accounting", "cosched_emulator.couplings", "cosched_emulator.results", "cosched_emulator.explain",
    "cosched_emulator.run", "cosched_emulator.batsim", "cosched_emulator.expected_starts", "cosched_emulator.api",
    "cosched_emulator.notebook",
    "cosched_emulator.studies", "cosched_emulator.whatif", "cosched_emulator.page", "cosched_emulator.users", "cosched_emulator.live",
    "cosched_emulator.cli",
)  # fmt: skip
# The two doors of the emulator: they import what a caller asks for.
DOORS: Final = ("cosched_emulator", "cosched_emulator.__main__")


def module_files() -> dict[str, Path]:
    """Return the file of every module of the packages, by its name."""
    found = {}
    for package, folder in FOLDERS.items():
        for file in sorted((ROOT / folder / package).rglob("*.py")):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def row_of(module: str) -> str | None:
    """Return the row that a module belongs to; None for a module of others and for the doors."""
    if module in DOORS:
        return None
    return max((row for row in ROWS if module == row or module.startswith(f"{row}.")), key=len, default=None)


def imported(file: Path, known: Iterable[str]) -> set[str]:
    """Return the modules that a file imports, anywhere in it; all imports are absolute."""
    names = set(known)
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {
                f"{node.module}.{name.name}" if f"{node.module}.{name.name}" in names else node.module
                for name in node.names
            }
    return found


def imports_page() -> Iterator[str]:
    """Yield what each package is for and what it imports."""
    files = module_files()
    lost = [name for name in files if row_of(name) is None and name not in DOORS]
    if lost:
        raise ValueError(f"no row for {', '.join(lost)}")
    arrows: dict[str, set[str]] = {row: set() for row in ROWS}
    for name, file in files.items():
        here = row_of(name)
        if here is not None:
            arrows[here] |= {row for row in map(row_of, imported(file, files)) if row not in (None, here)}
    yield "# Packages, and what they import"
    yield ""
    yield "Directly, of each other. A package never imports one that imports it, directly or indirectly."
    yield ""
    yield from table(
        ("package", "what is there", "imports"),
        (
            (
                f"`{row}`",
                _sentence(files[row]),
                ", ".join(f"`{name}`" for name in ROWS if name in arrows[row]) or "nothing of ours",
            )
            for row in ROWS
        ),
    )


def _sentence(file: Path) -> str:
    told = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(told.split("\n\n")[0].split()).partition(". ")[0].rstrip(".").replace("``", "`")


PAGES: Final[Mapping[str, Callable[[], Iterable[str]]]] = {"imports.md": imports_page}
