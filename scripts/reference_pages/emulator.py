"""The pages about scenarios and run folders: every key and option, every file and column, every figure of a summary."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from scripts.reference_pages.policies import code, table
from scripts.tables import NOTHING

from cosched_emulator.bounds import Choice, Range, marked, types_of
from cosched_emulator.cli.scenario_options import PLACES
from cosched_emulator.needs import Needs
from cosched_emulator.nodeos.coscheduling.policies import POLICIES, parameters_of
from cosched_emulator.nodeos.local import KINDS
from cosched_emulator.results.figures import metrics, run_energy
from cosched_emulator.results.files.job_rows import JOB_COLUMNS, METADATA
from cosched_emulator.results.files.run_files import (
    ALLOCATION_COLUMNS,
    POWER_COLUMNS,
    PREEMPTION_COLUMNS,
    QUANTUM_COLUMNS,
    SUSPENSION_COLUMNS,
)
from cosched_emulator.scenario.difficult_manager import ManagerSection
from cosched_emulator.scenario.fault_sections import FaultsSection
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.scenario.time_sharing import TimeSharingSection
from cosched_emulator.studies.axes import AXES
from cosched_emulator.users.told import meanings
from cosched_emulator.workload.swf.swf_reader import SwfOptions
from cosched_hwmodel import topology
from cosched_hwmodel.topology import load_preset, preset_names

# Options of settings that no table of the command line has: they choose the run, not its scenario.
OTHER_OPTIONS: Final = {
    ("", "seed"): "--seed",
    ("clock", "wait_s"): "--wait",
    ("clock", "mode"): "--clock",
    ("clock", "speed"): "--speed",
}
PRESETS: Final = Path(topology.__file__).with_name("presets")
TYPES: Final = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def scenario_page() -> Iterator[str]:
    """Yield every key of a scenario, section by section."""
    yield "# Keys of a scenario"
    yield ""
    yield "[Scenarios](../scenarios.md) explains what they are for. A key without a default is left out of a run that does not set it."
    yield ""
    hints = types_of(Scenario)
    sections: dict[str, type] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}  # type: ignore[misc]
    sections["time_sharing"] = TimeSharingSection
    sections["faults"] = FaultsSection
    sections["manager"] = ManagerSection
    lists = {name: kind for name, (kind, many) in _tables_in(Scenario).items() if many}
    top = [item for item in fields(Scenario) if item.name not in {*sections, *lists, "policy"}]
    yield from _section("Top level", "", Scenario, top)
    for name, kind in sections.items():
        inner = _tables_in(kind)
        yield from _section(f"`[{name}]`", name, kind, [item for item in fields(kind) if item.name not in inner])
        for key, (below, many) in inner.items():
            place = f"{name}.{key}"
            yield from _section(f"`[[{place}]]`" if many else f"`[{place}]`", place, below, fields(below))
    for name, kind in lists.items():
        yield from _section(f"`[[{name}]]`", name, kind, fields(kind))
    yield from ("## Local schedulers", "")
    yield from table(
        ("`local`", "which process gets the CPU"), ((code(name), kind.meaning) for name, kind in KINDS.items())
    )
    yield from _coscheduling()
    yield from _presets()


def _presets() -> Iterator[str]:
    """Yield the shapes of nodes that ship: what they have, and what the comment of each file says of it."""
    yield from ("## Presets of nodes", "")
    yield from ("Rates are memory bandwidth, network and disk in MB/s; 0: unlimited.", "")
    yield from table(
        ("`preset`", "sockets x cores x threads", "memory, MiB", "rates", "is"),
        (
            (
                code(shape.name),
                f"{shape.sockets} x {shape.cores_per_socket} x {shape.threads_per_core}",
                f"{shape.memory_mb:,}",
                ", ".join(f"{rate:,}" for rate in shape.capacity),
                " ".join(_comment(PRESETS / f"{shape.name}.toml")),
            )
            for shape in map(load_preset, preset_names())
        ),
    )


def _comment(file: Path) -> Iterator[str]:
    """Yield the lines of the comment that a file begins with."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return (line.removeprefix("# ") for line in takewhile(lambda line: line.startswith("#"), lines))


def _coscheduling() -> Iterator[str]:
    """Yield the coscheduling policies: what their classes say, and their parameters."""
    policies: Mapping[str, Callable[..., object]] = POLICIES
    yield from ("## Coscheduling policies", "")
    yield from table(
        ("`coscheduling`", "what it does", "`coscheduling_parameters`"),
        (
            (
                code(name),
                " ".join((inspect.getdoc(kind) or "").partition("\n\nParameters")[0].replace("``", "`").split()),
                ", ".join(code(f"{key} = {json.dumps(value)}") for key, value in parameters_of(kind).items())
                or NOTHING,
            )
            for name, kind in policies.items()
        ),
    )


def swf_page() -> Iterator[str]:
    """Yield the rules that repair a log."""
    yield "# Rules that repair a log"
    yield ""
    yield "They apply in this order, each to the rows that those before it left ([workloads](../swf.md))."
    yield ""
    hints = typing.get_type_hints(SwfOptions, include_extras=True)
    rules = {item.name: (item.default, *hints[item.name].__metadata__[0]) for item in fields(SwfOptions)}
    yield from table(
        ("rule", "default", "what it does", "switched off"),
        ((code(name), code(json.dumps(default)), does, off) for name, (default, does, off) in rules.items()),
    )


def queue_page() -> Iterator[str]:
    """Yield the reasons of a pending job."""
    yield "# Reasons of a pending job"
    yield ""
    yield "As `queue` and `job` show them to [users](../live.md)."
    yield ""
    yield from _meanings("reason", meanings())


def studies_page() -> Iterator[str]:
    """Yield every axis of an experiment."""
    yield "# Axes of a study"
    yield ""
    yield "[Studies](../studies.md) explains the other keys. A study's table has a column for each axis."
    yield ""
    yield from table(
        ("key", "column", "values"), ((code(key), code(axis.column), axis.values) for key, axis in AXES.items())
    )


def _tables_in(kind: type) -> dict[str, tuple[type, bool]]:
    """Return the keys of a section that are tables with keys of their own, or lists of them."""
    found = {}
    for name, hint in types_of(kind).items():
        inside = [part for part in (hint, *typing.get_args(hint)) if is_dataclass(part) and isinstance(part, type)]
        if inside:
            found[name] = (inside[0], typing.get_origin(hint) is tuple)
    return found


def _section(title: str, section: str, kind: type, items: Iterable[Field[Any]]) -> Iterator[str]:
    yield from (f"## {title}", "")
    options = {place: "--" + option.replace("_", "-") for option, place in PLACES.items()} | OTHER_OPTIONS
    hints = types_of(kind)
    yield from table(
        ("key", "option", "accepts", "default", "no effect", "meaning"),
        (
            (
                code(item.name),
                code(options.get((section, item.name), "")),
                _accepts(kind, item.name, hints[item.name]),
                _default(item),
                _needs(kind, item.name),
                " ".join(_marks(kind, item.name, str)),
            )
            for item in items
        ),
    )


def _marks(kind: type, name: str, sort: Any) -> tuple[Any, ...]:
    return next(marks for field, _, marks in marked(kind, sort) if field == name)


def _needs(kind: type, name: str) -> str:
    told = [mark.told for mark in _marks(kind, name, Needs)]
    return "; ".join(dict.fromkeys(told)).replace("[", "\\[") or NOTHING


def _accepts(kind: type, name: str, hint: Any) -> str:
    told = [
        ", ".join(f"`{word}`" for word in bound.names) if isinstance(bound, Choice) else bound.expected
        for bound in _marks(kind, name, (Range, Choice))
    ]
    return "; ".join(dict.fromkeys(told)) or _type(hint)


def _type(hint: Any) -> str:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return " or ".join(_type(option) for option in typing.get_args(hint) if option is not types.NoneType)
    if typing.get_origin(hint) is tuple:
        inside = typing.get_args(hint)[0]
        return "a list of tables" if is_dataclass(inside) else f"a list: {_type(inside)}"
    if typing.get_origin(hint) is typing.Literal:
        return ", ".join(typing.get_args(hint))
    if is_dataclass(hint) or typing.get_origin(hint) is not None:
        return "a table"
    return TYPES.get(hint, "a table")


def _default(item: Field[Any]) -> str:
    if item.default is not MISSING:
        return NOTHING if item.default is None else f"`{json.dumps(item.default, default=str)}`"
    return "required" if item.default_factory is MISSING else NOTHING


def run_folder_page() -> Iterator[str]:
    """Yield the columns of the tables of a run folder, and the figures of its summary."""
    yield "# Columns and figures of a run folder"
    yield ""
    yield "[The run folder](../run-folder.md) explains them. Times are exact decimals of seconds since the first submission."
    yield ""
    for name, columns in (
        ("jobs.csv", JOB_COLUMNS),
        ("allocations.csv", ALLOCATION_COLUMNS),
        ("preemptions.csv", PREEMPTION_COLUMNS),
        ("suspensions.csv", SUSPENSION_COLUMNS),
        ("quanta.csv", QUANTUM_COLUMNS),
        ("power.csv", POWER_COLUMNS),
    ):
        yield from (f"## `{name}`", "")
        yield from _meanings("column", columns)
        if name == "jobs.csv":
            yield from _meanings("key of `metadata`", METADATA)
    yield from ("## `summary.json`", "")
    yield from _meanings("key", metrics.SUMMARY)
    yield "Figures of a job, each for the populations `finished` and `all`, with *run* the work done since its last start:"
    yield ""
    yield from table(
        ("key", "is", "exists for"),
        ((code(name), item.meaning, item.exists_for) for name, item in metrics.QUANTITIES.items()),
    )
    yield f"For each of them: {', '.join(map(code, metrics.STATISTICS))}."
    yield ""
    for name, figures in (
        ("machine", metrics.MACHINE),
        ("time_sharing", metrics.TURNS),
        ("energy", run_energy.FIGURES),
    ):
        yield from (f"### `{name}`", "")
        yield from _meanings(f"figure of `{name}`", figures)


def _meanings(head: str, rows: Mapping[str, str]) -> Iterator[str]:
    yield from table((head, "is"), ((code(name), meaning) for name, meaning in rows.items()))


PAGES: Final[Mapping[str, Callable[[], Iterable[str]]]] = {
    "scenario.md": scenario_page,
    "swf.md": swf_page,
    "queue.md": queue_page,
    "studies.md": studies_page,
    "run-folder.md": run_folder_page,
}
