"""The pairing: which rows of the matrix of gang scheduling run together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from cosched_plugin.parts.part import Part


class RowLoad(NamedTuple):
    """A row as a pairing sees it."""

    slot: int
    most_ppm: int  # the largest CPU share that is predicted for a job of the row, in millionths


class Pairing(Part, Protocol):
    """Chooses the rows that run beside others. Two jobs at most are then on a hardware thread, one of each row."""

    @property
    def alone(self) -> bool:
        """Tell whether every row runs alone, so that nothing need be predicted."""
        return False

    @property
    def each_turn(self) -> bool:
        """Tell whether a row's partner is chosen when its turn comes; otherwise all partners are chosen when a round begins."""
        return False

    @property
    def below_ppm(self) -> int | None:
        """Return the bound below which the CPU shares of two jobs on a thread must sum up, for the trace; None: there is none."""
        return None

    @abstractmethod
    def fits(self, one_ppm: int, other_ppm: int) -> bool:
        """Tell whether jobs with these CPU shares may run on the same hardware thread."""
        ...

    @abstractmethod
    def partners(self, rows: Sequence[RowLoad], of: Collection[int]) -> Mapping[int, int]:
        """Return the partners of the rows ``of``, slot by slot; a row may be the partner of several.

        ``rows`` are all rows that may be paired, in ascending order of slots. Rows without a partner are left out.
        """
        ...
