"""The scheduler's process: a connection, a session and a scheduler in one loop, which continues after restarts of the manager."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from cosched_plugin.common.deadline import tells_place
from cosched_plugin.common.errors import PolicyError, ProtocolError, RemoteProtocolError, UsageError
from cosched_plugin.common.process import Service, freeze_heap, stop_on_signals
from cosched_plugin.common.status import QUEUE_GAUGES, Gauge, Status, Value
from cosched_plugin.connection import Change, Connection, Keys
from cosched_plugin.protocol.codec import decode
from cosched_plugin.protocol.messages import ActionRefused, Bye, ErrorReport, Events, Message, Ping, Resync, Welcome
from cosched_plugin.protocol.scheduler import Scheduler, SchedulerFactory
from cosched_plugin.protocol.session import SchedulerSession, State, report_of
from cosched_plugin.quarantine import PolicyFailed, Quarantine
from cosched_plugin.status_server import StatusServer
from cosched_terminal.console import WARNING, Log

__all__ = ["Keys", "Scheduler", "SchedulerFactory", "serve"]

HELLO_INTERVAL_S: Final = 0.5
NOTICE_S: Final = 3.0  # without a welcome for so long, a line says so
FROZEN_S: Final = 1.0  # a longer turn means that this process was stopped: the deadline is extended by it
MAX_TEXT: Final = 16_000  # characters of a report: at most 64,000 bytes, below the limit of a string
_NO_MANAGER: Final = (
    "the process there is no manager for schedulers: expected the endpoint that serve has as --bind, not as --users, "
    "and the same version of cosched"
)
GAUGES: Final = {
    "seq": Gauge("batch_number", "Number of the last batch received."),
    "now_us": Gauge("manager_time_seconds", "The manager's time at that batch."),
    **QUEUE_GAUGES,
    "set_aside": Gauge("jobs_set_aside", "Jobs on which the policy fails."),
    "served": Gauge("served", "Whether a manager is served: 1 or 0."),
}


def serve(
    endpoint: str,
    scheduler_factory: SchedulerFactory,
    *,
    policy_name: str,
    wait_s: float,
    silence_s: float,
    log: Log | Callable[[str], None],
    standby: bool = False,
    policy_arguments: Sequence[str] = (),
    ignores: Sequence[str] = (),
    keys: Keys | None = None,
    status_endpoint: str | None = None,
    metrics_address: str | None = None,
    set_aside: bool = False,
) -> int:
    """Serve the manager at ``endpoint`` until it says bye, and return the exit code: 0, or 128 + n after signal n.

    ``wait_s`` is how long to wait for a manager, also for one that has gone. After ``silence_s`` without a message the manager is
    pinged, and it then has ``silence_s`` to answer. A ``standby`` waits while the manager serves another scheduler, and waits again
    if another one has replaced it. SIGTERM and SIGINT take effect between two batches (bye, then 143 or 130); a second one, of
    either kind, ends the process at once. Outside the main thread, signals are not handled. ``status_endpoint`` and
    ``metrics_address`` (HOST:PORT) serve the status of this process; ``log`` may be a function for lines of text.

    ``policy_arguments`` let the manager run copies of the policy ahead; they follow ``--policy`` on a command line. A manager with
    users refuses jobs that ask for one of ``ignores``. With ``set_aside`` a policy that fails goes on without the jobs (`quarantine`).

    Raises UsageError for an endpoint that may not be used; ProtocolError if there is no manager, or if it goes away, breaks the
    protocol or refuses this scheduler. The scheduler's own errors propagate after they are reported to the manager.
    """
    for name, span_s in (("wait", wait_s), ("silence", silence_s)):
        if not 0 <= span_s < float("inf"):
            raise UsageError(f"--{name}: expected a number of seconds, got {span_s}")
    said = log if isinstance(log, Log) else Log(write=log)
    if set_aside:
        scheduler_factory = Quarantine(scheduler_factory, said)
    with ExitStack() as open_things:
        connection = Connection(endpoint, keys)
        open_things.callback(connection.close)
        instance = f"{os.getpid()}-{os.urandom(4).hex()}"
        session = SchedulerSession(instance, policy_name, standby=standby, arguments=policy_arguments, ignores=ignores)
        server = _Server(endpoint, connection, scheduler_factory, policy_name, session, said, wait_s, standby)
        if status_endpoint is not None:
            open_things.callback(StatusServer(status_endpoint, server.status.as_dict).close)
        if metrics_address is not None:
            from cosched_plugin.common.page_server import serve_metrics  # noqa: PLC0415 - few have it, and it is slow to load

            open_things.callback(serve_metrics(metrics_address, server.status, said).close)
        with freeze_heap(), stop_on_signals(server.stop, said), tells_place(partial(said, "place", level=WARNING)):
            return server.run(silence_s)


class _Server:
    """The successive conversations of one process."""

    def __init__(
        self,
        endpoint: str,
        connection: Connection,
        scheduler_factory: SchedulerFactory,
        policy_name: str,
        session: SchedulerSession,
        log: Log,
        wait_s: float,
        standby: bool,
    ) -> None:
        self._stop_signal = 0  # set by a signal handler
        self.status = Status(self._fields, GAUGES)
        self._endpoint = endpoint
        self._connection = connection
        self._scheduler_factory = scheduler_factory
        self._scheduler: Scheduler | None = None  # set while this scheduler is served
        self._policy_name = policy_name
        self._log = log
        self._wait_s = wait_s
        self._standby = standby
        self._session = session
        self._welcomes = 0
        self._refusal = ""  # why a manager has refused this scheduler so far
        self._busy = False  # the reason was that another scheduler is served
        self._hello_at = 0.0
        self._greet_until = 0.0
        self._service = Service()

    def stop(self, signal_number: int) -> None:
        """End before the next batch; may be called at any moment."""
        self._stop_signal = signal_number

    def run(self, silence_s: float) -> int:
        """Greet and answer batches, repeatedly, until the end; return the exit code."""
        while True:
            ending = self._greet()
            if ending is None:
                ending = self._answer_batches(silence_s)
            if ending is not None:
                return ending

    def _greet(self) -> int | None:
        """Say hello until the manager welcomes this scheduler; return an exit code if the process must end before that."""
        before = time.monotonic()
        self._greet_until = before + self._wait_s
        notice_at = float("inf") if self._welcomes else before + NOTICE_S
        while self._scheduler is None:
            self._service.turn()
            now = time.monotonic()
            if self._stop_signal:
                return self._leave()
            if now - before > FROZEN_S:
                self._greet_until += now - before
                notice_at += now - before
            before = now
            if now >= self._greet_until:
                raise ProtocolError(self._no_manager())
            if now >= notice_at:
                notice_at = float("inf")
                self._note_waiting()
            if now >= self._hello_at and self._connection.greet(self._session.hello()):
                self._hello_at = now + HELLO_INTERVAL_S
            ending = self._receive()
            if ending is not None:
                return ending
        return None

    def _answer_batches(self, silence_s: float) -> int | None:
        """Answer batches until the end, and return the exit code; None if a new hello is necessary."""
        heard_at = time.monotonic()
        pinged_at: float | None = None
        token = 0
        while self._scheduler is not None:
            self._service.turn()
            if self._stop_signal:
                return self._leave()
            before = self._connection.heard
            ending = self._receive()
            if ending is not None:
                return ending
            now = time.monotonic()
            if self._connection.heard != before:
                heard_at, pinged_at = now, None
            elif pinged_at is None and now - heard_at > silence_s:
                token += 1
                pinged_at = now
                self._connection.send(Ping(token))
            elif pinged_at is not None and now - pinged_at > silence_s:
                raise ProtocolError(f"the manager at {self._endpoint} has been silent for {now - heard_at:.1f} s")
        return None

    def _leave(self) -> int:
        name = signal.Signals(self._stop_signal).name
        self._log("leaving", f"leaving on {name}", signal=name)
        if self._session.state is not State.START:
            self._connection.send(self._session.bye(name))
        return 128 + self._stop_signal

    def _note_waiting(self) -> None:
        """Say that no manager has welcomed us yet; a standby has said that it waits."""
        if not (self._standby and self._busy):
            why = f": {self._refusal}" if self._refusal else ""
            text = f"no manager has welcomed us at {self._endpoint} yet{why}; waiting up to {self._wait_s:g} s"
            self._log("waiting", text, level=WARNING, endpoint=self._endpoint)

    def _no_manager(self) -> str:
        if self._welcomes and not self._refusal:
            return f"the manager at {self._endpoint} has been gone for {self._wait_s:g} s"
        again = " again" if self._welcomes else ""
        why = f": {self._refusal}" if self._refusal else ""
        return f"no manager welcomed us{again} at {self._endpoint} within {self._wait_s:g} s{why}"

    def _start_over(self) -> None:
        """Drop the scheduler and say hello until the next welcome, which makes a new one."""
        self._scheduler = None
        self._refusal, self._busy = "", False

    def _receive(self) -> int | None:
        """Receive and handle one message, if one comes within the slice; return the exit code if it was the last one."""
        frames = self._connection.receive()
        if frames is None:
            self._check_connection()
            return None
        try:
            received = self._session.receive(decode(frames))
            for message in received.send:
                self._connection.send(message)
            return None if received.deliver is None else self._act_on(received.deliver)
        except RemoteProtocolError as error:
            self._report(report_of(error))
            if error.code == "frame" and not self._welcomes:
                raise ProtocolError(f"{self._endpoint}: {_NO_MANAGER}") from None
            if error.code == "unsupported":  # of what a welcome says: another start would end alike
                raise UsageError(str(error)) from None
            raise
        except PolicyError as error:
            self._report(ErrorReport("policy", "", str(error)))
            raise
        except UsageError as error:  # the scheduler cannot work with this machine or these settings
            self._report(ErrorReport("unsupported", "", str(error)))
            raise
        except Exception as error:
            if type(error) is not ProtocolError:  # this error was reported by the manager
                self._report(ErrorReport("internal", "", f"{type(error).__name__}: {error}"))
            raise

    def _report(self, report: ErrorReport) -> None:
        """Report an error to the manager, in a text that can be encoded."""
        self.status.errors += 1
        text = report.text.encode("utf-8", "replace").decode()
        self._connection.send(report._replace(text=text[:MAX_TEXT]))

    def _check_connection(self) -> None:
        """Handle the events of the connection; called only in silence, so that messages need not wait for it."""
        for change in self._connection.changes():
            match change:
                case Change.LOST if self._scheduler is not None:
                    text = f"lost the connection to the manager at {self._endpoint}; saying hello until it is back"
                    self._log("lost", text, level=WARNING, endpoint=self._endpoint)
                    self._start_over()
                case Change.REFUSED:
                    self._refusal = "the handshake failed (do both ends have keys, and do they fit?)"

    def _act_on(self, message: Message) -> int | None:
        match message:
            case Events():
                if self._scheduler is None:  # pragma: no cover - the session delivers no batch before a welcome
                    raise ProtocolError("a batch before any welcome")
                began = time.perf_counter()
                try:
                    actions = self._scheduler.handle(message.now_us, message.events)
                except PolicyFailed as failed:
                    self.status.errors += 1
                    text = f"the policy has failed, and begins anew from the manager's state: {failed}"
                    self._log("afresh", text, level=WARNING)
                    self._start_over()
                    return None
                time_s = time.perf_counter() - began
                self._connection.send(self._session.answer(actions))
                # After the answer, because the manager may be waiting for that.
                self.status.count_answer(time_s)
                self.status.refused += list(map(type, message.events)).count(ActionRefused)
            case Welcome():
                self._take_over(message)
            case Resync(reason, unsettled):
                fate = f"; {len(unsettled)} actions may or may not have had an effect" if unsettled else ""
                text = f"the manager asks for a new hello: {reason}{fate}"
                self._log("asked", text, reason=reason, unsettled=len(unsettled))
                self._start_over()
            case Bye(reason):
                self._log("bye", f"the manager said bye: {reason}" if reason else "the manager said bye", reason=reason)
                return 0
            case ErrorReport():
                self._act_on_error(message)
            case _:  # pragma: no cover - the session delivers nothing else
                raise ProtocolError(f"unexpected {type(message).__name__}")
        return None

    def _take_over(self, welcome: Welcome) -> None:
        """Make a scheduler from the manager's state."""
        self._scheduler = self._scheduler_factory(welcome)
        self._refusal, self._busy = "", False
        word = "resynced" if self._welcomes else "welcomed"
        self.status.resyncs += bool(self._welcomes)
        self._welcomes += 1
        self._connection.changes()  # earlier events of the connection are obsolete after a welcome
        nodes = sum([each.nodes for each in welcome.nodes])
        running, pending, seq = len(welcome.running), len(welcome.pending), welcome.seq
        self._log(
            word,
            f"{word} by the manager at {self._endpoint}: {nodes} nodes, {running} running, {pending} pending, batch {seq}",
            endpoint=self._endpoint,
            nodes=nodes,
            running=running,
            pending=pending,
            seq=seq,
        )
        self._connection.send(self._session.ready())

    def _act_on_error(self, error: ErrorReport) -> None:
        """Continue after an error that the manager reports, if possible; ProtocolError if not."""
        refusal = f"the manager reports {error.code}: {error.path}{': ' if error.path else ''}{error.text}"
        match error.code:
            case "busy" if self._scheduler is None:  # the other scheduler may be dead
                if self._standby:
                    self._greet_until = time.monotonic() + self._wait_s
                    if not self._busy:
                        self._log("standby", f"waiting as a standby: {refusal}", endpoint=self._endpoint)
                self._refusal, self._busy = refusal, True
            case "state" if self._welcomes:  # without a scheduler: the error answers a message before the last hello
                if self._scheduler is not None:
                    text = f"the manager at {self._endpoint} does not know us any more; saying hello again"
                    self._log("forgotten", text, endpoint=self._endpoint)
                    self._start_over()
            case "replaced" if self._standby:
                self._log("replaced", f"{refusal}; a standby again", endpoint=self._endpoint)
                self._start_over()
            case _:
                self.status.errors += 1
                raise ProtocolError(f"{self._endpoint}: {refusal}")

    def _fields(self) -> Mapping[str, Value]:
        """Return the fields of the status besides counters. Other threads call this, also while a batch is processed."""
        view = getattr(self._scheduler, "view", None)  # a core has a view, other schedulers need not have one
        waiting = "standby" if self._standby and self._busy else "greeting"
        return {
            "program": "cosched-plugin",
            "state": waiting if self._scheduler is None else "served",
            "served": self._scheduler is not None,
            "policy": self._policy_name,
            "instance": self._session.instance,
            "endpoint": self._endpoint,
            "seq": self._session.seq,
            "now_us": self._session.now_us,
            "queue_length": None if view is None else view.queued,
            "running_jobs": None if view is None else len(view.running),
            "set_aside": len(aside.jobs) if isinstance(aside := self._scheduler_factory, Quarantine) else 0,
        }
