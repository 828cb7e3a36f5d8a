"""LOMARC's response-time impact with figure 5 of the paper taken literally, as a part of a policy.

As printed: the improvement of jobs behind the candidate is the work of the *current* job; the gain of the candidate itself
overwrites what was there before; an expected job's response time is its own work; and the sum is divided by the number of
jobs pushed down *less* the number pulled up. Where that number is 0, it is divided by 1. The response time, which is used
before it has a value, starts with the current job's work. Figure 5 does not say what happens beside running jobs; there
the policy's usual impact counts.
"""

from __future__ import annotations

import numpy as np

from cosched_plugin.api import Floats, Ints, View
from cosched_plugin.policies.lomarc.lookahead import Lookahead, ResponseImpact
from cosched_plugin.policies.lomarc.queue_table import Future, Match, QueueTable


class LiteralImpact(ResponseImpact):
    """The impact of figure 5 as printed."""

    def with_waiting(self, match: Match, own: int, places: Ints, table: QueueTable, view: View) -> Floats:
        """Return the impacts of taking each candidate out of the queue."""
        if not len(places):
            return np.ones(0)
        return literal_impact(match, table.work_s(match.processors), own, places, table.future(view))


class Literal(Lookahead):
    """L-R with figure 5 as printed."""

    def __init__(self, *, max_slowdown: float = 1.6, weak_load: float = 0.2) -> None:
        super().__init__(LiteralImpact(), max_slowdown=max_slowdown, weak_load=weak_load)


def literal_impact(match: Match, work_s: Floats, own: int, places: Ints, future: Future) -> Floats:
    """Return the impact of each candidate; arguments as of `impact_on_waiting`."""
    own_s = match.time_s * match.size / match.processors
    delay, moved_s = match.delay_s(), match.work_s()
    improvement = own_s
    places = places - (places > own)
    response = own_s + np.cumsum(np.delete(work_s, own))
    before = np.concatenate(([0.0], np.cumsum(1.0 / response)))
    at = response[places]
    increase = delay / own_s + delay * before[places]
    decrease = (at - moved_s * match.slowdowns) / at + improvement * (before[-1] - before[places + 1])
    if future.short.jobs:
        increase = increase + future.short.jobs * delay / future.short.work_s
    if future.longer.jobs:
        decrease = decrease + future.longer.jobs * improvement / future.longer.work_s
    pushed = places
    pulled = len(response) - 1 - places
    balance = pushed - pulled
    impact: Floats = (decrease - increase) / np.where(balance == 0, 1, balance)
    return impact
