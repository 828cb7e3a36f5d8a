"""Which rows run together (paired gang paper, section 2.4): two rows may if their CPU shares and a margin leave the CPU some time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from cosched_plugin.api import NONE, PAIRS, ROWS, WHOLE_PPM, Needs, Pairing, RowLoad


class NoPairing(Pairing):
    """Every row runs alone: strict gang scheduling."""

    alone: ClassVar[bool] = True
    provides: ClassVar[Needs] = NONE

    def fits(self, one_ppm: int, other_ppm: int) -> bool:
        """Tell that no two jobs run on one hardware thread."""
        return False

    def partners(self, rows: Sequence[RowLoad], of: Collection[int]) -> Mapping[int, int]:
        """Return nothing."""
        return {}


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
