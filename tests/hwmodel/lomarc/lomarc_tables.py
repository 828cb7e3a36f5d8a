"""The measurements of the LOMARC paper (section 4.2, tables 1 to 3 and paging) and the model's estimate of each.

Xeon with hyperthreading and Myrinet. A cell holds one slowdown, or those of the row's and of the column's application. The
tables that this module writes stand in docs/results/appendix/models.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cosched_hwmodel.lomarc.lomarc_model import LomarcModel
from cosched_hwmodel.units import WHOLE_PPM
from cosched_hwmodel.usage import Usage

# The estimate is an upper bound: every pair competes for all of the CPU. The other has no competition there at all.
WORST = LomarcModel(remainder=True, good_share_ppm=0)
NO_CPU_COMPETITION = LomarcModel(remainder=True, good_share_ppm=WHOLE_PPM, good_c_ppm=WHOLE_PPM)

NODE_MB = 512


class Cell(NamedTuple):
    """Two applications that ran together: how each uses its nodes, and the measured slowdowns."""

    name: str
    usages: tuple[Usage, Usage]
    measured: tuple[float, ...]

    def predicted(self, model: LomarcModel = WORST) -> float:
        return model.slowdown(1, self.usages[0], 2, self.usages[1])

    def errors(self, model: LomarcModel = WORST) -> list[float]:
        """Return predicted - measured."""
        return [round(self.predicted(model) - value, 2) for value in self.measured]

    def exceeds(self, model: LomarcModel = WORST) -> bool:
        """Return whether a measurement is above the estimate."""
        return min(self.errors(model)) < 0


class Error(NamedTuple):
    """Errors of several measurements: mean of predicted - measured, and of its absolute value."""

    numbers: int
    mean: float
    mean_absolute: float


def usage(cpu: float = 0.0, network: float = 0.0, disk: float = 0.0, memory_mb: int = 0) -> Usage:
    shares = {"cpu": cpu, "network": network, "disk": disk}
    cpu_ppm, network_ppm, disk_ppm = (round(share * WHOLE_PPM) for share in shares.values())
    bound = max(shares, key=lambda name: shares[name])
    return Usage(bound, cpu_ppm, network_ppm, disk_ppm, memory_mb * WHOLE_PPM // NODE_MB)


CPU_ONLY = usage(cpu=1)

# Table 1: operation, floating or integer; operation + (add) or * (multiply), and KB of data in the L2 or L3 cache. Two the
# same, then a floating and an integer one of the same kind. In the text of the paper one such cell, 1.1 / 1, stands for all
# sizes with +; those with * are one for each size.
TABLE_1 = [
    *(
        Cell(f"two {name}", (CPU_ONLY, CPU_ONLY), (slowdown,))
        for name, slowdown in [
            ("float + 0", 2.1), ("int + 0", 1.07), ("float + 40k", 1), ("int + 40k", 1.3), ("float + 400k", 1.5),
            ("int + 400k", 1.3), ("float * 0", 1.6), ("int * 0", 1.4), ("float * 80k", 1.1), ("int * 80k", 1.1),
            ("float * 400k", 1.7), ("int * 400k", 1.2),
        ]
    ),
    *(
        Cell(f"float and int {name}", (CPU_ONLY, CPU_ONLY), slowdowns)
        for name, slowdowns in [("+", (1.1, 1)), ("* 0", (1.8, 1.4)), ("* 80k", (1.2, 1.1)), ("* 400k", (1.7, 1.4))]
    ),
]  # fmt: skip

# Table 2: part of the time in communication and bytes of one, of 4 processes on 4 nodes; the rest is int + 0.
_MIXED = {"A": (0.4, 200), "B": (0.4, 18_000), "C": (0.6, 200), "D": (0.6, 18_000)}
TABLE_2 = [
    Cell(
        " with ".join(f"{_MIXED[letter][0]} of {_MIXED[letter][1]}" for letter in pair),
        (
            usage(cpu=1 - _MIXED[pair[0]][0], network=_MIXED[pair[0]][0]),
            usage(cpu=1 - _MIXED[pair[1]][0], network=_MIXED[pair[1]][0]),
        ),
        measured,
    )
    for pair, measured in [
        ("AA", (1.1, 1.1)),
        ("AB", (1.2, 1)),
        ("AC", (1.1, 1.1)),
        ("AD", (1.3, 1.1)),
        ("BB", (1.1, 1.1)),
        ("BC", (1, 1.3)),
        ("BD", (1.1, 1.1)),
        ("CC", (1.2, 1.2)),
        ("CD", (1.4, 1.1)),  # the second is printed 1/1; it ran 64 s where 60 are a slowdown of 1
        ("DD", (1.1, 1.1)),
    ]
]

# Table 3: one resource each. Two applications that read files slowed down by 1.2 mostly, by up to 2.3: both values count.
_SINGLE = {
    "comm 200": usage(network=1), "comm 18k": usage(network=1), "int + 0": CPU_ONLY, "I/O": usage(disk=1),
}  # fmt: skip
TABLE_3 = [
    Cell(f"{row} with {column}", (_SINGLE[row], _SINGLE[column]), measured)
    for row, column, measured in [
        ("comm 200", "comm 200", (1.4, 1.4)),
        ("comm 200", "comm 18k", (1.7, 1.1)),
        ("comm 200", "int + 0", (1.0, 1.0)),
        ("comm 200", "I/O", (1.0, 1.3)),
        ("comm 18k", "comm 18k", (1.3, 1.3)),
        ("comm 18k", "int + 0", (1.0, 1.0)),
        ("comm 18k", "I/O", (1.1, 1.2)),
        ("int + 0", "int + 0", (1.1, 1.1)),
        ("int + 0", "I/O", (1.0, 1.2)),
        ("I/O", "I/O", (1.2, 1.2, 2.3, 2.3)),
    ]
]

PAGING = [
    Cell(f"two of {memory_mb} MB", (usage(cpu=1, memory_mb=memory_mb), usage(cpu=1, memory_mb=memory_mb)), (measured,))
    for memory_mb, measured in [(400, 2.5), (267, 2.2)]
]

TABLES = {"Table 1": TABLE_1, "Table 2": TABLE_2, "Table 3": TABLE_3, "paging": PAGING}


def error_of(cells: Iterable[Cell], model: LomarcModel = WORST) -> Error:
    errors = [error for cell in cells for error in cell.errors(model)]
    return Error(len(errors), sum(errors) / len(errors), sum(map(abs, errors)) / len(errors))


def exceptions(cells: Iterable[Cell], model: LomarcModel = WORST) -> list[str]:
    """Return the names of the cells in which a measurement is above the estimate."""
    return [cell.name for cell in cells if cell.exceeds(model)]


def needed_c(cell: Cell) -> float:
    """Return the c at which the estimate for two jobs that only compute equals the larger of their slowdowns."""
    return max(cell.measured)


def page() -> str:
    """Return the validation as the appendix has it."""
    everything = [cell for cells in TABLES.values() for cell in cells]
    lines = [
        *_header("measurements", "numbers", "mean error", "mean absolute error", "above the estimate"),
        _summary("Table 1", TABLE_1, WORST),
        _summary("Table 2", TABLE_2, WORST),
        _summary("Table 2, no competition for the CPU", TABLE_2, NO_CPU_COMPETITION),
        _summary("Table 3", TABLE_3, WORST),
        _summary("paging", PAGING, WORST),
        _summary("all, at c = 2", everything, WORST),
        "",
        *_header("Table 1", "predicted", "measured", "error", "c that gives it"),
    ]
    for cell in TABLE_1:
        c = _plain(needed_c(cell)) if needed_c(cell) <= 2 else "none: above 2"
        lines.append(_row(_name(cell), cell.predicted(), _measured(cell), _errors(cell, WORST), c))
    columns = [f"{name} (no competition for the CPU)" for name in ("predicted", "error")]
    lines += ["", *_header("Table 2: part of the time, bytes", columns[0], "measured", columns[1])]
    for cell in TABLE_2:
        predicted = f"{_plain(cell.predicted())} ({_plain(cell.predicted(NO_CPU_COMPETITION))})"
        errors = f"{_errors(cell, WORST)} ({_errors(cell, NO_CPU_COMPETITION)})"
        lines.append(_row(_name(cell), predicted, _measured(cell), errors))
    for title, cells in (("Table 3", TABLE_3), ("Paging", PAGING)):
        lines += ["", *_header(title, "predicted", "measured", "error")]
        lines += [_row(_name(cell), cell.predicted(), _measured(cell), _errors(cell, WORST)) for cell in cells]
    return "\n".join(lines) + "\n"


def _header(*names: str) -> list[str]:
    return [_row(*names), "|---" * len(names) + "|"]


def _row(*values: str | float) -> str:
    return "| " + " | ".join(value if isinstance(value, str) else _plain(value) for value in values) + " |"


def _summary(name: str, cells: Sequence[Cell], model: LomarcModel) -> str:
    error = error_of(cells, model)
    above = exceptions(cells, model)
    return _row(
        name, str(error.numbers), f"{error.mean:+.2f}", f"{error.mean_absolute:.2f}", ", ".join(above) or "none"
    )


def _name(cell: Cell) -> str:
    return cell.name.replace("*", "\\*")


def _plain(value: float) -> str:
    return f"{value:.4g}"


def _measured(cell: Cell) -> str:
    text = " / ".join(map(_plain, cell.measured))
    return f"**{text}**" if cell.exceeds() else text


def _errors(cell: Cell, model: LomarcModel) -> str:
    return " / ".join(f"{error:+.4g}" if error else "0" for error in cell.errors(model))
