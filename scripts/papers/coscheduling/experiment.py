"""The experiment of the coscheduling reproduction: which runs there are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.papers.study import BASE, Product, Size, Variant, tables_of, variants_of

from cosched_emulator.workload.nas import NODE_MB, TABLE_2

# How the processes of several jobs share a CPU, as the paper names it.
NLS: Final = "NLS"
PB: Final = "PB"
DCS: Final = "DCS"
CC: Final = "CC"
SB: Final = "SB"
HYBRID: Final = "HYBRID"
GANG: Final = "GANG"
BATCH: Final = "BATCH"
SPINNING: Final = (PB, DCS, NLS)
BLOCKING: Final = (HYBRID, SB, CC)
DRIVEN: Final = (NLS, PB, DCS, CC, SB, HYBRID)  # by communication; in the order of tables 3 and 4
STRICT_POLICIES: Final = (NLS, PB, SB, HYBRID)  # that run with a strict queue, too
POLICIES: Final = (*DRIVEN, GANG, BATCH)
CC_SB: Final = "CC/SB"  # one row of the paper's tables

PACKED: Final = "P"
SCATTERED: Final = "NP"
PLACEMENTS: Final = (PACKED, SCATTERED)

STRICT: Final = "strict"  # no job starts before an earlier one
SKIP: Final = "skip"  # each job that fits starts, in order of submission
EASY: Final = "EASY"
QUEUES: Final = (STRICT, SKIP, EASY)


def cell(policy: str, queue: str, placement: str = PACKED) -> str:
    """Return the name of a policy with a queue and a placement: ``HYBRID P skip``; gang and batch have one placement."""
    return f"{policy} {queue}" if policy in (GANG, BATCH) else f"{policy} {placement} {queue}"


class Reading(NamedTuple):
    """Which queue each policy has in a comparison: the paper does not say (G4, G5)."""

    name: str
    driven: str  # of communication-driven policies
    gang: str
    batch: str

    def of(self, policy: str, placement: str = PACKED) -> str:
        """Return the name of a policy's cell."""
        queue = {GANG: self.gang, BATCH: self.batch}.get(policy, self.driven)
        return cell(policy, queue, placement)


MIXED: Final = Reading("skip, BATCH strict", SKIP, SKIP, STRICT)
ALL_STRICT: Final = Reading("all strict", STRICT, STRICT, STRICT)
ALL_SKIP: Final = Reading("all skip", SKIP, SKIP, SKIP)
READINGS: Final = (MIXED, ALL_STRICT, ALL_SKIP)

# ---------------------------------------------------------------- workloads

CLASSES: Final = ("A", "B", "C")
PROGRAMS: Final = ("CG", "IS", "SP", "MG", "BT", "LU", "EP")
HIGH: Final = "X1"  # 100 jobs, gaps of 100 s
LIGHT: Final = "X2"  # the same, 250 s
LONG: Final = "X3"  # BlockSolve95, sPPM, LU
AWARE: Final = "X6 aware"
UNAWARE: Final = "X6 not aware"
AWARE_100: Final = "X6 aware, 100 jobs"
FULL: Final = "full nodes"  # fixed configurations
WIDE: Final = "X1, 64 nodes"
USELESS: Final = "X1, estimates of a day"
FEWER: Final = (20, 50)  # numbers of jobs of X1 with fewer of them (E8)

# Names of experiments: X4 for a class of programs, X5 for a program, X1 with fewer jobs.
of_class: Final = "X4 {}".format
copies: Final = "X5 {}".format
fewer: Final = "X1, {} jobs".format

# ---------------------------------------------------------------- variants

SPINS_MS: Final = (0.1, 5.0, 20.0)  # beside 1
SCANS_MS: Final = (10, 200)  # beside 50
REFILLS_US: Final = (0, 1000, 2000)  # beside 300
BOOSTS: Final = {"none": "nowhere", "all": "in all communication"}  # beside collectives
JITTERS: Final = (0.035, 0.35)  # beside 0.17; standard deviations of 2 and 20 %
GRAINS: Final = ("1/8", "1/3", "3")  # beside 1
EPOCHS: Final = (3, 20)  # ticks, beside 6

boost: Final = "boost {}".format  # name of a variant with another boost of HYBRID
NO_RENDEZVOUS: Final = "no rendezvous"
NO_DAEMONS: Final = "no daemons"
SPIN_WATTS: Final = "24 W while spinning"
LONG_WINDOWS: Final = "windows of 120 s"
IGNORE_COUNTERS: Final = "PB ignores counters"

# ---------------------------------------------------------------- columns of the study

RESPONSE: Final = "all_response_s_mean"
WAIT: Final = "all_wait_s_mean"
EXECUTION: Final = "execution_s_mean"
WAIT_SHARE: Final = "wait_share"  # mean wait over mean response
WAIT_RATIO: Final = "wait_per_execution"  # mean wait over mean execution
RUN: Final = "makespan_s"  # T: from the first submission to the last end
BUSY: Final = "busy_node_s"  # time for which CPUs were busy, polling included
UTILISATION: Final = "busy_share"  # U: of nodes x T
RESIDENTS: Final = "residents_mean"  # on nodes that have any
RESIDENTS_MOST: Final = "residents_most"
MEMORY_MOST: Final = "memory_most_mb"  # needed by the processes of a node at one time
LOAD: Final = "offered_load"
SPUN: Final = "spun_share"  # of the CPU time of jobs
SWITCHES: Final = "switches_per_cpu_s"
INTERRUPTS: Final = "interrupts_per_s"  # a node
SWAPPED: Final = "swapped_mb_per_cpu_s"
DELAY: Final = "wake_delay_us"  # from a message's arrival to its process running again
STRETCH: Final = "execution_over_alone"  # of three copies: over three times the time alone
THROUGHPUT: Final = "throughput"  # of full nodes: work done over nodes x time, alone = 1
ENERGY: Final = "energy_total_j"
ENERGY_BUSY: Final = "energy_busy_j"
ENERGY_IDLE: Final = "energy_idle_j"
ENERGY_FORMULA: Final = "energy_formula_j"
ENERGY_OFF: Final = "energy_off_j"  # with nodes off while no job is on them
MJ: Final = 1e-6  # in J

EXPERIMENTS: Final[Mapping[str, str]] = {
    HIGH: "NAS jobs, mean gap 100 s",
    LIGHT: "NAS jobs, mean gap 250 s",
    LONG: "jobs of BlockSolve95, sPPM and LU, mean gap 500 s",
    **{of_class(name): f"NAS jobs of class {name}, mean gap 100 s" for name in CLASSES},
    **{copies(name): f"three copies of {name} C on 16 nodes, started together" for name in PROGRAMS},
    AWARE: "jobs of table 2, mean gap 100 s, the scheduler knows their memory",
    UNAWARE: "the same jobs, the scheduler does not know their memory",
    AWARE_100: "100 jobs of table 2, mean gap 100 s, the scheduler knows their memory",
    FULL: "class C jobs at once on all nodes, 160 s, fixed places, every message simulated",
    WIDE: "400 NAS jobs on 64 nodes, mean gap 25 s",
    USELESS: "the jobs of X1, all estimated at a day",
    **{fewer(jobs): f"{jobs} NAS jobs, mean gap 100 s" for jobs in FEWER},
}

SPIN_W: Final = 24.0  # watts that the tables imply for policies that only spin (E12)
MILLISECOND_US: Final = 1000
TICK_MS: Final = 10


def _nodes(**changes: Any) -> Mapping[str, Mapping[str, Any]]:
    return {"time_sharing": changes}


def _policy(**parameters: Any) -> Mapping[str, Mapping[str, Any]]:
    return _nodes(coscheduling_parameters=parameters)


def _full(text: str, policies: Sequence[str], scenario: Mapping[str, Mapping[str, Any]]) -> Variant:
    return Variant(text, scenario, (), [FULL], policies)


# fmt: off
VARIANTS: Final[Mapping[str, Variant]] = {
    **{f"spin {time:g} ms": _full(f"SB and CC spin for {time:g} ms instead of 1", (SB, CC), _policy(spin_us=round(time * 1000)))
        for time in SPINS_MS},
    **{f"scan {time} ms": _full(f"PB looks every {time} ms instead of 50", (PB,), _policy(interval_us=time * MILLISECOND_US))
        for time in SCANS_MS},
    **{boost(what): _full(f"HYBRID boosts {where} instead of in collectives", (HYBRID,), _policy(boost=what))
        for what, where in BOOSTS.items()},
    IGNORE_COUNTERS: _full("a boost of PB lasts when the process's counter is 0, as priorities of Solaris allow", (PB,),
        _policy(ignore_counters=True)),
    NO_RENDEZVOUS: _full("messages of any size are sent at once", DRIVEN, _nodes(rendezvous_bytes=0)),
    NO_DAEMONS: _full("no daemons on the nodes", DRIVEN, _nodes(daemon_us=0)),
    **{f"refill {time / 1000:g} ms": _full(f"a switch costs {time / 1000:g} ms instead of 0.3", DRIVEN, _nodes(refill_us=time))
        for time in REFILLS_US},
    **{f"noise {share:.2g}": _full(f"bursts vary by up to {share:.0%} instead of 17 %", DRIVEN, {"workload": {"jitter": share}})
        for share in JITTERS},
    **{f"grain {times}": _full(f"grain {times}: bursts and messages {times} times as large, and fewer or more", DRIVEN,
        {"workload": {"grain": round(float(Fraction(times)), 9)}}) for times in GRAINS},
    **{f"epochs of {ticks} ticks": _full(f"an epoch gives a process {ticks * TICK_MS} ms instead of 60", DRIVEN,
        _nodes(epoch_ticks=ticks)) for ticks in EPOCHS},
    SPIN_WATTS: Variant(f"a spinning CPU takes {SPIN_W:g} W more than an idle one", {"cluster": {"spin_w": SPIN_W}}, (), [HIGH],
        DRIVEN),
    LONG_WINDOWS: Variant("nodes are simulated for up to 120 s after each change instead of 30", _nodes(window_max_s=120.0), (), [HIGH],
        DRIVEN),
}
# fmt: on
OF_FULL: Final = {name: each for name, each in VARIANTS.items() if FULL in each.workloads}
OF_HIGH: Final = {name: each for name, each in VARIANTS.items() if HIGH in each.workloads}

NODES: Final = 16
IDLE_W: Final = 219.10  # of a node
BUSY_W: Final = 18.968  # more of a busy one, line 318; 18.839 in line 283 (G1)
JOBS: Final = 100
QUICK_JOBS: Final = 16
QUICK_WINDOW_S: Final = 15.0  # at most, instead of the usual time, for which nodes are simulated after a change
SEEDS: Final = 20
FEW: Final = 5  # seeds of run and execution times
FULL_SEEDS: Final = 20  # configurations of full nodes
SWEEP_SEEDS: Final = 6  # configurations of the sensitivity experiments
WIDE_SEEDS: Final = 3
SMALL: Final = 20  # jobs of X3, X4 and X6
COPIES: Final = 3
FULL_JOBS: Final = 12
FULL_S: Final = 160.0  # simulated of full nodes
QUICK_FULL_S: Final = 30.0
NAMES: Final[Mapping[str, str]] = {name: name.lower() for name in DRIVEN}
WIDER: Final = 4  # times as many nodes and jobs
# Programs of class C that last longer than full nodes are simulated, also on 16 nodes with a third of the CPU.
LASTING: Final = ("CG.C", "SP.C", "MG.C", "BT.C", "LU.C")
USUAL: Final = {"variant": BASE}


def experiment(size: Size, _logs: Path | None = None) -> dict[str, Any]:
    """Return the table of the study. A seed draws jobs, bursts, and when daemons and ticks of nodes begin."""
    return {
        "title": "Communication-driven coscheduling",
        "scenario": {
            "cluster": {"nodes": NODES, "preset": "1x1x3", "memory_mb": NODE_MB, "idle_w": IDLE_W, "busy_w": BUSY_W},
            "time_sharing": {**TIME_SHARING, **({"window_max_s": QUICK_WINDOW_S} if size.quick else {})},
        },
        "workloads": [{"name": name, **sections} for name, sections in workloads(size).items()],
        "variants": variants_of(VARIANTS),
        "policies": [*policies()],
        "seeds": f"1-{max(size.seeds, 1 if size.quick else FULL_SEEDS)}",
        "runs": tables_of(products(size)),
        "baseline": {"policy": cell(BATCH, STRICT), "runs": [Product("harm", [HIGH], COMPARED).table]},
        "measures": ["scripts.papers.coscheduling.measures:figures"],
    }


# ---------------------------------------------------------------- nodes, workloads and policies

TIME_SHARING: Final[Mapping[str, Any]] = {
    "nodes": "windows",
    "local": "linux-epochs",
    "quantum_s": 1.0,  # of gang scheduling; switches cost the share that they have of 0.1 s
    "refill_us": 300,
    "network_mb_s": 80,
    "rendezvous_bytes": 16_384,
    "daemon_us": 2_000,
    "daemon_period_us": 1_000_000,
    "memory_mb": NODE_MB,
}


def workloads(size: Size) -> dict[str, dict[str, Any]]:
    """Return the scenario sections of the workloads by name."""
    jobs, small = size.jobs, small_jobs(size)
    found = {
        HIGH: _nas(jobs, 100.0),
        LIGHT: _nas(jobs, 250.0),
        LONG: _nas(small, 500.0, nas_programs=["BlockSolve95", "sPPM", "LU.B", "LU.C"]),
        **{of_class(name): _nas(small, 100.0, nas_classes=[name]) for name in CLASSES},
        **{copies(name): _nas(COPIES, 0.0, nas_programs=[f"{name}.C.16"]) for name in PROGRAMS},
        AWARE: _nas(small, 100.0, nas_programs=[*TABLE_2]),
        UNAWARE: _nas(small, 100.0, nas_programs=[*TABLE_2], memory="unaware"),
        AWARE_100: _nas(jobs, 100.0, nas_programs=[*TABLE_2]),
        **{fewer(count): _nas(max(jobs * count // JOBS, 1), 100.0) for count in FEWER},
        USELESS: _nas(jobs, 100.0, estimates="day"),
    }
    stop_s = QUICK_FULL_S if size.quick else FULL_S
    found[FULL] = {
        **_nas(FULL_JOBS, 0.0, nas_programs=LASTING),
        "time_sharing": {"nodes": "exact"},
        "script": [{"at_s": stop_s, "do": "cancel", "job": job} for job in range(1, FULL_JOBS + 1)],
    }
    found[WIDE] = {**_nas(WIDER * jobs, 100.0 / WIDER), "cluster": {"nodes": WIDER * NODES}}
    return found


def small_jobs(size: Size) -> int:
    """Return the number of jobs of X3, X4 and X6."""
    return min(SMALL, max(size.jobs // 2, 1))


def _nas(jobs: int, gap_s: float, **settings: Any) -> dict[str, Any]:
    return {"workload": {"nas": jobs, "gap_s": gap_s, **settings}}


def policies() -> Iterator[dict[str, Any]]:
    """Yield what a study needs to know of each policy."""
    backfills = {STRICT: "none", SKIP: "skip", EASY: "easy"}
    placements = {PACKED: "contiguous", SCATTERED: "scattered"}
    for queue in (STRICT, SKIP):
        for at in PLACEMENTS:
            for name in DRIVEN:
                yield {
                    "name": cell(name, queue, at),
                    "policy": "coscheduling",
                    "set": [f"backfill={backfills[queue]}", f"placement={placements[at]}"],
                    "time_sharing": {"coscheduling": NAMES[name]},
                }
    for queue in (STRICT, SKIP):
        skip = str(queue == SKIP).lower()
        yield {"name": cell(GANG, queue), "policy": "gang-contiguous", "set": [f"backfill.skip={skip}"]}
    for queue in QUEUES:
        yield {"name": cell(BATCH, queue), "policy": "batch-contiguous", "set": [f"backfill={backfills[queue]}"]}


# ---------------------------------------------------------------- runs

SKIPPING: Final = [cell(name, SKIP, at) for at in PLACEMENTS for name in DRIVEN]
SKIPPING_PACKED: Final = [cell(name, SKIP) for name in DRIVEN]
OTHERS: Final = [cell(GANG, SKIP), cell(BATCH, STRICT)]
COMPARED: Final = [*SKIPPING_PACKED, cell(GANG, SKIP), cell(BATCH, SKIP)]  # with strict batch, job by job
MORE: Final = [cell(GANG, STRICT), cell(BATCH, SKIP), cell(BATCH, EASY)]
STRICTS: Final = [cell(name, STRICT, at) for at in PLACEMENTS for name in STRICT_POLICIES]
STRICTS_PACKED: Final = [cell(name, STRICT) for name in STRICT_POLICIES]
OF_CLASSES: Final = [*(cell(name, SKIP) for name in (HYBRID, SB, CC)), *OTHERS]
QUICK_COPIES: Final = ("CG", "EP")


def products(size: Size) -> list[Product]:
    """Return the products, the most wanted first."""
    return [*(_quick(size) if size.quick else _all(size))]


def _quick(size: Size) -> Iterator[Product]:
    seeds = [*range(1, size.seeds + 1)]
    yield Product("X1", [HIGH], [*SKIPPING_PACKED, *OTHERS, cell(BATCH, SKIP), cell(HYBRID, SKIP, SCATTERED)], seeds)
    yield Product("X4", [of_class("C")], OF_CLASSES, seeds)
    yield Product("X6", [AWARE, UNAWARE], [cell(HYBRID, SKIP), cell(NLS, SKIP), cell(GANG, SKIP)], seeds)
    yield Product("X6", [AWARE], [cell(BATCH, STRICT)], seeds)
    few = [cell(name, SKIP) for name in (HYBRID, SB, PB, NLS)]
    yield Product("X5", [copies(name) for name in QUICK_COPIES], few, seeds)
    yield Product("full", [FULL], SKIPPING_PACKED, seeds)


def _all(size: Size) -> Iterator[Product]:
    few = [*range(1, min(FEW, size.seeds) + 1)]
    rest = [*range(FEW + 1, size.seeds + 1)]
    yield Product("X1", [HIGH], [*SKIPPING, *OTHERS, *MORE], few)
    yield Product("X5", [copies(name) for name in PROGRAMS], [*SKIPPING_PACKED, cell(GANG, SKIP)], few)
    yield Product("full", [FULL], SKIPPING_PACKED, range(1, FULL_SEEDS + 1))
    yield from _small(few)
    yield Product("X2", [LIGHT], [*SKIPPING, *OTHERS], few)
    yield Product("strict", [HIGH], STRICTS, few)
    for name, variant in OF_FULL.items():
        chosen = [cell(policy, SKIP) for policy in variant.policies]
        yield Product("sensitivity", [FULL], chosen, range(1, SWEEP_SEEDS + 1), [name])
    yield Product("full", [FULL], [cell(name, SKIP, SCATTERED) for name in DRIVEN], range(1, FULL_SEEDS + 1))
    yield from _own(few)
    if rest:
        yield Product("X1 rest", [HIGH], [*SKIPPING, *OTHERS, *MORE], rest)
        for product in _small(rest):
            yield product._replace(stage=f"{product.stage} rest")
        yield Product("X2 rest", [LIGHT], [*SKIPPING, *OTHERS], rest)
        yield Product("strict rest", [HIGH], STRICTS, rest)


def _small(seeds: Sequence[int]) -> Iterator[Product]:
    """Yield the experiments of 20 jobs."""
    yield Product("X4", [of_class(name) for name in CLASSES], OF_CLASSES, seeds)
    yield Product(
        "X6", [AWARE, UNAWARE], [*SKIPPING_PACKED, cell(GANG, SKIP), *STRICTS_PACKED, cell(GANG, STRICT)], seeds
    )
    yield Product("X6", [AWARE], [cell(BATCH, STRICT), cell(BATCH, SKIP)], seeds)
    yield Product("X3", [LONG], OF_CLASSES, seeds)


def _own(seeds: Sequence[int]) -> Iterator[Product]:
    """Yield experiments that the paper does not have."""
    main = [cell(HYBRID, SKIP), cell(BATCH, STRICT)]
    yield Product("own", [fewer(jobs) for jobs in FEWER], main, seeds)
    yield Product("own", [AWARE_100], main, seeds)
    yield Product("own", [USELESS], [cell(BATCH, STRICT), cell(BATCH, EASY)], seeds)
    for name, variant in OF_HIGH.items():
        yield Product("own", [HIGH], [cell(policy, SKIP) for policy in variant.policies], seeds[:2], [name])
    wide = [cell(name, SKIP) for name in (HYBRID, SB, CC)]
    yield Product("own", [WIDE], [*wide, *OTHERS], seeds[:WIDE_SEEDS])
