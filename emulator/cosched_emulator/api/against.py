"""What `Run.against` does: it compares a run with baselines that are runs or run folders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeAlias

from cosched_emulator.results.files.reader import read_run
from cosched_emulator.results.harm.figures import LaterRule
from cosched_emulator.results.harm.harm import DEFAULT_RULE, Harm, measure_harm
from cosched_emulator.results.harm.outcomes import LoserClasses, Outcomes, outcomes
from cosched_emulator.run.run import Finished

RunLike: TypeAlias = Finished | str | os.PathLike[str]


def compare_runs(
    run: Finished, baselines: Sequence[RunLike], rule: LaterRule | None, classes: LoserClasses | None
) -> Harm:
    """Return which jobs of ``run`` respond later than in the baselines; see `Run.against`."""
    found = [_outcomes(each, classes) for each in baselines]
    return measure_harm(_outcomes(run, classes), found, DEFAULT_RULE if rule is None else rule)


def _outcomes(run: RunLike, classes: LoserClasses | None) -> Outcomes:
    """Return what became of the jobs of a run, or of the one in a folder."""
    if isinstance(run, Finished):
        return outcomes(run.jobs, run.prepared.nodes, run.prepared.selection, classes)
    stored = read_run(run)
    return outcomes(stored.jobs, stored.machine, stored.selection, classes)
