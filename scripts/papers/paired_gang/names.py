"""Names of the cells of the study: workloads, policies and variants, and the columns of their figures."""

from __future__ import annotations

from typing import Final

# Policies, as the page calls them.
STRICT: Final = "gang"
BARE: Final = "gang, no alternates"
PAIRED: Final = "paired-gang"
NODE: Final = "paired-gang, node"
BEST: Final = "best fit"
BLIND: Final = "blind"
BATCH: Final = "batch"

BASE: Final = "base"
MIXES: Final = (0, 1, 2, 3, 4)  # numbers of I/O jobs of four
SIZE: Final = 8  # nodes of the static experiments
SIZES: Final = (2, 4, 8, 12)
GRAIN: Final = 2.5  # millions of null statements between two barriers
GRAINS: Final = (1.0, 1.5, 2.0, 2.5)
SLOTS: Final = (0, 1, 2, 3)
COMPUTE: Final = "compute"
IO: Final = "io"
KINDS: Final = (COMPUTE, IO)

LOADS: Final = ("0.5", "0.6", "0.7", "0.8", "0.9", "0.95")
ABOVE: Final = ("1.05", "1.2")  # loads of which the machine cannot do all under strict gang scheduling
HOMOGENEOUS: Final = "homogeneous"
HETEROGENEOUS: Final = "heterogeneous"
QCRD: Final = "QCRD"
QCRD_EVEN: Final = "QCRD even"
RUNS_S: Final = (400, 1200)  # alone, of the four copies of QCRD that start together

RESPONSE: Final = "all_response_s_mean"
SLOWDOWN_CPU: Final = "time_sharing_all_slowdown_cpu_mean"
SLOWDOWN_DISPATCHED: Final = "time_sharing_all_slowdown_dispatched_mean"
CPU_USED: Final = "time_sharing_cpu_used"
BOUNDED: Final = "all_bounded_slowdown_10s_mean"


def mix(io_jobs: int, size: int = SIZE, grain: float = GRAIN, iterations: int = 0) -> str:
    """Return the name of a static workload: ``mix 1``, or with another size, grain or number of barriers ``mix 1, 12 nodes``."""
    sized = "" if size == SIZE else f", {size} nodes"
    grained = "" if grain == GRAIN else f", {grain:g} M"
    counted = f", N = {iterations}" if iterations else ""
    return f"mix {io_jobs}{sized}{grained}{counted}"


def longer(io_jobs: int) -> str:
    """Return the name of a mix that runs for longer, for counts in which jobs take turns by chance."""
    return f"{mix(io_jobs)}, 1,024 s"


def alone(kind: str) -> str:
    """Return the name of the workload of one job."""
    return f"one {kind} job"


def dynamic(program: str, load: str) -> str:
    """Return the name of a dynamic workload: ``homogeneous 0.95``."""
    return f"{program} {load}"


def rate(kind: str) -> str:
    """Return the column of the barriers a second of the jobs of a kind, in the mean."""
    return f"rate_{kind}"


def fine_pair(grain: int) -> str:
    """Return the name of two 45 % jobs, so many times as coarse as the homogeneous ones."""
    return f"two 45 % jobs, grain x {grain}"


def copies(run_s: int) -> str:
    """Return the name of four copies of QCRD of this run time alone, in seconds."""
    return f"four QCRD, {run_s} s"


def few_jobs(load: str) -> str:
    """Return the name of the dynamic workload of few jobs, for exact nodes."""
    return f"{HOMOGENEOUS} {load}, few jobs"
