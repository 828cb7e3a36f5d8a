"""The parts of a composition by name, with the parameters that they take, and the named compositions with the papers' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from cosched_plugin.api import WholeNodesView
from cosched_plugin.policies.backfilling.conservative import Conservative
from cosched_plugin.policies.backfilling.easy import Easy, NoBackfill, Sjbf
from cosched_plugin.policies.fairness.slack import NoFairness, Slack
from cosched_plugin.policies.glomarc.grouping import Grouping
from cosched_plugin.policies.lomarc.lookahead import FUTURES, HEURISTICS, Lookahead
from cosched_plugin.policies.lomarc.neighbours import Adjacent, Always
from cosched_plugin.policies.orders.queue_orders import ClassPriority, Fcfs, Shortest
from cosched_plugin.policies.placement.first_fit import FirstFit, Packed
from cosched_plugin.policies.placement.spread import Spread
from cosched_plugin.policies.planning.matching import NoMatching
from cosched_plugin.policies.rua.backfill import PAPER_THRESHOLDS, Rua
from cosched_plugin.policies.rua.lessconsume import LessConsume
from cosched_plugin.policies.slices.time_slices import Slices

Table = Mapping[str, Any]


class Parameter(NamedTuple):
    """A setting of a part: what it accepts, what it is by default, what it means."""

    check: Callable[[object], bool]
    expected: str
    default: object
    text: str


class Part(NamedTuple):
    """A part of a composition by name."""

    build: Callable[..., Any]
    text: str
    parameters: Mapping[str, Parameter] = {}


def _is_factor(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1.0 <= value < float("inf")


def _is_factors(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(_is_factor(item) for item in value)


def _extend(default: bool) -> Parameter:
    return Parameter(
        lambda value: isinstance(value, bool),
        "true or false",
        default,
        "multiply estimate and limit by the penalty factor expected at the start",
    )


def _is_number(low: float, high: float) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _is_whole(low: int, high: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _one_of(*names: str, text: str) -> Parameter:
    return Parameter(lambda value: value in names, ", ".join(names[:-1]) + f" or {names[-1]}", names[0], text)


ORDERS: Mapping[str, Part] = {
    "fcfs": Part(Fcfs, "first come, first served"),
    "shortest": Part(Shortest, "shortest estimate first"),
    "class-priority": Part(
        ClassPriority,
        "short, medium, long jobs; who waits rises",
        {
            "age_s": Parameter(
                _is_number(0, 1e9), "seconds, 0 or more", 0.0, "wait that lifts a job by a class; 0: the mean wait"
            )
        },
    ),
}
BACKFILLS: Mapping[str, Part] = {
    "none": Part(NoBackfill, "start in queue order until one does not fit"),
    "easy": Part(Easy, "one reservation, for the head; others in queue order"),
    "sjbf": Part(Sjbf, "one reservation, for the head; others shortest first"),
    "conservative": Part(Conservative, "a promised start for every job, compressed when jobs end early"),
    "rua": Part(
        Rua,
        "one reservation; places with the least expected slowdown, jobs that lose least first",
        {
            "thresholds": Parameter(
                _is_factors, "a list of numbers >= 1", list(PAPER_THRESHOLDS), "penalty factors to try for every job"
            )
        },
    ),
}
PLACEMENTS: Mapping[str, Part] = {
    "first-fit": Part(FirstFit, "lowest free threads", {"extend_limit": _extend(False)}),
    "packed": Part(Packed, "nodes with the fewest free threads first", {"extend_limit": _extend(False)}),
    "lessconsume": Part(LessConsume, "least penalty factor at the same start", {"extend_limit": _extend(True)}),
    "lessconsume-threshold": Part(
        LessConsume,
        "first start with a penalty factor within the threshold",
        {
            "threshold": Parameter(_is_factor, "a number >= 1", 1.15, "largest penalty factor accepted"),
            "extend_limit": _extend(True),
        },
    ),
    "spread": Part(
        Spread,
        "empty nodes, with one process on each, one a CPU or one a core",
        {
            "max_slowdown": Parameter(
                _is_factor,
                "a number >= 1",
                1.25,
                "how much a job may slow itself down with all cores of a node at work",
            ),
            "max_slowdown_cpus": Parameter(
                _is_factor, "a number >= 1", 1.12, "how much it may slow itself down with one process on each CPU"
            ),
        },
    ),
}
SHAPES: Mapping[str, Part] = {
    "threads": Part(lambda: None, "a job takes free hardware threads, wherever they are"),
    "nodes": Part(lambda: WholeNodesView, "a job takes nodes that nobody is on, one process a core"),
}
_MATCHING: Mapping[str, Parameter] = {
    "max_slowdown": Parameter(_is_factor, "a number >= 1", 1.6, "largest slowdown of a pair"),
    "cpu": Parameter(
        lambda value: value in ("hyperthreaded", "standard"),
        "hyperthreaded or standard",
        "hyperthreaded",
        "standard: the CPU is time-shared, only cpu-bound and disk-bound jobs match",
    ),
    "weak_load": Parameter(
        _is_number(0, 1),
        "a number from 0 to 1",
        0.2,
        "no match while the queue asks for no more than the free nodes less this share",
    ),
}
_FUTURE: Mapping[str, Mapping[str, Parameter]] = {
    "response": {
        "future": Parameter(
            lambda value: value in FUTURES,
            ", ".join(FUTURES[:-1]) + f" or {FUTURES[-1]}",
            FUTURES[0],
            "expected arrivals that count: medium and long ones, all, or none",
        )
    },
}
_LOOKAHEAD: Mapping[str, str] = {
    "first": "the first match in the queue, or among running jobs",
    "u1": "the match with the highest utilisation gain, over the time that is shared",
    "u2": "the match with the highest utilisation gain, whatever the run times",
    "response": "the match with the best impact on response times",
}
_LOMARC_MATCHINGS: Mapping[str, Part] = {
    "none": Part(NoMatching, "every job alone"),
    "always": Part(Always, "a job and the next in the queue, whatever they are"),
    "adjacent": Part(Adjacent, "a job and the next in the queue, if they match", _MATCHING),
    **{
        name: Part(partial(Lookahead, name), _LOOKAHEAD[name], {**_MATCHING, **_FUTURE.get(name, {})})
        for name in HEURISTICS
    },
}
MATCHINGS: Mapping[str, Part] = {
    **_LOMARC_MATCHINGS,
    "group": Part(
        Grouping,
        "groups of jobs by utilisation gain",
        {
            "max_slowdown": Parameter(_is_factor, "a number >= 1", 1.25, "largest slowdown of a job beside another"),
            "min_gain": Parameter(
                _is_number(-1, 1e3), "a number from -1 to 1000", 0.45, "least utilisation gain of a group"
            ),
            "block": Parameter(
                _is_whole(1, 1_000_000), "a whole number from 1 to 1000000", 16, "candidates in a block"
            ),
            "larger": Parameter(
                _is_number(0, 1e3),
                "a number from 0 to 1000",
                0.125,
                "by how much matched jobs may take more nodes than the primary",
            ),
            "longer_s": Parameter(
                _is_number(0, 1e9),
                "seconds, 0 or more",
                3000.0,
                "by how much a matched job may take longer than the primary",
            ),
            "running": Parameter(
                _is_whole(0, 1_000_000),
                "a whole number from 0 to 1000000",
                8,
                "running jobs that are considered as primary",
            ),
            "most": Parameter(
                _is_whole(0, 1_000_000),
                "a whole number from 0 to 1000000",
                0,
                "matched jobs in a group; 0: as many as fit",
            ),
            "choice": _one_of("best", "first", text="the best group, or the first that is suitable"),
            "blocks": _one_of(
                "all", "first", "none", text="which blocks candidates come from; none: all are one, and not sorted"
            ),
            "sort": Parameter(
                lambda value: isinstance(value, bool),
                "true or false",
                True,
                "sort the jobs of a block by what they have left",
            ),
            "short_s": Parameter(_is_number(0, 1e9), "seconds, 0 or more", 600.0, "jobs up to so long have no company"),
            "space": Parameter(
                lambda value: isinstance(value, bool),
                "true or false",
                True,
                "a group has to gain more than its first job would alone on all cores",
            ),
            "low_load": _one_of(
                "all",
                "waiting",
                "none",
                text="who would have to fit with one process on a node, for a job to get its nodes so",
            ),
        },
    ),
}
FAIRNESS: Mapping[str, Part] = {
    "none": Part(NoFairness, "company may cost others what it will"),
    "slack": Part(
        Slack,
        "no company that delays somebody beyond the response expected at submission, times a factor",
        {
            "factor": Parameter(_is_number(0.01, 1e6), "a number from 0.01 to 1000000", 1.5, "slack factor"),
            "adjust": Parameter(
                _is_number(0.01, 100),
                "a number from 0.01 to 100",
                0.75,
                "part of the simulated response that is expected",
            ),
        },
    ),
}
SLICES: Mapping[str, Part] = {
    "none": Part(lambda: None, "all jobs at any time"),
    "classes": Part(
        Slices,
        "time slices for short, medium and long jobs, with preemption to disk",
        {
            "interval_s": Parameter(_is_number(1, 1e9), "seconds, 1 or more", 3600.0, "an interval with a slice each"),
            "short_slice_s": Parameter(
                _is_number(0.001, 1e9),
                "seconds above 0",
                600.0,
                "slice of short jobs, in an interval that begins with some",
            ),
            "medium_share": Parameter(
                _is_number(0.001, 0.999), "a share from 0.001 to 0.999", 0.3, "medium jobs' part of the rest"
            ),
            "short_s": Parameter(_is_number(0.001, 1e9), "seconds above 0", 600.0, "longest estimate of a short job"),
            "medium_s": Parameter(
                _is_number(0.001, 1e9), "seconds above 0", 10_800.0, "longest estimate of a medium job"
            ),
        },
    ),
}
BUDGETS: Mapping[str, Part] = {
    "none": Part(lambda: None, "every decision looks at all there is"),
    "counted": Part(
        lambda units: units,
        "a decision looks no further once it has cost so much; for live use",
        {
            "units": Parameter(
                _is_whole(1, 10**12),
                "a whole number from 1 to 1000000000000",
                2000,
                "work of a decision, counted: each is about a microsecond",
            )
        },
    ),
}
KINDS: Mapping[str, Mapping[str, Part]] = {
    "order": ORDERS,
    "backfill": BACKFILLS,
    "shape": SHAPES,
    "placement": PLACEMENTS,
    "matching": MATCHINGS,
    "fairness": FAIRNESS,
    "slices": SLICES,
    "budget": BUDGETS,
}


class Preset(NamedTuple):
    """A named composition."""

    text: str
    table: Table


_LOMARC: Table = {"order": "class-priority", "backfill": "easy", "shape": "nodes"}
_SCOJO: Table = {"backfill": "conservative", "shape": "nodes", "placement": "spread", "slices": "classes"}


def _groups(**search: object) -> Table:
    return {**_SCOJO, "matching": {"name": "group", **search}, "fairness": "slack"}


PRESETS: Mapping[str, Preset] = {
    "fcfs": Preset("first come, first served, no backfilling", {"backfill": "none"}),
    "easy": Preset("EASY backfilling", {"backfill": "easy"}),
    "sjbf": Preset("shortest-job-backfilled-first", {"backfill": "sjbf"}),
    "conservative": Preset("conservative backfilling with compression", {"backfill": "conservative"}),
    "lc": Preset("SJBF with LessConsume", {"backfill": "sjbf", "placement": "lessconsume"}),
    "lct": Preset("SJBF with LessConsume Threshold", {"backfill": "sjbf", "placement": "lessconsume-threshold"}),
    "rua": Preset("Resource-Usage-Aware backfilling", {"backfill": "rua", "placement": "lessconsume"}),
    "pss": Preset("space sharing by class priority", _LOMARC),
    "ac": Preset("coscheduling of whoever comes next", {**_LOMARC, "matching": "always"}),
    "am": Preset("coscheduling of neighbours in the queue", {**_LOMARC, "matching": "adjacent"}),
    "lomarc-fm": Preset("LOMARC, first match", {**_LOMARC, "matching": "first"}),
    "lomarc-u1": Preset("LOMARC, utilisation gain by time", {**_LOMARC, "matching": "u1"}),
    "lomarc-u2": Preset("LOMARC, utilisation gain", {**_LOMARC, "matching": "u2"}),
    "lomarc-r": Preset("LOMARC, response times", {**_LOMARC, "matching": "response"}),
    "lomarc-n": Preset("LOMARC on standard CPUs", {**_LOMARC, "matching": {"name": "u1", "cpu": "standard"}}),
    "ssp": Preset("space sharing in time slices", _SCOJO),
    "glts": Preset("G-LOMARC-TS: groups in time slices", _groups()),
    "cst": Preset("G-LOMARC-TS with pairs only, the best", _groups(most=1, space=False)),
    "cstws": Preset("G-LOMARC-TS with pairs only, the first", _groups(most=1, choice="first", sort=False, space=False)),
    "glts-fbo": Preset("G-LOMARC-TS within the first block", _groups(blocks="first")),
    "glts-ns": Preset("G-LOMARC-TS without sorting in blocks", _groups(sort=False)),
    "glts-nh": Preset("G-LOMARC-TS with the first suitable group", _groups(blocks="none", choice="first")),
}
ALIASES: Mapping[str, str] = {"g-lomarc-ts": "glts"}  # of presets
DEFAULTS: Table = {
    "order": "fcfs",
    "backfill": "easy",
    "shape": "threads",
    "placement": "first-fit",
    "matching": "none",
    "fairness": "none",
    "slices": "none",
    "budget": "none",
}
