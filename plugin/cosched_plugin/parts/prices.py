"""The prices of all checks that policies make, in units of work: what a budget counts.

A pass pays with ``view.work.pay(PRICE, *counts)`` before a check. `docs/policies.md` shows this table.
"""

from __future__ import annotations

from typing import Final

from cosched_hwmodel.units import SECOND_US
from cosched_plugin.core.work import Price, Rate

# Backfilling.
CANDIDATE: Final = Price(
    "a place for a candidate of EASY or SJBF, and whether it leaves the reservation alone; a place for a job under `skip`",
    20,
)
TURN: Final = Price("a turn of a job with a promise that might start sooner", 80)
PROMISE: Final = Price("the earliest start of a job without a promise", 60)

# LessConsume and RUA.
PLACES: Final = Price("the places for a job at one instant", 80, (Rate("nodes", per=4),))
PLACES_BY_NODE: Final = Price(
    "the same for a job that asks for more than threads: each node by itself", 80, (Rate("nodes", 2),)
)

# Co-located jobs: pairs.
NEXT_JOB: Final = Price("the next job in the queue as a partner", 30, (Rate("pending jobs", per=20),))
PARTNERS: Final = Price("all pending jobs as partners of one", 100, (Rate("pending jobs", per=5),))
HOSTS: Final = Price(
    "all pending jobs as guests of all running ones", 100, (Rate("pending jobs", per=5), Rate("pairs", per=50))
)
RANKED_PAIR: Final = Price("a pair in a ranking, or a host that is tried", 2)
RANKED_RESPONSE: Final = Price("a pair in a ranking by response times", 2, (Rate("pending jobs", per=200),))

# Co-located jobs: groups, and their fairness.
GROUPS: Final = Price("the members of groups with one job", 50, (Rate("running jobs", 2), Rate("pending jobs")))
MEMBERS: Final = Price("candidates for the group of one primary", 0, (Rate("candidates"),))
EVOLUTION: Final = Price("what becomes of one group", 10)
GROUP_SEAT: Final = Price("the nodes of one group", 40)
SIMULATION: Final = Price("the starts of pending jobs, first come, first served", 0, (Rate("pending jobs", 15),))

# Divisors of the remaining work of a decision: one kind of check may use one such part; the rest is left for later checks.
COMPRESSION_SHARE: Final = 2  # compression; the rest is for jobs that have no promise yet
GROUP_SHARE: Final = 8  # pending jobs that are examined as members of groups
EXPECTATION_SHARE: Final = 4  # expected response times of new jobs

RETRY_US: Final = SECOND_US  # a pass that was cut short goes on after this time, where nothing else is due
