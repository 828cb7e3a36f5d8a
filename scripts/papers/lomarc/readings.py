"""Count in how many searches of L-R figure 5 as printed has another best candidate than as corrected.

``python -m scripts.papers.lomarc.readings`` makes the runs of W2 (M1, three seeds) and prints a line for each. The corrected
reading decides; both get the same queue, candidates and expected arrivals.
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

from scripts.papers.lomarc import experiment as ex
from scripts.papers.lomarc.literal import literal_impact
from scripts.papers.study import Size, scenario_of

from cosched_emulator import simulate
from cosched_plugin.api import Floats, Ints, View
from cosched_plugin.policies.lomarc.lookahead import Lookahead, ResponseImpact
from cosched_plugin.policies.lomarc.queue_table import Match, QueueTable

WORKLOAD: Final = "W2 M1"


class BothReadings(ResponseImpact):
    """The impact as corrected; counts searches among pending jobs with two candidates or more."""

    searches: ClassVar[int] = 0
    differ: ClassVar[int] = 0  # searches in which figure 5 as printed has another best candidate

    def with_waiting(self, match: Match, own: int, places: Ints, table: QueueTable, view: View) -> Floats:
        """Return the impacts of taking each candidate out of the queue, as corrected."""
        impacts = super().with_waiting(match, own, places, table, view)
        if len(places) > 1:
            work_s, future = table.work_s(match.processors), self._arrivals(table, view)
            printed = literal_impact(match, work_s, own, places, future)
            BothReadings.searches += 1
            BothReadings.differ += int(impacts.argmax() != printed.argmax())
        return impacts


class Counted(Lookahead):
    """L-R, with a count of the searches in which the readings differ."""

    def __init__(self, *, max_slowdown: float = 1.6, weak_load: float = 0.2) -> None:
        super().__init__(BothReadings(), max_slowdown=max_slowdown, weak_load=weak_load)


class Count(NamedTuple):
    """Searches of a run."""

    searches: int  # with two candidates or more
    differ: int


def count(jobs: int, seed: int, workload: str = WORKLOAD) -> Count:
    """Return the searches of a run of L-R."""
    BothReadings.searches = BothReadings.differ = 0
    chosen = scenario_of(ex.experiment(Size(jobs, 1)), workloads=workload, variants=ex.BASE)
    simulate(chosen, "lomarc-r", settings=[f"matching={__name__}:{Counted.__name__}"], seed=seed)
    return Count(BothReadings.searches, BothReadings.differ)


if __name__ == "__main__":
    # A policy names its class by module: as __main__ it would have counters of its own.
    from scripts.papers.lomarc.readings import count as count_of

    for number in range(1, ex.FEW + 1):
        found = count_of(ex.JOBS, number)
        print(
            f"{WORKLOAD}, seed {number}: {found.differ:,} of {found.searches:,} searches, {found.differ / found.searches:.1%}"
        )
