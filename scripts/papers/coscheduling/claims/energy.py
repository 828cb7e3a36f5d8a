"""The claims on energy: E1 to E12. Where the paper's own tables decide, no run is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from scripts.papers.claims import Claim, by_construction, in_print, near, near_ratio, within
from scripts.papers.coscheduling import experiment as ex
from scripts.papers.coscheduling import published as printed
from scripts.papers.coscheduling.claims.common import (
    above,
    ascending,
    below,
    cell,
    cells,
    driven,
    in_order,
    others,
    place,
    saving_text,
)
from scripts.papers.figures import Figures, Where
from scripts.tables import NOTHING

from cosched_emulator.statistics.intervals import Interval, change_of

AGREES: Final = 1.0  # percent between formula and integral
EXACT_PERCENT: Final = 0.02  # between the printed idle energy and B N T
ROWS_EXACT: Final = 23
SAME: Final = 1.1  # times: watts that differ by less count as one number
OF_CLASSES: Final = (ex.HYBRID, ex.SB, ex.CC, ex.GANG, ex.BATCH)


def energy_claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    parts = (_most, _efficiency, _formula, _busy, _classes, _jobs, _memory, _off, _printed)
    return [claim for part in parts for claim in part(figures)]


def _most(figures: Figures) -> Iterator[Claim]:
    for reading in ex.READINGS:
        groups = [cells(ex.HIGH, reading, others(reading, ex.BATCH)), cells(ex.HIGH, reading, [ex.BATCH])]
        text = "E1: total energy, batch the most"
        yield ascending(figures, text, place(ex.HIGH, reading), ex.ENERGY, groups, "most")


def _efficiency(figures: Figures) -> Iterator[Claim]:
    batch = printed.row_3(ex.BATCH, "").total_mj
    for reading in ex.READINGS:
        for name in (ex.HYBRID, ex.CC, ex.SB, ex.GANG):
            for at in ex.PLACEMENTS if name != ex.GANG else (ex.PACKED,):
                if name not in ex.DRIVEN or name in driven(reading):
                    published = batch / printed.row_3(name, at).total_mj
                    found = figures.ratio(ex.ENERGY, cell(ex.HIGH, ex.BATCH, reading), cell(ex.HIGH, name, reading, at))
                    text = f"E2: total energy, batch / {name}{f' {at}' if name != ex.GANG else ''}"
                    yield near_ratio(text, place(ex.HIGH, reading), published, found, saving_text)
    for name in (ex.CC, ex.SB):
        published = 100 * (printed.row_3(ex.GANG, "").total_mj / printed.row_3(name, ex.PACKED).total_mj - 1)
        found = figures.change(ex.ENERGY, cell(ex.HIGH, ex.GANG), cell(ex.HIGH, name))
        yield near(f"E4: total energy, gang against {name}, %", f"{ex.HIGH}; {ex.SKIP}", published, found)


def _formula(figures: Figures) -> Iterator[Claim]:
    for title, errors in (("table 3", _errors(printed.TABLE_3)), ("table 4", _errors(printed.TABLE_4))):
        worst = max(errors, key=lambda row: abs(errors[row]))
        outside = sum(abs(error) > printed.FORMULA_PERCENT for error in errors.values())
        yield in_print(
            f"E3: formula against printed total, %, all rows within {printed.FORMULA_PERCENT:g}",
            title,
            "within 3 %",
            f"{outside} of {len(errors)} rows outside; worst {worst[0]} {errors[worst]:+.2f}",
            holds=not outside,
        )
    for name in ex.POLICIES:
        found = _formula_change(figures, cell(ex.HIGH, name))
        text = f"E3: formula against the integral over node states, {name}, %, within {AGREES:g}"
        claim = within(text, f"{ex.HIGH}; {ex.MIXED.of(name)}", "within 3 %", found, (-AGREES, AGREES))
        yield by_construction(claim)  # these nodes have two levels of power, as the formula has
    for name in ex.DRIVEN:
        found = _formula_change(figures, cell(ex.HIGH, name)._replace(variant=ex.SPIN_WATTS))
        text = f"E3, E12: the same with watts of their own for spinning, {name}"
        yield within(text, f"{ex.HIGH}; {ex.SPIN_WATTS}", "not one number", found, (-AGREES, AGREES))


def _formula_change(figures: Figures, where: Where) -> Interval | None:
    return change_of(figures.values(ex.ENERGY_FORMULA, where), figures.values(ex.ENERGY, where))


def _busy(figures: Figures) -> Iterator[Claim]:
    for reading in ex.READINGS[:2]:
        for name in others(reading, ex.BATCH):
            found = figures.mean(ex.UTILISATION, cell(ex.HIGH, name, reading))
            text = f"E5: utilisation, {name}, above {printed.BUSY_NODES:g}"
            yield above(
                text,
                place(ex.HIGH, reading),
                f"{printed.row_3(name, ex.PACKED).utilisation:g} %",
                found,
                printed.BUSY_NODES,
            )


def _classes(figures: Figures) -> Iterator[Claim]:
    for name in OF_CLASSES:
        groups = [cells(ex.of_class(kind), ex.MIXED, [name]) for kind in ex.CLASSES]
        text = f"E6: total energy, {name}, rises from class A to C"
        claim = ascending(figures, text, place("X4", ex.MIXED), ex.ENERGY, groups, "rises")
        yield claim._replace(text=text)
    pairs = {
        kind: figures.ratios(ex.ENERGY, cell(ex.of_class(kind), ex.BATCH), cell(ex.of_class(kind), ex.HYBRID))
        for kind in ex.CLASSES
    }
    text = "E6: total energy, batch / HYBRID, rises from class to class"
    yield in_order(text, place("X4", ex.MIXED), "rises", [{kind: ratios} for kind, ratios in pairs.items()])
    groups = [cells(ex.of_class("C"), ex.MIXED, names) for names in ([ex.HYBRID], [ex.CC, ex.SB], [ex.GANG])]
    yield ascending(figures, "E7: total energy", place(ex.of_class("C"), ex.MIXED), ex.ENERGY, groups)


def _jobs(figures: Figures) -> Iterator[Claim]:
    sizes = {f"{jobs} jobs": ex.fewer(jobs) for jobs in ex.FEWER} | {"100 jobs": ex.HIGH}
    ratios = {
        name: figures.ratios(ex.ENERGY, cell(workload, ex.BATCH), cell(workload, ex.HYBRID))
        for name, workload in sizes.items()
    }
    text = "E8: total energy, batch / HYBRID, rises with the number of jobs"
    yield in_order(text, place(ex.HIGH, ex.MIXED), "rises", [{name: values} for name, values in ratios.items()])


def _memory(figures: Figures) -> Iterator[Claim]:
    for name in (*ex.DRIVEN, ex.GANG):
        found = figures.ratio(ex.ENERGY, cell(ex.AWARE, name), cell(ex.UNAWARE, name))
        published = printed.row_4(name, aware=True).total_mj / printed.row_4(name, aware=False).total_mj
        text = f"E9: total energy, aware / not, {name}, below 1"
        yield below(text, place("X6", ex.MIXED), f"{published:.2f}", found)


def _off(figures: Figures) -> Iterator[Claim]:
    for name in ex.POLICIES:
        where = cell(ex.HIGH, name)
        off, on = figures.values(ex.ENERGY_OFF, where), figures.values(ex.ENERGY, where)
        text = f"E10: total energy, {name}: with empty nodes switched off / as it is"
        yield in_order(text, f"{ex.HIGH}; {ex.MIXED.of(name)}", "could save", [{"off": off}, {"on": on}])


# ---------------------------------------------------------------- the printed tables


def formula_error(row: printed.Row) -> float:
    """Return by how many percent the formula is above the printed total."""
    return 100 * (row.formula_mj() / row.total_mj - 1)


def _errors(table: Mapping[tuple[str, Any], printed.Row]) -> dict[tuple[str, Any], float]:
    return {name: formula_error(row) for name, row in table.items()}


def _printed(_figures: Figures) -> Iterator[Claim]:
    rows = [*printed.TABLE_3.values(), *printed.TABLE_4.values()]
    exact = sum(abs(row.idle_mj * 1e6 / (ex.IDLE_W * ex.NODES * row.run_s) - 1) * 100 <= EXACT_PERCENT for row in rows)
    yield in_print(
        f"E11: printed idle energy is B N T to {EXACT_PERCENT:g} %, rows",
        "tables 3, 4",
        NOTHING,
        f"{exact} of {len(rows)}",
        holds=exact >= ROWS_EXACT,
    )
    spinning = [row.busy_w for (name, _), row in printed.TABLE_3.items() if name in ex.SPINNING]
    spinning += [
        row.busy_w
        for place, row in printed.TABLE_4.items()
        if place[0] in ex.SPINNING and place not in printed.INCONSISTENT
    ]
    rest = [
        row.busy_w
        for table in (printed.TABLE_3, printed.TABLE_4)
        for (name, _), row in table.items()
        if name not in ex.SPINNING
    ]
    yield in_print(
        "E12: watts of a busy CPU that the totals imply: spinning policies, all others",
        "tables 3, 4",
        NOTHING,
        f"{min(spinning):.1f} to {max(spinning):.1f}, {min(rest):.1f} to {max(rest):.1f}",
        holds=max(*spinning, *rest) >= SAME * min(*spinning, *rest),
    )
