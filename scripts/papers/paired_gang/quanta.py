"""What happened in the quanta of a run: pairs, slots that were chosen as partner, predictions, moves between slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cosched_emulator.results.record_columns import NOT_MEASURED, QuantaColumns
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

ROW, PARTNER, GUEST = range(3)  # as in `QuantaColumns`; a guest is an alternate
WEIGHTS: Final = (0.4, 0.3, 0.2, 0.1)  # of the last measured shares, the newest first (paper, formula 1)
NEW: Final = 1.0  # predicted share of a job that has not been measured
HUNGRY: Final = 0.4  # a job that gets more than this share of a CPU beside another one is in a phase that computes
DOTS: Final = 600  # of a scatter, at most
DRAWN: Final = 1_500  # quanta of a picture of phases, at most


@dataclass(frozen=True, slots=True)
class Quanta:
    """A row for each quantum and job that could run in it, in order of quantum."""

    number: IntArray  # of the quantum in this run, from 0
    start_s: FloatArray
    end_s: FloatArray
    job: IntArray
    slot: IntArray  # of the job
    role: IntArray
    allowed_s: FloatArray  # for how long the job could run
    cpu_s: FloatArray  # that all its processes used
    share: FloatArray  # logged CPU time / time allowed; NaN: not measured
    shared: BoolArray  # another job could run on one of its nodes

    @property
    def count(self) -> int:
        """Return the number of quanta."""
        return len(np.unique(self.number))

    @property
    def with_partner(self) -> IntArray:
        """Return the numbers of the quanta in which a second slot ran."""
        return np.unique(self.number[self.role == PARTNER])

    @property
    def paired(self) -> BoolArray:
        """Tell for each row whether a second slot ran in its quantum."""
        return np.isin(self.number, self.with_partner)


def quanta_of(columns: QuantaColumns) -> Quanta:
    """Return the rows of a run's quanta."""
    share = columns.share_ppm / WHOLE_PPM
    return Quanta(
        np.unique(columns.start_us, return_inverse=True)[1].astype(np.int64),
        columns.start_us / SECOND_US,
        columns.end_us / SECOND_US,
        columns.job_id,
        columns.slot,
        columns.role.places.astype(np.int64),
        columns.allowed_us / SECOND_US,
        columns.consumed_us / SECOND_US,
        np.where(columns.share_ppm == NOT_MEASURED, np.nan, share),
        columns.paired,
    )


def pair_share(quanta: Quanta) -> float | None:
    """Return the share of the quanta in which two slots ran."""
    return len(quanta.with_partner) / quanta.count if quanta.count else None


def chosen(quanta: Quanta, jobs: Sequence[int]) -> list[float]:
    """Return for each job, each in a slot of its own, the share of all quanta in which that was chosen as partner."""
    found = Counter(quanta.job[quanta.role == PARTNER].tolist())
    return [found[job] / max(1, quanta.count) for job in jobs]


def mean_share(quanta: Quanta, jobs: Sequence[int], *, paired: bool) -> float | None:
    """Return the mean logged share of some jobs in quanta with a partner, or in those without."""
    rows = np.isin(quanta.job, jobs) & (quanta.paired == paired) & ~np.isnan(quanta.share)
    return float(quanta.share[rows].mean()) if rows.any() else None


def slots_in_use(quanta: Quanta, life: Mapping[int, tuple[float, float]]) -> IntArray:
    """Return for each quantum, in order, how many slots had a job; ``life``: start and end of each job in seconds.

    A job counts to the slot in which it is when it runs next.
    """
    numbers, first = np.unique(quanta.number, return_index=True)
    starts = quanta.start_s[first]
    changes: list[tuple[int, int, int]] = []  # index of a quantum, slot, one job more or less
    own = quanta.role != GUEST
    order = np.lexsort((quanta.number, quanta.job))
    order = order[own[order]]
    places = np.searchsorted(numbers, quanta.number)
    for job, rows in _by_job(quanta.job[order], order):
        begin, end = life[job]
        at = int(np.searchsorted(starts, begin))
        slots = quanta.slot[rows]
        moved = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist()]
        for which, row in enumerate(moved):
            until = int(places[rows[moved[which + 1] - 1]]) + 1 if which + 1 < len(moved) else None
            last = int(np.searchsorted(starts, end)) if until is None else until
            changes += [(at, int(slots[row]), 1), (last, int(slots[row]), -1)]
            at = last
    counts: Counter[int] = Counter()
    found = np.zeros(len(numbers), dtype=np.int64)
    used, place = 0, 0
    for at, slot, step in sorted(changes, key=lambda change: (change[0], -change[2])):
        found[place:at] = used
        place = max(place, at)
        counts[slot] += step
        used += (counts[slot] == 1 and step == 1) - (counts[slot] == 0)
    found[place:] = used
    return found


def pairs_where_possible(quanta: Quanta, life: Mapping[int, tuple[float, float]]) -> tuple[float | None, float | None]:
    """Return the share of the quanta with two or more slots in use in which two of them ran.

    And, of the others, the share of those in which a job of the row had not been measured before.
    """
    numbers = np.unique(quanta.number)
    several = slots_in_use(quanta, life) > 1
    ran = np.isin(numbers, quanta.with_partner)
    new = np.isin(numbers, quanta.number[(quanta.role == ROW) & ~_measured_before(quanta)])
    return _share(ran, several), _share(new, several & ~ran)


def _measured_before(quanta: Quanta) -> BoolArray:
    """Tell for each row whether a share of its job had been measured in an earlier quantum."""
    first = np.full(int(quanta.job.max(initial=0)) + 1, np.iinfo(np.int64).max)
    known = ~np.isnan(quanta.share)
    np.minimum.at(first, quanta.job[known], quanta.number[known])
    return np.asarray(quanta.number > first[quanta.job])


def moves_per_quantum(quanta: Quanta) -> float | None:
    """Return how often a job was found in another slot than the last time it ran, per quantum."""
    order = np.lexsort((quanta.number, quanta.job))
    same = np.diff(quanta.job[order]) == 0
    moved = same & (np.diff(quanta.slot[order]) != 0)
    return int(moved.sum()) / quanta.count if quanta.count else None


# ---------------------------------------------------------------- prediction


class Predictions(NamedTuple):
    """Predicted beside real shares, for each quantum of each job in which the real one was measured."""

    predicted: FloatArray
    real: FloatArray
    new: npt.NDArray[np.bool_]  # the job had not been measured before


def predictions(quanta: Quanta) -> Predictions:
    """Return what formula 1 predicts from the shares measured before, with weights renormalised, and what came out."""
    order = np.lexsort((quanta.number, quanta.job))
    order = order[~np.isnan(quanta.share[order])]
    job, share = quanta.job[order], quanta.share[order]
    total, weights = np.zeros(len(job)), np.zeros(len(job))
    for lag, weight in enumerate(WEIGHTS, 1):
        if len(job) > lag:
            known = job[lag:] == job[:-lag]
            total[lag:][known] += weight * share[:-lag][known]
            weights[lag:][known] += weight
    new = weights == 0
    predicted = np.where(new, NEW, total / np.where(new, 1.0, weights))
    return Predictions(predicted, share, new)


def prediction_figures(quanta: Quanta) -> dict[str, Any]:
    """Return correlation and mean absolute error without new jobs, the share of new ones, and dots of the scatter."""
    found = predictions(quanta)
    old = ~found.new
    predicted, real = found.predicted[old], found.real[old]
    varied = len(real) > 1 and predicted.std() > 0 and real.std() > 0
    step = max(1, -(-len(found.real) // DOTS))
    return {
        "prediction_correlation": float(np.corrcoef(predicted, real)[0, 1]) if varied else None,
        "prediction_error": float(np.abs(predicted - real).mean()) if len(real) else None,
        "prediction_new": float(found.new.mean()) if len(found.new) else None,
        "prediction_dots": [
            [round(float(x), 3), round(float(y), 3)]
            for x, y in zip(found.predicted[::step], found.real[::step], strict=True)
        ],
    }


# ---------------------------------------------------------------- phases


def phase_figures(quanta: Quanta) -> dict[str, Any]:
    """Return how pairs follow the phases of jobs that run alone in their slots (figure 13).

    A pair is hungry if both of its jobs log more than `HUNGRY`; ``stuck`` is the longest row of such quanta.
    """
    _, (row, other) = _by_turn(quanta)
    paired = ~np.isnan(other) | np.isin(np.unique(quanta.number), quanta.with_partner)
    hungry = (row > HUNGRY) & (other > HUNGRY)
    return {
        "phase_pairs_high": _share(paired, row > HUNGRY),
        "phase_pairs_low": _share(paired, row <= HUNGRY),
        "phase_hungry_pairs": float(hungry.mean()) if len(hungry) else None,
        "phase_stuck": _longest(hungry),
    }


def phase_curve(quanta: Quanta) -> dict[str, list[float | None]]:
    """Return the first quanta: when each began, and the shares that its row's job and the partner's logged; None: none."""
    start_s, shares = _by_turn(quanta)
    row, other = (
        [None if np.isnan(value) else round(value, 3) for value in column[:DRAWN].tolist()] for column in shares
    )
    return {
        "phase_start_s": [round(value, 3) for value in start_s[:DRAWN].tolist()],
        "phase_row": row,
        "phase_partner": other,
    }


def _by_turn(quanta: Quanta) -> tuple[FloatArray, tuple[FloatArray, FloatArray]]:
    """Return, for each quantum, its begin and the logged shares of the row's job and of the partner's, where rows have one job."""
    numbers, first = np.unique(quanta.number, return_index=True)
    places = np.searchsorted(numbers, quanta.number)
    row, other = np.full(len(numbers), np.nan), np.full(len(numbers), np.nan)
    for column, role in ((row, ROW), (other, PARTNER)):
        mine = quanta.role == role
        column[places[mine]] = quanta.share[mine]
    return quanta.start_s[first], (row, other)


def _share(what: BoolArray, among: BoolArray) -> float | None:
    return float(what[among].mean()) if among.any() else None


def _longest(flags: BoolArray) -> int:
    """Return the length of the longest run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int64), [0]])))
    return int((edges[1::2] - edges[::2]).max()) if len(edges) else 0


def _by_job(jobs: IntArray, rows: IntArray) -> list[tuple[int, IntArray]]:
    """Return the rows of each job; ``jobs`` is sorted and belongs to ``rows``."""
    names, first = np.unique(jobs, return_index=True)
    return [(int(name), part) for name, part in zip(names, np.split(rows, first[1:]), strict=True)]
