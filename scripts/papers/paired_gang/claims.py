"""The claims of the paired gang paper as data, by experiment: what it prints, what is measured, and where that is to be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

from scripts.papers import rows as r
from scripts.papers.claims import Band, Claim, Of, built, not_checkable, quarter
from scripts.papers.figures import Figures, Where, interval_text, percent_text
from scripts.papers.paired_gang import experiment as ex
from scripts.papers.paired_gang import published as printed
from scripts.papers.paired_gang.experiment import BEST, COMPUTE, IO, KINDS, PAIRED, RESPONSE, STRICT, dynamic, mix
from scripts.papers.study import BASE
from scripts.tables import NOTHING, number

from cosched_emulator.statistics.intervals import Interval, Verdict, change_of

MATCHINGS: Final = (BEST, PAIRED)
PAIRS: Final = tuple(map(mix, (1, 2, 3)))  # mixes in which a compute job can be paired with an I/O job
LOCAL: Final[Mapping[str | None, str]] = {
    None: "wake-first 200 ms",
    **{name: name for name in (*ex.LOCALS, ex.SHORT_SLICE)},
}
NAMES: Final = {COMPUTE: "compute jobs", IO: "I/O jobs", "jobs_mean": "mean", "jobs_max": "largest"}
ABOVE_1, BELOW_1 = Band.above(1.0), Band.below(1.0)
PERCENT_1, PERCENT_5 = Band(0.99, 1.01), Band(0.95, 1.05)
SIMILAR: Final = quarter(1.0, Of.RATIO)  # a ratio that counts as about the same
HEAVY: Final = tuple(load for load in ex.LOADS if float(load) > printed.STRICT_EMPTIES_UP_TO)
SATURATED: Final = ("0.9", "0.95")  # loads
STRICTS: Final = (STRICT, ex.BARE)
# Strict policies and variants that paired gang scheduling is compared with; both sides have the variant. None: as it is.
GAINS: Final = ((STRICT, None), (ex.BARE, None), (STRICT, ex.RR_DYNAMIC))
STUCK: Final = 4.5  # quanta in a row with a pair of hungry jobs: more mean that it is not split
ABOUT: Final = Band(printed.SHARP_CHANGE - 2.0, printed.SHARP_CHANGE + 2.0)
_rate = ex.rate("{kind}")


class Certain(Figures):
    """Figures whose interval is one point where runs are the same under all seeds: without compute jobs nothing is drawn."""

    def __init__(self, found: Figures) -> None:
        super().__init__([], {})
        self.series = found.series  # type: ignore[method-assign]  # those of the study

    def mean(self, figure: str, where: Where) -> Interval | None:
        """Return the mean of a figure with its interval."""
        return self._certain(super().mean(figure, where), where)

    def ratio(self, figure: str, where: Where, base: Where) -> Interval | None:
        """Return a figure over that of ``base``, paired by seed."""
        return self._certain(super().ratio(figure, where, base), where, base)

    def difference(self, figure: str, where: Where, base: Where) -> Interval | None:
        """Return by how much a figure is above that of ``base``, paired by seed."""
        return self._certain(super().difference(figure, where, base), where, base)

    def _certain(self, found: Interval | None, *cells: Where) -> Interval | None:
        series = [self.series(each) for each in cells]
        if found is None or found.exists or not all(each is not None and each.repeats for each in series):
            return found
        return found._replace(low=found.mean, high=found.mean, n=self.seeds(cells[0]))


def kinds_of(io_jobs: int) -> Sequence[str]:
    """Return the kinds of jobs in a mix."""
    return KINDS if 0 < io_jobs < len(ex.SLOTS) else (IO if io_jobs else COMPUTE,)


def gain(figures: Figures, kind: str, policy: str, workload: str, variant: str | None = None) -> Interval | None:
    """Return the rate of the jobs of a kind over that under strict gang scheduling."""
    return Certain(figures).ratio(ex.rate(kind), Where(workload, policy, variant), Where(workload, STRICT, variant))


# ---------------------------------------------------------------- static mixes


def _local(variant: str | None, **_: Any) -> list[str]:
    return [LOCAL[variant]]


def _gains_most(kind: str, least: int, rest: tuple[int, int]) -> r.Row:
    """Return that a kind gains most where the other kind has two or three jobs (C4)."""
    at_least = r.ratios_of(ex.rate(kind), r.cell("{policy}", work=mix(least)), r.cell(STRICT, work=mix(least)))
    steps = r.every(
        r.by_seed(float.__sub__, r.ratios_of(ex.rate(kind), "{policy}", STRICT), at_least), work=[*map(mix, rest)]
    )
    shown = r.every(r.ratio(ex.rate(kind), "{policy}", STRICT), join=", ", work=PAIRS)
    text = (
        f"C4: gain of {NAMES[kind]}, {{policy}} (mixes 1, 2, 3): more in mixes {rest[0]} and {rest[1]} than in {least}"
    )
    return r.row(text, r.Beside(steps, shown), Band.above(), "this order", at="mixes 1 to 3")


def _monotone(text: str, kind: str, io_jobs: Sequence[int], band: Band, told: str) -> r.Row:
    """Return the claim that a rate falls, or rises, from each size of the cluster to the next."""

    def at(size: int) -> Any:
        return lambda io_jobs, **_: Where(mix(io_jobs, size), PAIRED)

    steps = r.steps("ratio", ex.rate(kind), [*map(at, ex.SIZES)])
    sizes = ", ".join(map(str, ex.SIZES))
    return r.row(f"{text} ({sizes} nodes)", steps, band, told, io_jobs=io_jobs, work=lambda io_jobs: [mix(io_jobs)])


def _of_size(io_jobs: int) -> Any:
    return lambda size, **_: Where(mix(io_jobs, size), PAIRED)


def _counts(case: Any, slot: int, **_: Any) -> Band:
    theirs = printed.BEST_FIT_COUNTS[case[1]][slot]
    return Band((theirs - printed.POINTS) / 100, (theirs + printed.POINTS) / 100)


def _finer(figures: Figures, variant: str | None, coarser: str, **_: Any) -> r.Found:
    """Return the change of progress in pairs from a coarser grain to the finest, in percent."""
    finest, other = (
        figures.ratios(f"speed_{COMPUTE}", Where(name, BEST, variant), Where(name, STRICT, variant))
        for name in (ex.FINE_PAIRS[0], coarser)
    )
    return change_of(finest, other)


_SIZES = [size for size in ex.SIZES if size != ex.SIZE]
_CASES = [
    ("C12", 4, mix(4)),
    ("C13", 1, mix(1)),
    ("C13", 1, ex.longer(1)),
    ("C14", 3, mix(3)),
    ("C15", 2, mix(2)),
    ("C15", 2, ex.longer(2)),
    ("C16", 0, mix(0)),
]
# fmt: off
STATIC: Final = (
    r.block(
        r.row("C2: barriers/s of {kind}, {policy} / gang, above 1", r.ratio(_rate, "{policy}", STRICT), ABOVE_1, "faster", kind=KINDS,
            work=PAIRS),
        r.row("C3: barriers/s of compute jobs, {policy} / gang, within 1 %", r.ratio(ex.rate(COMPUTE), "{policy}", STRICT), PERCENT_1,
            "no meaningful difference", work=mix(0)),
        _gains_most(COMPUTE, 1, (2, 3)),
        _gains_most(IO, 3, (1, 2)),
        r.row("C6: barriers/s of I/O jobs, {policy} / gang, within 5 %", r.ratio(ex.rate(IO), "{policy}", STRICT), PERCENT_5,
            "no significant gain", work=mix(4)),
        policy=MATCHINGS),
    r.block(
        r.row("C7: barriers/s of the I/O job, {policy} / gang, 3.9 to 4.1", r.ratio(ex.rate(IO), "{policy}", STRICT), Band(3.9, 4.1),
            f"almost {printed.SINGLE_IO:g} x", at="{work}, {local}"),
        r.row("C8: barriers/s of the I/O job, {policy} / alone on the cluster, above 0.95",
            r.ratio(ex.rate(IO), "{policy}", r.cell(STRICT, work=ex.alone(IO))), Band.above(0.95), "nearly the maximum",
            at="{work}, {local}"),
        r.row("C9: barriers/s of compute jobs, {policy} / gang, not below 1", r.ratio(ex.rate(COMPUTE), "{policy}", STRICT), ABOVE_1,
            "not compromised", at="{work}, {local}"),
        work=mix(1), variant=LOCAL, policy=lambda variant, **_: MATCHINGS if variant is None else (BEST,), local=_local),
    r.row("C7: the same, paired-gang with figure 4 as printed", r.ratio(ex.rate(IO), r.cell(PAIRED, variant="printed"), STRICT),
        Band(3.9, 4.1), f"almost {printed.SINGLE_IO:g} x", work=mix(1)),
    r.row("C5: barriers per second in which it may run, {kind}, best fit / gang, above 0.95", r.ratio("speed_{kind}", BEST, STRICT),
        Band.above(0.95), "low interference", at="{work}, {local}", variant=LOCAL, local=_local, work=PAIRS, kind=KINDS),
    r.row("C10: CPU share logged by I/O jobs, {how[1]}, %: below 0.5", r.mean("share_io_{how[1]}", "{how[0]}"), Band.below(0.005),
        "typically 0 %", shown=r.IN_PERCENT, work=mix(2), how=((STRICT, "alone"), (BEST, "paired"))),
    r.row("C11: CPU share logged by compute jobs, {how[1]}, %: below 99", r.mean("share_compute_{how[1]}", "{how[0]}"),
        Band.below(0.99),
        "some I/O-like activity", shown=r.IN_PERCENT, work=mix(2), how=((STRICT, "alone"), (BEST, "paired"))),
    r.row(f"{{case[0]}}: slot chosen as partner, % of quanta, slots 0 to 3, best fit: within {printed.POINTS:g} points each",
        r.every(r.mean("chosen_{slot}", BEST), show=r.IN_PERCENT, slot=ex.SLOTS), _counts,
        lambda case, **_: " / ".join(map(number, printed.BEST_FIT_COUNTS[case[1]])), case=_CASES, work=lambda case: [case[2]]),
    r.row("C17: most minus least often chosen slot, points: pre-designed less than best fit",
        r.difference("chosen_range", PAIRED, BEST),
        Band.below(), "much more equitable", shown=r.IN_PERCENT, work=[*map(mix, (1, 2, 3, 4))]),
    r.row("C18: barriers/s of all jobs, pre-designed / best fit, within 5 %", r.ratio("rate_total", PAIRED, BEST), PERCENT_5,
        "very similar", work=[*map(mix, ex.MIXES)]),
    r.row("C19: barriers/s of each job, pre-designed / best fit, jobs 0 to 3: fastest above 1.01, slowest below 0.99",
        r.Beside(r.every(lambda figures, end, work: r.by_seed(end, *(r.ratios_of(f"rate_of_{slot}", PAIRED, BEST)
            for slot in ex.SLOTS)).of(r.Table(figures), {"work": work}), end=(max, min)),
            r.every(r.ratio("rate_of_{slot}", PAIRED, BEST), slot=ex.SLOTS)),
        lambda end, **_: Band.above(1.01) if end is max else Band.below(0.99), "some more, others less", work=[*map(mix, (2, 3, 4))]),
    r.row(f"C21: barriers/s of compute jobs, {{size}} nodes / {ex.SIZE}, within 1 %", r.ratio(ex.rate(COMPUTE), _of_size(0), PAIRED),
        PERCENT_1, "no real impact", work=mix(0), size=_SIZES),
    _monotone("C22: barriers/s of I/O jobs fall with the size", IO, (1, 2, 3, 4), BELOW_1, "falls"),
    r.row(f"C23: files per second, {{size}} nodes / {ex.SIZE}, within 5 %", r.ratio("io_per_s", _of_size(4), PAIRED), PERCENT_5,
        "not as total I/O", work=mix(4), size=_SIZES),
    _monotone("C24: barriers/s of compute jobs rise with the size", COMPUTE, (1, 2, 3), ABOVE_1, "rises"),
    r.row(f"C26: gain of {{kind}} with G_comp {{grain:g}} M / that with {ex.GRAIN:g} M, within 3 %",
        r.by_seed(float.__truediv__, r.ratios_of(_rate, r.cell(PAIRED, work="{work}, {grain:g} M"),
            r.cell(STRICT, work="{work}, {grain:g} M")), r.ratios_of(_rate, PAIRED, STRICT)),
        Band(0.97, 1.03), "not much impact", kind=KINDS, work=PAIRS, grain=[grain for grain in ex.GRAINS if grain != ex.GRAIN]),
    r.row("C27: barriers/s of all jobs, {policy} / gang, 1.8 to 2.1", r.ratio("rate_total", "{policy}", STRICT), Band(1.8, 2.1),
        f"nearly {printed.DOUBLE:g} x", work=mix(2), policy=MATCHINGS),
    r.row("C44: progress of two 45 % jobs, paired / alone, grain x 1 below 3, 10 and 30",
        r.Beside(r.every(_finer, coarser=ex.FINE_PAIRS[1:]), r.every(r.by_seed(float, r.ratios_of(f"speed_{COMPUTE}", BEST, STRICT)),
            work=ex.FINE_PAIRS)),
        Band.below(), "most sensitive", at="{local}", variant=(None, *ex.LOCALS), local=_local),
)
# fmt: on


# ---------------------------------------------------------------- dynamic workloads


def _place(work: str, variant: str | None, **_: Any) -> str:
    return work if variant is None else f"{work}, {variant}"


def _strict(**each: Any) -> dict[str, Any]:
    """Return a sweep over the strict policies and variants, behind another one."""
    return {**each, "strict": GAINS, "variant": lambda strict, **_: [strict[1]]}


homogeneous: Final = partial(dynamic, ex.HOMOGENEOUS)  # of a load


def _larger(lower: str, upper: str) -> Any:
    """Return by how much the gain of paired gang scheduling is larger at a workload than at another one."""
    gains = (
        r.ratios_of(RESPONSE, r.cell("{strict[0]}", work=work), r.cell(PAIRED, work=work)) for work in (upper, lower)
    )
    return r.by_seed(float.__sub__, *gains)


def _clears(text: str, policy: str, loads: Sequence[str], published: str, *, clears: bool) -> Any:
    """Return the claims that the system is cleared in the last two thirds, or is not, in the runs of all seeds."""

    def claims(figures: Figures) -> Iterator[Claim]:
        for load in loads:
            found = [*figures.values("idle_later", Where(homogeneous(load), policy)).values()]
            holds, told = [(count > 0) == clears for count in found], f"instants {', '.join(map(number, found))}"
            yield r.agreeing(text, homogeneous(load), published, holds, told)

    return claims


def _drifts(load: str, policy: str, expected: Verdict) -> Any:
    """Return the claim that a run is saturated, or is not, by the test for saturation of each seed (C41)."""
    what = "saturated" if expected is Verdict.YES else "not saturated"
    text = f"C41: {policy} is {what}: test by seed, of those that it decides"

    def claims(figures: Figures) -> Iterator[Claim]:
        where = Where(homogeneous(load), policy)
        series = figures.series(where)
        found = [str(each["drifts"]) for each in series.rows if each.get("drifts")] if series else []
        numbers = " / ".join(r.mean_text(figures.mean(f"jobs_third_{part}", where)) for part in (1, 2, 3))
        tests = ", ".join(f"{name} {count}" for name, count in Counter(found).items())
        decided = [value == expected.value for value in found if value != Verdict.NOT_SHOWN.value]
        measured = f"tests {tests}; jobs by thirds {numbers}"
        yield r.agreeing(text, where.workload, what, decided, measured, len(found) - len(decided))

    return claims


def _same_jobs(figures: Figures) -> Iterator[Claim]:
    """Yield the claims that strict and paired gang scheduling get the same jobs, by digest and seed (C53)."""
    text = "C53: same jobs under gang and paired-gang: digests of submissions, sizes, run times and programs"
    for program in (ex.HOMOGENEOUS, ex.HETEROGENEOUS):
        work = dynamic(program, ex.LOADS[-1])
        both = [figures.series(Where(work, policy)) for policy in (STRICT, PAIRED)]
        digests = [
            {each["seed"]: each.get("workload_digest") for each in series.rows} if series else {} for series in both
        ]
        seeds = [seed for seed in digests[0] if seed in digests[1]]
        same = sum(digests[0][seed] == digests[1][seed] for seed in seeds)
        holds = same == len(seeds) if seeds else None
        yield built(text, work, "exactly the same", f"{same} of {len(seeds)} seeds", holds=holds)


_ENDS = (ex.LOADS[0], ex.LOADS[-1])
_OF_LOADS = [homogeneous(load) for load in ex.LOADS]
_SATURATED = [homogeneous(load) for load in SATURATED]
_HEAVIEST = homogeneous(ex.LOADS[-1])
_OTHER = [dynamic(ex.HETEROGENEOUS, load) for load in ex.LOADS]
# fmt: off
DYNAMIC: Final = (
    r.row("{id}: mean response, {strict[0]} / paired-gang", r.ratio(RESPONSE, "{strict[0]}", PAIRED),
        r.near_ratio(lambda load, **_: printed.RESPONSE[load]),
        lambda load, **_: f"{'about' if load == '0.5' else 'nearly'} {printed.RESPONSE[load]:g} x", at=_place,
        **_strict(load=printed.RESPONSE, work=lambda load: [homogeneous(load)], id=lambda load, **_: "C30"
            if load == "0.5" else "C31")),
    r.row(f"C32: {{strict[0]}} / paired-gang rises with each step of the load ({ex.LOADS[0]} to {ex.LOADS[-1]})",
        r.Beside(r.every(lambda figures, step, strict, variant, **_: _larger(*step).of(r.Table(figures),
            {"strict": strict, "variant": variant}), step=[*pairwise(_OF_LOADS)]),
            r.every(r.ratio(RESPONSE, "{strict[0]}", PAIRED), join=", ", work=_OF_LOADS), whole=True),
        Band.above(), "larger", at=_place, **_strict(work=ex.HOMOGENEOUS)),
    r.row(f"C32: mean response, {{strict[0]}} / paired-gang, above a load of 1: more than at {ex.LOADS[-1]}",
        r.Beside(r.every(_larger(_HEAVIEST, "{work}")), r.every(r.ratio(RESPONSE, "{strict[0]}", PAIRED), show=interval_text),
            whole=True),
        Band.above(), "larger", at=_place, **_strict(work=[homogeneous(load) for load in ex.ABOVE])),
    r.row(f"C33: mean response at load {ex.LOADS[-1]} / at {ex.LOADS[0]}, {{policy}}, below 2 (our bound)",
        r.ratio(RESPONSE, r.cell("{policy}", work=_HEAVIEST), r.cell("{policy}", work=_OF_LOADS[0])), Band.below(2.0),
        lambda policy: "reasonable" if policy == PAIRED else NOTHING, at=ex.HOMOGENEOUS, policy=(PAIRED, STRICT)),
    r.block(
        r.row("C34: quanta with a pair, % of those with two slots in use, above 99", r.mean("pairs_of_possible", PAIRED),
            Band.above(0.99),
            "always", shown=r.IN_PERCENT),
        r.row("C34: progress of a job while it may run, paired-gang / gang, above 0.5: two do more than one",
            r.ratio("speed", PAIRED, STRICT), Band.above(0.5), "benefits outweigh"),
        work=[*map(homogeneous, _ENDS)]),
    r.row("C36: mean number of jobs in the system, paired-gang / gang, within 5 points of 1", r.ratio("jobs_mean", PAIRED, STRICT),
        SIMILAR, "almost the same", work=_OF_LOADS[0]),
    r.row("C45: {key} number of jobs in the system, paired-gang / gang, below 1", r.ratio("{key}", PAIRED, STRICT), BELOW_1, "fewer",
        work=_SATURATED, key=("jobs_mean", "jobs_max")),
    # How often no job is left in the last two thirds of the submissions; the first third begins with an empty system.
    _clears("C37: an instant in the last two thirds at which no job is left, paired-gang", PAIRED, ex.LOADS, "now and then",
        clears=True),
    *(_clears(f"C38: {'no such instant' if load in HEAVY else 'the same'}, {strict}", strict, [load], "fails to"
            if load in HEAVY else "not said to fail", clears=load not in HEAVY) for strict in STRICTS for load in ex.LOADS),
    r.row(f"C39: jobs left when all are submitted, {{policy}}, {printed.LEFT[0]:g} to {printed.LEFT[1]:g}",
        r.mean("jobs_at_last", "{policy}"), Band(*printed.LEFT), "some dozens", policy=STRICTS, work=[*map(homogeneous, HEAVY)]),
    r.row(f"C40: hours from the last submission to the last end, {{policy}}, above {printed.DRAIN_H:g}", r.mean("drain_h", "{policy}"),
        Band.above(printed.DRAIN_H), "over three", policy=STRICTS, work=_HEAVIEST),
    *(_drifts(load, strict, Verdict.YES) for load in SATURATED for strict in STRICTS),
    *(_drifts(load, PAIRED, Verdict.NO) for load in SATURATED),
    r.block(
        r.row("C42: mean response, heterogeneous {policy} / homogeneous paired-gang, within 5 points of 1",
            r.ratio(RESPONSE, r.cell("{policy}", work="heterogeneous {load}"), r.cell(PAIRED, work="homogeneous {load}")), SIMILAR,
            "similar", at="load {load}", load=ex.LOADS),
        r.row("C42: mean response of heterogeneous jobs, gang / {policy}, above 1", r.ratio(RESPONSE, STRICT, "{policy}"), ABOVE_1,
            "enough matching", work=_OTHER),
        r.row("C43: {key} number of jobs, heterogeneous {policy} / homogeneous paired-gang, within 5 points of 1",
            r.ratio("{key}", r.cell("{policy}", work=_OTHER[-1]), r.cell(PAIRED, work=_HEAVIEST)), SIMILAR, "slight difference",
            at="load 0.95", key=("jobs_mean", "jobs_max")),
        policy=(PAIRED, ex.NODE)),
    r.row("C42: mean response of heterogeneous jobs, gang / paired-gang, above 1", r.ratio(RESPONSE, STRICT, PAIRED), ABOVE_1,
        "enough matching", work=[dynamic(ex.HETEROGENEOUS, load) for load in ex.ABOVE]),
    r.row("R10: correlation of predicted and real share, jobs measured before, above 0.8 (our bound)",
        r.mean("prediction_correlation", PAIRED), Band.above(0.8), "correlated", work=dynamic(ex.HETEROGENEOUS, "0.8")),
    r.row(f"P23: hours of a run, gang, {printed.HOURS[0]:g} to {printed.HOURS[1]:g}", r.mean("run_h", STRICT), Band(*printed.HOURS),
        "8 to 11", work=_OF_LOADS),
    r.row("C52: CPU time used, % of that of all nodes in quanta, gang, below 60 (our bound)", r.mean(ex.CPU_USED, STRICT),
        Band.below(0.6),
        "wasted in waiting", shown=r.IN_PERCENT, work=_HEAVIEST),
    _same_jobs,
)
# fmt: on

# ---------------------------------------------------------------- jobs with phases

SHAPES: Final = [dynamic(program, ex.PHASE_LOAD) for program in (ex.QCRD, ex.QCRD_EVEN)]
COPIES: Final = [*map(ex.copies, ex.RUNS_S)]
SHARP: Final = {"": False, ", sharp change": True}
_SHARP_CHANGE = "C49: mean response with special treatment of sharp changes, %, within 2 points"
_ABOUT_1 = f"about +{printed.SHARP_CHANGE:g}"


def lost(loss: str, *, sharp: bool) -> str:
    """Return the variant of the four copies in which sharing costs so much CPU time, with or without sharp changes."""
    if loss == "0 %" and not sharp:
        return BASE
    return f"lost {loss}{', sharp change' if sharp else ''}"


def _lost(loss: str = "0 %", change: str = "", **_: Any) -> list[str]:
    return [lost(loss, sharp=SHARP[change])]


# fmt: off
PHASES: Final = (
    r.block(
        r.row("C47: quanta with a pair, % of those whose row's job logs up to 40 % CPU, above 50 (our bound)",
            r.mean("phase_pairs_low", PAIRED), Band.above(0.5), "paired", at="{work}{change}", shown=r.IN_PERCENT),
        r.row("C47: the same where it logs more, below 50 (our bound)", r.mean("phase_pairs_high", PAIRED), Band.below(0.5),
            "one at a time", at="{work}{change}", shown=r.IN_PERCENT),
        work=COPIES, change=SHARP, variant=_lost),
    r.row(f"C48: longest row of quanta with a pair of two hungry jobs, {{side}} {STUCK:g} (our bound)", r.mean("phase_stuck", PAIRED),
        lambda change, **_: Band.below(STUCK) if change else Band.above(STUCK),
        lambda change, **_: "split" if change else "sometimes not split", at="{work}, {loss} lost{change}", work=COPIES,
        loss=ex.LOSSES_US, change=SHARP, variant=_lost, side=lambda change, **_: "below" if change else "above"),
    r.row(_SHARP_CHANGE,
        lambda figures, work, loss: figures.change(RESPONSE, *(Where(work, PAIRED, lost(loss, sharp=sharp))
            for sharp in (True, False))),
        ABOUT, _ABOUT_1, at="{work}, {loss} lost", shown=percent_text, work=COPIES, loss=ex.LOSSES_US),
    r.row(f"{_SHARP_CHANGE} ({{change}})", r.change(RESPONSE, r.cell("{policy}", variant="{change} change, dynamic"), "{policy}"),
        ABOUT,
        _ABOUT_1, at="{work}, {policy}", work=SHAPES, policy=(PAIRED, ex.NODE), change=("rise", "any")),
    r.row("C50: mean response, {strict} / {policy}", r.ratio(RESPONSE, "{strict}", "{policy}"), r.near_ratio(printed.QCRD),
        f"{printed.QCRD:g} x", work=SHAPES, strict=STRICTS, policy=(PAIRED, ex.NODE)),
)
# fmt: on

# ---------------------------------------------------------------- what no run decides

_LOST = "the picture is lost, and no value of it is in the text; what the text says of it:"
# fmt: off
SETTLED: Final = (
    not_checkable("C1: figure 7: barriers/s of each kind of job in five mixes, by matching", "curves", f"{_LOST} C2 to C6"),
    not_checkable("C20: figure 8: barriers/s by mix and size of the cluster", "curves", f"{_LOST} C21 to C24"),
    not_checkable("C25: figure 9: barriers/s by mix and grain", "curves", f"{_LOST} C26"),
    not_checkable("C29: figure 10: mean slowdown and response over load", "curves", f"{_LOST} C30 to C33 and C42"),
    not_checkable("C35: figure 11: jobs in the system over time, by load", "curves", f"{_LOST} C36 to C41"),
    not_checkable("C46: figure 13: CPU share and pairs over time, four copies of QCRD", "curves", f"{_LOST} C47 to C49"),
    not_checkable("C28: interference of I/O shows in other work, too", "cited", "of other systems' measurements"),
    built("C51: jobs of one process, a quarter of the model's, wait like the others though they have no barrier", "dynamic workloads",
        "all jobs are alike", "the share of CPU is a property of the job: the paper leaves open how they would wait"),
    not_checkable("C54: more gangs than two, one for each device; matching by processor; blocking after a spin", "future work",
        "an outlook; `alternates = node` is a step of it"),
)
# fmt: on

SECTIONS: Final[Mapping[str, Sequence[Any]]] = {
    "The claims: static mixes": STATIC,
    "The claims: dynamic workloads": DYNAMIC,
    "The claims: jobs with phases": PHASES,
    "The claims that no run decides": SETTLED,
}


def claims(figures: Figures, section: str) -> list[Claim]:
    """Return the claims of a section, each with what was measured."""
    rows = SECTIONS[section]
    return r.Table(Certain(figures) if rows is STATIC else figures, NAMES).claims(rows)
