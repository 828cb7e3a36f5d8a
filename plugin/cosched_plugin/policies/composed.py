"""A scheduler as a composition of parts: queue order x backfill x shape x placement x matching x fairness x slices.

`compose` builds a policy from a plain table, as TOML or the command line give it, and refuses what makes no sense. `catalogue` has the
parts and the named compositions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from itertools import chain
from typing import Any

from cosched_plugin.api import Action, Policy, ResumeJob, UsageError, View, VirtualMachine, started_by
from cosched_plugin.policies.catalogue import ALIASES, DEFAULTS, KINDS, PRESETS, Parameter, Part, Preset, Table
from cosched_plugin.policies.glomarc.grouping import Grouping
from cosched_plugin.policies.orders.history import history
from cosched_plugin.policies.placement.spread import Spread
from cosched_plugin.policies.planning.matching import NoMatching
from cosched_plugin.policies.planning.parts import Backfill, Fairness, Matching, Order, Placement
from cosched_plugin.policies.slices.time_slices import Sliced

__all__ = ["DEFAULTS", "KINDS", "PRESETS", "Composed", "Parameter", "Part", "Preset", "compose", "resolve"]


class Composed:
    """A policy made of parts."""

    __slots__ = ("_backfill", "_matching", "_order", "_placement", "_plain", "_shape", "_shaped")

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
        # Nothing has to be prepared or remembered.
        self._plain = shape is None and not order.remembers and type(self._matching) is NoMatching

    def check(self, view: View) -> None:
        """Raise MachineError if the parts cannot work on this machine."""
        if isinstance(self._placement, Spread):
            self._placement.halves(view)

    def may_start(self, view: View) -> bool:
        """Tell whether any of the waiting jobs has a place on the nodes in service once all running jobs have left."""
        return any(self._placement.earliest(job, view) is not None for job in view.queue)

    def prepare(self, view: View) -> Iterator[Action]:
        """Yield what a pass would put in order first."""
        return self._matching.prepare(view)

    def decide(self, view: View) -> Iterator[Action]:
        """Yield the decisions of one pass."""
        if self._plain and not view.on_disk:
            return self._backfill.decide(view, self._order, self._placement, self._matching)
        if view.on_disk and not isinstance(view, VirtualMachine):
            return chain(_resume_from_disk(view), self._decide(view))
        return self._decide(view)

    def _decide(self, view: View) -> Iterator[Action]:
        if self._shape is not None and not isinstance(view, VirtualMachine):
            if self._shaped is None or self._shaped[0] is not view:
                self._shaped = (view, self._shape(view))
            view = self._shaped[1]
        if not (self._order.remembers or self._matching.remembers):
            return self._pass(view)
        return self._pass_with_history(view)

    def _pass(self, view: View) -> Iterator[Action]:
        matching = self._matching
        return chain(matching.prepare(view), self._backfill.decide(view, self._order, self._placement, matching))

    def _pass_with_history(self, view: View) -> Iterator[Action]:
        """Yield passes, and what to remember of the jobs that each started, which may change the order of the next."""
        while True:
            started: list[int] = []
            for action in self._pass(view):
                yield action
                started += started_by(action)
            if not started:
                return
            yield history(view).plus([view.running[job_id].job for job_id in started], view.wall_us(view.now_us)).note()


class Budgeted:
    """A policy that looks no further once a decision has cost so many units of work; it may leave jobs that would fit."""

    __slots__ = ("_policy", "_units")

    def __init__(self, policy: Policy, units: int) -> None:
        self._policy = policy
        self._units = units

    def decide(self, view: View) -> Iterator[Action]:
        """Yield the decisions of one pass."""
        view.work.begin(self._units)
        return self._policy.decide(view)


def _resume_from_disk(view: View) -> Iterator[Action]:
    """Yield the return from disk of jobs that a policy with time slices has left there, as soon as their threads are free."""
    for job_id in view.on_disk:
        if view.may_resume(view.running[job_id]):
            yield ResumeJob(job_id)


def compose(table: Table) -> Policy:
    """Build the policy that ``resolve`` describes."""
    resolved = resolve(table)
    slices = _build_part("slices", resolved)
    policy: Policy = _build(resolved) if slices is None else Sliced(slices, lambda: _build(resolved))
    units = _build_part("budget", resolved)
    return policy if units is None else Budgeted(policy, units)


def _build(resolved: Mapping[str, Mapping[str, Any]]) -> Composed:
    placement: Placement = _build_part("placement", resolved)
    # Where jobs have whole nodes, one process a core is what they take under any placement.
    spread = placement if isinstance(placement, Spread) else Spread()
    matching: Matching = _build_part("matching", resolved)
    if isinstance(matching, Grouping):
        matching.spread = spread
    fairness: Fairness = _build_part("fairness", resolved)
    matching = fairness.limit(matching, spread)
    return Composed(
        _build_part("order", resolved),
        _build_part("backfill", resolved),
        placement,
        _build_part("shape", resolved),
        matching,
    )


def _build_part(kind: str, resolved: Mapping[str, Mapping[str, Any]]) -> Any:
    """Build one part of a composition."""
    parameters = {key: value for key, value in resolved[kind].items() if key != "name"}
    return KINDS[kind][resolved[kind]["name"]].build(**parameters)


def resolve(table: Table) -> dict[str, dict[str, Any]]:
    """Return the full table of a composition, each part with its name and all its parameters.

    ``table`` may name a ``preset`` to start from; the parts (``order``, ``backfill``, ``shape``, ``placement``,
    ``matching``, ``fairness``, ``slices``, ``budget``) are names, or tables with ``name`` and parameters. Raises
    UsageError naming the key, with the closest valid one.
    """
    for key in table:
        if key != "preset" and key not in KINDS:
            raise UsageError(f"policy.{key}: no such key{_suggest(key, ['preset', *KINDS])}")
    preset = table.get("preset")
    base: dict[str, Any] = dict(DEFAULTS)
    if preset is not None:
        preset = ALIASES.get(preset, preset) if isinstance(preset, str) else preset
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
    spread = placement["name"] == "spread"
    if shape == "nodes" and backfill not in ("none", "easy", "sjbf") and not (backfill == "conservative" and spread):
        raise UsageError(
            "policy: shape nodes works with backfill none, easy and sjbf, and with conservative under placement spread, "
            f"not with {backfill}"
        )
    if shape == "nodes" and not spread and (placement["name"] != "first-fit" or placement["extend_limit"]):
        raise UsageError(
            "policy: shape nodes needs placement spread, or first-fit with extend_limit = false: all free nodes are alike"
        )
    if spread and shape != "nodes":
        raise UsageError("policy: placement spread takes whole nodes and needs shape nodes")
    if spread and matching not in ("none", "group"):
        raise UsageError(f"policy: placement spread works with matching none and group, not with {matching}")
    if matching == "group" and not spread:
        raise UsageError("policy: matching group needs placement spread")
    for layer in ("fairness", "slices"):
        if parts[layer]["name"] != "none" and shape != "nodes":
            raise UsageError(f"policy: {layer} {parts[layer]['name']} plans with whole nodes and needs shape nodes")
    if backfill == "rua" and placement["name"] != "lessconsume":
        raise UsageError(
            f"policy: backfill rua brings thresholds of its own and needs placement lessconsume, not {placement['name']}"
        )
    if backfill == "conservative" and (placement["name"].startswith("lessconsume") or placement.get("extend_limit")):
        raise UsageError(
            "policy: backfill conservative promises starts by estimates; "
            "a placement that stretches run times or waits for better neighbours would break them"
        )


def _suggest(word: str, known: Mapping[str, object] | list[str]) -> str:
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"
