"""The other process of a conformance check: it answers the batches of a `Recording`, and reports the first different answer.

In this process texts have other hashes, clocks are wrong, all modules are newly imported, and the last batches come first. A
policy that depends on any of these, or that stores state outside notes, gives different answers here.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from cosched_hwmodel.models.by_name import PairFactory
from cosched_plugin.core.engine import Policy, SchedulerCore
from cosched_plugin.testing.recording import Batch, answer_beside, read_batches

SHIFT_S: Final = 1_234_567  # two weeks and seven hours for each segment
_CLOCKS: Final = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


class Clocks:
    """The clocks of this process, wrong by ``shift_s`` seconds for all modules that are imported from now on."""

    def __init__(self) -> None:
        self.shift_s = 0
        for name in _CLOCKS:
            setattr(time, name, self._shifted(getattr(time, name), 1))
            setattr(time, f"{name}_ns", self._shifted(getattr(time, f"{name}_ns"), 1_000_000_000))
        clocks = self

        class Datetime(datetime.datetime):
            """A datetime whose present is wrong."""

            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> Datetime:
                """Return the wrong present."""
                return super().now(tz) + datetime.timedelta(seconds=clocks.shift_s)

        vars(datetime)["datetime"] = Datetime

    def _shifted(self, clock: Callable[[], Any], per_s: int) -> Callable[[], Any]:
        return lambda: clock() + self.shift_s * per_s


def replay(name: str, make_policy: Callable[[], Policy], models: Mapping[str, PairFactory], clocks: Clocks) -> None:
    """Answer the batches in file ``name``, the last segment first; write the first different answer into a file beside it."""
    file = Path(name)
    batches = read_batches(file)
    begins = [place for place, batch in enumerate(batches) if batch.welcome is not None]
    found: tuple[int, str] | None = None
    for begin, end in reversed(list(pairwise([*begins, len(batches)]))):
        clocks.shift_s += SHIFT_S
        problem = _replay_segment(batches[begin:end], make_policy(), models)
        if problem is not None:
            found = (begin + problem[0], problem[1])
            break
    answer_beside(file).write_text(json.dumps(found), encoding="utf-8")


def _replay_segment(
    batches: Sequence[Batch], policy: Policy, models: Mapping[str, PairFactory]
) -> tuple[int, str] | None:
    """Return the index of the first batch that a new scheduler answers differently, and the problem."""
    welcome = batches[0].welcome
    assert welcome is not None
    core = SchedulerCore(policy, welcome, models=models)
    for place, batch in enumerate(batches):
        try:
            actions = core.handle(batch.events.now_us, batch.events.events)
        except Exception as error:  # a policy can raise anything
            return place, f"the policy fails in another process only: {type(error).__name__}: {error}"
        if tuple(actions) != batch.actions.actions:
            return place, f"another process decides otherwise: {list(batch.actions.actions)}, there {actions}"
    return None
