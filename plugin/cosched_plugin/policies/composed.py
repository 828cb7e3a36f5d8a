"""A scheduler as a composition of parts: queue order x backfill x shape x placement x matching.

The tables below are the whole catalogue: the parts by name, with the parameters they take, and the named compositions with the
papers' names. `compose` builds a policy from a plain table, as TOML or the command line give it, and refuses what makes no sense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from cosched_plugin.api import Action, UsageError, View, WholeNodesView, started_by
from cosched_plugin.policies.conservative import Conservative
from cosched_plugin.policies.easy import Backfill, Easy, NoBackfill, Sjbf
from cosched_plugin.policies.history import history
from cosched_plugin.policies.lessconsume import LessConsume
from cosched_plugin.policies.lookahead import FUTURES, HEURISTICS, Lookahead
from cosched_plugin.policies.matching import Adjacent, Always, Matching, NoMatching
from cosched_plugin.policies.orders import ClassPriority, Fcfs, Order, Shortest
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


def _is_number(low: float, high: float) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


ORDERS: Mapping[str, Part] = {
    "fcfs": Part(Fcfs, "first come, first served"),
    "shortest": Part(Shortest, "shortest estimate first"),
    "class-priority": Part(
        ClassPriority,
        "short, medium, long jobs; who waits rises",
        {
            "age_s": Parameter(
                _is_number(0, 1e9), "seconds, 0 or more", 0.0, "wait that lifts a job by a class; 0: the mean wait"
            )
        },
    ),
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
SHAPES: Mapping[str, Part] = {
    "threads": Part(lambda: None, "a job takes free hardware threads, wherever they are"),
    "nodes": Part(lambda: WholeNodesView, "a job takes nodes that nobody is on, one process a core"),
}
_MATCHING: Mapping[str, Parameter] = {
    "max_slowdown": Parameter(_is_factor, "a number >= 1", 1.6, "largest slowdown of a pair"),
    "cpu": Parameter(
        lambda value: value in ("hyperthreaded", "standard"),
        "hyperthreaded or standard",
        "hyperthreaded",
        "standard: the CPU is time-shared, only cpu-bound and disk-bound jobs match",
    ),
    "weak_load": Parameter(
        _is_number(0, 1),
        "a number from 0 to 1",
        0.2,
        "no match while the queue asks for no more than the free nodes less this share",
    ),
}
_FUTURE: Mapping[str, Mapping[str, Parameter]] = {
    "response": {
        "future": Parameter(
            lambda value: value in FUTURES,
            ", ".join(FUTURES[:-1]) + f" or {FUTURES[-1]}",
            FUTURES[0],
            "expected arrivals that count: medium and long ones, all, or none",
        )
    },
}
_LOOKAHEAD: Mapping[str, str] = {
    "first": "the first match in the queue, or among running jobs",
    "u1": "the match with the highest utilisation gain, over the time that is shared",
    "u2": "the match with the highest utilisation gain, whatever the run times",
    "response": "the match with the best impact on response times",
}
MATCHINGS: Mapping[str, Part] = {
    "none": Part(NoMatching, "every job alone"),
    "always": Part(Always, "a job and the next in the queue, whatever they are"),
    "adjacent": Part(Adjacent, "a job and the next in the queue, if they match", _MATCHING),
    **{
        name: Part(partial(Lookahead, name), _LOOKAHEAD[name], {**_MATCHING, **_FUTURE.get(name, {})})
        for name in HEURISTICS
    },
}
KINDS: Mapping[str, Mapping[str, Part]] = {
    "order": ORDERS,
    "backfill": BACKFILLS,
    "shape": SHAPES,
    "placement": PLACEMENTS,
    "matching": MATCHINGS,
}


class Preset(NamedTuple):
    """A named composition."""

    text: str
    table: Table


_LOMARC: Table = {"order": "class-priority", "backfill": "easy", "shape": "nodes"}
PRESETS: Mapping[str, Preset] = {
    "fcfs": Preset("first come, first served, no backfilling", {"backfill": "none"}),
    "easy": Preset("EASY backfilling", {"backfill": "easy"}),
    "sjbf": Preset("shortest-job-backfilled-first", {"backfill": "sjbf"}),
    "conservative": Preset("conservative backfilling with compression", {"backfill": "conservative"}),
    "lc": Preset("SJBF with LessConsume", {"backfill": "sjbf", "placement": "lessconsume"}),
    "lct": Preset("SJBF with LessConsume Threshold", {"backfill": "sjbf", "placement": "lessconsume-threshold"}),
    "rua": Preset("Resource-Usage-Aware backfilling", {"backfill": "rua", "placement": "lessconsume"}),
    "pss": Preset("space sharing by class priority", _LOMARC),
    "ac": Preset("coscheduling of whoever comes next", {**_LOMARC, "matching": "always"}),
    "am": Preset("coscheduling of neighbours in the queue", {**_LOMARC, "matching": "adjacent"}),
    "lomarc-fm": Preset("LOMARC, first match", {**_LOMARC, "matching": "first"}),
    "lomarc-u1": Preset("LOMARC, utilisation gain by time", {**_LOMARC, "matching": "u1"}),
    "lomarc-u2": Preset("LOMARC, utilisation gain", {**_LOMARC, "matching": "u2"}),
    "lomarc-r": Preset("LOMARC, response times", {**_LOMARC, "matching": "response"}),
    "lomarc-n": Preset("LOMARC on standard CPUs", {**_LOMARC, "matching": {"name": "u1", "cpu": "standard"}}),
}
DEFAULTS: Table = {
    "order": "fcfs",
    "backfill": "easy",
    "shape": "threads",
    "placement": "first-fit",
    "matching": "none",
}


class Composed:
    """A policy made of parts."""

    __slots__ = ("_backfill", "_matching", "_order", "_placement", "_shape", "_shaped")

    def __init__(
        self,
        order: Order,
        backfill: Backfill,
        placement: Placement,
        shape: Callable[[View], View] | None = None,
        matching: Matching | None = None,
    ) -> None:
        """``shape`` turns the plain view into the one to plan with; None: as it is."""
        self._order = order
        self._backfill = backfill
        self._placement = placement
        self._shape = shape
        self._shaped: tuple[View, View] | None = None  # the plain view, and what the shape made of it
        self._matching = matching or NoMatching()

    def decide(self, view: View) -> Iterator[Action]:
        """Yield the decisions of one pass."""
        if self._shape is not None:
            if self._shaped is None or self._shaped[0] is not view:
                self._shaped = (view, self._shape(view))
            view = self._shaped[1]
        if not (self._order.remembers or self._matching.remembers):
            return self._pass(view)
        return self._remembering(view)

    def _pass(self, view: View) -> Iterator[Action]:
        matching = self._matching
        return chain(matching.prepare(view), self._backfill.decide(view, self._order, self._placement, matching))

    def _remembering(self, view: View) -> Iterator[Action]:
        """Yield passes, and what to remember of the jobs that each started, which may change the order of the next."""
        while True:
            started: list[int] = []
            for action in self._pass(view):
                yield action
                started += started_by(action)
            if not started:
                return
            yield history(view).plus([view.running[job_id].job for job_id in started], view.now_us).note()


def compose(table: Table) -> Composed:
    """Build the policy that ``resolve`` describes."""
    parts = {}
    for kind, entry in resolve(table).items():
        parameters = {key: value for key, value in entry.items() if key != "name"}
        parts[kind] = KINDS[kind][entry["name"]].build(**parameters)
    return Composed(parts["order"], parts["backfill"], parts["placement"], parts["shape"], parts["matching"])


def resolve(table: Table) -> dict[str, dict[str, Any]]:
    """Return the full table of a composition, each part with its name and all its parameters.

    ``table`` may name a ``preset`` to start from; the parts (``order``, ``backfill``, ``shape``, ``placement``, ``matching``) are
    names, or tables with ``name`` and parameters. Raises UsageError naming the key, with the closest valid one.
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


def _resolve_part(kind: str, entry: object, base: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return a part's table; what ``entry`` leaves open is as in ``base``, if that is the same part."""
    if isinstance(entry, str):
        entry = {"name": entry}
    if not isinstance(entry, Mapping):
        raise UsageError(f"policy.{kind}: expected a name or a table, got {entry!r}")
    below = {"name": base} if isinstance(base, str) else base
    name = entry.get("name", below["name"])
    if name == below["name"]:
        entry = {**below, **entry}
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
    shape, matching = parts["shape"]["name"], parts["matching"]["name"]
    if matching != "none" and shape != "nodes":
        raise UsageError(
            f"policy: matching {matching} puts a partner beside a job that has its nodes to itself and needs shape nodes"
        )
    if shape == "nodes" and backfill not in ("none", "easy", "sjbf"):
        raise UsageError(f"policy: shape nodes works with backfill none, easy and sjbf, not with {backfill}")
    if shape == "nodes" and (placement["name"] != "first-fit" or placement["extend_limit"]):
        raise UsageError(
            "policy: shape nodes needs placement first-fit with extend_limit = false: all free nodes are alike"
        )
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
