"""Named compositions, with the papers' names, and the composition that applies where a table says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

Table = Mapping[str, Any]


class Preset(NamedTuple):
    """A named composition."""

    text: str
    table: Table
    source: str = ""  # where it is described


_LOMARC: Table = {"order": "class-priority", "backfill": "easy", "shape": "nodes"}
_SCOJO: Table = {"backfill": "conservative", "shape": "nodes", "placement": "spread", "slices": "classes"}
_PAIRED_GANG: Table = {
    "backfill": {"name": "gang", "band": 20.0, "alternates": "band"},
    "placement": "least-loaded",
    "pairing": "predesigned",
}
_HALVES: Table = {"placement": "halves", "matching": "neighbours"}
_SUSPENDING: Table = {
    "order": "shortest",
    "shape": "nodes",
    "matching": {"name": "guests", "mode": "express", "min_gain": 2.0, "brief_s": 0.0, "pairs": False},
}
_ONE_CONTEXT: Table = {"name": "contiguous", "contexts": 1}


def _groups(**search: object) -> Table:
    return {**_SCOJO, "matching": {"name": "group", **search}, "fairness": "slack"}


PRESETS: Mapping[str, Preset] = {
    "fcfs": Preset("first come, first served, no backfilling", {"backfill": "none"}),
    "easy": Preset("EASY backfilling", {"backfill": "easy"}, "Lifka 1995; Mu'alem and Feitelson 2001"),
    "slurm": Preset(
        "multifactor priority and one reservation, as Slurm with its defaults for depth and decay",
        {"order": "multifactor", "backfill": {"name": "easy", "depth": 500}},
        "slurm.schedmd.com/priority_multifactor.html",
    ),
    "sjbf": Preset("shortest-job-backfilled-first", {"backfill": "sjbf"}, "Tsafrir, Etsion and Feitelson 2007"),
    "conservative": Preset(
        "conservative backfilling with compression", {"backfill": "conservative"}, "Mu'alem and Feitelson 2001"
    ),
    "conservative-starts": Preset(
        "conservative backfilling; compression starts jobs, and improves no other promise",
        {"backfill": "conservative-starts"},
    ),
    "lc": Preset("SJBF with LessConsume", {"backfill": "sjbf", "placement": "lessconsume"}, "RUA paper, section 4"),
    "lct": Preset(
        "SJBF with LessConsume Threshold",
        {"backfill": "sjbf", "placement": "lessconsume-threshold"},
        "RUA paper, section 4",
    ),
    "rua": Preset(
        "Resource-Usage-Aware backfilling", {"backfill": "rua", "placement": "lessconsume"}, "RUA paper, section 5"
    ),
    "pss": Preset("space sharing by class priority", _LOMARC, "LOMARC paper, section 6"),
    "ac": Preset(
        "coscheduling with the next job, whatever it is", {**_LOMARC, "matching": "always"}, "LOMARC paper, section 6"
    ),
    "am": Preset(
        "coscheduling of neighbours in the queue", {**_LOMARC, "matching": "adjacent"}, "LOMARC paper, section 6"
    ),
    "lomarc-fm": Preset("LOMARC, first match", {**_LOMARC, "matching": "first"}, "LOMARC paper, section 6"),
    "lomarc-u1": Preset("LOMARC, utilisation gain by time", {**_LOMARC, "matching": "u1"}, "LOMARC paper, section 5.2"),
    "lomarc-u2": Preset("LOMARC, utilisation gain", {**_LOMARC, "matching": "u2"}, "LOMARC paper, section 5.2"),
    "lomarc-r": Preset("LOMARC, response times", {**_LOMARC, "matching": "response"}, "LOMARC paper, section 5.2"),
    "lomarc-n": Preset(
        "LOMARC on standard CPUs",
        {**_LOMARC, "matching": {"name": "u1", "cpu": "standard"}},
        "LOMARC paper, section 5.1",
    ),
    "easy-shortest": Preset(
        "EASY backfilling on whole nodes, shortest estimate first",
        {"order": "shortest", "backfill": "easy", "shape": "nodes"},
    ),
    "lomarc-u1-shortest": Preset(
        "LOMARC, utilisation gain by time, shortest estimate first", {**_LOMARC, "order": "shortest", "matching": "u1"}
    ),
    "symbiosis": Preset(
        "shortest first; a job may be the guest of several running ones",
        {"order": "shortest", "backfill": "easy", "shape": "nodes", "matching": "guests"},
    ),
    "guests": Preset(
        "EASY on whole nodes; a pending job may be the guest of running ones whose limits outlast its own",
        {
            "backfill": "easy",
            "shape": "nodes",
            "matching": {"name": "guests", "pairs": False, "empty_nodes": False, "inside": True},
        },
    ),
    "symbiosis-express": Preset(
        "symbiosis; short jobs may suspend others, in place or to disk",
        {"order": "shortest", "backfill": "easy", "shape": "nodes", "matching": {"name": "guests", "mode": "express"}},
    ),
    "easy-suspending": Preset(
        "EASY, shortest estimate first; short jobs may stop others, and no two share nodes",
        {**_SUSPENDING, "backfill": "easy"},
    ),
    "easy-suspending-unreserved": Preset(
        "easy-suspending without a reservation: near shortest remaining time first", {**_SUSPENDING, "backfill": "skip"}
    ),
    "ssp": Preset("space sharing in time slices", _SCOJO, "G-LOMARC-TS paper, section 5.1"),
    "glts": Preset("G-LOMARC-TS: groups in time slices", _groups(), "G-LOMARC-TS paper, section 4"),
    "cst": Preset(
        "G-LOMARC-TS with pairs only, the best", _groups(most=1, space=False), "G-LOMARC-TS paper, section 5.1"
    ),
    "cstws": Preset(
        "G-LOMARC-TS with pairs only, the first",
        _groups(most=1, choice="first", sort=False, space=False),
        "G-LOMARC-TS paper, section 5.1",
    ),
    "glts-fbo": Preset("G-LOMARC-TS within the first block", _groups(blocks="first"), "G-LOMARC-TS paper, section 5.1"),
    "glts-ns": Preset("G-LOMARC-TS without sorting in blocks", _groups(sort=False), "G-LOMARC-TS paper, section 5.1"),
    "glts-nh": Preset(
        "G-LOMARC-TS with the first suitable group",
        _groups(blocks="none", choice="first"),
        "G-LOMARC-TS paper, section 5.1",
    ),
    "co-execution": Preset(
        "jobs on all cores of their nodes or on half of those of twice as many, by gain",
        {"order": "widest", "backfill": "by-gain", **_HALVES},
    ),
    "co-execution-easy": Preset(
        "EASY; every job on half of the cores of twice as many nodes, beside its best neighbours",
        {"backfill": "easy", **_HALVES, "placement": {"name": "halves", "compact": False, "max_slowdown": 1000.0}},
        "ELiSE (JSSPP 2025)",
    ),
    "co-execution-shortest": Preset(
        "co-execution, shortest estimate first", {"order": "shortest", "backfill": "by-gain", **_HALVES}
    ),
    "spread": Preset(
        "EASY; every job on half of the cores of twice as many nodes, with no job beside it",
        {"backfill": "easy", **_HALVES, "placement": {"name": "halves", "compact": False, "share": False}},
    ),
    "gang": Preset(
        "strict gang scheduling",
        {"backfill": "gang", "placement": "least-loaded"},
        "paired gang paper, sections 2.1 and 2.6",
    ),
    "paired-gang": Preset(
        "paired gang scheduling, partners for a round", _PAIRED_GANG, "paired gang paper, section 2.4, figure 4"
    ),
    "paired-gang-bestfit": Preset(
        "paired gang scheduling, the best partner",
        {**_PAIRED_GANG, "pairing": "best-fit"},
        "paired gang paper, section 2.4",
    ),
    "blind": Preset(
        "two rows of a gang scheduler together, whatever they are",
        {
            "backfill": {"name": "gang", "alternates_when_unmatched": True},
            "placement": "least-loaded",
            "pairing": "blind",
        },
    ),
    "batch": Preset("space sharing: every job has its nodes to itself", {"backfill": "none", "shape": "nodes"}),
    "coscheduling": Preset(
        "jobs share nodes, which coschedule their processes; contiguous nodes",
        {"backfill": "none", "placement": "contiguous"},
        "coscheduling paper, PACKING",
    ),
    "coscheduling-scattered": Preset(
        "jobs share nodes, which coschedule their processes; random nodes",
        {"backfill": "none", "placement": "scattered"},
        "coscheduling paper, NO PACKING",
    ),
    "batch-contiguous": Preset(
        "space sharing: one job on a node, contiguous nodes",
        {"backfill": "none", "placement": _ONE_CONTEXT},
        "coscheduling paper, BATCH",
    ),
    "gang-contiguous": Preset(
        "strict gang scheduling in three rows, contiguous nodes",
        {"backfill": {"name": "gang", "rows": 3}, "placement": _ONE_CONTEXT},
        "coscheduling paper, GANG",
    ),
}
ALIASES: Mapping[str, str] = {"g-lomarc-ts": "glts", "symbiosis-halves": "co-execution-shortest"}  # of presets
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
    "belief": "given",
    "ledger": "none",
}
# Kinds that a full table leaves out where there is no such part: records of runs that are older than the kind stay valid.
LEFT_OUT: Final = ("pairing", "belief", "ledger")

# Compositions of these parts are known to work, and none has a setting: a run in which counting decides makes none of them.
_PLAIN: Final = {"order": ("fcfs", "shortest"), "backfill": ("none", "easy", "sjbf"), "shape": ("threads", "nodes")}


def plain_table(table: Table) -> dict[str, dict[str, Any]] | None:
    """Return the full table of a composition of such parts, as `resolved.resolve` would; None: it has others, or names no part."""
    preset = table.get("preset")
    base = {} if preset is None else PRESETS[preset].table if isinstance(preset, str) and preset in PRESETS else None
    if base is None or any(key != "preset" and key not in _PLAIN for key in (*table, *base)):
        return None
    names = {**DEFAULTS, **base, **table}
    if not all(isinstance(names[kind], str) and names[kind] in known for kind, known in _PLAIN.items()):
        return None
    full = {kind: {"name": names[kind]} for kind in DEFAULTS if kind not in LEFT_OUT}
    return {**full, "placement": {"name": DEFAULTS["placement"], "extend_limit": False}}
