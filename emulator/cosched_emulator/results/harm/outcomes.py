"""What became of the jobs of a run: the columns that are compared with those of a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.columns import BoolArray, IntArray, JobColumns
from cosched_emulator.results.figures.metrics import ALL_JOBS, Selection
from cosched_emulator.statistics.classes import (
    CLASS_NAMES,
    MEDIUM_S,
    SHORT_S,
    WIDE,
    WIDTHS,
    length_numbers,
    width_numbers,
)
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import COMPLETED, TIMEOUT, NodeClass


class LoserClasses(NamedTuple):
    """The classes of jobs: by the user's estimate as in `statistics.classes`, and by the share of the machine that they ask for."""

    short_s: int = SHORT_S  # estimate of a short job, at most
    medium_s: int = MEDIUM_S  # of a medium one
    wide: float = WIDE  # a wide job asks for more hardware threads than this share of the machine's cores


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """One row per job, in any order. Times are int64 microseconds since the first submission.

    Raises ValueError for columns of different lengths, an id that is there twice, and a class that has no name.
    """

    id: IntArray
    submit_us: IntArray
    start_us: IntArray  # the last start
    end_us: IntArray
    nodes_us: IntArray  # time on its nodes since the last start: less than end - start if it was on disk meanwhile
    completed: BoolArray  # the times of other jobs are ignored
    killed: BoolArray  # at the limit
    size: IntArray  # hardware threads asked for
    kind: IntArray  # class: index in ``class_names``
    counted: BoolArray  # false: part of a warm-up or cool-down
    class_names: tuple[str, ...] = CLASS_NAMES

    def __post_init__(self) -> None:
        sizes = {len(column) for column in self._columns()}
        if len(sizes) != 1:
            raise ValueError(f"expected columns of one length, got {sorted(sizes)}")
        if np.unique(self.id).size != self.id.size:
            raise ValueError("expected each id once")
        if self.kind.size and not 0 <= self.kind.min() <= self.kind.max() < len(self.class_names):
            raise ValueError(f"expected classes from 0 to {len(self.class_names) - 1}")

    def __len__(self) -> int:
        return self.id.size

    def _columns(self) -> tuple[npt.NDArray[Any], ...]:
        times = (self.submit_us, self.start_us, self.end_us, self.nodes_us)
        return (self.id, *times, self.completed, self.killed, self.size, self.kind, self.counted)


def outcomes(
    jobs: JobColumns,
    machine: Sequence[NodeClass],
    selection: Selection = ALL_JOBS,
    classes: LoserClasses | None = None,
) -> Outcomes:
    """Return what became of the jobs of a run on ``machine``. Raises ConfigurationError for ``classes`` that are none."""
    return Outcomes(
        id=jobs.id,
        submit_us=jobs.submit_us,
        start_us=jobs.start_us,
        end_us=jobs.end_us,
        nodes_us=jobs.wall_us,
        completed=jobs.started & jobs.ended & jobs.state.where(COMPLETED),
        killed=jobs.ended & jobs.state.where(TIMEOUT),
        size=jobs.threads,
        kind=_classes(jobs, machine, LoserClasses() if classes is None else classes),
        counted=selection.mask(len(jobs)),
    )


def _classes(jobs: JobColumns, machine: Sequence[NodeClass], classes: LoserClasses) -> IntArray:
    """Return the index in `CLASS_NAMES` of each job's class; what equals a bound belongs to the class below it."""
    if not (0 <= classes.short_s <= classes.medium_s and classes.wide >= 0):
        raise ConfigurationError("classes", "0 <= short_s <= medium_s, and wide of 0 or more", repr(classes))
    cores = sum(item.nodes * item.sockets * item.cores_per_socket for item in machine)
    length = length_numbers(jobs.estimate_us, classes.short_s * SECOND_US, classes.medium_s * SECOND_US)
    return len(WIDTHS) * length + width_numbers(jobs.threads, cores, classes.wide)
