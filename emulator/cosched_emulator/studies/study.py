"""One call that runs a study: many runs, declared as axes of values, in parallel and resumable."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cosched_emulator.studies.folder import StudyFolder
from cosched_emulator.studies.plan.cells import make_plan
from cosched_emulator.studies.plan.reader import read_experiment
from cosched_emulator.studies.results.result import StudyResult
from cosched_emulator.studies.runs.runner import TIMEOUT_S, Progress, Way, run_plan


def study(
    experiment: str | os.PathLike[str] | Mapping[str, Any],
    out: str | os.PathLike[str] | None = None,
    *,
    jobs: int = 0,
    dask: str | None = None,
    keep: bool = False,
    timeout_s: float = TIMEOUT_S,
    progress: Progress | None = None,
) -> StudyResult:
    """Run a study, as ``cosched-emulator study run`` does, and return its results.

    experiment  a TOML file's name, or a table of the same form (docs/studies.md)
    out         the study's folder: runs that are done there are not made again; None: nothing is left on disk
    jobs        processes on this machine; 0: one for each core
    dask        address of a dask.distributed scheduler, whose workers make the runs instead
    keep        write the run folder of each cell below ``out``
    timeout_s   longest time for one run, in seconds
    progress    called with the number of runs that have ended, and of all that were left to make

    A run that fails is in `StudyResult.failures`. Raises an EmulatorError or a PluginError for an experiment that cannot be run,
    and for a folder that is in use or cannot be written.
    """
    plan = make_plan(read_experiment(experiment))
    way = Way(jobs=jobs, dask=dask, keep=keep and out is not None, timeout_s=timeout_s)
    if out is not None:
        return run_plan(plan, StudyFolder(out), way, progress).result
    with tempfile.TemporaryDirectory(prefix="cosched-study-") as folder:
        return replace(run_plan(plan, StudyFolder(f"{folder}/study"), way, progress).result, folder=None)
