"""The study of GPUs that two jobs may share: which runs there are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from scripts.papers.hardware.co_runs import folder_of, lasting, read, there
from scripts.papers.lomarc.experiment import EXACT
from scripts.papers.rua.experiment import WINDOWS, in_window
from scripts.papers.study import BASE, Product, Size, policies_of, tables_of
from scripts.papers.symbiosis import experiment as symbiosis

JOBS: Final = 3_000
QUICK_JOBS: Final = 200
SEEDS: Final = 10
FIRST_SEED: Final = 5  # with 1 to 3 symbiosis was mended, and 4 was looked at
FEW: Final = 3  # seeds of what explains
SHAKES: Final = 3
VARIANTS_TRIED: Final = 9  # settings of symbiosis
GPUS: Final = 128
SOURCE: Final = "the measurements published with Gavel (OSDI 2020, https://github.com/stanford-futuredata/gavel)"
# Jobs as Gavel's generator draws them, from Microsoft's Philly log (`scheduler/utils.py`, `_generate_scale_factor` and
# `_generate_duration`): GPUs of a job, and minutes, 10 to the power of x, x uniform between two bounds.
SIZES: Final = {1: 0.7, 2: 0.1, 4: 0.15, 8: 0.05}
POWERS: Final = {(1.5, 3.0): 0.8, (3.0, 4.0): 0.2}
LOAD: Final = 0.95
V100: Final = "V100"
TYPES: Final = (V100, "P100", "K80")
MIX: Final = [f"{gpu}, Philly" for gpu in TYPES]
SHORT: Final = [f"{gpu}, short" for gpu in TYPES]  # on which beliefs are corrected
SHORT_JOBS: Final = 600
WORKS: Final = (*TYPES, *MIX)
MEASURED_AFTER_S: Final = 60  # of a job beside another, where beliefs are learned or corrected
EASY, EASY_SHORTEST, PSS = symbiosis.EASY, symbiosis.EASY_SHORTEST, symbiosis.PSS
U1_SHORTEST, SYMBIOSIS, GUESTS = symbiosis.U1_SHORTEST, symbiosis.SYMBIOSIS, "guests"
CORRECTED, UNSHARED = symbiosis.CORRECTED, symbiosis.UNSHARED
LOMARC: Final = "L-R"
FOR_CORES: Final = f"{SYMBIOSIS}, for cores"
LEARNED: Final = "learned"
# fmt: off
POLICIES: Final[Mapping[str, tuple[str, Sequence[str], str]]] = {
    EASY_SHORTEST: ("easy-shortest", (), "the fair baseline: every job on GPUs of its own, shortest estimate first"),
    EASY: ("easy", ("shape=nodes",), "the same, first come, first served: the baseline of guests"),
    PSS: ("pss", (), "L-R without sharing"),
    "L-R": ("lomarc-r", (), "LOMARC by response"),
    U1_SHORTEST: ("lomarc-u1-shortest", (), "LOMARC by utilisation gain, shortest estimate first"),
    SYMBIOSIS: ("symbiosis", (), "cosched's own"),
    FOR_CORES: ("symbiosis", ("matching.budget=0.0625", "matching.min_gain=1"), "with budget and least gain that it has on cores"),
    GUESTS: ("guests", (), "guests beside running jobs, in the order of submission"),
    **{f"{name}, {LEARNED}": (preset, ("belief=learned",), f"no pair is known at first; each is measured after {MEASURED_AFTER_S} s")
        for name, preset in ((U1_SHORTEST, "lomarc-u1-shortest"), (SYMBIOSIS, "symbiosis"), (GUESTS, "guests"))},
    **symbiosis.CORRECTING,
}
# fmt: on
COMPARED: Final = (EASY_SHORTEST, U1_SHORTEST, SYMBIOSIS)
MAIN: Final = (*COMPARED, LOMARC, EASY, GUESTS)
SHARING: Final = (LOMARC, U1_SHORTEST, SYMBIOSIS, GUESTS)
LEARNING: Final = (U1_SHORTEST, SYMBIOSIS, GUESTS)
NOISE, SHUFFLED, INVERTED, UNKNOWN = "noise .3", "shuffled", "inverted", "pairs unknown"
WRONG: Final = (SHUFFLED, INVERTED)
BELIEVED: Final = (EXACT, NOISE, *WRONG, UNKNOWN)
USUAL: Final = {"variant": BASE, "belief": EXACT}


def believed(gpu: str, belief: str) -> str:
    """Return the name of what the scheduler knows, of a type of GPU: a table that is wrong on purpose is that of one type."""
    return f"{belief}, {gpu}" if belief in WRONG else belief


def experiment(size: Size, logs: Path) -> dict[str, Any]:
    """Return the table of the study; it needs tables of co-runs. A seed draws jobs of the model, and what they run."""
    tables = {gpu: there(folder_of(logs) / f"gpu-pairs-{gpu.lower()}.csv", SOURCE) for gpu in TYPES}
    wrong = [(believed(gpu, how), wrong_table(tables[gpu], how)) for gpu in TYPES for how in WRONG]
    monitoring = {"after_s": MEASURED_AFTER_S, "above": 0.0}
    return {
        "title": "GPUs that two jobs may share",
        "scenario": {
            "cluster": {"nodes": GPUS, "preset": "1x1x2", "same_nodes": True},
            "truth": {"contention": "pairs"},
        },
        "workloads": [*_workloads(size, tables, monitoring)],
        "beliefs": [
            {"name": EXACT},
            {"name": NOISE, "belief": {"pair_noise": 0.3}},
            *({"name": name, "belief": {"pair_table": table}} for name, table in wrong),
            {"name": UNKNOWN, "belief": {"pairs": "unknown"}, "monitoring": monitoring},
        ],
        "variants": [{"name": BASE}],
        "policies": policies_of(POLICIES),
        "seeds": [*_seeds(size.seeds)],
        "runs": tables_of(products(size)),
        "baseline": {
            "policy": EASY_SHORTEST,
            "shakes": SHAKES,
            "runs": [Product("harm", TYPES[:1], COMPARED[1:], _seeds(min(FEW, size.seeds)), beliefs=[EXACT]).table],
        },
        "measures": ["scripts.papers.symbiosis.measures:figures"],
    }


def _workloads(size: Size, tables: Mapping[str, Path], monitoring: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    mix = _philly(size.jobs)
    for gpu, table in tables.items():
        truth = {"pairs": str(table)}
        model = {"lublin_size": "nodes", "applications": str(table)}
        yield {"name": gpu, "truth": truth, "workload": {"lublin": size.jobs, **model}}
        short = {"lublin": min(SHORT_JOBS, size.jobs), **model}
        yield {"name": f"{gpu}, short", "truth": truth, "workload": short, "monitoring": dict(monitoring)}
        for window in WINDOWS:
            first = {"swf": mix, "first": (window - 1) * size.jobs, "jobs": size.jobs, "applications": str(table)}
            bounds = {"load": LOAD, "limits": "none"}
            yield {"name": in_window(f"{gpu}, Philly", window), "truth": truth, "workload": first | bounds}


def wrong_table(table: Path, how: str) -> str:
    """Return a file with ratios that are wrong on purpose: of the pairs of other applications, drawn, or the reverse by rank."""
    found = read(table)
    if how == SHUFFLED:
        other = dict(
            zip(found.applications, np.random.default_rng(0).permutation(found.applications).tolist(), strict=True)
        )
        ratios = {pair: found.ratios.get((other[pair[0]], other[pair[1]])) for pair in found.ratios}
    else:
        ranked = sorted(found.ratios, key=lambda pair: (found.ratios[pair], pair))
        ratios = {pair: found.ratios[mirrored] for pair, mirrored in zip(ranked, reversed(ranked), strict=True)}
    lines = [f"{one},{other},{ratio!r}" for (one, other), ratio in ratios.items() if ratio is not None]
    return lasting(f"{table.stem}-{how}.csv", "\n".join(["row,column,ratio", *lines, ""]))


def _philly(jobs: int) -> str:
    """Return a file with the jobs of all windows, as Gavel's generator draws them; gaps between arrivals are exponential."""
    draw, count = np.random.default_rng(0), jobs * len(WINDOWS)
    gpus = draw.choice([*SIZES], count, p=[*SIZES.values()])
    low, high = np.array([*POWERS])[draw.choice(len(POWERS), count, p=[*POWERS.values()])].T
    run_s = np.rint(60 * 10 ** draw.uniform(low, high)).astype(int)
    submit_s = np.rint(draw.exponential(600.0, count).cumsum()).astype(int)
    rows = zip(range(1, count + 1), submit_s.tolist(), run_s.tolist(), gpus.tolist(), strict=True)
    text = [f"{job} {at} -1 {run} {n} -1 -1 {n} {run} -1 1 1 1 1 1 -1 -1 -1" for job, at, run, n in rows]
    return lasting(f"philly-{count}.swf", "\n".join([f"; MaxProcs: {GPUS}", *text, ""]))


def _seeds(count: int, first: int = 0) -> range:
    return range(FIRST_SEED + first, FIRST_SEED + count)


def products(size: Size) -> Iterator[Product]:
    """Yield the products, the most wanted first."""
    few, rest = _seeds(min(FEW, size.seeds)), _seeds(size.seeds, FEW)
    philly = [[in_window(name, window) for window in WINDOWS] for name in MIX]
    yield Product("V100", [V100], COMPARED, few, beliefs=[EXACT])
    yield Product("others", TYPES[1:], COMPARED, few, beliefs=[EXACT])
    if rest:
        yield Product("V100", [V100], COMPARED, rest, beliefs=[EXACT])
    yield Product("Philly", philly[0], COMPARED, few[:1], beliefs=[EXACT])
    yield Product("V100", [V100], [FOR_CORES, LOMARC, EASY, GUESTS], few, beliefs=[EXACT])
    yield Product(LEARNED, [V100], [f"{name}, {LEARNED}" for name in LEARNING], few, beliefs=[UNKNOWN])
    for gpu, work in zip(TYPES, SHORT, strict=True):
        yield Product(CORRECTED, [work], [PSS, EASY_SHORTEST, *UNSHARED], few[:2], beliefs=[EXACT])
        told = [believed(gpu, belief) for belief in BELIEVED]
        yield Product(CORRECTED, [work], [f"{name}, {CORRECTED}" for name in UNSHARED], few[:2], beliefs=told)
    yield Product("rest", [work for part in philly[1:] for work in part], COMPARED, few[:1], beliefs=[EXACT])
    yield Product("rest", [work for part in philly for work in part], [LOMARC, EASY, GUESTS], few[:1], beliefs=[EXACT])
    yield Product("rest", TYPES[1:], [LOMARC, EASY, GUESTS], few, beliefs=[EXACT])
    if rest:
        yield Product("rest", TYPES[1:], COMPARED, rest, beliefs=[EXACT])
        yield Product("rest", [V100], [LOMARC, EASY, GUESTS], rest, beliefs=[EXACT])
