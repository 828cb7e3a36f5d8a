"""Peers of an earlier release still work: each end of today gives the recorded answers of that release, word for word."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from tests.contract.cases import scenario_of
from tests.contract.conversations import CASES, ReplayedScheduler, Spoken, recorded

from cosched_emulator import prepare
from cosched_emulator.run.run import run
from cosched_plugin.config import choose
from cosched_plugin.protocol.codec import encode
from cosched_plugin.protocol.messages import Actions, Events, Hello, Message, Welcome
from cosched_plugin.protocol.session import SchedulerSession


@pytest.fixture(scope="module")
def spoken() -> dict[str, list[Spoken]]:
    return recorded()


@pytest.mark.parametrize(("preset", "scenario"), CASES)
def test_a_scheduler_answers_an_earlier_manager_as_it_did(
    preset: str, scenario: str, spoken: dict[str, list[Spoken]]
) -> None:
    session = SchedulerSession("recorded", "")
    said: list[Message] = [session.hello()]
    scheduler = None
    batches = 0
    for by_manager, body in spoken[f"{preset} {scenario}"]:
        if not by_manager:
            reply = said.pop(0)
            if not isinstance(reply, Hello):  # today's scheduler knows more features
                assert encode(reply)[1] == body
            continue
        message = session.receive(Spoken(True, body).message).deliver
        if isinstance(message, Welcome):
            scheduler = choose(preset).scheduler(message)
            said.append(session.ready())
        else:
            assert isinstance(message, Events)
            assert scheduler is not None
            said.append(session.answer(scheduler.handle(message.now_us, message.events)))
            batches += 1
    assert not said
    assert batches > 60


@pytest.mark.parametrize(("preset", "scenario"), CASES)
def test_a_manager_tells_an_earlier_scheduler_what_it_told_it(
    preset: str, scenario: str, spoken: dict[str, list[Spoken]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        link = ReplayedScheduler(spoken[f"{preset} {scenario}"])
        run(prepare(scenario_of(scenario, Path(name))), link)
    assert link.batches > 60


def test_the_conversations_have_all_kinds_of_messages(spoken: dict[str, list[Spoken]]) -> None:
    messages = [item.message for conversation in spoken.values() for item in conversation]
    kinds = {type(message).__name__ for message in messages}
    for message in messages:
        if isinstance(message, Events):
            kinds |= {type(event).__name__ for event in message.events}
        elif isinstance(message, Actions):
            kinds |= {type(action).__name__ for action in message.actions}
    assert kinds >= {
        "Hello", "Welcome", "Ready", "Events", "Actions", "JobSubmitted", "JobEnded", "JobRequeued", "JobHeld", "JobReleased",
        "NodeFailed", "NodeReturned", "ProgressMeasured", "Woken", "QuantumEnded", "StartJob", "StartTogether", "ReviseJob",
        "SuspendJob", "ResumeJob", "SetRotation", "SetNote", "WakeAt",
    }  # fmt: skip
