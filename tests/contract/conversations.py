"""Conversations of peers of an earlier release: recorded once with the code of that release, and replayed against that of today.

``python -m tests.contract.conversations`` records them; do that only with the tree of a release. A conversation is the frames of
both ends in order, as a run through both sessions and the codec makes them.
"""

from __future__ import annotations

import base64
import json
import lzma
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.contract.cases import scenario_of

from cosched_emulator import prepare
from cosched_emulator.couplings.link import LoopbackLink
from cosched_emulator.run.run import run
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.limits import MAGIC
from cosched_plugin.protocol.messages import Action, Actions, Event, Events, Hello, Message, Ready, Welcome
from cosched_plugin.protocol.session import ManagerSession, SchedulerSession

RECORDED: Final = Path(__file__).with_name("conversations.json")
# Kinds of events and actions that they have in all: starts, co-located ones, promises and wakes, slices, rows, measured slowdowns.
CASES: Final = (
    ("easy", "swf"),
    ("conservative", "swf"),
    ("lomarc-r", "lomarc"),
    ("glts", "lomarc"),
    ("ssp", "statistical"),
    ("paired-gang", "time-shared"),
)


class Spoken(NamedTuple):
    """A message of a conversation, as its bytes."""

    by_manager: bool
    body: bytes

    @property
    def message(self) -> Message:
        """Return the message as today's codec reads it."""
        return decode([MAGIC, self.body])


class RecordedLink(LoopbackLink):
    """Both sessions in one process, with a record of what each says."""

    def __init__(self, factory: Callable[[Welcome], SchedulerCore]) -> None:
        super().__init__(factory)
        self.spoken: list[Spoken] = []
        self._factory = factory

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Greet, and make the scheduler."""
        self._near, self._far = ManagerSession(inventory), SchedulerSession("recorded", "")
        hello = self._far.hello()
        self._note(hello, by_manager=False)
        for welcome in self._near.receive(hello).send:
            self._note(welcome, by_manager=True)
            delivered = self._far.receive(welcome).deliver
            assert isinstance(delivered, Welcome)
            self.scheduler = self._factory(delivered)
        ready = self._far.ready()
        self._note(ready, by_manager=False)
        self._near.receive(ready)

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Pass the batch to the scheduler's end, and return its answer."""
        assert self._near is not None
        assert self.scheduler is not None
        (batch,) = self._near.submit(seq, now_us, events)
        assert isinstance(batch, Events)
        self._note(batch, by_manager=True)
        self._far.receive(batch)
        reply = self._far.answer(self.scheduler.handle(batch.now_us, batch.events))
        self._note(reply, by_manager=False)
        answer = self._near.receive(reply).deliver
        assert isinstance(answer, Actions)
        return answer.actions

    def _note(self, message: Message, *, by_manager: bool) -> None:
        self.spoken.append(Spoken(by_manager, encode(message)[1]))


class ReplayedScheduler:
    """The recorded scheduler of an earlier release, as a link: it says what it said then, and checks each word of the manager."""

    def __init__(self, spoken: Sequence[Spoken]) -> None:
        self._left: Iterator[Spoken] = iter(spoken)
        self._near: ManagerSession | None = None
        self.batches = 0

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Greet."""
        self._near = ManagerSession(inventory)
        self._hear(self._near.receive(self._say(Hello)).send)
        self._near.receive(self._say(Ready))

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Return the recorded answer."""
        assert self._near is not None
        self._hear(self._near.submit(seq, now_us, events))
        answer = self._near.receive(self._say(Actions)).deliver
        assert isinstance(answer, Actions)
        self.batches += 1
        return answer.actions

    def close(self) -> None:
        """Be told everything that was recorded."""
        assert next(self._left, None) is None

    def _say(self, kind: type[Message]) -> Message:
        said = next(self._left)
        assert not said.by_manager
        assert isinstance(said.message, kind)
        return said.message

    def _hear(self, messages: Sequence[Message]) -> None:
        for message in messages:
            expected = next(self._left)
            assert expected.by_manager
            assert encode(message)[1] == expected.body, (
                f"another word of the manager: {message}, not {expected.message}"
            )


def record(preset: str, scenario: str) -> list[Spoken]:
    """Run a case, and return its conversation."""
    with tempfile.TemporaryDirectory() as name:
        link = RecordedLink(choose(preset).scheduler)
        run(prepare(scenario_of(scenario, Path(name))), link)
        return link.spoken


def recorded() -> dict[str, list[Spoken]]:
    """Return the conversations by case."""
    packed = json.loads(RECORDED.read_text(encoding="ascii"))
    return {
        case: [
            Spoken(bool(by), base64.b85decode(body)) for by, body in json.loads(lzma.decompress(base64.b85decode(text)))
        ]
        for case, text in packed.items()
    }


def main() -> None:
    """Record all cases with this tree."""
    found = {}
    for preset, scenario in CASES:
        spoken = [(item.by_manager, base64.b85encode(item.body).decode()) for item in record(preset, scenario)]
        found[f"{preset} {scenario}"] = base64.b85encode(lzma.compress(json.dumps(spoken).encode(), preset=9)).decode()
    RECORDED.write_text(json.dumps(found, indent=0) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
