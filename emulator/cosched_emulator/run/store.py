"""The run folder of a finished run."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cosched_emulator.results.files.folder import TRACE, new_run_folder, write_files
from cosched_emulator.results.files.run_files import RunFiles, run_files_of
from cosched_emulator.run.run import Finished


def store(
    finished: Finished,
    out: str,
    *,
    policy: dict[str, Any],
    link: str,
    force: bool,
    trace: str | None = None,
    files: RunFiles | None = None,
    began: float | None = None,
) -> None:
    """Write the run folder, and move a ``trace`` that belongs into it from the place that `place_trace` gave.

    ``files`` are those that the run has written to; None if its records were kept in memory. The link must not affect the results,
    so it is not part of the run's description but of timing.json, like the time since ``began`` (of `time.perf_counter`), when
    reading began.
    """
    prepared = finished.prepared
    scenario = prepared.scenario
    timing = {"wall_s": round(finished.wall_s, 6), "batches": finished.batches, "link": link}
    if finished.simulated is not None:
        timing["simulated"] = round(finished.simulated, 6)
    with ExitStack() as closing:
        folder = closing.enter_context(new_run_folder(out, force=force))
        if files is None:
            files = closing.enter_context(run_files_of(finished.records, out, prepared.nodes, finished.quanta))
        write_files(
            folder,
            files,
            prepared.nodes,
            summary=finished.summary,
            resolved_config={**scenario.as_dict(), "policy": policy},
            workload=prepared.workload,
            timing=timing,
            seed=scenario.seed,
            began=began,
            energy=finished.energy,
            power=prepared.power,
        )
        if trace is not None:
            Path(trace).rename(folder / TRACE)
