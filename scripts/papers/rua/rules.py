"""Parameters and rules of the RUA paper: what the runs have, by construction, and what its text does not say."""

from __future__ import annotations

from scripts.papers.claims import Claim, by_construction, claims_table, not_checkable
from scripts.tables import NOTHING

from cosched_emulator.statistics.intervals import Verdict


def rules_of_the_text() -> list[str]:
    """Return the table of parameters and rules."""
    return ["### Parameters and rules", "", *claims_table([*_parameters(), *_rules()])]


def _parameters() -> list[Claim]:
    return [
        not_checkable(
            "P1: logs, CTC and BLUE, cleaned", "edition not named", "CTC on 338 processors; 430 is an experiment"
        ),
        not_checkable("P2: which 10,000 jobs", "not said", "three windows of each log"),
        _built("P3: mixes by share of jobs, HIGH 80/10/10, MED 50/10/40, LOW 10/10/80"),
        _built("P4: 4 processors and 6,000 MB/s a node; network and memory do not count"),
        not_checkable(
            "P5: demand of a greedy process",
            "the sentence is missing",
            "2,000 MB/s; 1,677 or 1,700 would give the 11.8 % of Table 5, BLUE HIGH",
        ),
        _built("P6: penalty of a window, sum over windows, maximum over nodes"),
        _built("P7: SJBF, one reservation, head first come, first served"),
        _built("P8: thresholds 1, 1.15, 1.25, 1.5 (LCT) and 1.15, 1.20, 1.25, 1.5 (RUA)"),
        not_checkable("P9: what a limit is extended by", '"according this penalty"', "the readings X1 to X7"),
        _built("P10: a job that exceeds its limit is killed"),
        not_checkable("P11: caption of Table 7", '"Killed Jobs 95th Percentile"', "totals; X6 has kills a week"),
        not_checkable("P12: seeds and intervals", "none", "up to five draws of demand in each of three windows"),
    ]


def _rules() -> list[Claim]:
    slow = "tests compare each decision with a slow program of section 5"
    return [
        _built(
            "R1: LC exchanges the worst buckets of first fit's allocation",
            "reaches the least factor of all allocations at that instant (tests enumerate them); the paper says a subset",
        ),
        not_checkable("R2: LC's start is often later than first fit's", "contradicts R1", "the reading X4, `may_wait`"),
        _built("R3: LCT stops within the threshold, and looks later in time"),
        _built("R4: RUA's head takes the allocation with the least slowdown", slow),
        _built("R5: RUA backfills by penalty factor, then length", slow),
        _built("R6: no search between choice and start", slow),
    ]


def _built(text: str, how: str = NOTHING) -> Claim:
    return by_construction(Claim(text, "", "in the text", how, 0, Verdict.YES))
