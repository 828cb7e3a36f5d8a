"""Alternates: jobs of other rows on what a turn leaves idle (paired gang paper, section 2.6).

A turn has a layer for its row, and a second one for the partner. A hardware thread that a layer leaves idle may take a job of
another row: so one process of each layer at most is on a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from cosched_plugin.policies.gang.matrix import Band, Cell, Row, band_of, in_band
from cosched_plugin.policies.turns.room import Room

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
