"""The parts of a composition by name, each with its settings.

A part is named by its place, ``module:name`` below `cosched_plugin.policies`, and imported when a composition asks for it: choosing
a policy loads what it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from cosched_plugin.api import CUT_SHORT, NONE, PAIR_NOTE, TENANCY_NOTE, Needs
from cosched_plugin.policies.composition.part_settings import (
    Build,
    Entry,
    added,
    at,
    factor,
    factors,
    flag,
    number,
    one_of,
    only,
    seconds,
    shares,
    whole,
)

ORDERS: Final[Mapping[str, Entry]] = {
    "fcfs": Entry("orders:Fcfs", "first come, first served"),
    "shortest": Entry("orders:Shortest", "shortest estimate first"),
    "priority": Entry("orders:Priority", "highest priority first, as the manager says"),
    "widest": Entry("orders:Widest", "most processes first"),
    "class-priority": Entry(
        "orders:ClassPriority",
        "short, medium, long jobs; a pending job rises with time",
        {"age_s": seconds(0, "wait that lifts a job by a class; 0: the mean wait")},
    ),
    "class-one-rises": Entry(
        "orders:OneRises",
        "short, medium, long jobs; one pending job rises at a time",
        {"age_s": seconds(0, "time in which one job rises by a class; 0: the mean wait")},
    ),
    "multifactor": Entry(
        "multifactor:Multifactor",
        "Slurm's multifactor priority: age, fair share, size, and what the manager says of QOS, partition and nice",
        {
            "age": whole(0, 10**9, "weight of the time since submission"),
            "fair_share": whole(0, 10**9, "weight of the fair-share factor, by the classic formula"),
            "size": whole(0, 10**9, "weight of the size"),
            "max_age_s": seconds(1, "time after which a job grows no older"),
            "half_life_s": seconds(0, "time after which use counts half; 0: it never decays"),
            "period_s": seconds(1, "time between two computations of all priorities"),
            "favor_small": flag("the smaller a job, the higher its factor of size"),
            "damping": whole(1, 65_533, "the larger, the less the fair-share factor follows the use"),
            "shares": shares(
                "shares of accounts and users; users who are not there have one each, as accounts of their own"
            ),
        },
    ),
}
GANG: Final = Entry(
    "gang.gang:Gang",
    "gang scheduling: rows of jobs take turns, a quantum each",
    {
        "rows": whole(0, "gang.gang:MOST_ROWS", "rows at most; 0: no limit"),
        "band": number(
            0, 100, "range of the CPU shares of a row's jobs, in points, beyond which a job leaves it; 0: any"
        ),
        "place_fresh": one_of(
            "gang.gang:PLACE_FRESH",
            "rows that take a new job: any, those whose band admits a share of 100, or a new row only",
        ),
        "sharp_change": one_of(
            "gang.matrix:SHARP_CHANGES",
            "a job runs without a partner for a quantum after its CPU share rose, or changed, by more than 20 points",
        ),
        "pad": flag("of a job with less than four quanta, the missing ones count as 100 %"),
        "compaction": flag("rows dissolve where other rows have room for all their jobs"),
        "alternates": one_of(
            "gang.pairings:ALTERNATES",
            "jobs of other rows on idle nodes: max: if the largest shares still fit; band: also within the band; "
            "node: if the shares on each node fit; off: none",
        ),
        "alternates_when_unmatched": flag("alternates run beside a row that has no partner, too"),
        "skip": flag("jobs behind one that has no place in any row may start before it"),
    },
)
BACKFILLS: Final[Mapping[str, Entry]] = {
    "none": Entry("backfilling.easy:NoBackfill", "start in queue order until one does not fit"),
    "skip": Entry("backfilling.easy:Skip", "start every job that has a place, in queue order, without reservations"),
    "easy": Entry(
        "backfilling.easy:Easy",
        "one reservation, for the head; others in queue order",
        {"depth": added(whole(0, 10**9, "jobs from the head on that are examined; 0: all"))},
    ),
    "sjbf": Entry("backfilling.easy:Sjbf", "one reservation, for the head; others shortest first"),
    "conservative": Entry(
        "backfilling.conservative:Conservative", "a promised start for every job, compressed when jobs end early"
    ),
    "conservative-starts": Entry(
        "backfilling.conservative:ConservativeStarts",
        "a promised start for every job; when jobs end early, only jobs that can start at once move",
    ),
    "rua": Entry(
        "rua.backfill:Rua",
        "one reservation; places with the least expected slowdown, jobs that lose least first",
        {"thresholds": factors("penalty factors to try for every job")},
    ),
    "by-gain": Entry(
        "coexecution.halves:ByGain",
        "one reservation, for the head; of jobs of equal size the one that adds most work first",
        {"lookahead": whole(1, 1_000_000, "kinds of pending jobs that are compared, at most")},
    ),
    "gang": GANG,
}
SHAPES: Final[Mapping[str, Entry]] = {
    "threads": Entry("placement.compact:Threads", "a job takes free hardware threads, wherever they are"),
    "nodes": Entry(
        "placement.compact:Nodes", "a job takes empty nodes, one process a core unless the placement says otherwise"
    ),
}
_EXTEND: Final = {"extend_limit": flag("multiply estimate and limit by the penalty factor expected at the start")}
_EXTEND_BY: Final = {
    **_EXTEND,
    "limit_factors": only(
        factors(
            "with `extend_limit`, multiply by the lowest of these that is not below the penalty factor; else by that"
        ),
        extend_limit=True,
    ),
}
_CONTEXTS: Final = {"contexts": whole(0, 4096, "hardware threads of a node that jobs may hold, in each slot; 0: all")}
PLACEMENTS: Final[Mapping[str, Entry]] = {
    "first-fit": Entry("placement.compact:FirstFit", "lowest free threads", _EXTEND),
    "packed": Entry("placement.compact:Packed", "nodes with the fewest free threads first", _EXTEND),
    "least-loaded": Entry("placement.compact:LeastLoaded", "nodes with the fewest jobs first, whatever their slots"),
    "buddy": Entry("placement.compact:Buddy", "an aligned block of 1, 2, 4, ... nodes, of those with the fewest jobs"),
    "contiguous": Entry(
        "placement.compact:Contiguous",
        "one process on each node, of the block of consecutive nodes with the fewest jobs",
        _CONTEXTS,
    ),
    "scattered": Entry(
        "placement.compact:Scattered",
        "one process on each node, of random ones with room",
        {**_CONTEXTS, "seed": whole(0, 2**63 - 1, "seed of the random order of nodes")},
    ),
    "lessconsume": Entry(
        "rua.lessconsume:LessConsume",
        "least penalty factor at the same start",
        {**_EXTEND_BY, "may_wait": flag("start later where the job is then expected to end earlier")},
    ),
    "lessconsume-threshold": Entry(
        "rua.lessconsume:within_threshold",
        "first start with a penalty factor within the threshold",
        {"threshold": factor("largest penalty factor accepted"), **_EXTEND_BY},
        ("rua.lessconsume:LessConsume",),
    ),
    "spread": Entry(
        "placement.spread:Spread",
        "empty nodes, with one process on each, one a CPU or one a core",
        {
            "max_slowdown": factor("how much a job may slow itself down with all cores of a node at work"),
            "max_slowdown_cpus": factor("how much it may slow itself down with one process on each CPU"),
        },
    ),
    "halves": Entry(
        "coexecution.halves:Halves",
        "all cores of n nodes, or half of the cores of 2n beside other jobs: where most work is added",
        {
            "compact": flag("jobs may have all cores of their nodes"),
            "share": flag("jobs may have other jobs beside them"),
            "max_slowdown": only(
                factor("run time of a job beside another one over that on all cores, at most"), share=True
            ),
        },
    ),
}
_MATCHING: Final = {
    "max_slowdown": factor("largest slowdown of a pair"),
    "cpu": one_of(
        "lomarc.constraints:CPUS", "standard: the CPU is time-shared, only cpu-bound and disk-bound jobs match"
    ),
    "weak_load": number(0, 1, "no match while the queue asks for no more than the free nodes less this share"),
}
_JOINING: Final = {
    **_MATCHING,
    "all_join": flag("every pending job may join running ones; else the first of the queue alone"),
}
_LOOKAHEAD: Final = ("lomarc.lookahead:Lookahead",)
MATCHINGS: Final[Mapping[str, Entry]] = {
    "none": Entry("planning.neutral:NoMatching", "every job alone"),
    "always": Entry("lomarc.lookahead:Always", "a job and the next in the queue, whatever they are"),
    "adjacent": Entry("lomarc.lookahead:Adjacent", "a job and the next in the queue, if they match", _MATCHING),
    "first": Entry(
        "lomarc.lookahead:first_match", "the first match in the queue, or among running jobs", _JOINING, _LOOKAHEAD
    ),
    "u1": Entry(
        "lomarc.lookahead:by_shared_time_gain",
        "the match with the highest utilisation gain, over the time that is shared",
        _JOINING,
        _LOOKAHEAD,
    ),
    "u2": Entry(
        "lomarc.lookahead:by_timeless_gain",
        "the match with the highest utilisation gain, whatever the run times",
        _JOINING,
        _LOOKAHEAD,
    ),
    "response": Entry(
        "lomarc.lookahead:by_response",
        "the match with the best impact on response times",
        {
            **_JOINING,
            "future": one_of(
                "lomarc.lookahead:FUTURES", "expected arrivals that count: medium and long ones, all, or none"
            ),
        },
        _LOOKAHEAD,
    ),
    "neighbours": Entry(
        "coexecution.neighbours:Neighbours", "jobs on halves of nodes; expected ends follow who is beside whom"
    ),
    "guests": Entry(
        "symbiosis.express:by_mode",
        "jobs beside several running ones, the cheapest hosts first, or beside one that starts with them",
        {
            "min_gain": number(-1, 2, "least gain of a guest, as a part of its processes; above 1: no guests"),
            "budget": number(0, 1e3, "what its neighbours may cost a job, as a part of its estimate"),
            "brief_s": seconds(0, "jobs up to this length may be guests whatever they gain"),
            "hosts": whole(0, 1_000_000, "hosts of a guest, at most; 0: as many as it takes"),
            "empty_nodes": flag("a guest may take empty nodes besides those of its hosts"),
            "pairs": flag("a job that starts may take one with it"),
            "inside": added(flag("a guest's limit must end before those of its hosts")),
            "mode": added(one_of("symbiosis.express:MODES", "no job is suspended, or short jobs may stop others")),
            "express_s": only(
                added(seconds(0, "express: jobs up to this length may stop longer ones")), mode="express"
            ),
            "stops": only(
                added(number(0, 1e3, "express: how long a job may be stopped in all, as a part of its estimate")),
                mode="express",
            ),
        },
        ("symbiosis.guests:Guests",),
    ),
    "group": Entry(
        "glomarc.grouping:Grouping",
        "groups of jobs by utilisation gain",
        {
            "max_slowdown": factor("largest slowdown of a job beside another, its own not counted"),
            "min_gain": number(-1, 1e3, "least utilisation gain of a group"),
            "block": only(whole(1, 1_000_000, "candidates in a block"), blocks=("all", "first")),
            "larger": number(0, 1e3, "by how much matched jobs may take more nodes than the primary"),
            "longer_s": seconds(0, "by how much a matched job may take longer than the primary"),
            "running": whole(0, 1_000_000, "running jobs that are considered as primary"),
            "most": whole(0, 1_000_000, "matched jobs in a group; 0: as many as fit"),
            "choice": one_of("glomarc.formation:CHOICES", "the best group, or the first that is suitable"),
            "blocks": one_of(
                "glomarc.formation:BLOCKS", "which blocks candidates come from; none: all are one, and not sorted"
            ),
            "sort": only(flag("sort the jobs of a block by what they have left"), blocks=("all", "first")),
            "sort_running": only(
                flag("sort running ones, too; else the least delayed stay first"), blocks=("all", "first"), sort=True
            ),
            "absolute": only(
                flag("rank groups by the node time that they save, not by its share of what they hold"), choice="best"
            ),
            "fairness_tries": one_of(
                "glomarc.formation:TRIES",
                "windows of a primary job that are tried until one passes: all, or the best or first alone",
            ),
            "short_s": seconds(0, "jobs up to this length are not co-located"),
            "space": flag("a group has to gain more than its first job would alone on all cores"),
            "low_load": one_of(
                "glomarc.formation:LOW_LOADS",
                "jobs that must fit with one process a node, for a job to run alone and spread out",
            ),
        },
        ("glomarc.formation:Search",),
    ),
}
_MARGIN: Final = {"margin": number(0, 100, "CPU share that two jobs on a node leave, in points")}
PAIRINGS: Final[Mapping[str, Entry]] = {
    "none": Entry("planning.neutral:NoPairing", "every row runs alone"),
    "predesigned": Entry(
        "gang.pairings:Predesigned",
        "at the begin of a round, rows matched from both ends, so that most have a partner of their own",
        _MARGIN,
    ),
    "printed": Entry(
        "gang.pairings:Printed", "predesigned as printed in the paper: the row in the middle runs alone", _MARGIN
    ),
    "best-fit": Entry("gang.pairings:BestFit", "for each turn, the row with the largest CPU share that fits", _MARGIN),
    "blind": Entry("gang.pairings:Blind", "always two rows together, whatever they are"),
}
FAIRNESS: Final[Mapping[str, Entry]] = {
    "none": Entry("planning.neutral:NoFairness", "co-location may delay other jobs without limit"),
    "slack": Entry(
        "slack:Slack",
        "co-location may not delay a job beyond the response expected at submission, times a factor",
        {
            "factor": number(0.01, 1e6, "slack factor"),
            "adjust": number(0.01, 100, "part of the simulated response that is expected"),
            "members": flag("the jobs of the group are protected, too"),
        },
    ),
}
SLICES: Final[Mapping[str, Entry]] = {
    "none": Entry("", "all jobs at any time"),
    "classes": Entry(
        "slices:Classes",
        "time slices for short, medium and long jobs, with preemption to disk",
        {
            "interval_s": seconds(1, "interval in which each class of jobs has a slice"),
            "short_slice_s": seconds(0.001, "slice of short jobs, in an interval that begins with some"),
            "medium_share": number(0.001, 0.999, "medium jobs' part of the rest", "a share from 0.001 to 0.999"),
            "short_s": seconds(0.001, "longest estimate of a short job"),
            "medium_s": seconds(0.001, "longest estimate of a medium job"),
        },
    ),
}
BUDGETS: Final[Mapping[str, Entry]] = {
    "none": Entry("", "the work of a decision has no limit"),
    "counted": Entry(
        "planning.neutral:Counted",
        "a decision stops searching once it has cost this many units; for live use",
        {"units": whole(1, 10**12, "work of a decision, counted: each is about a microsecond")},
    ),
}
BELIEFS: Final[Mapping[str, Entry]] = {
    "given": Entry("", "slowdowns of co-located jobs are what the site says"),
    "trials": Entry(
        "belief.trials:Trials",
        "slowdowns are what the site says; a few jobs at a time are tried beside jobs that it does not know",
        {
            "most": whole(1, 10_000, "guests on trial at once"),
            "assumed": number(1, 10, "slowdown of a pair on trial, until more is known"),
        },
    ),
    "learned": Entry(
        "belief.learned:Learned",
        "slowdowns of co-located jobs are learned, by application and user, from those that the manager measures",
        {
            "trials": whole(
                0, 1_000_000, "one of this many jobs is tried beside others that are not known well; 0: none"
            ),
            "errors": number(0, 10, "standard errors that are added to an estimate, and taken off for a trial"),
            "most_pairs": whole(1, 2_000, "pairs of applications, and users of one, that are remembered"),
        },
    ),
    "corrected": Entry(
        "belief.corrected:Corrected",
        "what the site says, scaled by what is measured over what it said",
        {
            "trials": whole(0, 1_000_000, "one of this many jobs keeps the site's belief, if that is lower; 0: none"),
            "window": whole(1, 10_000, "measurements of all pairs that count: older ones fade"),
            "learn": flag("pairs of which the site says nothing are learned, as by `learned`"),
        },
    ),
}
LEDGERS: Final[Mapping[str, Entry]] = {
    "none": Entry("", "no account of what jobs would have without co-location"),
    "easy": Entry(
        "symbiosis.virtual_easy:VirtualEasy",
        "EASY is played beside the real schedule: a host that is ahead of it may be asked for more than its budget",
        {
            "share": number(0, 1, "share of a host's lead that it may be charged"),
            "most": whole(0, 5_000, "jobs that have ended and are still counted there, at most"),
        },
    ),
}
KINDS: Final[Mapping[str, Mapping[str, Entry]]] = {
    "order": ORDERS,
    "backfill": BACKFILLS,
    "shape": SHAPES,
    "placement": PLACEMENTS,
    "matching": MATCHINGS,
    "pairing": PAIRINGS,
    "fairness": FAIRNESS,
    "slices": SLICES,
    "budget": BUDGETS,
    "belief": BELIEFS,
    "ledger": LEDGERS,
}

# Notes of cosched's own parts: the place of the key. A part from outside may share one only if it inherits the code that keeps it.
_NOTES: Final[Mapping[str, str | None]] = {
    "orders:NOTE": "orders:RemembersStarts",
    **dict.fromkeys((
        "orders:LIFTS", "multifactor:NOTE", "slices:NOTE", "backfilling.conservative:NOTE", "slack:NOTE", "glomarc.upkeep:NOTE",
        "gang.matrix:NOTE", "coexecution.halves:NOTE", "belief.learned:NOTE", "belief.corrected:NOTE", "symbiosis.express:NOTE",
        "symbiosis.virtual_easy:NOTE",
    )),
}  # fmt: skip


def own_notes() -> Mapping[str, Build | None]:
    """Return the keys of cosched's own notes, each with the method that keeps it where a part may inherit that."""
    kept = {at(key): None if keeper is None else at(keeper).remember for key, keeper in _NOTES.items()}
    return {PAIR_NOTE: None, TENANCY_NOTE: None, CUT_SHORT: None, **kept}


@cache
def needs_and_provisions() -> Mapping[tuple[str, str], tuple[Needs, Needs]]:
    """Return what each part needs and provides with its default settings, by kind and name."""
    parts = {
        (kind, name): entry.build(**entry.defaults())
        for kind, entries in KINDS.items()
        for name, entry in entries.items()
    }
    return {key: (NONE, NONE) if part is None else (part.needs, part.provides) for key, part in parts.items()}
