"""The process that estimates starts for a live manager: it gets states, and tells estimates as they become better.

Messages are msgpack maps, one a frame, both ways; `cosched_emulator.couplings.estimating` is the other end. Whatever happens in here
costs no decision: the process has the lowest priority, and the manager never waits for it.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import zmq

from cosched_emulator.expected_starts.bookkeeping import Bookkeeping, Ended, Scored
from cosched_emulator.expected_starts.estimates import DRAWS, Estimate, Estimating
from cosched_emulator.expected_starts.history import PastRun
from cosched_emulator.expected_starts.ranges import Guess
from cosched_emulator.expected_starts.reasons import Reason, Reasons
from cosched_plugin.config import PolicyChoice, allow_models, choose
from cosched_plugin.protocol.codec import decode, pack, unpack
from cosched_plugin.protocol.limits import MAGIC, MAX_FRAME_BYTES
from cosched_plugin.protocol.messages import JobSpec, PendingJob, Welcome
from cosched_plugin.protocol.vocabulary import JOB

SEED: Final = 1
FIRST_S: Final = 8.0  # longest first run: jobs that it does not reach are "not before"
CYCLE_S: Final = 10.0  # after this time a newer state is wanted, whatever the number of draws
ANSWER_S: Final = 3.0  # longest time for the estimate of one job that is not submitted yet
ALIVE_S: Final = 1.0  # between two signs of life
TOLD: Final = frozenset({1, 3, DRAWS})  # numbers of draws after which estimates are told
_OUTSIDE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")  # MODULE:CLASS in an argument


def outside_names(arguments: Sequence[str]) -> list[str]:
    """Return what making a policy of these arguments would import besides installed policies and parts."""
    return [name for argument in arguments for name in _OUTSIDE.findall(argument)]


class _Worker:
    """One process; it ends with its manager."""

    def __init__(self, socket: zmq.Socket[bytes], allowed: Collection[str]) -> None:
        self._socket = socket
        self._allowed = frozenset(allowed)
        self._parent = os.getppid()
        self._books = Bookkeeping()
        self._specs: dict[int, JobSpec] = {}  # jobs that have not ended, as last told
        self._asks: list[Mapping[str, Any]] = []
        self._state: Mapping[str, Any] | None = None  # the newest one, not looked at yet
        self._choice: tuple[list[str], PolicyChoice] | None = None
        self._estimating: Estimating | None = None
        self._reasons: Mapping[int, Reason] = {}
        self._began_s = 0.0
        self._until_s = 0.0  # of the run ahead that is being made
        self._wanting = False  # the manager knows that a state is wanted
        self._alive_s = 0.0

    def run(self) -> None:
        """Work until the manager is gone."""
        while os.getppid() == self._parent:
            self._want_state()
            self._read(0 if self._asks or self._state is not None or not self._done() else 1000)
            try:
                if self._asks and (self._estimating is not None or self._state is None):
                    self._answer(self._asks.pop(0))
                elif self._state is not None:
                    self._begin(self._state)
                elif self._estimating is not None and not self._done():
                    self._draw(self._estimating)
            except Exception as error:  # a policy of others may raise anything, and a copy of it is no harm
                self._estimating = None
                self._tell("trouble", text=_failure(error))

    def _done(self) -> bool:
        return self._estimating is None or self._estimating.draws >= DRAWS or not self._estimating.wanted

    # A state is asked for when it is wanted: one that had waited here would be old by then.
    def _want_state(self) -> None:
        if not self._wanting and (self._done() or time.monotonic() - self._began_s > CYCLE_S):
            self._wanting = True
            self._tell("ready")

    # ------------------------------------------------------------ messages

    def _read(self, wait_ms: int) -> None:
        while self._socket.poll(wait_ms):
            self._take(unpack(self._socket.recv(), MAX_FRAME_BYTES))
            wait_ms = 0
        self._sign()

    def _take(self, message: Any) -> None:
        match message["kind"]:
            case "jobs":
                jobs = [JOB.read(raw) for raw in message["rows"]]
                self._specs.update({job.id: job for job in jobs})
                self._books.arrive(jobs)
            case "ended":
                ended = [Ended(row[0], row[1], PastRun(*row[2]) if row[2] else None) for row in message["rows"]]
                for each in ended:
                    self._specs.pop(each.job_id, None)
                self._tell_scored(self._books.end(ended))
            case "scored":
                self._books.learn([Scored(Guess(*row[0]), row[1], row[2]) for row in message["rows"]])
            case "state":
                self._state = message
            case "ask":
                self._asks.append(message)

    def _tell(self, kind: str, **fields: Any) -> None:
        self._socket.send(pack({"kind": kind, **fields}))

    def _tell_scored(self, scored: Sequence[Scored]) -> None:
        if scored:
            self._tell("scored", rows=[[list(each.guess), each.wait_us, each.held] for each in scored])

    def _sign(self) -> None:
        now_s = time.monotonic()
        if now_s - self._alive_s >= ALIVE_S:
            self._alive_s = now_s
            self._tell("alive")

    def _expired(self) -> bool:
        """Return whether a run ahead must end: its time is over, somebody asks, a newer state is there, or the manager is gone."""
        self._want_state()
        self._read(0)
        over = time.monotonic() > self._until_s or os.getppid() != self._parent
        return over or bool(self._asks) or self._state is not None

    # ------------------------------------------------------------ estimates

    def _begin(self, message: Mapping[str, Any]) -> None:
        """Take a state, tell why its jobs are pending, and when they start by predicted run times."""
        if self._estimating is not None:
            self._books.note(self._estimating.welcome.now_us, self._estimating.all())
        self._state = self._estimating = None
        self._wanting = False
        self._began_s = time.monotonic()
        welcome = decode([MAGIC, message["welcome"]])
        assert isinstance(welcome, Welcome)
        held = frozenset(message["held"])
        queue = sorted([self._specs[job_id] for job_id in message["pending"]], key=lambda job: (job.submit_us, job.id))
        welcome = welcome._replace(pending=tuple(PendingJob(job, job.id in held) for job in queue))
        self._tell_scored(self._books.look(welcome))
        choice = self._chosen(list(message["arguments"]))
        models = allow_models([welcome.belief.contention])
        records: list[dict[str, Any]] = []
        if welcome.slots is not None:
            raise NotImplementedError(
                "there are no estimates where jobs take turns: their speed is not known in advance"
            )
        choice.scheduler(welcome, records.append, models).handle(welcome.now_us, [])
        estimating = Estimating(
            welcome, lambda state: choice.scheduler(state, None, models), self._books.history, SEED, None, self._expired
        )
        self._until_s = time.monotonic() + FIRST_S
        estimating.predict()
        settings = choice.settings if "order" in choice.settings else None  # of a composition
        reasons = Reasons(welcome, records, settings)
        self._reasons = {
            job.spec.id: reasons.of(job.spec, estimating.of(job.spec.id)) for job in welcome.pending if not job.held
        }
        self._estimating = estimating
        self._tell_estimates(estimating)

    def _chosen(self, arguments: list[str]) -> PolicyChoice:
        if self._choice is None or self._choice[0] != arguments:
            if not arguments or arguments[0].endswith(".toml"):  # a file of the scheduler's is none of this process
                raise LookupError("the scheduler does not say how its policy is made")
            for name in outside_names(arguments):
                if name not in self._allowed:
                    raise LookupError(f"{name} comes from outside; serve imports it with --copy-policy {name}")
            self._choice = (arguments, choose(arguments[0], [each for each in arguments[1:] if each != "--set"]))
        return self._choice[1]

    def _draw(self, estimating: Estimating) -> None:
        self._until_s = float("inf")
        if estimating.draw() and estimating.draws in TOLD:
            self._tell_estimates(estimating)

    def _tell_estimates(self, estimating: Estimating) -> None:
        now_us = estimating.welcome.now_us
        rows = {
            "starts": [[job_id, *self._row(now_us, each)] for job_id, each in estimating.all().items()],
            "reasons": [[job_id, reason.text] for job_id, reason in self._reasons.items()],
        }
        self._tell(
            "estimates",
            now_us=now_us,
            draws=estimating.draws,
            table=pack(rows),  # the manager reads it when somebody asks
            kinds=Counter(reason.kind for reason in self._reasons.values()),
            record=list(self._books.record()),
        )

    def _row(self, now_us: int, estimate: Estimate) -> list[Any]:
        """Return an estimate with its range: start, both ends (None: none is known yet), whether it is a bound, and nodes."""
        told = None if estimate.bound else self._books.ranges.of(estimate.guess(now_us))
        low_us, high_us = (None, None) if told is None else (now_us + told[0], now_us + told[1])
        return [estimate.at_us, low_us, high_us, estimate.bound, [list(run[:2]) for run in estimate.runs]]

    def _answer(self, ask: Mapping[str, Any]) -> None:
        """Estimate the start of a job that is not submitted, as if it were now."""
        others, self._asks = self._asks, []  # they wait until this one is answered
        self._until_s = time.monotonic() + ANSWER_S
        try:
            told = self._estimate_of(JOB.read(ask["job"]))
        except Exception as error:
            told = {"trouble": _failure(error)}
        self._asks = [*others, *self._asks]
        self._tell("answer", ticket=ask["ticket"], **told)

    def _estimate_of(self, spec: JobSpec) -> dict[str, Any]:
        if self._estimating is None:
            return {"trouble": "there are no estimates yet"}
        welcome = self._estimating.welcome
        now_us = max(welcome.now_us, spec.submit_us)  # nothing is known to have happened since that state
        estimating = self._estimating.with_job(spec, now_us)
        estimating.predict()
        while estimating.draws < DRAWS and not self._expired():
            estimating.draw()
        estimate = estimating.of(spec.id)
        assert estimate is not None
        return {"now_us": welcome.now_us, "draws": estimating.draws, "row": self._row(now_us, estimate)}


def _failure(error: Exception) -> str:
    return f"a copy of the policy fails: {type(error).__name__}: {error}"


def main() -> None:
    """Serve the manager at the endpoint of the command line; further arguments are policies from outside that may be imported."""
    if hasattr(os, "SCHED_IDLE"):  # of Linux: a process that wakes up takes the processor from it at once
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(19)
    sys.path.insert(0, os.getcwd())  # where the scheduler's user has a policy of its own, as with python -m
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.PAIR)
    socket.linger = 0
    socket.connect(sys.argv[1])
    try:
        _Worker(socket, sys.argv[2:]).run()
    finally:
        socket.close()
        context.term()


if __name__ == "__main__":
    main()
