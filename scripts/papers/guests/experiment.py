"""The study of guests beside a site's own scheduler: which runs there are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.papers.guests.measures import SHARES
from scripts.papers.lomarc.experiment import AARR, EXACT
from scripts.papers.study import BASE, Product, Size, policies_of, tables_of
from scripts.papers.symbiosis.experiment import SCENARIO, named_as_measured

JOBS: Final = 8_000
QUICK_JOBS: Final = 500
QUICK_LOGS: Final = False
SEEDS: Final = 10
FIRST_SEED: Final = 4  # the least gain and the budget of guests were chosen on W2 with seeds 1 to 3, for symbiosis
FEW: Final = 3  # seeds that are run first
SHAKES: Final = 3  # runs of the baseline with shaken run times
W2: Final = "W2"
# Window of a log -> file, first job, cluster. One processor of SP2 is a node; of BLUE eight are, as they were.
LOGS: Final[Mapping[str, tuple[str, int, Mapping[str, Any]]]] = {
    "SDSC-SP2, from 30,000": ("SDSC-SP2-1998-4.2-cln.swf.gz", 30_000, {"nodes": 128, "preset": "lomarc-ht"}),
    "SDSC-SP2, from 48,000": ("SDSC-SP2-1998-4.2-cln.swf.gz", 48_000, {"nodes": 128, "preset": "lomarc-ht"}),
    "BLUE, from 60,000": ("SDSC-BLUE-2000-4.2-cln.swf.gz", 60_000, {"nodes": 144, "preset": "1x8x2"}),
}
LOG_JOBS: Final = 6_000  # of a window
# Jobs of the model, named as applications of measured co-runs, which are the truth of two seats on a core.
NAS: Final = "NAS pairs"
NAS_JOBS: Final = 4_000
NAS_LOAD: Final = 0.95
MEASURED_AFTER_S: Final = 60  # of a job beside another, where beliefs are learned
EASY: Final = "EASY"
GUESTS: Final = "guests"
OUTLASTING: Final = "guests, not inside"
ONE_HOST: Final = "guests, one host"
SMALL_BUDGET: Final = "guests, budget 10 %"
ANY_PRICE: Final = "guests, any price"
LEARNED: Final = "guests, learned"
SHORTEST: Final = "guests, shortest first"
LOMARC: Final = "L-R"
SYMBIOSIS: Final = "symbiosis"
PSS: Final = "PSS"
# fmt: off
POLICIES: Final[Mapping[str, tuple[str, Sequence[str], str]]] = {
    EASY: ("easy", ("shape=nodes",), "first come, first served, each job on nodes of its own: in the place of the site's scheduler"),
    PSS: ("pss", (), "no sharing either, in LOMARC's order of classes: what another order alone changes"),
    LOMARC: ("lomarc-r", (), "LOMARC by response, a scheduler of its own"),
    SYMBIOSIS: ("symbiosis", (), "cosched's own, the shortest first"),
    GUESTS: ("guests", (), "the add-on: guests beside running jobs, limits inside their hosts'"),
    OUTLASTING: ("guests", ("matching.inside=false",), "the same, whenever the guest's limit ends"),
    ONE_HOST: ("guests", ("matching.hosts=1",), "the same, beside one host only"),
    SMALL_BUDGET: ("guests", ("matching.budget=0.1",), "neighbours may cost a host 10 % of its estimate, not 25 %"),
    ANY_PRICE: ("guests", ("matching.budget=1000",), "no budget of hosts"),
    LEARNED: ("guests", ("belief=learned",), f"no pair is known at first; each is measured after {MEASURED_AFTER_S} s"),
    SHORTEST: ("guests", ("order=shortest",), "the same in another order than the site's: the shortest first"),
}
# fmt: on
MAIN: Final = (EASY, PSS, LOMARC, SYMBIOSIS, GUESTS, OUTLASTING, ONE_HOST)
UNKNOWN: Final = "pairs unknown"
SHUFFLED, INVERTED = "shuffled", "inverted"
WRONG: Final = (SHUFFLED, INVERTED)
OPTED: Final = {name: f"{name} opted in" for name in SHARES}
BELIEFS: Final[Mapping[str, Mapping[str, Any]]] = {  # what a scheduler knows; EASY does not care
    EXACT: {},
    **{OPTED[name]: {"workload": {"opted_in": share}} for name, share in SHARES.items()},
    SHUFFLED: {"belief": {"usage": "shuffled"}},
    INVERTED: {"belief": {"usage": "inverted"}},
    UNKNOWN: {"belief": {"pairs": "unknown"}, "monitoring": {"after_s": MEASURED_AFTER_S}},
}
USUAL: Final = {"variant": BASE, "belief": EXACT}


def experiment(size: Size, logs: Path) -> dict[str, Any]:
    """Return the table of the study. A seed draws jobs of the model, characteristics, and who opts in; of a log the latter two.

    A quick one reads neither logs nor tables of co-runs.
    """
    few = _seeds(min(FEW, size.seeds))
    return {
        "title": "Guests beside a site's own scheduler",
        "scenario": dict(SCENARIO),
        "workloads": [
            {"name": W2, "workload": {"lublin": size.jobs, "aarr": AARR[W2]}},
            *([] if size.quick else [*_windows(size, logs), _with_co_runs(size, logs)]),
        ],
        "beliefs": [{"name": name, **sections} for name, sections in BELIEFS.items()],
        "variants": [{"name": BASE}],
        "policies": policies_of(POLICIES),
        "seeds": [*_seeds(size.seeds)],
        "runs": tables_of(products(size)),
        "baseline": {
            "policy": EASY,
            "shakes": SHAKES,
            "runs": [
                Product("harm", [W2], [PSS, LOMARC, GUESTS, OUTLASTING], few, beliefs=[EXACT]).table,
                Product("harm", [W2], [GUESTS], few, beliefs=[*OPTED.values()]).table,
            ],
        },
        "measures": ["scripts.papers.symbiosis.measures:figures", "scripts.papers.guests.measures:figures"],
    }


def _windows(size: Size, logs: Path) -> Iterator[dict[str, Any]]:
    for name, (file, first, cluster) in LOGS.items():
        workload = {"swf": str(logs / file), "first": first, "jobs": min(LOG_JOBS, size.jobs)}
        yield {"name": name, "cluster": dict(cluster), "workload": workload}


def _with_co_runs(size: Size, logs: Path) -> dict[str, Any]:
    table, named = named_as_measured(logs)
    jobs = min(NAS_JOBS, size.jobs)
    return {
        "name": NAS,
        "cluster": {"nodes": 128, "preset": "1x1x2"},
        "workload": {"lublin": jobs, "aarr": AARR[W2], "load": NAS_LOAD, **named},
        "truth": {"contention": "pairs", "pairs": table},
    }


def _seeds(count: int, first: int = 0) -> range:
    return range(FIRST_SEED + first, FIRST_SEED + count)


def products(size: Size) -> Iterator[Product]:
    """Yield the products, the most wanted first: all with a few seeds, then W2 and the pairs with the rest, then the logs."""
    few = min(FEW, size.seeds)
    works = [] if size.quick else [*LOGS]
    for seeds, late in ((_seeds(few), False), (_seeds(size.seeds, few), True)):
        if seeds:
            yield from _of_work([W2], seeds)
            if works and not late:
                yield from _of_work(works, seeds)
            if works:
                yield from _of_work([NAS], seeds)
                yield Product("pairs", [NAS], [GUESTS, LEARNED], seeds, beliefs=[UNKNOWN])
            yield Product("wrong", [W2], [SMALL_BUDGET, SHORTEST], seeds, beliefs=[EXACT])
            yield Product("wrong", [W2], [GUESTS, SMALL_BUDGET, ANY_PRICE, LOMARC], seeds, beliefs=WRONG)
            if works and late:
                yield from _of_work(works, seeds)


def _of_work(works: Sequence[str], seeds: Sequence[int]) -> Iterator[Product]:
    yield Product("main", works, MAIN, seeds, beliefs=[EXACT])
    yield Product("opted in", works, [GUESTS], seeds, beliefs=[*OPTED.values()])
