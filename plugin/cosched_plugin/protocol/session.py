"""The conversation of manager and scheduler, without sockets: its table, and a state machine for each end.

Read the table first: which end may send which message in which state, and what the state is then. Both ends are tested on it.
Every message, sent or received, goes through `Session`; the rules of sequence numbers, repeats and greetings stand there once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.errors import LocalProtocolError, RemoteProtocolError
from cosched_plugin.protocol.features import (
    DISK,
    OVERLOOKED,
    batch_for,
    known_action,
    lacking,
    overlooked_feature,
    tells_all,
    unknown_kinds,
    welcome_for,
)
from cosched_plugin.protocol.limits import MAX_ACTIONS, MAX_ROUNDS, most_actions

# The table of the conversation: which end may send which message in which state, and the next state.


class Role(enum.Enum):
    """The two ends."""

    SCHEDULER = "scheduler"
    MANAGER = "manager"


class State(enum.Enum):
    """States of the conversation."""

    START = "start"  # no message yet
    GREETED = "greeted"  # the scheduler said hello; the manager owes a welcome
    WELCOMED = "welcomed"  # the manager told its state; the scheduler owes a ready
    READY = "ready"  # the manager may send a batch
    OPEN = "open"  # a batch is out; the scheduler owes an answer
    ASKED = "asked"  # the manager asked for a hello; the scheduler owes it
    CLOSED = "closed"  # over, until a scheduler says hello

    __hash__ = object.__hash__  # Enum's own is a function in Python, and every message looks up its state


Table: TypeAlias = Mapping[State, Mapping[type, State]]

# Ping, Pong, ErrorReport and Bye: either
SPEAKER: Final[Mapping[type, Role]] = {
    m.Hello: Role.SCHEDULER,
    m.Welcome: Role.MANAGER,
    m.Ready: Role.SCHEDULER,
    m.Events: Role.MANAGER,
    m.Actions: Role.SCHEDULER,
    m.Resync: Role.MANAGER,
}

TRANSITIONS: Final[Table] = {
    State.START: {m.Hello: State.GREETED},
    State.GREETED: {m.Hello: State.GREETED, m.Welcome: State.WELCOMED},
    State.WELCOMED: {m.Hello: State.GREETED, m.Welcome: State.WELCOMED, m.Ready: State.READY},
    State.READY: {m.Hello: State.GREETED, m.Events: State.OPEN, m.Resync: State.ASKED},
    State.OPEN: {m.Hello: State.GREETED, m.Events: State.OPEN, m.Actions: State.READY, m.Resync: State.ASKED},
    State.ASKED: {m.Hello: State.GREETED, m.Resync: State.ASKED},
    State.CLOSED: {m.Hello: State.GREETED},
}

# Messages that may be received although the state does not expect them, by role and state.
CROSSING: Final[Mapping[Role, Mapping[State, frozenset[type]]]] = {
    Role.SCHEDULER: {
        State.START: frozenset(),
        State.GREETED: frozenset({m.Events, m.Resync}),  # sent before the manager received our hello
        State.WELCOMED: frozenset({m.Events, m.Resync}),
        State.READY: frozenset({m.Welcome}),  # answer to a hello that we had repeated
        State.OPEN: frozenset({m.Welcome}),
        State.ASKED: frozenset({m.Welcome, m.Events}),
        State.CLOSED: frozenset({m.Welcome, m.Events, m.Resync}),
    },
    Role.MANAGER: {
        State.START: frozenset(),
        State.GREETED: frozenset({m.Ready, m.Actions}),  # sent before the scheduler said hello again
        State.WELCOMED: frozenset({m.Actions}),
        State.READY: frozenset({m.Ready, m.Actions}),  # sent twice, because we had asked twice
        State.OPEN: frozenset({m.Ready}),
        State.ASKED: frozenset({m.Ready, m.Actions}),
        State.CLOSED: frozenset({m.Ready, m.Actions}),
    },
}

# Common parts of both ends of the conversation.


class Received(NamedTuple):
    """The result of one message: replies to send at once, and messages on which the driver must act."""

    send: tuple[m.Message, ...] = ()
    deliver: m.Message | None = None


NOTHING: Final = Received()


def report_of(error: RemoteProtocolError) -> m.ErrorReport:
    """Return the message that reports the error to the peer."""
    return m.ErrorReport(error.code, error.path, error.text)


class Session:
    """The base of both ends."""

    role: Role

    def __init__(self) -> None:
        self.state = State.START
        self._handlers: dict[type, Callable[..., Received]] = {}

    def receive(self, message: m.Message) -> Received:
        """Handle one message of the peer; RemoteProtocolError, and a closed session, when it may not be sent now."""
        handler = self._handlers.get(type(message))
        try:
            if handler is not None:
                return handler(message)
            match message:
                case m.Ping(token):
                    return Received((m.Pong(token),))
                case m.Pong():
                    return NOTHING
                case m.ErrorReport("busy"):
                    # It changes nothing, and has no meaning for a scheduler that has been welcomed meanwhile.
                    return Received((), message) if self.state is State.GREETED else NOTHING
                case m.ErrorReport() | m.Bye():
                    already = self.state is State.CLOSED
                    self.state = State.CLOSED
                    return NOTHING if already else Received((), message)
                case _:
                    raise self._untimely(message)
        except RemoteProtocolError:
            self.state = State.CLOSED
            raise

    def bye(self, reason: str) -> m.Bye:
        """Return the message with which this side leaves."""
        self.state = State.CLOSED
        return m.Bye(reason)

    def _say(self, kind: type) -> None:
        """Step on for a message of our own; LocalProtocolError if it may not be sent now."""
        after = TRANSITIONS[self.state].get(kind)
        if after is None:
            raise LocalProtocolError(f"a {self.role.value} cannot say {kind.__name__} in state {self.state.value}")
        self.state = after

    def _hear(self, message: m.Message) -> State | None:
        """Return the state that a message of the peer leads to, None if it only crossed; raises RemoteProtocolError."""
        after = TRANSITIONS[self.state].get(type(message))
        if after is None and type(message) not in CROSSING[self.role][self.state]:
            raise self._untimely(message)
        return after

    def _untimely(self, message: m.Message) -> RemoteProtocolError:
        kind = type(message)
        if SPEAKER.get(kind) is self.role:
            return RemoteProtocolError("state", "type", f"only a {self.role.value} says {kind.__name__}")
        return RemoteProtocolError("state", "type", f"{kind.__name__} does not fit state {self.state.value}")


# The scheduler's end of the conversation.


class SchedulerSession(Session):
    """The scheduler's end. ``instance`` is unique to this process, ``policy`` is for people, a ``standby`` waits to take over."""

    role = Role.SCHEDULER

    def __init__(
        self,
        instance: str,
        policy: str,
        versions: tuple[int, ...] = (m.PROTOCOL_VERSION,),
        features: tuple[str, ...] = m.FEATURES,
        *,
        standby: bool = False,
        arguments: Sequence[str] = (),
        ignores: Sequence[str] = (),
    ) -> None:
        super().__init__()
        # As last sent.
        self._hello = m.Hello(versions, features, instance, policy, standby, 0, tuple(arguments), tuple(ignores))
        self._greeting = 0  # of the last welcome that was taken over
        self.seq = 0  # last batch received
        self.now_us = 0
        self._features: tuple[str, ...] = ()  # agreed on
        self._lacking = True  # one of those is missing without which a manager would overlook fields
        self._reply: m.Actions | None = None  # to the batch ``seq``
        self._welcome: m.Welcome | None = None  # the last one that was taken over
        self._rounds = 0  # batches in a row that held nothing but refusals
        self._handlers = {m.Welcome: self._on_welcome, m.Events: self._on_events, m.Resync: self._on_resync}

    @property
    def instance(self) -> str:
        """Return what is unique to this scheduler's process."""
        return self._hello.instance

    def hello(self) -> m.Hello:
        """Return the first message; repeat it until a welcome is delivered."""
        self._say(m.Hello)
        self._hello = self._hello._replace(greeting=self._hello.greeting + 1)
        return self._hello

    def ready(self) -> m.Ready:
        """Return the message that ends the greeting; send it when the delivered welcome has been taken over."""
        self._say(m.Ready)
        return m.Ready(self.seq, self._greeting)

    def answer(self, actions: Sequence[m.Action]) -> m.Actions:
        """Return the reply to the batch that was delivered last.

        LocalProtocolError for a suspension to disk, or a start in a slot, where the manager does not know of these: it would stop the
        job where it is, or start it in slot 0. Other actions of features that were not agreed on are refused by the manager.
        """
        if self._lacking:
            for action in actions:
                feature = overlooked_feature(action, self._features)
                if feature is not None:
                    what = "suspended to disk" if feature == DISK else "started in a slot"
                    raise LocalProtocolError(f"the manager does not know the feature {feature}: no job can be {what}")
        self._say(m.Actions)
        self._reply = m.Actions(self.seq, self.now_us, tuple(actions), self._greeting)
        return self._reply

    def _on_welcome(self, message: m.Welcome) -> Received:
        after = self._hear(message)
        if self.state in (State.CLOSED, State.ASKED):
            return NOTHING
        if message.greeting > self._hello.greeting:
            raise RemoteProtocolError(
                "sequence", "greeting", f"expected at most {self._hello.greeting}, got {message.greeting}"
            )
        if message.greeting < self._greeting:
            return NOTHING  # it is late
        served = self.state in (State.READY, State.OPEN)
        if message == self._welcome and (served or message.greeting):
            # Taken over already. If nothing has come since, the manager has not received our `ready`.
            unheard = self.state is State.READY and self.seq == message.seq
            return Received((m.Ready(self.seq, self._greeting),)) if unheard else NOTHING
        if message.greeting and message.greeting == self._greeting and not served:
            return NOTHING  # of a hello before the last one
        if after is None:  # another one than the last: a resync
            # The manager may not have seen our reply to the last batch; anything older than that came late.
            if message.seq > self.seq:
                raise RemoteProtocolError("sequence", "seq", f"expected at most {self.seq}, got {message.seq}")
            if message.seq < self.seq - 1:
                return NOTHING
        if message.version not in self._hello.versions:
            raise RemoteProtocolError("version", "version", f"{message.version} was not offered")
        for index, feature in enumerate(message.features):
            if feature not in self._hello.features:
                raise RemoteProtocolError("version", f"features[{index}]", "was not offered")
        self.state = State.WELCOMED
        self._features = message.features
        self._lacking = not set(OVERLOOKED).issubset(message.features)
        self._greeting = message.greeting
        self._welcome = message
        self._rounds = 0
        self.seq = message.seq
        self.now_us = message.now_us
        self._reply = None
        return Received((), message)

    def _on_resync(self, message: m.Resync) -> Received:
        after = self._hear(message)
        if after is None or message.greeting != self._greeting:
            return NOTHING
        already = self.state is after
        self.state = after
        return NOTHING if already else Received((), message)

    def _on_events(self, message: m.Events) -> Received:
        after = self._hear(message)
        if after is None or message.greeting != self._greeting:
            return NOTHING
        if message.seq <= self.seq:
            if message.seq < self.seq or self._reply is None:
                return NOTHING
            return Received((self._reply,))
        if message.seq != self.seq + 1 or self.state is State.OPEN:
            raise RemoteProtocolError("sequence", "seq", f"expected {self.seq + 1}, got {message.seq}")
        if message.now_us < self.now_us:
            raise RemoteProtocolError("clock", "now_us", f"time runs backwards, from {self.now_us} to {message.now_us}")
        self._rounds = _rounds_after(self._rounds, message.events)
        if self._rounds > MAX_ROUNDS:
            raise RemoteProtocolError("rounds", "events", f"{self._rounds} batches in a row hold nothing but refusals")
        self.state = after
        self.seq = message.seq
        self.now_us = message.now_us
        self._reply = None
        return Received((), message)


def _rounds_after(rounds: int, events: Sequence[m.Event]) -> int:
    """Return how many batches in a row have held nothing but refusals, ``rounds`` before the one with these events."""
    if events and type(events[0]) is m.ActionRefused and all(type(event) in _OF_REFUSALS for event in events):
        return rounds + 1
    return 0


_OF_REFUSALS: Final = (m.ActionRefused, m.ProgressMeasured)  # what refused actions would have voided is told again


# The manager's end of the conversation.


class ManagerSession(Session):
    """The manager's end.

    ``inventory`` returns the manager's state; its ``version`` and ``features`` are filled in here. In ``lockstep`` that is always the
    state as of the last answered batch. Otherwise time runs on: the state is the present one, a batch that is open when a scheduler
    says hello is never answered, and the inventory's number is the one from which to count on. ``required`` are features without
    which a scheduler would not understand this manager, and is not served.
    """

    role = Role.MANAGER

    def __init__(
        self,
        inventory: Callable[[], m.Welcome],
        versions: tuple[int, ...] = (m.PROTOCOL_VERSION,),
        features: tuple[str, ...] = m.FEATURES,
        *,
        lockstep: bool = True,
        required: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self._inventory = inventory
        self._lockstep = lockstep
        self._required = required
        self._rounds = 0  # batches in a row that held nothing but refusals
        self._last_welcome: m.Welcome | None = None  # the last welcome, repeated unchanged
        self._asked: m.Resync | None = None  # the last request for a hello, repeated unchanged
        self.silent = False  # set by the driver: the served scheduler does not answer, and a standby may take over
        self._versions = versions
        self._features = features
        self._agreed: tuple[int, tuple[str, ...]] = (0, ())
        self._tells_all = False  # the scheduler is told every event as it is
        self._unknown: frozenset[type] = frozenset()  # types of actions that may be unknown here
        self.peer: m.Hello | None = None  # the scheduler that is served
        self.batch: m.Events | None = None  # the open batch
        start = inventory()
        self.seq = start.seq  # last answered batch
        self.now_us = start.now_us
        self._handlers = {m.Hello: self._on_hello, m.Ready: self._on_ready, m.Actions: self._on_actions}

    def submit(self, seq: int, now_us: int, events: Sequence[m.Event]) -> tuple[m.Message, ...]:
        """Open a batch and return what to send now: nothing while no scheduler is ready; the next ready one gets the batch.

        Raises LocalProtocolError when a batch is open, ``seq`` is not the next one, or time runs backwards; RemoteProtocolError, with
        a closed session, when the scheduler insists on actions that are refused.
        """
        if self.batch is not None:
            raise LocalProtocolError(f"batch {self.batch.seq} has not been answered yet")
        if seq != self.seq + 1:
            raise LocalProtocolError(f"expected batch {self.seq + 1}, not {seq}")
        if now_us < self.now_us:
            raise LocalProtocolError(f"time runs backwards, from {self.now_us} to {now_us}")
        self._rounds = _rounds_after(self._rounds, events)
        if self._rounds > MAX_ROUNDS:
            self.state = State.CLOSED
            raise RemoteProtocolError("rounds", "actions", _insistence(self._rounds, events))
        self.batch = m.Events(seq, now_us, tuple(events), self._greeting)
        self.now_us = now_us
        return self._send_batch() if self.state is State.READY else ()

    def resync(self, reason: str, unsettled: tuple[tuple[int, int], ...] = ()) -> tuple[m.Message, ...]:
        """Return what makes the scheduler say hello again; nothing while it is not being served.

        ``unsettled`` are the actions of unknown fate, as (batch, number): the welcome that follows must know.
        """
        if self.state not in (State.READY, State.OPEN):
            return ()
        _, features = self._agreed
        if m.RESYNC not in features:
            return (self._forget(reason),)
        self._asked = m.Resync(reason, unsettled, self._greeting)
        self._say(m.Resync)
        return (self._asked,)

    def resend(self) -> tuple[m.Message, ...]:
        """Return what to send again after a long silence: the welcome or the open batch."""
        if self.state is State.WELCOMED and self._last_welcome is not None:
            self._say(m.Welcome)
            return (self._last_welcome,)
        if self.state is State.ASKED and self._asked is not None:
            self._say(m.Resync)
            return (self._asked,)
        return self._send_batch() if self.state is State.OPEN else ()

    def peer_lost(self) -> None:
        """Record that the scheduler's connection or process is gone; the open batch waits for another scheduler."""
        self.state = State.CLOSED

    def would_be_second(self, hello: m.Hello) -> bool:
        """Return whether ``hello`` comes from a second scheduler while the first, as far as is known, still lives."""
        return self._is_another(hello) and not self.takes_over(hello)

    def speaks(self, hello: m.Hello) -> bool:
        """Return whether both ends have a version in common."""
        return not set(hello.versions).isdisjoint(self._versions)

    def takes_over(self, hello: m.Hello) -> bool:
        """Return whether ``hello`` comes from a declared standby that may take over: the served scheduler is silent."""
        return hello.standby and self.silent and self._is_another(hello)

    def replace(self, hello: m.Hello) -> m.ErrorReport:
        """Return the last message to the scheduler that ``hello`` replaces, and release its place."""
        self.peer_lost()
        return m.ErrorReport("replaced", "", f"scheduler {hello.instance} has taken over: there was no answer in time")

    def _is_another(self, hello: m.Hello) -> bool:
        served = self.state not in (State.START, State.CLOSED)
        return served and self.peer is not None and hello.instance != self.peer.instance

    def _is_late(self, hello: m.Hello) -> bool:
        """Return whether ``hello`` is an older one of the scheduler that spoke last, or the same once more."""
        before = self.peer
        return before is not None and hello.instance == before.instance and 0 < hello.greeting <= before.greeting

    def refuse_second(self, hello: m.Hello) -> m.ErrorReport:
        """Return the refusal of a second scheduler; one with the name of the served one has another connection."""
        served = "" if self.peer is None else self.peer.instance
        other = "another of that name" if hello.instance == served else hello.instance
        return m.ErrorReport("busy", "", f"scheduler {served} is being served, not {other}")

    def _on_hello(self, message: m.Hello) -> Received:
        if self.would_be_second(message):
            return Received((self.refuse_second(message),))
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
        self._tells_all, self._unknown = tells_all(features), unknown_kinds(features)
        return Received((self._welcome(),), message)

    def _on_ready(self, message: m.Ready) -> Received:
        after = self._hear(message)
        if after is None or message.greeting != self._greeting:
            return NOTHING
        if message.seq != self.seq:
            if message.greeting:
                return NOTHING  # from a killed scheduler: its hello has come twice, and so has this
            raise RemoteProtocolError("sequence", "seq", f"expected {self.seq}, got {message.seq}")
        self.state = after
        self._last_welcome = None
        return Received(self._send_batch(), message)

    def _on_actions(self, message: m.Actions) -> Received:
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
        # Live, the manager counts: it knows the jobs of then and now.
        if self._lockstep and len(message.actions) > MAX_ACTIONS:
            self._check_number(message.actions, self.batch.events)
        self.state = after
        self.seq = message.seq
        self.batch = None
        _, features = self._agreed
        if self._unknown and any(type(action) in self._unknown for action in message.actions):
            message = message._replace(actions=tuple([known_action(action, features) for action in message.actions]))
        return Received((), message)

    def _check_number(self, actions: Sequence[m.Action], events: Sequence[m.Event]) -> None:
        """Raise RemoteProtocolError for more actions than the answer to a batch may have."""
        state = self._inventory()
        jobs = len(state.pending) + len(state.running) + sum([type(event) is m.JobSubmitted for event in events])
        most, count = most_actions(jobs), m.count_actions(actions)
        if count > most:
            raise RemoteProtocolError("limit", "actions", f"{count} actions; the limit is {most}")

    @property
    def _greeting(self) -> int:
        return 0 if self.peer is None else self.peer.greeting

    def _send_batch(self) -> tuple[m.Message, ...]:
        if self.batch is None:
            return ()
        self._say(m.Events)
        if self.batch.greeting != self._greeting:
            self.batch = self.batch._replace(greeting=self._greeting)
        _, features = self._agreed
        if self._tells_all:
            return (self.batch,)
        told = batch_for(self.batch, features)
        if isinstance(told, str):
            if self._lockstep:
                raise LocalProtocolError(
                    f"a scheduler without the feature {told} cannot be told this: require the feature"
                )
            return (
                self._forget(f"a scheduler without the feature {told} has to be told by a welcome what has happened"),
            )
        return (told,)

    def _forget(self, reason: str) -> m.ErrorReport:
        """Return what makes a scheduler of any release drop its state and say hello again."""
        self.state = State.CLOSED
        return m.ErrorReport("state", "", reason)

    def _welcome(self) -> m.Welcome:
        inventory = self._inventory()
        if not self._lockstep:
            self.seq, self.now_us, self.batch = inventory.seq, inventory.now_us, None
        elif inventory.seq != self.seq:
            raise LocalProtocolError(f"the inventory is of batch {inventory.seq}; the last answered one is {self.seq}")
        version, features = self._agreed
        refusal = lacking(features, self._required, inventory)
        if refusal is not None:
            raise refusal
        self._say(m.Welcome)
        self._rounds = 0
        told = inventory._replace(version=version, features=features, greeting=self._greeting)
        self._last_welcome = welcome_for(told, features)
        return self._last_welcome


def _insistence(rounds: int, events: Sequence[m.Event]) -> str:
    """Return why a scheduler is not served any more."""
    last = next((event for event in events if isinstance(event, m.ActionRefused)), None)
    why = "" if last is None else f", the last one of action {last.action}: {last.reason}"
    return f"the scheduler repeats refused actions: {rounds} batches in a row hold nothing but refusals{why}"
