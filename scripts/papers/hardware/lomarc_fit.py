"""The composite model fitted to the LOMARC paper's measurements: node, model and profiles from a few numbers.

Demands follow from operation, type and size of the data. What the paper states is not fitted: the sizes of cache and memory,
and the time of a message. On that CPU, integer multiplication is done by the floating-point unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_hwmodel.composite.composite_model import CompositeModel
from cosched_hwmodel.composite.job_profile import Profile, checked
from cosched_hwmodel.composite.on_node import Placed
from cosched_hwmodel.topology import Cache, NodeShape, load_preset
from cosched_hwmodel.units import WHOLE_PPM

Floats = NDArray[np.float64]
_STEP: Final = 2e-3  # of a derivative, as a part of a number's range
_MOST_DAMPING: Final = 1e6
_MOST_ROUNDS: Final = 30  # steps that are tried

# The measured co-runs of the LOMARC paper (section 4.2, Tables 1 to 3 and paging), by application.
#
# Names of applications: ``float + 40`` (type, operation, KiB of data beyond L1), ``comm 200`` (bytes of a message),
# ``0.4 of 200`` (part of the time in such communication, the rest is ``int + 0``), ``I/O`` (reads a file), ``400 MB`` (memory).


def _same(name: str, slowdown: float) -> tuple[str, str, float, None]:
    return (name, name, slowdown, None)


# One number stands for two equal applications.
_TABLE_1: Final = (
    _same("float + 0", 2.1),
    _same("int + 0", 1.07),
    _same("float + 40", 1.0),
    _same("int + 40", 1.3),
    _same("float + 400", 1.5),
    _same("int + 400", 1.3),
    _same("float * 0", 1.6),
    _same("int * 0", 1.4),
    _same("float * 80", 1.1),
    _same("int * 80", 1.1),
    _same("float * 400", 1.7),
    _same("int * 400", 1.2),
    ("float + 0", "int + 0", 1.1, 1.0),  # said of all sizes at once
    ("float * 0", "int * 0", 1.8, 1.4),
    ("float * 80", "int * 80", 1.2, 1.1),
    ("float * 400", "int * 400", 1.7, 1.4),
)
_TABLE_2: Final = (
    ("0.4 of 200", "0.4 of 200", 1.1, 1.1),
    ("0.4 of 200", "0.4 of 18000", 1.2, 1.0),
    ("0.4 of 200", "0.6 of 200", 1.1, 1.1),
    ("0.4 of 200", "0.6 of 18000", 1.3, 1.1),
    ("0.4 of 18000", "0.4 of 18000", 1.1, 1.1),
    ("0.4 of 18000", "0.6 of 200", 1.0, 1.3),
    ("0.4 of 18000", "0.6 of 18000", 1.1, 1.1),
    ("0.6 of 200", "0.6 of 200", 1.2, 1.2),
    ("0.6 of 200", "0.6 of 18000", 1.4, 1.1),
    ("0.6 of 18000", "0.6 of 18000", 1.1, 1.1),
)
_TABLE_3: Final = (
    ("comm 200", "comm 200", 1.4, 1.4),
    ("comm 200", "comm 18000", 1.7, 1.1),
    ("comm 200", "int + 0", 1.0, 1.0),
    ("comm 200", "I/O", 1.0, 1.3),
    ("comm 18000", "comm 18000", 1.3, 1.3),
    ("comm 18000", "int + 0", 1.0, 1.0),
    ("comm 18000", "I/O", 1.1, 1.2),
    ("int + 0", "int + 0", 1.1, 1.1),
    ("int + 0", "I/O", 1.0, 1.2),
)
_PAGING: Final = (_same("400 MB", 2.5), _same("267 MB", 2.2))
IO_RANGE: Final = (1.2, 2.3)  # of two that read files: usual, and worst


class TableEntry(NamedTuple):
    """One number of the tables: the slowdown of an application beside another one."""

    table: int
    name: str
    beside: str
    slowdown: float
    second: bool = False  # it is the second of the pair that is named in the other order


def measurements(tables: tuple[int, ...] = (1, 2, 3)) -> list[TableEntry]:
    """Return the numbers of these tables (0: paging), without I/O beside I/O: 58 in Tables 1 to 3."""
    found = []
    for table, cells in enumerate((_PAGING, _TABLE_1, _TABLE_2, _TABLE_3)):
        if table in tables:
            for one, other, slowdown, its in cells:
                found.append(TableEntry(table, one, other, slowdown))
                if its is not None:
                    found.append(TableEntry(table, other, one, its, second=True))
    return found


class Number(NamedTuple):
    """A fitted number: where the fit begins, and its bounds."""

    name: str
    start: float
    low: float
    high: float


NUMBERS: Final = (
    # Issue slots in L1, as a part of a core's; of what is left of them beyond L1.
    Number("float +", 1.0, 0.5, 1.0),
    Number("int +", 0.535, 0.5, 1.0),
    Number("float *", 0.8, 0.5, 1.0),
    Number("int *", 0.7, 0.5, 1.0),
    Number("beyond L1", 0.5, 0.3, 1.0),
    Number("stretch of int *", 2.0, 1.0, 4.0),  # over that of float *
    # Use of L2, as a part of the accesses that it serves; what is waited for; cost of a miss.
    Number("L2, float +", 0.5, 0.2, 1.0),
    Number("L2, int +", 0.9, 0.2, 1.0),
    Number("L2, *", 0.55, 0.2, 1.0),
    Number("exposed, float", 0.95, 0.05, 1.0),
    Number("exposed, int", 0.3, 0.05, 1.0),
    Number("miss, ns", 300, 10, 1200),
    # Use of network and disk while communicating or reading.
    Number("network, 200", 0.7, 0.5, 1.0),
    Number("network, 18000", 0.65, 0.5, 1.0),
    Number("disk", 0.8, 0.62, 1.0),
    # The CPU's part in communication and I/O.
    Number("slots, 200", 0.45, 0.05, 1.0),
    Number("slots, 18000", 0.45, 0.05, 1.0),
    Number("slots, I/O", 0.9, 0.3, 1.0),
    Number("CPU time, I/O", 0.3, 0.05, 1.0),
    Number("stretch of I/O", 0.1, 0.01, 1.0),  # over that of computing
    # Paging.
    Number("paging", 1.175, 0.5, 2.0),
    Number("paging, slope", 0.578, 0.0, 2.0),
)
# What `fit_lomarc` gives, rounded: values of `NUMBERS`.
STORED: Final = (
    1.0, 0.5398, 0.8251, 0.7251, 0.4439, 2.1426,
    0.5155, 0.6949, 0.5906, 1.0, 0.4025, 240.7,
    0.7202, 0.6655, 0.8409,
    0.4994, 0.4934, 0.9927, 0.263, 0.1397,
    1.1752, 0.5774,
)  # fmt: skip
_STRETCH_NS: Final = 1_000_000  # of an application that computes; only ratios matter
_SERVED: Final = (
    10_000  # accesses of L2 in a millisecond, and MB/s of network and disk: only the part that is used matters
)
_RATE: Final = 10_000
_MESSAGE_NS: Final[Mapping[str, int]] = {"200": 13_300, "18000": 120_000}  # section 4.2


class LomarcNode(NamedTuple):
    """The paper's node, the model, and the numbers that both and all profiles follow from."""

    node: NodeShape
    model: CompositeModel
    numbers: Mapping[str, float]

    def profile(self, name: str) -> Profile:
        """Return the profile of an application of `lomarc_tables`; raises KeyError for another name."""
        number = self.numbers
        words = name.split()
        if name == "I/O":  # between two requests it computes for a short time
            return Profile(
                cpu_ppm=_ppm(number["CPU time, I/O"]),
                integer_ppm=_ppm(number["slots, I/O"]),
                stretch_ns=round(number["stretch of I/O"] * _STRETCH_NS),
                disk_ppm=WHOLE_PPM,
                disk_mbs=round(number["disk"] * _RATE),
            )
        if words[0] == "comm":
            return Profile(
                integer_ppm=_ppm(number[f"slots, {words[1]}"]),
                stretch_ns=_STRETCH_NS,
                network_ppm=WHOLE_PPM,
                network_mbs=round(number[f"network, {words[1]}"] * _RATE),
                message_ns=_MESSAGE_NS[words[1]],
            )
        if words[1] == "of":
            part = _ppm(float(words[0]))
            return blended({self.profile(f"comm {words[2]}"): part, self.profile("int + 0"): WHOLE_PPM - part})
        if words[1] == "MB":
            return self.profile("float + 400")._replace(memory_mb=int(words[0]))
        return self._computing(words[0], words[1], int(words[2]))

    def _computing(self, kind: str, operation: str, size_kb: int) -> Profile:
        number = self.numbers
        slots = _ppm(number[f"{kind} {operation}"] * (number["beyond L1"] if size_kb else 1.0))
        by_floating = kind == "float" or operation == "*"
        stretch = number["stretch of int *"] if (kind, operation) == ("int", "*") else 1.0
        used = number["L2, *" if operation == "*" else f"L2, {kind} +"] if size_kb else 0.0
        return Profile(
            integer_ppm=0 if by_floating else slots,
            floating_ppm=slots if by_floating else 0,
            stretch_ns=round(stretch * _STRETCH_NS),
            working_set_kb=size_kb,
            accesses_ms=round(used * _SERVED),
            exposed_ppm=_ppm(number[f"exposed, {kind}"]),
        )

    def slowdowns(self, name: str, other: str) -> tuple[float, float]:
        """Return the slowdowns of two applications, each with one process on a thread of the CPU."""
        placed = [Placed(self.profile(name), 1, 1), Placed(self.profile(other), 1, 2)]
        one, its = self.model.penalties(self.node, placed)
        return 1.0 + one, 1.0 + its


def lomarc_node(values: Sequence[float] = STORED) -> LomarcNode:
    """Return the node and the model that follow from values of `NUMBERS`."""
    numbers = {number.name: value for number, value in zip(NUMBERS, values, strict=True)}
    preset = load_preset("lomarc-ht")
    (cache,) = preset.caches
    node = replace(
        preset,
        integer_slots_ppm=WHOLE_PPM,
        floating_slots_ppm=WHOLE_PPM,
        network_mbs=_RATE,
        disk_mbs=_RATE,
        caches=(Cache(cache.level, cache.size_kb, cache.cores, round(numbers["miss, ns"]), _SERVED),),
    )
    model = CompositeModel(paging_ppm=_ppm(numbers["paging"]), paging_slope_ppm=_ppm(numbers["paging, slope"]))
    return LomarcNode(node, model, numbers)


def predicted(node: LomarcNode, asked: Sequence[TableEntry]) -> list[float]:
    """Return the slowdown of each measurement."""
    known: dict[tuple[str, str], tuple[float, float]] = {}
    result = []
    for _, name, beside, _, second in asked:
        pair = (beside, name) if second else (name, beside)
        if pair not in known:
            known[pair] = node.slowdowns(*pair)
        result.append(known[pair][second])
    return result


def fitted_entries(tables: tuple[int, ...]) -> list[TableEntry]:
    """Return what is fitted: the numbers of these tables, and the middle of the range of two applications that do I/O."""
    return [*measurements(tables), TableEntry(3, "I/O", "I/O", sum(IO_RANGE) / 2)]


def _ppm(part: float) -> int:
    return round(part * WHOLE_PPM)


def blended(parts: Mapping[Profile, int]) -> Profile:
    """Return the profile of a process that spends these parts of its run time, in millionths, like each of the profiles.

    Rates within a phase are means over the time of that phase; times of requests, working set and memory are those of
    the profile in which they are largest.
    """
    mixed = {name: _mean(parts, name) for name in ("cpu_ppm", "network_ppm", "disk_ppm", "accesses_ms", "memory_mbs")}
    for phase, *fields in (
        ("cpu_ppm", "integer_ppm", "floating_ppm"),
        ("network_ppm", "network_mbs"),
        ("disk_ppm", "disk_mbs"),
    ):
        weights = {profile: part * getattr(profile, phase) for profile, part in parts.items()}
        mixed |= {field: _mean(weights, field) for field in fields}
    for field in ("stretch_ns", "working_set_kb", "exposed_ppm", "message_ns", "request_ns", "memory_mb"):
        mixed[field] = max(getattr(profile, field) for profile in parts)
    return checked(Profile(**mixed))


def _mean(weights: Mapping[Profile, int], field: str) -> int:
    """Return the weighted mean of a field, rounded to a whole number; 0 where all weights are 0."""
    total = sum(weights.values())
    summed = sum(weight * int(getattr(profile, field)) for profile, weight in weights.items())
    return (summed + total // 2) // total if total else 0


# ---------------------------------------------------------------- the fit: damped Gauss-Newton steps (Levenberg, Marquardt)


def fit_lomarc(asked: Sequence[TableEntry]) -> tuple[float, ...]:
    """Return `NUMBERS` fitted to some measurements."""
    return fit(NUMBERS, lambda values: predicted(lomarc_node(values), asked), [each.slowdown for each in asked])


def fit(
    numbers: Sequence[Number], predict: Callable[[Sequence[float]], Sequence[float]], measured: Sequence[float]
) -> tuple[float, ...]:
    """Return the numbers within their bounds with the smallest sum of squared errors that the steps find; nothing is drawn.

    ``predict`` returns one value for each measurement. A step that does not lower the sum is tried again with more damping; the
    fit ends when none does, or after `_MOST_ROUNDS`.
    """
    low = np.array([number.low for number in numbers])
    width = np.array([number.high for number in numbers]) - low
    target = np.array(measured, dtype=np.float64)

    def errors_of(place: Floats) -> Floats:
        return np.asarray(predict((low + place * width).tolist()), dtype=np.float64) - target

    place = (np.array([number.start for number in numbers]) - low) / width
    errors = errors_of(place)
    damping, rounds = 1e-2, 0
    while rounds < _MOST_ROUNDS and damping < _MOST_DAMPING:
        slopes = _slopes(errors_of, place, errors)
        normal, gradient = slopes.T @ slopes, slopes.T @ errors
        while rounds < _MOST_ROUNDS and damping < _MOST_DAMPING:
            rounds += 1
            shift = np.linalg.solve(normal + damping * np.eye(len(place)), -gradient)
            tried = np.clip(place + shift, 0.0, 1.0)
            after = errors_of(tried)
            if after @ after < (errors @ errors) * (1 - 1e-6):
                place, errors, damping = tried, after, damping / 4
                break
            damping *= 4
    return tuple((low + place * width).tolist())


def _slopes(errors_of: Callable[[Floats], Floats], place: Floats, errors: Floats) -> Floats:
    """Return the derivative of each error by each number, by a step towards the middle of its range."""
    steps = np.where(place < 0.5, _STEP, -_STEP)
    moved = place + np.diag(steps)
    return np.array([(errors_of(each) - errors) / step for each, step in zip(moved, steps, strict=True)]).T
