"""The table of a paper's page that tells, for each workload that feeds a headline, whether the queue grows as long as jobs come.

Where it does there is no steady state: means then depend on the number of jobs, and so do gains in percent. Two tests stand side by
side. Over seeds: the mean queue in the second half of the time between first and last submission over that in the first; a queue that
grows steadily from nothing gives 3, a steady one 1 and a little more, because it begins empty, so the bound is 2. Within each run: the
test of `cosched_emulator.statistics.saturation`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from scripts.papers.claims import Band
from scripts.papers.figures import Figures, Where, as_ratio, interval_text
from scripts.papers.pages import Section, place
from scripts.tables import NOTHING, table_head, table_row

from cosched_emulator.statistics.intervals import Interval, Verdict, change_of, difference_of

GROWS: Final = 2.0  # second half / first half, from which on a queue grows


class Queue(NamedTuple):
    """The columns of a study that tell of a queue: its means in both halves, and the test of a run."""

    first: str = "queue_first_half"
    second: str = "queue_second_half"
    test: str = "saturated"
    unit: str = "thread-hours of work of pending jobs"


WORK: Final = Queue()  # every study has its columns
WORDS: Final = {Verdict.YES: "grows", Verdict.NO: "does not grow", Verdict.NOT_SHOWN: str(Verdict.NOT_SHOWN)}


def growth(figures: Figures, where: Where, queue: Queue = WORK) -> tuple[Interval | None, Band]:
    """Return how much longer the queue of the second half is, over seeds, and the band of one that grows.

    It is the ratio of the halves; where the first is empty in some run, the second less twice the first, which is above 0 if it grows.
    """
    first, second = figures.values(queue.first, where), figures.values(queue.second, where)
    ratio = as_ratio(change_of(second, first))
    if ratio is not None:
        return ratio, Band.above(GROWS)
    return difference_of(second, {seed: GROWS * value for seed, value in first.items()}), Band.above(0.0)


def saturation(cells: Iterable[Where], queue: Queue = WORK) -> Section:
    """Return the table, a row for each cell that has run; empty where none has."""
    cells = [*cells]
    text = (
        f"The table has the mean queue ({queue.unit}) in the first and in the second half of the time between first and last"
        f" submission. A queue *grows* if second / first is above {GROWS:g} at every value of the interval. With a queue that grows"
        " there is no steady state, and means depend on the number of jobs. *By run* is the test of"
        " `cosched_emulator.statistics.saturation`, which needs at least four days."
    )
    head = table_head(("", "", "seeds"), ["first half", "second half", "second / first", "queue", "saturated, by run"])

    def section(figures: Figures) -> list[str]:
        rows = [row for where in cells if (row := _row(figures, where, queue))]
        return [text, "", *head, *rows, ""] if rows else []

    return section


def _row(figures: Figures, where: Where, queue: Queue) -> str:
    found, band = growth(figures, where, queue)
    if found is None:
        return ""
    series = figures.series(where)
    tests = Counter(str(row[queue.test]) for row in (series.rows if series else ()) if row.get(queue.test))
    halves = [interval_text(figures.mean(name, where)) for name in (queue.first, queue.second)]
    ratio = interval_text(found) if band.low == GROWS else NOTHING
    by_run = ", ".join(f"{count} {word}" for word, count in tests.items()) or NOTHING
    labels = (where.workload, place(where), str(found.n))
    return table_row(labels, [*halves, ratio, WORDS[band.verdict(found)], by_run])
