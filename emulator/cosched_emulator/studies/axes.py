"""The axes of a study: one table that the experiment's reader, the cells, the tables of results and ``study plot`` read."""

from __future__ import annotations

from typing import Final, NamedTuple


class Axis(NamedTuple):
    """One axis of an experiment."""

    column: str  # in the table of results, and behind ``study plot --x``
    values: str  # what the experiment's file gives for it
    drawn: bool = True  # whether a picture can have it as its x axis
    settings: bool = False  # its values may have ``set``, settings of the policy
    believed: bool = False  # what policies know: a baseline does not act on it
    number: type[int] | type[float] | None = None  # where its values are numbers, in a database and a picture


# By key of an experiment, from the outermost to the innermost: the order of the rows of a study's table.
AXES: Final[dict[str, Axis]] = {
    "workloads": Axis(
        "workload",
        "tables with a `name` and sections of a scenario that replace the common keys, such as "
        '`workload = {swf = "CTC.swf.gz"}`',
    ),
    "loads": Axis(
        "load", "a list of offered loads, 0.9 for 90 %; each sets [`workload.load`](../swf.md)", number=float
    ),
    "hardware": Axis("hardware", "as of `workloads`"),
    "beliefs": Axis("belief", "as of `workloads`", believed=True),
    "variants": Axis("variant", "as of `workloads`, and `set`: settings on top of every policy's", settings=True),
    "policies": Axis(
        "policy",
        "names of policies, or tables with `name`, `policy` (preset, `FILE.toml`, `MODULE:CLASS`) and `set`: settings, as "
        "a table or a list of texts as after `--set`",
        drawn=False,
        settings=True,
    ),
    "seeds": Axis("seed", 'a list of numbers, or a text such as `"1-10"`', drawn=False, number=int),
}
COLUMNS: Final = {key: axis.column for key, axis in AXES.items()}
NUMBERS: Final = {axis.column: axis.number for axis in AXES.values() if axis.number is not None}
BELIEVED: Final = tuple(key for key, axis in AXES.items() if axis.believed)
DRAWN: Final = tuple(axis.column for axis in AXES.values() if axis.drawn)
