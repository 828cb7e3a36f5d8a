"""Which rows run together (paired gang paper, section 2.4): two rows may if their CPU shares and a margin leave the CPU some time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Final

from cosched_plugin.api import PAIRS, ROWS, WHOLE_PPM, Needs, Pairing, RowLoad
from cosched_plugin.policies.gang.matrix import Band, Cell, Row, band_of, in_band
from cosched_plugin.policies.turns import Room


class Blind(Pairing):
    """Every row runs beside the next one, whatever the jobs are like."""

    needs: ClassVar[Needs] = frozenset({ROWS})
    provides: ClassVar[Needs] = frozenset({PAIRS})

    def fits(self, one_ppm: int, other_ppm: int) -> bool:
        """Tell that any two jobs may share a hardware thread."""
        return True

    def partners(self, rows: Sequence[RowLoad], of: Collection[int]) -> Mapping[int, int]:
        """Return, for each row, the one after it."""
        slots = [row.slot for row in rows]
        return dict(zip(slots, [*slots[1:], slots[0]], strict=True)) if len(slots) > 1 else {}


class _ByShare(Pairing):
    """Pairs of rows whose largest shares and the margin sum up to less than the whole CPU.

    ``margin``: in points, parts of a hundred of the CPU.
    """

    needs: ClassVar[Needs] = frozenset({ROWS})
    provides: ClassVar[Needs] = frozenset({PAIRS})

    def __init__(self, *, margin: float = 1.0) -> None:
        self._below_ppm = WHOLE_PPM - round(margin * (WHOLE_PPM / 100))

    @property
    def below_ppm(self) -> int:
        """Return the whole CPU without the margin."""
        return self._below_ppm

    def fits(self, one_ppm: int, other_ppm: int) -> bool:
        """Tell whether the two and the margin leave the CPU some time."""
        # Sections 2.4 and 2.5: max(x) + max(y) + m < 100 %.
        return one_ppm + other_ppm < self._below_ppm


class BestFit(_ByShare):
    """When a row's turn comes: the row with the highest share that fits; of equal ones, the last."""

    each_turn: ClassVar[bool] = True

    def partners(self, rows: Sequence[RowLoad], of: Collection[int]) -> Mapping[int, int]:
        """Return the best partner of each row of ``of``."""
        found: dict[int, int] = {}
        for slot, most_ppm in rows:
            if slot not in of:
                continue
            best_ppm = -1
            for other, other_ppm in rows:
                # Section 2.4: "if several jobs tie as the best match, the last one will always be chosen".
                if other_ppm >= best_ppm and other != slot and self.fits(most_ppm, other_ppm):
                    found[slot] = other
                    best_ppm = other_ppm
        return found


class Predesigned(_ByShare):
    """When a round begins: rows are sorted by share and matched from both ends (figure 4), so that most get a partner of their own.

    A row that fits none of the unmatched ones runs beside a matched one, which keeps its own partner. As printed, the loop
    leaves out the row at which its two ends meet; here that row is offered a matched partner too.
    """

    mended: ClassVar[bool] = True

    def partners(self, rows: Sequence[RowLoad], of: Collection[int]) -> Mapping[int, int]:
        """Return the partners of all rows."""
        ranked = sorted([(most_ppm, slot) for slot, most_ppm in rows])
        found: dict[int, int] = {}
        low, high = 0, len(ranked) - 1
        while low < high:
            lightest_ppm, lightest = ranked[low]
            heaviest_ppm, heaviest = ranked[high]
            if self.fits(lightest_ppm, heaviest_ppm):
                found[lightest] = heaviest
                found[heaviest] = lightest
                low += 1
            else:
                self._borrow(ranked, low, high, found)
            high -= 1
        if low == high and self.mended:
            self._borrow(ranked, low, low, found)
        return found

    def _borrow(self, ranked: Sequence[tuple[int, int]], matched: int, place: int, found: dict[int, int]) -> None:
        """Give the row at ``place`` the heaviest of the first ``matched`` rows that fits it."""
        most_ppm, slot = ranked[place]
        for other_ppm, other in reversed(ranked[:matched]):
            if self.fits(other_ppm, most_ppm):
                found[slot] = other
                return


class Printed(Predesigned):
    """The same, as printed: the row at which the two ends of the sorted rows meet runs alone."""

    mended: ClassVar[bool] = False


# Alternates: jobs of other rows on what a turn leaves idle (paired gang paper, section 2.6).
#
# A turn has a layer for its row, and a second one for the partner. A hardware thread that a layer leaves idle may take a job of
# another row: so one process of each layer at most is on a thread.

# Values of the setting `alternates`.
OFF: Final = "off"
BAND: Final = "band"  # within the band of their layer, and as MOST: as printed
MOST: Final = "max"  # the largest shares of the two layers still fit
NODE: Final = "node"  # what is on the same thread fits
ALTERNATES: Final = (MOST, BAND, NODE, OFF)
Fits = Callable[[int, int], bool]


class Layer:
    """Jobs of a turn that exclude each other: one at most on a hardware thread."""

    __slots__ = ("band", "held", "most_ppm")

    def __init__(self, cells: Iterable[Cell]) -> None:
        cells = list(cells)
        self.held = 0  # threads
        for cell in cells:
            self.held |= cell.threads
        self.most_ppm = max([cell.share_ppm for cell in cells], default=-1)  # -1: the layer is empty
        self.band = band_of(cells)

    def take(self, cell: Cell) -> None:
        """Put an alternate into the layer."""
        share_ppm, band = cell.share_ppm, self.band
        self.held |= cell.threads
        self.most_ppm = max(self.most_ppm, share_ppm)
        if cell.measured:
            self.band = (
                Band(share_ppm, share_ppm)
                if band is None
                else Band(min(band.least_ppm, share_ppm), max(band.most_ppm, share_ppm))
            )


class Company:
    """Where jobs of a turn may have others on their nodes: nowhere, if one of them is never paired."""

    __slots__ = ("closed", "nodes")

    def __init__(self, cells: Iterable[Cell]) -> None:
        self.nodes = 0
        self.closed = 0  # nodes of jobs that are never paired
        for cell in cells:
            self.take(cell)

    def admits(self, cell: Cell) -> bool:
        """Tell whether a job of another row may run where it is."""
        return not cell.nodes & (self.nodes if cell.unpaired else self.closed)

    def take(self, cell: Cell) -> None:
        """Count a job."""
        self.nodes |= cell.nodes
        if cell.unpaired:
            self.closed |= cell.nodes


def alternates(
    row: Row, partner: Row | None, candidates: Iterable[Cell], rule: str, fits: Fits, width_ppm: int, *, second: bool
) -> tuple[int, ...]:
    """Return the candidates, tried in their order, that run in the turn of ``row`` and ``partner``, by job id.

    ``second``: the second layer may be filled even if there is no partner. ``fits`` is that of the pairing.
    """
    besides = [] if partner is None else partner.members
    if rule == OFF:
        return ()
    if rule == NODE:
        return _by_thread([*row.members, *besides], candidates, fits, most=2 if second or besides else 1)
    layers = [Layer(row.members)]
    if second or besides:
        layers.append(Layer(besides))
    company = Company([*row.members, *besides])
    return _by_layer(layers, company, candidates, fits, width_ppm if rule == BAND else 0)


def _by_layer(
    layers: list[Layer], company: Company, candidates: Iterable[Cell], fits: Fits, width_ppm: int
) -> tuple[int, ...]:
    """Take each candidate into the first layer that leaves its threads idle and admits it."""
    taken: list[int] = []
    full = layers[0].held & layers[-1].held  # threads that no layer leaves idle
    for cell in candidates:
        if cell.threads & full or not company.admits(cell):
            continue
        for place, layer in enumerate(layers):
            if cell.threads & layer.held or not in_band(cell, layer.band, width_ppm):
                continue
            other_ppm = layers[1 - place].most_ppm if len(layers) > 1 else -1
            if other_ppm >= 0 and not fits(max(cell.share_ppm, layer.most_ppm), other_ppm):
                continue
            layer.take(cell)
            company.take(cell)
            full = layers[0].held & layers[-1].held
            taken.append(cell.job_id)
            break
    return tuple(taken)


def _by_thread(there: list[Cell], candidates: Iterable[Cell], fits: Fits, *, most: int) -> tuple[int, ...]:
    """Take each candidate where its threads have fewer than ``most`` processes, and all of these go with it."""
    taken: list[int] = []
    company, room = Company(there), Room(most)
    for cell in there:
        room.take(cell.threads)
    for cell in candidates:
        if not room.admits(cell.threads) or not company.admits(cell):
            continue
        if cell.threads & room.once and not all(
            fits(cell.share_ppm, other.share_ppm) for other in there if cell.threads & other.threads
        ):
            continue
        there.append(cell)
        company.take(cell)
        room.take(cell.threads)
        taken.append(cell.job_id)
    return tuple(taken)
