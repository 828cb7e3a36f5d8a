"""The programs of the paired gang paper (Wiseman and Feitelson 2003, section 4), for any length and grain."""

from __future__ import annotations

from typing import Final, NamedTuple

from cosched_emulator import offered
from cosched_emulator.nodeos.programs import Barrier, Compute, Loop, Operation, Program, Wait, WriteFiles
from cosched_hwmodel import draws
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM

LOOPS_PER_MS: Final = 33_333  # null statements: 25,000 take 45 % of 1/600 s (section 4.2.1)
JITTER_PPM: Final = 100_000  # of a fine-grain burst; the paper gives none
STATIC_JITTER_PPM: Final = 15_000  # of the long bursts: compute jobs log 97 to 98 % alone
FINE_BARRIER_US: Final = 920  # of an iteration of 1/600 s the 55 % that are not computing
_ITERATION_US: Final = 20_000  # of QCRD
_GREATEST_SHARE_PPM: Final = 995_000  # at 100 % an iteration would have no end


def loop_program(iterations: int, null_statements: int, files: int, jitter_ppm: int = STATIC_JITTER_PPM) -> Program:
    """Return the program of figure 6: compute, write files, barrier.

    ``null_statements`` is G_comp, ``files`` G_I/O. B, the bytes of a file, is the server's time for it in the settings.
    """
    body: list[Operation] = []
    if null_statements:
        body.append(Compute(round(null_statements * 1000 / LOOPS_PER_MS), jitter_ppm))
    if files:
        body.append(WriteFiles(files, True))
    return Program((Loop(iterations, (*body, Barrier())),))


def compute_program(
    iterations: int = 250, null_statements: int = offered.NULL_STATEMENTS, jitter_ppm: int = STATIC_JITTER_PPM
) -> Program:
    """Return the compute-bound job of the static experiments (section 4.1.1)."""
    return loop_program(iterations, null_statements, 0, jitter_ppm)


def io_program(iterations: int = 250, files: int = offered.FILES) -> Program:
    """Return the I/O-bound job of the static experiments (section 4.1.1)."""
    return loop_program(iterations, 0, files)


def fine_program(
    seconds: float,
    share_ppm: int = round(offered.CPU_SHARE * WHOLE_PPM),
    jitter_ppm: int = JITTER_PPM,
    barrier_us: int = FINE_BARRIER_US,
) -> Program:
    """Return a job that alternates a burst and a barrier as finely as its CPU share allows (sections 4.2.1, 4.2.2).

    With the default share and barrier it is the homogeneous program of 600 iterations a second. Alone, it runs about
    ``seconds`` on nodes where its barrier takes ``barrier_us``: the slowest of jittered bursts makes it a few per cent
    longer. The share is cut at 99.5 %.
    """
    share = min(share_ppm, _GREATEST_SHARE_PPM) / WHOLE_PPM
    burst_us = round(barrier_us * share / (1 - share))
    iterations = max(1, round(seconds * SECOND_US / (burst_us + barrier_us)))
    body: tuple[Operation, ...] = (Compute(burst_us, jitter_ppm), Barrier()) if burst_us else (Barrier(),)
    return Program((Loop(iterations, body),))


def uniform_share_ppm(seed: int, job: int) -> int:
    """Return the CPU share of a heterogeneous job: uniform between 0 and 100 % (section 4.2.2)."""
    return int(draws.uniform(seed, "cpu-share", job) * WHOLE_PPM)


class QcrdShape(NamedTuple):
    """Lengths of QCRD's phases as shares of the run time, and the CPU share in each, in ppm; the paper prints none.

    ``repeats`` times an I/O phase and a CPU phase, then the last I/O phase.
    """

    io_length_ppm: int
    cpu_length_ppm: int
    last_length_ppm: int
    repeats: int = 12
    io_share_ppm: int = 30_000
    cpu_share_ppm: int = 860_000
    last_share_ppm: int = 80_000


QCRD: Final = {
    "published": QcrdShape(8_200, 66_000, 110_000),  # of Rosti et al. 2002, as remembered; not verified
    "even": QcrdShape(20_000, 35_000, 340_000),  # ours, so that the two bracket what is not known
}


def qcrd_program(
    seconds: float,
    shape: QcrdShape = QCRD["published"],
    jitter_ppm: int = JITTER_PPM,
    barrier_us: int = FINE_BARRIER_US,
) -> Program:
    """Return a job with the phases of QCRD, alone about ``seconds`` long (section 4.2.3).

    A phase repeats a burst, a wait for the node's own device and a barrier of ``barrier_us``: `_ITERATION_US` in all;
    where barriers take longer than the rest of it leaves, iterations are longer, and fewer.
    """
    phases: list[Loop] = []

    def add(length_ppm: int, share_ppm: int) -> None:
        burst_us = round(_ITERATION_US * share_ppm / WHOLE_PPM)
        wait_us = max(0, _ITERATION_US - burst_us - barrier_us)
        count = max(1, round(seconds * length_ppm / (burst_us + wait_us + barrier_us)))
        phases.append(Loop(count, (Compute(burst_us, jitter_ppm), Wait(wait_us), Barrier())))

    for _ in range(shape.repeats):
        add(shape.io_length_ppm, shape.io_share_ppm)
        add(shape.cpu_length_ppm, shape.cpu_share_ppm)
    add(shape.last_length_ppm, shape.last_share_ppm)
    return Program(tuple(phases))
