"""The profit of a match: heuristics that lookahead matchmaking uses to compare partners and hosts (LOMARC paper, section 5)."""

from __future__ import annotations

from typing import ClassVar, Final, Protocol

import numpy as np

from cosched_plugin.api import Floats, Ints, View, prices
from cosched_plugin.policies.lomarc.hosts import Pairs
from cosched_plugin.policies.lomarc.profit import (
    Future,
    Match,
    impact_on_running,
    impact_on_waiting,
    may_gain,
    utilisation_gain_1,
    utilisation_gain_2,
)
from cosched_plugin.policies.lomarc.queue_table import QueueTable

FUTURES: Final = ("longer", "all", "none")


class Heuristic(Protocol):
    """Gives each match a profit. The match with the highest one above 0 is taken, the first among equals."""

    @property
    def compares(self) -> bool:
        """Tell whether profits differ, so that a decision trace should show them."""
        return True

    def with_waiting(self, match: Match, own: int, places: Ints, table: QueueTable, view: View) -> Floats:
        """Return the profit of each pending job at ``places`` of the queue as a partner of the one at ``own``."""
        ...

    def with_running(self, pairs: Pairs, table: QueueTable, view: View) -> Floats:
        """Return the profit of each pair of a pending job and a running one."""
        ...

    def promising(self, pairs: Pairs, table: QueueTable, view: View) -> Pairs:
        """Return the pairs that may have a profit above 0: a quick check that never drops such a pair."""
        return pairs

    def price(self, pending: int) -> int:
        """Return the price of one pair's profit, in units of work; it depends on the number of pending jobs."""
        return prices.RANKED_PAIR.units()


class First(Heuristic):
    """All matches have the same profit: the first one is taken."""

    compares: ClassVar[bool] = False

    def with_waiting(self, match: Match, own: int, places: Ints, table: QueueTable, view: View) -> Floats:
        """Return the same profit for all."""
        return np.ones(len(places))

    def with_running(self, pairs: Pairs, table: QueueTable, view: View) -> Floats:
        """Return the same profit for all."""
        return np.ones(len(pairs.newcomers))


class SharedTimeGain(Heuristic):
    """The utilisation gain over the shared time (U1)."""

    def with_waiting(self, match: Match, own: int, places: Ints, table: QueueTable, view: View) -> Floats:
        """Return the gains."""
        return utilisation_gain_1(match.size, match.time_s, match.sizes, match.times_s, match.slowdowns)

    def with_running(self, pairs: Pairs, table: QueueTable, view: View) -> Floats:
        """Return the gains over the time that the running jobs have left."""
        match = match_with_running(pairs, table, view)
        return utilisation_gain_1(match.size, match.time_s, match.sizes, match.times_s, match.slowdowns)


class TimelessGain(Heuristic):
    """The utilisation gain whatever the run times (U2)."""

    def with_waiting(self, match: Match, own: int, places: Ints, table: QueueTable, view: View) -> Floats:
        """Return the gains."""
        return utilisation_gain_2(match.size, match.sizes, match.slowdowns)

    def with_running(self, pairs: Pairs, table: QueueTable, view: View) -> Floats:
        """Return the gains."""
        match = match_with_running(pairs, table, view)
        return utilisation_gain_2(match.size, match.sizes, match.slowdowns)


class ResponseImpact(Heuristic):
    """The impact on the response times of all pending jobs, and of expected arrivals.

    ``future``: the expected arrivals that count: all, the medium and long ones (longer), or none.
    """

    def __init__(self, future: str = FUTURES[0]) -> None:
        self._future = future

    def with_waiting(self, match: Match, own: int, places: Ints, table: QueueTable, view: View) -> Floats:
        """Return the impacts of taking each candidate out of the queue."""
        if not len(places):
            return np.ones(0)
        return impact_on_waiting(match, table.work_s(match.processors), own, places, self._arrivals(table, view))

    def with_running(self, pairs: Pairs, table: QueueTable, view: View) -> Floats:
        """Return the impacts of putting each pending job beside a running one."""
        if not len(pairs.newcomers):
            return np.ones(0)
        match = match_with_running(pairs, table, view)
        return impact_on_running(match, table.work_s(match.processors), pairs.newcomers, self._arrivals(table, view))

    def promising(self, pairs: Pairs, table: QueueTable, view: View) -> Pairs:
        """Return the pairs for which a bound of the impact is above 0."""
        match = match_with_running(pairs, table, view)
        may = may_gain(match, table.work_s(match.processors), self._arrivals(table, view))
        return pairs.only(np.flatnonzero(may))

    def price(self, pending: int) -> int:
        """Return the price of a pair, which grows with the jobs whose response times it changes."""
        return prices.RANKED_RESPONSE.units(pending)

    def _arrivals(self, table: QueueTable, view: View) -> Future:
        """Return the expected arrivals that count."""
        if self._future == "none":
            return Future()
        future = table.future(view)
        return future if self._future == "all" else Future(longer=future.longer)


def match_with_running(pairs: Pairs, table: QueueTable, view: View) -> Match:
    """Return the hosts, with the time that they have left, as the current jobs, and the newcomers as the candidates."""
    jobs, own, ranks = table.columns, pairs.newcomers, pairs.ranks
    return Match(
        view.machine.cores, pairs.sizes[ranks], pairs.left_s[ranks], jobs.sizes[own], jobs.times_s[own], pairs.slowdowns
    )
