"""A measurement of a node, told: as text for a terminal, and as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cosched_hwmodel.cli.drawing import node_lines, node_values
from cosched_hwmodel.cli.measuring.measurement import MB, MeasuredFigure, NodeMeasurement
from cosched_hwmodel.cli.measuring.prediction_check import ComparedPair, compare_measured, summary
from cosched_hwmodel.cli.measuring.profiles import profiles_of
from cosched_hwmodel.cli.node_choice import seat_rank, seat_text
from cosched_hwmodel.cli.output import quoted, write_whole
from cosched_hwmodel.cli.predicting.job_words import profiles_file, profiles_text
from cosched_hwmodel.topology import Cache, NodeShape
from cosched_terminal.tables import align

# A measurement as text for a terminal.


def report_lines(found: NodeMeasurement) -> Iterator[str]:
    """Yield the lines of the report: the node, rates alone, ratios of each seat, and what was not measured."""
    yield from node_lines(found.node)
    for rate, source in found.sources.items():
        yield f"  {rate}: {source}"
    yield ""
    yield f"Rates alone (kernels by {found.made_by}; +- is the middle half of the repeats):"
    units = {kernel.name: kernel.unit for kernel in found.kernels}
    rows = [[each.kernel, *_rate(each.rate, units[each.kernel]), each.seat] for each in found.alone]
    yield from _table([["kernel", "rate", "unit", "+-", "seat"], *rows], right=(1, 3))
    compared = compare_measured(found)
    for seat in seats_measured(found):
        yield ""
        yield f"Run time of the kernel in the row beside that in the column, alone = 1; {seat_text(seat)}:"
        yield from _matrix(found, seat)
        yield from _prediction([each for each in compared if each.seat == seat])
    if found.notes:
        yield ""
        yield "Notes:"
        yield from (f"  {note}" for note in found.notes)
    yield ""
    yield f"Measured in {found.seconds:.0f} s."


def _rate(figure: MeasuredFigure, unit: str) -> tuple[str, str, str]:
    scaled = (figure.value / MB, "MB/s") if unit == "bytes" else (figure.value / 1e6, f"million {unit}/s")
    return f"{scaled[0]:,.0f}" if scaled[0] >= 100 else f"{scaled[0]:.2f}", scaled[1], _spread(figure)


def _spread(figure: MeasuredFigure) -> str:
    return "-" if figure.spread is None else f"{figure.spread:.0%}"


def _matrix(found: NodeMeasurement, seat: str) -> Iterator[str]:
    ratios = {(pair.row, pair.column): pair.ratio for pair in found.pairs if pair.seat == seat}
    names = [kernel.name for kernel in found.kernels if any(kernel.name in pair for pair in ratios)]
    rows = [
        [row, *[f"{ratios[row, column].value:.2f}" if (row, column) in ratios else "-" for column in names]]
        for row in names
    ]
    yield from _table([["", *names], *rows], right=range(1, len(names) + 1))
    spreads = sorted(ratio.spread for ratio in ratios.values() if ratio.spread is not None)
    if spreads:
        yield f"  spread of the repeats: {spreads[len(spreads) // 2]:.0%} in the median pair, {spreads[-1]:.0%} at most"


def _prediction(compared: list[ComparedPair]) -> Iterator[str]:
    """Yield a line on how well the composite model predicts the pairs of a seat; none without such pairs."""
    if compared:
        told = summary(compared)
        worst = max(compared, key=lambda each: abs(each.error))
        yield (
            f"  composite model: mean absolute error {told.mean_absolute:.2f}; largest for {worst.row} beside {worst.column}, "
            f"predicted {worst.predicted:.2f}, measured {worst.measured:.2f}"
        )


def _table(rows: list[list[str]], right: tuple[int, ...] | range) -> list[str]:
    return align(rows, right, indent=2)


# The files of a measurement: the node in TOML, the ratios of each seat in CSV, all of it as a value for JSON.

_ORDER: Final = ("name", "sockets", "cores_per_socket", "threads_per_core", "memory_mb")  # first, in this order


def seats_measured(found: NodeMeasurement) -> list[str]:
    """Return the names of the seats with ratios, the closest first."""
    return sorted({pair.seat for pair in found.pairs}, key=seat_rank)


def pairs_file(out: str, seat: str) -> str:
    """Return the name of the CSV file of a seat, beside the node file ``out``."""
    return str(Path(out).with_suffix("")) + f"-pairs-{seat}.csv"


def write_files(found: NodeMeasurement, out: str) -> list[str]:
    """Write the node and the ratios of each seat; return the names of the files. Raises CommandError."""
    texts = {out: node_text(found)}
    title = f"{found.node.name}: what a process of each kernel asks for, alone on the node"
    texts[profiles_file(out)] = profiles_text(title, profiles_of(found))
    texts |= {pairs_file(out, seat): pairs_text(found, seat) for seat in seats_measured(found)}
    for file, text in texts.items():
        write_whole(file, text)
    return list(texts)


# ---------------------------------------------------------------- texts


def node_text(found: NodeMeasurement) -> str:
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


def pairs_text(found: NodeMeasurement, seat: str) -> str:
    """Return the ratios of a seat as CSV in the long form of tables of co-runs."""
    lines = [
        f"# {found.node.name}: run time of the kernel `row` beside `column`, over its run time alone, on seat {seat}",
        "row,column,ratio",
        *[f"{pair.row},{pair.column},{pair.ratio.value:.4f}" for pair in found.pairs if pair.seat == seat],
    ]
    return "\n".join(lines) + "\n"


def measurement_values(found: NodeMeasurement) -> dict[str, Any]:
    """Return all that was measured, for JSON."""
    return {
        "node": node_values(found.node),
        "cpus": list(found.layout.cpus),
        "made_by": found.made_by,
        "kernels": [kernel._asdict() for kernel in found.kernels],
        "alone": [{"seat": each.seat, "kernel": each.kernel, **each.rate._asdict()} for each in found.alone],
        "pairs": [
            {"seat": each.seat, "row": each.row, "column": each.column, **each.ratio._asdict()} for each in found.pairs
        ],
        "predicted": [each._asdict() for each in compare_measured(found)],
        "capacities_mbs": {name: figure._asdict() for name, figure in found.capacities.items()},
        "sources": found.sources,
        "seconds": found.seconds,
        "notes": list(found.notes),
    }
