"""The parts of gang scheduling by name, with the parameters that they take."""

from __future__ import annotations

from collections.abc import Mapping

from cosched_plugin.policies.composition.parameters import Entry, Parameter, is_bool, is_number, is_whole, one_of
from cosched_plugin.policies.gang.alternates import ALTERNATES
from cosched_plugin.policies.gang.gang import MOST_ROWS, PLACE_FRESH, Gang
from cosched_plugin.policies.gang.pairings import BestFit, Blind, NoPairing, Predesigned, Printed
from cosched_plugin.policies.gang.prediction import SHARP_CHANGES

GANG = Entry(
    Gang,
    "gang scheduling: rows of jobs take turns, a quantum each",
    {
        "rows": Parameter(
            is_whole(0, MOST_ROWS), f"a whole number from 0 to {MOST_ROWS}", 0, "rows at most; 0: no limit"
        ),
        "band": Parameter(
            is_number(0, 100),
            "a number from 0 to 100",
            0.0,
            "range of the CPU shares of a row's jobs, in points, beyond which a job leaves it; 0: any",
        ),
        "place_fresh": one_of(
            *PLACE_FRESH,
            text="rows that take a new job: any, those whose band admits a share of 100, or a new row only",
        ),
        "sharp_change": one_of(
            *SHARP_CHANGES,
            text="a job runs without a partner for a quantum after its CPU share rose, or changed, by more than 20 points",
        ),
        "pad": Parameter(
            is_bool, "true or false", False, "of a job with less than four quanta, the missing ones count as 100 %"
        ),
        "compaction": Parameter(
            is_bool, "true or false", False, "rows dissolve where other rows have room for all their jobs"
        ),
        "alternates": one_of(
            *ALTERNATES,
            text="jobs of other rows on idle nodes: where the largest shares still fit, within the band besides, "
            "where those on the same node fit, or none",
        ),
        "alternates_when_unmatched": Parameter(
            is_bool, "true or false", False, "alternates run beside a row that has no partner, too"
        ),
        "skip": Parameter(
            is_bool, "true or false", False, "jobs behind one that has no place in any row may start before it"
        ),
    },
)
_MARGIN: Mapping[str, Parameter] = {
    "margin": Parameter(
        is_number(0, 100), "a number from 0 to 100", 1.0, "CPU share that two jobs on a node leave, in points"
    )
}
PAIRINGS: Mapping[str, Entry] = {
    "none": Entry(NoPairing, "every row runs alone"),
    "predesigned": Entry(
        Predesigned,
        "at the begin of a round, rows matched from both ends, so that most have a partner of their own",
        _MARGIN,
    ),
    "printed": Entry(Printed, "the same as printed: the row in the middle runs alone", _MARGIN),
    "best-fit": Entry(BestFit, "for each turn, the row with the largest CPU share that fits", _MARGIN),
    "blind": Entry(Blind, "always two rows together, whatever they are"),
}
