"""The loop of a live manager: it serves clock, scheduler, users and accounting in turn, and waits for none of them.

Every turn applies what is due, sends a batch if the scheduler is ready, records the changes, and then waits for the next message
or the next due entry, at most for one slice. `journal` describes what the journal holds, and when it is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import zmq

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.couplings.scheduler_port import SLICE_S, SchedulerPort
from cosched_emulator.errors import AccountingError, LinkError
from cosched_emulator.live import watched
from cosched_emulator.live.clock import LiveClock, ProcessFaults
from cosched_emulator.live.history import WHOLE
from cosched_emulator.live.journal import answer_step, command_step, time_step
from cosched_emulator.live.lease import Lease
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.live.saved_state import StateWriter
from cosched_emulator.live.start_estimates import StartEstimates
from cosched_emulator.live.views import NO_ESTIMATES, NO_WEB, answer_query
from cosched_emulator.manager.record import FaultHappened, JobFinished
from cosched_emulator.scenario.faults import Faults
from cosched_emulator.users import requests as r
from cosched_emulator.users.door import Asked, Audit, UserDoor
from cosched_emulator.users.user_limits import Turns
from cosched_hwmodel.units import MIB, SECOND_US
from cosched_plugin.common.errors import ProtocolError
from cosched_plugin.common.process import Service
from cosched_plugin.common.status import Gauge, Status
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.limits import MAX_FRAME_BYTES, most_actions
from cosched_plugin.protocol.messages import count_actions
from cosched_plugin.protocol.session import State
from cosched_terminal.console import WARNING, Log

if TYPE_CHECKING:  # few have it, and an HTTP server is slow to load
    from cosched_emulator.live.web import WebView

MOST_MESSAGES: Final = 64  # messages of the scheduler in one turn
GAUGES: Final = {
    "seq": Gauge("batch_number", "Number of the last batch that was answered, or given up."),
    "now_us": Gauge("emulated_time_seconds", "Emulated time."),
    "queued": Gauge("queue_length", "Pending jobs."),
    "running": Gauge("running_jobs", "Jobs that hold nodes or are on disk."),
    "nodes": Gauge("nodes", "Nodes in all."),
    "nodes_down": Gauge("nodes_down", "Nodes out of service."),
    "silent_s": Gauge("scheduler_silent_seconds", "How long the scheduler has owed an answer; 0: it owes none."),
    "accounting_backlog": Gauge("accounting_backlog", "Steps and changes that wait to be written to the database."),
    "plans_cut_short_us": Gauge(
        "plans_cut_short_seconds", "Emulated time when a budget last kept promises from being improved; NaN: never."
    ),
}
SILENT_S: Final = 5.0  # a scheduler that owes an answer for longer gets a log line
STUCK_S: Final = 60.0  # after this time without progress there is a log line
IDLE_QUANTA: Final = 1_000
BEHIND_S: Final = 0.25  # for what has become due in one turn: users, the scheduler and signals come between two of them
USERS_S: Final = 0.05  # requests in one turn; the rest in the next
PROCESSES_S: Final = 0.02  # the end of a process is noticed after this time, at most; what is recorded is exact
WAKES_S: Final = 0.01  # between two batches that hold nothing but wakes
# Of a scheduler: a larger message is not decoded. It is many times what a policy says of each job, and a few notes.
ANSWER_BYTES: Final = 8 * MIB
ANSWER_BYTES_A_JOB: Final = 2_048
SHORTEST_WAIT_S: Final = 0.001  # at high speed an entry is always due


class LiveServer:
    """The running loop of a live manager. A signal handler may set ``stop``."""

    def __init__(
        self,
        live: LiveManager,
        accounting: Accounting,
        clock: LiveClock,
        port: SchedulerPort,
        door: UserDoor | None,
        log: Log,
        *,
        faults: Faults,
        until_us: int | None = None,
        until_idle: bool = False,
        check: bool = False,
        progress: Callable[[int], None] | None = None,
        estimates: StartEstimates | None = None,
        lease: Lease | None = None,
        audit: Audit | None = None,
        saving: StateWriter | None = None,
    ) -> None:
        """End at ``until_us``, or with ``until_idle`` when no event is left; ``check`` checks all invariants after every step.

        ``progress`` is called with the number of jobs that have ended.
        """
        self.stop = 0  # number of the signal that requests the end
        self.status = Status(self._fields, {**GAUGES, **watched.GAUGES})
        self._live = live
        self._accounting = accounting
        self._clock = clock
        self._port = port
        self._door = door
        self._log = log
        self._faults = ProcessFaults(faults, clock, accounting)
        self._until_us = until_us
        self._until_idle = until_idle
        self._check = check
        self._progress = progress
        self._estimates = estimates
        self._lease = lease
        self._audit = audit
        self._saving = saving or StateWriter(live, accounting)
        self.web: WebView | None = None  # set before `run`: it has the metrics of this server
        self._service = Service()
        self._watched = watched.Watched(live, estimates, lambda: bool(port.instance))
        self._ended = self._sent_jobs = 0  # jobs that have ended, and those that the scheduler knew with the last batch
        self._sent_s: float | None = None  # when the unanswered batch was sent
        self._was_full = self._was_silent = self._was_behind = self._stuck_reported = False
        self._stuck = ""  # why nothing goes on, since when, and whether that was said
        self._stuck_since_s = self._stuck_looked_s = 0.0
        self._woken_s = 0.0  # when a batch of nothing but wakes was last sent
        self._asked: Turns[Asked] = Turns()  # requests of users that are not answered yet

    def stop_on(self, number: int) -> None:
        """End at the next turn, because of signal ``number``."""
        self.stop = number

    def begin(self) -> None:
        """Do what takes long with many jobs, so that `run` answers at once."""
        self._port.begin(self._inventory, lockstep=False)
        self._advance()
        self._flush()
        self._watched.look()

    def run(self) -> None:
        """Serve until the requested end, after `begin`. Raises AccountingError if too much could not be written."""
        session = self._port.require_session()
        poller = zmq.Poller()
        poller.register(self._port.socket, zmq.POLLIN)
        if self._door is not None:
            poller.register(self._door.socket, zmq.POLLIN)
        while not self.stop and not self._is_over():
            self._service.turn()
            if self._lease is not None:
                self._lease.turn()
            self._advance()
            restarted = self._live.take_restart()
            if (restarted or self._live.outbox.overflows) and session.state in (State.READY, State.OPEN):
                self._port.resync("the manager has restarted" if restarted else "there is too much to tell")
            if session.state is State.READY:
                self._tell_scheduler()
            elif session.state in (State.START, State.GREETED, State.CLOSED):
                self._live.outbox.discard()
            self._flush()
            self._saving.turn()
            poller.poll(round(self._wait_s() * 1000))
            self._hear_scheduler()
            self._hear_users()
            self._tend_estimates()
            if self.web is not None:
                self.web.questions.answer(self._tell)
            self._watched.look()
            self._watch_silence()
            self._watch_history()
            self._watch_progress()
            try:
                self._port.tend()
            except (LinkError, ProtocolError) as error:
                self._drop_scheduler(str(error))
        if self._lease is not None:
            self._lease.rest()
        self._advance()
        self._flush()
        self._saving.write()

    # ------------------------------------------------------------ one turn

    def _advance(self) -> None:
        """Apply what is due by now, or the first of it.

        Must be called before a request or an answer is looked at: both are about the present.
        """
        now_us = self._clock.now_us()
        passed = self._live.advance(now_us, time.monotonic() + BEHIND_S)
        reached_us = self._live.now_us
        struck = self._faults.strike(reached_us)
        # A fault is a step, too, so that it does not strike again after a restart.
        if struck or passed:
            self._accounting.append(time_step(reached_us))
            self._record_changes()
        if reached_us < now_us and not self._was_behind:
            self._was_behind = True  # said once: a machine that is too slow for the speed is behind again and again
            behind_s, speed = (now_us - reached_us) / SECOND_US, self._clock.speed
            text = f"{behind_s:.0f} s behind the clock, at a speed of {speed:g}; time runs as fast as it can"
            self._log("behind", text, level=WARNING)
        for fault in struck:
            self._note_fault(fault)

    # Only to a scheduler that is ready; `LiveManager.batch` gives nothing while a batch is unanswered, so one is on its way at
    # most.
    def _tell_scheduler(self) -> None:
        if self._live.outbox.has_only_wakes and self._wakes_in_s() > 0:
            return
        only_wakes = self._live.outbox.has_only_wakes
        batch = self._live.batch()
        if batch is not None:
            self._sent_s = time.monotonic()
            self._sent_jobs = self._known_jobs()
            if only_wakes:
                self._woken_s = self._sent_s
            try:
                self._port.submit(*batch)
            except (LinkError, ProtocolError) as error:
                self._drop_scheduler(str(error))

    def _wakes_in_s(self) -> float:
        """Return for how long a batch with nothing but wakes must wait."""
        return max(0.0, self._woken_s + WAKES_S - time.monotonic())

    def _known_jobs(self) -> int:
        """Return the number of jobs that the scheduler can decide about."""
        return len(self._live.manager.pending) + len(self._live.manager.running)

    def _flush(self) -> None:
        written = self._accounting.flush()
        reached = self._accounting.reached()
        if self._lease is not None and reached is not None:
            self._lease.keep(self._live.now_us, reached)
        if written == self._was_full:
            self._was_full = not written
            if written:
                self._log("accounting-goes-on", "the database can be written to again")
            else:
                trouble = self._accounting.trouble
                self._log("accounting-waits", f"the database cannot be written to: {trouble}", level=WARNING)

    def _wait_s(self) -> float:
        if self._asked:
            return 0.0
        live = self._live
        wait_s = self._port.wait_s(SLICE_S)
        if live.outbox.has_only_wakes:
            wait_s = min(wait_s, self._wakes_in_s())
        for due_us in (live.due_us(), self._faults.next_us(), self._until_us):
            if due_us is not None:
                wait_s = min(wait_s, self._clock.wait_s(due_us))
        processes = live.manager.processes
        if processes is not None and processes.allowed:
            wait_s = min(wait_s, PROCESSES_S)
        return max(wait_s, SHORTEST_WAIT_S)

    def _hear_scheduler(self) -> None:
        self._port.most_bytes = min(MAX_FRAME_BYTES, ANSWER_BYTES + ANSWER_BYTES_A_JOB * self._live.unfinished)
        for _ in range(MOST_MESSAGES):
            heard = self._port.heard
            try:
                delivered = self._port.receive(zmq.NOBLOCK)
            except (LinkError, ProtocolError) as error:
                self._drop_scheduler(str(error))
                continue
            if self._port.heard == heard:
                return
            match delivered:
                case m.Actions():
                    self._apply_answer(delivered)
                case m.Hello(_, _, instance, policy):
                    text = f"scheduler {instance} with policy {policy} gets the present state"
                    self._log("scheduler-welcomed", text, instance=instance, policy=policy)
                    self.status.resyncs += 1
                    self._sent_s = None
                    return  # with many jobs its state takes long: users first, then another hello, which is here by now
                case m.Ready():
                    return  # it gets its first batch immediately

    # The answer is about the state when its batch was sent. What has become due since is applied first, and its step is in the
    # journal before the answer's: a replay must see both in this order.
    def _apply_answer(self, message: m.Actions) -> None:
        if self._sent_s is not None:
            self.status.count_answer(time.monotonic() - self._sent_s)
            self._sent_s = None
        most, count = most_actions(max(self._sent_jobs, self._known_jobs())), count_actions(message.actions)
        if count > most:
            self._drop_scheduler(f"an answer has {count} actions; expected at most {most}")
            return
        self._advance()
        now_us = self._live.now_us
        self._accounting.append(answer_step(now_us, message))
        self._live.apply_answer(message.seq, message.actions, message.now_us)
        self.status.refused = self._live.manager.refused
        self._record_changes()

    def _hear_users(self) -> None:
        """Answer users for a limited time; the next turn answers the others, after the entries that became due meanwhile."""
        if self._door is None:
            return
        began_s = time.monotonic()
        while True:  # all that wait are heard, so that nobody's requests hide another's
            for asked in self._door.receive():
                if not self._asked.add(asked.who.name, asked, asked.size):
                    self._door.answer(asked, r.TOO_MANY)
            if time.monotonic() - began_s >= USERS_S / 2 or not self._door.socket.poll(0):
                break
        while self._asked:
            asked = self._asked.take()
            asked_s = time.thread_time()
            answer = self._answer(asked)
            self._flush()  # answer only after the command is written, unless the disk is full
            if answer is not None:
                self._door.answer(asked, answer)
            self._door.charge(asked, time.thread_time() - asked_s)
            if time.monotonic() - began_s >= USERS_S:
                break

    def _tend_estimates(self) -> None:
        if self._estimates is not None and self._door is not None:
            for asked, answer in self._estimates.tend():
                self._door.answer(asked, answer)

    def _answer(self, asked: Asked) -> r.Done | r.Refused | None:
        """Return the answer to a request; None: it follows."""
        live = self._live
        self._advance()
        if isinstance(asked.request, r.EstimateStart):
            return self._estimate(asked, asked.request.job)
        if isinstance(asked.request, r.OpenWeb):
            return NO_WEB if self.web is None else self.web.open(asked.who)
        if not isinstance(asked.request, r.Change):
            return self._tell(asked.request)
        examined = live.examine(asked.who, asked.request)
        if isinstance(examined, r.Refused | r.Done):
            if self._audit is not None and isinstance(examined, r.Refused) and examined.code == "permission":
                self._audit.refused(f"user {asked.who.name} ({asked.peer})", examined.text)
            return examined
        if examined.submission is not None:
            unhonoured = self._unhonoured(examined.submission.job.spec)
            if unhonoured is not None:
                return unhonoured
        if self._door is not None and not self._door.takes_changes(
            asked.who, live.commands.jobs_changed(asked.request)
        ):
            return r.TOO_MANY_CHANGES
        # A command is on disk before it has any effect: a crash cannot undo what the user is told.
        try:
            self._accounting.append(command_step(live.now_us, asked.who, asked.request), durable=True)
        except AccountingError as error:
            return r.Refused("accounting", f"the manager cannot write to its database at present: {error}")
        answer = live.carry_out(examined)
        self._record_changes()
        if self._audit is not None and asked.who.operator and not isinstance(asked.request, r.SubmitJob):
            self._audit.acted(asked)
        return answer

    def _tell(self, question: r.Request) -> r.Done | r.Refused:
        """Return the answer to a question about the state of this turn."""
        served = bool(self._port.instance)
        return answer_query(
            self._live, self._accounting, self.status.as_dict, question, served=served, estimates=self._estimates
        )

    # A policy declines a machine on which a job waits that asks for what it does not honour: one job would end it for all users.
    def _unhonoured(self, job: m.JobSpec) -> r.Refused | None:
        """Return why a job would not be placed by the present scheduler's policy; None: it may."""
        asked = (
            ("resources", m.COUNTABLE, job.resources or job.licences),
            ("eligible", m.ELIGIBLE_NODES, job.eligible),
        )
        for path, word in [(path, word) for path, word, wanted in asked if wanted]:
            ignored = self._port.policy_ignores
            if ignored is None:
                return r.Refused(
                    "busy", f"no scheduler has said yet whether its policy honours {word}: try again", path
                )
            if word in ignored:
                return r.Refused("value", f"{self._port.policy} does not honour {word}", path)
        return None

    def _estimate(self, asked: Asked, job: r.SubmitJob) -> r.Refused | None:
        """Ask for the start of a job that is not submitted; None: the answer follows."""
        if self._estimates is None:
            return NO_ESTIMATES
        examined = self._live.examine(asked.who, job._replace(token=""))
        assert not isinstance(examined, r.Done)
        if isinstance(examined, r.Refused):
            return examined
        assert examined.submission is not None
        # A copy of the policy would decline the machine, too.
        spec = examined.submission.numbered(self._live.commands.next_id).spec
        return self._unhonoured(spec) or self._estimates.ask(asked, spec)

    def _record_changes(self) -> None:
        """Pass the changes of the last step to the accounting."""
        live = self._live
        changes = live.drain()
        self._accounting.record(changes)
        if self._estimates is not None:
            self._estimates.note(changes)
        if self._check:
            live.check()
        if self._progress is not None:
            self._ended += sum([isinstance(change, JobFinished) for change in changes])
            self._progress(self._ended)

    # ------------------------------------------------------------ the rest

    def _inventory(self) -> m.Welcome:
        self._advance()
        return self._live.inventory()

    # Any failure of the scheduler ends here, and nothing of it reaches users: jobs go on, and the next scheduler gets the present
    # state.
    def _drop_scheduler(self, text: str) -> None:
        """Drop a scheduler that has failed; running jobs continue until another scheduler comes."""
        self._port.dismiss()
        self._sent_s = None
        self.status.errors += 1
        self._log("scheduler-lost", f"the scheduler is lost, jobs wait for another one: {text}", level=WARNING)
        self._note_fault(FaultHappened(self._live.now_us, "scheduler lost", text))

    def _watch_silence(self) -> None:
        """Log once when the scheduler owes an answer for long; only pending jobs wait for it."""
        silent_s = self._port.silent_s
        if silent_s >= SILENT_S and not self._was_silent:
            text = f"scheduler {self._port.instance} has not answered for {silent_s:.0f} s; pending jobs do not start"
            self._log("scheduler-silent", text, level=WARNING)
        elif self._was_silent and silent_s < SILENT_S:
            self._log("scheduler-speaks", "the scheduler answers again")
        self._was_silent = silent_s >= SILENT_S

    def _watch_history(self) -> None:
        """Tell what is found in the part of the journal that was not played."""
        damage = self._saving.damage()
        if damage == WHOLE:
            self._log("history-whole", "the part of the journal that was not played is intact, and so are the tables")
        elif damage is not None:
            self._note_fault(FaultHappened(self._live.now_us, "history damaged", damage))

    def _watch_progress(self) -> None:
        """Log once what does not end by itself: a queue of which nothing starts, and jobs that use no CPU time any more."""
        now_s = time.monotonic()
        if now_s < self._stuck_looked_s + STUCK_S / 60:  # a look goes through the pending jobs
            return
        self._stuck_looked_s = now_s
        stuck = self._why_stuck()
        if stuck != self._stuck:
            self._stuck, self._stuck_since_s, self._stuck_reported = stuck, now_s, False
        elif stuck and not self._stuck_reported and now_s - self._stuck_since_s >= STUCK_S:
            self._stuck_reported = True
            self._log("stuck", f"for {STUCK_S:g} s {stuck}", level=WARNING)

    def _why_stuck(self) -> str:
        """Return what does not go on at present; empty if all does, as far as is known."""
        manager, port = self._live.manager, self._port
        if not manager.running:
            idle = manager.pending and port.instance and not port.silent_s and not manager.nodes.down
            waits = idle and not all(job.held for job in manager.pending.values())
            return f"nodes are idle and jobs are pending, and scheduler {port.instance} starts none" if waits else ""
        if manager.processes is None or manager.processes.idle_quanta < IDLE_QUANTA:
            return ""
        return (
            f"the running jobs have used no CPU time for at least {IDLE_QUANTA} quanta: they wait, perhaps for memory"
        )

    def _note_fault(self, fault: FaultHappened) -> None:
        self._accounting.record([fault])
        self._log("fault", f"{fault.kind}: {fault.detail}", level=WARNING, at_us=fault.at_us)

    def _is_over(self) -> bool:
        live = self._live
        if self._until_us is not None and live.now_us >= self._until_us:
            return True
        return self._until_idle and live.unfinished == 0 and live.agenda.all_submitted

    def _fields(self) -> dict[str, Any]:
        """Return the fields of the status besides the counters."""
        live, port = self._live, self._port
        manager = live.manager
        session = port.require_session()
        cut_us = manager.notes.get(None, m.CUT_SHORT)
        return {
            "clock": f"{self._clock.speed:g} emulated seconds a second",
            "speed": self._clock.speed,
            "now_us": live.now_us,
            "seq": manager.seq,
            "conversation": session.state.value,
            "scheduler": port.instance,
            "policy": port.policy if port.instance else "",
            "standby": port.standby,
            "silent_s": port.silent_s,
            "queued": len(manager.pending) + len(live.waiting),
            "running": len(manager.running),
            "nodes": manager.machine.nodes,
            "nodes_down": len(manager.nodes.down),
            "accounting_backlog": self._accounting.backlog,
            "plans_cut_short_us": cut_us if isinstance(cut_us, int) else None,
            "clock_held_back_us": self._clock.jumped_us,
            **self._watched.figures,
        }
