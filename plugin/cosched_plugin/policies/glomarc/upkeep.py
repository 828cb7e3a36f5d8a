"""The notes of a group while it runs, and the revisions when one of its jobs has ended.

A note on each job of a group holds the members, the work that the job has left and its pace; `keep_up` brings expected
ends up to date when the members change, and disbands the group when the primary or the last matched job has ended
(G-LOMARC-TS paper, section 4.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Final, NamedTuple

from cosched_plugin import api
from cosched_plugin.policies.placement.spread import Kinds, NodeHalves

# Forecast of a group from now on: when each job ends, how long the jobs stay together, and what they gain.
#
# A group is a primary job and matched jobs on its nodes, no two of them on one (G-LOMARC-TS paper, sections 4.5 and 4.6). Each
# progresses at 1/(own slowdown x coscheduling slowdown): a matched job beside the primary, the primary beside those that are still
# there, of which the worst counts. The group is over when the primary or the last matched job ends; remaining jobs go on alone.


EVERYWHERE: Final = api.NodeSet(-1)


class Member(NamedTuple):
    """A job as a member of a group."""

    job: api.JobSpec
    left_us: float  # work left, in run time at one process a node
    factor: float  # own slowdown on its nodes
    per_node: int  # processes
    nodes: int  # how many nodes it takes, or has
    running: api.Running | None = None  # None: it is pending
    beside: float = 1.0  # of a matched job: its slowdown beside the primary, own slowdown not counted
    beside_it: float = 1.0  # the slowdown of the primary beside it
    home: api.NodeSet = EVERYWHERE  # the nodes that it may have, or has


class Outcome(NamedTuple):
    """The forecast of a group."""

    spans_us: tuple[int, ...]  # time until each job ends: the primary, then the matched ones
    together_us: float  # time until the group is over
    gain: float  # utilisation gain over that time, formula 6


def evolve(primary: Member, matched: Sequence[Member]) -> Outcome:
    """Return the forecast of a group that forms now.

    The utilisation gain is the node time that the jobs would need for the same work at one process a node, over the node time that
    the group holds, less one. The paper writes the latter as S_A/PPN_A; here it is whole nodes, and all that the group holds, where
    the matched jobs take a few more than the primary.
    """
    left = [job.left_us for job in matched]
    slow = [job.factor * job.beside for job in matched]
    own_left = primary.left_us
    spans = [0] * len(matched)
    there = list(range(len(matched)))
    now = 0.0
    work = 0.0
    while True:
        # Formula 6, SL_q: the primary goes at the pace of its slowest node.
        own_slow = primary.factor * max([matched[index].beside_it for index in there])
        first = min(there, key=lambda index: left[index] * slow[index])
        step = left[first] * slow[first]
        primary_ends = own_left * own_slow <= step
        if primary_ends:
            step = own_left * own_slow
        now += step
        work += step * primary.job.processes / own_slow
        for index in there:
            work += step * matched[index].job.processes / slow[index]
            left[index] = max(0.0, left[index] - step / slow[index])
        if primary_ends:
            own_span = now
            for index in there:
                spans[index] = whole_us(now + left[index] * matched[index].factor)
            break
        own_left = max(0.0, own_left - step / own_slow)
        left[first] = 0.0
        for index in [index for index in there if left[index] == 0.0]:
            spans[index] = whole_us(now)
        there = [index for index in there if left[index] > 0.0]
        if not there:
            own_span = now + own_left * primary.factor
            break
    held = now * max(primary.nodes, sum([job.nodes for job in matched]))
    return Outcome((whole_us(own_span), *spans), now, work / held - 1.0)


def gain_alone(per_node: int, factor: float) -> float:
    """Return the utilisation gain of a job that is alone on its nodes."""
    return per_node / factor - 1.0


def whole_us(span_us: float) -> int:
    """Return a span as whole microseconds, rounded up; at least 1."""
    return max(1, api.round_up_us(span_us))


NOTE: Final = "group"
_PLACE: Final = [int, int, float, float]
MOST_PAIRS: Final = 100_000  # jobs with such a note


class Place(NamedTuple):
    """The note of a job in a group."""

    primary: int
    progress_us: int  # time of progress when this was written
    left_us: float  # work left then, in run time at one process a node
    slowdown: float  # from then on, as long as the members stay
    partners: tuple[int, ...]  # the primary's: the matched jobs; a matched job's: the primary

    def note(self, job_id: int) -> api.SetNote:
        """Return the decision that writes the note."""
        primary, progress_us, left_us, slowdown, partners = self
        return api.SetNote(job_id, NOTE, (primary, progress_us, left_us, slowdown, *partners))


def place_of(job_id: int, view: api.View) -> Place | None:
    """Return the note of a job in a group."""
    note = view.note(job_id, NOTE)
    if type(note) is tuple and [type(part) for part in note[:4]] == _PLACE:
        primary, progress_us, left_us, slowdown, *partners = note
        return Place(primary, progress_us, left_us, slowdown, tuple(partners))  # type: ignore[arg-type]
    return None


def member_in_place(running: api.Running, halves: NodeHalves) -> Member:
    """Return a running job as a member of a group, without its work left: with its own slowdown on its nodes."""
    placed = list(api.each_node(running.runs))
    per_node = max(count for _, count in placed)
    return Member(running.job, 0.0, halves.footprint(running.job, per_node).factor, per_node, len(placed), running)


def present_member(running: api.Running, view: api.View, kinds: Kinds) -> Member:
    """Return a running job, in a group or not, as it is now."""
    member = member_in_place(running, kinds.of_node(running.runs[0].first))
    place = place_of(running.job.id, view)
    if place is None:
        return member._replace(left_us=(view.expected_end(running) - view.now_us) / member.factor)
    gone_us = view.progress_us(running) - place.progress_us
    return member._replace(left_us=max(1.0, place.left_us - gone_us / place.slowdown))


Slowdown = Callable[[api.JobSpec, api.JobSpec], float]


def slowdown_in(view: api.View) -> Slowdown | None:
    """Return the believed slowdown of the first job beside the second, own slowdown not counted; None: no belief."""
    model = view.pairs
    if model is None:
        return None
    known: dict[tuple[int, int], float] = {}

    def slowdown(job: api.JobSpec, other: api.JobSpec) -> float:
        pair = (job.id, other.id)
        value = known.get(pair)
        if value is None:
            if len(known) > MOST_PAIRS:
                known.clear()
            both = api.may_meet(job, model) and api.may_meet(other, model)
            value = known[pair] = model.slowdown(job, other) if both else inf
        return value

    return slowdown


def keep_up(view: api.View, kinds: Kinds, slowdown: Slowdown) -> Iterator[api.Action]:
    """Yield the revisions of groups whose jobs have ended."""
    groups: dict[int, list[int]] = {}
    broken: dict[int, None] = {}
    running = view.running
    for job_id in api.running_with_note(NOTE, view):
        place = place_of(job_id, view)
        if place is not None:
            groups.setdefault(place.primary, []).append(job_id)
            if any(other not in running or place_of(other, view) is None for other in place.partners):
                broken[place.primary] = None
    for primary in broken:
        yield from _regroup(primary, groups[primary], view, kinds, slowdown)


def _regroup(
    primary: int, members: Sequence[int], view: api.View, kinds: Kinds, slowdown: Slowdown
) -> Iterator[api.Action]:
    """Yield new expected ends for the remaining jobs of a group, and disband it where it is no longer a group."""
    left = [present_member(view.running[job_id], view, kinds) for job_id in members]
    own = next((member for member in left if member.job.id == primary), None)
    if own is None or len(left) == 1:
        for member in left:
            yield from api.expect_end(member.job.id, view.now_us + whole_us(member.left_us * member.factor), view)
            yield api.SetNote(member.job.id, NOTE, None)
        return
    model = view.pairs
    others = [member for member in left if member is not own]
    if model is not None and model.by_seat:
        matched = [beside_on(member, own, model, view) for member in others]
    else:
        matched = [beside_primary(member, own.job, slowdown) for member in others]
    outcome = evolve(own, matched)
    for member, span_us in zip([own, *matched], outcome.spans_us, strict=True):
        yield from api.expect_end(member.job.id, view.now_us + span_us, view)
    yield from remember(own, matched, view)


def beside_primary(member: Member, primary: api.JobSpec, slowdown: Slowdown) -> Member:
    """Return a job as a matched one beside ``primary``."""
    return member._replace(beside=slowdown(member.job, primary), beside_it=slowdown(primary, member.job))


def beside_on(member: Member, primary: Member, model: api.PairModel, view: api.View) -> Member:
    """Return a running job as a matched one beside a running primary, by the threads that both hold."""
    assert member.running is not None
    assert primary.running is not None
    own, its = api.SeatOf(primary.job, primary.running.runs), api.SeatOf(member.job, member.running.runs)
    beside_it, beside = api.slowdowns_on(own, its, model, view)
    return member._replace(beside=beside, beside_it=beside_it)


def remember(primary: Member, matched: Sequence[Member], view: api.View) -> Iterator[api.SetNote]:
    """Yield the notes of a group as it goes on from now."""
    own = primary.job.id
    slowdown = primary.factor * max(member.beside_it for member in matched)
    yield _place(primary, own, slowdown, tuple(member.job.id for member in matched), view).note(own)
    for member in matched:
        yield _place(member, own, member.factor * member.beside, (own,), view).note(member.job.id)


def _place(member: Member, primary: int, slowdown: float, partners: tuple[int, ...], view: api.View) -> Place:
    progress_us = 0 if member.running is None else view.progress_us(member.running)
    return Place(primary, progress_us, float(member.left_us), slowdown, partners)
