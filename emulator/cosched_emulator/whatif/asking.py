"""A question asked: its runs in two steps, as one study in a folder that can be resumed, then the answer and its page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Final, TypeAlias

from cosched_emulator.page.document import write_page
from cosched_emulator.studies.cell_run import Failure
from cosched_emulator.studies.cells import Cell, Plan
from cosched_emulator.studies.runner import Made, Way, run_plan
from cosched_emulator.studies.study_folder import REPORT, StudyFolder
from cosched_emulator.whatif.answer import Answer, answer, best_of, compare
from cosched_emulator.whatif.answer_page import page
from cosched_emulator.whatif.guests_of_record import record_study, told_of_record
from cosched_emulator.whatif.question import Question, more_runs, prepare_question, study_of, whole_study, with_whole
from cosched_emulator.whatif.validation import validation_of
from cosched_emulator.whatif.warm import whole_run

STUDY: Final = "study"  # folder in that of the answer
Bar: TypeAlias = Callable[..., None] | None  # called with the number of runs that have ended, and of all
Bars: TypeAlias = Callable[[int, str], AbstractContextManager[Bar]]  # makes one for so many runs, which it names


def no_bars(_runs: int, _what: str) -> AbstractContextManager[Bar]:
    """Show no progress."""
    return nullcontext()


def ask(
    question: Question, out: Path, workers: int = 0, bars: Bars = no_bars
) -> tuple[Answer, Sequence[tuple[Cell, Failure]]]:
    """Return the answer, whose page and runs are in the folder ``out``, and the runs that failed.

    ``workers``: processes; 0: one for each core. Raises InputError and ConfigurationError.
    """
    with redirect_stdout(sys.stderr):  # modules that the site names may print
        prepared = prepare_question(question, out)
        folder = StudyFolder(out / STUDY)
        whole = whole_study(prepared)
    way = Way(jobs=workers)
    with bars(len(whole.runs), "runs of the whole log") as bar:
        prepared = with_whole(prepared, whole_run(_run(whole, folder, way, bar, 0).result))
    of_record = record_study(prepared)
    first = study_of(prepared)
    with bars(len(first.runs) + more_runs(prepared), "runs") as bar:
        made = _run(first, folder, way, bar, more_runs(prepared), () if of_record is None else of_record.runs)
        second = study_of(prepared, best_of(compare(prepared, made.result)))
        made = _run(second, folder, way, bar, 0)
    checked = validation_of(prepared)
    found = answer(prepared, made.result, checked.distance)._replace(
        causes=checked.causes,
        of_record=() if of_record is None else tuple(told_of_record(_run(of_record, folder, way, None, 0).result)),
    )
    write_page(out / REPORT, page(found), force=True)
    return found, made.failures


def _run(plan: Plan, folder: StudyFolder, way: Way, bar: Bar, later: int, besides: Sequence[Cell] = ()) -> Made:
    """Run a plan, and the runs ``besides``; the bar is about these, those that are done already, and so many that follow."""

    def progress(done: int, total: int) -> None:
        if bar is not None:
            runs = len(plan.runs) + len(besides)
            bar(runs - total + done, runs + later)

    return run_plan(plan, folder, way, progress, besides)
