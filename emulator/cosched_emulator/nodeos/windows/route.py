"""The way of one process through its program, on which whole iterations can be left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cosched_emulator.nodeos.programs import Operation


class Route:
    """The operations of a process, one iteration after the other.

    ``parts`` has, for each loop, the number of the first iteration after it (counted through all loops), its body, and the
    points of an iteration (`Extent`).
    """

    __slots__ = ("_parts", "_skips", "iteration", "points")

    def __init__(self, parts: Sequence[tuple[int, tuple[Operation, ...], int]]) -> None:
        self._parts = parts
        self._skips: list[tuple[int, int]] = []  # ranges of iterations that are left out, the next one first
        self.iteration = -1  # that it carries out; -1: it has not begun
        self.points = 0  # of iterations that it has begun

    @property
    def next(self) -> int:
        """Return the number of the next iteration that is not left out."""
        return self._skips[-1][1] if self._skips else self.iteration + 1

    def skip(self, first: int, past: int) -> None:
        """Leave out the iterations from ``first`` to before ``past``; ``first`` is `next` or later."""
        self._skips.append((first, past))

    def operations(self) -> Iterator[Operation]:
        """Yield what is to do, as far as the next iteration has not been left out by then."""
        number = 0
        for past, body, points in self._parts:
            while True:
                while self._skips and number >= self._skips[0][0]:
                    number = self._skips.pop(0)[1]
                if number >= past:
                    break
                self.iteration = number
                self.points += points
                yield from body
                number += 1
