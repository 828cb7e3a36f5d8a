"""Names of the cells of the study: policies, queues, workloads and variants, and the columns of their figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

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
JOBS: Final = (20, 50)  # numbers of jobs of X1 with fewer of them (E8)


def of_class(name: str) -> str:
    """Return the name of experiment X4 for a class of programs."""
    return f"X4 {name}"


def copies(program: str) -> str:
    """Return the name of experiment X5 for a program."""
    return f"X5 {program}"


def fewer(jobs: int) -> str:
    """Return the name of experiment X1 with fewer jobs."""
    return f"X1, {jobs} jobs"


# ---------------------------------------------------------------- variants

BASE: Final = "base"
SPINS_MS: Final = (0.1, 5.0, 20.0)  # beside 1
SCANS_MS: Final = (10, 200)  # beside 50
REFILLS_US: Final = (0, 1000, 2000)  # beside 300
BOOSTS: Final = {"none": "nowhere", "all": "in all communication"}  # beside collectives
JITTERS: Final = (0.035, 0.35)  # beside 0.17; standard deviations of 2 and 20 %
GRAINS: Final = ("1/8", "1/3", "3")  # beside 1
EPOCHS: Final = (3, 20)  # ticks, beside 6


def spin(milliseconds: float) -> str:
    """Return the name of a variant with another spin time of SB and CC."""
    return f"spin {milliseconds:g} ms"


def scan(milliseconds: int) -> str:
    """Return the name of a variant with another scan interval of PB."""
    return f"scan {milliseconds} ms"


def refill(microseconds: int) -> str:
    """Return the name of a variant with another cost of a switch."""
    return f"refill {microseconds / 1000:g} ms"


def boost(what: str) -> str:
    """Return the name of a variant with another boost of HYBRID."""
    return f"boost {what}"


def jitter(share: float) -> str:
    """Return the name of a variant with another noise of bursts."""
    return f"noise {share:.2g}"


def grain(times: str) -> str:
    """Return the name of a variant with finer or coarser programs."""
    return f"grain {times}"


def epoch(ticks: int) -> str:
    """Return the name of a variant with another time slice."""
    return f"epochs of {ticks} ticks"


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
    **{fewer(jobs): f"{jobs} NAS jobs, mean gap 100 s" for jobs in JOBS},
}
