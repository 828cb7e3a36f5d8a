"""The records of all of Slurm's jobs, kept up to date with as little as Slurm lets one ask.

A list of all jobs is dear: a record has 4.4 kB at Slurm 22.05 and 11.5 kB at 24.11, where 1,857 of them, most of which have ended, take
2 to 3 s. From 24.11 on the states of all jobs come in a fiftieth of that. So a dear list is asked for once in a while, and between
two lists the states, and single jobs whose state is another one. Another change, as of a limit, shows with the next list.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from cosched_plugin.common.slurm_notation import ENDED, WAITING, words_of
from cosched_plugin.site.poll_loop import Silent
from cosched_plugin.slurm.answers import ODD, key_of
from cosched_plugin.slurm.dialect import Dialect

WHOLE_S: Final = 2.0  # between two lists, at most; or so many times what one takes, and at most a minute
WHOLE_TIMES: Final = 20
MOST_WHOLE_S: Final = 60.0
DEAR_S: Final = 0.1  # what a dear list takes
TURN_S: Final = 0.25  # for single jobs, in one turn
_NAME: Final = re.compile(r"(\d{1,10})(|_.*)", re.ASCII)  # not `12+1`, of a heterogeneous job

# By the number that Slurm knows a job by: what follows it in its name there, as `_3`, and the words of its state; of an array's tasks
# that wait together, for each.
States = dict[int, list[tuple[str, tuple[str, ...]]]]


class JobList:
    """All records, as `rows` returns them."""

    def __init__(self, ask: Callable[[str], list[Any] | None]) -> None:
        """``ask`` returns the records of an answer about jobs; None: nothing has changed. Silent."""
        self.took_s = 0.0  # by the last answer, but for lists that are asked for once in a while, and single jobs
        self.follows_ends = False  # whether it matters when exactly a job has ended
        self._ask = ask
        self._since_s = 0  # of the last list, or question whether it has changed
        self._whole_s = float("-inf")  # of the last list
        self._whole_took_s = 0.0
        self._alone_took_s = 0.0  # by a single job
        self._rows: dict[object, Any] = {}  # the records, by the numbers of their jobs
        self._states: States | None = None  # when these were new
        self._latest: States = {}
        self._touched: set[int] = set()  # jobs to ask for again, whatever their state
        self._looked = False  # whether a record is newer than what `rows` has returned

    def rows(self, now_s: float, dialect: Dialect) -> list[Any] | None:
        """Return all records; None: nothing has changed since the last time. Silent."""
        rest_s = min(MOST_WHOLE_S, max(WHOLE_S, WHOLE_TIMES * self._whole_took_s))
        whole = not 0 <= now_s - self._whole_s <= rest_s
        dear = self._states is not None and self._whole_took_s > DEAR_S
        if dear and not whole:
            changed = self._follow(now_s)
            if changed is not None:
                return list(self._rows.values()) if changed else None
        return self._list(now_s, dialect, whole=whole or dear)

    @property
    def follows(self) -> bool:
        """Tell whether records may be older than the last answer, but for the states in them."""
        return bool(self._latest)

    def forget(self) -> None:
        """Ask for all jobs the next time."""
        self._whole_s = float("-inf")

    def touch(self, number: int) -> None:
        """Ask for a job again with the next question, by Slurm's number: it was changed."""
        self._touched.add(number)

    def has_begun(self, number: int) -> bool:
        """Return whether the last states show that a job waits no more, although its record does not."""
        return number in self._latest and not _waits(self._latest[number])

    def look(self, number: int) -> list[Any]:
        """Return the record of a job as it is now, by Slurm's number; of an array maybe all its tasks. Silent."""
        begun = time.monotonic()
        rows = self._ask(f"job/{number}") or []
        self._alone_took_s += (time.monotonic() - begun - self._alone_took_s) / 2
        self._rows.update((key_of(row) or ("odd", number), row) for row in rows)
        self._touched.discard(number)
        self._looked = True
        return rows

    def _list(self, now_s: float, dialect: Dialect, *, whole: bool) -> list[Any] | None:
        """Ask for all jobs; or, unless ``whole``, for all if something has changed."""
        # The states come before the list, which may be newer; and before the first list, of which nobody knows how dear it is.
        wanted = dialect.states and whole and (not self._whole_took_s or self._whole_took_s > DEAR_S)
        states: States | None = None
        if wanted:
            begun = time.monotonic()
            with suppress(Silent):  # before 24.11 this is not known; and a slurmctld that is silent shows with the list
                states = _states_of(self._ask("jobs/state"))
            self.took_s = time.monotonic() - begun
        begun = time.monotonic()
        # Slurm compares whole seconds of its own clock: what changed in the second of the last question is told once more, and all is
        # told every other second, in case the clocks differ.
        rows = self._ask("jobs" if whole else f"jobs?{dialect.since.format(self._since_s)}")
        if rows == [] and not whole:  # said of no change, too, and then all jobs would have vanished
            whole, rows = True, self._ask("jobs")
        self._since_s = int(now_s)
        took_s = time.monotonic() - begun
        if whole:
            self._whole_s, self._whole_took_s = now_s, took_s
        if states is None:  # else what the states took counts
            self.took_s = took_s
        if rows is not None:
            self._rows = {key_of(row) or ("odd", place): row for place, row in enumerate(rows)}
            self._states, self._latest = states, {}
            self._touched.clear()
            self._looked = False
        return rows

    def _follow(self, now_s: float) -> bool | None:
        """Ask for the states, and for jobs that have another one; return whether there are any. None: the list must be asked for."""
        begun = time.monotonic()
        states = _states_of(self._ask("jobs/state"))
        if states is None or self._states is None:
            return None
        self.took_s, self._latest = time.monotonic() - begun, states
        known, changed = self._states, self._looked
        self._looked = False
        for number in known.keys() - states.keys():
            del known[number]
            self._rows.pop(number, None)
            changed = True
        self._touched &= states.keys()
        moved = [number for number, words in states.items() if known.get(number) != words or number in self._touched]
        ended = set() if self.follows_ends else {number for number in moved if self._end(number, states[number], now_s)}
        known.update((number, states[number]) for number in ended)
        self._touched -= ended
        single = [number for number in moved if number not in ended]
        # Those that have begun come last: the driver knows where, and they may have ended before there is time to look.
        urgent = {number for number in single if number in self._touched or _waits(states[number])}
        if len(urgent) * self._alone_took_s > self._whole_took_s:
            return None
        single.sort(key=lambda number: (number not in urgent, number))
        try:
            for number in single:
                if time.monotonic() > begun + self.took_s + TURN_S:
                    break
                self.look(number)
                known[number] = states[number]
        except Silent:  # maybe only of this job, which Slurm is just forgetting: the list will tell
            return None
        self._looked = False
        return changed or bool(moved)

    def _end(self, number: int, states: Sequence[tuple[str, tuple[str, ...]]], now_s: float) -> bool:
        """Give a job that has ended the record that it will have: of it nothing else is asked, but when exactly."""
        row, words = self._rows.get(number), states[0][1]
        if len(states) > 1 or len(words) != 1 or words[0] not in ENDED or not isinstance(row, dict):
            return False
        at = {"set": True, "infinite": False, "number": int(now_s)}
        self._rows[number] = {**row, "job_state": list(words), "end_time": at}
        return True


def _waits(states: Sequence[tuple[str, tuple[str, ...]]]) -> bool:
    return any(WAITING.intersection(words) for _, words in states)


def _states_of(rows: Sequence[Any] | None) -> States | None:
    """Return the states of all jobs; None where they cannot be told, or there are none: the list must say so."""
    found: States = {}
    try:
        for row in rows or ():
            name = _NAME.fullmatch(row["job_id"])
            if name is None:
                return None
            found.setdefault(int(name[1]), []).append((name[2], tuple(words_of(row["state"]))))
    except ODD:
        return None
    return found or None
