"""The claims, parameters and rules of the LOMARC paper that no run decides: by construction, in print, or not checkable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from scripts.papers.claims import Claim, by_construction, in_print, not_checkable
from scripts.papers.lomarc.published import AGAINST_PSS, BETWEEN, RBR, RESPONSE
from scripts.tables import number, percent

from cosched_emulator.statistics.intervals import Verdict
from cosched_hwmodel.lomarc.lomarc_model import LomarcModel
from cosched_hwmodel.units import WHOLE_PPM
from cosched_hwmodel.usage import Usage

# Table 2: shares of communication of the two applications, and the largest slowdown that the paper estimates for them, with and
# without competition for the CPU; the largest measured slowdown, over the ten cells with these shares.
TABLE_2: Final[Sequence[tuple[float, float, float, float, float]]] = (
    (0.4, 0.4, 2.0, 1.4, 1.2),
    (0.4, 0.6, 1.8, 1.4, 1.3),
    (0.6, 0.6, 2.0, 1.6, 1.4),
)
# Ids and what they are about; where the project says so, or why it cannot be checked.
CONFIGURED: Final = (
    "P1, P2, P7, P8, P9, P10, P13: machine, workloads, EASY, largest slowdown 1.6, mixes, fractions, memory",
    "presets `pss`, `lomarc-ht`, `lomarc-standard`; `scripts/papers/lomarc/experiment.py`",
)
RULES: Final = (
    "A1, A2, A3, A4, A5, P16, P17: who is matched with whom, and when",
    "[policies](../policies.md), tests against a second program",
)
OPEN: Final = {
    "P6, P11, P12, P14, P15, P18, A6: aging, types, c of other pairs, paging, weak load, forecast, figure 5": (
        "two readings each; the other one is a variant"
    ),
    "P5: run times up to 45 h": "the paper does not say what becomes of longer ones; one of 24,000 jobs here is, by 3 minutes",
    "P19: of a pair that is too slow one job is preempted": "not in the paper's experiments, whose estimates are exact",
    "P20: seeds and intervals": "the paper has none",
    "S10: a message takes 13.3 us (200 B), 120 us (18,000 B)": "an input of the paper's programs, not of the model",
    "S16: a single process is as fast in MT as in ST mode": "needs the paper's Xeons",
}


def settled() -> list[Claim]:
    """Return the rows."""
    return [*_model(), *_print(), *_configured()]


def _usage(network: float) -> Usage:
    """Return an application of table 2: so much of its time in communication, the rest on the CPU."""
    ppm = round(network * WHOLE_PPM)
    return Usage("cpu" if network <= 0.5 else "network", WHOLE_PPM - ppm, ppm, 0, 0)


def estimates(*, remainder: bool) -> list[tuple[float, float]]:
    """Return the largest slowdown of each row of `TABLE_2`, with and without competition for the CPU, by the model's formula."""
    models = [
        LomarcModel(
            remainder=remainder, good_share_ppm=WHOLE_PPM, good_c_ppm=factor * WHOLE_PPM, bad_c_ppm=2 * WHOLE_PPM
        )
        for factor in (2, 1)
    ]
    rows = []
    for one, other, *_ in TABLE_2:
        found = [model.slowdown(1, _usage(one), 2, _usage(other)) for model in models]
        rows.append((round(found[0], 6), round(found[1], 6)))
    return rows


def _model() -> Iterator[Claim]:
    most = max(LomarcModel(remainder=True).slowdown(1, _usage(0.5), other, _usage(0.5)) for other in range(2, 50))
    yield by_construction(
        Claim("S1: largest slowdown of two jobs that fit into memory", "", "2", number(most), 0, Verdict.YES)
    )
    yield by_construction(
        Claim(
            "S2: the more different two jobs, the lower their slowdown", "", "lower", "a sum of minima", 0, Verdict.YES
        )
    )
    printed = [row[2:4] for row in TABLE_2]
    for remainder, name in ((True, "with the time in which neither competes"), (False, "as printed")):
        found = estimates(remainder=remainder)
        told = " / ".join(f"{number(worst)} ({number(best)})" for worst, best in found)
        theirs = " / ".join(f"{number(worst)} ({number(best)})" for worst, best in printed)
        holds = found == printed
        yield in_print(f"S8: the formula {name} gives table 2's estimates", "table 2", theirs, told, holds=holds)
    told = " / ".join(f"{number(row[4])} <= {number(row[2])}" for row in TABLE_2)
    below = all(row[4] <= row[2] for row in TABLE_2)
    yield in_print(
        "S8: measured slowdowns of table 2 are below the estimates", "table 2", "in all cases", told, holds=below
    )


def _print() -> Iterator[Claim]:
    gains = [AGAINST_PSS[RBR][workload]["L-FM"] for workload in ("W1 M1", "W2 M1", "W3 M1")]
    told = " / ".join(map(percent, gains))
    yield in_print(
        "C5: the gain of L-FM in RBR grows with the load", "W1 to W3", "grows", told, holds=gains == sorted(gains)[::-1]
    )
    for key, name in ((RESPONSE, "mean response"), (RBR, "RBR")):
        row, value = AGAINST_PSS[key]["W3 M1"], BETWEEN[key, "L-FM", "L-R"]["W3 M1"]
        derived = 100 * ((1 + row["L-FM"] / 100) / (1 + row["L-R"] / 100) - 1)
        told = f"{percent(derived)}, from {percent(row['L-FM'])} and {percent(row['L-R'])} against PSS"
        holds = abs(derived - value) <= abs(value) / 4
        yield in_print(
            f"C14: {name}: L-FM against L-R agrees with both against PSS", "W3 M1", percent(value), told, holds=holds
        )


def _configured() -> Iterator[Claim]:
    for text, where in (CONFIGURED, RULES):
        yield by_construction(Claim(text, "", "as written", where, 0, Verdict.YES))
    for text, reason in OPEN.items():
        yield not_checkable(text, "as written", reason)
