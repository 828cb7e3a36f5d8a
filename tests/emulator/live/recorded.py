"""A live manager without sockets, with a journal from which it comes back."""
# Under 60 lines: begin times and damages are tests of two files.

from __future__ import annotations

import weakref
from pathlib import Path

from tests.emulator.parts import manager, node_class

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.live.journal import command_step, restore
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.contended_nodes import NoContention
from cosched_emulator.users.requests import Request, Requester

SECOND = 1_000_000
ROOT = Requester("root", operator=True)


class Recorded:
    """A live manager with a journal, from which it is restored after a kill."""

    def __init__(self, path: Path) -> None:
        """Begin, or go on from a database that exists."""
        self.path = str(path)
        exists = path.exists()
        self.books = Accounting.open(self.path) if exists else Accounting.create(self.path, {"kind": "live"})
        self.live = self._manager()
        if exists:
            try:
                restore(self.live, self.books)
            except BaseException:
                self.books.close()
                raise

    def _manager(self) -> LiveManager:
        inner = manager(node_class(2, 4, memory_mb=1000), model=NoContention())
        return LiveManager(inner, Agenda(inner), 1, self.books.ended_state, self.books.tasks)

    def do(self, request: Request, at_s: int, who: Requester = ROOT) -> None:
        self.books.append(command_step(at_s * SECOND, who, request), durable=True)
        self.live.command(at_s * SECOND, who, request)
        self.books.record(self.live.drain())

    def kill(self) -> None:
        """Forget everything that is not on disk, including the results of the last steps."""
        self.books._buffer.clear()
        self.books.close()
        self.books = Accounting.open(self.path)
        self.live = self._manager()
        weakref.finalize(self.books, self.books._connection.close)
        restore(self.live, self.books)
