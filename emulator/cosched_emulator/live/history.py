"""The part of a journal that a restart did not play: another process plays it meanwhile, and says whether the history is whole."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from typing import Final

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.accounting.file import Database, connect
from cosched_emulator.errors import EmulatorError
from cosched_emulator.live.journal import restore
from cosched_emulator.live.live_manager import LiveManager

READY_S: Final = 10.0  # until the other process has its own view of the database
LOOK_S: Final = 1.0
NICENESS: Final = 19
WHOLE: Final = ""


class HistoryCheck:
    """A process that plays the whole journal up to now, and compares the tables with what follows from it."""

    def __init__(self, accounting: Accounting, new_manager: Callable[[Accounting], LiveManager]) -> None:
        """``new_manager`` makes a manager before its first step. Call this before there are threads or sockets."""
        context = multiprocessing.get_context("fork")
        self._answers, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_play, args=(accounting, new_manager, theirs), daemon=True)
        self._process.start()
        theirs.close()
        if self._answers.poll(READY_S):
            self._answers.recv()

    def result(self) -> str | None:
        """Return what is damaged, once; `WHOLE`: nothing; None: that is not known yet, or was told before."""
        if self._answers.closed or not self._answers.poll():
            return None
        try:
            return str(self._answers.recv())
        except EOFError:
            return "the process that compares the history with its journal has ended without a result"
        finally:
            self._answers.close()

    def __enter__(self) -> HistoryCheck:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _play(accounting: Accounting, new_manager: Callable[[Accounting], LiveManager], told: Connection) -> None:
    """Send an empty text when the present state of the database is in view, and then what is damaged."""
    for number in (signal.SIGINT, signal.SIGHUP):  # the manager gets them, and kills this process when it ends
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    path = accounting.leave()
    with closing(connect(path, "mode=ro")) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT step FROM progress").fetchone()
        told.send(WHOLE)
        told.send(damage_of(connection, path, new_manager))


def damage_of(connection: sqlite3.Connection, path: str, new_manager: Callable[[Accounting], LiveManager]) -> str:
    """Return what is damaged in a database that is in view, or `WHOLE`."""
    try:
        for (text,) in connection.execute("PRAGMA quick_check(1)"):
            if text != "ok":
                return str(text)
        again = Accounting(Database(connection, None, None), path)
        restore(new_manager(again), again)
    except (EmulatorError, sqlite3.Error) as error:
        return str(error)
    return WHOLE


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)
