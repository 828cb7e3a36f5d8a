"""What ``calibrate`` and ``predict --pairs`` tell of measured co-runs, and of pairs that were not measured: for JSON, and as text."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Final, TypeAlias

from cosched_hwmodel.cli.node_choice import one_node, threads_of_seat
from cosched_hwmodel.cli.output import CommandError
from cosched_hwmodel.cli.predicting.job_words import profiles_text
from cosched_hwmodel.composite.calibration.pair_fit import FITTED, CompositeFit, PairPlaces, fit_composite
from cosched_hwmodel.errors import suggestion
from cosched_hwmodel.measured import Method
from cosched_hwmodel.measured.calibration import Calibration, Errors, PairPrediction, calibrate, write_table
from cosched_hwmodel.measured.co_run_table import NEVER, CoRunTable, read_table
from cosched_hwmodel.topology import NodeShape
from cosched_terminal.console import progress_bar
from cosched_terminal.tables import align

# Where two applications of a table of co-runs sit on a node.


def places_on(node: NodeShape, seat: str | None) -> PairPlaces:
    """Return two threads of a seat; without a seat, half of the cores of each socket for either, a process on each core.

    Raises CommandError for a seat that the node does not have, and sockets that cannot be halved.
    """
    if seat is not None:
        first, second = threads_of_seat(node, seat)
        return PairPlaces(node, 1, 1 << first, 1 << second)
    half, odd = divmod(node.cores_per_socket, 2)
    if odd:
        raise CommandError(
            node.name, f"expected an even number of cores in a socket, got {node.cores_per_socket} (or --seat)"
        )
    cores = [socket * node.cores_per_socket + core for socket in range(node.sockets) for core in range(half)]
    row = sum(1 << core for core in cores)
    return PairPlaces(node, len(cores), row, row << half)


MOST_LINES: Final = 20  # of unmeasured pairs, unless all are asked for
_HEADER: Final = ("application", "beside", "ratio", "90 % interval", "")


Fit: TypeAlias = tuple[dict[str, Any], Iterable[str], str]  # for JSON, as text, and the file that can be written


def ratios_fitted(file: str, method: Method, *, every: bool) -> Fit:
    """Fit a table of co-runs: the fit with the pairs that were not measured, and the table without gaps."""
    found = calibrate(read_table(file), method)
    text = io.StringIO()
    write_table(text, found.completed())
    return _values(found), _lines(file, found, every), text.getvalue()


def demands_fitted(file: str, node_text: str, seat: str | None, *, every: bool) -> Fit:
    """Fit the composite model to a table of co-runs: the demands that it found, and these as profiles."""
    node = one_node(node_text)
    with progress_bar(1, "rounds") as bar:
        found = fit_composite(read_table(file), places_on(node, seat), bar)
    text = profiles_text(f"demands fitted to {file} on {node.name}", found.profiles)
    return _composite_values(found), _composite_lines(file, found, every), text


def ratios_predicted(file: str, names: Sequence[str], method: Method) -> tuple[list[dict[str, Any]], list[str]]:
    """Return how long each of some applications takes beside each of the others, measured or predicted: for JSON, and as text."""
    found = calibrate(read_table(file), method)
    for name in names:
        if name not in found.table.applications:
            raise CommandError(file, f'no application "{name}"; {suggestion(name, found.table.applications)}')
    if len(names) < 2:
        raise CommandError(" ".join(names), "expected two applications or more")
    different = list(dict.fromkeys(names))
    pairs = [pair for pair in product(different, repeat=2) if pair[0] != pair[1] or names.count(pair[0]) > 1]
    predicted = [found.predict(row, column) for row, column in pairs]
    head = "Run time beside the other, alone = 1 in the sense of the table:"
    return [_pair_values(each) for each in predicted], [head, *_table(predicted), *_doubt(found, predicted)]


def _lines(file: str, found: Calibration, every: bool) -> Iterable[str]:
    yield from _head(file, found.table, found.method, found.errors)
    form = found.bilinear
    rows = [
        [name, *(f"{value:.3f}" for value in values)]
        for name, *values in zip(found.table.applications, form.level, form.sensitivity, form.intensity, strict=True)
    ]
    yield ""
    yield "Bilinear form: ratio = level + sensitivity x the partner's intensity:"
    header = ["application", "level", "sensitivity", "intensity"]
    yield from align([header, *rows], (1, 2, 3), indent=2)
    yield from _missing(found.predictions(), every)
    yield from _doubt(found, found.predictions())


def _composite_lines(file: str, found: CompositeFit, every: bool) -> Iterable[str]:
    yield from _head(file, found.table, "composite", found.errors)
    rows = [
        [name, f"{found.levels[name]:.3f}", *[str(getattr(profile, field)) for field in FITTED]]
        for name, profile in found.profiles.items()
    ]
    yield ""
    yield f"Demand of a process, of {found.places.processes} on {found.places.node.name}; ratio = level x (1 + penalty):"
    yield from align([["application", "level", *FITTED], *rows], range(1, 2 + len(FITTED)), indent=2)
    yield from _missing(found.predictions(), every)


def _head(file: str, table: CoRunTable, method: str, errors: Errors | None) -> Iterable[str]:
    count, apart = len(table.applications), _apart(table)
    measured = len(table.ratios.keys() - set(apart))
    never = f", {len(apart)} cannot be together" if apart else ""
    yield f"{file}: {count} applications, {measured} of {count * count} pairs measured{never}"
    if errors is None:
        yield f"Method {method}; too few pairs to tell its error"
    else:
        yield (
            f"Method {method}; error by cross-validation, of {errors.pairs} pairs predicted without them: "
            f"{errors.mean:.4f} in the mean, {errors.largest:.3f} at most"
        )


def _apart(table: CoRunTable) -> list[tuple[str, str]]:
    """Return the pairs that cannot be together, in both orders."""
    names = table.applications
    return [(row, column) for row in names for column in names if table.apart(row, column)]


def _missing(pairs: Sequence[PairPrediction], every: bool) -> Iterable[str]:
    missing = [each for each in pairs if each.predicted]
    if missing:
        shown = missing if every else missing[:MOST_LINES]
        yield ""
        yield "Pairs that were not measured:"
        yield from _table(shown)
        if len(shown) < len(missing):
            yield f"  and {len(missing) - len(shown)} more (--all)"


def _doubt(found: Calibration, pairs: Iterable[PairPrediction]) -> Iterable[str]:
    if found.doubt is not None and any(each.predicted for each in pairs):
        yield ""
        yield found.doubt


def _table(pairs: Iterable[PairPrediction]) -> Iterable[str]:
    rows = [
        [
            each.row,
            each.column,
            f"{each.ratio:.3f}",
            "unknown" if math.isnan(each.low) else f"{each.low:.3f} to {each.high:.3f}",
            "measured" if each.measured else "predicted",
        ]
        if not each.never
        else [each.row, each.column, NEVER, "", "cannot be together"]
        for each in pairs
    ]
    return align([_HEADER, *rows], (2,), indent=2)


def _values(found: Calibration) -> dict[str, Any]:
    form = found.bilinear
    return {
        "method": found.method,
        "error": None if found.errors is None else found.errors._asdict(),
        "applications": [
            {"name": name, "level": float(level), "sensitivity": float(sensitivity), "intensity": float(intensity)}
            for name, level, sensitivity, intensity in zip(
                found.table.applications, form.level, form.sensitivity, form.intensity, strict=True
            )
        ],
        "pairs": [_pair_values(each) for each in found.predictions()],
        NEVER: _apart(found.table),
        "doubt": found.doubt,
    }


def _composite_values(found: CompositeFit) -> dict[str, Any]:
    return {
        "method": "composite",
        "error": None if found.errors is None else found.errors._asdict(),
        "applications": [
            {"name": name, "level": found.levels[name], **{field: getattr(profile, field) for field in FITTED}}
            for name, profile in found.profiles.items()
        ],
        "pairs": [_pair_values(each) for each in found.predictions()],
        NEVER: _apart(found.table),
    }


def _pair_values(pair: PairPrediction) -> dict[str, Any]:
    """Return a prediction for JSON, which has no nan."""
    return {
        key: None if isinstance(value, float) and math.isnan(value) else value for key, value in pair._asdict().items()
    }
