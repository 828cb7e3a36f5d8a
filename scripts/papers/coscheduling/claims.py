"""The claims of the coscheduling paper as data, by section of the page: what it prints, what is measured, and where that is to be."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from scripts.papers import rows as r
from scripts.papers.claims import LEAST, Band, Claim, Of, built, in_print, quarter
from scripts.papers.coscheduling import experiment as ex
from scripts.papers.coscheduling import published as printed
from scripts.papers.figures import Figures, Where, as_ratio, interval_text, percent_text
from scripts.papers.study import BASE
from scripts.tables import NOTHING

from cosched_emulator.scenario.time_sharing import TimeSharingSection
from cosched_emulator.statistics.intervals import change_of, interval_of
from cosched_emulator.workload.nas import NODE_MB

BySeed = Mapping[int, float]
LOADS: Final = (ex.HIGH, ex.LIGHT)
X4: Final = tuple(map(ex.of_class, ex.CLASSES))
SIX: Final = (*ex.DRIVEN, ex.GANG)
OF_CLASSES: Final = (ex.CC, ex.SB, ex.HYBRID, ex.GANG, ex.BATCH)
MUCH: Final = 2.0  # times: what counts as much longer, our bound
SAME_ORDER: Final = 0.5  # rank correlation above which an order counts as the same, our bound
ORDER_OF_MAGNITUDE: Final = 10.0
ALONE: Final = 1.5  # processes on a node: MPL "mostly 1", our bound
SIGNIFICANT: Final = 1.1  # times, our bound
MINIMAL: Final = 1.25  # times
UNSEEN: Final = 0.1  # of CG's difference in seconds: what a figure would not show, our bound
LITTLE: Final = 0.02  # share of CPU time: what spinning that "does not waste" may take, our bound
AGREES: Final = 1.0  # percent between formula and integral
EXACT_PERCENT: Final = 0.02  # between the printed idle energy and B N T
ROWS_EXACT: Final = 23
SAME: Final = 1.1  # times: watts that differ by less count as one number
MOST_RESIDENTS: Final = 3
MEAN: Final = "mean of these"
LABELS: Final = {
    ex.RUN: "running time",
    ex.RESPONSE: "mean response",
    ex.EXECUTION: "mean execution",
    ex.WAIT: "mean wait",
    ex.SWITCHES: "switches",
    ex.SWAPPED: "MB swapped",
}


# ---------------------------------------------------------------- cells


class On(NamedTuple):
    """An experiment under a reading of the queues."""

    work: str
    reading: ex.Reading = ex.MIXED
    queue: str = ""  # instead of the reading's name, where batch does not matter

    def __str__(self) -> str:
        return f"{self.work}; {self.queue or self.reading.name}"


EVERYWHERE: Final = [On(ex.HIGH, reading) for reading in ex.READINGS]
SKIPPING: Final = On(ex.HIGH, queue=ex.SKIP)
QUEUED: Final = [SKIPPING, On(ex.HIGH, ex.ALL_STRICT, ex.STRICT)]
OF_LOADS: Final = [*EVERYWHERE, On(ex.LIGHT)]
X6: Final = On("X6")
MEMORY: Final = (ex.MIXED, ex.ALL_STRICT)  # readings of X6


def on(*works: str, queue: str = "") -> list[On]:
    """Return experiments under the usual reading."""
    return [On(work, queue=queue) for work in works]


def driven(reading: ex.Reading) -> tuple[str, ...]:
    """Return the communication-driven policies that run under a reading."""
    return ex.STRICT_POLICIES if reading is ex.ALL_STRICT else ex.DRIVEN


def running(policies: Sequence[str], on: On, **_: Any) -> list[str]:
    """Return those of some policies that run under a reading."""
    return [name for name in policies if name not in ex.DRIVEN or name in driven(on.reading)]


def others(*policies: str) -> list[str]:
    """Return all policies but some."""
    return [name for name in ex.POLICIES if name not in policies]


def cell_of(
    workload: str, policy: str, reading: ex.Reading = ex.MIXED, placement: str = ex.PACKED, variant: str | None = None
) -> Where:
    """Return the cells of a policy."""
    return Where(workload, reading.of(policy, placement), variant)


def place(policy: str, values: r.Values) -> Where | None:
    """Return the cells of a policy in a row; None where it does not run under the row's reading."""
    at: On = values.get("on", SKIPPING)
    reading = values.get("reading", at.reading)
    if policy in ex.DRIVEN and policy not in driven(reading):
        return None
    work = values.get("work", at.work)
    return cell_of(work, policy, reading, values.get("packing", ex.PACKED), values.get("variant"))


def called(where: Where) -> str:
    """Return the policy of a cell without what its claim says besides: the queue, and that jobs are packed."""
    return " ".join(word for word in where.policy.split() if word not in (*ex.QUEUES, ex.PACKED))


order: Final = partial(r.Order, named=called)
under: Final = partial(r.row, at="{on}")  # a row that names experiment and queues


def saving_text(found: r.Found) -> str:
    """Return a ratio and the saving that it is."""
    return NOTHING if found is None else f"{interval_text(found)}; saving {1 - 1 / found.mean:.0%}"


# ---------------------------------------------------------------- arithmetic of some claims


def mean_change(figures: Figures, column: str, pairs: Sequence[tuple[Where, Where]]) -> r.Found:
    """Return the geometric mean, over several pairs of cells, of a column's change from the second to the first, in percent.

    Only seeds that all pairs have count; None where there are none.
    """
    found = [figures.ratios(column, where, base) for where, base in pairs]
    seeds = set.intersection(*(set(ratios) for ratios in found)) if found else set()
    means = {seed: statistics.geometric_mean([ratios[seed] for ratios in found]) for seed in sorted(seeds)}
    return change_of(means, dict.fromkeys(means, 1.0))


def by_packing(
    figures: Figures, on: On, policy: str, column: str, ways: Sequence[str] = ex.PLACEMENTS, **_: Any
) -> r.Found:
    """Return the change of a policy by packing, or that of all."""
    names = driven(on.reading) if policy == MEAN else [policy]
    one, other = ([cell_of(on.work, name, on.reading, way) for name in names] for way in ways)
    pairs = [*zip(one, other, strict=True)]
    return mean_change(figures, column, pairs) if policy == MEAN else figures.change(column, *pairs[0])


def with_mean(on: On, **_: Any) -> list[str]:
    """Return the policies of a reading, and the mean of these."""
    return [*driven(on.reading), MEAN]


def rank_correlation(rows: Sequence[tuple[BySeed, BySeed]]) -> r.Found:
    """Return the rank correlation of two figures over several cells, its mean over seeds; None where fewer than three have run."""
    known = [pair for pair in rows if pair[0] and pair[1]]
    if len(known) < 3:
        return None
    seeds = set.intersection(*(set(first) & set(second) for first, second in known))
    ranks = {seed: [_ranks([pair[side][seed] for pair in known]) for side in (0, 1)] for seed in sorted(seeds)}
    return interval_of({seed: statistics.correlation(*both) for seed, both in ranks.items()})


def _ranks(values: Sequence[float]) -> list[float]:
    ascending = sorted(values)
    return [float(ascending.index(value)) for value in values]


def same_order(figures: Figures, **_: Any) -> r.Found:
    """Return the rank correlation of mean responses at both loads."""
    cells = [(name, kind) for kind in ex.PLACEMENTS for name in ex.DRIVEN] + [(ex.GANG, ""), (ex.BATCH, "")]
    return rank_correlation(
        [
            (
                figures.values(ex.RESPONSE, cell_of(ex.HIGH, name, placement=kind)),
                figures.values(ex.RESPONSE, cell_of(ex.LIGHT, name, placement=kind)),
            )
            for name, kind in cells
        ]
    )


def _group_mean(figures: Figures, program: str, names: Iterable[str]) -> dict[int, float]:
    """Return by seed the mean execution time over some policies, of the seeds that all have."""
    found = [figures.values(ex.EXECUTION, cell_of(ex.copies(program), name)) for name in names]
    seeds = set.intersection(*(set(values) for values in found))
    return {seed: statistics.fmean([values[seed] for values in found]) for seed in sorted(seeds)}


def group_ratio(figures: Figures, program: str, **_: Any) -> BySeed:
    """Return by seed the mean execution under spinning policies over that under blocking ones."""
    spinning, blocking = (_group_mean(figures, program, names) for names in (ex.SPINNING, ex.BLOCKING))
    return {seed: value / blocking[seed] for seed, value in spinning.items() if seed in blocking}


def _of(program: str) -> Any:
    return lambda figures, **_: group_ratio(figures, program)


def _group_ratio(figures: Figures, program: str, **_: Any) -> r.Found:
    found = group_ratio(figures, program)
    return as_ratio(change_of(found, dict.fromkeys(found, 1.0)))


def _less_in_seconds(figures: Figures, **_: Any) -> r.Found:
    """Return the difference between spinning and blocking in seconds, of IS over that of CG."""
    both = []
    for program in ("IS", "CG"):
        spinning, blocking = (_group_mean(figures, program, names) for names in (ex.SPINNING, ex.BLOCKING))
        both.append({seed: value - blocking[seed] for seed, value in spinning.items() if seed in blocking})
    return as_ratio(change_of(both[0], both[1]))


def speed_up(figures: Figures, column: str, policy: str) -> BySeed:
    """Return by seed a figure without awareness of memory over that with it."""
    return figures.ratios(column, cell_of(ex.UNAWARE, policy), cell_of(ex.AWARE, policy))


def formula_change(figures: Figures, policy: str, variant: str | None = None, **_: Any) -> r.Found:
    """Return by how many percent the paper's formula is above the integral over the states of nodes."""
    where = cell_of(ex.HIGH, policy, variant=variant)
    return change_of(figures.values(ex.ENERGY_FORMULA, where), figures.values(ex.ENERGY, where))


def table_3_ratio(column: str, policy: str, base: str, packing: str = ex.PACKED) -> float:
    """Return what table 3 prints for a policy over that for another one."""
    one, other = (getattr(printed.row_3(name, packing), column) for name in (policy, base))
    return float(one / other)


# ---------------------------------------------------------------- responses and waits

_WITHOUT = partial(r.cell, packing=ex.SCATTERED)
_LAST = _WITHOUT(ex.NLS)
_NEXT = (_WITHOUT(ex.PB), r.cell(ex.BATCH))
_REST = [r.cell(name, packing=at) for at in ex.PLACEMENTS for name in ex.DRIVEN]
_REST = [*(each for each in _REST if each != _LAST), r.cell(ex.GANG), r.cell(ex.BATCH)]
_MOST_OF = (ex.HIGH, ex.LIGHT, ex.LONG, *X4)
_AGAINST = [quarter(printed.AGAINST_BATCH[0], Of.RATIO).low, quarter(printed.AGAINST_BATCH[1], Of.RATIO).high]

# fmt: off
RESPONSES: Final = (
    under("C1: mean response, {policy}, P against NP, %", partial(by_packing, column=ex.RESPONSE), r.near(printed.PACKING), on=QUEUED,
        policy=with_mean),
    under("C2: mean response, {policy}, P against NP, %, below 0", partial(by_packing, column=ex.RESPONSE), Band.below(), "helps",
        shown=percent_text, on=on(ex.LIGHT, queue=ex.SKIP), policy=with_mean),
    r.block(
        under("C3: mean response, NLS without packing the longest", order(ex.RESPONSE, [_REST, [_LAST]])),
        under("C4: mean response, next to it PB without packing and batch",
            order(ex.RESPONSE, [[each for each in _REST if each not in _NEXT], _NEXT, [_LAST]])),
        on=EVERYWHERE),
    under("C5: mean wait, batch the longest", order(ex.WAIT, [others(ex.BATCH), [ex.BATCH]]), told="longest", on=OF_LOADS),
    under("C23: mean wait, batch the longest", order(ex.WAIT, [[ex.HYBRID, ex.CC, ex.SB, ex.GANG], [ex.BATCH]]), told="longest",
        on=on(ex.LONG)),
    under("C5: mean wait, batch the longest", order(ex.WAIT, [OF_CLASSES[:4], [ex.BATCH]]), told="longest", on=on(*X4)),
    r.row(f"C6: mean response, X1 / X2, {{policy}}, above {MUCH:g} (our bound)",
        r.ratio(ex.RESPONSE, r.cell("{policy}", work=ex.HIGH), r.cell("{policy}", work=ex.LIGHT)), Band.above(MUCH), "much longer",
        at=ex.MIXED.name, policy=ex.POLICIES),
    r.block(
        under("C7: wait, % of response, {policy}, above 50 (our bound)", r.mean(ex.WAIT_SHARE, "{policy}"), Band.above(0.5),
            "dominates",
            shown=r.IN_PERCENT, on=on(ex.HIGH)),
        under("C7: wait, % of response, {policy}, below 50 (our bound)", r.mean(ex.WAIT_SHARE, "{policy}"), Band.below(0.5),
            "execution shows", shown=r.IN_PERCENT, on=on(ex.LIGHT)),
        policy=ex.POLICIES),
    r.row(f"C8: rank correlation of mean responses at both loads, above {SAME_ORDER:g} (our bound)", same_order, Band.above(SAME_ORDER),
        "same order", at=ex.MIXED.name),
    under("C12: mean response, HYBRID the shortest", order(ex.RESPONSE, [[ex.HYBRID], others(ex.HYBRID)]), told="shortest",
        on=OF_LOADS),
    under("C13: mean response, {policy} / batch, below 1", r.ratio(ex.RESPONSE, "{policy}", ex.BATCH), Band.below(1.0), "better",
        on=OF_LOADS, policy=partial(running, (ex.GANG, ex.CC, ex.SB))),
    r.block(
        under(f"C15: mean response, batch / HYBRID, {_AGAINST[0]:g} to {_AGAINST[1]:g}", r.ratio(ex.RESPONSE, ex.BATCH, ex.HYBRID),
            Band(*_AGAINST), '"300 %": 3 or 4 x', shown=saving_text),
        under(f"C47: mean response, batch / HYBRID, above {ORDER_OF_MAGNITUDE:g}", r.ratio(ex.RESPONSE, ex.BATCH, ex.HYBRID),
            Band.above(ORDER_OF_MAGNITUDE), "orders of magnitude"),
        on=EVERYWHERE),
    under("C16: mean response, HYBRID against gang, %", r.change(ex.RESPONSE, ex.HYBRID, ex.GANG), r.near(printed.AGAINST_GANG),
        on=QUEUED),
    under("C45: mean response, HYBRID / gang, below 1", r.ratio(ex.RESPONSE, ex.HYBRID, ex.GANG), Band.below(1.0), "in all experiments",
        on=on(*_MOST_OF, ex.UNAWARE, ex.AWARE, queue=ex.SKIP)),
    under("C18: mean response, blocking below spinning",
        order(ex.RESPONSE, [[r.cell(name, packing="{packing}") for name in group] for group in (ex.BLOCKING, (ex.DCS, ex.PB))]),
        told="in all workloads", on=[*QUEUED, *on(ex.LIGHT, ex.UNAWARE, ex.AWARE, queue=ex.SKIP)],
        packing=lambda on: ex.PLACEMENTS if on.work in LOADS else (ex.PACKED,)),
    r.block(
        under("C19: running time, {policy} / PB, {packing}", r.ratio(ex.RUN, "{policy}", ex.PB),
            r.near_ratio(lambda policy, packing, **_: table_3_ratio("run_s", policy, ex.PB, packing))),
        under("C19: mean response, {policy} / PB, {packing}, below 1", r.ratio(ex.RESPONSE, "{policy}", ex.PB), Band.below(1.0),
            "significantly"),
        on=[SKIPPING], policy=(ex.HYBRID, ex.SB), packing=ex.PLACEMENTS),
    under("C46: mean response, gang / batch, below 1", r.ratio(ex.RESPONSE, ex.GANG, ex.BATCH), Band.below(1.0), "better",
        on=[*OF_LOADS, *on(ex.LONG, *X4, ex.AWARE)]),
)
# fmt: on

# ---------------------------------------------------------------- execution, running time, queues


def turns(figures: Figures) -> Iterator[Claim]:
    """Yield what switches of gang scheduling cost, if it has run."""
    if figures.seeds(cell_of(ex.HIGH, ex.GANG)):
        share = f"{100 * TimeSharingSection().turn_overhead:g}: a setting, not measured"
        text = "C17, C56: share of quanta that switches cost, gang, %"
        yield built(text, f"{ex.HIGH}; {ex.SKIP}", "pays for it", share)


_EASY, _STRICT = (Where("{work}", ex.cell(ex.BATCH, queue)) for queue in (ex.EASY, ex.STRICT))
# fmt: off
TIMES: Final = (
    under("C9: mean execution, batch the shortest", order(ex.EXECUTION, [[ex.BATCH], others(ex.BATCH)]), told="shortest",
        on=on(*LOADS)),
    under("C9: mean execution, batch the shortest", order(ex.EXECUTION, [[ex.BATCH], OF_CLASSES[:4]]), told="shortest", on=on(X4[1])),
    r.block(
        r.row("C10: mean execution, then HYBRID", order(ex.EXECUTION, [[ex.BATCH], [ex.HYBRID], others(ex.BATCH, ex.HYBRID)]),
            at=f"{{work}}; {ex.MIXED.name}"),
        r.row("C11: mean execution, gang against {policy}, %", r.change(ex.EXECUTION, ex.GANG, "{policy}"), r.near(0.0),
            at=f"{{work}}; {ex.SKIP}", policy=(ex.CC, ex.SB)),
        work=LOADS),
    under("C14: {key}, CC against SB, {packing}, %", r.change("{key}", ex.CC, ex.SB), r.near(0.0), on=on(*LOADS, queue=ex.SKIP),
        packing=ex.PLACEMENTS, key=(ex.RUN, ex.RESPONSE, ex.EXECUTION)),
    under("C17: busy node time, HYBRID / gang, below 1", r.ratio(ex.BUSY, ex.HYBRID, ex.GANG), Band.below(1.0), "0.88", on=QUEUED),
    turns,
    r.row(f"C21: {{key}}, batch, EASY against strict, {{known[1]}}, %, within {printed.BACKFILLING:g} points of 0",
        lambda figures, known, key: figures.change(key, *(where._replace(workload=known[0]) for where in (_EASY, _STRICT))),
        Band(-printed.BACKFILLING, printed.BACKFILLING), "below 2 %", at=ex.HIGH, shown=percent_text,
        known=((ex.HIGH, "exact estimates"), (ex.USELESS, "estimates of a day")), key=(ex.RESPONSE, ex.RUN)),
    r.row("C44: node time that EASY fills and a strict queue leaves, % of all, below 2",
        r.difference(ex.UTILISATION, _EASY._replace(workload=ex.HIGH), _STRICT._replace(workload=ex.HIGH)),
        Band.below(printed.BACKFILLING / 100), "little", at=ex.HIGH, shown=r.IN_PERCENT),
    r.row(f"C43: mean wait / mean execution, BATCH {{reading.batch}}, up to {printed.WAIT_RATIO:g}", r.mean(ex.WAIT_RATIO, ex.BATCH),
        Band.below(printed.WAIT_RATIO), "up to 6 at LLNL", work=ex.HIGH, reading=(ex.MIXED, ex.ALL_SKIP)),
    under("C56: utilisation, batch the lowest", order(ex.UTILISATION, [[ex.BATCH], others(ex.BATCH)]), told="low", on=EVERYWHERE),
    under("C52: busy node time, {policy} against batch, %", r.change(ex.BUSY, "{policy}", ex.BATCH),
        r.near(lambda policy, **_: 100 * (table_3_ratio("busy_node_s", policy, ex.BATCH) - 1)), on=QUEUED,
        policy=partial(running, (ex.GANG, ex.HYBRID, ex.CC, ex.SB, ex.NLS))),
    r.block(
        under("C53: busy node time, {policy}, NP against P, %", r.change(ex.BUSY, _WITHOUT("{policy}"), "{policy}"),
            r.near(lambda policy, **_: 100 * (printed.row_3(policy, "NP").busy_node_s / printed.row_3(policy, "P").busy_node_s - 1)),
            policy=lambda on: driven(on.reading)),
        under(f"C53: the same, {MEAN}", partial(by_packing, policy=MEAN, column=ex.BUSY, ways=ex.PLACEMENTS[::-1]), r.near(15.0)),
        on=QUEUED),
    under("C51: mean response, {policy} / batch, below 1", r.ratio(ex.RESPONSE, "{policy}", ex.BATCH), Band.below(1.0), "should hold",
        on=on(ex.WIDE), policy=OF_CLASSES[:4]),
    # What the scheduler checks before each start.
    r.row("P7: processes on a node, {policy}, at most {most}", r.mean(ex.RESIDENTS_MOST, "{policy}"),
        lambda most, **_: Band.below(most + 0.5), "{most}", built=True, work=ex.HIGH, policy=ex.POLICIES,
        most=lambda policy, **_: [1 if policy == ex.BATCH else MOST_RESIDENTS]),
    r.row(f"P8: memory that the processes of a node need at one time, {{policy}}, MB, at most {NODE_MB}",
        r.mean(ex.MEMORY_MOST, "{policy}"), Band.below(NODE_MB + 0.5), "fits", built=True, work=LOADS, policy=SIX),
)
# fmt: on

# ---------------------------------------------------------------- long jobs, classes, copies of one program

# fmt: off
PROGRAMS: Final = (
    under("C22: mean response", order(ex.RESPONSE, [[ex.HYBRID], [ex.CC, ex.SB], [ex.GANG], [ex.BATCH]]), on=on(ex.LONG)),
    under("C24: mean response, {policy} / HYBRID, within 5 points of 1", r.ratio(ex.RESPONSE, "{policy}", ex.HYBRID),
        quarter(1.0, Of.RATIO), "very close", on=on(X4[0]), policy=(ex.CC, ex.SB, ex.GANG, ex.BATCH)),
    under(f"C24: processes on a node in use, {{policy}}, below {ALONE:g} (our bound)", r.mean(ex.RESIDENTS, "{policy}"),
        Band.below(ALONE), "mostly 1", on=on(X4[0]), policy=OF_CLASSES[:4]),
    under("C25: mean response, batch the longest", order(ex.RESPONSE, [OF_CLASSES[:4], [ex.BATCH]]), told="worst", on=on(X4[1])),
    under("C25: mean execution, batch the shortest", order(ex.EXECUTION, [[ex.BATCH], OF_CLASSES[:4]]), told="shortest", on=on(X4[1])),
    under("{id}: mean response, HYBRID against {policy}, %", r.change(ex.RESPONSE, ex.HYBRID, "{policy}"),
        r.near(lambda policy, **_: printed.CLASS_C[policy]), on=on(X4[2]), policy=printed.CLASS_C,
        id=lambda policy, **_: "C26" if policy == ex.GANG else "C27"),
    under("C28: mean response, batch / HYBRID", r.ratio(ex.RESPONSE, ex.BATCH, ex.HYBRID), r.near_ratio(printed.CLASS_C_BATCH),
        '"65 %": 1.65 x', shown=saving_text, on=on(X4[2])),
    r.row("C29: execution over three times that alone, HYBRID the shortest",
        order(ex.STRETCH, [[ex.HYBRID], [name for name in SIX if name != ex.HYBRID]]), told="shortest",
        work=[*map(ex.copies, ex.PROGRAMS)]),
    r.row("C30: mean execution of EP, {policy} against HYBRID, %", r.change(ex.STRETCH, "{policy}", ex.HYBRID), r.near(0.0),
        work=ex.copies("EP"), policy=[name for name in SIX if name != ex.HYBRID]),
    r.row("C31: execution over three times that alone, blocking below spinning", order(ex.STRETCH, [ex.BLOCKING, ex.SPINNING]),
        work=[ex.copies(program) for program in ex.PROGRAMS if program != "EP"]),
    r.row("C32: execution, spinning / blocking, CG the largest",
        r.SeedOrder([{name: _of(name) for name in ex.PROGRAMS if name != "CG"}, {"CG": _of("CG")}]), told="largest", at="X5"),
    r.row(f"C33: spinning - blocking in seconds, IS / CG, below {UNSEEN:g} (our bound)", _less_in_seconds, Band.below(UNSEEN),
        "does not show", at="X5"),
    r.row(f"C34: execution, spinning / blocking, {{program}}, above {SIGNIFICANT:g} (our bound)", _group_ratio, Band.above(SIGNIFICANT),
        "significant", at="X5", program=("MG", "SP")),
    r.block(
        r.row(f"C35: execution, spinning / blocking, {{program}}, below {MINIMAL:g} (our bound)", _group_ratio, Band.below(MINIMAL),
            "minimal", at="X5"),
        r.row("C35: spinning / blocking, {program} below SP and MG",
            r.SeedOrder([{"{program}": group_ratio}, {name: _of(name) for name in ("SP", "MG")}]), told="less", at="X5"),
        program=("BT", "LU")),
)
# fmt: on

# ---------------------------------------------------------------- memory

_BATCH: Final = r.cell(ex.BATCH, work=ex.AWARE)  # one job on a node: memory makes no difference
_RESPONSES = partial(order, ex.RESPONSE)


def _memory_change(figures: Figures, policy: str, **_: Any) -> r.Found:
    pairs = [(cell_of(ex.AWARE, name), cell_of(ex.UNAWARE, name)) for name in (SIX if policy == MEAN else [policy])]
    return mean_change(figures, ex.RESPONSE, pairs) if policy == MEAN else figures.change(ex.RESPONSE, *pairs[0])


# fmt: off
MEMORY_ROWS: Final = (
    under("C36: mean response, batch the shortest", _RESPONSES([[_BATCH], SIX]), told="shortest",
        on=[On(ex.UNAWARE, reading) for reading in MEMORY]),
    under(f"C37: mean response, aware against not, {{policy}}, %, below {printed.MEMORY_AWARE:g}", _memory_change,
        Band.below(printed.MEMORY_AWARE), "over 35 % less", shown=percent_text, on=[X6], policy=(*SIX, MEAN)),
    r.block(
        under("C38: mean response, HYBRID the shortest", _RESPONSES([[ex.HYBRID], others(ex.HYBRID)]), told="shortest"),
        under("C38: mean response, HYBRID against batch, %", r.change(ex.RESPONSE, ex.HYBRID, ex.BATCH), r.near(printed.MEMORY_BATCH)),
        under("C42: mean response, blocking policies below batch", _RESPONSES([ex.BLOCKING, [ex.BATCH]])),
        on=[On(ex.AWARE, reading) for reading in MEMORY]),
    under("C39: mean response, HYBRID / batch, lower with 100 jobs than with 20",
        r.SeedOrder([{name: r.ratios_of(ex.RESPONSE, r.cell(ex.HYBRID, work=work), r.cell(ex.BATCH, work=work))} for name,
            work in {"100 jobs": ex.AWARE_100, "20 jobs": ex.AWARE}.items()]),
        told="would grow", on=on("X6 aware")),
    under("C40: {key}, not aware / aware, blocking policies the highest",
        r.SeedOrder([{name: r.ratios_of("{key}", r.cell(name, work=ex.UNAWARE), r.cell(name, work=ex.AWARE)) for name in names}
            for names in ((ex.NLS, ex.PB, ex.DCS, ex.GANG), (ex.CC, ex.SB, ex.HYBRID))]),
        told="highest", on=[X6], key=(ex.EXECUTION, ex.WAIT)),
    under("C41: {key} a second of CPU time, spinning below blocking", order("{key}", [ex.SPINNING, ex.BLOCKING]), told="more often",
        on=on(ex.UNAWARE), key=(ex.SWITCHES, ex.SWAPPED)),
)
# fmt: on

# ---------------------------------------------------------------- how the policies work

_WORK = partial(r.row, work=ex.FULL)
_EVERY_SETTING: Final = {BASE: "as it is", **{name: item.text for name, item in ex.OF_FULL.items()}}


def _setting(variant: str, **_: Any) -> list[list[Any]]:
    """Return the policies with a setting changed; those that it does not concern keep theirs."""
    changed = ex.VARIANTS[variant].policies if variant in ex.VARIANTS else ex.DRIVEN
    return [
        [r.cell(name, variant=variant if name in changed else BASE) for name in names]
        for names in (ex.SPINNING, ex.BLOCKING)
    ]


# fmt: off
MECHANISM: Final = (
    _WORK("C20: work done, PB, a boost that ignores counters / one that ends with them, above 1",
        r.ratio(ex.THROUGHPUT, r.cell(ex.PB, variant=ex.IGNORE_COUNTERS), ex.PB), Band.above(1.0), "a boost lasts on Solaris"),
    _WORK("C20: work done, PB ignoring counters / SB, above 1",
        r.ratio(ex.THROUGHPUT, r.cell(ex.PB, variant=ex.IGNORE_COUNTERS), ex.SB),
        Band.above(1.0), "PB wins on Solaris"),
    r.row("C48: interrupts a second and node, IS, EP below CG, LU",
        order(ex.INTERRUPTS, [[r.cell(ex.DCS, work=ex.copies(program)) for program in names] for names in (("IS", "EP"), ("CG", "LU"))],
            told=False),
        told="many where fine-grained", at=f"X5; {ex.DCS}"),
    under("C49: share of CPU time spent spinning", order(ex.SPUN, [[ex.HYBRID], [ex.SB, ex.CC]]), told="less", on=[SKIPPING]),
    under(f"C49: share of CPU time spent spinning, HYBRID, below {LITTLE:g} (our bound)", r.mean(ex.SPUN, ex.HYBRID),
        Band.below(LITTLE),
        "does not waste", on=[SKIPPING]),
    _WORK("C50: work done, HYBRID, boost in collectives / without a boost, above 1",
        r.ratio(ex.THROUGHPUT, ex.HYBRID, r.cell(ex.HYBRID, variant=ex.boost("none"))), Band.above(1.0), "needed"),
    _WORK(f"C50: work done, HYBRID, boost in all communication against collectives, %, within {LEAST:g} points",
        r.change(ex.THROUGHPUT, r.cell(ex.HYBRID, variant=ex.boost("all")), ex.HYBRID), Band(-LEAST, LEAST), "gain minimal"),
    under("C54: time from a message's arrival until its process runs, us", order(ex.DELAY, [[ex.HYBRID], [ex.DCS, ex.PB]]),
        told="no delay", on=on(ex.HIGH, ex.FULL, queue=ex.SKIP)),
    under("C55: running time, PB / DCS, above 1 as in table 3; an earlier study has PB before DCS: no target",
        r.ratio(ex.RUN, ex.PB, ex.DCS), Band.above(1.0), "1.06", on=[SKIPPING]),
    _WORK("C55: work done, spinning below blocking", order(ex.THROUGHPUT, [[ex.PB, ex.DCS], [ex.HYBRID, ex.SB, ex.CC]]),
        told="CC and SB better than PB and DCS"),
    _WORK("Blocking beats spinning: work done; {change}", order(ex.THROUGHPUT, _setting), told="everywhere", variant=_EVERY_SETTING,
        change=lambda variant, **_: [_EVERY_SETTING[variant]]),
)
# fmt: on

# ---------------------------------------------------------------- energy


def formula_error(line: printed.Row) -> float:
    """Return by how many percent the formula is above the printed total."""
    return 100 * (line.formula_mj() / line.total_mj - 1)


def _formula_in_print(_figures: Figures) -> Iterator[Claim]:
    tables: dict[str, Mapping[tuple[str, Any], printed.Row]] = {"table 3": printed.TABLE_3, "table 4": printed.TABLE_4}
    for title, table in tables.items():
        errors = {name: formula_error(line) for name, line in table.items()}
        worst = max(errors, key=lambda name: abs(errors[name]))
        outside = sum(abs(error) > printed.FORMULA_PERCENT for error in errors.values())
        yield in_print(
            f"E3: formula against printed total, %, all rows within {printed.FORMULA_PERCENT:g}",
            title,
            "within 3 %",
            f"{outside} of {len(errors)} rows outside; worst {worst[0]} {errors[worst]:+.2f}",
            holds=not outside,
        )


def _watts_in_print(_figures: Figures) -> Iterator[Claim]:
    lines = [*printed.TABLE_3.values(), *printed.TABLE_4.values()]
    off = [abs(line.idle_mj * 1e6 / (ex.IDLE_W * ex.NODES * line.run_s) - 1) * 100 for line in lines]
    exact = sum(percents <= EXACT_PERCENT for percents in off)
    text = f"E11: printed idle energy is B N T to {EXACT_PERCENT:g} %, rows"
    yield in_print(text, "tables 3, 4", NOTHING, f"{exact} of {len(lines)}", holds=exact >= ROWS_EXACT)
    known = [
        *printed.TABLE_3.items(),
        *(item for item in printed.TABLE_4.items() if item[0] not in printed.INCONSISTENT),
    ]
    spinning = [line.busy_w for (name, _), line in known if name in ex.SPINNING]
    rest = [
        line.busy_w
        for (name, _), line in [*printed.TABLE_3.items(), *printed.TABLE_4.items()]
        if name not in ex.SPINNING
    ]
    yield in_print(
        "E12: watts of a busy CPU that the totals imply: spinning policies, all others",
        "tables 3, 4",
        NOTHING,
        f"{min(spinning):.1f} to {max(spinning):.1f}, {min(rest):.1f} to {max(rest):.1f}",
        holds=max(*spinning, *rest) >= SAME * min(*spinning, *rest),
    )


def _of_policy(policy: str, **_: Any) -> str:
    return f"{ex.HIGH}; {ex.MIXED.of(policy)}"


_BATCH_TO_HYBRID = partial(r.ratios_of, ex.ENERGY)
# fmt: off
ENERGY: Final = (
    under("E1: total energy, batch the most", order(ex.ENERGY, [others(ex.BATCH), [ex.BATCH]]), told="most", on=EVERYWHERE),
    under("E2: total energy, batch / {policy}{packed}", r.ratio(ex.ENERGY, ex.BATCH, "{policy}"),
        r.near_ratio(lambda policy, packing, **_: printed.row_3(ex.BATCH, "").total_mj / printed.row_3(policy, packing).total_mj),
        shown=saving_text, on=EVERYWHERE, policy=partial(running, (ex.HYBRID, ex.CC, ex.SB, ex.GANG)),
        packing=lambda policy, **_: (ex.PACKED,) if policy == ex.GANG else ex.PLACEMENTS,
        packed=lambda policy, packing, **_: "" if policy == ex.GANG else f" {packing}"),
    under("E4: total energy, gang against {policy}, %", r.change(ex.ENERGY, ex.GANG, "{policy}"),
        r.near(lambda policy, **_: 100 * (table_3_ratio("total_mj", ex.GANG, policy) - 1)), on=[SKIPPING], policy=(ex.CC, ex.SB)),
    _formula_in_print,
    # These nodes have two levels of power, as the formula has.
    r.row(f"E3: formula against the integral over node states, {{policy}}, %, within {AGREES:g}", formula_change, Band(-AGREES, AGREES),
        "within 3 %", at=_of_policy, shown=percent_text, built=True, policy=ex.POLICIES),
    r.row("E3, E12: the same with watts of their own for spinning, {policy}", formula_change, Band(-AGREES, AGREES), "not one number",
        at=f"{ex.HIGH}; {ex.SPIN_WATTS}", shown=percent_text, policy=ex.DRIVEN, variant=ex.SPIN_WATTS),
    under(f"E5: utilisation, {{policy}}, above {printed.BUSY_NODES:g}", r.mean(ex.UTILISATION, "{policy}"),
        Band.above(printed.BUSY_NODES), lambda policy, **_: f"{printed.row_3(policy, ex.PACKED).utilisation:g} %", on=EVERYWHERE[:2],
        policy=lambda on: (*driven(on.reading), ex.GANG)),
    under("E6: total energy, {policy}, rises from class A to C",
        order(ex.ENERGY, [[r.cell("{policy}", work=work)] for work in X4], told=False), told="rises", on=on("X4"),
        policy=(ex.HYBRID, ex.SB, ex.CC, ex.GANG, ex.BATCH)),
    under("E6: total energy, batch / HYBRID, rises from class to class",
        r.SeedOrder([{name: _BATCH_TO_HYBRID(r.cell(ex.BATCH, work=ex.of_class(name)), r.cell(ex.HYBRID, work=ex.of_class(name)))}
            for name in ex.CLASSES]),
        told="rises", on=on("X4")),
    under("E7: total energy", order(ex.ENERGY, [[ex.HYBRID], [ex.CC, ex.SB], [ex.GANG]]), on=on(X4[2])),
    under("E8: total energy, batch / HYBRID, rises with the number of jobs",
        r.SeedOrder([{f"{jobs} jobs": _BATCH_TO_HYBRID(r.cell(ex.BATCH, work=work), r.cell(ex.HYBRID, work=work))} for jobs,
            work in {**{jobs: ex.fewer(jobs) for jobs in ex.FEWER}, 100: ex.HIGH}.items()]),
        told="rises", on=on(ex.HIGH)),
    under("E9: total energy, aware / not, {policy}, below 1",
        r.ratio(ex.ENERGY, r.cell("{policy}", work=ex.AWARE), r.cell("{policy}", work=ex.UNAWARE)), Band.below(1.0),
        lambda policy, **_: f"{printed.row_4(policy, aware=True).total_mj / printed.row_4(policy, aware=False).total_mj:.2f}", on=[X6],
        policy=SIX),
    r.row("E10: total energy, {policy}: with empty nodes switched off / as it is",
        r.SeedOrder([{"off": r.values_of(ex.ENERGY_OFF, "{policy}")}, {"on": r.values_of(ex.ENERGY, "{policy}")}]), told="could save",
        at=_of_policy, policy=ex.POLICIES),
    _watts_in_print,
)
# fmt: on

SECTIONS: Final[Mapping[str, Sequence[Any]]] = {
    "The claims: responses and waits": RESPONSES,
    "The claims: execution, running time, queues": TIMES,
    "The claims: long jobs, classes, copies of one program": PROGRAMS,
    "The claims: memory": MEMORY_ROWS,
    "The claims: how the policies work": MECHANISM,
    "The claims: energy": ENERGY,
}


def claims(figures: Figures, section: str) -> list[Claim]:
    """Return the claims of a section, each with what was measured."""
    return r.Table(figures, LABELS, place).claims(SECTIONS[section])
