"""The terminal output at the end of a run: a table, notes and warnings."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from cosched_emulator.errors import EmulatorError
from cosched_emulator.results.figures.comparison import compare as rows_of
from cosched_emulator.results.figures.comparison import text_table, usual_figures
from cosched_emulator.results.figures.replay_figures import replay_lines
from cosched_emulator.results.files.run_folder import may_share_nodes, part_name, sharing_note
from cosched_emulator.run.run import Finished
from cosched_emulator.workload.job import WARNING
from cosched_hwmodel.units import seconds_text
from cosched_plugin.protocol.messages import REJECTED
from cosched_terminal.console import say, warn

_OF_ROWS: Final = re.compile(r"\d+ rows\b")  # a note of `RepairReport.lines`


def report(
    finished: Finished,
    policy: str,
    began: float,
    out: str | None,
    *,
    as_json: bool,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Print the summary. Raises EmulatorError if jobs never ended although nothing was due any more.

    ``settings`` are the policy's, as far as they are known; ``began`` is the time of `time.perf_counter` when reading began;
    ``out`` is the run folder that was written. Warnings of the workload are printed before the run, not here.
    """
    unfinished = finished.unfinished
    if as_json:
        say(json.dumps({"policy": policy, **finished.summary, "refused_actions": finished.refused}, indent=2))
    else:
        _tell_workload(finished.prepared.workload.notes)
        prepared = finished.prepared
        if may_share_nodes(settings, prepared.nodes, exclusive=prepared.scenario.workload.exclusive):
            say(sharing_note([policy]), err=True)
        figures = usual_figures([finished.summary])
        rows = rows_of([finished.summary], figures=figures, shapes=[part_name(settings, "shape")])
        say(text_table([policy], rows), nl=False)
        _tell_cut_runs(finished.summary)
        for line in replay_lines(finished.summary):
            say(line, err=True)
        jobs = len(finished.jobs)
        simulated = _speed(jobs, finished.wall_s)
        total = _speed(jobs, time.perf_counter() - began)
        say(f"{jobs} jobs in {simulated}; with reading and writing {total}", err=True)
        if out is not None:
            say(f"run folder: {out}", err=True)
    rejected = finished.summary["states"][REJECTED]
    if rejected and finished.rejected is not None:
        first, reason = finished.rejected
        why = " ".join(reason.split()) or "no reason given"  # the words of a policy of others
        warn(f"{rejected} of the jobs that count were rejected; the first one of all, job {first}: {why}")
    if finished.refused:
        warn(f"{finished.refused} actions of the scheduler were refused")
    if unfinished:
        raise EmulatorError(_stuck(finished, policy))


def _stuck(finished: Finished, policy: str) -> str:
    """Return which jobs never ended, when nothing was left to happen, and whether the policy has started any."""
    unfinished, jobs = finished.unfinished, finished.jobs
    shown = ", ".join(map(str, unfinished[:5])) + (f", {len(unfinished) - 5} more" if len(unfinished) > 5 else "")
    last_us = max(int(times.max(initial=0)) for times in (jobs.submit_us, jobs.start_us, jobs.end_us))
    none = "" if jobs.started.any() else f"; {policy} has started no job"
    return f"{len(unfinished)} jobs never ended, and nothing was left to happen after {seconds_text(last_us)} s: {shown}{none}"


def repairs_of(notes: Sequence[str]) -> list[str]:
    """Return the notes of what was repaired in the rows of a log; the first says how many rows it has."""
    return [note for note in notes if _OF_ROWS.match(note)]


def _tell_workload(notes: Sequence[str]) -> None:
    """Print the notes on the workload; what was repaired in the rows of a log is one line. Warnings were printed before."""
    told = [note for note in notes if not note.startswith(WARNING)]
    repairs = repairs_of(notes)
    for line in [*(["; ".join(repairs)] if repairs else []), *[note for note in told if note not in repairs]]:
        say(line, err=True)


def _speed(jobs: int, wall_s: float) -> str:
    return f"{wall_s:.2f} s ({jobs / wall_s if wall_s else 0.0:,.0f} jobs/s)"


def _tell_cut_runs(summary: Mapping[str, Any]) -> None:
    """Print the effect of cutting run times on the offered load."""
    cut = summary.get("cut_runs")
    if cut is not None and cut["offered_load"] is not None:
        say(
            f"offered load {cut['offered_load_logged']:.3f} as logged, {cut['offered_load']:.3f} with run times cut",
            err=True,
        )
