"""Jobs as columns: a million jobs in little memory; the object of a job is made at each access.

A value that all jobs share is stored once. Numbers are in numpy arrays. Texts and other repeated values are stored once each.
Values that are cheap to compute, such as a draw by a job's number, need not be stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import itemgetter, mul
from typing import Any, Final, Generic, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.job import NO_TERMS, CutRuns, Terms, WorkloadJob
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.units import NOISE_US, SECOND_US, seconds_text
from cosched_plugin.protocol.limits import INT64_MAX, MAX_SPAN_US
from cosched_plugin.protocol.messages import DemandTuple, JobSpec, SelfSlowdown, UsageTuple

# Arrays of spans, rounded up to whole microseconds.


def round_up_all_us(spans_us: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return `round_up_us` of every span. Raises `ConfigurationError` if one does not fit into 64 bits."""
    whole = np.ceil(spans_us - NOISE_US)
    longest_us = float(whole.max(initial=0.0))
    if not longest_us < INT64_MAX:  # nor a NaN
        raise ConfigurationError("workload", "times of less than 292,000 years", f"{longest_us:g} microseconds")
    spans: NDArray[np.int64] = whole.astype(np.int64)
    return spans


def seconds_texts(times_us: NDArray[np.int64]) -> list[Any]:
    """Return `seconds_text` of each time, or the number that has this text where all are whole seconds."""
    whole_s, rest_us = np.divmod(times_us, SECOND_US)
    return list(map(seconds_text, times_us.tolist())) if rest_us.any() else whole_s.tolist()


# How long all jobs of a run may take one after another, from time 0 on. Times are integers of 64 bits in messages, notes, records
# and arrays; jobs may take several times as long as alone, and plans reach beyond the present: this leaves room for an eighth.
MOST_YEARS: Final = 36_000
MOST_YEARS_US: Final = MOST_YEARS * 365 * 86_400 * SECOND_US
assert MOST_YEARS_US < MAX_SPAN_US // 2


def check_span(jobs: Jobs) -> None:
    """Raise `ConfigurationError` if jobs take longer, one after another from the last submission on, than `MOST_YEARS`."""
    longest_us = np.maximum(jobs.run_us.array, jobs.estimate_us.array)
    span_us = float(jobs.submit_us.array.max(initial=0)) + float(longest_us.sum(dtype=np.float64))
    if span_us > MOST_YEARS_US:
        years = span_us / MOST_YEARS_US * MOST_YEARS
        text = f"jobs that take at most {MOST_YEARS} years, one after another from the last submission on"
        raise ConfigurationError("workload", f"{text}, by the longer of run time and estimate", f"{years:.0f} years")


Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)
IntArray: TypeAlias = NDArray[Any]  # of any integer type
Rows: TypeAlias = slice | IntArray  # some of the rows: a slice of them, or their places in any order
BLOCK = 1_024  # rows computed at a time


class Column(ABC, Generic[Value_co]):
    """One value for each row. A column does not know the number of rows; its `Jobs` does."""

    __slots__ = ()

    @abstractmethod
    def values(self, first: int, last: int) -> Iterable[Value_co]:
        """Return the values of rows ``first`` to ``last - 1``."""

    @abstractmethod
    def select(self, rows: Rows) -> Column[Value_co]:
        """Return the column of some of the rows."""


class Same(Column[Value_co]):
    """The same value for all rows."""

    __slots__ = ("value",)

    def __init__(self, value: Value_co) -> None:
        self.value = value

    def values(self, first: int, last: int) -> Iterable[Value_co]:
        """Return the value once for each of the rows."""
        return repeat(self.value, last - first)

    def select(self, _rows: Rows) -> Same[Value_co]:
        """Return this column, which fits any number of rows."""
        return self


class Numbers(Column[int]):
    """Whole numbers: an array, or a range."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers: IntArray | range) -> None:
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def array(self) -> NDArray[np.int64]:
        """Return all numbers as int64."""
        numbers = self._numbers
        if isinstance(numbers, range):
            return np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64)
        return numbers.astype(np.int64, copy=False)

    def values(self, first: int, last: int) -> Iterable[int]:
        """Return some of the numbers as Python integers."""
        some = self._numbers[first:last]
        return some if isinstance(some, range) else some.tolist()

    def select(self, rows: Rows) -> Numbers:
        """Return the column of some of the rows."""
        return Numbers(self._numbers[rows] if isinstance(rows, slice) else self.array[rows])


class Interned(Column[Value_co]):
    """Repeated values: each distinct value is stored once, and for every row its index."""

    __slots__ = ("_places", "_values")

    def __init__(self, places: IntArray, values: Sequence[Value_co]) -> None:
        self._places = places
        self._values = values

    def values(self, first: int, last: int) -> Iterable[Value_co]:
        """Return some of the values."""
        return map(self._values.__getitem__, self._places[first:last].tolist())

    def select(self, rows: Rows) -> Interned[Value_co]:
        """Return the column of some of the rows: a slice, a list of indices, or a mask."""
        return Interned(self._places[rows], self._values)

    @property
    def places(self) -> NDArray[np.int64]:
        """Return for every row the index of its value."""
        return self._places.astype(np.int64)

    @property
    def distinct(self) -> Sequence[Value_co]:
        """Return the distinct values, by index; in a selection of rows some may not occur."""
        return self._values

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, row: int) -> Value_co:
        return self._values[int(self._places[row])]

    def __iter__(self) -> Iterator[Value_co]:
        return iter(self.values(0, len(self)))

    def where(self, value: object) -> NDArray[np.bool_]:
        """Return the mask of the rows with this value."""
        found: NDArray[np.bool_] = np.isin(
            self._places, [place for place, its in enumerate(self._values) if its == value]
        )
        return found


def intern_values(values: Iterable[Value]) -> Interned[Value]:
    """Return a column of these values, which must be hashable."""
    found: dict[Value, int] = {}
    places = np.fromiter((found.setdefault(value, len(found)) for value in values), dtype=np.uint32)
    return Interned(places, tuple(found))


class Computed(Column[Value_co]):
    """Values that a function computes from those of other columns at each access."""

    __slots__ = ("_columns", "_make")

    def __init__(self, make: Callable[..., Value_co], *columns: Column[Any]) -> None:
        self._make = make
        self._columns = columns

    def values(self, first: int, last: int) -> Iterable[Value_co]:
        """Compute some of the values."""
        return map(self._make, *(column.values(first, last) for column in self._columns))

    def select(self, rows: Rows) -> Computed[Value_co]:
        """Return the column of some of the rows."""
        return type(self)(self._make, *(column.select(rows) for column in self._columns))


class Tuples(Computed[Value_co]):
    """Named tuples with one column for each field; made by position, which takes half the time of making them by name."""

    __slots__ = ()

    def values(self, first: int, last: int) -> Iterable[Value_co]:
        """Make some of the tuples."""
        rows = zip(*[column.values(first, last) for column in self._columns], strict=False)  # `Same` is endless
        return map(partial(tuple.__new__, self._make), rows)  # type: ignore[type-var,arg-type]  # it is a class of tuples


def as_tuple(*values: Any) -> Any:
    """Return the values as a tuple: the function of columns of plain tuples."""
    return values


# The columns of jobs: for each field of a spec and of a job one of its name; where both have one of that name, the spec's is what the
# scheduler is told.
_OF_SPEC: Final = tuple([f"told_{name}" if name in WorkloadJob._fields else name for name in JobSpec._fields])
_OF_TRUTH: Final = tuple([name for name in WorkloadJob._fields[1:] if name != "terms"])
assert WorkloadJob._fields[-1] == "terms"  # whose fields are columns, too
_UNSAID: Final[Mapping[str, Column[Any]]] = {
    **{
        column: Same(JobSpec._field_defaults[name])
        for column, name in zip(_OF_SPEC, JobSpec._fields, strict=True)
        if name in JobSpec._field_defaults
    },
    **{name: Same(value) for name, value in WorkloadJob._field_defaults.items() if name in _OF_TRUTH},
    **{name: Same(value) for name, value in NO_TERMS._asdict().items()},
    "demand": Same(None),
    "logged_us": Same(None),
    "waited_us": Same(-1),
}
_NUMBERS: Final = {*_OF_SPEC, *_OF_TRUTH} - _UNSAID.keys()  # columns that all jobs have
# Columns that fields of a log or a model fill, but for memory.
OF_LOGS: Final = frozenset(
    (
        "id",
        "submit_us",
        "processes",
        "estimate_us",
        "limit_us",
        "run_us",
        "source_id",
        "user",
        "name",
        "queue",
        "partition",
        "group",
        "status",
        "logged_us",
        "waited_us",
    )
)


class Jobs(Sequence[WorkloadJob]):
    """The jobs of a workload by column: the fields of their specs, the scheduler's knowledge in them, and the truth.

    A column that is not given has the field's default.
    """

    # Columns that are used by name.
    id: Numbers
    submit_us: Numbers
    processes: Numbers
    estimate_us: Numbers
    run_us: Numbers
    source_id: Numbers
    limit_us: Column[int | None]
    user: Column[str]
    name: Column[str]
    ppn_min: Column[int]
    ppn_max: Column[int]
    memory_mb: Column[int]
    unpaired: Column[bool]
    told_demand: Column[DemandTuple | None]
    demand: Column[DemandTuple | None]
    usage: Column[UsageTuple | None]
    self_slowdown: Column[SelfSlowdown | None]
    profile: Column[Profile | None]
    partitions: Column[tuple[str, ...]]
    qos: Column[str]
    queue: Column[int]
    partition: Column[int]
    group: Column[int]
    status: Column[int]
    after: Column[tuple[tuple[str, int], ...]]
    cancel_us: Column[int | None]
    logged_us: Column[int | None]  # run time before it was cut to the estimate; no part of a job
    waited_us: Column[int]  # wait that the log records, below 0: unknown; no part of a job

    def __init__(self, **columns: Column[Any]) -> None:
        wrong = (columns.keys() - _UNSAID.keys()) ^ _NUMBERS
        if wrong:
            raise TypeError(f"columns that are missing or unknown: {', '.join(sorted(wrong))}")
        self._columns = {**_UNSAID, **columns}
        vars(self).update(self._columns)
        spec = Tuples(JobSpec, *[self._columns[name] for name in _OF_SPEC])
        terms: list[Column[Any]] = [self._columns[name] for name in Terms._fields]
        values = [column.value for column in terms if isinstance(column, Same)]
        bound = Tuples(Terms, *terms) if len(values) < len(terms) else Same(Terms(*values))
        self._job = Tuples(WorkloadJob, spec, *[self._columns[name] for name in _OF_TRUTH], bound)

    def having(self, **columns: Column[Any]) -> Jobs:
        """Return the jobs with these columns instead of their own."""
        return Jobs(**{**self._columns, **columns})

    def __len__(self) -> int:
        return len(self.id)

    @overload
    def __getitem__(self, index: int) -> WorkloadJob: ...

    @overload
    def __getitem__(self, index: slice) -> Jobs: ...

    def __getitem__(self, index: int | slice) -> WorkloadJob | Jobs:
        if isinstance(index, slice):
            return self.select(index)
        row = range(len(self))[index]
        return next(iter(self._job.values(row, row + 1)))

    def __iter__(self) -> Iterator[WorkloadJob]:
        return self.each(self._job)

    def select(self, rows: Rows) -> Jobs:
        """Return the jobs of some of the rows, with the ids that they have here."""
        return Jobs(**{name: column.select(rows) for name, column in self._columns.items()})

    def __eq__(self, other: object) -> bool:
        """Return whether ``other`` holds the same jobs in the same order, as columns or not."""
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def each(self, column: Column[Value]) -> Iterator[Value]:
        """Yield the values of one of these jobs' columns, or of another column for the same rows."""
        rows = len(self)
        for first in range(0, rows, BLOCK):
            yield from column.values(first, min(first + BLOCK, rows))

    def knows(self, column: Column[Value | None]) -> bool:
        """Return whether any of the values is not None."""
        if isinstance(column, Same | Numbers):
            return self.known(column) > 0
        return any(value is not None for value in self.each(column))

    def known(self, column: Column[Value | None]) -> int:
        """Return the number of values that are not None."""
        if isinstance(column, Same):
            return 0 if column.value is None else len(self)
        if isinstance(column, Numbers):
            return len(self)
        return sum([value is not None for value in self.each(column)])

    def says(self, name: str) -> bool:
        """Return whether a column has any value but None, nothing and 0."""
        column = self._columns[name]
        return bool(column.value) if isinstance(column, Same) else any(self.each(column))

    def usual(self, besides: Collection[str]) -> bool:
        """Return whether all columns but those named are the same for all jobs, with the value of a job that says nothing."""
        usual = {name: column.value for name, column in _UNSAID.items() if isinstance(column, Same)}
        others = [(name, column) for name, column in self._columns.items() if name not in besides]
        return all(
            isinstance(column, Same) and name in usual and column.value == usual[name] for name, column in others
        )

    def work_us(self) -> int:
        """Return the sum of run time x processes, exactly."""
        return _product_sum(self.each(self.run_us), self.each(self.processes))

    def cut_runs(self) -> CutRuns | None:
        """Return what it costs that run times were cut to the estimate; None if none was."""
        if not isinstance(self.logged_us, Numbers):
            return None
        cut = int(np.count_nonzero(self.logged_us.array > self.run_us.array))
        logged_us = _product_sum(self.each(self.logged_us), self.each(self.processes))
        return CutRuns(cut, logged_us, self.work_us()) if cut else None


def _product_sum(left: Iterable[int], right: Iterable[int]) -> int:
    # Whole numbers: a sum of floats would depend on the order of the jobs.
    return sum(map(mul, left, right))


def columns_of(jobs: Sequence[WorkloadJob]) -> Jobs:
    """Return jobs as columns; unchanged if they are columns already."""
    if isinstance(jobs, Jobs):
        return jobs
    specs = [job.spec for job in jobs]
    columns: dict[str, Column[Any]] = {}
    terms = [job.terms for job in jobs]
    for names, rows, first in ((_OF_SPEC, specs, 0), (_OF_TRUTH, jobs, 1), (Terms._fields, terms, 0)):
        for place, name in enumerate(names, first):
            values = map(itemgetter(place), rows)
            if name in _NUMBERS:
                columns[name] = Numbers(np.fromiter(values, dtype=np.int64, count=len(specs)))
            else:
                columns[name] = intern_values(values)
    return Jobs(**columns)
