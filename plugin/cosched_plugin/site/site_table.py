"""Files in which sites describe themselves to an adapter: tables in TOML whose keys are taken once, and what all of them have.

A wrong file ends in one line: the file, the table, the key, what was expected, and what was there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from reprlib import repr as short_repr  # a comment of a job may be long, or deeply nested
from typing import TYPE_CHECKING, Any, Final

from cosched_hwmodel.text_formats import read_toml
from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.slurm_notation import expand
from cosched_plugin.protocol.messages import Belief
from cosched_plugin.protocol.values import frozen

if TYPE_CHECKING:
    from cosched_hwmodel.measured.co_run_table import CoRunTable

MOST_AMOUNT: Final = 1 << 40


class Table:
    """A table of a file, each of whose keys is taken once; `end` refuses those that were not. All raise UsageError."""

    def __init__(self, path: str, content: Any) -> None:
        """``path`` names the file, and the table in it."""
        if not isinstance(content, Mapping):
            raise UsageError(f"{path}: expected a table, got {short_repr(content)}")
        self.path = path
        self._left = dict(content)
        self._inner: list[Table] = []

    def wrong(self, key: str, expected: str, value: object) -> UsageError:
        """Return the error for a value."""
        return UsageError(f"{self.path}: {key}: expected {expected}, got {short_repr(value)}")

    def names(self) -> Sequence[str]:
        """Return the keys that have not been taken."""
        return list(self._left)

    def every(self) -> dict[str, Any]:
        """Take all values, which others check."""
        found, self._left = self._left, {}
        return found

    def take(self, key: str, default: Any = None) -> Any:
        """Take a value of any form."""
        return self._left.pop(key, default)

    def text(self, key: str, default: str) -> str:
        """Take a text."""
        value = self.take(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, "a text", value)
        return value

    def nodes(self, key: str) -> frozenset[str]:
        """Take a list of nodes, such as n[0-3,7]."""
        value = self.text(key, "")
        try:
            return frozenset(expand(value))
        except ValueError as error:
            raise self.wrong(key, f"nodes such as n[0-3,7] ({error})", value) from error

    def texts(self, key: str) -> Sequence[str]:
        """Take a list of texts."""
        value = self.take(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(key, "a list of texts", value)
        return value

    def flag(self, key: str) -> bool | None:
        """Take true or false; None where it is missing."""
        value = self.take(key)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(key, "true or false", value)
        return value

    def number(self, key: str, default: float, least: float, most: float) -> float:
        """Take a number."""
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise self.wrong(key, f"a number from {least:g} to {most:g}", value)
        return float(value)

    def whole(self, key: str, default: int, least: int, most: int) -> int:
        """Take a whole number."""
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(key, f"a whole number from {least} to {most}", value)
        return value

    def table(self, key: str) -> Table:
        """Take a table, which may be missing."""
        inner = Table(f"{self.path}: {key}", self.take(key, {}))
        self._inner.append(inner)
        return inner

    def tables(self, key: str) -> Sequence[Table]:
        """Take a list of tables."""
        value = self.take(key, [])
        if not isinstance(value, list):
            raise self.wrong(key, f"tables [[{key}]]", value)
        found = [Table(f"{self.path}: {key} {number}", item) for number, item in enumerate(value, 1)]
        self._inner.extend(found)
        return found

    def has(self, key: str) -> bool:
        """Tell whether a key is there, and has not been taken."""
        return key in self._left

    def end(self) -> None:
        """Refuse what has not been taken, here and in the tables below."""
        for key in self._left:
            raise UsageError(f"{self.path}: no such key {key!r}")
        for inner in self._inner:
            inner.end()


def table_of(file: str) -> Table:
    """Return the whole of a file."""
    try:
        return Table(file, read_toml(file))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file}: not a TOML file: {error}") from error


def amounts_in(table: Table, names: Sequence[str]) -> dict[str, int]:
    """Take those of some amounts that are there."""
    return {name: table.whole(name, 0, 0, MOST_AMOUNT) for name in names if table.has(name)}


def belief_in(table: Table, file: str) -> Belief:
    """Take what a site believes about contention; nothing where the table is empty. ``file``: the site's, beside which a table lies."""
    pairs = table.text("table", "")
    contention = table.text("contention", "pairs" if pairs else "none")
    if pairs and contention != "pairs":
        raise table.wrong("contention", "pairs, or nothing, beside a table of co-runs", contention)
    parameters = table.take("parameters", {})
    if not isinstance(parameters, Mapping):
        raise table.wrong("parameters", "a table", parameters)
    if pairs:
        parameters = {**_pairs_in(Path(file).parent / pairs), **parameters}
    return Belief(
        contention,
        table.text("composition", "bulk-synchronous"),
        tuple(table.texts("resources")),
        tuple((key, frozen(value)) for key, value in parameters.items()),
    )


def co_runs_in(file: Path) -> CoRunTable:
    """Return a table of co-runs; UsageError names the file and the line."""
    from cosched_hwmodel.measured.co_run_table import TableError, read_table  # noqa: PLC0415 - few sites have a table

    try:
        return read_table(file)
    except TableError as error:
        raise UsageError(str(error)) from error


def _pairs_in(file: Path) -> dict[str, object]:
    """Return the parameters of a belief in a table of co-runs: of more applications than a message holds, those in most pairs."""
    from cosched_hwmodel.models.measured_pairs import MOST_APPLICATIONS, MeasuredRatios  # noqa: PLC0415 - likewise

    table = co_runs_in(file)
    # Who writes a table by hand counts from the job alone. Of a table without any spread the model would take the least ratio of a row
    # for that: a job's only pair would cost nothing. A ratio below 1 shows that the table counts from something else.
    rows = dict.fromkeys(name for name, _ in table.ratios)
    counts_from_alone = not table.spreads and min(table.ratios.values()) >= 1.0
    unknown = [name for name in rows if name not in table.spreads]
    if unknown and not counts_from_alone:
        raise UsageError(
            f"{file}: field 'spread': expected the time of {unknown[0]} alone, to which its ratios refer (1: from alone), got none"
        )
    pairs = Counter(name for pair in table.trusted for name in pair)
    names = sorted(name for name, _ in pairs.most_common(MOST_APPLICATIONS))
    spreads = dict.fromkeys(rows, 1.0) if counts_from_alone else table.spreads
    return dict(MeasuredRatios.of_table(replace(table, applications=tuple(names), spreads=spreads)).parameters())
