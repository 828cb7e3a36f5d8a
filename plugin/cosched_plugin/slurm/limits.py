"""Limits of Slurm that no scheduler is told of, of users, accounts, QOS and licences: a job that meets one waits for another's end.

Slurm alone counts them, and says so once a job has been placed: its reason is QOSMaxJobsPerUserLimit, say. Such a job is held again,
and set aside. Each end of a job with the same user, account, QOS or licence lets the first of those that wait try again, and each start
of one that has tried lets the next: so no end costs more than one attempt that fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from cosched_hwmodel.units import SECOND_US
from cosched_plugin.slurm.records import SlurmJob

RETRY_US: Final = 600 * SECOND_US  # the longest time that a job is set aside: an operator may have raised the limit
_LIMITS: Final = re.compile(r"QOS|Assoc|MaxGRES|Licenses")
# No end of another job helps against these: what the job asks for is above a limit by itself, or it may not be there at all.
_FOR_EVER: Final = re.compile(r"PerJob|PerNode|Min|NotAllowed|Invalid|Wall|Time|Threshold")
_ONE_FOR_ONE: Final = re.compile(r"Jobs")  # limits of numbers of jobs: one end makes room for one


class Limits:
    """The jobs that are set aside, by the protocol's number."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[str, int]] = {}  # the reason, and until when
        self._tried: dict[int, str] = {}  # jobs that may try again, and the reason why they had not started
        self._on_nodes: Mapping[int, SlurmJob] = {}  # at the last poll, by Slurm's number

    def set_aside(self, number: int, reason: str, now_us: int) -> bool:
        """Set a job aside that did not start in time, if that is for a limit."""
        self._tried.pop(number, None)
        if not _LIMITS.match(reason):
            return False
        self._waiting[number] = reason, now_us + RETRY_US
        return True

    def words(self, number: int) -> str:
        """Return why a job is set aside; empty if it is not."""
        reason = self._waiting.get(number, ("", 0))[0]
        if not reason:
            return ""
        until = "its user must change it" if _FOR_EVER.search(reason) else "until a job that counts for it ends"
        return f"{reason}: {until}"

    def due_us(self) -> Iterable[int]:
        """Return when jobs may try again although nothing has ended."""
        return [until_us for _, until_us in self._waiting.values()]

    def look(self, on_nodes: Mapping[int, SlurmJob], records: Mapping[int, SlurmJob], now_us: int) -> None:
        """Let jobs try again for which something has ended since the last poll."""
        ended = [job for number, job in self._on_nodes.items() if number not in on_nodes]
        self._on_nodes = on_nodes
        self._waiting = {
            number: each for number, each in self._waiting.items() if number in records and now_us < each[1]
        }
        started = [number for number in self._tried if number not in records or records[number].job_id in on_nodes]
        for number in started:
            reason = self._tried.pop(number)
            if number in records and not _ONE_FOR_ONE.search(reason):
                ended.append(records[number])
        for job in ended:
            self._let_one_try(job, records)

    def _let_one_try(self, ended: SlurmJob, records: Mapping[int, SlurmJob]) -> None:
        for number, (reason, _) in sorted(self._waiting.items()):
            if not _FOR_EVER.search(reason) and _shares(records[number], ended, reason):
                del self._waiting[number]
                self._tried[number] = reason
                return


def _shares(job: SlurmJob, ended: SlurmJob, reason: str) -> bool:
    """Return whether the end of a job may make room for another one."""
    if reason == "Licenses":
        return not {name for name, _ in job.licences or ()}.isdisjoint(name for name, _ in ended.licences or ())
    return (
        job.user == ended.user
        or (job.account, job.qos) == (ended.account, ended.qos)
        or (bool(job.account) and job.account == ended.account)
        or (bool(job.qos) and job.qos == ended.qos)
    )
