"""Wait for jobs to end: poll at growing intervals, and tolerate a restart of the manager."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cosched_emulator.errors import EmulatorError, LinkError
from cosched_emulator.users.client import TEMPORARY, ManagerConnection, SilenceError, refusal_text
from cosched_emulator.users.requests import Refused, ShowJobs, Target
from cosched_plugin.protocol.messages import END_STATES

PATIENCE_S: Final = 60.0  # how long a manager that has answered once may be silent
_FIRST_S, _MOST_S = 0.1, 2.0  # between two polls
_AT_A_TIME: Final = 500  # targets of one poll


def wait_for(
    connection: ManagerConnection,
    targets: Sequence[Target],
    limit_s: float | None,
    tell: Callable[[int, int], None],
    patience_s: float = PATIENCE_S,
) -> list[dict[str, Any]]:
    """Return the jobs, with arrays as single tasks, when all have ended.

    ``tell`` is called with (ended, all) after every round. Raises EmulatorError for jobs that do not exist and after ``limit_s``,
    SilenceError without a manager.
    """
    began = heard = time.monotonic()
    open_ones = list(targets)
    seen: dict[int, dict[str, Any]] = {}
    pause_s = _FIRST_S
    run = ""
    while True:
        try:
            rows, missing, answering = _look(connection, open_ones)
            heard = time.monotonic()
            if run not in ("", answering):
                raise LinkError("another manager answers: it knows nothing of these jobs", connection.endpoint)
            run = answering
        except SilenceError:
            if not seen or time.monotonic() - heard > patience_s:
                raise
        else:
            if missing and not seen:
                raise EmulatorError(f"there is no such job: {', '.join(missing)}")
            seen.update({row["job_id"]: row for row in rows})
            # A job that has disappeared from the answers has ended while the accounting lags behind: its end state follows later.
            open_ones = [_target(row) for row in seen.values() if row["state"] not in END_STATES]
            tell(len(seen) - len(open_ones), len(seen))
            if not open_ones:
                return list(seen.values())
        if limit_s is not None and time.monotonic() - began + pause_s > limit_s:
            raise EmulatorError(f"{len(open_ones)} of {len(seen)} jobs have not ended within {limit_s:g} s")
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, _MOST_S)


def _look(connection: ManagerConnection, targets: Sequence[Target]) -> tuple[list[dict[str, Any]], list[str], str]:
    """Return the known jobs, the names of the unknown ones, and the name of the manager's run."""
    run = ""
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    for first in range(0, len(targets), _AT_A_TIME):
        answer = connection.ask(ShowJobs(tuple(targets[first : first + _AT_A_TIME])))
        if isinstance(answer, Refused):
            kind = SilenceError if answer.code in TEMPORARY else EmulatorError
            raise kind(refusal_text(answer))
        rows += answer.result["jobs"]
        missing += answer.result["missing"]
        run = answer.result.get("run", "")
    return rows, missing, run


def _target(row: Mapping[str, Any]) -> Target:
    return Target(row["job_id"]) if row["array_id"] is None else Target(row["array_id"], row["array_index"])
