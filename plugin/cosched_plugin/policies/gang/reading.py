"""The matrix as the manager's facts have it: which running jobs are in which slots, and what is predicted of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cosched_plugin.api import Running, View, any_layer, predict, side_by_side
from cosched_plugin.policies.gang.matrix import Cell, Matrix
from cosched_plugin.policies.gang.prediction import counted

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
        changed.sort(key=_by_id)
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


def _by_id(running: Running) -> int:
    return running.job.id
