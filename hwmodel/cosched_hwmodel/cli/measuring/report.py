"""A measurement as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from cosched_hwmodel.cli.drawing import node_lines
from cosched_hwmodel.cli.measuring.comparison import Compared, compare_measured, summary
from cosched_hwmodel.cli.measuring.files import seats_measured
from cosched_hwmodel.cli.measuring.measurement import MB, Figure, Measurement
from cosched_hwmodel.cli.seats import seat_text
from cosched_hwmodel.cli.terminal.text_table import align


def report_lines(found: Measurement) -> Iterator[str]:
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


def _rate(figure: Figure, unit: str) -> tuple[str, str, str]:
    scaled = (figure.value / MB, "MB/s") if unit == "bytes" else (figure.value / 1e6, f"million {unit}/s")
    return f"{scaled[0]:,.0f}" if scaled[0] >= 100 else f"{scaled[0]:.2f}", scaled[1], _spread(figure)


def _spread(figure: Figure) -> str:
    return "-" if figure.spread is None else f"{figure.spread:.0%}"


def _matrix(found: Measurement, seat: str) -> Iterator[str]:
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


def _prediction(compared: list[Compared]) -> Iterator[str]:
    """Yield a line on how well the composite model predicts the pairs of a seat; none without such pairs."""
    if compared:
        told = summary(compared)
        worst = max(compared, key=lambda each: abs(each.error))
        yield (
            f"  composite model: mean absolute error {told.mean_absolute:.2f}; largest for {worst.row} beside {worst.column}, "
            f"predicted {worst.predicted:.2f}, measured {worst.measured:.2f}"
        )


def _table(rows: list[list[str]], right: tuple[int, ...] | range) -> list[str]:
    return [f"  {line}" for line in align(rows, right)]
