"""A pass pays for a placement's offers at the placement's price."""

from __future__ import annotations

import pytest
from tests.plugin.policies.cases import NOW_US, welcome_of

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
from cosched_plugin.protocol.messages import JobSpec, NodeClass

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
