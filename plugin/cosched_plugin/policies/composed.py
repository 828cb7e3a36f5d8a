"""A scheduler as a composition of parts: queue order x backfill x placement.

The tables below are the whole catalogue: the parts by name, with the parameters they take, and the named compositions with the
papers' names. `compose` builds a policy from a plain table, as TOML or the command line give it, and refuses what makes no sense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from cosched_plugin.api import Action, UsageError, View
from cosched_plugin.policies.conservative import Conservative
from cosched_plugin.policies.easy import Backfill, Easy, NoBackfill, Sjbf
from cosched_plugin.policies.lessconsume import LessConsume
from cosched_plugin.policies.orders import Fcfs, Order, Shortest
from cosched_plugin.policies.placements import FirstFit, Packed, Placement
from cosched_plugin.policies.rua import PAPER_THRESHOLDS, Rua

Table = Mapping[str, Any]


class Parameter(NamedTuple):
    """A setting of a part: what it accepts, what it is by default, what it means."""

    check: Callable[[object], bool]
    expected: str
    default: object
    text: str


class Part(NamedTuple):
    """A part of a composition by name."""

    build: Callable[..., Any]
    text: str
    parameters: Mapping[str, Parameter] = {}


def _is_factor(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1.0 <= value < float("inf")


def _is_factors(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(_is_factor(item) for item in value)


def _extend(default: bool) -> Parameter:
    return Parameter(
        lambda value: isinstance(value, bool),
        "true or false",
        default,
        "multiply estimate and limit by the penalty factor expected at the start",
    )


ORDERS: Mapping[str, Part] = {
    "fcfs": Part(Fcfs, "first come, first served"),
    "shortest": Part(Shortest, "shortest estimate first"),
}
BACKFILLS: Mapping[str, Part] = {
    "none": Part(NoBackfill, "start in queue order until one does not fit"),
    "easy": Part(Easy, "one reservation, for the head; others in queue order"),
    "sjbf": Part(Sjbf, "one reservation, for the head; others shortest first"),
    "conservative": Part(Conservative, "a promised start for every job, compressed when jobs end early"),
    "rua": Part(
        Rua,
        "one reservation; places with the least expected slowdown, jobs that lose least first",
        {
            "thresholds": Parameter(
                _is_factors, "a list of numbers >= 1", list(PAPER_THRESHOLDS), "penalty factors to try for every job"
            )
        },
    ),
}
PLACEMENTS: Mapping[str, Part] = {
    "first-fit": Part(FirstFit, "lowest free threads", {"extend_limit": _extend(False)}),
    "packed": Part(Packed, "nodes with the fewest free threads first", {"extend_limit": _extend(False)}),
    "lessconsume": Part(LessConsume, "least penalty factor at the same start", {"extend_limit": _extend(True)}),
    "lessconsume-threshold": Part(
        LessConsume,
        "first start with a penalty factor within the threshold",
        {
            "threshold": Parameter(_is_factor, "a number >= 1", 1.15, "largest penalty factor accepted"),
            "extend_limit": _extend(True),
        },
    ),
}
KINDS: Mapping[str, Mapping[str, Part]] = {"order": ORDERS, "backfill": BACKFILLS, "placement": PLACEMENTS}


class Preset(NamedTuple):
    """A named composition."""

    text: str
    table: Table


PRESETS: Mapping[str, Preset] = {
    "fcfs": Preset("first come, first served, no backfilling", {"backfill": "none"}),
    "easy": Preset("EASY backfilling", {"backfill": "easy"}),
    "sjbf": Preset("shortest-job-backfilled-first", {"backfill": "sjbf"}),
    "conservative": Preset("conservative backfilling with compression", {"backfill": "conservative"}),
    "lc": Preset("SJBF with LessConsume", {"backfill": "sjbf", "placement": "lessconsume"}),
    "lct": Preset("SJBF with LessConsume Threshold", {"backfill": "sjbf", "placement": "lessconsume-threshold"}),
    "rua": Preset("Resource-Usage-Aware backfilling", {"backfill": "rua", "placement": "lessconsume"}),
}
DEFAULTS: Table = {"order": "fcfs", "backfill": "easy", "placement": "first-fit"}


class Composed:
    """A policy made of parts."""

    __slots__ = ("_backfill", "_order", "_placement")

    def __init__(self, order: Order, backfill: Backfill, placement: Placement) -> None:
        self._order = order
        self._backfill = backfill
        self._placement = placement

    def decide(self, view: View) -> Iterator[Action]:
        """Yield the decisions of one pass."""
        return self._backfill.decide(view, self._order, self._placement)


def compose(table: Table) -> Composed:
    """Build the policy that ``resolve`` describes."""
    parts = {}
    for kind, entry in resolve(table).items():
        parameters = {key: value for key, value in entry.items() if key != "name"}
        parts[kind] = KINDS[kind][entry["name"]].build(**parameters)
    return Composed(parts["order"], parts["backfill"], parts["placement"])


def resolve(table: Table) -> dict[str, dict[str, Any]]:
    """Return the full table of a composition, each part with its name and all its parameters.

    ``table`` may name a ``preset`` to start from; ``order``, ``backfill`` and ``placement`` are names, or tables with ``name``
    and parameters. Raises UsageError naming the key, with the closest valid one.
    """
    for key in table:
        if key != "preset" and key not in KINDS:
            raise UsageError(f"policy.{key}: no such key{_suggest(key, ['preset', *KINDS])}")
    preset = table.get("preset")
    base: dict[str, Any] = dict(DEFAULTS)
    if preset is not None:
        if not isinstance(preset, str) or preset not in PRESETS:
            raise UsageError(f"policy.preset: no policy {preset!r}{_suggest(str(preset), PRESETS)}")
        base |= PRESETS[preset].table
    resolved = {kind: _resolve_part(kind, table.get(kind, {}), base[kind]) for kind in KINDS}
    _refuse_nonsense(resolved)
    return resolved


def _resolve_part(kind: str, entry: object, default: str) -> dict[str, Any]:
    if isinstance(entry, str):
        entry = {"name": entry}
    if not isinstance(entry, Mapping):
        raise UsageError(f"policy.{kind}: expected a name or a table, got {entry!r}")
    name = entry.get("name", default)
    part = KINDS[kind].get(name) if isinstance(name, str) else None
    if part is None:
        raise UsageError(f"policy.{kind}: no {kind} {name!r}{_suggest(str(name), KINDS[kind])}")
    resolved: dict[str, Any] = {"name": name}
    for key in entry:
        if key != "name" and key not in part.parameters:
            raise UsageError(
                f"policy.{kind}.{key}: {kind} {name} has no such parameter{_suggest(key, part.parameters)}"
            )
    for key, parameter in part.parameters.items():
        value = entry.get(key, parameter.default)
        if not parameter.check(value):
            raise UsageError(f"policy.{kind}.{key}: expected {parameter.expected}, got {value!r}")
        resolved[key] = value
    return resolved


def _refuse_nonsense(parts: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise UsageError for combinations that cannot keep what their parts promise."""
    backfill, placement = parts["backfill"]["name"], parts["placement"]
    if backfill == "rua" and placement["name"] != "lessconsume":
        raise UsageError(
            f"policy: backfill rua brings thresholds of its own and needs placement lessconsume, not {placement['name']}"
        )
    if backfill == "conservative" and (placement["name"].startswith("lessconsume") or placement["extend_limit"]):
        raise UsageError(
            "policy: backfill conservative promises starts by estimates; "
            "a placement that stretches run times or waits for better neighbours would break them"
        )


def _suggest(word: str, known: Mapping[str, object] | list[str]) -> str:
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"
