"""The steps of a live manager in the form of its journal, and their replay.

The passage of time is a step if it causes a change; how far time has come since the last step stands in the `lease`. A command is on
disk before it takes effect, so that a crash cannot undo what a user was told; the other steps are written shortly afterwards, with
their changes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from cosched_emulator.accounting.accounts import Accounting, Step
from cosched_emulator.errors import InvariantError
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.users.requests import Refused, Request, Requester, from_map, to_map
from cosched_plugin.protocol.codec import decode, encode, pack, unpack
from cosched_plugin.protocol.errors import ProtocolError
from cosched_plugin.protocol.limits import MAGIC, MAX_FRAME_BYTES
from cosched_plugin.protocol.messages import Actions

ADVANCE, COMMAND, ANSWER, BEGIN = "advance", "command", "answer", "begin"


def time_step(now_us: int) -> Step:
    """Return the step of time that advances to ``now_us``."""
    return Step(ADVANCE, now_us, b"")


def command_step(now_us: int, who: Requester, request: Request) -> Step:
    """Return the step of a user's command."""
    return Step(COMMAND, now_us, pack({"who": who.name, "operator": who.operator, "request": to_map(request)}))


def answer_step(now_us: int, message: Actions) -> Step:
    """Return the step of a scheduler's answer."""
    return Step(ANSWER, now_us, encode(message)[1])


def begin_step(now_us: int, state: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Step:
    """Return the first step of a journal that begins anew: the parameters of `LiveManager.take_over`."""
    told = json.dumps({"state": state, "rows": rows}, separators=(",", ":"))
    return Step(BEGIN, now_us, zlib.compress(told.encode()))


def pass_time(live: LiveManager, accounting: Accounting, now_us: int) -> None:
    """Advance to ``now_us``, with a step if that causes a change."""
    if live.advance(now_us):
        accounting.append(time_step(live.now_us))
        accounting.record(live.drain())


# A step must give the same state whenever it is played: it may use nothing but the live manager and itself. Steps of earlier
# versions are played by later ones, so what they accepted must stay acceptable here (``replayed``).
def play(live: LiveManager, step: Step) -> None:
    """Replay a step; raises InvariantError, KeyError or ProtocolError for an invalid one."""
    match step.kind:
        case "advance":
            live.advance(step.at_us)
        case "command":
            raw = unpack(step.body, MAX_FRAME_BYTES)
            answer = live.command(
                step.at_us, Requester(raw["who"], raw["operator"]), from_map(raw["request"]), replayed=True
            )
            if isinstance(answer, Refused):
                raise InvariantError(f"a command that was carried out is refused now: {answer.text}")
        case "answer":
            message = decode([MAGIC, step.body])
            if not isinstance(message, Actions):
                raise InvariantError(f"an answer is a {type(message).__name__}")
            live.batch()  # the answer belonged to a batch
            live.answer(step.at_us, message.seq, message.actions, message.now_us)
        case "begin":
            told = json.loads(zlib.decompress(step.body))
            live.take_over(step.at_us, told["state"], told["rows"])
        case _:
            raise InvariantError(f"a step of an unknown kind, {step.kind!r}")


def restore(live: LiveManager, accounting: Accounting) -> int:
    """Replay a journal and return its number of steps; InvariantError if it does not fit this program or scenario."""
    steps = accounting.step
    for step in accounting.replay(compare=True):
        try:
            play(live, step)
        except (LookupError, TypeError, ValueError, ProtocolError, AssertionError, zlib.error) as error:
            raise InvariantError(f"step {steps + 1} of the journal cannot be replayed: {error!r}") from error
        accounting.record(live.drain())
        live.outbox.empty()  # a journal may have years without a scheduler
        steps += 1
    live.check()
    accounting.bring_up_to_date()
    return steps
