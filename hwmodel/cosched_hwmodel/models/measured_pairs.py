"""A table of measured co-runs as a model of pairs of jobs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from cosched_hwmodel.contention import ParameterError, Parametric
from cosched_hwmodel.measured.co_run_table import LEAST_RATIO, MOST_RATIO, CoRunTable
from cosched_hwmodel.pairs import LEAST_SLOWDOWN, MOST_SLOWDOWN, Beside, JobColumns, JobFacts, PairModel
from cosched_hwmodel.topology import NodeShape

UNKNOWN: Final = 0.0  # a ratio, or a spread, that was not measured
MOST_TYPES: Final = 16
MOST_APPLICATIONS: Final = 300  # of a belief: the table is one value of a message


class PairsParameterError(ParameterError):
    """A parameter of the model ``pairs`` with an invalid value."""


@dataclass(frozen=True, slots=True)
class MeasuredRatios(Parametric):
    """The parameters of `MeasuredPairs`, in the form in a belief; raises PairsParameterError."""

    name: ClassVar = "pairs"

    applications: tuple[str, ...] = ()
    # Run time beside each partner over the compact one, row by row: rows are applications, and so are columns. 0: unknown.
    ratios: tuple[float, ...] = ()
    spreads: tuple[float, ...] = ()  # of each application, alone on half of the cores. 0: unknown. Empty: all unknown
    # Of nodes: ratios and spreads of each type follow each other. Empty: the same on all nodes
    types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = self.applications
        if type(names) is not tuple or any(type(name) is not str or not name for name in names):
            raise PairsParameterError("applications", "a tuple of names", names)
        if len(set(names)) != len(names) or len(names) > MOST_APPLICATIONS:
            raise PairsParameterError("applications", f"at most {MOST_APPLICATIONS} different names", len(names))
        types = self.types
        if type(types) is not tuple or any(type(kind) is not str or not kind for kind in types):
            raise PairsParameterError("types", "a tuple of names", types)
        if len(set(types)) != len(types) or len(types) > MOST_TYPES:
            raise PairsParameterError("types", f"at most {MOST_TYPES} different names", len(types))
        tables = max(1, len(types))
        _check_ratios("ratios", self.ratios, tables * len(names) ** 2)
        if self.spreads != ():
            _check_ratios("spreads", self.spreads, tables * len(names))

    @classmethod
    def of_table(cls, table: CoRunTable) -> MeasuredRatios:
        """Return what the table has measured, or learned well enough."""
        names, tables = table.applications, table.by_type
        trusted = [each.trusted for each in tables.values()]
        return cls(
            names,
            tuple([ratios.get((name, other), UNKNOWN) for ratios in trusted for name in names for other in names]),
            tuple([each.spreads.get(name, UNKNOWN) for each in tables.values() for name in names]),
            tuple(table.types),
        )


class MeasuredPairs(PairModel):
    """How long jobs take beside each other, as measured, by the jobs' names.

    The base is the run time alone on all cores of the nodes (*compact*). A job that holds at most half of a node's
    hardware threads is *spread*: its own factor there is `spread`, and beside a partner it takes as long as the table
    says. Where the spread of an application is unknown, it is the ratio beside its least intense partner. A node that is
    one device, such as a GPU, has no halves: a job that is alone on it has all of it.

    A table by type of nodes: where several types may be meant, the largest ratio of a pair counts.
    """

    __slots__ = ("_both", "_index", "_on", "_slowdowns", "_spreads", "table")
    name: Final = "pairs"

    def __init__(self, table: MeasuredRatios, kind: str = "", *, device: bool = False) -> None:
        """``kind``: of the nodes, one of the table's types (empty: any of them); ``device``: each is one device."""
        self.table = table
        self._on: dict[tuple[str, bool], MeasuredPairs] = {}
        count, tables = len(table.applications), max(1, len(table.types))
        # Of one type, or of all: unknown ratios are below all others.
        first = table.types.index(kind) if kind in table.types else None
        some = slice(None) if first is None else slice(first, first + 1)
        ratios = np.array(table.ratios, dtype=np.float64).reshape(tables, count, count)[some].max(axis=0)
        ratios[ratios == UNKNOWN] = math.inf
        told = np.array(table.spreads or (UNKNOWN,) * (tables * count), dtype=np.float64).reshape(tables, count)
        spreads = np.ones(count) if device else told[some].max(axis=0)
        least = ratios.min(axis=1, initial=math.inf)
        spreads = np.where(spreads == UNKNOWN, least, spreads)
        spreads[np.isinf(spreads)] = 1.0  # nothing is known of it: it is not slowed or sped up
        slowdowns = np.maximum(ratios / spreads[:, None], LEAST_SLOWDOWN)  # no partner speeds a job up
        slowdowns[slowdowns != math.inf] = np.minimum(slowdowns[slowdowns != math.inf], MOST_SLOWDOWN)
        # Of one type's table: the applications that it has, if only beside some.
        told_of = (ratios < math.inf).any(axis=0) | (ratios < math.inf).any(axis=1) | (first is None)
        self._index = {name: place for place, name in enumerate(table.applications) if told_of[place]}
        self._spreads = spreads.tolist()
        self._slowdowns = slowdowns.tolist()
        self._both = np.maximum(slowdowns, slowdowns.T)

    @classmethod
    def from_parameters(cls, parameters: Iterable[tuple[str, object]]) -> MeasuredPairs:
        """Return the model of these parameters; lists may stand for tuples.

        Raises UnknownNameError for an unknown parameter name, PairsParameterError for an invalid value.
        """
        plain = ((name, tuple(value) if isinstance(value, list) else value) for name, value in parameters)
        return cls(MeasuredRatios.from_parameters(plain))

    def on(self, node: NodeShape) -> MeasuredPairs:
        """Return the table of the node's type, which is its name, if there is one; on a device, with jobs that have it all."""
        which = (node.name if node.name in self.table.types else "", node.same_nodes)
        if which not in self._on:
            self._on[which] = MeasuredPairs(self.table, which[0], device=which[1])
        return self._on[which]

    def on_nodes(self, nodes: Sequence[NodeShape]) -> MeasuredPairs:
        """Return the table of these nodes, if they are of one type; else that of any type."""
        found = [*dict.fromkeys([self.on(node) for node in nodes])]
        if len(found) == 1:
            return found[0]
        return MeasuredPairs(self.table, device=bool(nodes) and all(node.same_nodes for node in nodes))

    def knows(self, job: JobFacts) -> bool:
        """Tell whether the job's name is an application of the table."""
        return job.name in self._index

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:
        """Return the ratio beside ``other`` over the job's spread, 1 or more; inf where one of them or the pair is unknown."""
        row, column = self._index.get(job.name), self._index.get(other.name)
        return math.inf if row is None or column is None else float(self._slowdowns[row][column])

    def spread(self, job: JobFacts) -> float | None:
        """Return the run time alone on half of the cores of twice the nodes over the compact one; None for an unknown job."""
        row = self._index.get(job.name)
        return None if row is None else float(self._spreads[row])

    def beside(self, job: JobFacts, others: JobColumns) -> Beside:
        """Return the larger slowdown of the job and each of the others, with bit-identical numbers; no two jobs compete."""
        index = self._index
        places = np.array([index.get(other.name, -1) for other in others.jobs], dtype=np.int64)
        row = index.get(job.name)
        known = np.zeros(len(places), dtype=np.bool_) if row is None else places >= 0
        larger = np.full(len(places), math.inf)
        if row is not None:
            larger[known] = self._both[row, places[known]]
        return Beside(larger, np.zeros(len(places), dtype=np.bool_))


def _check_ratios(name: str, values: object, count: int) -> None:
    """Raise PairsParameterError unless these are ``count`` ratios."""
    expected = f"{count} numbers from {LEAST_RATIO:g} to {MOST_RATIO:g}, or 0 where unknown"
    if type(values) is not tuple or len(values) != count:
        raise PairsParameterError(name, expected, len(values) if isinstance(values, tuple) else values)
    for value in values:
        if type(value) not in (int, float) or not (value == UNKNOWN or LEAST_RATIO <= value <= MOST_RATIO):
            raise PairsParameterError(name, expected, value)
