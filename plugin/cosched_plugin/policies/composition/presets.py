"""Named compositions, with the papers' names, and the composition that applies where a table says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Table = Mapping[str, Any]


class Preset(NamedTuple):
    """A named composition."""

    text: str
    table: Table


_LOMARC: Table = {"order": "class-priority", "backfill": "easy", "shape": "nodes"}
_SCOJO: Table = {"backfill": "conservative", "shape": "nodes", "placement": "spread", "slices": "classes"}
_PAIRED_GANG: Table = {
    "backfill": {"name": "gang", "band": 20.0, "alternates": "band"},
    "placement": "least-loaded",
    "pairing": "predesigned",
}
_HALVES: Table = {"placement": "halves", "matching": "neighbours"}
_ONE_CONTEXT: Table = {"name": "contiguous", "contexts": 1}


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
    "ac": Preset("coscheduling with the next job, whatever it is", {**_LOMARC, "matching": "always"}),
    "am": Preset("coscheduling of neighbours in the queue", {**_LOMARC, "matching": "adjacent"}),
    "lomarc-fm": Preset("LOMARC, first match", {**_LOMARC, "matching": "first"}),
    "lomarc-u1": Preset("LOMARC, utilisation gain by time", {**_LOMARC, "matching": "u1"}),
    "lomarc-u2": Preset("LOMARC, utilisation gain", {**_LOMARC, "matching": "u2"}),
    "lomarc-r": Preset("LOMARC, response times", {**_LOMARC, "matching": "response"}),
    "lomarc-n": Preset("LOMARC on standard CPUs", {**_LOMARC, "matching": {"name": "u1", "cpu": "standard"}}),
    "ssp": Preset("space sharing in time slices", _SCOJO),
    "glts": Preset("G-LOMARC-TS: groups in time slices", _groups()),
    "cst": Preset("G-LOMARC-TS with pairs only, the best", _groups(most=1, space=False)),
    "cstws": Preset(
        "G-LOMARC-TS with pairs only, the first",
        _groups(most=1, choice="first", sort=False, space=False, fairness_tries="all"),
    ),
    "glts-fbo": Preset("G-LOMARC-TS within the first block", _groups(blocks="first")),
    "glts-ns": Preset("G-LOMARC-TS without sorting in blocks", _groups(sort=False)),
    "glts-nh": Preset(
        "G-LOMARC-TS with the first suitable group", _groups(blocks="none", choice="first", fairness_tries="all")
    ),
    "co-execution": Preset(
        "jobs on all cores of their nodes or on half of those of twice as many, by gain",
        {"order": "widest", "backfill": "by-gain", **_HALVES},
    ),
    "co-execution-easy": Preset(
        "EASY; every job on half of the cores of twice as many nodes, beside its best neighbours",
        {"backfill": "easy", **_HALVES, "placement": {"name": "halves", "compact": False, "max_slowdown": 1000.0}},
    ),
    "spread": Preset(
        "EASY; every job on half of the cores of twice as many nodes, with no job beside it",
        {"backfill": "easy", **_HALVES, "placement": {"name": "halves", "compact": False, "share": False}},
    ),
    "gang": Preset("strict gang scheduling", {"backfill": "gang", "placement": "least-loaded"}),
    "paired-gang": Preset("paired gang scheduling, partners for a round", _PAIRED_GANG),
    "paired-gang-bestfit": Preset("paired gang scheduling, the best partner", {**_PAIRED_GANG, "pairing": "best-fit"}),
    "blind": Preset(
        "two rows of a gang scheduler together, whatever they are",
        {
            "backfill": {"name": "gang", "alternates_when_unmatched": True},
            "placement": "least-loaded",
            "pairing": "blind",
        },
    ),
    "batch": Preset("space sharing: every job has its nodes to itself", {"backfill": "none"}),
    "coscheduling": Preset(
        "jobs share nodes, which coschedule their processes; contiguous nodes",
        {"backfill": "none", "placement": "contiguous"},
    ),
    "coscheduling-scattered": Preset(
        "jobs share nodes, which coschedule their processes; random nodes",
        {"backfill": "none", "placement": "scattered"},
    ),
    "batch-contiguous": Preset(
        "space sharing: one job on a node, contiguous nodes", {"backfill": "none", "placement": _ONE_CONTEXT}
    ),
    "gang-contiguous": Preset(
        "strict gang scheduling in three rows, contiguous nodes",
        {"backfill": {"name": "gang", "rows": 3}, "placement": _ONE_CONTEXT},
    ),
}
ALIASES: Mapping[str, str] = {"g-lomarc-ts": "glts"}  # of presets
DEFAULTS: Table = {
    "order": "fcfs",
    "backfill": "easy",
    "shape": "threads",
    "placement": "first-fit",
    "matching": "none",
    "pairing": "none",
    "fairness": "none",
    "slices": "none",
    "budget": "none",
}
