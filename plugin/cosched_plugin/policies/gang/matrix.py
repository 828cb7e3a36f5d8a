"""The matrix of gang scheduling (Ousterhout 1982): rows are slots, columns are hardware threads, jobs never change columns."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cosched_plugin.api import NodeSet, Running, View, any_layer, predict, side_by_side
from cosched_plugin.policies.turns import Members


class Cell(NamedTuple):
    """A running job in the matrix."""

    job_id: int
    threads: int  # its columns: bit ``k * nodes + n`` is hardware thread ``k`` of node ``n``
    nodes: NodeSet
    share_ppm: int  # the CPU share that is predicted for it, in millionths
    measured: bool  # it has been measured: its share is no mere assumption
    unpaired: bool  # no job of another row may run on its nodes in the same quantum


class Band(NamedTuple):
    """The range of the measured shares of jobs that run together; a job that has not been measured is in every band."""

    least_ppm: int
    most_ppm: int

    def admits(self, share_ppm: int, width_ppm: int) -> bool:
        """Tell whether the range stays below ``width_ppm`` with a job of this share."""
        return share_ppm < self.least_ppm + width_ppm and self.most_ppm < share_ppm + width_ppm


class Row(Members[Cell]):
    """The jobs of one slot, by id, and their threads."""

    __slots__ = ("_band", "_most_ppm", "slot", "unpaired")

    def __init__(self, slot: int, cells: Iterable[Cell] = ()) -> None:
        super().__init__(sorted(cells))
        self.slot = slot
        self._count()

    def _count(self) -> None:
        held = 0
        unpaired = False
        for cell in self.members:
            held |= cell.threads
            unpaired = unpaired or cell.unpaired
        self.held = held
        self.unpaired = unpaired  # it holds a job that is never paired
        self._most_ppm = -1  # a cache, as `_band`; -1: unknown
        self._band: Band | None = None

    def add(self, cell: Cell) -> None:
        """Enter a job."""
        insort(self.members, cell)
        self._count()

    def remove(self, cell: Cell) -> None:
        """Take a job out."""
        self.members.remove(cell)
        self._count()

    def replace(self, cell: Cell, by: Cell) -> None:
        """Enter a job with another share."""
        self.members[self.members.index(cell)] = by
        self._most_ppm = -1
        self._band = None

    @property
    def most_ppm(self) -> int:
        """Return the largest predicted share of its jobs."""
        if self._most_ppm < 0:
            self._most_ppm = max([cell.share_ppm for cell in self.members])
        return self._most_ppm

    @property
    def band(self) -> Band | None:
        """Return the range of the shares of its measured jobs; None where there is none."""
        if self._band is None:
            self._band = band_of(self.members)
        return self._band


def band_of(cells: Iterable[Cell]) -> Band | None:
    """Return the range of the shares of those jobs that have been measured; None where there is none."""
    shares_ppm = [cell.share_ppm for cell in cells if cell.measured]
    return Band(min(shares_ppm), max(shares_ppm)) if shares_ppm else None


class Matrix:
    """All rows with a job, and what may be put where."""

    __slots__ = ("_slot_of", "cells", "rows", "up", "version")

    def __init__(self, version: int = 0) -> None:
        self.rows: dict[int, Row] = {}
        self.cells: dict[int, Cell] = {}  # by job
        self.version = version  # changes whenever jobs come, go or change their rows
        self.up = -1  # the threads of nodes in service; a job on another node stays in its row
        self._slot_of: dict[int, int] = {}

    def slot_of(self, job_id: int) -> int:
        """Return the slot of a job."""
        return self._slot_of[job_id]

    @property
    def any_unpaired(self) -> bool:
        """Tell whether a job of it is never paired."""
        return any(row.unpaired for row in self.rows.values())

    def slots(self) -> Sequence[int]:
        """Return the slots with a job, ascending."""
        return sorted(self.rows)

    def enter(self, cell: Cell, slot: int) -> None:
        """Put a job that is not in the matrix into a row."""
        self.version += 1
        row = self.rows.get(slot)
        if row is None:
            self.rows[slot] = Row(slot, (cell,))
        else:
            row.add(cell)
        self.cells[cell.job_id] = cell
        self._slot_of[cell.job_id] = slot

    def leave(self, job_id: int) -> None:
        """Take a job out; a row without a job vanishes."""
        self.version += 1
        slot = self._slot_of.pop(job_id)
        row = self.rows[slot]
        row.remove(self.cells.pop(job_id))
        if not row.members:
            del self.rows[slot]

    def move(self, cell: Cell, slot: int) -> None:
        """Put a job into another row, in the same columns."""
        self.leave(cell.job_id)
        self.enter(cell, slot)

    def update(self, cell: Cell, share_ppm: int, *, measured: bool) -> None:
        """Set another share of a job."""
        job_id, threads, nodes, _, _, unpaired = cell
        after = Cell(job_id, threads, nodes, share_ppm, measured, unpaired)
        self.rows[self._slot_of[job_id]].replace(cell, after)
        self.cells[job_id] = after

    def unused(self, taken: Iterable[int], most: int) -> int | None:
        """Return the lowest slot without a job that is not among ``taken``; None where there are ``most`` rows already."""
        if len(self.rows) >= most:
            return None
        used = {*self.rows, *taken}
        slot = 0
        while slot in used:
            slot += 1
        return slot

    def place_for(self, cell: Cell, width_ppm: int, *, but: int, among: Mapping[int, Row] | None = None) -> int | None:
        """Return the first row, other than slot ``but``, in which the columns of a job are free and the band stays narrow.

        ``width_ppm``: what a band must stay below, 0: bands do not matter.
        """
        rows = self.rows if among is None else among
        if cell.threads & ~self.up:
            return None
        for slot in sorted(rows):
            row = rows[slot]
            if slot != but and not row.held & cell.threads and in_band(cell, row.band, width_ppm):
                return slot
        return None


def in_band(cell: Cell, band: Band | None, width_ppm: int) -> bool:
    """Tell whether a job may be among jobs of this band: it has not been measured, or none of them has, or the band stays narrow."""
    return not width_ppm or band is None or not cell.measured or band.admits(cell.share_ppm, width_ppm)


class Move(NamedTuple):
    """A job that changes its row; its columns stay."""

    cell: Cell
    slot: int  # where it goes
    out_of: int


def out_of_band(matrix: Matrix, ran: Collection[int], width_ppm: int) -> list[Cell]:
    """Return the jobs, of those that ``ran`` and have been measured, that need far more CPU than another one of their row.

    By row, and by id within it (paired gang paper, section 2.5). A job that needs far less stays: it is the measure.
    """
    found: list[Cell] = []
    for slot in sorted({matrix.slot_of(job_id) for job_id in ran}):
        row = matrix.rows[slot]
        band = row.band
        if band is None or band.most_ppm < band.least_ppm + width_ppm:
            continue
        for cell in row.members:
            far = cell.measured and cell.share_ppm >= band.least_ppm + width_ppm
            if far and cell.job_id in ran and not cell.threads & ~matrix.up:
                found.append(cell)
    return found


def band_moves(
    matrix: Matrix, ran: Collection[int], width_ppm: int, new_slot: Callable[[], int | None]
) -> Iterator[Move]:
    """Move each job that is out of its row's band to the first row that takes it, else to a new one; ``matrix`` changes.

    Where there is no place for another row, it stays.
    """
    for cell in out_of_band(matrix, ran, width_ppm):
        out_of = matrix.slot_of(cell.job_id)
        slot = matrix.place_for(cell, width_ppm, but=out_of)
        if slot is None:
            slot = new_slot()
        if slot is not None:
            matrix.move(cell, slot)
            yield Move(cell, slot, out_of)


def compaction(matrix: Matrix, width_ppm: int) -> Iterator[Move]:
    """Dissolve rows all of whose jobs have a place in other rows, the last row first; ``matrix`` changes."""
    for slot in reversed(matrix.slots()):
        row = matrix.rows[slot]
        places = _places_elsewhere(row, matrix, width_ppm)
        for cell, place in zip(list(row.members), places, strict=True) if places else ():
            matrix.move(cell, place)
            yield Move(cell, place, slot)


def _places_elsewhere(row: Row, matrix: Matrix, width_ppm: int) -> list[int]:
    """Return a place in other rows for each job of a row; nothing if one of them has none."""
    others = {slot: other for slot, other in matrix.rows.items() if slot != row.slot}
    places: list[int] = []
    for cell in row.members:
        place = matrix.place_for(cell, width_ppm, but=row.slot, among=others)
        if place is None:
            return []
        others[place] = Row(place, (*others[place].members, cell))  # as it will be
        places.append(place)
    return places


# Which of its last shares predict that of a job's next quantum (paired gang paper, section 2.3); how: `predict` of the api.

SHARP_PPM: Final = 200_000  # a larger change from one quantum to the next is sharp (section 4.2.3)
# Values of the setting `sharp_change`: the changes after which a job's history is given up.
OFF: Final = "off"
RISE: Final = "rise"  # as proposed in section 2.3
ANY: Final = "any"  # as in the experiment of section 4.2.3
SHARP_CHANGES: Final = (OFF, RISE, ANY)


def counted(shares: Sequence[int], quanta: int, since: int) -> Sequence[int]:
    """Return the shares that count, of a job whose history begins after its quantum number ``since`` (0: with the first one)."""
    return shares[: max(0, quanta - since)] if since else shares


def is_sharp(shares: Sequence[int], changes: str) -> bool:
    """Tell whether the share of the last quantum differs so much from the one before that the history says nothing.

    ``shares`` are those that count: so the quantum that a job has to itself afterwards is not compared with an earlier one.
    """
    if len(shares) < 2 or changes == OFF:
        return False
    rise = shares[0] - shares[1]
    return rise > SHARP_PPM or (changes == ANY and -rise > SHARP_PPM)


# The matrix as the manager's facts have it: which running jobs are in which slots, and what is predicted of them.

NOTE: Final = "fresh"  # of a job whose share changed sharply: its number of quanta then; its history begins after these


class Reader:
    """Keeps a matrix up to date: a cache, in which only the jobs that have changed since it was last read are read again."""

    __slots__ = ("_pad", "_seen", "_view", "matrix")

    def __init__(self, *, pad: bool) -> None:
        """``pad``: missing quanta count as whole ones (`prediction.predict`)."""
        self._pad = pad
        self._view: View | None = None
        self._seen: dict[int, Running] = {}
        self.matrix = Matrix()

    def read(self, view: View) -> tuple[Matrix, Sequence[Running]]:
        """Return the matrix, which the caller may change as it changes the view, and the jobs that have changed, by id."""
        if self._view is not view:
            self._view = view
            self._seen = {}
            self.matrix = Matrix(self.matrix.version + 1)
        seen, running, matrix = self._seen, view.running, self.matrix
        changed = [now for job_id, now in running.items() if seen.get(job_id) is not now]
        changed.sort(key=lambda running: running.job.id)
        for now in changed:
            self.enter(now, view)
        if len(seen) > len(running):
            for job_id in [job_id for job_id in seen if job_id not in running]:
                del seen[job_id]
                if job_id in matrix.cells:
                    matrix.leave(job_id)
        matrix.up = side_by_side(view.in_service, view.machine.nodes)
        return matrix, changed

    def enter(self, now: Running, view: View) -> None:
        """Enter a running job, or what has changed about it; a job on disk has no place in the matrix."""
        matrix, job_id = self.matrix, now.job.id
        before = self._seen.get(job_id)
        self._seen[job_id] = now
        if job_id in matrix.cells:
            assert before is not None
            if before.joined == now.joined and matrix.slot_of(job_id) == now.slot and not now.on_disk:
                self.renew(now, view)
                return
            matrix.leave(job_id)
        if not now.on_disk:
            matrix.enter(self._cell_of(now, view), now.slot)

    def renew(self, running: Running, view: View) -> None:
        """Predict the share of a job anew."""
        cell = self.matrix.cells.get(running.job.id)
        if cell is not None:
            shares = shares_of(running, view)
            share_ppm = predict(shares, pad=self._pad)
            if (share_ppm, bool(shares)) != (cell.share_ppm, cell.measured):
                self.matrix.update(cell, share_ppm, measured=bool(shares))

    def _cell_of(self, running: Running, view: View) -> Cell:
        shares = shares_of(running, view)
        nodes = any_layer(running.layers)
        unpaired = running.job.unpaired
        return Cell(running.job.id, running.joined, nodes, predict(shares, pad=self._pad), bool(shares), unpaired)


def shares_of(running: Running, view: View) -> Sequence[int]:
    """Return the shares of a job's last quanta that count, the newest first."""
    since = view.note(running.job.id, NOTE)
    return counted(running.shares, running.quanta, since) if isinstance(since, int) else running.shares
