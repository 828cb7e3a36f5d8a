"""The manager's side of start estimates: what their process is told, and what users are told of them.

The manager never waits for that process. It hands a state on when the process wants one and something has changed, and not so
often that this would take more than a hundredth of its time. Questions about jobs that are not submitted are answered later.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.accounting.fact_rows import job_from_json
from cosched_emulator.couplings.estimating import EstimatingProcess
from cosched_emulator.expected_starts.ranges import MOST
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.record import Change, JobEntered, JobFinished
from cosched_emulator.users.door import Asked
from cosched_emulator.users.idset import idset
from cosched_emulator.users.requests import Done, Refused, seconds
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.codec import encode, unpack
from cosched_plugin.protocol.limits import MAX_FRAME_BYTES
from cosched_plugin.protocol.messages import JobSpec
from cosched_plugin.protocol.vocabulary import JOB

MOST_PAST: Final = 2_000  # ended jobs that a new process is told of
MOST_AT_ONCE: Final = 200  # jobs that are written in one turn of the manager: some 3 ms
SHARE: Final = 0.01  # of the time, at most, in which states are made
STALE_S: Final = 30.0  # an estimate is made anew after this time, also if nothing has happened: time has passed
ANSWER_S: Final = 8.0  # for a question about a job that is not submitted
MOST_QUESTIONS: Final = 32  # at a time
START_COLUMNS: Final = ("job_id", "start_s", "low_s", "high_s", "bound", "node_list", "reason")

_PAST: Final = f"""SELECT job, expected_us, start_us, end_us FROM jobs WHERE end_us IS NOT NULL
    ORDER BY end_us DESC, id DESC LIMIT {MOST_PAST}"""


class _Question(NamedTuple):
    asked: Asked
    until_s: float


class _Told:
    """What the process has told of a state; its table is read when somebody asks: of thousands of jobs that takes milliseconds."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        self.now_us: int = message["now_us"]
        self.draws: int = message["draws"]
        self.kinds: Mapping[str, int] = message["kinds"]  # kind of a reason -> how many pending jobs
        self._table: bytes = message["table"]

    @cached_property
    def _rows(self) -> Mapping[str, Sequence[Any]]:
        rows: Mapping[str, Sequence[Any]] = unpack(self._table, MAX_FRAME_BYTES)
        return rows

    @cached_property
    def starts(self) -> dict[int, Sequence[Any]]:
        """Return by job: its start, both ends of its range, whether it is a bound, and nodes."""
        return {row[0]: row[1:] for row in self._rows["starts"]}

    @cached_property
    def reasons(self) -> dict[int, str]:
        """Return by job why it is pending."""
        return dict(self._rows["reasons"])


class StartEstimates:
    """The estimates of one manager's pending jobs. ``arguments`` returns how the scheduler says that its policy is made."""

    def __init__(
        self,
        live: LiveManager,
        accounting: Accounting,
        arguments: Callable[[], tuple[str, ...]],
        allowed: Sequence[str],
    ) -> None:
        self._live = live
        self._accounting = accounting
        self._arguments = arguments
        self._process = EstimatingProcess(allowed, self._forget)
        self._changed = True
        self._wanted = False  # the process wants a state
        self._new_process = True
        self._next_s = 0.0  # no state is made before
        self._made_s = 0.0  # when the last one was made
        self._jobs: list[JobSpec] = []  # submitted since the process was last told
        self._known: dict[int, JobSpec] = {}  # jobs of which the process was told, as it was told of them
        self._ended: list[list[Any]] = []
        self._scored: deque[Any] = deque(maxlen=MOST)
        self._told: _Told | None = None
        self._trouble = ""  # why there are no estimates of the present state
        # How many estimates have been compared with starts, their median error, and the share of ranges that held.
        self.record: tuple[int, int | None, float | None] = (0, None, None)
        self._questions: dict[int, _Question] = {}
        self._tickets = 0

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def note(self, changes: Iterable[Change]) -> None:
        """Note that something has happened."""
        for change in changes:
            self._changed = True
            if isinstance(change, JobEntered):
                self._jobs.append(change.job.spec)
            elif isinstance(change, JobFinished):
                record = change.record
                spec = record.job.spec
                self._known.pop(spec.id, None)
                start_us = record.intervals[0].start_us if record.intervals else None
                run = None
                if record.last_stays and record.end_us is not None:
                    run_us = record.end_us - record.last_stays[0].start_us
                    run = [spec.user, spec.estimate_us, record.estimate_us, run_us]
                self._ended.append([spec.id, start_us, run])

    def tend(self) -> list[tuple[Asked, Done | Refused]]:
        """Hear what the process tells, tell it what it wants to know, and return the answers that are due."""
        answers: list[tuple[Asked, Done | Refused]] = []
        now_s = time.monotonic()
        for message in self._process.receive():
            match message["kind"]:
                case "ready":
                    self._wanted = True
                case "estimates":
                    self._trouble = ""
                    self._told = _Told(message)
                    self.record = message["record"]
                case "trouble":
                    self._trouble = message["text"]
                    self._told = None
                case "scored":
                    self._scored += message["rows"]
                case "answer":
                    question = self._questions.pop(message["ticket"], None)
                    if question is not None:
                        answers.append((question.asked, self._answer_of(message)))
        if self._wanted and now_s >= self._next_s and (self._changed or self._is_stale(now_s)):
            self._tell_state(now_s)
        for ticket, question in list(self._questions.items()):
            if now_s > question.until_s or self._process.trouble:
                del self._questions[ticket]
                answers.append((question.asked, Refused("busy", self._why_none() or "there is no estimate in time")))
        return answers

    def ask(self, asked: Asked, spec: JobSpec) -> Refused | None:
        """Ask for the start of a job that is not submitted; None: the answer follows."""
        trouble = self._why_none()
        if trouble:
            return Refused("busy", trouble)
        if len(self._questions) >= MOST_QUESTIONS:
            return Refused("busy", "many such questions are open: try again in a moment")
        self._tickets += 1
        if not self._process.send(kind="ask", ticket=self._tickets, job=JOB.write(spec)):
            return Refused("busy", "the process that makes estimates does not listen at present")
        self._questions[self._tickets] = _Question(asked, time.monotonic() + ANSWER_S)
        return None

    def table(self, jobs: Iterable[ManagedJob]) -> dict[str, Any]:
        """Return the estimates of some pending jobs, their age, and on how many draws they rest; also why there are none."""
        told = self._told
        age_s = None if told is None else round((self._live.now_us - told.now_us) / SECOND_US, 6)
        count, error_us, held = self.record
        return {
            "age_s": age_s,
            "draws": None if told is None else told.draws,
            "trouble": self._why_none(),
            "record": {"starts": count, "median_error_s": seconds(error_us), "held": held},
            "columns": START_COLUMNS,
            "rows": [self._row(job.id) for job in jobs],
        }

    def kinds(self) -> Mapping[str, int]:
        """Return how many pending jobs have a reason of each kind, of `cosched_emulator.expected_starts.reasons.KINDS`."""
        return {} if self._told is None else self._told.kinds

    # ------------------------------------------------------------ the process

    def _forget(self) -> None:
        """Begin with a process that knows nothing."""
        self._wanted = False
        self._told = None
        self._new_process = self._changed = True
        self._known.clear()

    # A state takes long to write where thousands of jobs are pending, and decisions would wait for that. So each job is told once, when
    # it is new or has changed, some at a time; a state names them.
    def _tell_state(self, now_s: float) -> None:
        """Hand on what has happened and, once the process knows all pending jobs, the present state."""
        arguments = self._arguments()
        if not arguments and not self._live.manager.seq:
            return  # no scheduler has come yet
        if self._new_process:
            self._new_process = False
            self._tell_past()
        elif self._ended:
            self._process.send(kind="ended", rows=self._ended)
        self._ended = []
        knows_all = self._tell_jobs()
        if knows_all:
            manager = self._live.manager
            welcome = manager.inventory(pending=False)._replace(now_us=self._live.now_us)
            held = [job_id for job_id, job in manager.pending.items() if job.held]
            state = {"welcome": encode(welcome)[1], "pending": list(manager.pending), "held": held}
            self._process.send(kind="state", arguments=list(arguments), **state)
            self._wanted = self._changed = False
        self._made_s = time.monotonic()
        self._next_s = self._made_s + ((self._made_s - now_s) / SHARE if knows_all else 0.0)

    def _tell_jobs(self) -> bool:
        """Tell some of the jobs that the process does not know; return whether it knows all pending ones now."""
        jobs, self._jobs = self._jobs[:MOST_AT_ONCE], self._jobs[MOST_AT_ONCE:]
        self._known.update({job.id: job for job in jobs})
        if not self._jobs:
            pending = [job.job.spec for job in self._live.manager.pending.values()]
            changed = [job for job in pending if self._known.get(job.id) is not job]
            self._jobs = changed[MOST_AT_ONCE:]
            jobs += changed[:MOST_AT_ONCE]
            self._known.update({job.id: job for job in changed[:MOST_AT_ONCE]})
        if jobs:
            self._process.send(kind="jobs", rows=[JOB.write(job) for job in jobs])
        return not self._jobs

    def _tell_past(self) -> None:
        """Tell a new process of the last jobs in the accounts, and how good earlier estimates were."""
        past = [(job_from_json(job).spec, *times) for job, *times in self._accounting.select(_PAST)][::-1]
        jobs = [spec for spec, *_ in past] + [job.job.spec for job in self._live.manager.jobs.values()]
        self._jobs = sorted(jobs, key=lambda job: job.id)
        ended = [
            [spec.id, None, [spec.user, spec.estimate_us, expected_us, end_us - start_us]]
            for spec, expected_us, start_us, end_us in past
            if start_us is not None
        ]
        self._process.send(kind="ended", rows=ended)
        self._process.send(kind="scored", rows=list(self._scored))

    # ------------------------------------------------------------ answers

    def _why_none(self) -> str:
        """Return why there are no estimates; empty: there are."""
        if self._process.trouble or self._trouble:
            return self._process.trouble or self._trouble
        return "" if self._told is not None else "the first estimates are being made"

    def _is_stale(self, now_s: float) -> bool:
        return bool(self._live.manager.pending) and now_s - self._made_s > STALE_S

    def _row(self, job_id: int) -> tuple[Any, ...]:
        told = self._told
        found = None if told is None else told.starts.get(job_id)
        start = (None, None, None, None, "") if found is None else _in_seconds(found)
        return (job_id, *start, "" if told is None else told.reasons.get(job_id, ""))

    def _answer_of(self, message: Mapping[str, Any]) -> Done | Refused:
        if "trouble" in message:
            return Refused("busy", message["trouble"])
        names = START_COLUMNS[1:-1]
        now_us = self._live.now_us
        told = dict(zip(names, _in_seconds(message["row"]), strict=True))
        age_s = round((now_us - message["now_us"]) / SECOND_US, 6)
        return Done({"now_s": now_us / SECOND_US, "age_s": age_s, "draws": message["draws"], **told})


def _in_seconds(row: Sequence[Any]) -> tuple[Any, ...]:
    at_us, low_us, high_us, bound, runs = row
    nodes = idset([node for first, count in runs for node in range(first, first + count)]) if runs else ""
    return (seconds(at_us), seconds(low_us), seconds(high_us), bound, nodes)
