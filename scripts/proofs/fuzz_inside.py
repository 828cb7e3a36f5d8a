"""Damaged messages to each end of the protocols inside this process, where a million of them take minutes.

Each function takes a number of messages and a seed, and returns counts of the results; errors that a peer may not cause
propagate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from scripts.proofs.fuzz_messages import WELCOME, Fuzz, of_scheduler, pack, to_plugin

from cosched_emulator import prepare
from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.live.journal import answer_step, command_step, time_step
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.live.views import answer_query
from cosched_emulator.run.build import build_agenda, build_manager
from cosched_emulator.users.requests import Change, Done, Refused, Requester, SubmitJob, decode_request, encode_answer
from cosched_hwmodel.draws import key
from cosched_plugin.common.errors import PluginError
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.messages import JobSpec
from cosched_plugin.protocol.session import ManagerSession, SchedulerSession, State

Progress = Callable[[int], None]
MESSAGES_A_LIFE: Final = 300  # after these a manager's state is dropped: the submitted jobs may fill it
MOST_STEP_US: Final = 60_000_000
SCENARIO: Final = {"cluster": {"nodes": 4, "preset": "rua-4way"}, "workload": {"lublin": 1}}


def plugin_inside(count: int, seed: int, progress: Progress) -> Counter[str]:
    """Send ``count`` messages to a scheduler; a scheduler that has ended is replaced by a new one."""
    fuzz, welcomes, batches = to_plugin(seed)
    found: Counter[str] = Counter()
    scheduler: SchedulerCore | None = None
    session = _greeting()
    for number in range(count):
        progress(number)
        draw = key(seed, "which", number) % 8
        frames = fuzz.frames(number)
        if draw < 2 and scheduler is None:
            frames = welcomes.frames(number) if draw else encode(WELCOME._replace(greeting=1))
        elif draw < 6 and scheduler is not None:
            its = {"type": "events", "seq": session.seq + 1, "now_us": session.now_us, "greeting": 1}
            frames = [frames[0] if draw == 5 else b"cosched/1", pack({**batches.raw(number), **its})]
        try:
            received = session.receive(decode(frames))
            for answer in received.send:
                encode(answer)
            match received.deliver:
                case m.Welcome() as welcome:
                    scheduler = SchedulerCore(choose("easy").make(), welcome)
                    encode(session.ready())
                case m.Events(_, now_us, events) if scheduler is not None:
                    encode(session.answer(scheduler.handle(now_us, events)))
                case m.Bye() | m.ErrorReport():
                    raise RemoteProtocolError("end", "", "the manager ends it")
            found[type(received.deliver).__name__] += 1
        except PluginError as error:
            found[error.code if isinstance(error, RemoteProtocolError) else type(error).__name__] += 1
            scheduler, session = None, _greeting()
    return found


def _greeting() -> SchedulerSession:
    session = SchedulerSession("fuzz", "easy")
    session.hello()
    return session


class _Site:
    """A live manager with accounts in memory, and a few honest jobs."""

    def __init__(self) -> None:
        prepared = prepare(SCENARIO)
        manager = build_manager(prepared, live=True)
        agenda = build_agenda(replace(prepared, workload=prepared.workload._replace(jobs=())), manager, live=True)
        self.books = Accounting.create(None, {})
        self.live = LiveManager(manager, agenda, 1, self.books.ended_state, self.books.tasks)
        self.ann = Requester("ann", False)
        for number in range(6):
            self.submit(SubmitJob(JobSpec(0, 0, 1 + number, 60_000_000, 90_000_000)))

    def submit(self, request: SubmitJob) -> None:
        self.books.append(command_step(self.live.now_us, self.ann, request))
        self.live.command(self.live.now_us, self.ann, request)
        self.record_effect()

    def record_effect(self) -> None:
        self.books.record(self.live.drain())
        self.live.check()

    def go_on(self, by_us: int) -> None:
        self.books.append(time_step(self.live.now_us + by_us))
        self.live.advance(self.live.now_us + by_us)
        self.record_effect()

    def close(self) -> None:
        encode(self.live.inventory())
        assert self.books.flush(), self.books.trouble
        self.books.close()


def scheduler_inside(count: int, seed: int, progress: Progress) -> Counter[str]:
    """Send ``count`` messages to a live manager from a scheduler that greets correctly and sends invalid answers."""
    fuzz, answers = of_scheduler(seed)
    found: Counter[str] = Counter()
    site = _Site()
    session = ManagerSession(site.live.inventory, lockstep=False)
    greeting = 0
    for number in range(count):
        progress(number)
        if number % MESSAGES_A_LIFE == MESSAGES_A_LIFE - 1:
            site.close()
            site = _Site()
            session = ManagerSession(site.live.inventory, lockstep=False)
        draw = key(seed, "which", number) % 16
        try:
            if session.state in (State.START, State.CLOSED, State.GREETED):
                greeting += 1
                _greet(session, site, greeting)
            if session.state is State.READY:
                _submit_batch(session, site)
            frames = fuzz.frames(number)
            if session.state is State.OPEN and session.batch is not None and draw < 14:
                many = [
                    item
                    for each in range(1 + draw % 3)
                    for item in _actions(answers.raw(3 * number + each), site, draw)
                ]
                batch_now = {"seq": session.batch.seq, "now_us": session.batch.now_us}
                frames = [b"cosched/1", pack({"type": "actions", "actions": many, "greeting": greeting, **batch_now})]
            delivered = session.receive(decode(frames)).deliver
            found[type(delivered).__name__] += 1
            if isinstance(delivered, m.Actions):
                site.books.append(answer_step(site.live.now_us, delivered))
                site.live.answer(site.live.now_us, delivered.seq, delivered.actions)
                found["refused"] += site.live.manager.refused
                site.live.manager.refused = 0
                site.record_effect()
        except RemoteProtocolError as error:
            found[error.code] += 1
            session.peer_lost()
        if draw % 2:
            site.go_on(key(seed, "time", number) % MOST_STEP_US)
        if draw == 3 and site.live.unfinished < 20:
            job = JobSpec(0, 0, 1 + number % 8, 60_000_000, 90_000_000 if number % 3 else None)
            site.submit(SubmitJob(job, held=number % 5 == 0))
    site.close()
    return found


def _greet(session: ManagerSession, site: _Site, greeting: int) -> None:
    session.receive(m.Hello((1,), m.FEATURES, "fuzz", "nonsense", False, greeting))
    session.receive(m.Ready(site.live.manager.seq, greeting))


def _submit_batch(session: ManagerSession, site: _Site) -> None:
    batch = site.live.batch()
    if batch is not None:
        for message in session.submit(*batch):
            encode(message)


def _actions(raw: dict[str, Any], site: _Site, draw: int) -> list[Any]:
    """Return damaged actions, most of them about existing jobs."""
    actions = raw.get("actions")
    there = sorted(site.live.manager.jobs)
    for action in actions if isinstance(actions, list) else []:
        if isinstance(action, dict) and there and draw % 4:
            action["job_id"] = there[draw % len(there)]
            if isinstance(action.get("estimate_us"), int) and action["job_id"] % 2:
                action["limit_us"] = 2**40 + draw
    return actions if isinstance(actions, list) else []


def users_inside(count: int, seed: int, progress: Progress) -> Counter[str]:
    """Send ``count`` requests of users to a live manager."""
    fuzz = Fuzz("users", seed)
    found: Counter[str] = Counter()
    site = _Site()
    people = [Requester("ann", False), Requester("bob", False), Requester("root", True)]
    for number in range(count):
        progress(number)
        if number % MESSAGES_A_LIFE == MESSAGES_A_LIFE - 1:
            site.close()
            site = _Site()
        try:
            ticket, request = decode_request(fuzz.frames(number))
        except RemoteProtocolError as error:
            found[error.code] += 1
            continue
        who = people[number % 3]
        live = site.live
        if not isinstance(request, Change):
            answer = answer_query(live, site.books, lambda: {"uptime_s": 1.0}, request)
        else:
            examined = live.examine(who, request)
            if isinstance(examined, Refused | Done):
                answer = examined
            else:
                site.books.append(command_step(live.now_us, who, request))
                answer = live.carry_out(examined)
                site.record_effect()
        encode_answer(answer, ticket)
        found[type(answer).__name__] += 1
        if number % 7 == 0:
            site.go_on(key(seed, "time", number) % MOST_STEP_US)
    site.close()
    return found


INSIDE: Final[dict[str, Callable[[int, int, Progress], Counter[str]]]] = {
    "users": users_inside,
    "scheduler": scheduler_inside,
    "plugin": plugin_inside,
}
