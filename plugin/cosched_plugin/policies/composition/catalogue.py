"""The parts of a composition by name, with the parameters that they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from cosched_plugin.api import PAIR_NOTE as PACE
from cosched_plugin.policies.backfilling.conservative import Conservative
from cosched_plugin.policies.backfilling.easy import Easy, NoBackfill, Sjbf, Skip
from cosched_plugin.policies.backfilling.reservation_table import NOTE as PROMISE
from cosched_plugin.policies.coexecution.by_gain import ByGain
from cosched_plugin.policies.coexecution.halves import NOTE as SPREAD
from cosched_plugin.policies.coexecution.halves import Halves
from cosched_plugin.policies.coexecution.neighbours import Neighbours
from cosched_plugin.policies.gang.gang import MOST_ROWS, PLACE_FRESH, Gang
from cosched_plugin.policies.gang.matrix import NOTE as FRESH
from cosched_plugin.policies.gang.matrix import SHARP_CHANGES
from cosched_plugin.policies.gang.pairings import ALTERNATES, BestFit, Blind, NoPairing, Predesigned, Printed
from cosched_plugin.policies.glomarc.grouping import Grouping
from cosched_plugin.policies.glomarc.upkeep import NOTE as GROUP
from cosched_plugin.policies.lomarc.lookahead import (
    FUTURES,
    First,
    Lookahead,
    ResponseImpact,
    SharedTimeGain,
    TimelessGain,
)
from cosched_plugin.policies.lomarc.next_in_queue import Adjacent, Always
from cosched_plugin.policies.orders import NOTE as HISTORY
from cosched_plugin.policies.orders import ClassPriority, Fcfs, RemembersStarts, Shortest, Widest
from cosched_plugin.policies.placement.compact import (
    Buddy,
    Contiguous,
    FirstFit,
    LeastLoaded,
    Nodes,
    Packed,
    Scattered,
    Threads,
)
from cosched_plugin.policies.placement.spread import Spread
from cosched_plugin.policies.planning.reservation import Counted, NoMatching
from cosched_plugin.policies.rua.backfill import PAPER_THRESHOLDS, Rua
from cosched_plugin.policies.rua.lessconsume import LessConsume
from cosched_plugin.policies.slack import NOTE as RESPONSE
from cosched_plugin.policies.slack import NoFairness, Slack
from cosched_plugin.policies.slices import NOTE as CALENDAR
from cosched_plugin.policies.slices import Classes

# A part by name, and the settings of parts: accepted values, defaults, meanings.


class Parameter(NamedTuple):
    """A setting of a part."""

    check: Callable[[object], bool]
    expected: str
    default: object
    text: str


class Entry(NamedTuple):
    """A part by name."""

    build: Callable[..., Any]  # None: nothing of this kind
    text: str
    parameters: Mapping[str, Parameter] = {}


def is_factor(value: object) -> bool:
    """Tell whether it is a number >= 1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 1.0 <= value < float("inf")


def is_factors(value: object) -> bool:
    """Tell whether it is a list of numbers >= 1, not empty."""
    return isinstance(value, list | tuple) and len(value) > 0 and all(is_factor(item) for item in value)


def is_bool(value: object) -> bool:
    """Tell whether it is true or false."""
    return isinstance(value, bool)


def is_number(low: float, high: float) -> Callable[[object], bool]:
    """Return a check for numbers from ``low`` to ``high``."""
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def is_whole(low: int, high: int) -> Callable[[object], bool]:
    """Return a check for whole numbers from ``low`` to ``high``."""
    return lambda value: type(value) is int and low <= value <= high


def one_of(*names: str, text: str) -> Parameter:
    """Return a setting that is one of ``names``, the first by default."""
    return Parameter(lambda value: value in names, ", ".join(names[:-1]) + f" or {names[-1]}", names[0], text)


def extend_limit(default: bool) -> Parameter:
    """Return the placements' setting that lets limits grow with expected penalties."""
    return Parameter(
        is_bool, "true or false", default, "multiply estimate and limit by the penalty factor expected at the start"
    )


# The parts of gang scheduling by name, with the parameters that they take.

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


ORDERS: Mapping[str, Entry] = {
    "fcfs": Entry(Fcfs, "first come, first served"),
    "shortest": Entry(Shortest, "shortest estimate first"),
    "widest": Entry(Widest, "most processes first"),
    "class-priority": Entry(
        ClassPriority,
        "short, medium, long jobs; a pending job rises with time",
        {
            "age_s": Parameter(
                is_number(0, 1e9), "seconds, 0 or more", 0.0, "wait that lifts a job by a class; 0: the mean wait"
            )
        },
    ),
}
BACKFILLS: Mapping[str, Entry] = {
    "none": Entry(NoBackfill, "start in queue order until one does not fit"),
    "skip": Entry(Skip, "start every job that has a place, in queue order, without reservations"),
    "easy": Entry(Easy, "one reservation, for the head; others in queue order"),
    "sjbf": Entry(Sjbf, "one reservation, for the head; others shortest first"),
    "conservative": Entry(Conservative, "a promised start for every job, compressed when jobs end early"),
    "rua": Entry(
        Rua,
        "one reservation; places with the least expected slowdown, jobs that lose least first",
        {
            "thresholds": Parameter(
                is_factors, "a list of numbers >= 1", list(PAPER_THRESHOLDS), "penalty factors to try for every job"
            )
        },
    ),
    "by-gain": Entry(
        ByGain,
        "one reservation, for the head; of jobs of equal size the one that adds most work first",
        {
            "lookahead": Parameter(
                is_whole(1, 1_000_000),
                "a whole number from 1 to 1000000",
                100,
                "kinds of pending jobs that are compared, at most",
            )
        },
    ),
    "gang": GANG,
}
_CONTEXTS: Mapping[str, Parameter] = {
    "contexts": Parameter(
        is_whole(0, 4096),
        "a whole number from 0 to 4096",
        0,
        "hardware threads of a node that jobs may hold, in each slot; 0: all",
    )
}
PLACEMENTS: Mapping[str, Entry] = {
    "first-fit": Entry(FirstFit, "lowest free threads", {"extend_limit": extend_limit(False)}),
    "packed": Entry(Packed, "nodes with the fewest free threads first", {"extend_limit": extend_limit(False)}),
    "least-loaded": Entry(LeastLoaded, "nodes with the fewest jobs first, whatever their slots"),
    "buddy": Entry(Buddy, "an aligned block of 1, 2, 4, ... nodes, of those with the fewest jobs"),
    "contiguous": Entry(
        Contiguous, "one process on each node, of the block of consecutive nodes with the fewest jobs", _CONTEXTS
    ),
    "scattered": Entry(
        Scattered,
        "one process on each node, of random ones with room",
        {
            **_CONTEXTS,
            "seed": Parameter(
                is_whole(0, 2**63 - 1), "a whole number from 0 to 9223372036854775807", 0, "of the draws of nodes"
            ),
        },
    ),
    "lessconsume": Entry(LessConsume, "least penalty factor at the same start", {"extend_limit": extend_limit(True)}),
    "lessconsume-threshold": Entry(
        LessConsume,
        "first start with a penalty factor within the threshold",
        {
            "threshold": Parameter(is_factor, "a number >= 1", 1.15, "largest penalty factor accepted"),
            "extend_limit": extend_limit(True),
        },
    ),
    "spread": Entry(
        Spread,
        "empty nodes, with one process on each, one a CPU or one a core",
        {
            "max_slowdown": Parameter(
                is_factor,
                "a number >= 1",
                1.25,
                "how much a job may slow itself down with all cores of a node at work",
            ),
            "max_slowdown_cpus": Parameter(
                is_factor, "a number >= 1", 1.12, "how much it may slow itself down with one process on each CPU"
            ),
        },
    ),
    "halves": Entry(
        Halves,
        "all cores of n nodes, or half of the cores of 2n beside other jobs: where most work is added",
        {
            "compact": Parameter(is_bool, "true or false", True, "jobs may have all cores of their nodes"),
            "share": Parameter(is_bool, "true or false", True, "jobs may have other jobs beside them"),
            "max_slowdown": Parameter(
                is_factor, "a number >= 1", 1.05, "run time of a job beside another one over that on all cores, at most"
            ),
        },
    ),
}
SHAPES: Mapping[str, Entry] = {
    "threads": Entry(Threads, "a job takes free hardware threads, wherever they are"),
    "nodes": Entry(Nodes, "a job takes empty nodes, one process a core unless the placement says otherwise"),
}
_MATCHING: Mapping[str, Parameter] = {
    "max_slowdown": Parameter(is_factor, "a number >= 1", 1.6, "largest slowdown of a pair"),
    "cpu": Parameter(
        lambda value: value in ("hyperthreaded", "standard"),
        "hyperthreaded or standard",
        "hyperthreaded",
        "standard: the CPU is time-shared, only cpu-bound and disk-bound jobs match",
    ),
    "weak_load": Parameter(
        is_number(0, 1),
        "a number from 0 to 1",
        0.2,
        "no match while the queue asks for no more than the free nodes less this share",
    ),
}


def _by_response(*, future: str, **settings: Any) -> Lookahead:
    return Lookahead(ResponseImpact(future), **settings)


_LOMARC_MATCHINGS: Mapping[str, Entry] = {
    "none": Entry(NoMatching, "every job alone"),
    "always": Entry(Always, "a job and the next in the queue, whatever they are"),
    "adjacent": Entry(Adjacent, "a job and the next in the queue, if they match", _MATCHING),
    "first": Entry(partial(Lookahead, First()), "the first match in the queue, or among running jobs", _MATCHING),
    "u1": Entry(
        partial(Lookahead, SharedTimeGain()),
        "the match with the highest utilisation gain, over the time that is shared",
        _MATCHING,
    ),
    "u2": Entry(
        partial(Lookahead, TimelessGain()),
        "the match with the highest utilisation gain, whatever the run times",
        _MATCHING,
    ),
    "response": Entry(
        _by_response,
        "the match with the best impact on response times",
        {
            **_MATCHING,
            "future": one_of(*FUTURES, text="expected arrivals that count: medium and long ones, all, or none"),
        },
    ),
}
MATCHINGS: Mapping[str, Entry] = {
    **_LOMARC_MATCHINGS,
    "neighbours": Entry(Neighbours, "jobs on halves of nodes; expected ends follow who is beside whom"),
    "group": Entry(
        Grouping,
        "groups of jobs by utilisation gain",
        {
            "max_slowdown": Parameter(is_factor, "a number >= 1", 1.25, "largest slowdown of a job beside another"),
            "min_gain": Parameter(
                is_number(-1, 1e3), "a number from -1 to 1000", 0.45, "least utilisation gain of a group"
            ),
            "block": Parameter(is_whole(1, 1_000_000), "a whole number from 1 to 1000000", 16, "candidates in a block"),
            "larger": Parameter(
                is_number(0, 1e3),
                "a number from 0 to 1000",
                0.125,
                "by how much matched jobs may take more nodes than the primary",
            ),
            "longer_s": Parameter(
                is_number(0, 1e9),
                "seconds, 0 or more",
                3000.0,
                "by how much a matched job may take longer than the primary",
            ),
            "running": Parameter(
                is_whole(0, 1_000_000),
                "a whole number from 0 to 1000000",
                8,
                "running jobs that are considered as primary",
            ),
            "most": Parameter(
                is_whole(0, 1_000_000),
                "a whole number from 0 to 1000000",
                0,
                "matched jobs in a group; 0: as many as fit",
            ),
            "choice": one_of("best", "first", text="the best group, or the first that is suitable"),
            "blocks": one_of(
                "all", "first", "none", text="which blocks candidates come from; none: all are one, and not sorted"
            ),
            "sort": Parameter(
                is_bool,
                "true or false",
                True,
                "sort the jobs of a block by what they have left",
            ),
            "fairness_tries": one_of(
                "one",
                "all",
                text="windows of a primary job that are tried while they are refused: the best or first, or all",
            ),
            "short_s": Parameter(
                is_number(0, 1e9), "seconds, 0 or more", 600.0, "jobs up to this length are not co-located"
            ),
            "space": Parameter(
                is_bool,
                "true or false",
                True,
                "a group has to gain more than its first job would alone on all cores",
            ),
            "low_load": one_of(
                "all",
                "waiting",
                "none",
                text="jobs that must fit with one process on a node, for a job to get its nodes so",
            ),
        },
    ),
}
FAIRNESS: Mapping[str, Entry] = {
    "none": Entry(NoFairness, "co-location may delay other jobs without limit"),
    "slack": Entry(
        Slack,
        "co-location may not delay a job beyond the response expected at submission, times a factor",
        {
            "factor": Parameter(is_number(0.01, 1e6), "a number from 0.01 to 1000000", 1.5, "slack factor"),
            "adjust": Parameter(
                is_number(0.01, 100),
                "a number from 0.01 to 100",
                0.75,
                "part of the simulated response that is expected",
            ),
        },
    ),
}
SLICES: Mapping[str, Entry] = {
    "none": Entry(lambda: None, "all jobs at any time"),
    "classes": Entry(
        Classes,
        "time slices for short, medium and long jobs, with preemption to disk",
        {
            "interval_s": Parameter(is_number(1, 1e9), "seconds, 1 or more", 3600.0, "an interval with a slice each"),
            "short_slice_s": Parameter(
                is_number(0.001, 1e9),
                "seconds above 0",
                600.0,
                "slice of short jobs, in an interval that begins with some",
            ),
            "medium_share": Parameter(
                is_number(0.001, 0.999), "a share from 0.001 to 0.999", 0.3, "medium jobs' part of the rest"
            ),
            "short_s": Parameter(is_number(0.001, 1e9), "seconds above 0", 600.0, "longest estimate of a short job"),
            "medium_s": Parameter(
                is_number(0.001, 1e9), "seconds above 0", 10_800.0, "longest estimate of a medium job"
            ),
        },
    ),
}
BUDGETS: Mapping[str, Entry] = {
    "none": Entry(lambda: None, "the work of a decision has no limit"),
    "counted": Entry(
        Counted,
        "a decision stops searching once it has cost this many units; for live use",
        {
            "units": Parameter(
                is_whole(1, 10**12),
                "a whole number from 1 to 1000000000000",
                2000,
                "work of a decision, counted: each is about a microsecond",
            )
        },
    ),
}
# Keys of the notes of cosched's own parts. A part from outside may share one only if it inherits the code that keeps it.
OWN_NOTES: Mapping[str, Callable[..., object] | None] = {
    HISTORY: RemembersStarts.remember,
    CALENDAR: None,
    PROMISE: None,
    RESPONSE: None,
    GROUP: None,
    FRESH: None,
    PACE: None,
    SPREAD: None,
}
KINDS: Mapping[str, Mapping[str, Entry]] = {
    "order": ORDERS,
    "backfill": BACKFILLS,
    "shape": SHAPES,
    "placement": PLACEMENTS,
    "matching": MATCHINGS,
    "pairing": PAIRINGS,
    "fairness": FAIRNESS,
    "slices": SLICES,
    "budget": BUDGETS,
}
