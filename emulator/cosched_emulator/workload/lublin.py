"""The Lublin-Feitelson workload model, typeless variant: arrivals with a daily cycle, sizes, and run times that depend on them.

The parameters have the names of the authors' program. Arrival times, sizes and run times are drawn from separate streams, and
a job's run time depends only on its index and size: a change of one part of the model leaves the numbers of the others
unchanged, and the first jobs of a long workload are those of a short one. The streams are numpy's and may change between
numpy releases; store a workload to keep it (`write_swf`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Annotated, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cosched_emulator import offered
from cosched_emulator.bounds import Factor, Range, Share, check_bounds
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.job import Calendar, Workload
from cosched_emulator.workload.jobs_in_columns import Jobs, Numbers, Same, round_up_all_us
from cosched_hwmodel.draws import key
from cosched_hwmodel.units import SECOND_US

SLOTS = 48  # half hours of a day
SLOT_S = 1800
FIRST_SLOT = 10  # the model's day starts at 05:00
_ROUNDS = 1_000  # redraws before the parameters are refused
_BLOCK = 4_096  # fixed: the stream's numbers must not depend on the number of jobs


# At most e^20 s: fifteen years
_Log: TypeAlias = Annotated[float, Range("a number above 0, at most 20", 0, 20, least_open=True)]


@dataclass(frozen=True, slots=True)
class LublinParameters:
    """Parameters of the model; the defaults are the authors' values for all types of jobs. Gamma distributions are (shape, scale).

    Raises `ConfigurationError` for values that define no distribution.
    """

    serial: Share = 0.244  # share of jobs of size 1
    pow2: Share = 0.576  # share of jobs with a power of two as size (others have one by chance)
    u_low: float = 0.8  # log2 of the smallest parallel size
    u_med: float | None = None  # log2 of the size at which the two parts meet; None: u_hi - 2.5
    u_hi: float | None = None  # log2 of the largest size; None: log2 of the machine
    u_prob: Share = 0.86  # share of small sizes
    a1: Factor = 4.2  # log of short run times
    b1: Factor = 0.94
    a2: Factor = 312.0  # log of long run times
    b2: Factor = 0.03
    pa: float = -0.0054  # share of short run times: pa * size + pb
    pb: float = 0.78
    aarr: Factor = offered.AARR  # log of gaps at peak hours; the papers' "alpha"
    barr: Factor = 0.4871
    anum: Factor = 8.1737  # arrivals over the day
    bnum: Factor = 3.9631
    arar: Factor = 1.0225
    longest_log_run: _Log = 12.0  # larger logarithms of seconds are drawn again
    longest_log_gap: _Log = 13.0
    gap_factor: Factor = 1.0  # factor on all gaps, after the model
    run_factor: Factor = 1.0  # factor on all run times, after the model

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.serial + self.pow2 > 1:
            raise ConfigurationError("pow2", f"a share of at most 1 - serial = {1 - self.serial:g}", str(self.pow2))


_DEFAULTS = LublinParameters()


def generate(
    jobs: int, processors: int, parameters: LublinParameters = _DEFAULTS, seed: int = 1, limits: str = "none"
) -> Workload:
    """Generate a workload for a machine of ``processors``.

    Estimates are exact; with ``limits`` they are the limits, too. The first submission is at time 0; a note gives its time of
    the model's first day. Sizes are limited by the machine; this matters only for machines with fewer than about ten processors,
    or with a number that is not a power of two.
    """
    clock = arrival_times(jobs, parameters, seed)
    sizes = job_sizes(jobs, processors, parameters, seed)
    runs = run_times(sizes, parameters, seed)
    number = Numbers(range(1, jobs + 1))
    run_us = Numbers(round_up_all_us(runs * SECOND_US * parameters.run_factor))
    found = Jobs(
        id=number,
        submit_us=Numbers(round_up_all_us((clock - clock[0]) * SECOND_US * parameters.gap_factor)),
        processes=Numbers(sizes),
        estimate_us=run_us,
        run_us=run_us,
        source_id=number,
        limit_us=Same(None) if limits == "none" else run_us,
    )
    changed = [
        f"{field.name}={getattr(parameters, field.name):g}"
        for field in fields(parameters)
        if getattr(parameters, field.name) != field.default
    ]
    origin = f"Lublin-Feitelson model, {jobs} jobs, {processors} processors, seed {seed}"
    notes = (f"first submission {clock[0]} s after midnight",)
    calendar = Calendar(float(clock[0]), named_days=False) if parameters.gap_factor == 1 else None
    day_s = float(SLOTS * SLOT_S * parameters.gap_factor)
    return Workload(found, processors, ", ".join((origin, *changed)), notes, calendar=calendar, day_s=day_s)


def arrival_times(jobs: int, parameters: LublinParameters, seed: int) -> NDArray[np.int64]:
    """Return arrival times in whole seconds since a midnight, ascending."""
    return np.fromiter(_arrivals(jobs, parameters, seed), dtype=np.int64, count=jobs)


def _arrivals(jobs: int, parameters: LublinParameters, seed: int) -> Iterator[int]:
    weights = day_profile(parameters)
    clock, slot, credit, remainder = 0, 0, 0.0, 0.0
    for added in _arrival_credits(jobs, parameters, seed):
        credit += added
        gap = 0.0
        while credit > weights[slot]:
            credit -= weights[slot]
            slot = (slot + 1) % SLOTS
            gap += SLOT_S
        rest = credit / weights[slot] if weights[slot] > 0 else 0.0
        gap += SLOT_S * (rest - remainder)
        remainder = rest
        clock = int(clock + gap)
        yield clock


def _arrival_credits(jobs: int, parameters: LublinParameters, seed: int) -> Iterator[float]:
    """Yield each arrival's share of the day, in half hours at the mean rate."""
    stream = _stream(seed, "lublin arrivals")
    shape = parameters.aarr * parameters.arar
    left = jobs
    for _ in range(_ROUNDS + jobs // _BLOCK):
        logs = stream.gamma(shape, parameters.barr, _BLOCK)
        accepted = (math.e ** logs[logs <= parameters.longest_log_gap] / SLOT_S).tolist()
        yield from accepted[:left]
        left -= len(accepted)
        if left <= 0:
            return
    raise ConfigurationError("aarr", "a value with some gaps below e^longest_log_gap seconds", f"{parameters.aarr:g}")


def job_sizes(jobs: int, processors: int, parameters: LublinParameters, seed: int) -> NDArray[np.int64]:
    """Return sizes from 1 to ``processors``."""
    high = math.log2(processors) if parameters.u_hi is None else parameters.u_hi
    low = min(parameters.u_low, high)
    middle = min(max(low, high - 2.5 if parameters.u_med is None else parameters.u_med), high)
    kind, part, place = _stream(seed, "lublin sizes").random((jobs, 3)).T
    small = part < parameters.u_prob
    logs = np.where(small, low + (middle - low) * place, middle + (high - middle) * place)
    logs = np.where(kind <= parameters.serial + parameters.pow2, np.floor(logs + 0.5), logs)
    sizes = np.where(kind <= parameters.serial, 1.0, np.floor(2.0**logs + 0.5))
    return np.clip(sizes, 1, processors).astype(np.int64)


def run_times(sizes: NDArray[np.int64], parameters: LublinParameters, seed: int) -> NDArray[np.int64]:
    """Return run times in whole seconds, 1 or more; large jobs tend to run longer."""
    jobs = len(sizes)
    short_share = np.clip(parameters.pa * sizes + parameters.pb, 0.0, 1.0)
    logs = np.full(jobs, np.inf)
    for attempt in range(_ROUNDS):
        # A stream for each purpose and attempt: the redraws of one job do not change other jobs' numbers.
        short = _stream(seed, "lublin run times: part", attempt).random(jobs) < short_share
        first = _stream(seed, "lublin run times: short", attempt).gamma(parameters.a1, parameters.b1, jobs)
        second = _stream(seed, "lublin run times: long", attempt).gamma(parameters.a2, parameters.b2, jobs)
        logs = np.where(logs > parameters.longest_log_run, np.where(short, first, second), logs)
        if (logs <= parameters.longest_log_run).all():
            seconds: NDArray[np.float64] = np.maximum(1.0, np.floor(np.exp(logs)))
            return seconds.astype(np.int64)
    raise ConfigurationError("a2", "a value with some run times below e^longest_log_run seconds", f"{parameters.a2:g}")


def day_profile(parameters: LublinParameters) -> list[float]:
    """Return the relative arrival rate of each half hour from midnight on; the mean is 1."""
    shape, scale = parameters.anum, parameters.bnum
    weights = [0.0] * SLOTS
    for hour in range(FIRST_SLOT + 1, FIRST_SLOT + 1 + SLOTS):
        share = gamma_cdf(hour + 0.5, shape, scale) - gamma_cdf(hour - 0.5, shape, scale)
        weights[(hour - 1) % SLOTS] = max(0.0, share)
    mean = math.fsum(weights) / SLOTS
    if mean < 1e-9:
        raise ConfigurationError("anum", "a day profile with arrivals in it", f"{shape:g} (bnum {scale:g})")
    return [weight / mean for weight in weights]


def gamma_cdf(x: float, shape: float, scale: float) -> float:
    """Return the distribution function of Gamma(shape, scale) at ``x``: the regularised lower incomplete gamma function.

    A power series below the mean and a continued fraction above it, each where it converges fast; about 12 digits.
    """
    z = x / scale
    if z <= 0:
        return 0.0
    front = math.exp(shape * math.log(z) - z - math.lgamma(shape))
    if z < shape + 1:
        term = total = 1 / shape
        denominator = shape
        while term > total * 1e-17:
            denominator += 1
            term *= z / denominator
            total += term
        return min(1.0, front * total)
    # Lentz's method for the fraction of the upper function: b + a1/(b+2 + a2/(b+4 + ...)), b = z + 1 - shape.
    tiny = 1e-300
    base = z + 1 - shape
    upper, lower = 1 / tiny, 1 / base
    fraction = lower
    for step in range(1, 100_000):
        factor = -step * (step - shape)
        base += 2
        lower = 1 / (factor * lower + base or tiny)
        upper = base + factor / upper or tiny
        change = lower * upper
        fraction *= change
        if abs(change - 1) < 1e-15:
            break
    return max(0.0, 1 - front * fraction)


def _stream(seed: int, purpose: str, *ids: int) -> np.random.Generator:
    return np.random.default_rng(key(seed, purpose, *ids))
