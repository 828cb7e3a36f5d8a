"""What the commands ``compare``, ``classes``, ``losers`` and ``whatif`` do, from Python: of runs or run folders, or of a site."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from cosched_emulator.api.simulate import Run
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.offered import POPULATIONS
from cosched_emulator.results.compared_classes import Classes, classes_of
from cosched_emulator.results.compared_runs import ComparedRuns, compare_folders, run_names
from cosched_emulator.results.figures.classes import PAPER_RULES, ClassRules
from cosched_emulator.results.figures.comparison import FigureRow, text_table
from cosched_emulator.results.files.run_reader import read_run
from cosched_emulator.results.harm import DEFAULT_RULE, Harm, LaterRule, LoserClasses, measure_harm, outcomes
from cosched_emulator.results.shown import Shown
from cosched_emulator.whatif.answer import Answer
from cosched_emulator.whatif.asking import ask
from cosched_emulator.whatif.question import Question, with_scale
from cosched_emulator.whatif.site_sections import site_of
from cosched_terminal.whole_file import temporary_folder

AnyRun: TypeAlias = Run | str | os.PathLike[str]  # a run, or its folder


class Comparison(Shown):
    """The figures of several runs beside each other; runs that differ in the seed alone are one column, with intervals."""

    def __init__(self, compared: ComparedRuns) -> None:
        self.names: Sequence[str] = compared.headings
        self.rows: Sequence[FigureRow] = compared.rows
        self.notes: Sequence[str] = compared.notes
        self.verdict = compared.verdict()  # in one sentence: what is gained, and who pays
        self.summaries: Sequence[Mapping[str, Any]] = compared.summaries  # of all runs
        self._draw = compared.draw

    def __str__(self) -> str:
        return f"{self.verdict}\n\n{text_table(self.names, self.rows)}"

    def drawn(self, file: Path, title: str) -> None:
        """Draw the main figures, with the sentence below them."""
        self._draw(file, title, self.verdict)


def compare(
    *runs: AnyRun, names: Sequence[str] | None = None, jobs: str = "finished", common: bool = False
) -> Comparison:
    """Compare runs, as ``cosched-emulator compare``; the first one is the baseline.

    ``names``: of the runs, by default their folders' or policies'. ``jobs``: ``finished`` or ``all``, whose waits and slowdowns count.
    ``common``: only jobs that completed in all runs. Raises InputError for what is no run folder, ConfigurationError.
    """
    if jobs not in POPULATIONS:
        raise ConfigurationError.unknown_name("jobs", jobs, POPULATIONS)
    with _folders(runs) as folders:
        return Comparison(compare_folders(folders, _names(runs, names), jobs, common=common))


def classes(
    *runs: AnyRun, names: Sequence[str] | None = None, by: str | None = None, rules: ClassRules = PAPER_RULES
) -> Classes:
    """Compare classes of jobs, as ``cosched-emulator classes``: short, medium and long ones.

    ``by``: classes by ``partition``, ``qos``, ``account`` or ``user`` instead. Raises as `compare`.
    """
    known = ("partition", "qos", "account", "user")
    if by is not None and by not in known:
        raise ConfigurationError.unknown_name("by", by, known)
    with _folders(runs) as folders:
        return classes_of(folders, _names(runs, names), by, rules)


def losers(
    run: AnyRun, baseline: AnyRun, *more: AnyRun, rule: LaterRule = DEFAULT_RULE, classes: LoserClasses | None = None
) -> Harm:
    """Return which jobs respond later than in a baseline, as ``cosched-emulator losers`` and `Run.against`."""
    if isinstance(run, Run):
        return run.against(baseline, *more, rule=rule, classes=classes)
    found = [
        outcomes(each.finished.jobs, each.machine, each.prepared.selection, classes)
        if isinstance(each, Run)
        else outcomes((stored := read_run(each)).jobs, stored.machine, stored.selection, classes)
        for each in (run, baseline, *more)
    ]
    return measure_harm(found[0], found[1:], rule)


def what_if(
    site: str | os.PathLike[str] | None = None,
    *,
    out: str | os.PathLike[str],
    overrides: Mapping[str, Any] | None = None,
    policy: str | None = None,
    settings: Iterable[str] = (),
    windows: int | None = None,
    window_jobs: int | None = None,
    candidates: Sequence[str] = (),
    workers: int = 0,
) -> Answer:
    """Say what other policies, and sharing nodes, would do to a log, as ``cosched-emulator whatif``; hours for a long log.

    site         a scenario's file, such as ``workload import`` writes; None: ``overrides``, such as ``{"workload": {"swf": FILE}}``
    out          the folder of page and runs: what is done there is not run again
    policy       the present policy, with ``settings`` (``KEY=VALUE``); None: the site's, else EASY on whole nodes
    windows      how many windows of the log, of ``window_jobs`` each
    candidates   run only these policies or levers
    workers      processes; 0: one for each core

    Raises InputError for files, ConfigurationError for settings.
    """
    sections, own = site_of(None if site is None else os.fspath(site), dict(overrides or {}))
    question = Question(sections, policy or own, tuple(settings), asked=policy is not None, only=tuple(candidates))
    found, _ = ask(with_scale(question, windows, window_jobs), Path(out), workers)
    return found


def _names(runs: Sequence[AnyRun], names: Sequence[str] | None) -> list[str]:
    """Return a name for each run, each once."""
    if names is not None:
        if len(names) != len(runs) or len(set(names)) < len(names):
            raise ConfigurationError("names", f"{len(runs)} different names", repr(list(names)))
        return list(names)
    folders = [Path(each) for each in map(_folder_of, runs) if each is not None]
    if len(folders) == len(runs):
        return run_names(folders)
    plain = [each.policy if isinstance(each, Run) else Path(each).name for each in runs]
    return [
        f"{name} {plain[: place + 1].count(name)}" if plain.count(name) > 1 else name
        for place, name in enumerate(plain)
    ]


def _folder_of(run: AnyRun) -> str | os.PathLike[str] | None:
    return run.folder if isinstance(run, Run) else run


@contextmanager
def _folders(runs: Sequence[AnyRun]) -> Iterator[list[Path]]:
    """Yield a folder for each run; of a run that has none until the block ends."""
    if not runs:
        raise ConfigurationError("runs", "at least one", "none")
    with ExitStack() as stack:
        found = []
        for each in runs:
            folder = _folder_of(each)
            if folder is None and isinstance(each, Run):
                folder = each.write(Path(stack.enter_context(temporary_folder("cosched-"))) / "run")
            found.append(Path(folder or ""))
        yield found
