"""The allowed imports between modules: the dependency rules of the design, checked on the source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from cosched_emulator.cli.main import COMMANDS as EMULATOR
from cosched_plugin.cli.main import COMMANDS as PLUGIN

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "cosched_terminal": "hwmodel",
    "cosched_hwmodel": "hwmodel",
    "cosched_plugin": "plugin",
    "cosched_emulator": "emulator",
}
OURS = tuple(FOLDERS)

# (these modules, may import only these, besides the standard library). A name covers the modules below it.
COMMON = "cosched_plugin.common"  # modules that both programs share besides messages and the hardware model
TERMINAL = "cosched_terminal"  # what the command lines of all programs share
BOOKS = (f"{COMMON}.allocation", f"{COMMON}.threads")  # of hardware threads
ALLOWED = [
    (TERMINAL, (TERMINAL, "click")),
    ("cosched_hwmodel", ("cosched_hwmodel", TERMINAL, "numpy", "click")),
    ("cosched_plugin", ("cosched_plugin", "cosched_hwmodel", TERMINAL, "numpy", "msgpack", "zmq", "click")),
    ("cosched_plugin.protocol", (
        "cosched_plugin.protocol", "cosched_hwmodel.units", "cosched_hwmodel.composite.job_profile", "msgpack",
    )),
    (COMMON, (
        COMMON, "cosched_plugin.protocol", "cosched_hwmodel.units", "cosched_hwmodel.errors", "cosched_hwmodel.text_formats", TERMINAL,
        "zmq", "numpy",  # columns of dumps
    )),
    (f"{COMMON}.threads", ("cosched_plugin.protocol", "cosched_hwmodel.units")),
    (f"{COMMON}.allocation", ("cosched_plugin.protocol", "cosched_hwmodel.units", f"{COMMON}.threads")),
    ("cosched_plugin.ledger", (
        "cosched_plugin.ledger", "cosched_plugin.protocol", f"{COMMON}.errors", *BOOKS, f"{COMMON}.slots",
        "cosched_hwmodel.units", "numpy",
    )),
    ("cosched_plugin.core", (
        "cosched_plugin.core", "cosched_plugin.ledger", "cosched_plugin.protocol", f"{COMMON}.errors", *BOOKS,
        f"{COMMON}.slots", "cosched_hwmodel", "numpy",
    )),
    ("cosched_plugin.parts", (
        "cosched_plugin.parts", "cosched_plugin.core", "cosched_plugin.ledger", "cosched_plugin.protocol", *BOOKS,
        "cosched_hwmodel", "numpy",
    )),
    ("cosched_plugin.policies", ("cosched_plugin.policies", "cosched_plugin.api", "numpy")),
    ("cosched_emulator", (
        "cosched_emulator", "cosched_plugin.protocol", COMMON, "cosched_hwmodel", TERMINAL, "numpy", "zmq", "click",
        "matplotlib", "pandas",
        "cosched_plugin.listing",  # the names of policies, for shells
        "cosched_plugin.config",  # the scheduler itself, where it runs in the manager's process
        "cosched_plugin.batsim.messages", "cosched_plugin.batsim.site",  # the schema, which both ends of Batsim's protocol share
    )),
    ("cosched_emulator.nodeos", (
        "cosched_emulator.nodeos", "cosched_emulator.bounds", "cosched_emulator.errors", "cosched_emulator.needs",
        "cosched_emulator.offered", "cosched_hwmodel", TERMINAL, "numpy",
    )),
    ("cosched_emulator.statistics", ("cosched_emulator.statistics", "cosched_emulator.errors", "numpy")),
    ("cosched_emulator.offered", ()),  # it is imported with every help
    ("cosched_emulator.studies.axes", ()),
    *(
        (f"cosched_emulator.{part}", (
            "cosched_emulator", "cosched_plugin.protocol", *BOOKS, "cosched_hwmodel", TERMINAL, "numpy", *more,
        ))
        for part, more in (
            ("manager", (f"{COMMON}.slots", f"{COMMON}.limits")), ("scenario", (f"{COMMON}.slurm_notation", f"{COMMON}.limits")),
            (
                "workload",
                tuple(f"{COMMON}.{name}" for name in ("slurm_notation", "sacct_rows", "sacct_dump", "sacct_times", "limits")),
            ),
            ("live.live_manager", ()), ("expected_starts", ()),
            ("results", ("matplotlib", f"{COMMON}.slurm_notation", f"{COMMON}.trace_file")),
        )
    ),
]  # fmt: skip
# (this, is imported only by these).
ONLY_BY = [
    ("msgpack", ("cosched_plugin.protocol.codec",)),
    ("zmq", (
        "cosched_plugin.connection", f"{COMMON}.curve", f"{COMMON}.sockets", "cosched_plugin.status_server",
        "cosched_plugin.batsim.serve",
        "cosched_emulator.couplings", "cosched_emulator.live.live_server", "cosched_emulator.users.client",
        "cosched_emulator.users.door",
    )),
    ("matplotlib", (
        "cosched_emulator.results.figures.plot", "cosched_emulator.results.figures.plot_turns",
        "cosched_emulator.studies.pictures",
    )),
    ("pandas", ("cosched_emulator.api.simulate", "cosched_emulator.api.tables", "cosched_emulator.studies.study_result")),
    ("click", (TERMINAL, "cosched_hwmodel.cli", "cosched_plugin.cli", "cosched_emulator.cli")),
    ("cosched_plugin.core", (
        "cosched_plugin.core", "cosched_plugin.parts", "cosched_plugin.api", "cosched_plugin.config", "cosched_plugin.testing",
    )),
    ("cosched_emulator.cli", ("cosched_emulator.cli", "cosched_emulator.__main__")),
]  # fmt: skip
# (these modules, never import these): a decision depends on nothing but state, time and events.
PURE = ("time", "random", "os", "logging", "threading", "socket", "secrets", "datetime", "pathlib", "subprocess")
ROOMS = "cosched_plugin.policies"
# Modules that a client does not need.
SERVER = (
    "users.door", "users.user_limits", "live", "manager", "couplings", "run", "scenario", "results", "workload", "accounting.accounts",
)  # fmt: skip
# The command line of users.
CLIENT = ("asking", "jobs", "job_script", "nodes", "history_file", "user_tables", "top", "top_frame")
NEVER = [
    *(
        (part, PURE)
        for part in (
            "cosched_plugin.ledger",
            "cosched_plugin.core",
            "cosched_plugin.parts",
            "cosched_plugin.policies",
            "cosched_emulator.expected_starts",
            "cosched_hwmodel.bandwidth",
            "cosched_hwmodel.composite",
            "cosched_hwmodel.lomarc",
            "cosched_hwmodel.contention",
            "cosched_hwmodel.energy",
            "cosched_hwmodel.statistical",
        )
    ),
    *((part, ("scipy", "asyncio")) for part in OURS),
    ("cosched_emulator.manager", ("cosched_emulator.results", "cosched_emulator.run")),
    ("cosched_emulator.scenario", ("cosched_emulator.manager", "cosched_emulator.run", "cosched_emulator.results")),
    *(
        (f"cosched_emulator.{part}", ("numpy", "cosched_plugin.core", *(f"cosched_emulator.{each}" for each in SERVER)))
        for part in ("users.client", "users.requests", "users.idset", "users.told", *(f"cli.{each}" for each in CLIENT))
    ),
    (f"{ROOMS}.planning", tuple(f"{ROOMS}.{room}" for room in (
        "orders", "placement", "backfilling", "rua", "lomarc", "glomarc", "slack", "slices", "composition",
    ))),
    (f"{ROOMS}.backfilling", (f"{ROOMS}.lomarc", f"{ROOMS}.glomarc", f"{ROOMS}.rua")),
]  # fmt: skip


def modules() -> Iterator[tuple[str, Path]]:
    """Yield every module's name and file."""
    for package, folder in FOLDERS.items():
        for file in sorted((ROOT / folder / package).rglob("*.py")):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


def imports(name: str, file: Path, *, with_it: bool = False) -> set[str]:
    """Return the names of what a module imports, anywhere in it, or only what is loaded ``with_it``.

    ``from a import b`` counts as ``a.b`` where that is a module.
    """
    package = name if file.stem == "__init__" else name.rpartition(".")[0]
    found = set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in tree.body if with_it else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in NAMES else base for alias in node.names}
    return found


class Imports(dict[str, set[str]]):
    """What each module imports; a module is parsed when it is asked for, not when tests are collected."""

    def __missing__(self, name: str) -> set[str]:
        self[name] = imports(name, FILES[name])
        return self[name]


FILES = dict(modules())
NAMES = set(FILES)
IMPORTS = Imports()


def is_in(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


def is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def test_the_scan_sees_imports() -> None:
    assert len(NAMES) > 60
    assert {"cosched_plugin.protocol.messages", "numpy"} <= IMPORTS["cosched_plugin.core.first_fit"]
    assert "cosched_emulator.run.remote" in IMPORTS["cosched_emulator.run.coupling"]  # inside a function
    assert (
        "cosched_emulator.results.figures.plot" in IMPORTS["cosched_emulator.cli.results"]
    )  # from package import module


@pytest.mark.parametrize(("part", "allowed"), ALLOWED, ids=lambda value: value if isinstance(value, str) else "")
def test_modules_import_only_what_is_allowed(part: str, allowed: tuple[str, ...]) -> None:
    broken = [
        f"{name} imports {other}"
        for name in sorted(NAMES)
        if is_in(name, (part,))
        for other in sorted(IMPORTS[name])
        if not is_standard(other) and not is_in(other, allowed)
    ]
    assert broken == []


@pytest.mark.parametrize(("what", "by"), ONLY_BY, ids=lambda value: value if isinstance(value, str) else "")
def test_restricted_modules_are_imported_only_where_allowed(what: str, by: tuple[str, ...]) -> None:
    importers = {name for name in NAMES if any(is_in(other, (what,)) for other in IMPORTS[name])}
    assert sorted(name for name in importers if not is_in(name, by)) == []
    assert importers, f"no module imports {what}: the rule is out of date"


@pytest.mark.parametrize(("part", "never"), NEVER, ids=lambda value: value if isinstance(value, str) else "")
def test_forbidden_modules_are_not_imported(part: str, never: tuple[str, ...]) -> None:
    broken = [
        f"{name} imports {other}"
        for name in sorted(NAMES)
        if is_in(name, (part,))
        for other in sorted(IMPORTS[name])
        if is_in(other, never)
    ]
    assert broken == []


# What the help of a command may load, beside the standard library.
HELP = (
    "click", TERMINAL, "cosched_hwmodel.cli", "cosched_plugin.cli", "cosched_emulator.cli", "cosched_hwmodel.composition",
    "cosched_hwmodel.errors", "cosched_hwmodel.measured", "cosched_hwmodel.units", "cosched_plugin.common.errors",
    "cosched_plugin.protocol.endpoint", "cosched_plugin.protocol.errors", "cosched_plugin.protocol.limits",
    "cosched_emulator.errors", "cosched_emulator.offered", "cosched_emulator.studies.axes",
    "cosched_emulator.users.idset", "cosched_emulator.users.told",
)  # fmt: skip


def test_a_help_loads_no_more_than_click() -> None:
    waiting = [f"{part}.cli.main" for part in OURS if part != TERMINAL]
    for package, table in (("cosched_plugin.cli", PLUGIN), ("cosched_emulator.cli", EMULATOR)):
        waiting += [f"{package}.{module}" for rows in table.values() for module, _ in rows.values()]
    loaded: set[str] = set()
    while waiting:
        name = waiting.pop()
        loaded.add(name)
        if name in FILES:
            found = imports(name, FILES[name], with_it=True) | {name.rpartition(".")[0]} - {""}
            waiting += found - loaded
    heavy = {name for name in loaded if not is_standard(name) and not is_in(name, HELP)}
    assert sorted(heavy - {name for name in NAMES if FILES[name].stem == "__init__"}) == []


def test_the_rules_name_existing_modules() -> None:
    named = {part for part, _ in ALLOWED} | {part for part, _ in NEVER}
    named |= {part for _, parts in [*ALLOWED, *ONLY_BY, ("", HELP)] for part in parts if is_in(part, OURS)}
    assert [part for part in sorted(named) if not any(is_in(name, (part,)) for name in NAMES)] == []


def circles(arrows: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return names that import each other in a circle, directly or indirectly."""
    sorter = TopologicalSorter(arrows)
    try:
        sorter.prepare()
    except CycleError as error:
        return [error.args[1]]
    return []


def test_modules_have_no_circular_imports() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["a"]}) != []
    assert circles({name: IMPORTS[name] & (NAMES - {name}) for name in NAMES}) == []


def rooms(package: str) -> dict[str, set[str]]:
    """Return the sub-packages and modules of a package, each with the others that something in it imports."""

    def room(name: str) -> str | None:
        return name.removeprefix(f"{package}.").partition(".")[0] if name.startswith(f"{package}.") else None

    arrows: dict[str, set[str]] = {}
    for name in NAMES:
        here = room(name)
        if here is not None:
            there = {other for other in map(room, IMPORTS[name]) if other is not None}
            arrows.setdefault(here, set()).update(there - {here})
    return arrows


@pytest.mark.parametrize(
    "package", ["cosched_hwmodel", "cosched_plugin", "cosched_plugin.policies", "cosched_emulator"]
)
def test_packages_have_no_circular_imports(package: str) -> None:
    arrows = rooms(package)
    assert len(arrows) > 5
    assert circles(arrows) == []


@pytest.mark.parametrize(
    "package", sorted({name.rpartition(".")[0] for name, file in FILES.items() if file.stem == "__init__"} - {""})
)
def test_a_sub_package_uses_nothing_that_is_made_of_it(package: str) -> None:
    """An arrow from a sub-package up to a module beside it, which itself imports the sub-package, is a circle of rooms."""
    assert circles(rooms(package)) == []
