"""Validation: the whole log under the present policy beside what it records, how far that is, and why; in words and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from cosched_emulator.run.coupling import coupling
from cosched_emulator.run.prepare import prepare
from cosched_emulator.run.run import run
from cosched_emulator.whatif.causes import Cause, causes_of, seen_of
from cosched_emulator.whatif.distance import PROCESSORS, ClassWait, Compared, Distance, compared_of, distance_of
from cosched_emulator.whatif.question import Prepared, whole_study, with_whole
from cosched_emulator.whatif.waits import recorded_of
from cosched_emulator.whatif.warm import WholeRun
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.config import choose
from cosched_terminal.console import printable
from cosched_terminal.tables import align, text_lines

UNCHECKED: Final = "The log records no waits: how near the baseline comes to them cannot be checked."
_CLASSES: Final = 4  # in the table of the terminal; JSON has all
_CAUSES: Final = 2
_LINES: Final = 3  # of the evidence of each
_NAME: Final = 33


class Validation(NamedTuple):
    """A log beside its run under the present policy; without recorded waits there is nothing to compare."""

    prepared: Prepared
    compared: Compared | None
    distance: Distance | None
    causes: tuple[Cause, ...]  # the strongest first
    tried: tuple[str, ...] = ()  # what became of constraints that the log suggests; they are no part of this run


def records_waits(prepared: Prepared) -> bool:
    """Tell whether the log says how long any job waited."""
    return bool(np.isfinite(recorded_of(prepared)).any())


def run_whole(prepared: Prepared, progress: Callable[[int], None] | None = None) -> Prepared:
    """Run the whole log under the present policy in this process, as the first step of ``whatif`` does in another one."""
    (cell,) = whole_study(prepared).cells
    made, choice = prepare(cell.scenario), choose(cell.argument, cell.settings)
    with coupling("direct", choice, made) as link:
        jobs = run(made, link, progress, keep=False).jobs
    known = (jobs.started, jobs.ended & jobs.started)
    waits_s, responses_s = (
        np.where(some, (times_us - jobs.submit_us) / SECOND_US, np.nan)
        for some, times_us in zip(known, (jobs.start_us, jobs.end_us), strict=True)
    )
    return with_whole(prepared, WholeRun(waits_s, responses_s))


def validation_of(prepared: Prepared) -> Validation:
    """Compare a log with its whole run."""
    compared = compared_of(prepared)
    distance = None if compared is None else distance_of(compared)
    if compared is None or distance is None:
        return Validation(prepared, compared, None, ())
    return Validation(prepared, compared, distance, causes_of(seen_of(compared, distance)))


def verdict(found: Distance) -> str:
    """Return whether the run is a credible baseline, and for what."""
    if found.credible:
        return f"credible for changes of the mean wait by more than {found.beyond}"
    return f"not credible: {'; '.join(found.why_not)}"


# ---------------------------------------------------------------- words


def text(found: Validation) -> str:
    """Return a validation for a terminal: at most 25 lines of 80 columns."""
    return "\n".join(printable(line) for line in _lines(found)) + "\n"


def _lines(found: Validation) -> Iterator[str]:
    distance = found.distance
    if distance is None:
        yield from text_lines(UNCHECKED, 2)
        return
    yield from text_lines(f"The baseline, {found.prepared.question.present.name}, is {verdict(distance)}.", 3)
    yield from align([*_figures(distance)], range(1, 4))
    for words in found.tried:
        yield from text_lines(words, 2)
    for cause in found.causes[: 1 if found.tried else _CAUSES]:
        yield from text_lines(cause.words, _LINES)
        yield from text_lines(f"  see {cause.tell}", 1)


def _figures(found: Distance) -> Iterator[list[str]]:
    """Yield the rows of the table: waits, processors, classes, and how alike waits are."""
    yield ["wait, min", "recorded", "baseline", "ratio"]
    for name in ("mean", "median", "p95"):
        yield _row(name, getattr(found.recorded, name), getattr(found.simulated, name))
    several = [kind for kind, classes in found.classes.items() if kind not in ("user", PROCESSORS) and len(classes) > 1]
    for kind in several[:1]:
        shown = found.classes[kind][:_CLASSES]
        yield from (_row(name_of(kind, one)[:_NAME], one.recorded, one.simulated) for one in shown)
    yield ["processors busy while jobs wait", _share(found.busy_recorded), _share(found.busy_simulated), ""]
    yield ["wait with enough of them idle", _share(found.free_share), "", ""]
    yield ["wait in which EASY starts the job", _share(found.held_share), "", ""]
    yield ["r by job (Spearman), by week", _share(found.spearman), _share(found.weekly_r), ""]
    yield [f"of {found.weeks:,} weeks within a factor 2", _share(found.weeks_within_2), "", ""]


def name_of(kind: str, one: ClassWait) -> str:
    """Return a class as people know it."""
    return one.name if one.name.startswith(f"{kind} ") else f"{kind} {one.name}"


def _row(name: str, recorded: float, simulated: float) -> list[str]:
    ratio = f"{simulated / recorded:.2f}" if recorded else "-"
    return [name, f"{recorded:,.1f}", f"{simulated:,.1f}", ratio]


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


# ---------------------------------------------------------------- JSON


def as_dict(found: Validation) -> dict[str, Any]:
    """Return a validation as plain values; None: there is none."""
    distance = found.distance
    present = found.prepared.question.present.name
    if distance is None:
        return {"present": present, "checked": False, "why_not": [UNCHECKED]}
    interval = distance.log_ratio
    plain = {
        name: _plain(getattr(distance, name))
        for name in (
            "ratio", "error", "error_most", "spearman", "weekly_r", "weeks", "weeks_within_2", "busy_recorded", "busy_simulated",
            "free_share", "held_share",
        )
    }  # fmt: skip
    return {
        "present": present,
        "checked": True,
        "credible": distance.credible,
        "why_not": [*distance.why_not],
        "jobs": distance.jobs,
        "recorded_wait_min": distance.recorded._asdict(),
        "simulated_wait_min": distance.simulated._asdict(),
        **plain,
        "log_ratio": None
        if interval is None
        else {"mean": interval.mean, "low": interval.low, "high": interval.high, "n": interval.n},
        "causes": [cause._asdict() for cause in found.causes],
        "tried": [*found.tried],
        "classes": {
            kind: [{key: _plain(value) for key, value in one._asdict().items()} for one in classes]
            for kind, classes in distance.classes.items()
            if classes
        },
    }


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
