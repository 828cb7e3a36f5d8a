"""Every message in every state, for both ends; then whole conversations over a channel that loses and repeats messages."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import pytest
from tests.runs import runs_on

from cosched_hwmodel.composite.job_profile import Profile
from cosched_plugin.common.errors import LocalProtocolError, RemoteProtocolError
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.limits import MAX_ACTIONS
from cosched_plugin.protocol.session import (
    CROSSING,
    SPEAKER,
    TRANSITIONS,
    ManagerSession,
    Role,
    SchedulerSession,
    State,
    report_of,
)

NOW_US = 1_000


def welcome(seq: int) -> m.Welcome:
    node = m.NodeClass(1, 1, 1, 1, 1, 1, 1, 1)
    return m.Welcome(1, m.FEATURES, seq, NOW_US + seq, (node,), (), m.Belief("none", "", ()), (), (), (), ())


def batch(seq: int, now_us: int | None = None) -> m.Events:
    return m.Events(seq, NOW_US + seq if now_us is None else now_us, (m.Woken(seq),))


def reply(seq: int, now_us: int | None = None) -> m.Actions:
    return m.Actions(seq, NOW_US + seq if now_us is None else now_us, (m.WakeAt(seq * 1_000_000),))


def hello(instance: str = "first", versions: tuple[int, ...] = (1,), features: tuple[str, ...] = m.FEATURES) -> m.Hello:
    return m.Hello(versions, features, instance, "easy")


# ---------------------------------------------------------------- every state, every message


def scheduler_in(state: State) -> SchedulerSession:
    """Return a scheduler's session that has received batch 5 (6 when OPEN), if its state allows."""
    session = SchedulerSession("first", "easy")
    if state is State.START:
        return session
    session.hello()
    if state is State.GREETED:
        return session
    if state is State.WELCOMED:
        session.receive(welcome(5))
        return session
    session.receive(welcome(4))
    session.ready()
    session.receive(batch(5))
    session.answer(reply(5).actions)
    if state is State.OPEN:
        session.receive(batch(6))
    if state is State.ASKED:
        session.receive(m.Resync())
    if state is State.CLOSED:
        session.receive(m.Bye(""))
    return session


def manager_in(state: State) -> ManagerSession:
    """Return a manager's session that has the answer to batch 5; when OPEN, batch 6 is unanswered."""
    session = ManagerSession(lambda: welcome(5))
    if state is State.START:
        return session
    session.receive(hello())
    if state is State.GREETED:
        session.state = State.GREETED  # passed through within one call
        return session
    if state is State.WELCOMED:
        return session
    session.receive(m.Ready(5))
    if state is State.OPEN:
        session.submit(6, NOW_US + 6, batch(6).events)
    if state is State.ASKED:
        session.resync("")
    if state is State.CLOSED:
        session.receive(m.Bye(""))
    return session


def outcome(session: SchedulerSession | ManagerSession, message: m.Message) -> str:
    """Return what `receive` did: messages sent (+), message delivered (!), and the state after it."""
    try:
        received = session.receive(message)
    except RemoteProtocolError as error:
        assert session.state is State.CLOSED
        return f"error {error.code}"
    assert received.deliver in (None, message)
    sent = "".join(f"+{type(each).__name__}{'' if each not in REPORTS else ' busy'} " for each in received.send)
    return f"{sent}{'! ' if received.deliver is not None else ''}{session.state.value}"


def test_an_answer_has_no_more_actions_than_the_limit() -> None:
    note = m.SetNote(None, "key", 1)
    manager_in(State.OPEN).receive(m.Actions(6, NOW_US + 6, (note,) * MAX_ACTIONS))
    with pytest.raises(RemoteProtocolError, match="actions: 10001 actions; the limit is 10000"):
        manager_in(State.OPEN).receive(m.Actions(6, NOW_US + 6, (note,) * (MAX_ACTIONS + 1)))


REPORTS = (m.ErrorReport("busy", "", "scheduler first is being served, not second"),)
ANYTIME: dict[str, m.Message] = {
    "ping": m.Ping(7),
    "pong": m.Pong(7),
    "error": m.ErrorReport("state", "", ""),
    "bye": m.Bye(""),
}
TO_SCHEDULER: dict[str, m.Message] = {
    "hello": hello(),
    "ready": m.Ready(5),
    "actions": reply(5),
    "welcome3": welcome(3),
    "welcome5": welcome(5),
    "welcome9": welcome(9),
    "events4": batch(4),
    "events5": batch(5),
    "events6": batch(6),
    "events8": batch(8),
    "backwards": batch(6, NOW_US),
    "resync": m.Resync(),
    **ANYTIME,
}
TO_MANAGER: dict[str, m.Message] = {
    "welcome": welcome(5),
    "events": batch(6),
    "hello": hello(),
    "second": hello("second"),
    "foreign": hello(versions=(2, 3)),
    "ready4": m.Ready(4),
    "ready5": m.Ready(5),
    "actions5": reply(5),
    "actions6": reply(6),
    "actions7": reply(7),
    "othertime": reply(6, NOW_US + 7),
    "resync": m.Resync(),
    **ANYTIME,
}
# Messages that are valid in no state, in every state but CLOSED.
OPEN_ENDED = {"error": "! closed", "bye": "! closed"}
SCHEDULER_HEARS: dict[State, dict[str, str]] = {
    State.START: dict.fromkeys(TO_SCHEDULER, "error state") | {"ping": "+Pong start", "pong": "start"} | OPEN_ENDED,
    State.GREETED: {
        "hello": "error state", "ready": "error state", "actions": "error state",
        "welcome3": "! welcomed", "welcome5": "! welcomed", "welcome9": "! welcomed",
        "events4": "greeted", "events5": "greeted", "events6": "greeted", "events8": "greeted", "backwards": "greeted",
        "resync": "greeted",
        "ping": "+Pong greeted", "pong": "greeted", **OPEN_ENDED,
    },
    State.WELCOMED: {
        "hello": "error state", "ready": "error state", "actions": "error state",
        "welcome3": "! welcomed", "welcome5": "! welcomed", "welcome9": "! welcomed",
        "events4": "welcomed", "events5": "welcomed", "events6": "welcomed", "events8": "welcomed",
        "backwards": "welcomed", "resync": "welcomed", "ping": "+Pong welcomed", "pong": "welcomed", **OPEN_ENDED,
    },
    State.READY: {
        "hello": "error state", "ready": "error state", "actions": "error state",
        "welcome3": "ready", "welcome5": "! welcomed", "welcome9": "error sequence",
        "events4": "ready", "events5": "+Actions ready", "events6": "! open", "events8": "error sequence",
        "backwards": "error clock", "resync": "! asked", "ping": "+Pong ready", "pong": "ready", **OPEN_ENDED,
    },
    State.OPEN: {
        "hello": "error state", "ready": "error state", "actions": "error state",
        "welcome3": "open", "welcome5": "! welcomed", "welcome9": "error sequence",
        "events4": "open", "events5": "open", "events6": "open", "events8": "error sequence", "backwards": "open", "resync": "! asked",
        "ping": "+Pong open", "pong": "open", **OPEN_ENDED,
    },
    State.ASKED: dict.fromkeys(TO_SCHEDULER, "asked")
    | {"hello": "error state", "ready": "error state", "actions": "error state", "ping": "+Pong asked"}
    | OPEN_ENDED,
    State.CLOSED: dict.fromkeys(TO_SCHEDULER, "closed")
    | {"hello": "error state", "ready": "error state", "actions": "error state", "ping": "+Pong closed"},
}  # fmt: skip
MANAGER_HEARS: dict[State, dict[str, str]] = {
    State.START: dict.fromkeys(TO_MANAGER, "error state")
    | {"hello": "+Welcome ! welcomed", "second": "+Welcome ! welcomed", "foreign": "error version"}
    | {"ping": "+Pong start", "pong": "start"}
    | OPEN_ENDED,
    State.GREETED: {
        "welcome": "error state", "events": "error state", "resync": "error state",
        "hello": "+Welcome ! welcomed", "second": "+ErrorReport busy greeted", "foreign": "error version",
        "ready4": "greeted", "ready5": "greeted",
        "actions5": "greeted", "actions6": "error sequence", "actions7": "error sequence", "othertime": "error sequence",
        "ping": "+Pong greeted", "pong": "greeted", **OPEN_ENDED,
    },
    State.WELCOMED: {
        "welcome": "error state", "events": "error state", "resync": "error state",
        "hello": "+Welcome ! welcomed", "second": "+ErrorReport busy welcomed", "foreign": "error version",
        "ready4": "error sequence", "ready5": "! ready",
        "actions5": "welcomed", "actions6": "error sequence", "actions7": "error sequence", "othertime": "error sequence",
        "ping": "+Pong welcomed", "pong": "welcomed", **OPEN_ENDED,
    },
    State.READY: {
        "welcome": "error state", "events": "error state", "resync": "error state",
        "hello": "+Welcome ! welcomed", "second": "+ErrorReport busy ready", "foreign": "error version",
        "ready4": "ready", "ready5": "ready",
        "actions5": "ready", "actions6": "error sequence", "actions7": "error sequence", "othertime": "error sequence",
        "ping": "+Pong ready", "pong": "ready", **OPEN_ENDED,
    },
    State.OPEN: {
        "welcome": "error state", "events": "error state", "resync": "error state",
        "hello": "+Welcome ! welcomed", "second": "+ErrorReport busy open", "foreign": "error version",
        "ready4": "open", "ready5": "open",
        "actions5": "open", "actions6": "! ready", "actions7": "error sequence", "othertime": "error clock",
        "ping": "+Pong open", "pong": "open", **OPEN_ENDED,
    },
    State.ASKED: {
        "welcome": "error state", "events": "error state", "resync": "error state",
        "hello": "+Welcome ! welcomed", "second": "+ErrorReport busy asked", "foreign": "error version",
        "ready4": "asked", "ready5": "asked",
        "actions5": "asked", "actions6": "error sequence", "actions7": "error sequence", "othertime": "error sequence",
        "ping": "+Pong asked", "pong": "asked", **OPEN_ENDED,
    },
    State.CLOSED: dict.fromkeys(TO_MANAGER, "closed")
    | {"welcome": "error state", "events": "error state", "resync": "error state", "ping": "+Pong closed", "foreign": "error version"}
    | {"hello": "+Welcome ! welcomed", "second": "+Welcome ! welcomed"},
}  # fmt: skip


@pytest.mark.parametrize("name", TO_SCHEDULER)
@pytest.mark.parametrize("state", State)
def test_a_scheduler_receives_each_message_as_its_state_says(state: State, name: str) -> None:
    session = scheduler_in(state)
    assert session.state is state
    assert outcome(session, TO_SCHEDULER[name]) == SCHEDULER_HEARS[state][name]


@pytest.mark.parametrize("name", TO_MANAGER)
@pytest.mark.parametrize("state", State)
def test_a_manager_receives_each_message_as_its_state_says(state: State, name: str) -> None:
    session = manager_in(state)
    assert session.state is state
    assert outcome(session, TO_MANAGER[name]) == MANAGER_HEARS[state][name]


SAYS: dict[str, tuple[Callable[[SchedulerSession], m.Message], type]] = {
    "hello": (lambda session: session.hello(), m.Hello),
    "ready": (lambda session: session.ready(), m.Ready),
    "answer": (lambda session: session.answer([]), m.Actions),
}


@pytest.mark.parametrize("name", SAYS)
@pytest.mark.parametrize("state", State)
def test_a_scheduler_sends_only_what_its_state_allows(state: State, name: str) -> None:
    session = scheduler_in(state)
    say, kind = SAYS[name]
    if kind in TRANSITIONS[state]:
        assert type(say(session)) is kind
        assert session.state is TRANSITIONS[state][kind]
    else:
        with pytest.raises(LocalProtocolError, match=state.value):
            say(session)
        assert session.state is state


@pytest.mark.parametrize("state", State)
def test_a_manager_sends_only_what_its_state_allows(state: State) -> None:
    session = manager_in(state)
    if state is State.OPEN:
        with pytest.raises(LocalProtocolError, match="not been answered"):
            session.submit(7, NOW_US + 7, ())
        return
    sent = session.submit(6, NOW_US + 6, batch(6).events)
    assert sent == ((batch(6),) if state is State.READY else ())
    assert session.state is (State.OPEN if state is State.READY else state)


def test_tables_are_complete_and_do_not_overlap() -> None:
    assert set(TRANSITIONS) == set(State)
    for role in Role:
        assert set(CROSSING[role]) == set(State)
        for state in State:
            assert all(SPEAKER[kind] is not role for kind in CROSSING[role][state])
            assert not CROSSING[role][state] & set(TRANSITIONS[state])


# ---------------------------------------------------------------- details


def test_versions_and_features_are_those_of_both_ends() -> None:
    manager = ManagerSession(lambda: welcome(0), versions=(1, 2, 4), features=("wakes", "notes", "extra"))
    answer = manager.receive(hello(versions=(1, 2, 3), features=("notes", "groups", "wakes"))).send[0]
    assert isinstance(answer, m.Welcome)
    assert (answer.version, answer.features) == (2, ("wakes", "notes"))
    manager.receive(m.Ready(0))
    manager.submit(1, NOW_US + 1, ())
    start = m.StartJob(1, runs_on((0, 1, 1, 1)), 1, None)
    said = (m.StartTogether((start,)), m.SetNote(None, "k", 1), start)
    heard = manager.receive(m.Actions(1, NOW_US + 1, said)).deliver
    assert isinstance(heard, m.Actions)
    assert heard.actions == (m.UnknownAction("start_together (not agreed on)"), *said[1:])


START = m.StartJob(1, runs_on((0, 1, 1, 1)), 1, None)
# Features of what a manager tells; `test_features.py` has all but the first two.
TOLD = {m.HARDWARE, m.PROFILE, m.STARTED, m.MODIFIED, m.SUSPENDED, m.UNKNOWN_ENDS, m.RESYNC}
TOLD |= {m.PRIORITY, m.ELIGIBLE, m.RESOURCES, m.CAPABILITIES, m.APART, m.DEVICES}
OPTIONAL: list[tuple[m.Action, str, tuple[str, ...]]] = [  # an action, its name, and the features that it needs
    (m.SetNote(None, "k", 1), "set_note", ("notes",)),
    (m.StartTogether((START,)), "start_together", ("groups",)),
    (m.WakeAt(9), "wake_at", ("wakes",)),
    (m.ReviseJob(1, 5, None), "revise_job", ("revise",)),
    (m.SuspendJob(1), "suspend_job", ("suspend",)),
    (m.ResumeJob(1), "resume_job", ("suspend",)),
    (m.SuspendJob(1, to_disk=True), "suspend_job", ("suspend", "disk")),
    (m.SetRotation(1, ()), "set_rotation", ("slots",)),
    (m.ChangeSlot(1, 2), "change_slot", ("slots",)),
    (START._replace(slot=1), "start_job with a slot", ("slots",)),
    (m.RequeueJob(1), "requeue_job", ("requeue",)),
    (m.KillJob(1), "kill_job", ("kill",)),
    (m.SubmitJob(m.JobSpec(0, 0, 1, 1)), "submit_job", ("submit",)),
]


@pytest.mark.parametrize(("action", "name", "needed"), OPTIONAL, ids=str)
def test_actions_of_features_that_one_end_lacks_are_unknown(
    action: m.Action, name: str, needed: tuple[str, ...]
) -> None:
    for lacking in m.FEATURES:
        without = tuple(feature for feature in m.FEATURES if feature != lacking)
        manager = ManagerSession(lambda: welcome(0))
        manager.receive(hello(features=without))
        manager.receive(m.Ready(0))
        manager.submit(1, NOW_US + 1, ())
        heard = manager.receive(m.Actions(1, NOW_US + 1, (START, action))).deliver
        assert isinstance(heard, m.Actions)
        assert heard.actions == (START, m.UnknownAction(f"{name} (not agreed on)") if lacking in needed else action)


def test_a_scheduler_without_slots_is_told_nothing_of_them() -> None:
    without = tuple(feature for feature in m.FEATURES if feature != m.SLOTS)
    manager = ManagerSession(lambda: welcome(0)._replace(slots=m.SlotState(1_000_000, 3)))
    (told,) = manager.receive(hello(features=without)).send
    assert isinstance(told, m.Welcome)
    assert told.slots is None
    manager.receive(m.Ready(0))
    ended = m.JobEnded(1, m.COMPLETED)
    (sent,) = manager.submit(1, NOW_US + 1, (m.QuantumEnded(4, 0), ended))
    assert sent == m.Events(1, NOW_US + 1, (ended,), manager.peer.greeting if manager.peer else 0)


@pytest.mark.parametrize(
    ("turns", "slot"), [((m.Turn((0,)),), 0), ((), 1)], ids=["a rotation is set", "a job is in a slot"]
)
def test_a_scheduler_without_slots_cannot_take_over_where_jobs_share_time(turns: tuple[m.Turn, ...], slot: int) -> None:
    """It would see two jobs on one thread, and start jobs in a slot that may have no turn."""
    there = welcome(0)
    running = (m.RunningJob(m.JobSpec(1, 0, 1, 1), 0, START.runs, 100, None, slot=slot),)
    shared = there._replace(slots=m.SlotState(1_000_000, 3, turns), running=running)
    manager = ManagerSession(lambda: shared)
    without = tuple(feature for feature in m.FEATURES if feature != m.SLOTS)
    with pytest.raises(RemoteProtocolError, match="expected the feature slots") as caught:
        manager.receive(hello(features=without))
    assert (caught.value.code, caught.value.path) == ("unsupported", "features")
    assert manager.state is State.CLOSED
    (told,) = manager.receive(hello(instance="other")).send  # one that knows it is served
    assert isinstance(told, m.Welcome)
    assert told.slots == shared.slots


def test_every_feature_is_needed_by_an_action_or_is_a_field_that_is_told() -> None:
    assert {feature for _, _, needed in OPTIONAL for feature in needed} == set(m.FEATURES) - TOLD


@pytest.mark.parametrize("lacking", [m.HARDWARE, m.PROFILE])
def test_a_scheduler_is_told_of_caches_and_profiles_only_where_it_knows_them(lacking: str) -> None:
    there = welcome(0)
    job = m.JobSpec(1, 0, 1, 1, profile=Profile(memory_mbs=100))
    hardware = m.NodeHardware(1_000_000, 0, (m.CacheLevel(2, 512, 1, 10),))
    known = there._replace(
        nodes=(there.nodes[0]._replace(hardware=hardware),),
        running=(m.RunningJob(job, 0, START.runs, 100, None),),
        pending=(m.PendingJob(job, False),),
    )
    manager = ManagerSession(lambda: known)
    (told,) = manager.receive(hello(features=tuple(feature for feature in m.FEATURES if feature != lacking))).send
    assert isinstance(told, m.Welcome)
    assert (told.nodes[0].hardware is None) == (lacking == m.HARDWARE)
    specs = [told.running[0].spec, told.pending[0].spec]
    manager.receive(m.Ready(0))
    (sent,) = manager.submit(1, NOW_US + 1, (m.JobSubmitted(job),))
    assert isinstance(sent, m.Events)
    (event,) = sent.events
    assert isinstance(event, m.JobSubmitted)
    for spec in (*specs, event.job):
        assert spec == (job._replace(profile=None) if lacking == m.PROFILE else job)


def test_a_scheduler_never_sends_to_disk_to_a_manager_without_the_feature() -> None:
    """That manager would ignore the field and suspend the job on its nodes."""
    scheduler = scheduler_in(State.GREETED)
    scheduler.receive(welcome(5)._replace(features=("notes", "suspend")))
    scheduler.ready()
    scheduler.receive(batch(6))
    with pytest.raises(LocalProtocolError, match="feature disk"):
        scheduler.answer([m.SuspendJob(1), m.SuspendJob(2, to_disk=True)])
    said = scheduler.answer([m.SuspendJob(1), m.ReviseJob(1, 5, None)])  # the manager refuses the latter
    assert len(said.actions) == 2
    knowing = scheduler_in(State.OPEN)
    assert knowing.answer([m.SuspendJob(2, to_disk=True)]).actions == (m.SuspendJob(2, to_disk=True),)


def test_a_scheduler_never_names_a_slot_to_a_manager_without_the_feature() -> None:
    """That manager would ignore the field and start the job in slot 0."""
    scheduler = scheduler_in(State.GREETED)
    scheduler.receive(welcome(5)._replace(features=("notes", "disk")))
    scheduler.ready()
    scheduler.receive(batch(6))
    for action in (START._replace(slot=2), m.StartTogether((START, START._replace(slot=2)))):
        with pytest.raises(LocalProtocolError, match="feature slots: no job can be started in a slot"):
            scheduler.answer([START, action])
    assert len(scheduler.answer([START, m.ChangeSlot(1, 2)]).actions) == 2  # the manager refuses the latter


@pytest.mark.parametrize(
    ("change", "path"), [({"version": 3}, "version"), ({"features": ("notes", "echo")}, "features[1]")]
)
def test_a_scheduler_accepts_only_what_it_offered(change: dict[str, object], path: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        scheduler_in(State.GREETED).receive(welcome(0)._replace(**change))  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.path) == ("version", path)
    assert report_of(caught.value) == m.ErrorReport("version", path, caught.value.text)


def test_a_batch_is_kept_and_sent_verbatim_to_each_new_scheduler() -> None:
    manager = manager_in(State.START)
    assert manager.submit(6, NOW_US + 6, batch(6).events) == ()
    for instance in ("first", "second"):
        assert manager.receive(hello(instance)).send == (welcome(5),)
        assert manager.resend() == (welcome(5),)
        assert manager.receive(m.Ready(5)).send == (batch(6),)
        assert manager.resend() == (batch(6),)
        manager.peer_lost()
        assert manager.resend() == ()
    manager.receive(hello("third"))
    assert outcome(manager, reply(6)) == "welcomed"  # an answer from before the resync: the batch is sent again
    manager.receive(m.Ready(5))
    assert manager.receive(reply(6)).deliver == reply(6)
    assert manager.seq == 6


def test_a_managers_own_mistakes_are_refused() -> None:
    manager = manager_in(State.READY)
    for seq, now_us in ((5, NOW_US + 6), (7, NOW_US + 6), (6, NOW_US + 4)):
        with pytest.raises(LocalProtocolError):
            manager.submit(seq, now_us, ())
    stale = ManagerSession(iter([welcome(5), welcome(4)]).__next__)
    with pytest.raises(LocalProtocolError, match="inventory"):
        stale.receive(hello())
    assert manager.bye("done") == m.Bye("done")
    assert manager.state is State.CLOSED


def test_a_resent_batch_is_answered_from_memory() -> None:
    scheduler = scheduler_in(State.READY)
    assert scheduler.receive(batch(5)).send == (reply(5),)
    assert scheduler.receive(welcome(5)).deliver == welcome(5)
    scheduler.ready()
    assert outcome(scheduler, batch(5)) == "ready"  # the welcome includes it; it needs no answer


# ---------------------------------------------------------------- conversations over a bad channel


class Counter:
    """A scheduler whose state is the number of the last batch that it received."""

    def __init__(self, start: m.Welcome) -> None:
        self.seq = start.seq

    def handle(self, events: m.Events) -> tuple[m.Action, ...]:
        self.seq += 1
        assert events._replace(greeting=0) == batch(self.seq)
        return reply(self.seq).actions


@pytest.mark.parametrize("seed", range(40))
def test_loss_repetition_and_restarts_change_nothing(seed: int) -> None:
    draw = random.Random(seed)
    answered = 0

    def inventory() -> m.Welcome:
        return welcome(answered)

    def put(queue: deque[m.Message], *sent: m.Message) -> None:
        for message in sent:
            for _ in range(draw.choice((0, 1, 1, 1, 2))):
                queue.append(message)

    manager = ManagerSession(inventory)
    down: deque[m.Message] = deque()
    up: deque[m.Message] = deque()
    scheduler, core, instance = SchedulerSession("0", ""), Counter(welcome(0)), 0
    put(up, scheduler.hello())
    for _ in range(20_000):
        if answered == 30:
            break
        if draw.random() < 0.005:  # killed and started again: messages under way are lost
            manager.peer_lost()
            down.clear()
            up.clear()
            instance += 1
            scheduler = SchedulerSession(str(instance), "")
            put(up, scheduler.hello())
        if manager.batch is None and draw.random() < 0.5:
            put(down, *manager.submit(answered + 1, batch(answered + 1).now_us, batch(answered + 1).events))
        if down and draw.random() < 0.5:
            received = scheduler.receive(down.popleft())
            put(up, *received.send)
            match received.deliver:
                case m.Welcome() as start:
                    core = Counter(start)
                    put(up, scheduler.ready())
                case m.Events() as events:
                    put(up, scheduler.answer(core.handle(events)))
        elif up:
            received = manager.receive(up.popleft())
            put(down, *received.send)
            if isinstance(received.deliver, m.Actions):
                answered += 1
                assert received.deliver._replace(greeting=0) == reply(answered)
        elif not down:  # both wait until their timers expire
            put(down, *manager.resend())
            if scheduler.state is State.GREETED:
                put(up, scheduler.hello())
    assert answered == 30
