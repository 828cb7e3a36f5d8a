"""The decision process for Batsim: each of its messages becomes events of one instant, the scheduler's actions become its events.

`Decisions.answer` is the whole story: a frame of Batsim's comes in, the reply goes out. There is no clock and no socket in here, and
nothing is polled or remembered for a restart as in `cosched_plugin.site`: Batsim tells every event in its order, carries out every
decision or aborts, and a scheduler that dies cannot be replaced, because Batsim waits for the reply of the one that is gone. The books
of `cosched_plugin.site` would take 2.4 times as long as all the rest (2,000 jobs under easy); tests keep them beside recordings.

What Batsim cannot do the scheduler is told at the start: limits never grow (capability ``limits_grow``), and it has no features for
jobs on disk, slots, requeues or submissions. A suspension, which only a measured slowdown causes, is refused: Batsim measures none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cosched_plugin.batsim import messages as b
from cosched_plugin.batsim.messages import BatsimEvent
from cosched_plugin.batsim.site import Hosts, JobReader, SiteFile, read_hosts_of
from cosched_plugin.common.errors import MachineError
from cosched_plugin.common.slurm_notation import natural
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.limits import MAX_NODES, MAX_ROUNDS
from cosched_plugin.protocol.scheduler import Scheduler, SchedulerFactory
from cosched_terminal.console import WARNING, Log

# Batsim's clock moves on by a few tens of microseconds before it reads a call, where its platform has latencies.
LEAST_CALL_US: Final = 1_000
_LACKING: Final = frozenset({"disk", "slots", "requeue", "submit"})
_ENDS: Final[Mapping[str, str]] = {
    b.SUCCESS: m.COMPLETED,
    b.FAILED: m.FAILED,
    b.WALLTIME: m.TIMEOUT,
    b.KILLED: m.CANCELLED,
}
_OTHERS: Final = 1 << 31  # numbers of jobs whose names are none
_GROUPS: Final = "groups"  # the feature of policies that put two jobs on a host


class Decisions:
    """The scheduler of one simulation. ``make`` is asked once, with what SIMULATION_BEGINS tells."""

    def __init__(
        self, make: SchedulerFactory, features: frozenset[str], site: SiteFile, decision_us: int, log: Log
    ) -> None:
        """``features`` are those that the policy uses; ``decision_us`` is how long every decision takes in Batsim's time."""
        self._make = make
        self._pairs = _GROUPS in features
        self._site = site
        self._decision_us = decision_us
        self._log = log
        self._scheduler: Scheduler | None = None
        self._hosts: Hosts
        self._reader: JobReader
        self._now_us = 0
        self._seq = 0
        self.ids: dict[str, int] = {}  # numbers of jobs that have not ended, by Batsim's name
        self._names: dict[int, str] = {}
        self._next_id = _OTHERS
        self._running: set[int] = set()
        self._wakes: set[int] = set()
        self._down: set[int] = set()  # nodes
        self.begun = self.ended = False  # SIMULATION_BEGINS and SIMULATION_ENDS have come
        self.jobs = self.starts = self.rejected = 0

    def answer(self, frame: bytes) -> bytes:
        """Return the reply to a message of Batsim's.

        Raises RemoteProtocolError for a message that cannot be, MachineError for hosts on which the policy cannot work, PolicyError.
        """
        now_us, events = b.read_message(frame, b.FROM_BATSIM)
        if now_us < self._now_us:
            text = f"time runs backwards, from {b.seconds(self._now_us)} to {b.seconds(now_us)}"
            raise RemoteProtocolError("clock", "now", text)
        self._now_us = now_us
        if self._scheduler is None:
            if [event.type for event in events] != ["SIMULATION_BEGINS"]:
                raise RemoteProtocolError("state", "events", "expected SIMULATION_BEGINS alone as the first event")
            self.begun = True
            return b.write_message(now_us, self._begin(events[0]))
        replies: list[str] = []
        happened = self._events_of(events, replies)
        decided_us = now_us
        if happened:
            decided_us += self._decision_us
            self._now_us = decided_us
            replies += self._decide(decided_us, happened)
        if self.ended:
            return b.write_message(now_us, ())  # Batsim aborts on anything else
        return b.write_message(decided_us, replies)

    # ------------------------------------------------------------ Batsim's events

    def _begin(self, event: BatsimEvent) -> list[str]:
        """Make the scheduler; return the first reply's events."""
        data, path = event.data, f"{event.path}.data"
        config = b.obj(data, "config", path) if "config" in data else {}
        jobs = self._site.jobs or (2 if self._pairs else 1)
        self._hosts = hosts = read_hosts_of(data, path, self._site, jobs)
        if jobs > 1 and not hosts.shared:
            why = "the policy puts two jobs on a host" if self._site.jobs is None else "the site file allows it"
            raise MachineError(f"up to {jobs} jobs share a host ({why}): expected Batsim with --enable-compute-sharing")
        if self._pairs and jobs < 2:
            raise MachineError("the policy puts two jobs on a host, the site file allows one: expected hosts.jobs = 2")
        if self._pairs and self._site.belief.contention == "none":
            text = "the policy pairs jobs by beliefs of the site file, and there is none: no jobs will share hosts"
            self._log("belief", text, level=WARNING)
        self._reader = JobReader(self._site, data, path, jobs)
        self._down = set(hosts.down)
        welcome = m.Welcome(
            m.PROTOCOL_VERSION,
            tuple(feature for feature in m.FEATURES if feature not in _LACKING),
            0,
            self._now_us,
            hosts.classes,
            hosts.down,
            self._site.belief,
            (),
            (),
            (),
            (),
            capabilities=m.Capabilities(limits_grow=False),
        )
        self._scheduler = self._make(welcome)
        self._log("begins", f"a simulation of {len(hosts.numbers)} hosts begins", hosts=len(hosts.numbers))
        if b.flag(config, "dynamic-jobs-enabled", f"{path}.config"):
            return [b.write_event(self._now_us, "NOTIFY", '{"type":"registration_finished"}')]
        return []

    def _events_of(self, events: Sequence[BatsimEvent], replies: list[str]) -> list[m.Event]:
        """Return what has happened, in the order of the scheduler's protocol; ``replies`` gets what needs no decision."""
        ends: list[m.Event] = []
        nodes: list[m.Event] = []
        submitted: list[BatsimEvent] = []
        for event in events:
            match event.type:
                case "JOB_SUBMITTED":
                    submitted.append(event)
                case "JOB_COMPLETED":
                    ends.append(self._completed(event))
                case "JOB_KILLED":  # the completions of its jobs have come before
                    b.names(event.data, "job_ids", f"{event.path}.data")
                    b.obj(event.data, "job_progress", f"{event.path}.data")
                case "NOTIFY":
                    nodes += self._notified(event)
                case "SIMULATION_ENDS":
                    self._end(event, len(events))
                case "SIMULATION_BEGINS":
                    raise RemoteProtocolError("state", event.path, "the simulation has begun already")
                case _:  # REQUESTED_CALL: wakes that are due are found by the time; states of hosts are the platform's business
                    pass
        if len(submitted) > 1:  # Batsim sorts those of one instant as texts, w0!10 before w0!2
            submitted.sort(key=lambda event: (event.at_us, natural(str(event.data.get("job_id")))))
        happened = ends + nodes
        for event in submitted:
            happened += self._submitted(event, replies)
        due = sorted([at_us for at_us in self._wakes if at_us <= self._now_us])
        for at_us in due:
            self._wakes.discard(at_us)
            happened.append(m.Woken(at_us))
        return happened

    def _submitted(self, event: BatsimEvent, replies: list[str]) -> list[m.Event]:
        data, path = event.data, f"{event.path}.data"
        name = b.text(data, "job_id", path)
        if name in self.ids:
            raise RemoteProtocolError("state", f"{path}.job_id", f"job {name} was submitted before")
        number = self._number_of(name)
        spec = self._reader.read(data, path, number, self._now_us)
        self.jobs += 1
        if spec.processes > len(self._hosts.numbers):
            self.rejected += 1
            self._log("rejected", f"job {name} requests {spec.processes} hosts of {len(self._hosts.numbers)}")
            replies.append(b.write_event(self._now_us, "REJECT_JOB", f'{{"job_id":{b.write_text(name)}}}'))
            return []
        self.ids[name] = number
        self._names[number] = name
        return [m.JobSubmitted(spec)]

    def _number_of(self, name: str) -> int:
        """Return a job's number: of the first workload's jobs their own, where they are numbers."""
        workload, _, own = name.partition("!")
        if workload == "w0" and own.isascii() and own.isdigit() and str(int(own[:9])) == own:
            return int(own)
        self._next_id += 1
        return self._next_id

    def _completed(self, event: BatsimEvent) -> m.JobEnded:
        data, path = event.data, f"{event.path}.data"
        name, state = b.text(data, "job_id", path), b.text(data, "job_state", path)
        if state not in _ENDS:
            b.refuse(f"{path}.job_state", f"one of {', '.join(sorted(_ENDS))}", state)
        number = self.ids.get(name)
        if number is None or number not in self._running:
            raise RemoteProtocolError("state", f"{path}.job_id", f"job {name} completed, but it does not run")
        self._running.discard(number)
        del self.ids[name], self._names[number]
        return m.JobEnded(number, _ENDS[state])

    def _notified(self, event: BatsimEvent) -> Iterator[m.Event]:
        data, path = event.data, f"{event.path}.data"
        kind = b.text(data, "type", path)
        if kind not in ("event_machine_unavailable", "event_machine_available"):
            return  # no more jobs or events to come, which the scheduler needs not know; or an event of the user's
        fails = kind == "event_machine_unavailable"
        for number in b.read_hosts(data, "resources", path, MAX_NODES):
            node = self._hosts.nodes.get(number)
            if node is None or (node in self._down) == fails:
                continue  # storage, or nothing new
            (self._down.add if fails else self._down.discard)(node)
            yield m.NodeFailed(node) if fails else m.NodeReturned(node)

    def _end(self, event: BatsimEvent, events: int) -> None:
        if events > 1:
            raise RemoteProtocolError("state", event.path, "SIMULATION_ENDS comes alone")
        if self.ids:
            text = f"the simulation ended before {len(self.ids)} jobs, such as {next(iter(self.ids))}"
            raise RemoteProtocolError("state", event.path, text)
        self.ended = True

    # ------------------------------------------------------------ decisions

    def _decide(self, now_us: int, happened: list[m.Event]) -> list[str]:
        """Ask the scheduler until it insists on nothing that is refused; return Batsim's events."""
        assert self._scheduler is not None
        found: list[str] = []
        rounds = 0
        while happened:
            rounds += 1
            if rounds > MAX_ROUNDS:
                raise RemoteProtocolError("rounds", "", f"the policy repeats what Batsim cannot do: {happened[0]}")
            actions = self._scheduler.handle(now_us, happened)
            self._seq += 1
            happened = []
            for number, action in enumerate(actions):
                reason = self._carry_out(action, now_us, found)
                if reason is not None:
                    happened.append(m.ActionRefused(self._seq, number, reason))
        return found

    def _carry_out(self, action: m.Action, now_us: int, found: list[str]) -> str | None:
        """Add an action as Batsim's events, or return why it has none."""
        match action:
            case m.StartJob():
                found.append(self._execute(action, now_us))
            case m.StartTogether(starts):
                found += [self._execute(start, now_us) for start in starts]
            case m.SetNote() | m.ReviseJob():
                pass  # a plan of the scheduler's own: its limits do not grow
            case m.WakeAt(at_us):
                self._wakes.add(at_us)
                call_us = max(at_us, now_us + LEAST_CALL_US)
                found.append(b.write_event(now_us, "CALL_ME_LATER", f'{{"timestamp":{b.seconds(call_us)}}}'))
            case m.RejectJob(job_id, reason):
                name = self._names.pop(job_id)
                del self.ids[name]
                self.rejected += 1
                self._log("rejected", f"job {name} is rejected: {reason}")
                found.append(b.write_event(now_us, "REJECT_JOB", f'{{"job_id":{b.write_text(name)}}}'))
            case m.KillJob(job_id):
                found.append(b.write_event(now_us, "KILL_JOB", f'{{"job_ids":[{b.write_text(self._names[job_id])}]}}'))
            case _:
                return f"Batsim does not support {type(action).__name__}"
        return None

    def _execute(self, start: m.StartJob, now_us: int) -> str:
        numbers = self._hosts.numbers
        hosts = [numbers[node] for first, count, _, _ in start.runs for node in range(first, first + count)]
        hosts.sort()
        self._running.add(start.job_id)
        self.starts += 1
        name = b.write_text(self._names[start.job_id])
        return b.write_event(now_us, "EXECUTE_JOB", f'{{"job_id":{name},"alloc":"{b.write_hosts(hosts)}"}}')


def features_of(policy: Any) -> frozenset[str]:
    """Return the features of the protocol that a policy says it uses; none for one that says nothing."""
    features = getattr(policy, "features", None)
    return features if isinstance(features, frozenset) else frozenset()
