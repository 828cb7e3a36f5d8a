"""The claims of the paired gang paper that no run of ours decides, and why: pictures that are lost, other work, gaps, an outlook."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.papers.claims import Claim, by_construction, not_checkable

from cosched_emulator.statistics.intervals import Verdict

LOST = "the picture is lost, and no value of it is in the text"


def settled_claims() -> list[Claim]:
    """Return the rows; where a picture is lost, the reason names the rows on what the text says of it."""
    return [*_pictures(), *_others()]


def _pictures() -> Iterator[Claim]:
    for row, what, judged in (
        ("C1", "figure 7: barriers/s of each kind of job in five mixes, by matching", "C2 to C6"),
        ("C20", "figure 8: barriers/s by mix and size of the cluster", "C21 to C24"),
        ("C25", "figure 9: barriers/s by mix and grain", "C26"),
        ("C29", "figure 10: mean slowdown and response over load", "C30 to C33 and C42"),
        ("C35", "figure 11: jobs in the system over time, by load", "C36 to C41"),
        ("C46", "figure 13: CPU share and pairs over time, four copies of QCRD", "C47 to C49"),
    ):
        yield not_checkable(f"{row}: {what}", "curves", f"{LOST}; what the text says of it: {judged}")


def _others() -> Iterator[Claim]:
    yield not_checkable("C28: interference of I/O shows in other work, too", "cited", "of other systems' measurements")
    text = "C51: jobs of one process, a quarter of the model's, wait like the others though they have no barrier"
    told = "the share of CPU is a property of the job: the paper leaves open how they would wait"
    yield by_construction(Claim(text, "dynamic workloads", "all jobs are alike", told, 0, Verdict.YES))
    text = "C54: more gangs than two, one for each device; matching by processor; blocking after a spin"
    yield not_checkable(text, "future work", "an outlook; `alternates = node` is a step of it")
