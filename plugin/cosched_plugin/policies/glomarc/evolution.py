"""Forecast of a group from now on: when each job ends, how long the jobs stay together, and what they gain.

A group is a primary job and matched jobs on its nodes, no two of them on one (G-LOMARC-TS paper, sections 4.5 and 4.6). Each
progresses at 1/(own slowdown x coscheduling slowdown): a matched job beside the primary, the primary beside those that are still
there, of which the worst counts. The group is over when the primary or the last matched job ends; remaining jobs go on alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cosched_plugin.api import JobSpec, Running, round_up_us


class Member(NamedTuple):
    """A job as a member of a group."""

    job: JobSpec
    left_us: float  # work left, in run time at one process a node
    factor: float  # own slowdown on its nodes
    per_node: int  # processes
    nodes: int  # how many nodes it takes, or has
    running: Running | None = None  # None: it is pending
    beside: float = 1.0  # of a matched job: its slowdown beside the primary, own slowdown not counted
    beside_it: float = 1.0  # the slowdown of the primary beside it


class Outcome(NamedTuple):
    """The forecast of a group."""

    spans_us: tuple[int, ...]  # time until each job ends: the primary, then the matched ones
    together_us: float  # time until the group is over
    gain: float  # utilisation gain over that time, formula 6


def evolve(primary: Member, matched: Sequence[Member]) -> Outcome:
    """Return the forecast of a group that forms now.

    The utilisation gain is the node time that the jobs would need for the same work at one process a node, over the node time that
    the group holds, less one. The paper writes the latter as S_A/PPN_A; here it is whole nodes, and all that the group holds, where
    the matched jobs take a few more than the primary.
    """
    left = [job.left_us for job in matched]
    slow = [job.factor * job.beside for job in matched]
    own_left = primary.left_us
    spans = [0] * len(matched)
    there = list(range(len(matched)))
    now = 0.0
    work = 0.0
    while True:
        own_slow = primary.factor * max([matched[index].beside_it for index in there])
        first = min(there, key=lambda index: left[index] * slow[index])
        step = left[first] * slow[first]
        primary_ends = own_left * own_slow <= step
        if primary_ends:
            step = own_left * own_slow
        now += step
        work += step * primary.job.processes / own_slow
        for index in there:
            work += step * matched[index].job.processes / slow[index]
            left[index] = max(0.0, left[index] - step / slow[index])
        if primary_ends:
            own_span = now
            for index in there:
                spans[index] = whole_us(now + left[index] * matched[index].factor)
            break
        own_left = max(0.0, own_left - step / own_slow)
        left[first] = 0.0
        for index in [index for index in there if left[index] == 0.0]:
            spans[index] = whole_us(now)
        there = [index for index in there if left[index] > 0.0]
        if not there:
            own_span = now + own_left * primary.factor
            break
    held = now * max(primary.nodes, sum([job.nodes for job in matched]))
    return Outcome((whole_us(own_span), *spans), now, work / held - 1.0)


def gain_alone(per_node: int, factor: float) -> float:
    """Return the utilisation gain of a job that is alone on its nodes."""
    return per_node / factor - 1.0


def whole_us(span_us: float) -> int:
    """Return a span as whole microseconds, rounded up; at least 1."""
    return max(1, round_up_us(span_us))
