"""Who slows whom on a node, and through which resource: the penalty of each job, and what of it goes away without another job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from cosched_hwmodel.cli.output import CommandError
from cosched_hwmodel.cli.predicting.job_words import Job, profiles_file, read_profiles
from cosched_hwmodel.composite.composite_model import CompositeModel
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.topology import NodeShape
from cosched_terminal.tables import align

LEAST: Final = 0.0005  # a smaller penalty is not told


class Blame(NamedTuple):
    """The penalty of a job that is gone without the job ``by``, and its parts by resource, the largest first."""

    by: str
    penalty: float
    parts: tuple[tuple[str, float], ...]


class Told(NamedTuple):
    """How many times as long a job takes as one process alone, through which resources, and because of which jobs.

    The job itself is among ``blames`` where its own processes slow each other down.
    """

    job: Job
    slowdown: float
    parts: tuple[tuple[str, float], ...]
    blames: tuple[Blame, ...]


def tell(model: CompositeModel, node: NodeShape, jobs: Sequence[Job]) -> list[Told]:
    """Return what each job suffers from the others, in their order.

    Parts of several others need not add up to the whole: two that overload a resource together are both to blame for all.
    """
    together = model.explain(node, [job.placed for job in jobs])
    blames: list[list[Blame]] = [[] for _ in jobs]
    for absent, culprit in enumerate(jobs):
        others = [index for index in range(len(jobs)) if index != absent]
        without = model.explain(node, [jobs[index].placed for index in others])
        for index, less in zip(others, without, strict=True):
            whole = together[index]
            parts = _largest((name, part - dict(less.parts)[name]) for name, part in whole.parts)
            if whole.penalty - less.penalty >= LEAST:
                blames[index].append(Blame(culprit.label, whole.penalty - less.penalty, parts))
    for index, job in enumerate(jobs):
        (alone,) = model.explain(node, [job.placed])
        if alone.penalty >= LEAST:
            blames[index].append(Blame(job.label, alone.penalty, _largest(alone.parts)))
    return [
        Told(job, 1.0 + whole.penalty, _largest(whole.parts), tuple(blame))
        for job, whole, blame in zip(jobs, together, blames, strict=True)
    ]


def _largest(parts: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """Return the resources with a part that is worth telling, the largest first."""
    return tuple(sorted([part for part in parts if part[1] >= LEAST], key=lambda part: -part[1]))


def profiles_for(node_text: str, file: str | None) -> dict[str, Profile]:
    """Return the profiles of a file; without one, of the file that ``measure`` has written beside the node's, if any."""
    if file is None:
        beside = profiles_file(node_text)
        return read_profiles(beside) if node_text.endswith(".toml") and Path(beside).is_file() else {}
    return read_profiles(file)


def parameters_of(assignments: Iterable[str]) -> list[tuple[str, object]]:
    """Return the parameters of ``KEY=VALUE`` words: whole numbers, else texts."""
    found: list[tuple[str, object]] = []
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise CommandError("--set", f"expected KEY=VALUE, got {assignment!r}")
        found.append((key, int(value) if value.isascii() and value.isdecimal() else value))
    return found


def blame_lines(node: NodeShape, told: Sequence[Told]) -> list[str]:
    """Return a row for each job, and further rows where several others slow it down."""
    rows = [["job", "threads", "takes", "slowed by", "through"]]
    for each in told:
        blames = [
            [
                f"{blame.by} +{blame.penalty:.2f}" if blame.by != each.job.label else f"itself +{blame.penalty:.2f}",
                _parts(blame.parts),
            ]
            for blame in each.blames
        ] or [["-", "-"]]
        first = [each.job.label, ",".join(map(str, each.job.threads)), f"{each.slowdown:.2f}"]
        rows += [[*(first if index == 0 else ["", "", ""]), *blame] for index, blame in enumerate(blames)]
    return [f"On {node.name}; alone each process takes 1:", *align(rows, (2,), indent=2)]


def _parts(parts: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {part:.2f}" for name, part in parts) or "-"


def blame_values(told: Told) -> dict[str, Any]:
    """Return what a job suffers, for JSON."""
    return {
        "job": told.job.label,
        "threads": list(told.job.threads),
        "slowdown": told.slowdown,
        "resources": dict(told.parts),
        "slowed_by": [
            {"job": blame.by, "penalty": blame.penalty, "resources": dict(blame.parts)} for blame in told.blames
        ],
    }
