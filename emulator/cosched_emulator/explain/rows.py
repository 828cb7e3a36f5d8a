"""The facts of a decision trace about one job in the rows of gang scheduling: why it is in its row, and with which rows it ran.

`row_sentences` turns them into text.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from cosched_emulator.errors import InputError
from cosched_emulator.explain.funnel import Record

Facts = dict[str, Any]  # JSON-ready

# How a job runs in a quantum.
OWN: Final = "row"  # its row has its turn
PARTNER: Final = "partner"  # its row runs beside another one
GUEST: Final = "guest"  # it is an alternate
_ROLES: Final = (OWN, PARTNER, GUEST)


def row_of_start(record: Record) -> Facts | None:
    """Return the row in which a job starts, and what a gang scheduler tells of it; None where there are no slots."""
    if "slot" not in record and "new_row" not in record:
        return None
    told = {key: record.get(key) for key in ("new_row", "full_rows", "closed_rows")}
    return {"slot": record.get("slot", 0), **told}


class Quanta:
    """Counts the quanta of one job; the records of turns name the jobs, so that it does not matter when the job ends."""

    def __init__(self, job: int) -> None:
        self._job = job
        self._last: Record | None = None  # the last turn, which another one of the same instant replaces
        self._first_quantum: int | None = None
        self._last_quantum: int | None = None
        self._roles = Counter[str]()
        self._paired = 0
        self._alone = Counter[str]()

    def take(self, record: Record) -> bool:
        """Process the record of a turn; return whether it names the job."""
        # A quantum that is over before its time gives its number to the next one.
        if self._last is not None and self._last["at_us"] != record["at_us"]:
            self._count(self._last)
        self._last = record
        return role_in(record, self._job) is not None

    def facts(self) -> Facts | None:
        """Return the counts, after the last record; None if no turn named the job."""
        if self._last is not None:
            self._count(self._last)
            self._last = None
        if self._first_quantum is None:
            return None
        return {
            "first_quantum": self._first_quantum,
            "last_quantum": self._last_quantum,
            **{role: self._roles[role] for role in _ROLES},
            "paired": self._paired,
            "alone": dict(self._alone),
        }

    def _count(self, turn: Record) -> None:
        role = role_in(turn, self._job)
        if role is None:
            return
        if self._first_quantum is None:
            self._first_quantum = turn["quantum"]
        self._last_quantum = turn["quantum"]
        self._roles[role] += 1
        if role == OWN:
            self._paired += len(turn["slots"]) > 1
            if "alone" in turn:
                self._alone[turn["alone"]] += 1


class Turns:
    """Keeps the turn of one quantum: the last one that was told for it."""

    def __init__(self, quantum: int | None) -> None:
        self._quantum = quantum
        self._found: Record | None = None
        self._told: tuple[int, int] | None = None  # the first and the last quantum of the trace

    def take(self, record: Record) -> None:
        """Process the record of a turn."""
        quantum = record["quantum"]
        self._told = (quantum if self._told is None else self._told[0], quantum)
        if quantum == self._quantum:
            self._found = record

    def wanted(self, file: str) -> Record:
        """Return the turn of the quantum; InputError if the trace does not tell it."""
        if self._found is None:
            span = "" if self._told is None else f", such as {self._told[0]} or {self._told[1]}"
            got = str(self._quantum) if self._told is not None else f"{self._quantum}; the trace tells of none"
            raise InputError(file, f"a quantum that the trace tells of{span}", got)
        return self._found


def role_in(turn: Record, job: int) -> str | None:
    """Return how a job runs in a turn; None: it does not."""
    for place, jobs in enumerate(turn["jobs"]):
        if job in jobs:
            return PARTNER if place else OWN
    return GUEST if any(guest == job for guest, _ in turn["guests"]) else None


def quantum_facts(turn: Record, job: int) -> Facts:
    """Return why a job ran, or did not run, in the quantum of a turn."""
    own = next((share_ppm for guest, share_ppm in turn["guests"] if guest == job), None)
    return {
        **{key: turn[key] for key in ("quantum", "at_us", "slots", "jobs", "shares_ppm", "guests")},
        **{key: turn.get(key) for key in ("below_ppm", "alone", "other", "other_ppm")},
        "role": role_in(turn, job),
        "guest_share_ppm": own,
    }
