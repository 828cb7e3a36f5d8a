"""Figures of a run of a few jobs that start together: barriers a second, slots chosen as partner, logged shares."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from scripts.papers.paired_gang import experiment as ex
from scripts.papers.paired_gang.quanta import Quanta, chosen, mean_share

from cosched_emulator import Run
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.workload.job import JobProgram
from cosched_hwmodel.units import SECOND_US


def static_figures(run: Run, quanta: Quanta) -> dict[str, Any]:
    """Return the figures of jobs that start together; rates are over the time up to the first end of a job."""
    records = sorted(run.records, key=lambda record: record.job.spec.id)
    ids = [record.job.spec.id for record in records]
    found = chosen(quanta, ids)
    figures: dict[str, Any] = {f"chosen_{place}": share for place, share in enumerate(found)}
    figures["chosen_range"] = max(found) - min(found)
    named = run.prepared.workload.programs
    programs = [named.of(job_id) for job_id in ids] if named is not None else []
    if not programs or any(program.iterations is None for program in programs):
        return figures
    window_s, barriers = _barriers(records, quanta, programs)
    rates = [count / window_s for count in barriers]
    figures |= {f"rate_of_{place}": rate for place, rate in enumerate(rates)}
    figures |= {"window_s": window_s, "rate_total": sum(rates)}
    for kind in ex.KINDS:
        mine = [place for place, program in enumerate(programs) if program.name == kind]
        if mine:
            allowed_s = sum(_allowed_s(quanta, ids[place], window_s) for place in mine)
            figures[f"rate_{kind}"] = statistics.fmean(rates[place] for place in mine)
            figures[f"speed_{kind}"] = sum(barriers[place] for place in mine) / allowed_s if allowed_s else None
            for how in ("alone", "paired"):
                shares = mean_share(quanta, [ids[place] for place in mine], paired=how == "paired")
                figures[f"share_{kind}_{how}"] = shares
    figures["io_per_s"] = sum(
        rate * program.files * record.job.spec.processes
        for rate, program, record in zip(rates, programs, records, strict=True)
        if program.name == ex.IO
    )
    return figures


def _barriers(
    records: Sequence[JobRecord], quanta: Quanta, programs: Sequence[JobProgram]
) -> tuple[float, list[float]]:
    """Return the time in which all jobs ran, in seconds, and how many barriers each of them completed in it.

    Where a job ends by itself, the others' barriers at that time follow from the CPU time that they had used in whole quanta.
    """
    ends_us = [record.end_us or 0 for record in records]
    iterations = [program.iterations or 0 for program in programs]
    if min(ends_us) == max(ends_us):
        done = [record.work_us / record.job.run_us for record in records]
        return ends_us[0] / SECOND_US, [count * share for count, share in zip(iterations, done, strict=True)]
    window_s = float(quanta.end_s[quanta.end_s <= min(ends_us) / SECOND_US].max(initial=0.0))
    used = [
        [
            float(quanta.cpu_s[(quanta.job == record.job.spec.id) & (quanta.end_s <= until)].sum())
            for until in (window_s, math.inf)
        ]
        for record in records
    ]
    return window_s, [count * now / all_of_it for count, (now, all_of_it) in zip(iterations, used, strict=True)]


def _allowed_s(quanta: Quanta, job: int, until_s: float) -> float:
    """Return the time for which a job could run in quanta up to ``until_s``."""
    return float(quanta.allowed_s[(quanta.job == job) & (quanta.end_s <= until_s + 1e-6)].sum())
