"""Compares a run with baselines: `measure_harm`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.columns import IntArray
from cosched_emulator.results.harm.figures import HarmFigures, LaterRule, PairedJobs, harm_figures
from cosched_emulator.results.harm.losers import Loser, losers_of, worst_first
from cosched_emulator.results.harm.outcomes import Outcomes
from cosched_emulator.results.harm.pairing import Unpaired, completed_in, count_unpaired, rows_in

DEFAULT_RULE = LaterRule()


@dataclass(frozen=True, eq=False)
class Harm:
    """Which jobs of a run respond later than in its baselines, by how much, and why. It can be pickled."""

    rule: LaterRule
    baselines: int
    unpaired: Unpaired  # jobs without a response in both the run and the first baseline
    figures: HarmFigures  # of all jobs
    by_class: dict[str, HarmFigures]  # of classes that have a job, in order
    killed: tuple[
        int, ...
    ]  # ids of the jobs that completed in the first baseline and were killed at the limit in the run
    class_names: tuple[str, ...] = field(repr=False)
    jobs: PairedJobs = field(repr=False)  # one row per job that completed in the run and in the first baseline

    def losers(self, most: int = 10) -> list[Loser]:
        """Return the jobs that count as later than in the first baseline, the largest loss in seconds first."""
        rows = worst_first(self.jobs)
        return losers_of(self.jobs, self.class_names, rows[self.jobs.later[rows]][: max(0, most)])

    def every_job(self) -> list[Loser]:
        """Return all jobs that completed in both runs, the largest loss first, also those that gain."""
        return losers_of(self.jobs, self.class_names, worst_first(self.jobs))

    def as_dict(self, most: int = 10) -> dict[str, Any]:
        """Return all figures and the ``most`` worst losers as plain values for JSON."""
        return {
            "rule": self.rule._asdict(),
            "baselines": self.baselines,
            "unpaired": self.unpaired._asdict(),
            "all": self.figures._asdict(),
            "classes": {name: figures._asdict() for name, figures in self.by_class.items()},
            "losers": [loser._asdict() for loser in self.losers(most)],
            "killed": list(self.killed),
        }


def measure_harm(run: Outcomes, baselines: Sequence[Outcomes], rule: LaterRule = DEFAULT_RULE) -> Harm:
    """Compare ``run`` with the same jobs, by id, of the first of ``baselines``, and with all of them.

    The baselines after the first are runs of the same scheduler with slightly shaken run times. Only jobs that count in ``run``
    do. Raises ConfigurationError if there is no baseline, or one of other jobs.
    """
    if not baselines:
        raise ConfigurationError("baseline", "at least one run", "none")
    rows = [rows_in(run, baseline) for baseline in baselines]
    first, base_done = baselines[0], completed_in(baselines[0], rows[0])
    killed = run.id[run.counted & base_done & run.killed & ~run.completed]
    jobs = _paired(run, baselines, rows, rule)
    chosen = [(name, jobs.kind == number) for number, name in enumerate(run.class_names)]
    return Harm(
        rule=rule,
        baselines=len(baselines),
        unpaired=count_unpaired(run, first, rows[0]),
        figures=harm_figures(jobs, len(baselines)),
        by_class={name: harm_figures(jobs.only(which), len(baselines)) for name, which in chosen if which.any()},
        killed=tuple(np.sort(killed).tolist()),
        class_names=run.class_names,
        jobs=jobs,
    )


def _paired(run: Outcomes, baselines: Sequence[Outcomes], rows: Sequence[IntArray], rule: LaterRule) -> PairedJobs:
    """Return the jobs that count and completed in the run and in the first baseline; ``rows`` by baseline, of `rows_in`."""
    first = baselines[0]
    here = np.flatnonzero(run.counted & run.completed & completed_in(first, rows[0]))
    there = rows[0][here]
    response_us = run.end_us[here] - run.submit_us[here]
    done = [completed_in(baseline, row[here]) for baseline, row in zip(baselines, rows, strict=True)]
    in_all = np.logical_and.reduce(done) & (len(baselines) > 1)
    base_us = np.stack(
        [
            baseline.end_us[row[here]] - baseline.submit_us[row[here]]
            for baseline, row in zip(baselines, rows, strict=True)
        ]
    )
    floor_count = np.zeros(here.size, dtype=np.int64)
    if len(baselines) > 1:
        for number in range(len(baselines)):
            floor_count += in_all & rule.later(base_us[number], np.delete(base_us, number, axis=0).max(axis=0))
    wait_lost_us = run.start_us[here] - first.start_us[there]  # both were submitted at the same time
    nodes_lost_us = run.nodes_us[here] - first.nodes_us[there]
    return PairedJobs(
        id=run.id[here],
        kind=run.kind[here],
        size=run.size[here],
        submit_us=run.submit_us[here],
        response_us=response_us,
        baseline_us=base_us[0],
        wait_lost_us=wait_lost_us,
        nodes_lost_us=nodes_lost_us,
        disk_lost_us=response_us - base_us[0] - wait_lost_us - nodes_lost_us,
        later=rule.later(response_us, base_us[0]),
        in_all=in_all,
        later_than_all=in_all & rule.later(response_us, base_us.max(axis=0)),
        floor_count=floor_count,
    )
