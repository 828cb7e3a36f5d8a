"""A scheduler as a composition: order, backfill, shape, placement, matching, pairing, fairness, slices, budget, belief, ledger.

`compose` builds a policy from a plain table; `resolved` defines what a table means, `catalogue` lists the parts.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import Any, Final, cast

from cosched_plugin import api
from cosched_plugin.policies.composition.catalogue import KINDS
from cosched_plugin.policies.composition.part_settings import at
from cosched_plugin.policies.composition.presets import Table
from cosched_plugin.policies.composition.resolved import Resolved, build_part, resolve
from cosched_plugin.policies.planning.reservation import rejection

# Policies that start jobs in slot 0 only, on machines where another policy has left jobs in other slots, or a rotation.


class OneSlot:
    """A policy that knows nothing of slots.

    Jobs that another policy has left in other slots keep turns of their own until they have ended. Then slot 0 runs all the time.
    """

    __slots__ = ("_policy",)

    def __init__(self, policy: api.Policy) -> None:
        self._policy = policy

    def at_site(self, view: api.View) -> api.Policy:
        """Return the policy itself where there are no slots: asking at each decision takes a fiftieth of a simulation under EASY."""
        return self if view.quantum_us else self._policy

    def decide(self, view: api.View) -> Iterator[api.Action]:
        """Yield the decisions of one pass."""
        return _with_turns(self._policy, view) if view.quantum_us else self._policy.decide(view)


def _with_turns(policy: api.Policy, view: api.View) -> Iterator[api.Action]:
    yield from _own_turns(view)  # first: no job may be paired with one that the policy starts
    yield from policy.decide(view)
    yield from _own_turns(view)


def _own_turns(view: api.View) -> Iterator[api.Action]:
    """Give each slot with a job a turn of its own; take the rotation away where all jobs are in slot 0."""
    slots, turns = view.slots_used, view.rotation.turns
    if not any(slots):
        slots = ()
    if {(turn.slots, bool(turn.guests)) for turn in turns} != {((slot,), False) for slot in slots}:
        kept = [turn.slots[0] for turn in turns if turn.slots[0] in slots]
        order = (*kept, *[slot for slot in slots if slot not in kept])
        yield api.SetRotation(view.quantum + 1, tuple([api.Turn((slot,)) for slot in order]))


_FORGET: Final = 1_000  # jobs that are gone may be remembered so far


class Composed:
    """A policy made of parts."""

    __slots__ = (
        "_backfill", "_context", "_entered", "_keeps", "_ledger", "_matching", "_memory", "_order", "_pairing", "_parts", "_placement",
        "_plain", "_refused", "_seen", "_shape", "_view",
    )  # fmt: skip

    def __init__(
        self,
        order: api.Order,
        backfill: api.Backfill,
        placement: api.Placement,
        matching: api.Matching,
        pairing: api.Pairing,
        shape: api.Shape,
        besides: tuple[api.Part, ...] = (),
        ledger: api.Ledger | None = None,
        *,
        whole: bool = True,
    ) -> None:
        """``besides``: further parts of the composition, the ledger included, which may keep a note or decline a machine.

        ``whole``: the policy decides for all jobs; otherwise for one class of them in time slices.
        """
        self._order = order
        self._backfill = backfill
        self._placement = placement
        self._matching = matching
        self._pairing = pairing
        self._shape = shape
        # Else it resumes those on disk itself; in time slices the slices do.
        self._keeps = not whole or any(part.keeps_suspended for part in (matching, *besides))
        self._view: api.View | None = None  # the view of the context
        self._context: api.Context
        self._ledger = ledger
        self._parts: tuple[api.Part, ...] = (order, backfill, placement, matching, pairing, shape, *besides)
        self._memory = Memory(self._parts)
        # Where any thread does, the manager refuses what never fits.
        self._refused = type(placement).never is api.Placement.never
        self._seen: dict[int, api.JobSpec] = {}  # jobs that the empty machine holds, or that were rejected
        self._entered = 0  # how often a job had come then
        self._plain = matching.alone and not self._memory.parts  # nothing to prepare and no note to keep

    def check(self, view: api.View) -> None:
        """Raise MachineError if the parts cannot work on this machine."""
        for part in self._parts:
            part.check(view)

    def may_start(self, view: api.View) -> bool:
        """Tell whether any pending job has a place on the nodes in service once all running jobs have ended."""
        return any(self._placement.earliest(job, view) is not None for job in view.queue)

    def prepare(self, view: api.View) -> Iterator[api.Action]:
        """Yield what a pass does first: rejections, and the decisions that bring notes and expected ends up to date."""
        context = self._context_of(view)
        return chain([] if self._refused else self._hopeless(context), self._matching.prepare(context))

    # A pass has this order, and each step relies on the one before. Jobs that another policy left on disk come back first, or
    # starts would take their threads for ever. Then the matching brings notes and expected ends up to date (`prepare`), since
    # reservations are made of these. The backfill is last, and asks the other parts.
    def decide(self, view: api.View) -> Iterator[api.Action]:
        """Yield the decisions of one pass."""
        context = self._context if self._view is view else self._context_of(view)
        if not self._keeps and view.on_disk:
            return chain(_resume_from_disk(view), self._passes(context))
        # A job that fits no empty machine is told so when it comes, not when it reaches the head.
        hopeless = [] if self._refused else self._hopeless(context)
        if self._plain:
            return chain(hopeless, self._backfill.decide(context)) if hopeless else self._backfill.decide(context)
        return chain(hopeless, self._passes(context))

    # Each pending job must have been looked at, or a scheduler that was restarted would reject what this one has left.
    def _hopeless(self, context: api.Context) -> list[api.Action]:
        """Return the rejections of the pending jobs that have come, and that the empty machine does not hold."""
        view, seen, queue = context.view, self._seen, context.view.whole_queue
        most = view.queued if queue is None else queue.entered - self._entered
        if not most:
            return []
        self._entered += most
        new: list[api.JobSpec] = []
        # Those that come are at its end, as a rule
        for job in reversed(view.queue if queue is None else queue.values()):
            if seen.get(job.id) is not job:
                new.append(job)
                if len(new) == most:
                    break
        if len(seen) > 2 * view.queued + _FORGET:
            seen.clear()
            seen.update([(job.id, job) for job in view.queue])
        seen.update([(job.id, job) for job in new])
        return [rejection(job, view) for job in reversed(new) if self._placement.never(job, view)]

    def _context_of(self, view: api.View) -> api.Context:
        if self._view is not view:
            # Time slices hand a view of whole nodes, of one class of jobs.
            shaped = view if api.nodes_view(view) is not None else self._shape.shaped(view)
            placement = self._placement
            # Where jobs have whole nodes, they take one process a core under any other placement; elsewhere nobody asks for footprints.
            own = api.FOOTPRINTS in placement.provides or api.WHOLE_NODES not in self._shape.provides
            footprints: api.NodePlacement = (
                cast(api.NodePlacement, placement) if own else at("placement.spread:Spread")()
            )
            self._context = api.Context(
                shaped, self._order, placement, self._matching, footprints, self._pairing, ledger=self._ledger
            )
            self.check(shaped)
            self._refused = self._refused and shaped.any_threads
            self._view = view
        return self._context

    def _passes(self, context: api.Context) -> Iterator[api.Action]:
        return self._remembered_passes(context) if self._memory.parts else self._pass(context)

    def _pass(self, context: api.Context) -> Iterator[api.Action]:
        return chain(self._matching.prepare(context), self._backfill.decide(context))

    # A note must be yielded after the starts that it counts and before the next pass: an order that ages by the mean wait would
    # otherwise arrange the rest of the queue by a number that a restarted scheduler does not have.
    def _remembered_passes(self, context: api.Context) -> Iterator[api.Action]:
        """Yield passes, and the notes of parts about the jobs started in each, as long as these may change the next pass."""
        view = context.view
        while True:
            started: list[int] = []
            rejected = False
            for action in self._pass(context):
                yield action
                started += api.started_by(action)
                rejected = rejected or type(action) is api.RejectJob
            if not started:
                if rejected:  # an order that lifts one job at a time may have lifted one that is gone
                    continue
                return
            changes = api.Changes([view.running[job_id].job for job_id in started], ())
            if not (yield from self._memory.remember(changes, view)):
                return


class Sited:
    """A policy that cannot work at every site: it declines one, with the reason, before it decides what the site cannot do.

    ``parts`` are those that use features of the protocol, or ignore what a job or its manager may ask for.
    """

    __slots__ = ("_ignored", "_policy", "_used")

    def __init__(self, policy: api.Policy, parts: Iterable[api.Part]) -> None:
        self._policy = policy
        self._used = {feature: part for part in parts for feature in part.protocol_features}
        self._ignored = {word: part for part in parts for word in part.ignores}

    @property
    def features(self) -> frozenset[str]:
        """Return the features of the protocol that the policy uses beyond those of every policy."""
        return frozenset(self._used)

    @property
    def ignored(self) -> frozenset[str]:
        """Return what a part does not honour: a manager must not tell of jobs that ask for it."""
        return frozenset(self._ignored)

    def check_site(self, view: api.View) -> None:
        """Raise MachineError where the manager lacks a feature, or makes only layouts that a part does not."""
        for feature, part in sorted(self._used.items()):
            if feature not in view.features:
                raise api.MachineError(
                    f"{type(part).__name__} needs the feature {feature} of the protocol, which this manager lacks"
                )
        if view.machine.filled and api.FILLED_LAYOUTS in self._ignored:
            name = type(self._ignored[api.FILLED_LAYOUTS]).__name__
            raise api.MachineError(f"{name} makes layouts that this manager cannot make: it fills nodes in order")
        if view.machine.same_nodes and api.SAME_NODES in self._ignored:
            name = type(self._ignored[api.SAME_NODES]).__name__
            text = f"{name} may put a job beside a part of another one; on nodes with same_nodes, jobs share all nodes or none; "
            raise api.MachineError(f"{text}shape nodes with a matching of LOMARC, or with guests, does not")

    def decide(self, view: api.View) -> Iterator[api.Action]:
        """Yield the decisions of one pass."""
        for word in view.asked:
            if word in self._ignored:
                raise api.MachineError(
                    f"a pending job asks for {word}, which {type(self._ignored[word]).__name__} does not honour; "
                    "placements first-fit, packed and lessconsume do"
                )
        decisions = self._policy.decide(view)
        return decisions if view.capabilities.limits_grow else _within_limits(decisions, view)


def _within_limits(decisions: Iterator[api.Action], view: api.View) -> Iterator[api.Action]:
    """Yield decisions without longer limits, as this manager grants none."""
    for decision in decisions:
        match decision:
            case api.StartJob():
                yield _as_granted(decision, view)
            case api.StartTogether(starts):
                yield api.StartTogether(tuple([_as_granted(start, view) for start in starts]))
            case api.ReviseJob(job_id, estimate_us, _):
                yield api.ReviseJob(job_id, estimate_us, view.running[job_id].limit_us)
            case _:
                yield decision


def _as_granted(start: api.StartJob, view: api.View) -> api.StartJob:
    job = view.pending(start.job_id)
    return start if job is None else start._replace(limit_us=job.limit_us)


class Memory:
    """The notes of parts about the cluster, one for each key, and the belief that follows from one of them."""

    __slots__ = ("believer", "parts")

    def __init__(self, parts: Iterable[api.Part], believer: api.Believer | None = None) -> None:
        self.parts = {part.note: part for part in parts if part.note}
        self.believer = believer

    # Must be called before a pass, and again once notes have changed: a scheduler that begins here knows the notes alone.
    def believe(self, view: api.View) -> bool:
        """Give the view the model of pairs that follows from the notes, and from what runs; tell whether it is another one."""
        if self.believer is None:
            return False
        before = view.pairs
        view.believe(self.believer.pairs(view))
        return view.pairs is not before

    def remember(self, changes: api.Changes, view: api.View) -> Generator[api.Action, None, bool]:
        """Yield the notes that change, and tell whether any did."""
        changed = False
        for key, part in self.parts.items():
            value, before = part.remember(changes, view), view.note(None, key)
            if value != before:
                changed = True
                # A note that has outgrown the wire is begun anew: it stands with the manager, so that every scheduler that comes
                # after this one would end at it, too. The first note of a part has no such past; the core refuses it.
                yield api.SetNote(None, key, value if before is None or api.note_travels(key, value) else None)
        if changed:
            self.believe(view)
        return changed


class Remembering:
    """A policy whose parts update their notes with jobs that have ended or were measured before it decides."""

    __slots__ = ("_follows", "_memory", "_policy")

    def __init__(self, policy: api.Policy, memory: Memory) -> None:
        self._policy = policy
        self._memory = memory
        self._follows = any(part.follows_arrivals for part in memory.parts.values())

    def decide(self, view: api.View) -> Iterator[api.Action]:
        """Yield notes, then the decisions of a pass, and of more as long as these change the belief."""
        self._memory.believe(view)
        ended, measured = view.ended, view.measured
        arrived = view.arrived if self._follows else ()
        if not (ended or measured or arrived):
            return self._settled(view)
        return chain(self._memory.remember(api.Changes((), ended, measured, arrived), view), self._settled(view))

    def _settled(self, view: api.View) -> Iterator[api.Action]:
        """Yield the policy's decisions; it is asked only once the decisions before them have taken effect."""
        yield from self._policy.decide(view)
        while self._memory.believe(view):
            yield from self._policy.decide(view)


class Budgeted:
    """A policy that stops searching once a decision has cost ``units`` units of work; jobs that would fit may stay pending."""

    __slots__ = ("_budget", "_policy")

    def __init__(self, policy: api.Policy, budget: api.Budget) -> None:
        self._policy = policy
        self._budget = budget

    def decide(self, view: api.View) -> Iterator[api.Action]:
        """Yield the decisions of one pass."""
        units = self._budget.units(view)
        if type(units) is not int or units < 1:
            raise api.PolicyError(
                None, f"policy.budget: units: expected a whole number of units, 1 or more, got {units!r}"
            )
        view.work.begin(units)
        return self._policy.decide(view)


def _resume_from_disk(view: api.View) -> Iterator[api.Action]:
    """Yield the resumption of jobs that a policy with time slices left on disk, as soon as their threads are free."""
    for job_id in view.on_disk:
        if view.may_resume(view.running[job_id]):
            yield api.ResumeJob(job_id)


def compose(table: Table, backfill: api.Backfill | None = None) -> api.Policy:
    """Build the policy that a table describes (`resolve`); UsageError where a part from outside fails to take part.

    ``backfill`` is a part of the class that the table names, with what no table can say.
    """
    resolved = resolve(table)
    built: dict[str, Any] = {kind: build_part(kind, resolved) for kind in KINDS}
    parts: list[api.Part] = [part for part in built.values() if part is not None]
    slices: api.Slices | None = built["slices"]
    budget: api.Budget | None = built["budget"]
    believer: api.Believer | None = built["belief"]
    ledger: api.Ledger | None = built["ledger"]
    above = tuple([part for part in (slices, budget, believer, ledger) if part is not None])
    if slices is None:
        policy: api.Policy = _build(resolved, above, ledger, backfill, whole=True)
    else:
        policy = _divided(slices, resolved, above)
    if slices is not None and any(part.keeps_suspended for part in parts):
        raise api.UsageError("policy.slices: expected none, as another part suspends jobs and resumes them")
    if slices is not None and ledger is not None:
        raise api.UsageError("policy.ledger: expected none, as classes of jobs have the machine in turns")
    if not any(api.SLOTS in part.needs for part in parts):
        policy = OneSlot(policy)
    memory = Memory(parts, believer)
    if memory.parts or believer is not None:
        policy = Remembering(policy, memory)
    if budget is not None:
        policy = Budgeted(policy, budget)
    return Sited(policy, parts) if any(part.protocol_features or part.ignores for part in parts) else policy


def _divided(slices: api.Slices, resolved: Resolved, above: tuple[api.Part, ...]) -> api.Policy:
    name = f"policy.slices: {resolved['slices']['name']}"
    with api.from_outside(lambda told: api.UsageError(f"{name}: divide: {told}"), passes=(api.UsageError,)):
        policy = slices.divide(lambda: _build(resolved, above, None, None, whole=False))
    if not callable(getattr(policy, "decide", None)):
        raise api.UsageError(f"{name}: divide: expected a policy with decide(view), got {policy!r}")
    return policy


def _build(
    resolved: Resolved,
    above: tuple[api.Part, ...],
    ledger: api.Ledger | None,
    backfill: api.Backfill | None,
    *,
    whole: bool,
) -> Composed:
    matching: api.Matching = build_part("matching", resolved)
    fairness: api.Fairness = build_part("fairness", resolved)
    limited = _limited(fairness, matching, resolved["fairness"]["name"])
    return Composed(
        build_part("order", resolved),
        build_part("backfill", resolved) if backfill is None else backfill,
        build_part("placement", resolved),
        limited,
        build_part("pairing", resolved),
        build_part("shape", resolved),
        (fairness, *above) if limited is matching else (matching, fairness, *above),
        ledger,
        whole=whole,
    )


def _limited(fairness: api.Fairness, matching: api.Matching, name: str) -> api.Matching:
    with api.from_outside(lambda told: api.UsageError(f"policy.fairness: {name}: limit: {told}")):
        limited = fairness.limit(matching)
    if api.Matching not in type(limited).__mro__:
        raise api.UsageError(
            f"policy.fairness: {name}: limit: expected a matching, derived from cosched_plugin.api.Matching, got {limited!r}"
        )
    return limited
