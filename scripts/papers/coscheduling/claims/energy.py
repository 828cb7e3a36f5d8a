"""The claims on energy: E1 to E12. Where the paper's own tables decide, no run is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from scripts.papers.claims import Claim, by_construction, in_print, near, near_ratio, within
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
from scripts.papers.coscheduling.names import (
    AWARE,
    BATCH,
    CC,
    CLASSES,
    DRIVEN,
    ENERGY,
    ENERGY_FORMULA,
    ENERGY_OFF,
    GANG,
    HIGH,
    HYBRID,
    JOBS,
    MIXED,
    PACKED,
    PLACEMENTS,
    POLICIES,
    READINGS,
    SB,
    SKIP,
    SPIN_WATTS,
    SPINNING,
    UNAWARE,
    UTILISATION,
    fewer,
    of_class,
)
from scripts.papers.coscheduling.published import (
    BUSY_NODES,
    FORMULA_PERCENT,
    IDLE_W,
    INCONSISTENT,
    NODES,
    TABLE_3,
    TABLE_4,
    Row,
    row_3,
    row_4,
)
from scripts.papers.figures import Figures, Where
from scripts.tables import NOTHING

from cosched_emulator.statistics.intervals import Interval, change_of

AGREES: Final = 1.0  # percent between formula and integral
EXACT_PERCENT: Final = 0.02  # between the printed idle energy and B N T
ROWS_EXACT: Final = 23
SAME: Final = 1.1  # times: watts that differ by less count as one number
OF_CLASSES: Final = (HYBRID, SB, CC, GANG, BATCH)


def energy_claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    parts = (_most, _efficiency, _formula, _busy, _classes, _jobs, _memory, _off, _printed)
    return [claim for part in parts for claim in part(figures)]


def _most(figures: Figures) -> Iterator[Claim]:
    for reading in READINGS:
        groups = [cells(HIGH, reading, others(reading, BATCH)), cells(HIGH, reading, [BATCH])]
        text = "E1: total energy, batch the most"
        yield ascending(figures, text, place(HIGH, reading), ENERGY, groups, "most")


def _efficiency(figures: Figures) -> Iterator[Claim]:
    batch = row_3(BATCH, "").total_mj
    for reading in READINGS:
        for name in (HYBRID, CC, SB, GANG):
            for at in PLACEMENTS if name != GANG else (PACKED,):
                if name not in DRIVEN or name in driven(reading):
                    published = batch / row_3(name, at).total_mj
                    found = figures.ratio(ENERGY, cell(HIGH, BATCH, reading), cell(HIGH, name, reading, at))
                    text = f"E2: total energy, batch / {name}{f' {at}' if name != GANG else ''}"
                    yield near_ratio(text, place(HIGH, reading), published, found, saving_text)
    for name in (CC, SB):
        published = 100 * (row_3(GANG, "").total_mj / row_3(name, PACKED).total_mj - 1)
        found = figures.change(ENERGY, cell(HIGH, GANG), cell(HIGH, name))
        yield near(f"E4: total energy, gang against {name}, %", f"{HIGH}; {SKIP}", published, found)


def _formula(figures: Figures) -> Iterator[Claim]:
    for title, errors in (("table 3", _errors(TABLE_3)), ("table 4", _errors(TABLE_4))):
        worst = max(errors, key=lambda row: abs(errors[row]))
        outside = sum(abs(error) > FORMULA_PERCENT for error in errors.values())
        yield in_print(
            f"E3: formula against printed total, %, all rows within {FORMULA_PERCENT:g}",
            title,
            "within 3 %",
            f"{outside} of {len(errors)} rows outside; worst {worst[0]} {errors[worst]:+.2f}",
            holds=not outside,
        )
    for name in POLICIES:
        found = _formula_change(figures, cell(HIGH, name))
        text = f"E3: formula against the integral over node states, {name}, %, within {AGREES:g}"
        claim = within(text, f"{HIGH}; {MIXED.of(name)}", "within 3 %", found, (-AGREES, AGREES))
        yield by_construction(claim)  # these nodes have two levels of power, as the formula has
    for name in DRIVEN:
        found = _formula_change(figures, cell(HIGH, name)._replace(variant=SPIN_WATTS))
        text = f"E3, E12: the same with watts of their own for spinning, {name}"
        yield within(text, f"{HIGH}; {SPIN_WATTS}", "not one number", found, (-AGREES, AGREES))


def _formula_change(figures: Figures, where: Where) -> Interval | None:
    return change_of(figures.values(ENERGY_FORMULA, where), figures.values(ENERGY, where))


def _busy(figures: Figures) -> Iterator[Claim]:
    for reading in READINGS[:2]:
        for name in others(reading, BATCH):
            found = figures.mean(UTILISATION, cell(HIGH, name, reading))
            text = f"E5: utilisation, {name}, above {BUSY_NODES:g}"
            yield above(text, place(HIGH, reading), f"{row_3(name, PACKED).utilisation:g} %", found, BUSY_NODES)


def _classes(figures: Figures) -> Iterator[Claim]:
    for name in OF_CLASSES:
        groups = [cells(of_class(kind), MIXED, [name]) for kind in CLASSES]
        text = f"E6: total energy, {name}, rises from class A to C"
        claim = ascending(figures, text, place("X4", MIXED), ENERGY, groups, "rises")
        yield claim._replace(text=text)
    pairs = {
        kind: figures.ratios(ENERGY, cell(of_class(kind), BATCH), cell(of_class(kind), HYBRID)) for kind in CLASSES
    }
    text = "E6: total energy, batch / HYBRID, rises from class to class"
    yield in_order(text, place("X4", MIXED), "rises", [{kind: ratios} for kind, ratios in pairs.items()])
    groups = [cells(of_class("C"), MIXED, names) for names in ([HYBRID], [CC, SB], [GANG])]
    yield ascending(figures, "E7: total energy", place(of_class("C"), MIXED), ENERGY, groups)


def _jobs(figures: Figures) -> Iterator[Claim]:
    sizes = {f"{jobs} jobs": fewer(jobs) for jobs in JOBS} | {"100 jobs": HIGH}
    ratios = {
        name: figures.ratios(ENERGY, cell(workload, BATCH), cell(workload, HYBRID)) for name, workload in sizes.items()
    }
    text = "E8: total energy, batch / HYBRID, rises with the number of jobs"
    yield in_order(text, place(HIGH, MIXED), "rises", [{name: values} for name, values in ratios.items()])


def _memory(figures: Figures) -> Iterator[Claim]:
    for name in (*DRIVEN, GANG):
        found = figures.ratio(ENERGY, cell(AWARE, name), cell(UNAWARE, name))
        published = row_4(name, aware=True).total_mj / row_4(name, aware=False).total_mj
        text = f"E9: total energy, aware / not, {name}, below 1"
        yield below(text, place("X6", MIXED), f"{published:.2f}", found)


def _off(figures: Figures) -> Iterator[Claim]:
    for name in POLICIES:
        where = cell(HIGH, name)
        off, on = figures.values(ENERGY_OFF, where), figures.values(ENERGY, where)
        text = f"E10: total energy, {name}: with empty nodes switched off / as it is"
        yield in_order(text, f"{HIGH}; {MIXED.of(name)}", "could save", [{"off": off}, {"on": on}])


# ---------------------------------------------------------------- the printed tables


def formula_error(row: Row) -> float:
    """Return by how many percent the formula is above the printed total."""
    return 100 * (row.formula_mj() / row.total_mj - 1)


def _errors(table: Mapping[tuple[str, Any], Row]) -> dict[tuple[str, Any], float]:
    return {name: formula_error(row) for name, row in table.items()}


def _printed(_figures: Figures) -> Iterator[Claim]:
    rows = [*TABLE_3.values(), *TABLE_4.values()]
    exact = sum(abs(row.idle_mj * 1e6 / (IDLE_W * NODES * row.run_s) - 1) * 100 <= EXACT_PERCENT for row in rows)
    yield in_print(
        f"E11: printed idle energy is B N T to {EXACT_PERCENT:g} %, rows",
        "tables 3, 4",
        NOTHING,
        f"{exact} of {len(rows)}",
        holds=exact >= ROWS_EXACT,
    )
    spinning = [row.busy_w for (name, _), row in TABLE_3.items() if name in SPINNING]
    spinning += [row.busy_w for place, row in TABLE_4.items() if place[0] in SPINNING and place not in INCONSISTENT]
    rest = [row.busy_w for table in (TABLE_3, TABLE_4) for (name, _), row in table.items() if name not in SPINNING]
    yield in_print(
        "E12: watts of a busy CPU that the totals imply: spinning policies, all others",
        "tables 3, 4",
        NOTHING,
        f"{min(spinning):.1f} to {max(spinning):.1f}, {min(rest):.1f} to {max(rest):.1f}",
        holds=max(*spinning, *rest) >= SAME * min(*spinning, *rest),
    )
