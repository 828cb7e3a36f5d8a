"""The experiment of the G-LOMARC-TS reproduction: which runs there are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.papers.figures import Where
from scripts.papers.study import BASE, Product, Size, Variant, beliefs_of, policies_of, tables_of, variants_of

JOBS: Final = 10_000
QUICK_JOBS: Final = 1_500
NODES: Final = 128
SEEDS: Final = 10
FEW: Final = 3  # seeds that are run first, and of a variant
HARM_SEEDS: Final = (4, 5)  # first and last of which jobs are compared with those of nine shaken runs of SSP, at W1
RESUME_S: Final = 60.0
AARR: Final = {"W1": 10.33, "W2": 9.83}
SSP: Final = "SSP"
# By the paper's names, those with groups. All try every window while the fairness rule refuses them, as step 6 of the paper.
SCHEDULERS: Final = {
    "CSTWS": "cstws",
    "CST": "cst",
    "GLTS": "glts",
    "GLTS-FBO": "glts-fbo",
    "GLTS-NS": "glts-ns",
    "GLTS-NH": "glts-nh",
}
GLTS: Final = "GLTS"
ONE: Final = "GLTS/one"  # the groups of the best window alone
BASES: Final = (SSP, *SCHEDULERS, ONE)
# Plain space sharing of the same jobs, one after the other on the same nodes: what Scojo-PECT is said to improve on.
EASY: Final = "EASY"
PRIORITIES: Final = "EASY, priorities"
_PLAIN: Final = ("slices=none", "backfill=easy", "shape=nodes")
PLAIN: Final[Mapping[str, Sequence[str]]] = {
    EASY: _PLAIN,
    PRIORITIES: (*_PLAIN, "order=class-priority", "order.age_s=1e9"),  # short before medium before long jobs, for good
}
BLOCK: Final = 16
BLOCKS: Final = (4, 8, 12, 16, 20, 24)
IN_BLOCKS: Final = (GLTS, "GLTS-FBO", "GLTS-NS")
SLACK: Final = "1.5"
NONE: Final = "none"  # a slack factor that refuses nothing; responses are expected all the same
SLACKS: Final = ("1.0", "1.1", "1.25", "1.5", "2", "3", NONE)
GAP: Final = "1.0"
GAPS: Final = ("1.0", "0.95", "0.9", "0.85")
ORIGINAL: Final = "original"
BY_DELAY: Final = "by-delay"
ABSOLUTE: Final = "absolute-gain"
MEMBERS: Final = "members-held"
EXACT: Final = "exact"
BELIEFS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    EXACT: ("all slowdowns exactly", {}),
    "selves .3": ("how much jobs slow themselves down with a relative error of up to 0.3", {"self_noise": 0.3}),
    "pairs unknown": ("of pairs the distribution of slowdowns only: it draws its own", {"pairs": "unknown"}),
}

BOTH: Final = tuple(AARR)


def _set(text: str, stage: str, policies: Sequence[str], *settings: str, works: Sequence[str] = BOTH) -> Variant:
    return Variant(text, {}, settings, works, policies, stage=stage)


# fmt: off
ORDERS: Final[Mapping[str, Variant]] = {
    BY_DELAY: _set("of the running candidates of a block the least delayed come first, not those with most left (footnote 1)", "orders",
        [GLTS], "matching.sort_running=false", works=["W1"]),
    ABSOLUTE: _set("groups are ranked by the node time that they save, not by its share of what they hold (section 4.6)", "orders",
        [GLTS], "matching.absolute=true", works=["W1"]),
}
READINGS: Final[Mapping[str, Variant]] = {
    "low-waiting": _set("a job gets a node for each process as soon as all pending jobs would fit so, whatever runs", "readings",
        [GLTS], "matching.low_load=waiting"),
    "low-none": _set("no job gets a node for each process because the load is low", "readings", [GLTS], "matching.low_load=none"),
    "gain-0.9": _set("a group has to gain 0.9 instead of 0.45", "readings", [GLTS], "matching.min_gain=0.9"),
    "pairs-space": _set("a pair has to gain more than its first job would alone on all cores, as a group does", "readings",
        ["CST", "CSTWS"], "matching.space=true"),
    "pairs-half": _set('no job of a pair scheduler gets all cores of its nodes ("only coscheduling"), unless they run it no slower than'
        " one", "readings", ["CST", "CSTWS"], "placement.max_slowdown=1", works=["W1"]),
    MEMBERS: _set("the fairness rule protects the jobs of a group, too", "members", [GLTS], "fairness.members=true"),
    "resume-0": Variant("preemption costs nothing instead of 60 s a slice", {"preemption": {"resume_s": 0.0}}, (), BOTH, [SSP, GLTS],
        stage="readings"),
}
VARIANTS: Final[Mapping[str, Variant]] = {
    ORIGINAL: Variant("jobs as the model draws them, on nodes with one core",
        {"cluster": {"preset": "single"}, "workload": {"grow": False, "lublin_size": "nodes"}}, (), ["W1"], [SSP], stage="space"),
    **{f"slack-{factor}": _set(f"slack factor {factor}", "slack", [GLTS], f"fairness.factor={1e6 if factor == NONE else factor}",
        works=["W1"]) for factor in SLACKS if factor != SLACK},
    **ORDERS,
    **{f"block-{size}": _set(f"blocks of {size} candidates", "blocks", IN_BLOCKS, f"matching.block={size}", works=["W2"])
        for size in BLOCKS if size != BLOCK},
    **READINGS,
    **{f"gap-{factor}": Variant(f"gaps between arrivals x {factor}", {"workload": {"gap_factor": float(factor)}}, (), ["W1"],
        [SSP, GLTS, "CST"], stage="loads") for factor in GAPS if factor != GAP},
}
# fmt: on
QUICK: Final = (ORIGINAL, "block-4", "block-12", "slack-1.0", f"slack-{NONE}", BY_DELAY)
# What is run, in this order; the number of seeds.
STAGES: Final = {
    "base": FEW,
    "space": SEEDS,
    "slack": SEEDS,
    "orders": SEEDS,
    "blocks": SEEDS,
    "more": SEEDS,  # seeds of the base
    "members": SEEDS,
    "readings": FEW,
    "loads": FEW,
    "knowledge": FEW,
}
USUAL: Final = {"variant": BASE, "belief": EXACT}


def scenario_of(workload: str, jobs: int) -> dict[str, Any]:
    """Return the scenario of the first seed of a workload, with so many jobs."""
    scenario = _scenario(jobs)
    return {**scenario, "seed": 1, "workload": {**scenario["workload"], "aarr": AARR[workload]}}


def _scenario(jobs: int) -> dict[str, Any]:
    """Return what all runs have in common."""
    return {
        "cluster": {"nodes": NODES, "preset": "g-lomarc-2x2"},
        "workload": {"lublin": jobs, "self_slowdowns": "table4", "grow": True},
        "truth": {"contention": "statistical"},
        "preemption": {"resume_s": RESUME_S},
    }


def experiment(size: Size, _logs: Path | None = None) -> dict[str, Any]:
    """Return the table of the study. A seed draws jobs, their own slowdowns and those of pairs."""
    compared = [min(seed, size.seeds) for seed in HARM_SEEDS]
    return {
        "title": "G-LOMARC-TS on two workloads",
        "scenario": _scenario(size.jobs),
        "workloads": [{"name": name, "workload": {"aarr": aarr}} for name, aarr in AARR.items()],
        "beliefs": beliefs_of(BELIEFS),
        "variants": variants_of(VARIANTS),
        "policies": policies_of(
            {
                **{name: (preset, ()) for name, preset in {SSP: "ssp", **SCHEDULERS}.items()},
                ONE: ("glts", ["matching.fairness_tries=one"]),
                **{name: ("ssp", settings) for name, settings in PLAIN.items()},
            }
        ),
        "seeds": f"1-{size.seeds}",
        "runs": tables_of(products(size)),
        "baseline": {
            "policy": SSP,
            "runs": [Product("harm", ["W1"], BASES, range(compared[0], compared[1] + 1), beliefs=[EXACT]).table],
        },
        "measures": ["scripts.papers.glts.measures:figures"],
    }


def products(size: Size) -> Iterator[Product]:
    """Yield the products, seed by seed in each stage."""
    for stage, count in STAGES.items():
        first = FEW + 1 if stage == "more" else 1
        for seed in range(first, min(count, size.seeds) + 1):
            for product in _of_stage(stage, size):
                yield product._replace(seeds=[seed])


def _of_stage(stage: str, size: Size) -> Iterator[Product]:
    """Yield the products of a stage, without seeds."""
    if stage in ("base", "more"):
        yield Product(stage, (), BASES, beliefs=[EXACT])
    elif stage == "space":
        yield Product(stage, ["W1"], [*PLAIN], beliefs=[EXACT])
    elif stage == "knowledge" and not size.quick:
        yield Product(stage, (), [SSP, GLTS], beliefs=[name for name in BELIEFS if name != EXACT])
    for name, variant in VARIANTS.items():
        if variant.stage == stage and (not size.quick or name in QUICK):
            yield Product(stage, variant.workloads, variant.policies, (), [name], [EXACT])


def space_sharing(where: Where) -> Where:
    """Return the runs of SSP that some are held against: the same jobs on the same machine, under the same belief."""
    own = where.variant is not None and where.variant in VARIANTS and bool(VARIANTS[where.variant].scenario)
    return Where(where.workload, SSP, where.variant if own else None, where.belief)
