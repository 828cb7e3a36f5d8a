"""What each rule that fills a gap of the paired gang paper is worth: the reference as a part, with one rule read otherwise.

``python -m tests.reference.gang_readings`` prints, for each reading, how many jobs end at another time than under `paired-gang`,
and the ratio of mean responses; without a reading the two are equal job for job (`test_gang_readings.py`).
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final

from tests.reference.gang import PPM, Job, Load, Quantum, Rules, Scheduler, Seat, predicted

from cosched_emulator import simulate
from cosched_emulator.statistics.intervals import mean_interval
from cosched_plugin import api

JOBS: Final = 160
LOAD: Final = 0.8
PROGRAMS: Final = ("fine", "uniform")  # of homogeneous and of heterogeneous jobs


class AsWritten(Scheduler):
    """No rule is read otherwise; new jobs get the nodes with the fewest jobs."""

    def __init__(self, nodes: int, rules: Rules) -> None:
        super().__init__(nodes, rules)
        self.placed: list[int] = []
        self._shares: dict[tuple[int, tuple[Fraction, ...]], Fraction] = {}

    def share(self, job_id: int) -> Fraction:
        """Return the same; the sums are slow."""
        history = self.seats[job_id].history[-4:]
        key = (job_id, tuple(history))
        if key not in self._shares:
            self._shares[key] = predicted(history, pad=self.rules.pad)
        return self._shares[key]

    def _place(self) -> None:
        self.placed = []
        while self.queue and (place := self._place_for(self.queue[0])) is not None:
            job = self.queue.pop(0)
            loads = Counter(node for seat in self.seats.values() for node in seat.nodes)
            nodes = sorted(self.idle(place), key=lambda node: (loads[node], node))[: job.size]
            self.seats[job.id] = Seat(job, frozenset(nodes), place)
            self.placed.append(job.id)


class NoSecondLook(AsWritten):
    """A partner that was chosen when the round began runs, whether it still fits or not [M11]."""

    def _still_fits(self, row: int, partner: int) -> bool:
        return partner in self.slots()


class MatchedEachTurn(AsWritten):
    """Rows are matched anew at each turn, not once a round [M6]."""

    def _next(self) -> Quantum:
        self.partner = self._matched([Load(slot, self.most(self.row(slot))) for slot in self.slots()])
        return super()._next()


class OneTurnAPair(AsWritten):
    """A row that has run as a partner has had its turn [M3]."""

    had: frozenset[int] = frozenset()

    def _next(self) -> Quantum:
        slots = self.slots()
        later = [slot for slot in slots if slot > self.last and slot not in self.had]
        if later and self.last >= 0:
            self.last = later[0] - 1
        else:
            self.had, self.last = frozenset(), -1
        quantum = super()._next()
        self.had |= {quantum.row} if quantum.partner is None else {quantum.row, quantum.partner}
        return quantum


class LowestNumber(AsWritten):
    """A new row takes the lowest free number, also one that had a turn in this round [M11]."""

    def new_slot(self) -> int | None:
        slots = self.slots()
        return next(slot for slot in range(10_000) if slot not in slots)


class HighestNumber(AsWritten):
    """A new row comes behind all others [M11]."""

    def new_slot(self) -> int | None:
        return max([*self.slots(), *self.known, -1]) + 1


class RowOfItsOwn(AsWritten):
    """A new job gets a row of its own [S4]."""

    def _place_for(self, job: Job) -> int | None:
        return self.new_slot()


class NewInBand(AsWritten):
    """A new job counts with its 100 % in bands [S4]."""

    def fresh(self, job_id: int) -> bool:
        return False


class PlacedFirst(AsWritten):
    """New jobs get their places before others leave their rows [S11]."""

    def _leave_rows(self) -> None:
        super()._place()
        placed = self.placed
        super()._leave_rows()
        self._early = placed

    def _place(self) -> None:
        super()._place()
        self.placed = self._early + self.placed


class AnyLeaves(AsWritten):
    """Jobs that did not run in the last quantum leave rows too [S1]."""

    def _leave_rows(self) -> None:
        self.ran = [*self.seats]
        super()._leave_rows()


class GuestsStay(AsWritten):
    """Alternates do not leave their rows [S1]."""

    def _next(self) -> Quantum:
        quantum = super()._next()
        self.ran = [job_id for job_id in self.ran if job_id not in quantum.guests]
        return quantum


class NewRowForLeavers(AsWritten):
    """A job that leaves its row opens a new one [S2]."""

    def _to_first(self, job_id: int) -> None:
        slot = self.new_slot()
        if slot is not None:
            self._to(job_id, slot)


class BandUpwards(AsWritten):
    """A row, or a turn, takes a job that is far below its other jobs [S2, S6]."""

    def in_band(self, job_id: int, jobs: Sequence[int]) -> bool:
        measured = [self.share(other) for other in jobs if not self.fresh(other)]
        if self.rules.band is None or self.fresh(job_id) or not measured:
            return True
        return self.share(job_id) < min(measured) + self.rules.band


class AlternatesBySlot(AsWritten):
    """Alternates are tried by the number of their rows [S8]."""

    def _alternates(self, row: int, partner: int | None, order: Sequence[int]) -> tuple[int, ...]:
        return super()._alternates(row, partner, [row, *sorted(slot for slot in order if slot != row)])


class NoNewAlternates(AsWritten):
    """A job that has not been measured is no alternate [S6]."""

    def _by_layer(self, job_id: int, layers: list[list[int]]) -> int | None:
        return None if self.fresh(job_id) else super()._by_layer(job_id, layers)


class AlternatesUnmatched(AsWritten):
    """Of alternates the band is asked alone, not whether they fit the other layer [S6]."""

    def _by_layer(self, job_id: int, layers: list[list[int]]) -> int | None:
        for place, layer in enumerate(layers):
            if super()._by_layer(job_id, [layer]) is not None:
                return place
        return None


class AlternatesOfTheRow(AsWritten):
    """Alternates run on what the row leaves idle, not on what its partner does [S5]."""

    def _by_layer(self, job_id: int, layers: list[list[int]]) -> int | None:
        return 0 if super()._by_layer(job_id, layers) == 0 else None


class AlternatesOnIdleNodes(AsWritten):
    """Alternates run only where no process of the two rows is [S7]."""

    def _by_layer(self, job_id: int, layers: list[list[int]]) -> int | None:
        if any(self._here(node, layers) for node in self.seats[job_id].nodes):
            return None
        return super()._by_layer(job_id, layers)


READINGS: Final = (
    NoSecondLook,
    MatchedEachTurn,
    OneTurnAPair,
    LowestNumber,
    HighestNumber,
    RowOfItsOwn,
    NewInBand,
    PlacedFirst,
    AnyLeaves,
    GuestsStay,
    NewRowForLeavers,
    BandUpwards,
    AlternatesBySlot,
    NoNewAlternates,
    AlternatesUnmatched,
    AlternatesOfTheRow,
    AlternatesOnIdleNodes,
)
_BY_NAME: Final = {reading.__name__: reading for reading in (AsWritten, *READINGS)}


class Second(api.Backfill):
    """The reference as a part of a composition: it keeps everything in its memory, and asks the placement for nothing.

    ``reading``: a class of this module; ``paired``: with partners, a band, and alternates in it.
    """

    provides: api.Needs = frozenset({api.ROWS})
    needs: api.Needs = frozenset({api.THREADS, api.FIXED_RUN_TIMES, api.SLOTS})
    protocol_features: api.Needs = frozenset({"slots"})

    def __init__(self, *, reading: str = AsWritten.__name__, paired: bool = True) -> None:
        self._reading = _BY_NAME[reading]
        self._rules = Rules() if paired else Rules(matching="none", band=None, alternates="max")
        self._scheduler: AsWritten | None = None
        self._quanta: dict[int, int] = {}
        self._told: set[int] = set()

    def decide(self, context: api.Context) -> Iterator[api.Action]:
        """Take a step of the reference where a quantum has ended or no job can run."""
        view = context.view
        if view.quantum_ended or not _can_run(view):
            yield from self._step(view)

    def _step(self, view: api.View) -> Iterator[api.Action]:
        if self._scheduler is None:
            self._scheduler = self._reading(view.machine.nodes, self._rules)
        scheduler = self._scheduler
        measured = {
            job_id: Fraction(running.shares[0], PPM)
            for job_id, running in view.running.items()
            if running.quanta != self._quanta.get(job_id, 0)
        }
        self._quanta.update({job_id: view.running[job_id].quanta for job_id in measured})
        arrived = [job for job in view.queue if job.id not in self._told]
        self._told.update(job.id for job in arrived)
        ended = [job_id for job_id in scheduler.seats if job_id not in view.running]
        quantum = scheduler.step(measured, ended, [Job(job.id, job.processes) for job in arrived])
        for job_id, slot in scheduler.moves:
            yield api.ChangeSlot(job_id, slot)
        queued = {job.id: job for job in view.queue}
        for job_id in scheduler.placed:
            seat, job = scheduler.seats[job_id], queued[job_id]
            runs = tuple([api.Run(node, 1, api.ThreadMask(1), 1) for node in sorted(seat.nodes)])
            yield api.StartJob(job_id, runs, job.estimate_us, job.limit_us, seat.slot)
        if quantum is not None:
            slots = (quantum.row,) if quantum.partner is None else (quantum.row, quantum.partner)
            others = [slot for slot in scheduler.slots() if slot != quantum.row]
            yield api.SetRotation(
                view.quantum + 1, (api.Turn(slots, 1, quantum.guests), *[api.Turn((slot,)) for slot in others])
            )


def _can_run(view: api.View) -> bool:
    slots = {slot for turn in view.rotation.turns for slot in turn.slots}
    guests = {job_id for turn in view.rotation.turns for job_id in turn.guests}
    return any(running.slot in slots or job_id in guests for job_id, running in view.running.items())


def ends_of(
    programs: str, seed: int, policy: str, settings: Mapping[str, Any] = MappingProxyType({})
) -> dict[int, float]:
    """Return the response of each job, in seconds, of a run on 16 fluid nodes."""
    workload = {"lublin": JOBS, "run_factor": 1 / 40, "load": LOAD, "programs": programs}
    site = {"cluster": {"nodes": 16}, "time_sharing": {"nodes": "fluid"}, "workload": workload}
    jobs = simulate(site, policy, settings=settings, seed=seed).jobs
    return dict(zip(jobs.id.tolist(), (jobs.end_s - jobs.submit_s).tolist(), strict=True))


def second_ends(programs: str, seed: int, reading: str, *, paired: bool = True) -> dict[int, float]:
    """Return the same under the reference."""
    part = {"name": f"{__name__}:{Second.__name__}", "reading": reading, "paired": paired}
    return ends_of(programs, seed, "gang", {"backfill": part})


def _compare(case: tuple[str, str, int]) -> tuple[int, float]:
    reading, programs, seed = case
    ours, second = ends_of(programs, seed, "paired-gang"), second_ends(programs, seed, reading)
    differ = sum(ours[job_id] != second[job_id] for job_id in ours)
    return differ, sum(second.values()) / sum(ours.values())


def main(seeds: int) -> None:
    """Print a line for each reading."""
    for reading in (AsWritten, *READINGS):
        cells = []
        for programs in PROGRAMS:
            cases = [(reading.__name__, programs, seed) for seed in range(1, seeds + 1)]
            with ProcessPoolExecutor() as pool:
                found = [*pool.map(_compare, cases)]
            ratio = mean_interval([math.log(ratio) for _, ratio in found])
            mean, low, high = (math.exp(value) for value in (ratio.mean, ratio.low, ratio.high))
            cells.append(f"{sum(differ for differ, _ in found)} | {mean:.2f} ({low:.2f} to {high:.2f})")
        about = (reading.__doc__ or "").splitlines()[0]
        print(f"| {about} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
