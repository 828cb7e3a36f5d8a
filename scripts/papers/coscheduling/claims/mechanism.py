"""The claims on how the policies work, and the experiments behind them: C20, C48 to C50, C54, C55."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scripts.papers.claims import LEAST, Claim, within
from scripts.papers.coscheduling import experiment as ex
from scripts.papers.coscheduling.claims.common import above, ascending, below, cell
from scripts.papers.figures import Figures, Where

from cosched_emulator.statistics.intervals import Interval

FINE: Final = ("CG", "LU")  # programs whose messages are close together
COARSE: Final = ("IS", "EP")
LITTLE: Final = 0.02  # share of CPU time: what spinning that "does not waste" may take, our bound


def mechanism_claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    parts = (_counters, _interrupts, _spinning, _boost, _delay, _order, _in_every_setting)
    return [claim for part in parts for claim in part(figures)]


def full(policy: str, variant: str | None = None) -> Where:
    """Return the runs of a policy on full nodes with fixed places."""
    return Where(ex.FULL, ex.MIXED.of(policy), variant)


def throughput(figures: Figures, where: Where, base: Where) -> Interval | None:
    """Return the change of the work done on full nodes, in percent, paired by configuration."""
    return figures.change(ex.THROUGHPUT, where, base)


def _counters(figures: Figures) -> Iterator[Claim]:
    text = "C20: work done, PB, a boost that ignores counters / one that ends with them, above 1"
    found = figures.ratio(ex.THROUGHPUT, full(ex.PB, ex.IGNORE_COUNTERS), full(ex.PB, ex.BASE))
    yield above(text, ex.FULL, "a boost lasts on Solaris", found)
    text = "C20: work done, PB ignoring counters / SB, above 1"
    found = figures.ratio(ex.THROUGHPUT, full(ex.PB, ex.IGNORE_COUNTERS), full(ex.SB, ex.BASE))
    yield above(text, ex.FULL, "PB wins on Solaris", found)


def _interrupts(figures: Figures) -> Iterator[Claim]:
    groups = [[cell(ex.copies(program), ex.DCS) for program in names] for names in (COARSE, FINE)]
    text = f"C48: interrupts a second and node, {', '.join(COARSE)} below {', '.join(FINE)}"
    claim = ascending(figures, text, f"X5; {ex.DCS}", ex.INTERRUPTS, groups, "many where fine-grained")
    yield claim._replace(text=text)


def _spinning(figures: Figures) -> Iterator[Claim]:
    groups = [[cell(ex.HIGH, ex.HYBRID)], [cell(ex.HIGH, ex.SB), cell(ex.HIGH, ex.CC)]]
    text = "C49: share of CPU time spent spinning"
    yield ascending(figures, text, f"{ex.HIGH}; {ex.SKIP}", ex.SPUN, groups, "less")
    found = figures.mean(ex.SPUN, cell(ex.HIGH, ex.HYBRID))
    text = f"C49: share of CPU time spent spinning, HYBRID, below {LITTLE:g} (our bound)"
    yield below(text, f"{ex.HIGH}; {ex.SKIP}", "does not waste", found, LITTLE)


def _boost(figures: Figures) -> Iterator[Claim]:
    none, every = (full(ex.HYBRID, ex.boost(what)) for what in ("none", "all"))
    found = figures.ratio(ex.THROUGHPUT, full(ex.HYBRID, ex.BASE), none)
    yield above("C50: work done, HYBRID, boost in collectives / without a boost, above 1", ex.FULL, "needed", found)
    found = throughput(figures, every, full(ex.HYBRID, ex.BASE))
    text = f"C50: work done, HYBRID, boost in all communication against collectives, %, within {LEAST:g} points"
    yield within(text, ex.FULL, "gain minimal", found, (-LEAST, LEAST))


def _delay(figures: Figures) -> Iterator[Claim]:
    for workload, groups in (
        (ex.HIGH, [[cell(ex.HIGH, ex.HYBRID)], [cell(ex.HIGH, ex.DCS), cell(ex.HIGH, ex.PB)]]),
        (ex.FULL, [[full(ex.HYBRID)], [full(ex.DCS), full(ex.PB)]]),
    ):
        text = "C54: time from a message's arrival until its process runs, us"
        yield ascending(figures, text, f"{workload}; {ex.SKIP}", ex.DELAY, groups, "no delay")


def _order(figures: Figures) -> Iterator[Claim]:
    found = figures.ratio(ex.RUN, cell(ex.HIGH, ex.PB), cell(ex.HIGH, ex.DCS))
    text = "C55: running time, PB / DCS, above 1 as in table 3; an earlier study has PB before DCS: no target"
    yield above(text, f"{ex.HIGH}; {ex.SKIP}", "1.06", found)
    groups = [
        [full(name) for name in (ex.HYBRID, ex.SB, ex.CC)],
        [full(name) for name in ex.DRIVEN if name in (ex.PB, ex.DCS)],
    ]
    text = "C55: work done, spinning below blocking"
    yield ascending(figures, text, ex.FULL, ex.THROUGHPUT, groups[::-1], "CC and SB better than PB and DCS")


def _in_every_setting(figures: Figures) -> Iterator[Claim]:
    """Yield the order of blocking and spinning with each setting that is changed; other policies keep theirs."""
    texts = {ex.BASE: "as it is", **{name: item.text for name, item in ex.VARIANTS.items() if item.workload == ex.FULL}}
    for variant, text in texts.items():
        changed = ex.VARIANTS[variant].policies if variant in ex.VARIANTS else ex.DRIVEN
        groups = [
            [full(policy, variant if policy in changed else ex.BASE) for policy in policies]
            for policies in (ex.SPINNING, ex.BLOCKING)
        ]
        yield ascending(
            figures, f"Blocking beats spinning: work done; {text}", ex.FULL, ex.THROUGHPUT, groups, "everywhere"
        )
