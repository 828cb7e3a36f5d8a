"""The claims on long jobs (X3), classes (X4) and copies of one program (X5): C22, C24 to C35."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from scripts.papers.claims import Claim, near, near_ratio, within
from scripts.papers.coscheduling import experiment as ex
from scripts.papers.coscheduling import published as printed
from scripts.papers.coscheduling.claims.common import (
    ABOUT_ONE,
    above,
    ascending,
    below,
    cell,
    cells,
    in_order,
    place,
    ratio_of,
    saving_text,
)
from scripts.papers.figures import Figures, interval_text

from cosched_emulator.statistics.intervals import Interval

OF_CLASSES: Final = (ex.CC, ex.SB, ex.HYBRID, ex.GANG, ex.BATCH)
ALONE: Final = 1.5  # processes on a node: MPL "mostly 1", our bound
SIGNIFICANT: Final = 1.1  # times, our bound
MINIMAL: Final = 1.25  # times
UNSEEN: Final = 0.1  # of CG's difference in seconds: what a figure would not show, our bound


def program_claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    parts = (_long, _class_a, _class_b, _class_c, _copies, _groups)
    return [claim for part in parts for claim in part(figures)]


def _long(figures: Figures) -> Iterator[Claim]:
    for reading in ex.READINGS[:1]:
        groups = [cells(ex.LONG, reading, names) for names in ([ex.HYBRID], [ex.CC, ex.SB], [ex.GANG], [ex.BATCH])]
        yield ascending(figures, "C22: mean response", place(ex.LONG, reading), ex.RESPONSE, groups)


def _class_a(figures: Figures) -> Iterator[Claim]:
    workload = ex.of_class("A")
    for name in (ex.CC, ex.SB, ex.GANG, ex.BATCH):
        found = figures.ratio(ex.RESPONSE, cell(workload, name), cell(workload, ex.HYBRID))
        text = f"C24: mean response, {name} / HYBRID, within 5 points of 1"
        yield within(text, place(workload, ex.MIXED), "very close", found, ABOUT_ONE, interval_text)
    for name in (ex.CC, ex.SB, ex.HYBRID, ex.GANG):
        found = figures.mean(ex.RESIDENTS, cell(workload, name))
        text = f"C24: processes on a node in use, {name}, below {ALONE:g} (our bound)"
        yield below(text, place(workload, ex.MIXED), "mostly 1", found, ALONE)


def _class_b(figures: Figures) -> Iterator[Claim]:
    workload = ex.of_class("B")
    groups = [cells(workload, ex.MIXED, [ex.CC, ex.SB, ex.HYBRID, ex.GANG]), cells(workload, ex.MIXED, [ex.BATCH])]
    text = "C25: mean response, batch the longest"
    yield ascending(figures, text, place(workload, ex.MIXED), ex.RESPONSE, groups, "worst")
    text = "C25: mean execution, batch the shortest"
    yield ascending(figures, text, place(workload, ex.MIXED), ex.EXECUTION, groups[::-1], "shortest")


def _class_c(figures: Figures) -> Iterator[Claim]:
    workload = ex.of_class("C")
    for name, published in printed.CLASS_C.items():
        found = figures.change(ex.RESPONSE, cell(workload, ex.HYBRID), cell(workload, name))
        row = "C26" if name == ex.GANG else "C27"
        yield near(f"{row}: mean response, HYBRID against {name}, %", place(workload, ex.MIXED), published, found)
    found = figures.ratio(ex.RESPONSE, cell(workload, ex.BATCH), cell(workload, ex.HYBRID))
    text = "C28: mean response, batch / HYBRID"
    yield near_ratio(text, place(workload, ex.MIXED), printed.CLASS_C_BATCH, found, saving_text, '"65 %": 1.65 x')


# ---------------------------------------------------------------- three copies of a program


def _copies(figures: Figures) -> Iterator[Claim]:
    for program in ex.PROGRAMS:
        workload = ex.copies(program)
        rest = [name for name in (*ex.DRIVEN, ex.GANG) if name != ex.HYBRID]
        groups = [cells(workload, ex.MIXED, [ex.HYBRID]), cells(workload, ex.MIXED, rest)]
        text = "C29: execution over three times that alone, HYBRID the shortest"
        yield ascending(figures, text, workload, ex.STRETCH, groups, "shortest")
    for name in (*ex.DRIVEN, ex.GANG):
        if name != ex.HYBRID:
            found = figures.change(ex.STRETCH, cell(ex.copies("EP"), name), cell(ex.copies("EP"), ex.HYBRID))
            yield near(f"C30: mean execution of EP, {name} against HYBRID, %", ex.copies("EP"), 0.0, found)
    for program in ex.PROGRAMS:
        if program != "EP":
            groups = [cells(ex.copies(program), ex.MIXED, names) for names in (ex.BLOCKING, ex.SPINNING)]
            text = "C31: execution over three times that alone, blocking below spinning"
            yield ascending(figures, text, ex.copies(program), ex.STRETCH, groups)


def group_ratio(figures: Figures, program: str) -> Mapping[int, float]:
    """Return by seed the mean execution under spinning policies over that under blocking ones."""
    spinning, blocking = (_group_mean(figures, program, names) for names in (ex.SPINNING, ex.BLOCKING))
    return {seed: value / blocking[seed] for seed, value in spinning.items() if seed in blocking}


def _group_mean(figures: Figures, program: str, names: Sequence[str]) -> dict[int, float]:
    """Return by seed the mean execution time over some policies, of the seeds that all have."""
    found = [figures.values(ex.EXECUTION, where) for where in cells(ex.copies(program), ex.MIXED, names)]
    seeds = set.intersection(*(set(values) for values in found))
    return {seed: statistics.fmean([values[seed] for values in found]) for seed in sorted(seeds)}


def _groups(figures: Figures) -> Iterator[Claim]:
    ratios = {program: group_ratio(figures, program) for program in ex.PROGRAMS}
    rest = {name: ratios[name] for name in ex.PROGRAMS if name != "CG"}
    text = "C32: execution, spinning / blocking, CG the largest"
    yield in_order(text, "X5", "largest", [rest, {"CG": ratios["CG"]}])
    differences = {}
    for program in ("CG", "IS"):
        spinning, blocking = (_group_mean(figures, program, names) for names in (ex.SPINNING, ex.BLOCKING))
        differences[program] = {seed: value - blocking[seed] for seed, value in spinning.items() if seed in blocking}
    found = ratio_of(differences["IS"], differences["CG"])
    text = f"C33: spinning - blocking in seconds, IS / CG, below {UNSEEN:g} (our bound)"
    yield below(text, "X5", "does not show", found, UNSEEN)
    for program in ("MG", "SP"):
        text = f"C34: execution, spinning / blocking, {program}, above {SIGNIFICANT:g} (our bound)"
        yield above(text, "X5", "significant", _against_one(ratios[program]), SIGNIFICANT)
    for program in ("BT", "LU"):
        text = f"C35: execution, spinning / blocking, {program}, below {MINIMAL:g} (our bound)"
        yield below(text, "X5", "minimal", _against_one(ratios[program]), MINIMAL)
        text = f"C35: spinning / blocking, {program} below SP and MG"
        yield in_order(text, "X5", "less", [{program: ratios[program]}, {name: ratios[name] for name in ("SP", "MG")}])


def _against_one(values: Mapping[int, float]) -> Interval | None:
    return ratio_of(values, dict.fromkeys(values, 1.0))
