"""Enforcing: what a scheduler decides is carried out at a real manager, on top of `poll_loop`.

Between a refusal and the next round the manager is asked once more: what was refused may have changed what is free.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.codec import encode
from cosched_plugin.protocol.messages import Action, Actions, Message, StartJob, starts_of
from cosched_plugin.protocol.scheduler import Scheduler, SchedulerFactory
from cosched_plugin.quarantine import PolicyFailed
from cosched_plugin.site.driver import CONFIRM_US, Driver, Outcome, Unsettled
from cosched_plugin.site.poll_loop import POLL_S, Clock, Manager, PollLoop
from cosched_plugin.site.snapshots import Snapshot
from cosched_plugin.site.store import Store
from cosched_terminal.console import WARNING, Log

AFTER_S: Final = 0.1
LEAVE_S: Final = 10.0  # for what is placed to begin, at the end
CONFIRM_POLLS: Final = 4


class BaseActuator(ABC):
    """What actuators do alike: a silent manager is asked for nothing more until it answers a poll, and failed starts back off."""

    def __init__(self, manager: Manager, clock: Clock, log: Log) -> None:
        self.silence = ""  # why the manager is asked for nothing more
        self.placed = 0  # starts that were accepted since the last `flush`
        self.refused = 0  # starts that were refused, in all
        self._manager = manager
        self._clock = clock
        self._log = log

    def carry_out(self, action: Action) -> Outcome:
        """Carry an action out, once the manager has answered the last one."""
        outcome = self._unless_silent(lambda: self._carry_out(action))
        starts = starts_of(action)
        if isinstance(outcome, Unsettled):
            self._log("unsettled", f"unknown outcome of {self._words(action)}: {outcome}", level=WARNING)
        elif outcome is not None:
            name = self._manager.source.name
            self._log("refused", f"{name} refuses {self._words(action)}: {outcome}", level=WARNING)
            self.refused += len(starts)
            self._manager.back_off([start.job_id for start in starts], self._clock.now_us())
        else:
            self.placed += len(starts)
        return outcome

    def withdraw(self, start: StartJob) -> bool | None:
        """Hold a job again that did not start in time, and let it wait a while; None: it has begun by now."""
        job_id = start.job_id
        if not self.silence and self._has_begun(job_id):
            return None
        self._manager.back_off([job_id], self._clock.now_us())
        problem = self._unless_silent(lambda: self._withdraw(job_id))
        reason = self._manager.pending_reason(job_id)
        words = f"job {self._manager.label(job_id)} has not started in time" + (f" ({reason})" if reason else "")
        self._log("withdrawn", words + (f", and cannot be taken back: {problem}" if problem else ""), level=WARNING)
        return True

    def flush(self) -> None:
        """Let the manager begin what was placed; the answers of a scheduler have been carried out."""
        self.placed = 0

    def _unless_silent(self, step: Callable[[], Outcome]) -> Outcome:
        outcome = self.silence or step()
        if isinstance(outcome, Unsettled):
            # The next call would block as long. It has not been made, so it is refused and not unsettled.
            self.silence = f"{self._manager.source.name} does not answer: {outcome}"
        return outcome

    def _words(self, action: Action) -> str:
        starts = starts_of(action)
        if starts:
            return f"the start of job {', '.join(self._manager.label(start.job_id) for start in starts)}"
        job_id = getattr(action, "job_id", None)
        return type(action).__name__ + ("" if job_id is None else f" of job {self._manager.label(job_id)}")

    @abstractmethod
    def follow_up(self) -> None:
        """Do what a snapshot calls for, without a scheduler's decision."""

    @abstractmethod
    def due_us(self) -> int | None:
        """Return when `follow_up` has something to do."""

    @abstractmethod
    def _carry_out(self, action: Action) -> Outcome:
        """Do it."""

    @abstractmethod
    def _has_begun(self, job_id: int) -> bool:
        """Return whether a job that the last poll has shown as pending does not wait any more."""

    @abstractmethod
    def _withdraw(self, job_id: int) -> Outcome:
        """Take a start back that has not come true."""


class Enforcer(PollLoop):
    """One driver with its scheduler."""

    def __init__(
        self,
        manager: Manager,
        actuator: BaseActuator,
        store: Store,
        make: SchedulerFactory,
        clock: Clock,
        log: Log,
        record: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        """``record`` takes every batch and its answer."""
        super().__init__(manager, Driver(manager.machine, store, actuator, manager.rules), clock, log, "is")
        self.actuator = actuator
        self._make = make
        self._record = record
        self._scheduler: Scheduler | None = None

    def begin(self) -> None:
        """Take over, and say what is lost."""
        super().begin()
        for text in self.driver.lost:
            self.log("lost", text, level=WARNING)

    def end(self) -> None:
        """See what was placed begin, or take it back: without us it would wait for its nodes, whatever becomes of them."""
        until = time.monotonic() + LEAVE_S
        while self.driver.awaits_starts and time.monotonic() < until and self._poll() is not None:
            self.driver.update(self.clock.now_us(), self._snapshot())
            self.driver.inventory()
            time.sleep(AFTER_S)

    def _due_us(self) -> int | None:
        moments = (super()._due_us(), self.actuator.due_us())
        return min([at_us for at_us in moments if at_us is not None], default=None)

    def _poll(self) -> bool | None:
        changed = super()._poll()
        if changed is not None:
            self.actuator.silence = ""
            self._least_rest_s = POLL_S
            # A poll shows what was when it began, and a manager that is slow to answer is slow to start jobs.
            self.driver.confirm_us = CONFIRM_US + round(CONFIRM_POLLS * self.manager.source.took_s * SECOND_US)
        return changed

    def _snapshot(self) -> Snapshot:
        snapshot = super()._snapshot()
        self.actuator.follow_up()
        return snapshot

    def _decide(self) -> None:
        """Ask the scheduler until nothing follows."""
        driver = self.driver
        if self._scheduler is None or driver.unsettled:
            self._scheduler = self._new_scheduler()
        while (batch := driver.next_batch()) is not None:
            try:
                actions = self._scheduler.handle(batch.now_us, batch.events)
            except PolicyFailed as failed:
                text = f"the policy has failed, and restarts from the state of {self.manager.source.name}: {failed}"
                self.log("afresh", text, level=WARNING)
                self._scheduler = self._new_scheduler()
                continue
            self._write(events=batch, actions=Actions(batch.seq, batch.now_us, tuple(actions)))
            refused = self.actuator.refused
            driver.answer(self.clock.now_us(), actions)
            if self.actuator.refused > refused:
                if self._poll() is None:
                    break  # the refusals are told once the manager answers
                driver.update(self.clock.now_us(), self._snapshot())
        self._notices.tell("unfit", "job {} waits for a larger machine: {}", driver.unfit)
        if self.actuator.placed:
            self._least_rest_s = AFTER_S  # what was placed starts now, and the poll can wait
        self.actuator.flush()

    def _new_scheduler(self) -> Scheduler:
        welcome = self.driver.inventory()
        self._write(welcome=welcome)
        return self._make(welcome)

    def _write(self, **messages: Message) -> None:
        if self._record is not None:
            self._record({name: encode(message)[1].hex() for name, message in messages.items()})
