"""The kinds of parts that a policy is composed of: one protocol each.

A class that extends a protocol inherits what it leaves out, so a part from outside defines one method.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple, Protocol

from cosched_hwmodel.pairs import PairModel
from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.threads import size
from cosched_plugin.core.engine import Policy
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import WholeNodesView
from cosched_plugin.ledger.running import Ended, Running
from cosched_plugin.parts import offers
from cosched_plugin.parts.needs import NONE, Needs
from cosched_plugin.protocol.messages import Action, JobSpec, NoteValue, Run, StartJob

# What the parts of a policy have in common.


class Changes(NamedTuple):
    """What has happened since a part last updated its note."""

    started: Sequence[JobSpec]  # jobs that this pass has started
    ended: Sequence[Ended]  # jobs that have ended or are pending again
    measured: Sequence[Running] = ()  # running jobs whose slowdown beside their present neighbours was measured
    arrived: Sequence[JobSpec] = ()  # jobs that have come, for parts that follow arrivals


class Part(Protocol):
    """A part of a composition. A class that extends a part's protocol inherits what it does not define.

    Attributes of a part must be caches that the view can rebuild; the part's lasting memory is its note.
    """

    @property
    def needs(self) -> Needs:
        """Return what another part, or the site, must provide (`cosched_plugin.parts.needs`, or a word of its author's)."""
        return NONE

    @property
    def provides(self) -> Needs:
        """Return what other parts may rely on."""
        return NONE

    @property
    def protocol_features(self) -> Needs:
        """Return the features of the protocol without which the part cannot work; `notes` where it has a note."""
        return frozenset({"notes"}) if self.note else NONE

    @property
    def ignores(self) -> Needs:
        """Return what it does not honour of `eligible nodes`, `countable resources`, `filled layouts` and `same nodes`.

        A site is declined for it.
        """
        return NONE

    @property
    def keeps_suspended(self) -> bool:
        """Tell whether the part itself resumes suspended jobs; else the composition resumes all that are on disk, before each pass."""
        return False

    @property
    def note(self) -> str:
        """Return the key of the part's note about the cluster; empty: it has no note.

        Parts with the same key share one note, and must agree on what is in it.
        """
        return ""

    @property
    def follows_arrivals(self) -> bool:
        """Tell whether `remember` is asked when jobs have come, too."""
        return False

    def remember(self, changes: Changes, view: View) -> NoteValue:
        """Return the new value of its note after ``changes``; ``view.note(None, self.note)`` is the present value.

        A note is a bool, 64-bit integer, finite number, text, or a tuple of those, within the limits of the wire: it must be bounded.
        """
        return view.note(None, self.note)

    def check(self, view: View) -> None:
        """Raise MachineError if the part cannot work on this machine."""
        return


# The queue order: which pending job comes first.


class Order(Part, Protocol):
    """Sorts pending jobs. Ties must be broken by (submission, id), so that a schedule never depends on anything else."""

    @property
    def by_arrival(self) -> bool:
        """Tell whether the order is that of submission: then a pass may examine new jobs alone."""
        return False

    @abstractmethod
    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return ``jobs``, given in order of (submission, id), in queue order; a stable sort keeps that order among equals."""


# The shape: which part of the machine a pass sees as free.


class Shape(Part, Protocol):
    """Makes the view to plan with from the plain view."""

    @abstractmethod
    def shaped(self, view: View) -> View:
        """Return the view to plan with, which stays current as ``view`` does; asked once for each view."""


# The budget: how much a decision may cost.


class Budget(Part, Protocol):
    """Limits the work of a decision; jobs that it does not reach stay pending."""

    @abstractmethod
    def units(self, view: View) -> int:
        """Return how many units of work this decision may cost, from what the manager knows: the `View` alone."""


# The belief: what co-located jobs are expected to cost each other.


class Believer(Part, Protocol):
    """Replaces the model of pairs that the manager states, for all parts that ask ``view.pairs``. Provides `needs.PAIR_BELIEF`."""

    @abstractmethod
    def pairs(self, view: View) -> PairModel | None:
        """Return the model as it follows from its note and ``view.given_pairs``: the same object as long as it says the same.

        It is asked before each pass. Another object makes searches begin their caches anew.
        """


# The ledger: what each job would have if no jobs were co-located.


class Ledger(Part, Protocol):
    """Keeps account of what jobs would have without co-location, so that those that are ahead may be asked to pay more."""

    @abstractmethod
    def spare_us(self, running: Running, view: View) -> int:
        """Return the span by which a running job may end later than expected, beyond other budgets; 0 where nothing is known."""


# The placement: which threads or nodes a job gets.


class Placer(Protocol):
    """The part of a placement that keeps a reservation."""

    def offer(self, job: JobSpec, snapshot: offers.Snapshot) -> offers.Offer | None:
        """Return the job's place in ``snapshot``, or None."""


class Placement(Part, Protocol):
    """Chooses threads for one job."""

    @property
    def counts(self) -> bool:
        """Tell whether a plain job's offer depends only on the number of free threads, not on which are free or what else runs."""
        return False

    @property
    def shortens(self) -> bool:
        """Tell whether an offer may plan with less than a job's estimate: then quick checks may not rely on estimates."""
        return False

    def settled(self, view: View) -> bool:
        """Tell whether starts cannot help a plain job that has no place: they only take threads from it, and bring it neighbours.

        They may help it where its loss depends on which threads of a node it gets.
        """
        return True

    def never(self, job: JobSpec, view: View) -> bool:
        """Tell whether ``job`` has no place on this machine, empty and with all nodes in service."""
        return view.never(job)

    @abstractmethod
    def offer(self, job: JobSpec, snapshot: offers.Snapshot) -> offers.Offer | None:
        """Return the job's place in ``snapshot``, or None if it has none at that instant."""

    def price(self, job: JobSpec, view: View) -> int:
        """Return the price of `offer` in units of work, which a pass pays where work is limited. `earliest` pays for itself."""
        return 0

    def offer_on(self, job: JobSpec, runs: tuple[Run, ...], snapshot: offers.Snapshot) -> offers.Offer:
        """Return the job on threads that another part has chosen, with its expected run time there without co-located jobs."""
        return offers.Offer(job, snapshot.at_us, runs, 1.0, job.estimate_us, job.limit_us)

    def start(self, job: JobSpec, view: View) -> StartJob:
        """Return the decision to start ``job`` now; there must be a place for it."""
        offer = self.offer(job, offers.snapshot_now(view))
        assert offer is not None
        return offer.start()

    def promising(self, jobs: list[JobSpec], snapshot: offers.Snapshot) -> list[JobSpec]:
        """Quick check of many jobs: return those that may get an offer in ``snapshot``. No job with an offer is left out."""
        return jobs

    def earliest(self, job: JobSpec, view: View) -> offers.Offer | None:
        """Return the job's first place as running jobs end; None if it has none even when all have ended."""
        for at_us, free in view.availability():
            if size(free) >= job.processes:
                offer = self.offer(job, offers.snapshot_at(view, at_us, free))
                if offer is not None:
                    return offer
        return None


class Footprint(NamedTuple):
    """A job on whole nodes."""

    per_node: int  # on each node; the last one may have fewer
    nodes: int  # how many
    factor: float  # run time there / run time with one process a node
    run_us: int  # span: the run time there


class NodePlacement(Placement, Protocol):
    """A placement that gives every job whole nodes; their number does not depend on which of its `home` they are.

    Provides `needs.FOOTPRINTS`.

    A protocol, although one placement here has it: groups and fairness work with a site's own as well.
    """

    def never(self, job: JobSpec, view: View) -> bool:
        """Tell whether the whole machine does not hold ``job``."""
        return self.footprint(job, view) is None

    @abstractmethod
    def footprint(self, job: JobSpec, view: View) -> Footprint | None:
        """Return what the job takes when it is alone on its nodes; None if the whole machine does not hold it."""

    def home(self, job: JobSpec, view: View) -> NodeSet:
        """Return the nodes of which the job gets as many as its footprint has; by default, those that it may have."""
        return view.machine.eligible(job)

    @abstractmethod
    def offer_with(self, job: JobSpec, footprint: Footprint, snapshot: offers.Snapshot) -> offers.Offer | None:
        """Return the job on empty nodes with a given footprint; None if there are too few."""

    @abstractmethod
    def choose_nodes(self, free: NodeSet, wanted: int, view: WholeNodesView) -> NodeSet:
        """Return ``wanted`` of the ``free`` nodes, or all of them if they are fewer."""


# A placement that searches for the place with the least penalty, within the caller's thresholds (RUA paper, sections 4 and 5).


class FoundPlace(Protocol):
    """A place for a job at one instant, before it is written out: what a `PenaltyPlacement`, also a site's own, finds."""

    @property
    def job(self) -> JobSpec:
        """Return the job."""

    @property
    def snapshot(self) -> offers.Snapshot:
        """Return the machine in which it was found."""

    @property
    def factor(self) -> float:
        """Return the penalty factor there: expected run time / run time alone, at least 1."""

    @property
    def end_us(self) -> int:
        """Return start + estimate x factor."""

    def offer(self) -> offers.Offer:
        """Return the place as an offer."""


class PenaltyPlacement(Placement, Protocol):
    """Provides `needs.LEAST_PENALTY`. Thresholds are ascending penalty factors; without any, the least factor is accepted.

    A protocol, although one placement here has it: RUA's backfill works with a site's own as well.
    """

    def kind(self, job: JobSpec, view: View) -> Hashable:
        """Return the kind of a job: jobs of one kind get the same places. By default, each job is of a kind of its own."""
        return job.id

    @abstractmethod
    def find(self, job: JobSpec, snapshot: offers.Snapshot, thresholds: Sequence[float] = ()) -> FoundPlace | None:
        """Return a place within the lowest threshold that can be met in ``snapshot``; None if the job has none."""

    @abstractmethod
    def first(self, job: JobSpec, view: View, thresholds: Sequence[float]) -> tuple[int, FoundPlace] | None:
        """Return the first step of the view's availability in which `find` finds a place: the step's number and the place."""

    @abstractmethod
    def meets(self, job: JobSpec, snapshot: offers.Snapshot, threshold: float | None) -> bool:
        """Quick check: tell whether `find` would find a place within ``threshold``."""

    @abstractmethod
    def all_within_reach(self, job: JobSpec, view: View, thresholds: tuple[float, ...]) -> tuple[float, ...]:
        """Return the thresholds; a threshold that the job cannot meet on the empty machine is raised until it can."""


# The pairing: which rows of the matrix of gang scheduling run together.


class RowLoad(NamedTuple):
    """A row as a pairing sees it."""

    slot: int  # its slot
    most_ppm: int  # the largest CPU share that is predicted for one of its jobs


class Pairing(Part, Protocol):
    """Chooses the rows that run beside others. Two jobs at most are then on a hardware thread, one of each row."""

    @property
    def alone(self) -> bool:
        """Tell whether every row runs alone, so that nothing need be predicted."""
        return False

    @property
    def each_turn(self) -> bool:
        """Tell whether a row's partner is chosen when its turn comes; otherwise all partners are chosen when a round begins."""
        return False

    @property
    def below_ppm(self) -> int | None:
        """Return the bound below which the CPU shares of two jobs on a thread must sum up, for the trace; None: there is none."""
        return None

    @abstractmethod
    def fits(self, one_ppm: int, other_ppm: int) -> bool:
        """Tell whether jobs with these CPU shares may run on the same hardware thread."""

    @abstractmethod
    def partners(self, rows: Sequence[RowLoad], of: Collection[int]) -> Mapping[int, int]:
        """Return the partners of the rows ``of``, slot by slot; a row may be the partner of several.

        ``rows`` are all rows that may be paired, in ascending order of slots. Rows without a partner are left out.
        """


# Time slices: classes of jobs that take turns.


class ClassPolicy(Protocol):
    """The policy of one class of jobs, on a view of that class: what `Slices`, also a site's own, may ask of a composition."""

    def check(self, view: View) -> None:
        """Raise MachineError if the policy cannot work on this machine."""

    def may_start(self, view: View) -> bool:
        """Tell whether any pending job has a place on the nodes in service once all running jobs have ended."""

    def prepare(self, view: View) -> Iterator[Action]:
        """Yield the decisions that keep notes and expected ends up to date while no job can be started."""

    def decide(self, view: View) -> Iterator[Action]:
        """Yield the decisions of one pass."""


class Slices(Part, Protocol):
    """Gives the machine to each class of jobs in turn."""

    @abstractmethod
    def divide(self, make: Callable[[], ClassPolicy]) -> Policy:
        """Return a policy in which the classes take turns; ``make`` returns a new policy for each class, as policies keep caches."""


# The matching, which decides which jobs are co-located, and the context in which a pass asks it.


class Matching(Part, Protocol):
    """Finds co-located jobs. Every seat that it returns has been admitted by the gate.

    A matching that extends this protocol and defines `seat` alone puts no job beside a running one.
    """

    @property
    def alone(self) -> bool:
        """Tell whether it starts every job alone, so that a pass need not ask it."""
        return False

    @property
    def settled(self) -> bool:
        """Tell whether starts in a pass cannot help a job that found no seat earlier in the same pass."""
        return False

    def prepare(self, context: Context) -> Iterator[Action]:
        """Yield the decisions that bring notes and expected ends up to date before a pass."""
        return iter(())

    @abstractmethod
    def seat(self, offer: offers.Offer, context: Context, gate: offers.Gate) -> offers.Seat | None:
        """Return a seat for ``offer``, co-located or alone; None if neither is admitted. ``context.pending`` includes the job."""

    def may_host(self, job: JobSpec) -> bool:
        """Tell whether other jobs may join ``job`` once it runs alone on its nodes."""
        return False

    def has_hosts(self, view: View) -> bool:
        """Tell whether there are running jobs that a pending one might join."""
        return False

    def join_candidates(self, context: Context, gate: offers.Gatekeeper = offers.UNRESERVED) -> Collection[int]:
        """Return the ids of pending jobs that might join a running one; jobs that ``gate`` refuses everywhere may be left out.

        Without a gate, a call may repeat a ``context.pending`` from before the last starts: the answer is as it was then.
        """
        return ()

    def join(self, job: JobSpec, context: Context, gate: offers.Gate) -> offers.Seat | None:
        """Return a seat for ``job`` on a running job's nodes."""
        return None


class Context(NamedTuple):
    """What the parts of a pass share during one scan of the queue."""

    view: View  # the view, in the composition's shape
    order: Order  # the part that arranges the queue
    placement: Placement  # the part that chooses threads
    matching: Matching  # the part that finds co-located jobs
    footprints: NodePlacement  # what jobs take on whole nodes
    pairing: Pairing  # the part that chooses which rows run together
    pending: offers.PendingJobs = offers.EMPTY  # the pending jobs in queue order: `pending.jobs`
    ledger: Ledger | None = None  # what jobs would have without co-location; None: nobody keeps account

    # Must be called after starts, before the matching is asked again, unless it is settled: a matching looks for partners among
    # `pending`, and keeps what it found for as long as it gets the same object.
    def over(self, pending: offers.PendingJobs) -> Context:
        """Return this context with another queue."""
        return tuple.__new__(Context, (*self[:6], pending, self[7]))  # a call of the class takes twice as long

    # A pass must ask here and never the placement: the price is paid here, and None may mean that the budget is spent. What is asked
    # for a reservation goes through `Placement.earliest`, which pays for itself and is never cut short.
    def offer(self, job: JobSpec, snapshot: offers.Snapshot) -> offers.Offer | None:
        """Pay for and return the job's place in ``snapshot``; None if it has none, or if the budget is spent."""
        if self.view.work.limited and not self._pay_for(job):
            return None
        return self.placement.offer(job, snapshot)

    def promising(self, jobs: list[JobSpec], snapshot: offers.Snapshot) -> list[JobSpec]:
        """Return the jobs that may get an offer in ``snapshot``: the first of them, as many as the budget can pay an offer for."""
        return self.placement.promising(self.within_budget(jobs), snapshot)

    def within_budget(self, jobs: list[JobSpec]) -> list[JobSpec]:
        """Return the first of ``jobs``, as many as the budget can pay one offer each for."""
        work = self.view.work
        if not work.limited:
            return jobs
        left = work.left
        paid = list(takewhile(self._pay_for, jobs))
        work.refund(left)
        return paid

    def _pay_for(self, job: JobSpec) -> bool:
        """Pay for an offer, where work is limited; tell whether anything was left. A free offer is always granted."""
        price = self.placement.price(job, self.view)
        return not price or self.view.work.spend(price)

    def arranged(self) -> offers.PendingJobs:
        """Return all pending jobs in queue order."""
        return offers.PendingJobs(self.order.arrange(self.view.queue, self.view))


# Fairness: what co-location may cost others.


class Fairness(Part, Protocol):
    """Limits the delay that co-located starts may cause for other jobs."""

    @abstractmethod
    def limit(self, matching: Matching) -> Matching:
        """Return ``matching``, restricted by this limit."""


# The backfill: the pass over the queue.


class Backfill(Part, Protocol):
    """The pass over the queue: which jobs start now."""

    @abstractmethod
    def decide(self, context: Context) -> Iterator[Action]:
        """Yield decisions until a further pass would decide nothing. ``context.pending`` is empty at first: the pass fills it."""
