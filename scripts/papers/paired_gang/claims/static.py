"""The claims on static mixes (sections 4.1 and 5 of the paper): C1 to C28 of the list of claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

from scripts.papers.claims import Band, Claim, combined, judged, within
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.paired_gang import experiment as ex
from scripts.papers.paired_gang.published import BEST_FIT_COUNTS, DOUBLE, POINTS, SINGLE_IO
from scripts.tables import NOTHING, number

from cosched_emulator.statistics.intervals import (
    Interval,
    change_of,
    mean_interval,
)

MATCHINGS = (ex.BEST, ex.PAIRED)
PAIRS = (1, 2, 3)  # mixes in which a compute job can be paired with an I/O job
LOCAL: Mapping[str | None, str] = {None: "wake-first 200 ms", **{name: name for name in (*ex.LOCALS, ex.SHORT_SLICE)}}
NAMES: Mapping[str, str] = {ex.COMPUTE: "compute jobs", ex.IO: "I/O jobs"}
_AS_RATIO: Callable[[Interval | None], str] = interval_text
_AS_PERCENT: Callable[[Interval | None], str] = partial(interval_text, factor=100.0)


def static_claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    parts = (_gains, _single, _interference, _shares, _counts, _equity, _sizes, _grains, _speedup, _finest)
    return [claim for part in parts for claim in part(figures)]


def gain(figures: Figures, kind: str, policy: str, workload: str, variant: str | None = None) -> Interval | None:
    """Return the rate of the jobs of a kind over that under strict gang scheduling."""
    return _ratio(figures, ex.rate(kind), Where(workload, policy, variant), Where(workload, ex.STRICT, variant))


def _ratio(figures: Figures, figure: str, where: Where, base: Where) -> Interval | None:
    """Return a figure over that of ``base``, paired by seed; where nothing is drawn, as without compute jobs, it has no spread."""
    return _certain(figures, where, base, figures.ratio(figure, where, base))


def _certain(figures: Figures, where: Where, base: Where, found: Interval | None) -> Interval | None:
    """Return an interval of one point for runs that are the same under all seeds."""
    series = [figures.series(each) for each in (where, base)]
    if found is None or found.exists or not all(each is not None and each.repeats for each in series):
        return found
    return found._replace(low=found.mean, high=found.mean, n=figures.seeds(where))


def kinds_of(io_jobs: int) -> Sequence[str]:
    """Return the kinds of jobs in a mix."""
    return ex.KINDS if 0 < io_jobs < len(ex.SLOTS) else (ex.IO if io_jobs else ex.COMPUTE,)


def _gains(figures: Figures) -> Iterator[Claim]:
    for policy in MATCHINGS:
        for kind in ex.KINDS:
            for io_jobs in PAIRS:
                text = f"C2: barriers/s of {NAMES[kind]}, {policy} / {ex.STRICT}, above 1"
                found = gain(figures, kind, policy, ex.mix(io_jobs))
                yield judged(text, ex.mix(io_jobs), "faster", found, Band.above(1.0), _AS_RATIO)
        text = f"C3: barriers/s of compute jobs, {policy} / {ex.STRICT}, within 1 %"
        found = gain(figures, ex.COMPUTE, policy, ex.mix(0))
        yield within(text, ex.mix(0), "no meaningful difference", found, (0.99, 1.01), _AS_RATIO)
        yield from _order(figures, policy)
        text = f"C6: barriers/s of I/O jobs, {policy} / {ex.STRICT}, within 5 %"
        yield within(
            text, ex.mix(4), "no significant gain", gain(figures, ex.IO, policy, ex.mix(4)), (0.95, 1.05), _AS_RATIO
        )


def _single(figures: Figures) -> Iterator[Claim]:
    """Yield the claims on a single I/O job, under each local scheduler."""
    workload = ex.mix(1)
    for variant, name in LOCAL.items():
        for policy in MATCHINGS if variant is None else (ex.BEST,):
            where, place = Where(workload, policy, variant), f"{workload}, {name}"
            text = f"C7: barriers/s of the I/O job, {policy} / {ex.STRICT}, 3.9 to 4.1"
            found = gain(figures, ex.IO, policy, workload, variant)
            yield within(text, place, f"almost {SINGLE_IO:g} x", found, (3.9, 4.1), _AS_RATIO)
            text = f"C8: barriers/s of the I/O job, {policy} / alone on the cluster, above 0.95"
            found = figures.ratio(ex.rate(ex.IO), where, Where(ex.alone(ex.IO), ex.STRICT, variant))
            yield judged(text, place, "nearly the maximum", found, Band.above(0.95), _AS_RATIO)
            text = f"C9: barriers/s of compute jobs, {policy} / {ex.STRICT}, not below 1"
            found = gain(figures, ex.COMPUTE, policy, workload, variant)
            yield judged(text, place, "not compromised", found, Band.above(1.0), _AS_RATIO)
    printed = figures.ratio(ex.rate(ex.IO), Where(workload, ex.PAIRED, "printed"), Where(workload, ex.STRICT))
    text = f"C7: the same, {ex.PAIRED} with figure 4 as printed"
    yield within(text, workload, f"almost {SINGLE_IO:g} x", printed, (3.9, 4.1), _AS_RATIO)


def _order(figures: Figures, policy: str) -> Iterator[Claim]:
    """Yield that a kind gains most where the other kind has two or three jobs (C4)."""
    for kind, least, rest in ((ex.COMPUTE, 1, (2, 3)), (ex.IO, 3, (1, 2))):
        steps = [
            _difference(_by_seed(figures, kind, policy, other), _by_seed(figures, kind, policy, least))
            for other in rest
        ]
        gains = [gain(figures, kind, policy, ex.mix(io_jobs)) for io_jobs in PAIRS]
        measured = ", ".join(NOTHING if each is None else number(each.mean) for each in gains)
        where = f"more in mixes {rest[0]} and {rest[1]} than in {least}"
        text = f"C4: gain of {NAMES[kind]}, {policy} (mixes 1, 2, 3): {where}"
        parts = [(step, Band.above()) for step in steps]
        yield combined(text, "mixes 1 to 3", "this order", measured, parts)


def _by_seed(figures: Figures, kind: str, policy: str, io_jobs: int) -> dict[int, float]:
    return figures.ratios(ex.rate(kind), Where(ex.mix(io_jobs), policy), Where(ex.mix(io_jobs), ex.STRICT))


def _difference(values: Mapping[int, float], base: Mapping[int, float]) -> Interval | None:
    found = [value - base[seed] for seed, value in values.items() if seed in base]
    return mean_interval(found) if found else None


def _interference(figures: Figures) -> Iterator[Claim]:
    for variant, name in LOCAL.items():
        for io_jobs in PAIRS:
            for kind in kinds_of(io_jobs):
                where, base = Where(ex.mix(io_jobs), ex.BEST, variant), Where(ex.mix(io_jobs), ex.STRICT, variant)
                found = figures.ratio(f"speed_{kind}", where, base)
                text = (
                    f"C5: barriers per second in which it may run, {NAMES[kind]}, {ex.BEST} / {ex.STRICT}, above 0.95"
                )
                place = f"{ex.mix(io_jobs)}, {name}"
                yield judged(text, place, "low interference", found, Band.above(0.95), _AS_RATIO)


def _shares(figures: Figures) -> Iterator[Claim]:
    for kind, bound, published, row in (
        (ex.IO, 0.005, "typically 0 %", "C10"),
        (ex.COMPUTE, 0.99, "some I/O-like activity", "C11"),
    ):
        for policy, how in ((ex.STRICT, "alone"), (ex.BEST, "paired")):
            found = figures.mean(f"share_{kind}_{how}", Where(ex.mix(2), policy))
            text = f"{row}: CPU share logged by {NAMES[kind]}, {how}, %: below {100 * bound:g}"
            yield judged(text, ex.mix(2), published, found, Band.below(bound), _AS_PERCENT)


def _counts(figures: Figures) -> Iterator[Claim]:
    rows = {0: "C16", 1: "C13", 2: "C15", 3: "C14", 4: "C12"}
    for io_jobs, long in ((4, False), (1, False), (1, True), (3, False), (2, False), (2, True), (0, False)):
        theirs = BEST_FIT_COUNTS[io_jobs]
        where = Where(ex.longer(io_jobs) if long else ex.mix(io_jobs), ex.BEST)
        found = [_certain(figures, where, where, figures.mean(f"chosen_{slot}", where)) for slot in ex.SLOTS]
        bands = [Band((value - POINTS) / 100, (value + POINTS) / 100) for value in theirs]
        text = f"{rows[io_jobs]}: slot chosen as partner, % of quanta, slots 0 to 3, best fit: within {POINTS:g} points each"
        measured = " / ".join(_AS_PERCENT(each) for each in found)
        shown = " / ".join(number(value) for value in theirs)
        yield combined(text, where.workload, shown, measured, [*zip(found, bands, strict=True)])


def _equity(figures: Figures) -> Iterator[Claim]:
    for io_jobs in (1, 2, 3, 4):
        where, base = Where(ex.mix(io_jobs), ex.PAIRED), Where(ex.mix(io_jobs), ex.BEST)
        found = _certain(figures, where, base, figures.difference("chosen_range", where, base))
        text = "C17: most minus least often chosen slot, points: pre-designed less than best fit"
        yield judged(text, ex.mix(io_jobs), "much more equitable", found, Band.below(), _AS_PERCENT)
    for io_jobs in ex.MIXES:
        found = _ratio(figures, "rate_total", Where(ex.mix(io_jobs), ex.PAIRED), Where(ex.mix(io_jobs), ex.BEST))
        text = "C18: barriers/s of all jobs, pre-designed / best fit, within 5 %"
        yield within(text, ex.mix(io_jobs), "very similar", found, (0.95, 1.05), _AS_RATIO)
    for io_jobs in (2, 3, 4):
        yield _more_and_less(figures, io_jobs)


def _more_and_less(figures: Figures, io_jobs: int) -> Claim:
    """Return that under the pre-designed matching some jobs are faster than under best fit, others slower (C19), by 1 % at least."""
    where, base = Where(ex.mix(io_jobs), ex.PAIRED), Where(ex.mix(io_jobs), ex.BEST)
    ratios = [figures.ratios(f"rate_of_{slot}", where, base) for slot in ex.SLOTS]
    seeds = set.intersection(*(set(found) for found in ratios))
    ends = [[end(found[seed] for found in ratios) for seed in sorted(seeds)] for end in (max, min)]
    most, least = (_certain(figures, where, base, mean_interval(end)) if end else None for end in ends)
    means = [figures.ratio(f"rate_of_{slot}", where, base) for slot in ex.SLOTS]
    measured = " / ".join(NOTHING if each is None else number(each.mean) for each in means)
    text = "C19: barriers/s of each job, pre-designed / best fit, jobs 0 to 3: fastest above 1.01, slowest below 0.99"
    parts = [(most, Band.above(1.01)), (least, Band.below(0.99))]
    return combined(text, ex.mix(io_jobs), "some more, others less", measured, parts)


def _sizes(figures: Figures) -> Iterator[Claim]:
    others = [size for size in ex.SIZES if size != ex.SIZE]
    for size in others:
        found = _ratio(figures, ex.rate(ex.COMPUTE), Where(ex.mix(0, size), ex.PAIRED), Where(ex.mix(0), ex.PAIRED))
        text = f"C21: barriers/s of compute jobs, {size} nodes / {ex.SIZE}, within 1 %"
        yield within(text, ex.mix(0), "no real impact", found, (0.99, 1.01), _AS_RATIO)
    for io_jobs in (1, 2, 3, 4):
        yield _monotone(figures, f"C22: barriers/s of {NAMES[ex.IO]} fall with the size", ex.IO, io_jobs, falls=True)
    for size in others:
        found = _ratio(figures, "io_per_s", Where(ex.mix(4, size), ex.PAIRED), Where(ex.mix(4), ex.PAIRED))
        text = f"C23: files per second, {size} nodes / {ex.SIZE}, within 5 %"
        yield within(text, ex.mix(4), "not as total I/O", found, (0.95, 1.05), _AS_RATIO)
    for io_jobs in PAIRS:
        yield _monotone(
            figures, f"C24: barriers/s of {NAMES[ex.COMPUTE]} rise with the size", ex.COMPUTE, io_jobs, falls=False
        )


def _monotone(figures: Figures, text: str, kind: str, io_jobs: int, *, falls: bool) -> Claim:
    """Return the claim that a rate falls, or rises, from each size of the cluster to the next."""
    cells = [Where(ex.mix(io_jobs, size), ex.PAIRED) for size in ex.SIZES]
    steps = [_ratio(figures, ex.rate(kind), upper, lower) for lower, upper in pairwise(cells)]
    band = Band.below(1.0) if falls else Band.above(1.0)
    means = [figures.mean(ex.rate(kind), where) for where in cells]
    measured = " / ".join(NOTHING if mean is None else number(mean.mean) for mean in means)
    sizes = ", ".join(map(str, ex.SIZES))
    parts = [(step, band) for step in steps]
    return combined(f"{text} ({sizes} nodes)", ex.mix(io_jobs), "falls" if falls else "rises", measured, parts)


def _grains(figures: Figures) -> Iterator[Claim]:
    for kind in ex.KINDS:
        for io_jobs in PAIRS:
            usual = _by_seed(figures, kind, ex.PAIRED, io_jobs)
            for grain in ex.GRAINS:
                if grain != ex.GRAIN:
                    name = ex.mix(io_jobs, grain=grain)
                    mine = figures.ratios(ex.rate(kind), Where(name, ex.PAIRED), Where(name, ex.STRICT))
                    ratios = [value / usual[seed] for seed, value in mine.items() if seed in usual]
                    found = mean_interval(ratios) if ratios else None
                    text = f"C26: gain of {NAMES[kind]} with G_comp {grain:g} M / that with {ex.GRAIN:g} M, within 3 %"
                    yield within(text, ex.mix(io_jobs), "not much impact", found, (0.97, 1.03), _AS_RATIO)


def _finest(figures: Figures) -> Iterator[Claim]:
    """Yield that two 45 % jobs disturb each other most where their barriers are closest (C44), for each local scheduler."""
    for variant in (None, *ex.LOCALS):
        speeds = [
            figures.ratios(f"speed_{ex.COMPUTE}", Where(name, ex.BEST, variant), Where(name, ex.STRICT, variant))
            for name in ex.FINE_PAIRS
        ]
        changes = [change_of(speeds[0], coarser) for coarser in speeds[1:]]
        measured = " / ".join(number(mean_interval([*each.values()]).mean) if each else NOTHING for each in speeds)
        text = "C44: progress of two 45 % jobs, paired / alone, grain x 1 below 3, 10 and 30"
        parts = [(change, Band.below()) for change in changes]
        yield combined(text, LOCAL[variant], "most sensitive", measured, parts)


def _speedup(figures: Figures) -> Iterator[Claim]:
    for policy in MATCHINGS:
        found = _ratio(figures, "rate_total", Where(ex.mix(2), policy), Where(ex.mix(2), ex.STRICT))
        text = f"C27: barriers/s of all jobs, {policy} / {ex.STRICT}, 1.8 to 2.1"
        yield within(text, ex.mix(2), f"nearly {DOUBLE:g} x", found, (1.8, 2.1), _AS_RATIO)
