"""The comparisons of `cosched_plugin.testing.check`: the policy's view with the manager's state, a reply with its decoded form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeVar, cast

from cosched_plugin.common.allocation import Machine
from cosched_plugin.common.errors import PolicyError, ProtocolError
from cosched_plugin.common.threads import any_layer, layers_of, minus, nodes_of
from cosched_plugin.core.engine import Policy
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import nodes_view
from cosched_plugin.ledger.running import Ended
from cosched_plugin.parts.kinds import Context
from cosched_plugin.parts.needs import WHOLE_NODES
from cosched_plugin.parts.offers import Gate, Offer, Seat, Snapshot
from cosched_plugin.policies.composition.composed import Composed
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.messages import Action, Actions, Events, JobSpec, NoteValue, Welcome
from cosched_plugin.testing.verdict import apart, brief

SomeMessage = TypeVar("SomeMessage", Welcome, Events)


class Watched:
    """A policy, and the ended jobs in its view at its last decision."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.ended: Sequence[Ended] = ()

    def decide(self, view: View) -> Iterator[Action]:
        """Return the decisions of the policy."""
        self.ended = view.ended
        return self._policy.decide(view)

    # The core asks for it before the first batch: a policy must decline a site before it decides what the site cannot do.
    def check_site(self, view: View) -> None:
        """Raise MachineError where the policy declines the site."""
        check_site = getattr(self._policy, "check_site", None)
        if check_site is not None:
            check_site(view)


def arrived(message: SomeMessage) -> SomeMessage:
    """Return a message as another process receives it: equal, but without common objects."""
    copy = decode(encode(message))
    assert isinstance(copy, type(message))
    return copy


def find_difference(kept: View, rebuilt: View, notes: Mapping[tuple[int | None, str], NoteValue]) -> str | None:
    """Return the first difference of the policy's view, after its answer, from that of a scheduler with a new welcome."""
    pairs: dict[str, tuple[object, object]] = {
        "queue": (kept.queue, rebuilt.queue),
        "running": (dict(kept.running), dict(rebuilt.running)),
        "ended": (list(kept.ended), list(rebuilt.ended)),
        "releases": (list(kept.releases), list(rebuilt.releases)),
        "on_disk": (list(kept.on_disk), list(rebuilt.on_disk)),
        "resume_costs": (kept.resume_costs, rebuilt.resume_costs),
        "free": (kept.free, rebuilt.free),
        "in_service": (kept.in_service, rebuilt.in_service),
        "free_memory_mb": (list(kept.free_memory_mb), list(rebuilt.free_memory_mb)),
        "resources": (kept.free_resources, rebuilt.free_resources),
        "licences": (kept.licences, rebuilt.licences),
        "wakes": (list(kept.wakes()), list(rebuilt.wakes())),
        "returns": (kept.returning(), rebuilt.returning()),
        "plan": (kept.availability(), rebuilt.availability()),
        "thread_counts": (kept.thread_counts(kept.free).tolist(), rebuilt.thread_counts(rebuilt.free).tolist()),
        "rotation": (kept.rotation, rebuilt.rotation),
        "quantum": ((kept.quantum, kept.quantum_us), (rebuilt.quantum, rebuilt.quantum_us)),
        "free_in": (
            [kept.free_in(slot) for slot in rebuilt.slots_used],
            [rebuilt.free_in(slot) for slot in rebuilt.slots_used],
        ),
        "notes": ({key: kept.note(*key) for key in notes}, notes),
    }
    for name in [name for name in Machine.__slots__ if not name.startswith("_")]:
        pairs[f"machine.{name}"] = (getattr(kept.machine, name), getattr(rebuilt.machine, name))
    for name, (one, other) in pairs.items():
        if one != other:
            return f"{name} {apart(one, other)}"
    return None


def find_loss(seq: int, now_us: int, actions: Sequence[Action]) -> str | None:
    """Return the error if a reply cannot be sent to another process or read there, or arrives changed; None if it arrives."""
    reply = Actions(seq, now_us, tuple(actions))
    try:
        copy = decode(encode(reply))
    except ProtocolError as error:
        return f"a reply cannot travel: {error}"
    assert isinstance(copy, Actions)
    for action, other in zip(reply.actions, copy.actions, strict=True):
        change = _change(action, other)
        if change is not None:
            return f"a decision changes on its way to the manager: {brief(action)}: {change}"
    return None


def _change(one: object, other: object) -> str | None:
    """Return how two values differ, None if they are equal and of equal types, also inside: True is not 1."""
    if type(one) is not type(other):
        return f"{one!r} of type {type(one).__name__} arrives as {other!r} of type {type(other).__name__}"
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return next((change for pair in zip(one, other, strict=True) if (change := _change(*pair))), None)
    return None if one == other else f"{one!r} arrives as {other!r}"


# Checks that the parts of a composition follow their protocols, on which a pass relies without checks for lack of time.
#
# The conformance check replaces each part by an `_Audited` one; a run outside the check has none, and no cost.


def audit(policy: Policy) -> None:
    """Make every composition in ``policy`` raise PolicyError if one of its parts violates its protocol.

    A policy that is not a composition of parts stays unchanged.
    """
    for composed in compositions(policy):
        composed._order = cast(Any, _AuditedOrder("order", composed._order))
        composed._backfill = cast(Any, _AuditedBackfill("backfill", composed._backfill))
        composed._placement = cast(Any, _AuditedPlacement("placement", composed._placement))
        composed._matching = cast(Any, _AuditedMatching("matching", composed._matching))
        composed._shape = cast(Any, _AuditedShape("shape", composed._shape))


def compositions(policy: object) -> Iterator[Composed]:
    """Yield the compositions in a policy and in its inner policies: those of classes in time slices, and under a budget."""
    if isinstance(policy, Composed):
        yield policy
        return
    below = getattr(policy, "_policies", ())
    for inner in (getattr(policy, "_policy", None), *(below if isinstance(below, tuple) else ())):
        if inner is not None:
            yield from compositions(inner)


class _Audited:
    """A wrapper of a part; attributes that are not checked come from the part."""

    def __init__(self, kind: str, part: Any) -> None:
        self._kind = kind
        self._part = part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)

    def _fail(self, problem: str) -> NoReturn:
        raise PolicyError(None, f"policy.{self._kind}: {type(self._part).__name__}: {problem}")


class _AuditedOrder(_Audited):
    """An order that returns exactly the given jobs, and in order of submission if it declares that."""

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return the jobs in queue order."""
        given = sorted(jobs, key=lambda job: (job.submit_us, job.id))
        arranged: list[JobSpec] = self._part.arrange(jobs, view)
        if sorted(arranged, key=lambda job: (job.submit_us, job.id)) != given:
            self._fail(f"arrange: expected jobs {_ids(given)} in some order, got {_ids(arranged)}")
        if self._part.by_arrival and arranged != given:
            self._fail(f"by_arrival: expected jobs {_ids(given)} in order of submission, got {_ids(arranged)}")
        return arranged


class _AuditedBackfill(_Audited):
    """A backfill that calls the order also if that is by arrival."""

    def decide(self, context: Context) -> Iterator[Action]:
        """Return the decisions of one pass."""
        if context.order.by_arrival:
            context.order.arrange(context.view.queue, context.view)
        return cast("Iterator[Action]", self._part.decide(context))


class _AuditedPlacement(_Audited):
    """A placement whose offers are free at the given instant, and whose prices are numbers of units."""

    def offer(self, job: JobSpec, snapshot: Snapshot) -> Offer | None:
        """Return the job's place."""
        self.price(job, snapshot.view)
        offer: Offer | None = self._part.offer(job, snapshot)
        if offer is None:
            return None
        view = snapshot.view
        if offer.job.id != job.id:
            self._fail(f"offer: expected a place for job {job.id}, got one for job {offer.job.id}")
        if offer.start_us != snapshot.at_us:
            self._fail(
                f"offer: expected a place for job {job.id} at {snapshot.at_us} us, got one at {offer.start_us} us"
            )
        if nodes_view(view) is None:
            taken: object = any(minus(layers_of(offer.runs, view.machine.depth), snapshot.open_to(job)))
        else:  # with whole nodes, an offer may name any threads of a free node
            taken = nodes_of(offer.runs) & ~any_layer(snapshot.free)
        if taken:
            self._fail(f"offer: expected free threads for job {job.id} at {snapshot.at_us} us, got {list(offer.runs)}")
        return offer

    def price(self, job: JobSpec, view: View) -> int:
        """Return the price of an offer in units of work."""
        units: int = self._part.price(job, view)
        if type(units) is not int or units < 0:
            self._fail(f"price: expected a whole number of units, 0 or more, got {units!r}")
        return units


class _AuditedMatching(_Audited):
    """A matching that returns a seat only if the gate has admitted it, and has no other seat admitted."""

    def seat(self, offer: Offer, context: Context, gate: Gate) -> Seat | None:
        """Return the job's seat."""
        watched = _WatchedGate(gate)
        return self._admitted("seat", self._part.seat(offer, context, cast(Gate, watched)), watched)

    def join(self, job: JobSpec, context: Context, gate: Gate) -> Seat | None:
        """Return the job's seat on a running job's nodes."""
        watched = _WatchedGate(gate)
        return self._admitted("join", self._part.join(job, context, cast(Gate, watched)), watched)

    def _admitted(self, method: str, seat: Seat | None, gate: _WatchedGate) -> Seat | None:
        if seat is not None and seat not in gate.admitted:
            self._fail(f"{method}: expected a seat that the gate has admitted, got {seat}")
        for other in gate.admitted:
            if other != seat:
                self._fail(f"{method}: expected the seat that the gate has admitted, {other}, got {seat}")
        return seat


class _WatchedGate:
    """A gate that records the seats that it has admitted."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.admitted: list[Seat] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gate, name)

    def admit(self, seat: Seat) -> bool:
        """Return whether ``seat`` may be taken."""
        admitted = self._gate.admit(seat)
        if admitted:
            self.admitted.append(seat)
        return admitted


class _AuditedShape(_Audited):
    """A shape that shows whole nodes if it declares that."""

    def shaped(self, view: View) -> View:
        """Return the view to plan with."""
        shaped: View = self._part.shaped(view)
        if WHOLE_NODES in self._part.provides and nodes_view(shaped) is None:
            self._fail(
                f"shaped: expected a view of whole nodes, as it provides {WHOLE_NODES}, got {type(shaped).__name__}"
            )
        return shaped


def _ids(jobs: list[JobSpec]) -> list[int]:
    return [job.id for job in jobs]
