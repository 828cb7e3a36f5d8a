"""The claims of the G-LOMARC-TS paper, each with what was measured, and whether the seeds show it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from scripts.papers.glts.figures import Results, against, changes, values
from scripts.papers.glts.published import BEST_BLOCK, ENOUGH_SLACK, GROUPS
from scripts.papers.glts.runs import AARR, BASE, BLOCK, BLOCKS, GAP, SLACK, SLACKS, Task
from scripts.tables import (
    CLAIMS_HEAD,
    VERDICTS,
    cell,
    claim,
    number,
    percent,
    percent_cell,
    shown_by_interval,
    shown_by_seeds,
)

TITLES: Final[Mapping[str, str]] = {
    "rr_60.medium": "RR of medium jobs",
    "rr_60.long": "RR of long jobs",
    "rr_60.all": "RR of all jobs, bound 60 s",
    "rr_600.all": "RR of all jobs, bound 600 s",
    "high_load.medium_or_long": "core utilisation in high-load phases",
}
LITTLE: Final = 5.0  # percent that count as no difference
FULL: Final = 1.02  # makespan over last submission from which on a scheduler does not keep up


def claims(results: Results) -> list[str]:
    """Return the table of the paper's claims; one whose runs are not there is left out."""
    parts = (_response, _load, _utilisation, _groups, _delay, _blocks, _slack)
    rows = [row for part in parts for row in part(results)]
    return [VERDICTS, "", *CLAIMS_HEAD, *rows, ""]


def task_of_block(size: int, scheduler: str = "GLTS") -> Task:
    """Return the runs with blocks of so many jobs."""
    return Task("W2", scheduler, variant=BASE if size == BLOCK else f"block-{size}")


def task_of_slack(factor: str) -> Task:
    """Return the runs with this slack factor; ``none``: no group is refused for fairness."""
    return Task("W1", "GLTS", variant=BASE if factor == SLACK else f"slack-{factor}")


def task_of_gap(gap: str) -> Task:
    """Return GLTS at W1 with gaps between arrivals multiplied by so much."""
    return Task("W1", "GLTS", variant=BASE if gap == GAP else f"gap-{gap}")


def descending(results: Results, key: str, workload: str, names: Sequence[str], factor: float = 1.0) -> list[str]:
    """Return the row that says whether each scheduler's figure is above the next one's, and in how many seeds it is."""
    found = {name: values(results, key, Task(workload, name)) for name in names}
    seeds = set.intersection(*(set(by) for by in found.values()))
    if not seeds:
        return []
    means = [statistics.fmean([found[name][seed] for seed in seeds]) for name in names]
    held = sum([_falls([found[name][seed] for name in names]) for seed in seeds])
    measured = f"{', '.join(number(factor * mean) for mean in means)}; {held} of {len(seeds)} seeds"
    text = f"{TITLES[key]}: {' > '.join(names)}"
    return [claim(text, workload, measured, _falls(means), shown_by_seeds(held, len(seeds)))]


def _falls(levels: Sequence[float]) -> bool:
    return all(before > after for before, after in pairwise(levels))


def _response(results: Results) -> Iterator[str]:
    for key in ("rr_60.all", "rr_600.all"):
        found = list(against(results, key, Task("W1", "GLTS"), "SSP").values())
        yield from _within(f"{TITLES[key]}: GLTS at least 25 % below SSP", "W1", found, lambda mean: mean <= -25)
    by_class = [against(results, key, Task("W1", "GLTS"), "SSP").values() for key in ("rr_60.medium", "rr_60.long")]
    if all(by_class):
        medium, long = [statistics.fmean(changed) for changed in by_class]
        measured = f"{percent(medium)}, {percent(long)} % against SSP"
        more = [mine - theirs for theirs, mine in zip(*by_class, strict=True)]
        shown = shown_by_interval(more, lambda difference: difference < 0)
        yield claim("long jobs benefit more than medium ones", "W1", measured, long < medium, shown)
    for workload in AARR:
        for key in ("rr_60.medium", "rr_60.long", "rr_60.all", "rr_600.all"):
            yield from descending(results, key, workload, ("SSP", "CSTWS", "CST", "GLTS"))
    for rival in ("GLTS-FBO", "GLTS-NS", "GLTS-NH"):
        for key in ("rr_60.medium", "rr_60.long"):
            found = list(changes(results, key, Task("W1", rival), Task("W1", "GLTS")).values())
            text = f"{TITLES[key]}: {rival} no different from GLTS (within {LITTLE:g} %)"
            yield from _within(text, "W1", found, lambda mean: abs(mean) <= LITTLE)


def _load(results: Results) -> Iterator[str]:
    for scheduler, holds in (("GLTS", True), ("SSP", False)):
        lengths = values(results, "makespan_s", Task("W2", scheduler))
        last = values(results, "last_submission_s", Task("W2", scheduler))
        ratios = [lengths[seed] / last[seed] for seed in lengths if last.get(seed)]
        if ratios:
            halves = [
                statistics.fmean(values(results, key, Task("W2", scheduler)).values())
                for key in ("queue_first_half", "queue_second_half")
            ]
            mean = statistics.fmean(ratios)
            text = "keeps up" if holds else "does not keep up"
            measured = f"{mean:.3f} of it; queue {halves[0]:.0f}, then {halves[1]:.0f}"
            limit = f"makespan {'at most' if holds else 'above'} {FULL:g} of the last submission"
            shown = shown_by_interval(ratios, lambda ratio, holds=holds: (ratio <= FULL) == holds)  # type: ignore[misc]
            yield claim(f"{scheduler} {text}: {limit}", "W2", measured, (mean <= FULL) == holds, shown)


def _utilisation(results: Results) -> Iterator[str]:
    key = "high_load.medium_or_long"
    found = list(against(results, key, Task("W1", "GLTS"), "SSP").values())
    yield from _within(f"{TITLES[key]}: GLTS at least 15 % above SSP", "W1", found, lambda mean: mean >= 15)
    yield from descending(results, key, "W1", ("GLTS", "CST", "CSTWS", "SSP"), 100)


def _groups(results: Results) -> Iterator[str]:
    for workload in AARR:
        found = list(values(results, "groups.size", Task(workload, "GLTS")).values())
        yield from _within("two to three jobs in a group", workload, found, lambda mean: 2 <= mean <= 3, cell)
    few, share = GROUPS["W1"]["few_candidates"], GROUPS["W1"]["share"]
    found = [100 * value for value in values(results, "groups.share", Task("W1", "GLTS")).values()]
    text = f"{100 * share:g} % of the eligible jobs are in groups (within 5 points)"
    yield from _within(text, "W1", found, lambda mean: abs(mean - 100 * share) <= 5, cell)
    found = [100 * value for value in values(results, "groups.few_candidates", Task("W1", "GLTS")).values()]
    text = f"fewer than 4 candidates in {100 * few:g} % of cases (within 10 points)"
    yield from _within(text, "W1", found, lambda mean: abs(mean - 100 * few) <= 10, cell)
    found = list(changes(results, "groups.jobs_in_groups", Task("W2", "GLTS"), Task("W1", "GLTS")).values())
    yield from _within("a quarter to a third more at W2", "jobs in groups", found, lambda mean: 20 <= mean <= 38)


def _delay(results: Results) -> Iterator[str]:
    for name in ("medium", "long"):
        for key, text, low, high in (
            ("mean", "about 1 on average (within 0.15)", 0.85, 1.15),
            ("p75", "75 % within 1.3 (1.35)", 0.0, 1.35),
            ("p95", "95 % within 1.4 (1.5)", 0.0, 1.5),
        ):
            found = list(values(results, f"delay.{name}.{key}", Task("W1", "GLTS")).values())
            title = f"response / expected response: {text}"
            yield from _within(title, f"W1 {name}", found, lambda mean, low=low, high=high: low <= mean <= high, cell)  # type: ignore[misc]


def _blocks(results: Results) -> Iterator[str]:
    for key in ("rr_60.medium", "rr_60.long"):
        found = {size: values(results, key, task_of_block(size)) for size in BLOCKS}
        found = {size: by for size, by in found.items() if by}
        seeds = set.intersection(*(set(by) for by in found.values())) if found else set()
        if len(found) > 1 and seeds:
            means = {size: statistics.fmean([by[seed] for seed in seeds]) for size, by in found.items()}
            best = min(means, key=lambda size: means[size])
            spread = 100 * (max(means.values()) / min(means.values()) - 1)
            measured = f"best with {best}; from best to worst {spread:.1f} %"
            lowest = sum([min(found, key=lambda size, seed=seed: found[size][seed]) == BEST_BLOCK for seed in seeds])  # type: ignore[misc]
            shown = shown_by_seeds(lowest, len(seeds))
            yield claim(f"{TITLES[key]}: lowest with blocks of {BEST_BLOCK}", "W2", measured, best == BEST_BLOCK, shown)


def _slack(results: Results) -> Iterator[str]:
    enough = task_of_slack(ENOUGH_SLACK)
    for factor in SLACKS:
        if factor != ENOUGH_SLACK:
            found = list(changes(results, "rr_600.all", task_of_slack(factor), enough).values())
            above = factor == "none" or float(factor) > float(ENOUGH_SLACK)
            what = f"no different (within {LITTLE:g} %)" if above else "higher"
            text = f"{TITLES['rr_600.all']}: slack {factor} against {ENOUGH_SLACK}: {what}"
            yield from _within(text, "W1", found, _is_little if above else _is_above)


def _is_little(mean: float) -> bool:
    return abs(mean) <= LITTLE


def _is_above(mean: float) -> bool:
    return mean > 0


def _within(
    text: str,
    label: str,
    found: Sequence[float],
    holds: Callable[[float], bool],
    shown: Callable[[Sequence[float]], str] | None = None,
) -> Iterator[str]:
    """Yield the row of a claim on a mean over seeds, percentages of change if nothing else; nothing where there are none."""
    if found:
        measured = f"{percent_cell(found)} %" if shown is None else shown(found)
        yield claim(text, label, measured, holds(statistics.fmean(found)), shown_by_interval(found, holds))
