"""Paired gang scheduling (Wiseman and Feitelson 2003, section 2), step by step: slow, with a memory, and in exact fractions.

It was written from the paper and from the rules that fill its gaps, with numbers in brackets: R for prediction, M for matching, S for
rows and alternates. A share is a part of the CPU, 1 is all of it. Nodes have one hardware thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

PPM = 1_000_000
WHOLE = Fraction(1)


# ---------------------------------------------------------------- prediction


def predicted(history: Sequence[Fraction], *, pad: bool = False) -> Fraction:
    """Return equation 1 for a job's history of means over its nodes, the oldest first, rounded down to millionths [R3, R4, R5]."""
    if not history:
        return WHOLE
    weights = [Fraction(5 - i, 10) for i in (1, 2, 3, 4)]
    latest = [min(share, WHOLE) for share in reversed(history)][:4]
    if pad:
        value = sum((w * (latest[i] if i < len(latest) else WHOLE) for i, w in enumerate(weights)), Fraction(0))
    else:
        used = weights[: len(latest)]
        value = sum((w * share for w, share in zip(used, latest, strict=True)), Fraction(0)) / sum(used)
    return Fraction(int(value * PPM), PPM)


# ---------------------------------------------------------------- matching


class Load(NamedTuple):
    """A row: its slot, and the largest predicted share of its jobs."""

    slot: int
    most: Fraction


def fit(x: Fraction, y: Fraction, margin: Fraction) -> bool:
    """Tell whether two rows may run together [M1, M2]."""
    return x + y + margin < 1


def figure_4(loads: Sequence[Load], margin: Fraction, *, mended: bool = True) -> dict[int, int]:
    """Return the partners of rows by figure 4; as printed, the row where the pointers meet gets none [M6, M7, M9]."""
    v = sorted(loads, key=lambda load: (load.most, load.slot))
    partner: dict[int, int] = {}

    def fits(a: int, b: int) -> bool:
        return fit(v[a].most, v[b].most, margin)

    def borrow(k: int, below: int) -> None:
        b = below - 1
        while b >= 0:
            if fits(b, k):
                partner[v[k].slot] = v[b].slot
                return
            b -= 1

    lo, hi = 0, len(v) - 1
    while lo < hi:
        while lo < hi and not fits(lo, hi):
            borrow(hi, lo)
            hi -= 1
        if lo < hi:
            partner[v[lo].slot] = v[hi].slot
            partner[v[hi].slot] = v[lo].slot
            lo += 1
            hi -= 1
    if mended and lo == hi:
        borrow(lo, lo)
    return partner


def best_fit(slot: int, loads: Sequence[Load], margin: Fraction) -> int | None:
    """Return the row with the highest share that fits; of ties the last one [M4]."""
    (own,) = [load for load in loads if load.slot == slot]
    fitting = [load for load in sorted(loads) if load.slot != slot and fit(own.most, load.most, margin)]
    highest = max((load.most for load in fitting), default=WHOLE)
    return next((load.slot for load in reversed(fitting) if load.most == highest), None)


# ---------------------------------------------------------------- the scheduler


class Job(NamedTuple):
    """A job that asks for nodes, one process on each."""

    id: int
    size: int
    unpaired: bool = False


class Rules(NamedTuple):
    """The settings."""

    matching: str = "predesigned"  # or printed, best-fit, blind, none
    margin: Fraction = Fraction(1, 100)
    band: Fraction | None = Fraction(20, 100)
    alternates: str = "band"  # or max, node, off
    second: bool = False
    place_fresh: str = "any"  # or band, new
    sharp_change: str = "off"  # or rise, any
    pad: bool = False
    compaction: bool = False
    rows: int = 0


class Quantum(NamedTuple):
    """What runs in a quantum: a row, its partner, and alternates in the order in which they were found."""

    row: int
    partner: int | None
    guests: tuple[int, ...]


@dataclass
class Seat:
    """A job in the matrix."""

    job: Job
    nodes: frozenset[int]
    slot: int
    history: list[Fraction] = field(default_factory=list)


@dataclass
class Scheduler:
    """A gang scheduler with a memory; `step` is called at the end of each quantum."""

    nodes: int
    rules: Rules
    seats: dict[int, Seat] = field(default_factory=dict)
    queue: list[Job] = field(default_factory=list)
    partner: dict[int, int] = field(default_factory=dict)
    last: int = -1  # the row that had the last turn
    ran: Sequence[int] = ()  # what ran in the last quantum
    known: set[int] = field(
        default_factory=set
    )  # rows of the rotation, or partners in it: new rows have other numbers [M11]
    moves: list[tuple[int, int]] = field(default_factory=list)

    # ------------------------------------------------------------ words

    def share(self, job_id: int) -> Fraction:
        return predicted(self.seats[job_id].history, pad=self.rules.pad)

    def fresh(self, job_id: int) -> bool:
        return not self.seats[job_id].history

    def row(self, slot: int) -> list[int]:
        return sorted(job_id for job_id, seat in self.seats.items() if seat.slot == slot)

    def slots(self) -> list[int]:
        return sorted({seat.slot for seat in self.seats.values()})

    def most(self, jobs: Sequence[int]) -> Fraction:
        return max(self.share(job_id) for job_id in jobs)

    def idle(self, slot: int) -> set[int]:
        return set(range(self.nodes)) - {node for job_id in self.row(slot) for node in self.seats[job_id].nodes}

    def may_pair(self, slot: int) -> bool:
        return not any(self.seats[job_id].job.unpaired for job_id in self.row(slot))  # [M8]

    def fit(self, x: Fraction, y: Fraction) -> bool:
        return self.rules.matching == "blind" or (self.rules.matching != "none" and fit(x, y, self.rules.margin))

    def in_band(self, job_id: int, jobs: Sequence[int]) -> bool:
        """Tell whether the band of the measured ones of ``jobs`` stays with this job; there is none for fresh jobs [S2, S4]."""
        band = self.rules.band
        measured = [self.share(other) for other in jobs if not self.fresh(other)]
        if band is None or self.fresh(job_id) or not measured:
            return True
        return self.share(job_id) < min(measured) + band and max(measured) < self.share(job_id) + band

    def new_slot(self) -> int | None:
        slots = self.slots()
        if self.rules.rows and len(slots) >= self.rules.rows:
            return None
        return next(slot for slot in range(10_000) if slot not in slots and slot not in self.known)

    # ------------------------------------------------------------ a step

    def step(self, measured: Mapping[int, Fraction], ended: Sequence[int], arrived: Sequence[Job]) -> Quantum | None:
        """Return what runs next; ``measured``: the shares of the last quantum."""
        self.moves = []
        for job_id in ended:
            self.seats.pop(job_id, None)
        for job_id in sorted(measured):
            if job_id in self.seats:
                self._learn(self.seats[job_id], measured[job_id])
        self.queue += arrived
        if not self.seats:  # an idle machine begins anew
            self.last, self.ran, self.known, self.partner = -1, (), set(), {}
        if self.rules.band is not None:
            self._leave_rows()
        if self.rules.compaction:
            self._unify()
        self._place()
        return self._next() if self.seats else None

    def _learn(self, seat: Seat, share: Fraction) -> None:
        """Add a measured share; a sharp change empties the history [R9]."""
        before = seat.history[-1] if seat.history else None
        seat.history.append(share)
        if before is None or self.rules.sharp_change == "off":
            return
        change = share - before
        if change > Fraction(20, 100) or (self.rules.sharp_change == "any" and -change > Fraction(20, 100)):
            seat.history.clear()

    def _leave_rows(self) -> None:
        """Remove jobs from rows in whose band they are not [S1, S2]."""
        assert self.rules.band is not None
        removed = []
        for slot in self.slots():
            measured = [job_id for job_id in self.row(slot) if not self.fresh(job_id)]
            for job_id in measured:
                least = min(self.share(other) for other in measured)
                if job_id in self.ran and not self.share(job_id) < least + self.rules.band:
                    removed.append(job_id)
        for job_id in removed:
            self._to_first(job_id)

    def _to_first(self, job_id: int) -> None:
        seat = self.seats[job_id]
        for slot in self.slots():
            if slot != seat.slot and seat.nodes <= self.idle(slot) and self.in_band(job_id, self.row(slot)):
                self._to(job_id, slot)
                return
        slot_or_none = self.new_slot()
        if slot_or_none is not None:
            self._to(job_id, slot_or_none)

    def _to(self, job_id: int, slot: int) -> None:
        self.seats[job_id].slot = slot
        self.moves.append((job_id, slot))

    def _unify(self) -> None:
        """Dissolve rows all of whose jobs have a place in others, the last row first [S9]."""
        for slot in reversed(self.slots()):
            before = dict.fromkeys(self.row(slot), slot)
            made: list[tuple[int, int]] = []
            for job_id in before:
                seat = self.seats[job_id]
                places = [
                    other
                    for other in self.slots()
                    if other != slot and seat.nodes <= self.idle(other) and self.in_band(job_id, self.row(other))
                ]
                if not places:
                    break
                seat.slot = places[0]
                made.append((job_id, places[0]))
            if len(made) == len(before):
                self.moves += made
            else:
                for job_id, _ in made:
                    self.seats[job_id].slot = slot

    def _place(self) -> None:
        """Put new jobs into rows, on the lowest idle nodes; the order of the queue is kept [S4, S10, S11]."""
        while self.queue:
            job = self.queue[0]
            place = self._place_for(job)
            if place is None:
                return
            self.queue.pop(0)
            nodes = sorted(self.idle(place))[: job.size]
            self.seats[job.id] = Seat(job, frozenset(nodes), place)

    def _place_for(self, job: Job) -> int | None:
        for slot in self.slots():
            shares = [self.share(other) for other in self.row(slot) if not self.fresh(other)]
            band = self.rules.band
            admitted = self.rules.place_fresh == "any" or (
                self.rules.place_fresh == "band"
                and (band is None or not shares or (min(shares) + band > 1 and max(shares) < 1 + band))
            )
            if admitted and len(self.idle(slot)) >= job.size:
                return slot
        return self.new_slot() if job.size <= self.nodes else None

    # ------------------------------------------------------------ the next quantum

    def _next(self) -> Quantum:
        slots = self.slots()
        self.known = set(slots)
        alive = {slot for slot in slots if self.may_pair(slot)}
        self.partner = {row: other for row, other in self.partner.items() if {row, other} <= alive}
        later = [slot for slot in slots if slot > self.last]
        begins = not later or self.last < 0
        order = [*later, *(slot for slot in slots if slot <= self.last)] if later else slots
        loads = [Load(slot, self.most(self.row(slot))) for slot in slots if self.may_pair(slot)]
        if begins:
            self.partner = self._matched(loads)  # [M6]
        row = order[0]
        chosen = self.partner.get(row)
        if self.rules.matching == "best-fit":
            chosen = best_fit(row, loads, self.rules.margin) if self.may_pair(row) else None
        if chosen is not None and not self._still_fits(row, chosen):  # [M11]
            chosen = None
        guests = self._alternates(row, chosen, order)
        self.last = row
        self.ran = [*self.row(row), *(self.row(chosen) if chosen is not None else ()), *guests]
        return Quantum(row, chosen, guests)

    def _matched(self, loads: Sequence[Load]) -> dict[int, int]:
        if self.rules.matching in ("predesigned", "printed"):
            return figure_4(loads, self.rules.margin, mended=self.rules.matching == "predesigned")
        if self.rules.matching == "blind" and len(loads) > 1:
            return {load.slot: loads[(place + 1) % len(loads)].slot for place, load in enumerate(loads)}
        return {}

    def _still_fits(self, row: int, partner: int) -> bool:
        if partner not in self.slots() or not self.may_pair(row) or not self.may_pair(partner):
            return False
        return self.fit(self.most(self.row(row)), self.most(self.row(partner)))

    # ------------------------------------------------------------ alternates

    def _alternates(self, row: int, partner: int | None, order: Sequence[int]) -> tuple[int, ...]:
        """Return the jobs of other rows that run too, in the order in which rows come next [S5, S6, S7, S8]."""
        if self.rules.alternates == "off":
            return ()
        first = self.row(row)
        second = self.row(partner) if partner is not None else []
        layers = [first, second] if partner is not None or self.rules.second else [first]
        taken: list[int] = []
        candidates = [job_id for slot in order[1:] if slot != partner for job_id in self.row(slot)]
        admit: Callable[[int, list[list[int]]], int | None]
        admit = self._by_node if self.rules.alternates == "node" else self._by_layer
        for job_id in candidates:
            place = admit(job_id, layers)
            if place is not None:
                layers[place].append(job_id)
                taken.append(job_id)
        return tuple(taken)

    def _here(self, node: int, layers: Sequence[Sequence[int]]) -> list[int]:
        return [job_id for layer in layers for job_id in layer if node in self.seats[job_id].nodes]

    def _stays_alone(self, job_id: int, layers: Sequence[Sequence[int]]) -> bool:
        """Tell whether no job that is never paired gets company."""
        there = {other for node in self.seats[job_id].nodes for other in self._here(node, layers)}
        return not there or not (
            self.seats[job_id].job.unpaired or any(self.seats[other].job.unpaired for other in there)
        )

    def _by_layer(self, job_id: int, layers: list[list[int]]) -> int | None:
        if not self._stays_alone(job_id, layers):
            return None
        for place, layer in enumerate(layers):
            held = {node for other in layer for node in self.seats[other].nodes}
            if held & self.seats[job_id].nodes:
                continue
            if self.rules.alternates == "band" and not self.in_band(job_id, layer):
                continue
            beside = layers[1 - place] if len(layers) > 1 else []
            if beside and not self.fit(self.most([*layer, job_id]), self.most(beside)):
                continue
            return place
        return None

    def _by_node(self, job_id: int, layers: list[list[int]]) -> int | None:
        if not self._stays_alone(job_id, layers):
            return None
        for node in self.seats[job_id].nodes:
            here = self._here(node, layers)
            if len(here) >= len(layers):
                return None
            if any(not self.fit(self.share(job_id), self.share(other)) for other in here):
                return None
        return 0
