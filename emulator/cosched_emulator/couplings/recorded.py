"""A link that records the scheduler's answers in a journal, from which a killed run resumes.

In virtual time the scenario and the scheduler's answers determine a run. A resumed run first takes the answers from the journal,
without the scheduler. Then the scheduler receives the resulting state and answers the further batches. Where its trace must be whole,
it is asked from the beginning, and its answers must be the recorded ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from cosched_emulator.accounting.accounts import Accounting, Step
from cosched_emulator.accounting.run_meta import POLICY, check_policy
from cosched_emulator.couplings.link import Link
from cosched_emulator.errors import AccountingError, ConfigurationError, InvariantError
from cosched_plugin.protocol.codec import decode, encode, pack, write
from cosched_plugin.protocol.errors import LocalProtocolError, ProtocolError
from cosched_plugin.protocol.limits import MAGIC
from cosched_plugin.protocol.messages import Action, Actions, Event, Events, Welcome

ANSWER: Final = "answer"
FLUSH_S: Final = 0.05  # time of a run that a kill may cost
RETRY_S: Final = 0.1
_LENGTH_BYTES: Final = 4


class RecordedLink:
    """A wrapper of the link ``inner`` that records its answers in ``accounting``.

    With ``ask_again`` it also answers the recorded batches. ``deadline_s`` is how long to wait on a full disk before AccountingError;
    ``warn`` is told at once that the run waits. ``clock`` and ``sleep`` use seconds.
    """

    def __init__(
        self,
        inner: Link,
        accounting: Accounting,
        policy: Callable[[], str],
        *,
        ask_again: bool = False,
        deadline_s: float = 30.0,
        warn: Callable[[str], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._inner = inner
        self._accounting = accounting
        self._policy = policy
        self._ask_again = ask_again
        self._recorded = accounting.replay()
        self._deadline_s = deadline_s
        self._warn = warn
        self._clock = clock
        self._sleep = sleep
        self._flushed_s = clock()
        self._inventory: Callable[[], Welcome] | None = None
        self._met = False  # the inner link is open
        self._asking = False  # nothing recorded is left
        self._given_up = False

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Get ready; open the inner link immediately if nothing is recorded, or all is asked again."""
        self._inventory = inventory
        if self._ask_again:
            self._meet(inventory)
        if not self._accounting.unplayed:
            self._ask(inventory)

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Return the recorded answer to this batch, or the scheduler's answer, which is then recorded.

        Raises InvariantError if the recorded answer belongs to another batch, ConfigurationError if the scheduler is asked again and
        answers otherwise, AccountingError if the disk stays full.
        """
        if self._inventory is None:
            raise LocalProtocolError("the link is not open")
        told = pack(write(Events(seq, now_us, events)))
        step = None if self._asking else next(self._recorded, None)
        if step is not None:
            actions = _actions_of(step, seq, now_us, events, told)
            if self._ask_again:
                self._repeat(seq, now_us, events, actions)
            return actions
        if not self._asking:
            self._ask(self._inventory)
        actions = self._inner.exchange(seq, now_us, events)
        if POLICY not in self._accounting.meta:
            self._accounting.claim(POLICY, self._policy())
        answer = encode(Actions(seq, now_us, tuple(actions)))[1]
        self._accounting.append(Step(ANSWER, now_us, len(told).to_bytes(_LENGTH_BYTES, "big") + told + answer))
        if self._clock() - self._flushed_s >= FLUSH_S:
            self._flush()
        return actions

    def close(self) -> None:
        """Write the buffer, then dismiss the scheduler: a dismissed scheduler may not come again."""
        self._inventory = None
        self._met = self._asking = False
        try:
            if not self._given_up:
                self._flush()
        finally:
            self._inner.close()

    def _ask(self, inventory: Callable[[], Welcome]) -> None:
        """Continue with the scheduler itself."""
        for _ in self._recorded:  # there is none: this tells the journal that its replay is complete
            raise InvariantError("the journal has an answer without a batch")
        if not self._met:
            self._meet(inventory)
        self._accounting.bring_up_to_date()
        self._asking = True

    def _meet(self, inventory: Callable[[], Welcome]) -> None:
        """Open the inner link."""
        self._inner.open(inventory)
        check_policy(self._accounting.meta, {POLICY: self._policy()}, self._accounting.path or "")
        self._met = True

    def _repeat(self, seq: int, now_us: int, events: tuple[Event, ...], recorded: Sequence[Action]) -> None:
        """Let the scheduler answer a recorded batch; ConfigurationError if it answers otherwise: its trace would be of another run."""
        again = Actions(seq, now_us, tuple(self._inner.exchange(seq, now_us, events)))
        if decode(encode(again)) != Actions(seq, now_us, tuple(recorded)):
            expected = "a policy that repeats its recorded answers (without a trace the run resumes from them)"
            raise ConfigurationError(
                "trace", expected, f"another answer to batch {seq}", file=self._accounting.path or ""
            )

    def _flush(self) -> None:
        begun_s = self._clock()
        waits = False
        while not self._accounting.flush():
            path, trouble = self._accounting.path or "", self._accounting.trouble
            if not waits and self._warn is not None:
                self._warn(f"{path}: {trouble}: the run waits, at most {self._deadline_s:g} s")
            waits = True
            if self._clock() - begun_s >= self._deadline_s:
                self._given_up = True
                text = f"cannot be written to for {self._deadline_s:g} s: {trouble}; the same command continues from it"
                raise AccountingError(text, path)
            self._sleep(RETRY_S)
        self._flushed_s = self._clock()


def _actions_of(step: Step, seq: int, now_us: int, events: tuple[Event, ...], told: bytes) -> Sequence[Action]:
    """Return the actions of a recorded answer; InvariantError if it belongs to another batch."""
    misfit = "the database does not fit this program or scenario"
    if step.kind != ANSWER:
        raise InvariantError(f"{misfit}: a step of kind {step.kind!r} where batch {seq} was answered")
    length = int.from_bytes(step.body[:_LENGTH_BYTES], "big")
    answered, answer = step.body[_LENGTH_BYTES : _LENGTH_BYTES + length], step.body[_LENGTH_BYTES + length :]
    try:
        if answered != told:  # the program that wrote it may have known other fields
            batch, ours = decode([MAGIC, answered]), Events(seq, now_us, events)
            if batch != ours:
                raise InvariantError(f"{misfit}: {_difference(batch, ours)}")
        message = decode([MAGIC, answer])
    except ProtocolError as error:
        raise InvariantError(f"{misfit}: the recorded answer to batch {seq} cannot be read: {error}") from error
    if not isinstance(message, Actions):
        raise InvariantError(f"{misfit}: a {type(message).__name__} where batch {seq} was answered")
    return message.actions


def _difference(recorded: object, batch: Events) -> str:
    """Return the first difference between a batch and the recorded one."""
    if not isinstance(recorded, Events):
        return f"a {type(recorded).__name__} where batch {batch.seq} was expected"
    if recorded[:2] != batch[:2]:
        return f"batch {batch.seq} at {batch.now_us} us was batch {recorded.seq} at {recorded.now_us} us"
    for number, (before, now) in enumerate(zip(recorded.events, batch.events, strict=False)):
        if before != now:
            return f"batch {batch.seq}, event {number}: {now}, and when it was recorded {before}"
    return f"batch {batch.seq} has {len(batch.events)} events, and had {len(recorded.events)} when it was recorded"
