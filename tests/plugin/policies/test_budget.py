"""Decisions under a budget: work is left for later, decisions stay valid, and they depend only on the protocol's state.

A pass pays for a placement's offers at the placement's price.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from tests.contract.cases import lomarc, statistical
from tests.plugin.policies.cases import NOW_US, variants, welcome_of
from tests.plugin.policies.glomarc.glts_cases import belief_of, nodes_of, spec_of

from cosched_emulator import prepare
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.run.run import run
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.parts.kinds import Context, Placement
from cosched_plugin.parts.offers import snapshot_now
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.orders import Fcfs
from cosched_plugin.policies.placement.compact import FirstFit
from cosched_plugin.policies.placement.spread import Spread
from cosched_plugin.policies.planning.neutral import NoMatching, NoPairing
from cosched_plugin.policies.rua.lessconsume import LessConsume
from cosched_plugin.policies.slack import NOTE
from cosched_plugin.protocol.messages import Action, Event, JobSpec, NodeClass, SetNote, StartTogether, Welcome

LOMARC = ("pss", "ac", "am", "lomarc-fm", "lomarc-u1", "lomarc-u2", "lomarc-r")
SLICED = ("ssp", "glts", "cst", "cstws", "glts-fbo", "glts-ns", "glts-nh")
SCENARIOS: dict[str, Callable[[], dict[str, Any]]] = {
    **dict.fromkeys(LOMARC, lomarc),
    **dict.fromkeys(SLICED, statistical),
}
# Budgets that are too small to examine everything.
FEW = {"ac": 20, "lomarc-fm": 60, "lomarc-u2": 150, "lomarc-r": 90, "glts": 1500, "cst": 1500, "glts-nh": 1500}
LAST_LOOK = 1000  # the largest price of one examination in these scenarios


class Watched(DirectLink):
    """A link that records the budget left after each decision; its scheduler may be made anew before every batch."""

    def __init__(self, factory: Callable[[Welcome], SchedulerCore], *, anew: bool = False) -> None:
        super().__init__(factory)
        self._anew = anew
        self.left: list[int] = []
        self.together = 0

    def open(self, inventory: Callable[[], Welcome]) -> None:
        self._inventory = inventory
        super().open(inventory)

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        if self._anew:
            super().open(self._inventory)
        actions = super().exchange(seq, now_us, events)
        core = self.scheduler
        assert isinstance(core, SchedulerCore)
        core.check()
        self.left.append(core.view.work.left)
        self.together += sum(isinstance(action, StartTogether) for action in actions)
        return actions


@cache
def play(preset: str, units: int | None, *, anew: bool = False) -> tuple[Any, Watched]:
    settings = () if units is None else ("budget=counted", f"budget.units={units}")
    link = Watched(choose(preset, settings).scheduler, anew=anew)
    return run(prepare(SCENARIOS[preset]()), link), link


# Variants of a policy that differ only in a parameter are slow tests.
@pytest.mark.parametrize("preset", variants((*LOMARC, *SLICED), *LOMARC[::2], "glts"))
def test_a_budget_that_is_large_enough_changes_nothing(preset: str) -> None:
    limited, link = play(preset, 10**9)
    plain, free = play(preset, None)
    assert limited.records == plain.records
    assert set(free.left) == {0}  # without a budget nothing is counted
    assert min(link.left) > 0


@pytest.mark.by_default(2)
@pytest.mark.parametrize(("preset", "units"), FEW.items())
def test_under_a_small_budget_all_jobs_end(preset: str, units: int) -> None:
    """All jobs end under every policy, and work is bounded; the schedule differs, and still has co-located jobs."""
    cut, link = play(preset, units)
    plain, _ = play(preset, None)
    assert cut.records != plain.records
    assert link.together > 0
    ended = cut.summary["states"]
    assert (ended["UNFINISHED"], ended["REJECTED"], ended["CANCELLED"]) == (0, 0, 1)
    assert len(cut.records) == len(plain.records)
    assert -LAST_LOOK < min(link.left) <= 0
    assert play(preset, units, anew=True)[0].records == cut.records


def test_responses_are_expected_as_far_as_the_budget_pays() -> None:
    """Part of the budget pays for the expected responses of some of 40 long jobs; the others follow when they are near the head."""
    node = nodes_of(2)
    jobs = [spec_of(number, 8, 20_000, submit_us=number) for number in range(1, 41)]
    told = welcome_of([node], (), jobs, belief_of())

    def noted(units: int) -> list[int | None]:
        core = SchedulerCore(compose({"preset": "glts", "budget": {"name": "counted", "units": units}}), told)
        return [
            action.job_id
            for action in core.handle(told.now_us, ())
            if isinstance(action, SetNote) and action.key == NOTE
        ]

    assert noted(10**6) == [*range(1, 41)]
    few = noted(600)
    assert 5 <= len(few) < 20
    assert few == [*range(1, len(few) + 1)]


# ---------------------------------------------------------------- who pays

JOBS = [JobSpec(number, NOW_US, number, 10) for number in (1, 2, 3)]


class Dear(FirstFit):
    """First fit, at 10 units a process."""

    def price(self, job: JobSpec, view: View) -> int:
        return 10 * job.processes


def context_with(placement: Placement, units: int | None) -> Context:
    nodes = NodeClass(8, 1, 2, 1, 16, 6000, 0, 0)
    view = SchedulerCore(compose({"preset": "easy"}), welcome_of([nodes], (), JOBS)).view
    if units is not None:
        view.work.begin(units)
    return Context(view, Fcfs(), placement, NoMatching(), Spread(), NoPairing())


def offers(context: Context) -> list[bool]:
    return [context.offer(job, snapshot_now(context.view)) is not None for job in JOBS]


@pytest.mark.parametrize(("units", "found", "left"), [(100, 3, 40), (31, 3, -29), (30, 2, 0), (5, 1, -5)])
def test_an_offer_is_paid_for_before_it_is_made(units: int, found: int, left: int) -> None:
    context = context_with(Dear(), units)
    assert len(context.within_budget(JOBS)) == len(context.promising(JOBS, snapshot_now(context.view))) == found
    assert offers(context) == [True] * found + [False] * (3 - found)
    assert context.view.work.left == left


@pytest.mark.parametrize(("placement", "units"), [(FirstFit(), 0), (Dear(), None)])
def test_offers_without_a_price_do_not_depend_on_the_budget(placement: Placement, units: int | None) -> None:
    """The same holds for any placement without a budget."""
    context = context_with(placement, units)
    assert context.within_budget(JOBS) == JOBS
    assert offers(context) == [True] * 3
    assert context.view.work.left == 0


def test_less_consume_charges_for_nodes() -> None:
    """For a job that requests more than threads, each node is examined by itself."""
    context = context_with(LessConsume(), 1000)
    assert context.placement.price(JOBS[0], context.view) == 80 + 8 // 4
    assert context.placement.price(JOBS[0]._replace(exclusive=True), context.view) == 80 + 8 * 2
