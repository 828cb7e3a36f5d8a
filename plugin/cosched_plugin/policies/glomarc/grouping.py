"""G-LOMARC-TS's matchmaking: space sharing or a group of jobs, whichever uses the nodes better (section 4.4).

The first pending job is started as the primary of a group of pending jobs (Case 1), as the primary beside running jobs (Case 2), as
a job matched with a running primary (Case 3), or alone on its nodes with some of their cores at work (Case 4) or all of
them (Case 5). Serial jobs pair up with each other first. Jobs further back are backfilled by Cases 1, 4 and 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Final

from cosched_plugin import api
from cosched_plugin.policies.glomarc import formation, upkeep
from cosched_plugin.policies.placement.spread import Kinds, NodeHalves
from cosched_plugin.policies.slack import delay_of

LOW_LOAD: Final = "low-load"
MOST_MEMBERS: Final = 1000  # running jobs in the cache


class Grouping(api.Matching):
    """Co-location by groups. ``short_s``: jobs up to this many seconds start alone, and no job is matched with them."""

    needs: ClassVar[api.Needs] = frozenset({api.WHOLE_NODES, api.COMPANY, api.FOOTPRINTS, api.PAIR_BELIEF})
    protocol_features: ClassVar[api.Needs] = api.PAIRING
    ignores: ClassVar[api.Needs] = frozenset({api.FILLED_LAYOUTS, api.SAME_NODES})

    def __init__(
        self, *, short_s: float = 600.0, low_load: str = formation.LOW_LOADS[0], space: bool = True, **search: Any
    ) -> None:
        """``search`` are the fields of `Search`.

        ``low_load``: a job gets a node for each process while all jobs, running ones included, would fit that way (all); while the
        pending jobs would (waiting); or never (none). ``space``: whether a group must gain more than its first job alone on all cores.
        """
        self._space = space
        self._low_load = low_load
        self._short_us = round(short_s * api.SECOND_US)
        self._search = formation.Search(**search)
        # A cache: pending jobs as members of a group
        self._members: dict[int, tuple[api.JobSpec, upkeep.Member | None]] = {}
        self._running: dict[int, tuple[Sequence[api.Run], upkeep.Member | None]] = {}  # a cache: `_with_room`
        self._interventions = 0  # of the manager, when these caches were begun
        self._settled_at = -1  # a cache: at this version of the view all groups were complete
        self._slowdown: tuple[api.View, upkeep.Slowdown | None] | None = None  # a cache
        self._kinds: Kinds | None = None  # a cache

    def prepare(self, context: api.Context) -> Iterator[api.Action]:
        """Yield the revisions of groups whose jobs have ended."""
        view = context.view
        if self._interventions != view.interventions:  # a job may have another description, or the belief has changed
            self._interventions = view.interventions
            self._running.clear()
            self._slowdown = None
        slowdown = self._slowdown_in(view)
        return iter(()) if slowdown is None else self._keep_up(view, slowdown)

    def _keep_up(self, view: api.View, slowdown: upkeep.Slowdown) -> Iterator[api.Action]:
        yield from api.delete_stale_notes(view, upkeep.NOTE)
        if self._settled_at != view.version:
            settled = True
            for action in upkeep.keep_up(view, self._kinds_of(view), slowdown):
                settled = False
                yield action
            self._settled_at = view.version if settled else -1

    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return a seat for ``offer``, in a group or alone; None if neither is admitted."""
        view = api.whole_nodes(context.view)
        job = offer.job
        alone = offer
        why = self._why_alone(job, context, view)
        if why is None:
            group = self._company(job, context, gate, self._gain_of(offer, context))
            if group is not None:
                return group
        elif why == LOW_LOAD:
            alone = self._spread_out(offer, context)
        if why is not None:
            view.explain(job.id, no_search=why)
        return alone if gate.admit(alone) else None

    def join(self, job: api.JobSpec, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return a group with the first pending job, which has no place of its own now."""
        if job.id != context.pending.jobs[0].id or self._why_alone(job, context, api.whole_nodes(context.view)):
            return None
        return self._company(job, context, gate, 0.0)

    def _why_alone(self, job: api.JobSpec, context: api.Context, view: api.WholeNodesView) -> str | None:
        """Return why no partners are sought for a job, None if they are."""
        if job.estimate_us <= self._short_us:
            return "short"
        if self._slowdown_in(view) is None:
            return "no-belief"
        if self._is_low(job, context, view):
            return LOW_LOAD
        return None if self._halves_of(job, context).most_shared(job) else "may-not-share"

    def _is_low(self, job: api.JobSpec, context: api.Context, view: api.WholeNodesView) -> bool:
        """Tell whether the job's home would hold all jobs that may be there with one process on a node (section 4.3).

        They must all have the same home: there is room for each then, wherever the others are.
        """
        if self._low_load == formation.NONE_OF_THEM:
            return False
        home, nodes, jobs = upkeep.EVERYWHERE, view.machine.nodes, context.pending.jobs
        if not view.counts_nodes:
            home = context.footprints.home(job, view)
            nodes = home.bit_count()
            homes = [(context.footprints.home(other, view), other) for other in jobs]
            jobs = [other for there, other in homes if there & home]
            if any(there & home and there != home for there, _ in homes):
                return False
        wanted = sum([other.processes for other in jobs])
        if wanted > (view.free_nodes & home).bit_count() or any(other.ppn_min > 1 for other in jobs):
            return False
        there = view.nodes_by_job
        running = sum([running.job.processes for number, running in view.running.items() if there[number] & home])
        return self._low_load == formation.WAITING or wanted + running <= nodes

    def _gain_of(self, offer: api.Offer, context: api.Context) -> float:
        """Return the utilisation gain that a group must exceed: that of Case 5; none where some cores stay idle."""
        view = context.view
        footprint = context.footprints.footprint(offer.job, view)
        # Section 4.4: groups compete with Case 5 alone; Case 4 is what remains where no group gains enough.
        if not self._space or footprint is None or footprint.per_node < self._halves_of(offer.job, context).whole:
            return 0.0
        return upkeep.gain_alone(footprint.per_node, footprint.factor)

    def _spread_out(self, offer: api.Offer, context: api.Context) -> api.Offer:
        """Return the job with one process on each node."""
        footprint = self._halves_of(offer.job, context).footprint(offer.job, 1)
        return context.footprints.offer_with(offer.job, footprint, api.snapshot_now(context.view)) or offer

    def _kinds_of(self, view: api.View) -> Kinds:
        if self._kinds is None or self._kinds.machine is not view.machine:
            self._kinds = Kinds(view.machine)
        return self._kinds

    def _halves_of(self, job: api.JobSpec, context: api.Context) -> NodeHalves:
        """Return how the nodes of a job's home are divided among processes."""
        kinds, view = self._kinds_of(context.view), context.view
        return kinds.all[0].halves if len(kinds.all) == 1 else kinds.of(context.footprints.home(job, view))

    def _company(self, job: api.JobSpec, context: api.Context, gate: api.Gate, above: float) -> formation.Group | None:
        """Return the best group with ``job`` that is admitted and gains more than ``above``."""
        view, pending = api.whole_nodes(context.view), context.pending
        jobs = _jobs_within_budget(pending, view)
        if not jobs:
            return None
        slowdown = self._slowdown_in(view)
        assert slowdown is not None
        halves = self._halves_of(job, context)
        seek = _Seeker(self._search, context.footprints, halves, view, slowdown, above)
        own = self._waiting(job, context)
        assert own is not None
        others = [
            member for other in jobs if other.id != job.id and (member := self._waiting(other, context)) is not None
        ]
        # Section 4.4: serial jobs are paired before any other form of coscheduling is tried.
        if job.processes == 1:
            serial = seek.first_of(seek.beside(own, [other for other in others if other.job.processes == 1]), gate)
            if serial is not None:
                return serial
        # Section 4.4: Case 1 for every job; Cases 2 and 3 for the first pending one alone, since backfilling has Cases 1, 4 and 5.
        cases: list[Iterator[formation.Found]] = [seek.beside(own, others)]
        if job.id == pending.jobs[0].id:
            running = self._individuals(view, own.home)
            cases.append(seek.beside(own, running))
            cases += [seek.beside(primary, [own, *others], must=job.id) for primary in running[: self._search.running]]
        group = seek.first_of((found for case in cases for found in case), gate)
        if group is None and seek.refused:
            view.explain(job.id, refused_groups=seek.refused)
        return group

    def _waiting(self, job: api.JobSpec, context: api.Context) -> upkeep.Member | None:
        """Return a pending job as a possible member of a group; None if it cannot be one."""
        known = self._members.get(job.id)
        if known is None or known[0] is not job:
            if len(self._members) > 2 * context.view.queued + 1000:
                self._members.clear()
            halves = self._halves_of(job, context)
            per_node = halves.most_shared(job) if job.estimate_us > self._short_us else 0
            member = None
            if per_node:
                footprint = halves.footprint(job, per_node)
                home = context.footprints.home(job, context.view)
                member = upkeep.Member(
                    job, job.estimate_us, footprint.factor, footprint.per_node, footprint.nodes, home=home
                )
            known = self._members[job.id] = (job, member)
        return known[1]

    def _slowdown_in(self, view: api.View) -> upkeep.Slowdown | None:
        """Return what is believed of pairs; cached, because draws are slow."""
        if self._slowdown is None or self._slowdown[0] is not view:
            self._slowdown = (view, upkeep.slowdown_in(view))
        return self._slowdown[1]

    def _individuals(self, view: api.WholeNodesView, home: api.NodeSet) -> list[upkeep.Member]:
        """Return the running jobs that are alone on nodes of ``home`` and leave room for another, the least delayed first."""
        once = twice = 0
        nodes_of = {occupancy.job_id: occupancy.nodes for occupancy in view.occupancies()}
        for nodes in nodes_of.values():
            twice |= once & nodes
            once |= nodes
        closed = ~(api.any_layer(view.all_free) & home) | twice
        grouped = view.with_note(upkeep.NOTE)
        found: list[tuple[float, int, upkeep.Member]] = []
        for job_id, nodes in nodes_of.items():
            running = view.running[job_id]
            if (
                not nodes & closed
                and running.suspended_us is None
                and running.job.estimate_us > self._short_us
                and (job_id not in grouped or upkeep.place_of(job_id, view) is None)
                and (member := self._with_room(running, view)) is not None
            ):
                # Section 4.4: a job is never added to a group that runs; once its group is disbanded, it may be matched again.
                left_us = (view.expected_end(running) - view.now_us) / member.factor
                member = member._replace(left_us=left_us, running=running, home=nodes)
                found.append((delay_of(running, view), job_id, member))
        # Section 4.5: coscheduling slows a primary down, so the least delayed ones come first.
        return [member for _, _, member in sorted(found, key=lambda item: item[:2])]

    def _with_room(self, running: api.Running, view: api.View) -> upkeep.Member | None:
        """Return a running job as a possible member of a group, without its work left; None if it leaves no room for another."""
        known = self._running.get(running.job.id)
        if known is None or known[0] is not running.runs:
            if len(self._running) > MOST_MEMBERS:
                self._running.clear()
            member = None
            job, halves = running.job, self._kinds_of(view).of_node(running.runs[0].first)
            if (
                max(run.processes for run in running.runs) <= halves.most_shared(job)
                and all(halves.on_one_side(run.mask) for run in running.runs)  # whichever part placed it
            ):
                member = upkeep.member_in_place(running, halves)
            known = self._running[job.id] = (running.runs, member)
        return known[1]


def _jobs_within_budget(pending: api.PendingJobs, view: api.View) -> list[api.JobSpec]:
    """Pay for and return the first pending jobs that may be examined as members of groups; none if the budget is spent."""
    jobs, work = pending.jobs, view.work
    if work.limited:
        jobs = jobs[: 1 + work.affordable(len(jobs) - 1, 1, api.prices.GROUP_SHARE)]
    return jobs if work.pay(api.prices.GROUPS, len(view.running), len(jobs)) else []


class _Seeker:
    """A search for groups with one job at one instant; they must gain more than ``above``."""

    def __init__(
        self,
        search: formation.Search,
        footprints: api.NodePlacement,
        halves: NodeHalves,
        view: api.WholeNodesView,
        slowdown: upkeep.Slowdown,
        above: float,
    ) -> None:
        self.refused = 0  # groups that were tried in vain
        self._search = search
        self._above = above
        self._footprints = footprints
        self._halves = halves
        self._view = view
        self._work = view.work
        self._slowdown = slowdown
        self._free = view.free_nodes.bit_count()
        self._counts_nodes = view.counts_nodes
        self._looked: dict[tuple[int, bool], int] = {}  # candidates after step 1, by primary and by whether they run

    def beside(
        self, primary: upkeep.Member, candidates: Sequence[upkeep.Member], must: int | None = None
    ) -> Iterator[formation.Found]:
        """Yield the groups of ``primary`` with some of the candidates that are to be tried; ``must``: the first of them."""
        if primary.running is None and primary.nodes > self._free and not any(member.running for member in candidates):
            return  # no member brings nodes
        if not self._work.pay(api.prices.MEMBERS, len(candidates)):
            return
        if must is not None and not self._select_candidates(primary, candidates[:1]):
            return  # no other job would do
        chosen = self._select_candidates(primary, candidates)
        if chosen:
            self._looked[primary.job.id, chosen[0].running is not None] = len(chosen)
            found = formation.groups(primary, chosen, self._search, self._fits, must)
            good = (group for group in found if group.gain > self._above)
            just_one = self._search.choice == formation.FIRST and self._search.fairness_tries == formation.ONE
            yield from islice(good, 1) if just_one else good

    def _select_candidates(self, primary: upkeep.Member, candidates: Sequence[upkeep.Member]) -> list[upkeep.Member]:
        found = formation.select_candidates(primary, candidates, self._search, self._slowdown, self._halves)
        if not self._view.machine.resources:
            return found
        return [one._replace(home=home) for one in found if (home := self._home_beside(primary, one))]

    def _home_beside(self, primary: upkeep.Member, one: upkeep.Member) -> api.NodeSet:
        """Return the nodes of a job's home that have enough of what is counted for the primary, too; none where it is elsewhere."""
        if not (one.job.resources and primary.job.resources):
            return one.home
        both = one.job._replace(resources=api.both_amounts(one.job.resources, primary.job.resources))
        home = api.Counts(self._view.machine).open_to(both, one.home)
        return home if one.running is None or home == one.home else api.NodeSet(0)

    def first_of(self, candidates: Iterator[formation.Found], gate: api.Gate) -> formation.Group | None:
        """Return the best group that is admitted, or the first where that is wanted (step 6)."""
        if self._search.choice == formation.BEST:
            rank = formation.ranking(self._search)
            candidates = iter(sorted(candidates, key=lambda found: (found.falls_back, -rank(found))))
        for tried, found in enumerate(candidates, 1):
            if not self._work.pay(api.prices.GROUP_SEAT):
                return None
            most = self._search.max_slowdown + 0.5 / api.WHOLE_PPM  # as in step 1
            group = formation.seat_group(found, self._footprints, self._halves, self._view, most)
            if group is not None and gate.admit(group):
                for job_id in group.job_ids:
                    self._view.explain(job_id, partial(self._facts, group, tried))
                return group
            self.refused += 1
        return None

    def _fits(self, primary: upkeep.Member, matched: Sequence[upkeep.Member]) -> bool:
        """Tell whether there are empty nodes enough for the members that do not run yet, and budget enough for the forecast."""
        there = sum([member.nodes for member in (primary, *matched) if member.running is not None])
        wanted = max(primary.nodes, sum([member.nodes for member in matched]))
        if not self._counts_nodes and not self._is_open((primary, *matched), wanted - there):
            return False
        return wanted - there <= self._free and self._work.pay(api.prices.EVOLUTION)

    def _is_open(self, members: Sequence[upkeep.Member], missing: int) -> bool:
        """Tell whether all members may be on the same nodes, of which so many are empty, and whether their licences are free."""
        home = formation.common_home(members)
        if not home or (self._view.free_nodes & home).bit_count() < missing:
            return False
        wanted = Counter[str]()
        for member in members:
            wanted.update(dict(member.job.licences) if member.running is None else {})
        return all(self._view.licences.get(name, 0) >= amount for name, amount in wanted.items())

    def _facts(self, group: formation.Group, tried: int) -> dict[str, object]:
        """Return the facts for a decision trace about a group that was chosen after a number of tries."""
        found = group.found
        facts = {
            "primary": found.primary.job.id,
            "matched": [member.job.id for member in found.matched],
            "running": [member.job.id for member in (found.primary, *found.matched) if member.running is not None],
            "gain": round(found.gain, 6),
            "candidates": self._looked[found.primary.job.id, found.matched[0].running is not None],
            "tried": tried,
        }
        if group.seat is not None:
            facts["seat"] = {"chosen": group.seat[0], "compared": group.seat[1]}
        if resource := self._worst_resource(found):
            facts["resource"] = resource
        return {"group": facts}

    def _worst_resource(self, found: formation.Found) -> str | None:
        """Return the resource that adds most to the largest slowdown of the group; None if the belief does not say."""
        worst = max(found.matched, key=lambda member: max(member.beside, member.beside_it))
        model = self._view.pairs
        return None if model is None else api.worst_resource(found.primary.job, worst.job, model)
