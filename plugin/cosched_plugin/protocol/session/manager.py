"""The manager's end of the conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cosched_plugin.protocol.errors import LocalProtocolError, RemoteProtocolError
from cosched_plugin.protocol.messages import (
    FEATURES,
    HARDWARE,
    PROFILE,
    PROTOCOL_VERSION,
    SLOTS,
    Action,
    Actions,
    ErrorReport,
    Event,
    Events,
    Hello,
    JobSubmitted,
    Message,
    QuantumEnded,
    Ready,
    UnknownAction,
    Welcome,
)
from cosched_plugin.protocol.session.base import NOTHING, Received, Session
from cosched_plugin.protocol.session.transitions import (
    FEATURE_ACTIONS,
    Role,
    State,
    needed_feature,
)


class ManagerSession(Session):
    """The manager's end.

    ``inventory`` returns the manager's state; its ``version`` and ``features`` are filled in here. In ``lockstep`` that is always the
    state as of the last answered batch. Otherwise time runs on: the state is the present one, a batch that is open when a scheduler
    says hello is never answered, and the inventory's number is the one from which to count on.
    """

    role = Role.MANAGER

    def __init__(
        self,
        inventory: Callable[[], Welcome],
        versions: tuple[int, ...] = (PROTOCOL_VERSION,),
        features: tuple[str, ...] = FEATURES,
        *,
        lockstep: bool = True,
    ) -> None:
        super().__init__()
        self._inventory = inventory
        self._lockstep = lockstep
        self._told: Welcome | None = None  # the last welcome, repeated unchanged
        self.silent = False  # set by the driver: the served scheduler does not answer, and a standby may take over
        self._versions = versions
        self._features = features
        self._agreed: tuple[int, tuple[str, ...]] = (0, ())
        self.peer: Hello | None = None  # the scheduler that is served
        self.batch: Events | None = None  # the open batch
        start = inventory()
        self.seq = start.seq  # last answered batch
        self.now_us = start.now_us
        self._handlers = {Hello: self._on_hello, Ready: self._on_ready, Actions: self._on_actions}

    def submit(self, seq: int, now_us: int, events: Sequence[Event]) -> tuple[Message, ...]:
        """Open a batch and return what to send now: nothing while no scheduler is ready; the next ready one gets the batch.

        Raises LocalProtocolError when a batch is open, ``seq`` is not the next one, or time runs backwards.
        """
        if self.batch is not None:
            raise LocalProtocolError(f"batch {self.batch.seq} has not been answered yet")
        if seq != self.seq + 1:
            raise LocalProtocolError(f"expected batch {self.seq + 1}, not {seq}")
        if now_us < self.now_us:
            raise LocalProtocolError(f"time runs backwards, from {self.now_us} to {now_us}")
        self.batch = Events(seq, now_us, tuple(events), self._greeting)
        self.now_us = now_us
        return self._send_batch() if self.state is State.READY else ()

    def resend(self) -> tuple[Message, ...]:
        """Return what to send again after a long silence: the welcome or the open batch."""
        if self.state is State.WELCOMED and self._told is not None:
            self._say(Welcome)
            return (self._told,)
        return self._send_batch() if self.state is State.OPEN else ()

    def peer_lost(self) -> None:
        """Record that the scheduler's connection or process is gone; the open batch waits for another scheduler."""
        self.state = State.CLOSED

    def would_be_second(self, hello: Hello) -> bool:
        """Return whether ``hello`` comes from a second scheduler while the first, as far as is known, still lives."""
        return self._is_another(hello) and not self.takes_over(hello)

    def speaks(self, hello: Hello) -> bool:
        """Return whether both ends have a version in common."""
        return not set(hello.versions).isdisjoint(self._versions)

    def takes_over(self, hello: Hello) -> bool:
        """Return whether ``hello`` comes from a declared standby that may take over: the served scheduler is silent."""
        return hello.standby and self.silent and self._is_another(hello)

    def replace(self, hello: Hello) -> ErrorReport:
        """Return the last message to the scheduler that ``hello`` replaces, and release its place."""
        self.peer_lost()
        return ErrorReport("replaced", "", f"scheduler {hello.instance} has taken over: there was no answer in time")

    def _is_another(self, hello: Hello) -> bool:
        served = self.state not in (State.START, State.CLOSED)
        return served and self.peer is not None and hello.instance != self.peer.instance

    def _is_late(self, hello: Hello) -> bool:
        """Return whether ``hello`` is an older one of the scheduler that spoke last, or the same once more."""
        before = self.peer
        return before is not None and hello.instance == before.instance and 0 < hello.greeting <= before.greeting

    def _second(self, message: Hello) -> Received:
        """Refuse a second scheduler."""
        served = "" if self.peer is None else self.peer.instance
        return Received((ErrorReport("busy", "", f"scheduler {served} is being served, not {message.instance}"),))

    def _on_hello(self, message: Hello) -> Received:
        if self.would_be_second(message):
            return self._second(message)
        if self._is_late(message):
            return NOTHING
        self._hear(message)
        common = set(message.versions) & set(self._versions)
        if not common:
            ours = ", ".join(map(str, self._versions))
            raise RemoteProtocolError("version", "versions", f"none in common: this manager speaks {ours}")
        self.state = State.GREETED
        self.peer = message
        self.silent = False
        features = tuple(feature for feature in self._features if feature in message.features)
        self._agreed = (max(common), features)
        return Received((self._welcome(),), message)

    def _on_ready(self, message: Ready) -> Received:
        after = self._hear(message)
        if after is None or message.greeting != self._greeting:
            return NOTHING
        if message.seq != self.seq:
            if message.greeting:
                return NOTHING  # from a killed scheduler: its hello has come twice, and so has this
            raise RemoteProtocolError("sequence", "seq", f"expected {self.seq}, got {message.seq}")
        self.state = after
        self._told = None
        return Received(self._send_batch(), message)

    def _on_actions(self, message: Actions) -> Received:
        after = self._hear(message)
        if message.seq <= self.seq or self.state is State.CLOSED or message.greeting != self._greeting:
            return NOTHING
        if self.batch is None or message.seq != self.batch.seq:
            expected = self.seq if self.batch is None else self.batch.seq
            raise RemoteProtocolError("sequence", "seq", f"expected at most {expected}, got {message.seq}")
        if after is None:
            return NOTHING  # sent before the resync that is under way; the batch will be sent again
        if message.now_us != self.batch.now_us:
            raise RemoteProtocolError("clock", "now_us", f"expected {self.batch.now_us}, got {message.now_us}")
        self.state = after
        self.seq = message.seq
        self.batch = None
        _, features = self._agreed
        if features != FEATURES:  # which are all
            message = message._replace(
                actions=tuple([_replace_unknown(action, features) for action in message.actions])
            )
        return Received((), message)

    @property
    def _greeting(self) -> int:
        return 0 if self.peer is None else self.peer.greeting

    def _send_batch(self) -> tuple[Message, ...]:
        if self.batch is None:
            return ()
        self._say(Events)
        if self.batch.greeting != self._greeting:
            self.batch = self.batch._replace(greeting=self._greeting)
        _, features = self._agreed
        if features == FEATURES:  # which are all
            return (self.batch,)
        known = tuple([_without_profile(event, features) for event in self.batch.events if _is_known(event, features)])
        return (self.batch._replace(events=known),)

    def _welcome(self) -> Welcome:
        inventory = self._inventory()
        if not self._lockstep:
            self.seq, self.now_us, self.batch = inventory.seq, inventory.now_us, None
        elif inventory.seq != self.seq:
            raise LocalProtocolError(f"the inventory is of batch {inventory.seq}; the last answered one is {self.seq}")
        version, features = self._agreed
        slots = inventory.slots
        if slots is not None and SLOTS not in features:
            if slots.turns or any(running.slot for running in inventory.running):
                text = f"expected the feature {SLOTS}: jobs share the machine's time here"
                raise RemoteProtocolError("unsupported", "features", text)
            slots = None
        self._say(Welcome)
        told = inventory._replace(version=version, features=features, greeting=self._greeting, slots=slots)
        self._told = _without_hardware(told, features)
        return self._told


def _is_known(event: Event, features: Sequence[str]) -> bool:
    """Return whether a scheduler with these features knows the event."""
    return SLOTS in features or not isinstance(event, QuantumEnded)


def _without_profile(event: Event, features: Sequence[str]) -> Event:
    """Return the event as a scheduler with these features is told it."""
    if PROFILE not in features and isinstance(event, JobSubmitted) and event.job.profile is not None:
        return JobSubmitted(event.job._replace(profile=None))
    return event


def _without_hardware(welcome: Welcome, features: Sequence[str]) -> Welcome:
    """Return the welcome without caches, issue slots and profiles where the scheduler does not know these features."""
    if HARDWARE not in features:
        welcome = welcome._replace(nodes=tuple([item._replace(hardware=None) for item in welcome.nodes]))
    if PROFILE not in features:
        running = tuple([job._replace(spec=job.spec._replace(profile=None)) for job in welcome.running])
        pending = tuple([job._replace(spec=job.spec._replace(profile=None)) for job in welcome.pending])
        welcome = welcome._replace(running=running, pending=pending)
    return welcome


def _replace_unknown(action: Action, features: Sequence[str]) -> Action:
    """Return ``action``, or an unknown one where the two ends did not agree on its feature."""
    if needed_feature(action, features) is None:
        return action
    name, _ = FEATURE_ACTIONS.get(type(action), ("start_job with a slot", ""))
    return UnknownAction(f"{name} (not agreed on)")  # a name that no action has
