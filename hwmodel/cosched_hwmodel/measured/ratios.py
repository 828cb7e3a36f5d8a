"""A table of co-runs as arrays: what a fit works on, and what it predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cosched_hwmodel.measured.table import CoRunTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bools: TypeAlias = NDArray[np.bool_]
    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ratios by row (the application whose run time it is) and column (its partner), in the order of the applications."""

    applications: tuple[str, ...]
    values: Floats  # square; has no meaning where not measured
    measured: Bools

    @classmethod
    def of_table(cls, table: CoRunTable) -> Ratios:
        """Return the table's ratios."""
        place = {name: index for index, name in enumerate(table.applications)}
        values = np.ones((len(place), len(place)))
        measured = np.zeros(values.shape, dtype=np.bool_)
        for (row, column), ratio in table.ratios.items():
            values[place[row], place[column]] = ratio
            measured[place[row], place[column]] = True
        return cls(table.applications, values, measured)

    @property
    def programs(self) -> Ints:
        """Return a number for the program of each application: the name up to the first dot, such as ``bt`` of ``bt.D.256``."""
        names = [name.partition(".")[0] for name in self.applications]
        number = {name: index for index, name in enumerate(dict.fromkeys(names))}
        return np.array([number[name] for name in names], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a fit says of every pair, measured or not, of a further measurement of it."""

    mean: Floats
    deviation: Floats  # standard deviation
