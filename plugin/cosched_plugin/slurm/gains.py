"""What guests have gained and cost so far: how long who ran beside whom, and how much sooner they began.

Of a trial run (``dry``) nothing is true but the hosts' ends and when Slurm has started each job itself: a guest would have begun when
it was asked, and would have taken the time that it took, times its believed slowdown. What still runs counts up to now, so that all
sums are lower bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cosched_plugin.common.slurm_notation import ENDED, ON_NODES, WAITING
from cosched_plugin.common.status import Gauge
from cosched_plugin.slurm.records import SlurmJob

GAUGES: Final = {
    "hosts": Gauge("guest_hosts", "Running jobs that a guest might join."),
    "candidates": Gauge("guest_candidates", "Pending jobs that might be guests."),
    "asked_now": Gauge("guests_asked", "Pending jobs that Slurm was asked to start as guests."),
    "guests": Gauge("guests", "Guests that run."),
    "asked": Gauge("guests_asked_total", "Changes that asked for a guest."),
    "begun": Gauge("guests_begun_total", "Guests that have begun."),
    "put_back": Gauge("guests_put_back_total", "Jobs that were asked to be guests and were put back."),
    "first": Gauge("guests_slurm_first_total", "Jobs asked to be guests that Slurm itself started first."),
    "orphans": Gauge(
        "guests_orphans_total", "Jobs that waited in the partition of guests without a request, and were put back."
    ),
    "blind": Gauge("guests_blind_pairs_total", "Pairs that Slurm has made itself."),
    "pair_node_s": Gauge("guests_pair_node_seconds_total", "Node-seconds with a guest beside another job."),
    "won_node_s": Gauge(
        "guests_won_node_seconds_total", "Node-seconds won by pairs with a guest, according to the belief."
    ),
    "others_lost_s": Gauge(
        "guests_hosts_lost_seconds_total", "Time lost by jobs beside guests, according to the belief."
    ),
    "guests_lost_s": Gauge("guests_lost_seconds_total", "Time lost by guests, according to the belief."),
    "sooner_s": Gauge(
        "guests_sooner_seconds_total", "By how much, at most, guests began before the start that Slurm had planned."
    ),
}


@dataclass(slots=True)
class _Beside:
    """A job beside a guest."""

    nodes: int
    since_s: float
    guest_slow: float
    other_slow: float
    is_guest: bool = False  # too, with a stay of its own
    until_s: float | None = None


@dataclass(slots=True)
class _Stay:
    """A guest."""

    since_s: float
    planned_s: float  # when Slurm would have started it, or has; 0: unknown
    beside: dict[int, _Beside] = field(default_factory=dict)
    until_s: float | None = None


class Totals(NamedTuple):
    """Sums; times in seconds."""

    guests: int = 0
    pair_node_s: float = 0.0  # nodes x time with a guest beside another job
    won_node_s: float = 0.0  # work done there beyond that of one job alone, by what is believed
    others_lost_s: float = 0.0  # by the jobs beside guests, by what is believed
    guests_lost_s: float = 0.0
    sooner: int = 0  # guests of which it is known when Slurm would have started them
    sooner_s: float = 0.0  # by how much they began before that, in all: a plan goes by limits, and is late

    def words(self, *, dry: bool) -> str:
        """Return them in words."""
        would = "would have " if dry else ""
        most = "" if dry else "at most "  # a plan goes by limits, and jobs end before them
        start = "Slurm has started" if dry else "Slurm had planned to start"
        guests = f"{self.guests} guest{'s' * (self.guests != 1)}"
        return (
            f"{guests} {would}shared nodes for {self.pair_node_s:.0f} node-seconds, which {would}won "
            f"{self.won_node_s:.0f} according to the belief; hosts {would}lost {self.others_lost_s:.0f} s, guests "
            f"{self.guests_lost_s:.0f} s; {start} {self.sooner} of them {most}{self.sooner_s:.0f} s later in all"
        )


class Gains:
    """The guests so far, by the protocol's numbers."""

    def __init__(self, *, dry: bool) -> None:
        self._dry = dry
        self._open: dict[int, _Stay] = {}
        self._done = Totals()

    def begin(self, guest: int, since_s: float, planned_s: float = 0.0) -> None:
        """Let a guest begin."""
        self._open.setdefault(guest, _Stay(since_s, planned_s))

    def meet(
        self, guest: int, other: int, nodes: int, since_s: float, slows: tuple[float, float], *, is_guest: bool = False
    ) -> None:
        """Let a job be beside a guest that has begun; ``slows``: how slow the guest and the job are, 1: as fast as alone.

        ``nodes``: of both, without those that count for another pair; ``is_guest``: whether the job is a guest, too.
        """
        if guest in self._open:
            self._open[guest].beside.setdefault(other, _Beside(nodes, since_s, *slows, is_guest))

    def look(self, records: Mapping[int, SlurmJob], now_s: float) -> None:
        """Take what a poll shows, and add up what is over."""
        for guest, stay in list(self._open.items()):
            for other, beside in stay.beside.items():
                if beside.until_s is None:
                    beside.until_s = _left_s(records.get(other), now_s)
            self._look(stay, records.get(guest), now_s)
            if stay.until_s is not None and all(each.until_s is not None for each in stay.beside.values()):
                self._done = _plus(self._done, stay, now_s)
                del self._open[guest]
            elif stay.until_s is not None and not self._dry:  # what was beside it is alone now
                for each in stay.beside.values():
                    each.until_s = each.until_s or stay.until_s

    def _look(self, stay: _Stay, job: SlurmJob | None, now_s: float) -> None:
        ended_s = _left_s(job, now_s)
        if not self._dry:
            stay.until_s = stay.until_s or ended_s
            return
        if job is not None and job.state in WAITING:
            return
        began = job is not None and job.start_s and (job.state in ON_NODES or job.state in ENDED)
        if job is not None and began and not stay.planned_s:
            stay.planned_s = job.start_s
        if stay.until_s is None and ended_s is not None:
            took_s = max(0.0, job.end_s - job.start_s) if job is not None and began and job.end_s else 0.0
            slow = max([each.guest_slow for each in stay.beside.values()], default=1.0)
            stay.until_s = stay.since_s + took_s * slow

    def holds(self, guest: int, now_s: float) -> bool:
        """Return whether a guest of a trial run would still be there, as far as is known."""
        stay = self._open.get(guest)
        return stay is not None and (stay.until_s is None or stay.until_s > now_s)

    def totals(self, now_s: float) -> Totals:
        """Return the sums up to now."""
        found = self._done
        for stay in self._open.values():
            found = _plus(found, stay, now_s)
        return found


def _left_s(job: SlurmJob | None, now_s: float) -> float | None:
    """Return when a job has left its nodes; None while it has not."""
    if job is not None and job.state in ON_NODES:
        return None
    return float(job.end_s) if job is not None and job.state in ENDED and job.end_s else now_s


def _plus(sums: Totals, stay: _Stay, now_s: float) -> Totals:
    until_s = now_s if stay.until_s is None else stay.until_s
    pair = won = others = guests = 0.0
    for each in stay.beside.values():
        end_s = min(until_s, now_s if each.until_s is None else each.until_s)
        span_s = max(0.0, end_s - max(stay.since_s, each.since_s))
        pair += each.nodes * span_s
        won += each.nodes * span_s * (1 / each.guest_slow + 1 / each.other_slow - 1)
        others += 0.0 if each.is_guest else span_s * (1 - 1 / each.other_slow)
        guests = max(guests, span_s * (1 - 1 / each.guest_slow))
    known = stay.planned_s > 0
    return Totals(
        sums.guests + 1,
        sums.pair_node_s + pair,
        sums.won_node_s + won,
        sums.others_lost_s + others,
        sums.guests_lost_s + guests,
        sums.sooner + known,
        sums.sooner_s + (max(0.0, stay.planned_s - stay.since_s) if known else 0.0),
    )
