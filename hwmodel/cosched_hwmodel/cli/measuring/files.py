"""The files of a measurement: the node in TOML, the ratios of each seat in CSV, all of it as a value for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cosched_hwmodel.cli.drawing import node_values
from cosched_hwmodel.cli.measuring.comparison import compare_measured
from cosched_hwmodel.cli.measuring.measurement import Figure, Measurement
from cosched_hwmodel.cli.measuring.profiles import profiles_of
from cosched_hwmodel.cli.output import quoted, write_whole
from cosched_hwmodel.cli.predicting.jobs import profiles_text
from cosched_hwmodel.cli.seats import seat_rank
from cosched_hwmodel.topology import Cache, NodeShape

_ORDER: Final = ("name", "sockets", "cores_per_socket", "threads_per_core", "memory_mb")  # first, in this order


def seats_measured(found: Measurement) -> list[str]:
    """Return the names of the seats with ratios, the closest first."""
    return sorted({pair.seat for pair in found.pairs}, key=seat_rank)


def pairs_file(out: str, seat: str) -> str:
    """Return the name of the CSV file of a seat, beside the node file ``out``."""
    return str(Path(out).with_suffix("")) + f"-pairs-{seat}.csv"


def profiles_file(out: str) -> str:
    """Return the name of the file of profiles beside the node file ``out``."""
    return str(Path(out).with_suffix("")) + "-profiles.toml"


def write_files(found: Measurement, out: str) -> list[str]:
    """Write the node and the ratios of each seat; return the names of the files. Raises CommandError."""
    texts = {out: node_text(found)}
    title = f"{found.node.name}: what a process of each kernel asks for, alone on the node"
    texts[profiles_file(out)] = profiles_text(title, profiles_of(found))
    texts |= {pairs_file(out, seat): pairs_text(found, seat) for seat in seats_measured(found)}
    for file, text in texts.items():
        write_whole(file, text)
    return list(texts)


# ---------------------------------------------------------------- texts


def node_text(found: Measurement) -> str:
    """Return the node as TOML with one ``[[nodes]]`` table: a machine of this node (`topology.load_nodes`)."""
    lines = [
        "# Measured by cosched-hwmodel measure; kernels by " + found.made_by + ".",
        "# CPUs of Linux, by hardware thread: " + " ".join(map(str, found.layout.cpus)),
        *[f"# {note}" for note in found.notes],
        "[[nodes]]",
    ]
    defaults = NodeShape("", 1, 1, 1)
    values = {name: getattr(found.node, name) for name in NodeShape.__dataclass_fields__}
    for key in (*_ORDER, *[key for key in values if key not in (*_ORDER, "caches")]):
        value = values[key]
        if key in _ORDER or value != getattr(defaults, key):
            source = found.sources.get(key)
            lines.append(f"{key} = {_toml(value)}" + (f"  # {source}" if source else ""))
    if found.node.caches:
        lines += ["caches = [", *[f"    {_cache_text(cache)}," for cache in found.node.caches], "]"]
    return "\n".join(lines) + "\n"


def _cache_text(cache: Cache) -> str:
    given = {key: value for key, value in cache._asdict().items() if value != Cache._field_defaults.get(key)}
    return "{ " + ", ".join(f"{key} = {value}" for key, value in given.items()) + " }"


def _toml(value: object) -> str:
    return quoted(value) if isinstance(value, str) else str(value)


def pairs_text(found: Measurement, seat: str) -> str:
    """Return the ratios of a seat as CSV in the long form of tables of co-runs."""
    lines = [
        f"# {found.node.name}: run time of the kernel `row` beside `column`, over its run time alone, on seat {seat}",
        "row,column,ratio",
        *[f"{pair.row},{pair.column},{pair.ratio.value:.4f}" for pair in found.pairs if pair.seat == seat],
    ]
    return "\n".join(lines) + "\n"


def measurement_values(found: Measurement) -> dict[str, Any]:
    """Return all that was measured, for JSON."""
    return {
        "node": node_values(found.node),
        "cpus": list(found.layout.cpus),
        "made_by": found.made_by,
        "kernels": [kernel._asdict() for kernel in found.kernels],
        "alone": [{"seat": each.seat, "kernel": each.kernel, **_figure(each.rate)} for each in found.alone],
        "pairs": [
            {"seat": each.seat, "row": each.row, "column": each.column, **_figure(each.ratio)} for each in found.pairs
        ],
        "predicted": [each._asdict() for each in compare_measured(found)],
        "capacities_mbs": {name: _figure(figure) for name, figure in found.capacities.items()},
        "sources": found.sources,
        "seconds": found.seconds,
        "notes": list(found.notes),
    }


def _figure(figure: Figure) -> Mapping[str, Any]:
    return figure._asdict()
