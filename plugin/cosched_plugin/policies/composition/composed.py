"""A scheduler as a composition of parts: queue order x backfill x shape x placement x matching x fairness x slices x budget.

`compose` builds a policy from a plain table; `resolved` says what a table means, `catalogue` which parts there are.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import chain
from typing import cast

from cosched_plugin.api import (
    FOOTPRINTS,
    Action,
    Backfill,
    Budget,
    Changes,
    Context,
    Fairness,
    Matching,
    NodePlacement,
    Order,
    Part,
    Placement,
    Policy,
    ResumeJob,
    SetNote,
    Shape,
    Slices,
    View,
    started_by,
)
from cosched_plugin.policies.composition.presets import Table
from cosched_plugin.policies.composition.resolved import Resolved, build_part, resolve
from cosched_plugin.policies.placement.spread import Spread


class Composed:
    """A policy made of parts; ``shape`` is None where the view has its shape already: that of a class in time slices."""

    __slots__ = (
        "_backfill",
        "_context",
        "_matching",
        "_order",
        "_parts",
        "_placement",
        "_plain",
        "_remember_by",
        "_shape",
        "_view",
    )

    def __init__(
        self,
        order: Order,
        backfill: Backfill,
        placement: Placement,
        matching: Matching,
        shape: Shape | None,
        besides: tuple[Part, ...] = (),
    ) -> None:
        """``besides``: further parts of the composition, which may remember something."""
        self._order = order
        self._backfill = backfill
        self._placement = placement
        self._matching = matching
        self._shape = shape
        self._view: View | None = None  # that the context is for
        self._context: Context
        parts: tuple[Part, ...] = (order, backfill, placement, matching, *besides)
        self._parts = parts
        self._remember_by = {part.note: part for part in reversed(parts) if part.note}
        self._plain = matching.alone and not self._remember_by  # nothing has to be prepared or remembered

    def check(self, view: View) -> None:
        """Raise MachineError if the parts cannot work on this machine."""
        for part in self._parts:
            part.check(view)

    def observe(self, view: View) -> Iterator[Action]:
        """Yield what parts remember of the jobs that have ended or were requeued in this batch."""
        return self._remember(Changes((), view.ended), view)

    def may_start(self, view: View) -> bool:
        """Tell whether any pending job has a place on the nodes in service once all running jobs have left."""
        return any(self._placement.earliest(job, view) is not None for job in view.queue)

    def prepare(self, view: View) -> Iterator[Action]:
        """Yield what a pass would put in order first."""
        return self._matching.prepare(self._context_of(view))

    def decide(self, view: View) -> Iterator[Action]:
        """Yield the decisions of one pass."""
        context = self._context if self._view is view else self._context_of(view)
        if self._shape is not None and view.on_disk:
            return chain(_resume_from_disk(view), self._passes(context))
        if self._plain:
            return self._backfill.decide(context)
        return self._passes(context)

    def _context_of(self, view: View) -> Context:
        if self._view is not view:
            shaped = view if self._shape is None else self._shape.shaped(view)
            placement = self._placement
            # Where jobs have whole nodes, one process a core is what they take under any other placement.
            footprints = cast(NodePlacement, placement) if FOOTPRINTS in placement.provides else Spread()
            self._context = Context(shaped, self._order, placement, self._matching, footprints)
            self.check(shaped)
            self._view = view
        return self._context

    def _passes(self, context: Context) -> Iterator[Action]:
        return self._remembered_passes(context) if self._remember_by else self._pass(context)

    def _pass(self, context: Context) -> Iterator[Action]:
        return chain(self._matching.prepare(context), self._backfill.decide(context))

    def _remembered_passes(self, context: Context) -> Iterator[Action]:
        """Yield passes, and what parts remember of the jobs that each started, as long as that may change the next."""
        view = context.view
        if self._shape is not None and view.ended:  # of a class in time slices, the layer above sees to it
            yield from self.observe(view)
        while True:
            started: list[int] = []
            for action in self._pass(context):
                yield action
                started += started_by(action)
            if not started:
                return
            changes = Changes([view.running[job_id].job for job_id in started], ())
            if not (yield from self._remember(changes, view)):
                return

    def _remember(self, changes: Changes, view: View) -> Generator[Action, None, bool]:
        """Yield the notes that change, and tell whether any did."""
        changed = False
        for key, part in self._remember_by.items():
            value = part.remember(changes, view)
            if value != view.note(None, key):
                changed = True
                yield SetNote(None, key, value)
        return changed


class Budgeted:
    """A policy that looks no further once a decision has cost so many units of work; it may leave jobs that would fit."""

    __slots__ = ("_budget", "_policy")

    def __init__(self, policy: Policy, budget: Budget) -> None:
        self._policy = policy
        self._budget = budget

    def decide(self, view: View) -> Iterator[Action]:
        """Yield the decisions of one pass."""
        view.work.begin(self._budget.units(view))
        return self._policy.decide(view)


def _resume_from_disk(view: View) -> Iterator[Action]:
    """Yield the return from disk of jobs that a policy with time slices has left there, as soon as their threads are free."""
    for job_id in view.on_disk:
        if view.may_resume(view.running[job_id]):
            yield ResumeJob(job_id)


def compose(table: Table) -> Policy:
    """Build the policy that a table describes (`resolve`)."""
    resolved = resolve(table)
    slices: Slices | None = build_part("slices", resolved)
    budget: Budget | None = build_part("budget", resolved)
    besides = () if budget is None else (budget,)
    if slices is None:
        policy: Policy = _build(resolved, build_part("shape", resolved), besides)
    else:
        policy = slices.divide(lambda: _build(resolved, None, besides))
    return policy if budget is None else Budgeted(policy, budget)


def _build(resolved: Resolved, shape: Shape | None, besides: tuple[Part, ...]) -> Composed:
    matching: Matching = build_part("matching", resolved)
    fairness: Fairness = build_part("fairness", resolved)
    return Composed(
        build_part("order", resolved),
        build_part("backfill", resolved),
        build_part("placement", resolved),
        fairness.limit(matching),
        shape,
        (fairness, *besides) if shape is None else (fairness, shape, *besides),
    )
