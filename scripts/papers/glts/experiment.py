"""The experiment of the G-LOMARC-TS reproduction: which runs there are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.papers.figures import Where
from scripts.papers.study import Size

JOBS: Final = 10_000
QUICK_JOBS: Final = 1_500
NODES: Final = 128
SEEDS: Final = 10
FEW: Final = 3  # seeds that are run first, and of a variant
RESUME_S: Final = 60.0
AARR: Final = {"W1": 10.33, "W2": 9.83}
SSP: Final = "SSP"
# By the paper's names, those with groups.
SCHEDULERS: Final = {
    "CSTWS": "cstws",
    "CST": "cst",
    "GLTS": "glts",
    "GLTS-FBO": "glts-fbo",
    "GLTS-NS": "glts-ns",
    "GLTS-NH": "glts-nh",
}
TRIES: Final = ("one", "all")  # windows that are tried while the fairness rule refuses them
BLOCK: Final = 16
BLOCKS: Final = (4, 8, 12, 16, 20, 24)
IN_BLOCKS: Final = ("GLTS", "GLTS-FBO", "GLTS-NS")
SLACK: Final = "1.5"
NONE: Final = "none"  # a slack factor that refuses nothing; responses are expected all the same
SLACKS: Final = ("1.0", "1.1", "1.25", "1.5", "2", "3", NONE)
GAP: Final = "1.0"
GAPS: Final = ("1.0", "0.95", "0.9", "0.85")
BASE: Final = "base"
EXACT: Final = "exact"
BELIEFS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    EXACT: ("all slowdowns exactly", {}),
    "selves .3": ("how much jobs slow themselves down with a relative error of up to 0.3", {"self_noise": 0.3}),
    "pairs unknown": ("of pairs the distribution of slowdowns only: it draws its own", {"pairs": "unknown"}),
}


def policy(scheduler: str, tries: str) -> str:
    """Return the name of a scheduler with groups, with so many tries."""
    return f"{scheduler}/{tries}"


def _both(*schedulers: str) -> list[str]:
    return [policy(scheduler, tries) for scheduler in schedulers for tries in TRIES]


class Variant(NamedTuple):
    """What a variant changes: scenario sections and settings of the policy; and which runs it has."""

    text: str
    policies: Sequence[str]
    workloads: Sequence[str] = tuple(AARR)
    settings: Sequence[str] = ()
    scenario: Mapping[str, Mapping[str, Any]] = {}

    @property
    def has_own_ssp(self) -> bool:
        """Tell whether space sharing runs otherwise, too."""
        return bool(self.scenario)


READINGS: Final[Mapping[str, Variant]] = {
    "low-waiting": Variant(
        "a job gets a node for each process as soon as all pending jobs would fit so, whatever runs",
        _both("GLTS"),
        settings=("matching.low_load=waiting",),
    ),
    "low-none": Variant(
        "no job gets a node for each process because the load is low",
        _both("GLTS"),
        settings=("matching.low_load=none",),
    ),
    "gain-0.9": Variant("a group has to gain 0.9 instead of 0.45", _both("GLTS"), settings=("matching.min_gain=0.9",)),
    "pairs-space": Variant(
        "a pair has to gain more than its first job would alone on all cores, as a group does",
        _both("CST", "CSTWS"),
        settings=("matching.space=true",),
    ),
    "resume-0": Variant(
        "preemption costs nothing instead of 60 s a slice",
        [SSP, *_both("GLTS")],
        scenario={"preemption": {"resume_s": 0.0}},
    ),
}
# In the order in which they are run.
VARIANTS: Final[Mapping[str, Variant]] = {
    **{
        f"block-{size}": Variant(f"blocks of {size} candidates", _both(*IN_BLOCKS), ["W2"], (f"matching.block={size}",))
        for size in BLOCKS
        if size != BLOCK
    },
    **{
        f"slack-{factor}": Variant(
            f"slack factor {factor}", _both("GLTS"), ["W1"], (f"fairness.factor={1e6 if factor == NONE else factor}",)
        )
        for factor in SLACKS
        if factor != SLACK
    },
    **{
        f"gap-{factor}": Variant(
            f"gaps between arrivals x {factor}",
            [SSP, *_both("GLTS", "CST")],
            ["W1"],
            scenario={"workload": {"gap_factor": float(factor)}},
        )
        for factor in GAPS
        if factor != GAP
    },
    **READINGS,
}
QUICK: Final = ("block-4", "block-12", "slack-1.0", f"slack-{NONE}")
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
    return {
        "title": "G-LOMARC-TS on two workloads",
        "scenario": _scenario(size.jobs),
        "workloads": [{"name": name, "workload": {"aarr": aarr}} for name, aarr in AARR.items()],
        "beliefs": [{"name": name, "belief": values} for name, (_, values) in BELIEFS.items()],
        "variants": [
            {"name": BASE},
            *({"name": name, **variant.scenario, "set": variant.settings} for name, variant in VARIANTS.items()),
        ],
        "policies": [
            {"name": SSP, "policy": "ssp"},
            *(
                {"name": policy(name, tries), "policy": preset, "set": [f"matching.fairness_tries={tries}"]}
                for name, preset in SCHEDULERS.items()
                for tries in TRIES
            ),
        ],
        "seeds": f"1-{size.seeds}",
        "runs": [*_products(size)],
        "baseline": {
            "policy": SSP,
            "runs": [{"variants": [BASE], "beliefs": [EXACT], "seeds": f"1-{min(FEW, size.seeds)}"}],
        },
        "measures": ["scripts.papers.glts.measures:figures"],
    }


def _products(size: Size) -> Iterator[dict[str, Any]]:
    """Yield the products, the most wanted first: a few seeds of the paper's experiments, of our own, then more seeds."""
    few = min(FEW, size.seeds)
    base = {"variants": [BASE], "beliefs": [EXACT]}
    for seed in range(1, few + 1):
        yield {**base, "seeds": [seed]}
    for name, variant in VARIANTS.items():
        if not size.quick or name in QUICK:
            yield {
                "variants": [name],
                "beliefs": [EXACT],
                "workloads": variant.workloads,
                "policies": variant.policies,
                "seeds": f"1-{few}",
            }
    if not size.quick:
        others = [name for name in BELIEFS if name != EXACT]
        yield {"variants": [BASE], "beliefs": others, "policies": [SSP, *_both("GLTS")], "seeds": f"1-{few}"}
    if size.seeds > few:
        yield {**base, "seeds": f"{few + 1}-{size.seeds}"}


def space_sharing(where: Where) -> Where:
    """Return the runs of SSP that some are held against: the same jobs on the same machine, under the same belief."""
    own = where.variant is not None and where.variant in VARIANTS and VARIANTS[where.variant].has_own_ssp
    return Where(where.workload, SSP, where.variant if own else None, where.belief)
