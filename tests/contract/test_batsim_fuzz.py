"""Messages with random damage, to both ends: each is understood, or refused with its place; nothing else is raised."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.emulator.batsim.test_recorded import simulator_of
from tests.plugin.batsim.recordings import exchanges, own_sessions, shared_sessions

from cosched_emulator.batsim.run import Outputs
from cosched_emulator.errors import LinkError
from cosched_plugin.batsim.adapter import Decisions, features_of
from cosched_plugin.batsim.site import SiteFile
from cosched_plugin.config import choose
from cosched_plugin.protocol.errors import ProtocolError
from cosched_terminal.console import Log

SESSIONS = [
    *own_sessions(),
    *(path for path in shared_sessions() if path.name in ("own-energy", "own-kill", "batsched-submitter-dynamic")),
]
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    3,
    1e300,
    -0.5,
    10**30,
    "",
    "w0!1",
    "0-3",
    "0,1",
    "9" * 50,
    "²",
    [],
    {},
    [[]],
    {"": None},
    "EXECUTE_JOB",
]
CASES = 60


def damaged(value: Any, random: Random) -> Any:
    """Return a message with one place changed, left out, or given twice."""
    places: list[tuple[Any, Any]] = []

    def visit(inner: Any) -> None:
        if isinstance(inner, dict | list):
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            places.extend((inner, key) for key in keys)
            for key in keys:
                visit(inner[key])

    visit(value)
    owner, key = random.choice(places)
    act = random.random()
    if act < 0.2:
        del owner[key]
    elif act < 0.3 and isinstance(owner, list):
        owner.append(owner[key])
    else:
        owner[key] = random.choice(VALUES)
    return value


def bytes_of(value: Any, random: Random) -> bytes:
    frame = json.dumps(value).encode()
    if random.random() < 0.1:
        return frame[: random.randrange(len(frame))]
    if random.random() < 0.1:
        place = random.randrange(len(frame))
        return frame[:place] + bytes([random.randrange(256)]) + frame[place + 1 :]
    return frame


@pytest.mark.parametrize("session", own_sessions(), ids=lambda path: path.name)
def test_the_decision_process_bears_damaged_messages(session: Path) -> None:
    choice = choose("easy")
    for case in range(CASES):
        random = Random(case)
        decisions = Decisions(choice.scheduler, features_of(choice.make()), SiteFile(), 0, Log(quiet=True))
        said = [json.loads(exchange.said) for exchange in exchanges(session)]
        struck = random.randrange(len(said))
        try:
            for number, message in enumerate(said):
                frame = bytes_of(damaged(message, random), random) if number == struck else json.dumps(message).encode()
                json.loads(decisions.answer(frame))
        except ProtocolError as error:
            assert str(error)  # noqa: PT017 - it may also be understood


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.name)
def test_the_emulator_bears_damaged_replies(session: Path) -> None:
    for case in range(CASES):
        random = Random(case)
        replies = [json.loads(json.dumps(exchange.reply)) for exchange in exchanges(session)]
        struck = random.choice([number for number, reply in enumerate(replies) if reply["events"]])
        with Outputs(None, force=False) as outputs:
            simulator = simulator_of(session, outputs)
            try:
                for number, reply in enumerate(replies):
                    if simulator.next_message() is None:
                        break
                    simulator.take(
                        bytes_of(damaged(reply, random), random) if number == struck else json.dumps(reply).encode()
                    )
            except LinkError as error:
                assert str(error)  # noqa: PT017
