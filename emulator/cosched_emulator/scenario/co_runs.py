"""Tables of measured co-runs of a scenario: as the truth, and as the scheduler's belief with its errors and gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, cast

from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.workload.job import WARNING, Workload
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_hwmodel.draws import uniform
from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.measured import METHODS, Method
from cosched_hwmodel.measured.co_run_table import CoRunTable, TableError, possible, read_table
from cosched_hwmodel.models.measured_pairs import MeasuredPairs, MeasuredRatios
from cosched_hwmodel.units import MARK
from cosched_plugin.protocol.messages import NodeClass

PAIRS = MeasuredPairs.name
_NOISE, _MISSING = "co-run-noise", "co-run-missing"  # purposes of draws


def co_run_table(file: str, path: str) -> CoRunTable:
    """Read a table of co-runs; InputError. ``path`` is the setting that names the file. A learned ratio counts, however uncertain."""
    if not file:
        raise ConfigurationError(path, "a CSV file", "''")
    try:
        table = read_table(file, typed=True)
        return replace(
            table, evidence={}, types={kind: replace(each, evidence={}) for kind, each in table.types.items()}
        )
    except TableError as error:
        raise InputError(error.file, error.expected, error.got, error.line, error.field) from error


def true_pairs(scenario: Scenario) -> MeasuredRatios | None:
    """Return the table of the truth, completed by predictions; None: its contention is another. Raises InputError."""
    if scenario.truth.contention != PAIRS:
        return None
    return _ratios(_true_table(scenario), "truth.pairs")


def believed_pairs(scenario: Scenario, truth: MeasuredRatios | None) -> MeasuredRatios:
    """Return the table of a scheduler that believes in one: the truth's, or its own, with noise and gaps, completed."""
    belief = scenario.belief
    if belief.pairs == "unknown":
        return MeasuredRatios()
    if belief.pair_table is not None:
        table = co_run_table(belief.pair_table, "belief.pair_table")
    elif truth is not None and not belief.pair_noise and not belief.pair_missing:
        return truth
    else:
        table = _true_table(scenario)

    def believed(each: CoRunTable) -> CoRunTable:
        return _with_gaps(_with_noise(each, belief.pair_noise, scenario.seed), belief.pair_missing, scenario.seed)

    return _ratios(_of_each_type(table, believed), "belief.pair_missing", belief.pair_method)


def _of_each_type(table: CoRunTable, change: Callable[[CoRunTable], CoRunTable]) -> CoRunTable:
    if not table.types:
        return change(table)
    return replace(table, types={kind: change(each) for kind, each in table.types.items()})


# So many jobs of an application can be on a node at a time, which can be on one at all.
_ANY_NUMBER: Final = 1 << 20
Pairs: TypeAlias = frozenset[tuple[str, str]]


def on_nodes(
    scenario: Scenario, nodes: Sequence[NodeClass], names: Sequence[str]
) -> tuple[tuple[NodeClass, ...], frozenset[str]]:
    """Return the nodes with their types, where the true table has some, and with who is never together on them; and all of these.

    Who is never together is a fact of the site, whatever its scheduler believes. ``names`` are those of the classes of nodes.
    Raises ConfigurationError for nodes of another type than the table's.
    """
    tables = _true_table(scenario).by_type
    for name in names if "" not in tables else ():
        if name not in tables:
            expected = f"nodes of the types in its column 'type': {', '.join(tables)}"
            raise ConfigurationError("truth.pairs", expected, f"nodes with the name {name!r} (name in [[nodes]])")
    never = {kind: frozenset([(min(pair), max(pair)) for pair in table.never]) for kind, table in tables.items()}
    apart = frozenset([name for pairs in never.values() for pair in pairs for name in pair])
    found = []
    for item, name in zip(nodes, names, strict=True):
        kind = "" if "" in tables else name
        found.append(
            _with_apart(item._replace(type=kind), never[kind], sorted(apart)) if apart else item._replace(type=kind)
        )
    return tuple(found), apart


def _with_apart(item: NodeClass, never: Pairs, names: Sequence[str]) -> NodeClass:
    """Return nodes with a mark for the jobs of each of these applications, and the marks that are never together."""
    marks = tuple([(MARK + name, 1 if (name, name) in never else _ANY_NUMBER) for name in names])
    apart = tuple([(MARK + one, MARK + other) for one, other in sorted(never) if one != other])
    return item._replace(resources=(*item.resources, *marks), apart=apart)


def jobs_without_ratios(truth: MeasuredRatios, workload: Workload) -> str | None:
    """Return a note of the jobs that are no application of the truth's table; None if there are none."""
    if not len(workload.jobs):
        return None
    jobs, known = columns_of(workload.jobs), frozenset(truth.applications)
    without = sum(name not in known for name in jobs.each(jobs.name))
    if not without:
        return None
    text = f"{without} of {len(jobs)} jobs are no application of the table in truth.pairs: nothing slows them down"
    return f"{WARNING}{text}" if without == len(jobs) else text


def _true_table(scenario: Scenario) -> CoRunTable:
    if scenario.truth.pairs is None:
        raise ConfigurationError("truth.pairs", "a CSV file with a table of measured co-runs (--pairs FILE)", "none")
    return co_run_table(scenario.truth.pairs, "truth.pairs")


def _ratios(table: CoRunTable, path: str, method: str = METHODS[0]) -> MeasuredRatios:
    if not (table.ratios or table.types):
        return MeasuredRatios()
    from cosched_hwmodel.measured.calibration import completed  # noqa: PLC0415 - few scenarios have a table

    try:
        return MeasuredRatios.of_table(_of_each_type(table, lambda each: completed(each, cast("Method", method))))
    except HardwareModelError as error:
        raise ConfigurationError(path, "a possible table of co-runs", str(error)) from error


def _with_noise(table: CoRunTable, noise: float, seed: int) -> CoRunTable:
    """Return the table with each ratio multiplied by 1 + noise x u, u uniform in [-1, 1) and drawn for each ordered pair."""
    if not noise:
        return table
    place = {name: index for index, name in enumerate(table.applications)}

    def shaken(ratio: float, first: str, second: str) -> float:
        # A spread is drawn as the pair of an application with a last one, which no pair has.
        draw = uniform(seed, _NOISE, place[first], place.get(second, len(place)))
        return possible(ratio * (1 + noise * (2 * draw - 1)))

    return replace(
        table,
        ratios={pair: shaken(ratio, *pair) for pair, ratio in table.ratios.items()},
        spreads={name: shaken(ratio, name, "") for name, ratio in table.spreads.items()},
    )


def _with_gaps(table: CoRunTable, share: float, seed: int) -> CoRunTable:
    """Return the table without the pairs that are drawn as missing, in both directions."""
    if not share:
        return table
    place = {name: index for index, name in enumerate(table.applications)}
    kept = {
        (one, other): ratio
        for (one, other), ratio in table.ratios.items()
        if uniform(seed, _MISSING, *sorted((place[one], place[other]))) >= share
    }
    return replace(table, ratios=kept)
