"""A coscheduling policy of others: what it raises, or answers that no policy can, ends the run with an error that names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from cosched_emulator.errors import CoschedulingError
from cosched_emulator.nodeos.coscheduling.protocol import FOREVER, CoschedulingPolicy, Node
from cosched_emulator.nodeos.process import Process

Answer = TypeVar("Answer")
_FLAGS: Final = ("wants_arrivals", "advises", "acknowledged")


class ForeignPolicy(CoschedulingPolicy):
    """Asks a policy of others, and checks its answers; the policies here need no check."""

    def __init__(self, name: str, policy: CoschedulingPolicy) -> None:
        """``name`` is the policy's, for errors. Raises `CoschedulingError` for wrong attributes."""
        self._name = name
        self.policy = policy
        for flag in _FLAGS:
            setattr(self, flag, self._flag(flag))
        self._update()

    def waits(self, process: Process, waiting: int) -> int:
        """Return the policy's answer; CoschedulingError if it is no time."""
        answer = self._ask("waits", self.policy.waits, process, waiting)
        if type(answer) is not int or not 0 <= answer <= FOREVER:
            raise self._wrong("waits", "0, a whole number of microseconds, or FOREVER", answer)
        return answer

    def arrived(self, process: Process) -> None:
        """Pass it on."""
        self._ask("arrived", self.policy.arrived, process)

    def tick(self, node: Node) -> None:
        """Pass it on; the policy may change its interval, and whether its advice needs counters."""
        self._ask("tick", self.policy.tick, node)
        self._update()

    def collective(self, process: Process, begins: bool) -> None:
        """Pass it on."""
        self._ask("collective", self.policy.collective, process, begins)

    def advise(self, runnable: Sequence[Process], current: Process | None) -> Process | None:
        """Return the policy's advice; CoschedulingError if it is no process."""
        answer = self._ask("advise", self.policy.advise, runnable, current)
        if answer is not None and not isinstance(answer, Process):
            raise self._wrong("advise", "a process or None", answer)
        return answer

    def chosen(self, process: Process) -> None:
        """Pass it on."""
        self._ask("chosen", self.policy.chosen, process)

    def _ask(self, hook: str, method: Callable[..., Answer], *arguments: object) -> Answer:
        try:
            return method(*arguments)
        except (Exception, SystemExit) as error:
            raise CoschedulingError(self._name, hook, f"{type(error).__name__}: {error}") from error

    def _update(self) -> None:
        interval_us = self.policy.interval_us
        if type(interval_us) is not int or interval_us < 0:
            raise self._wrong("interval_us", "a whole number of microseconds, or 0", interval_us)
        self.interval_us = interval_us
        self.ignores_counters = self._flag("ignores_counters")

    def _flag(self, name: str) -> bool:
        value = getattr(self.policy, name)
        if type(value) is not bool:
            raise self._wrong(name, "True or False", value)
        return value

    def _wrong(self, hook: str, expected: str, got: object) -> CoschedulingError:
        try:
            text = repr(got)
        except Exception as error:  # an answer from outside can raise anything
            text = f"{type(got).__name__}, of which repr raises {type(error).__name__}"
        return CoschedulingError(self._name, hook, f"expected {expected}, got {text[:200]}")
