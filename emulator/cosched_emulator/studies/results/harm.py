"""Who is worse off under the cells of a study than under their baselines: figures for the table, and the jobs that lose most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from cosched_emulator.results.harm.figures import HarmFigures
from cosched_emulator.results.harm.harm import Harm, measure_harm
from cosched_emulator.results.harm.outcomes import Outcomes
from cosched_emulator.studies.folder import StoredCell, StoredPlan, StudyFolder
from cosched_emulator.studies.plan.experiment import HARM

LOSERS_LISTED: Final = 5  # of each cell
OF_ALL: Final = ("jobs", "h1", "hshk", "hshk_floor", "lost_s", "gained_s", "lost_share")
OF_CLASS: Final = ("jobs", "h1", "hshk", "hshk_floor")


class StudyHarm(NamedTuple):
    """The harm of all cells that have a baseline."""

    figures: dict[str, dict[str, Any]]  # by key of the cell: columns of its row
    losers: list[dict[str, Any]]  # rows of the table of losers
    missing: tuple[int, ...]  # numbers of cells with a baseline that is not done


def harm_of(folder: StudyFolder, plan: StoredPlan) -> StudyHarm:
    """Compare the jobs of each cell that is done with those of its baselines; raises InputError for a damaged file."""
    found = StudyHarm({}, [], ())
    missing: list[int] = []
    known: dict[tuple[str, ...], list[Outcomes] | None] = {}
    for cell in plan.cells:
        keys = plan.baselines.get(cell.key)
        if keys is None or not folder.has(cell.key):
            continue
        if keys not in known:
            known.clear()  # cells with the same baselines follow each other
            known[keys] = _all_outcomes(folder, keys)
        baselines, run = known[keys], folder.jobs(cell.key)
        if baselines is None or run is None:
            missing.append(cell.number)
            continue
        harm = measure_harm(run, baselines)
        found.figures[cell.key] = dict(_columns(harm))
        found.losers.extend(_losers(cell, harm))
    return found._replace(missing=tuple(missing))


def _all_outcomes(folder: StudyFolder, keys: tuple[str, ...]) -> list[Outcomes] | None:
    """Return what became of the jobs of all baselines; None where one is not done."""
    found = [folder.jobs(key) for key in keys]
    return [item for item in found if item is not None] if None not in found else None


def _columns(harm: Harm) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a row; shares are between 0 and 1."""
    yield from _some(HARM, OF_ALL, harm.figures)
    yield f"{HARM}killed", len(harm.killed)
    for name, figures in harm.by_class.items():
        yield from _some(f"{HARM}{name.replace(' ', '_')}_", OF_CLASS, figures)


def _some(prefix: str, names: tuple[str, ...], figures: HarmFigures) -> Iterator[tuple[str, Any]]:
    for name in names:
        yield f"{prefix}{name}", getattr(figures, name)


def _losers(cell: StoredCell, harm: Harm) -> Iterator[dict[str, Any]]:
    for loser in harm.losers(LOSERS_LISTED):
        yield {**cell.places, **{("job" if name == "id" else name): value for name, value in loser._asdict().items()}}
