"""The batches and answers of a policy in a conformance check; another process answers the batches again (`replay`)."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from cosched_hwmodel.models.by_name import PairFactory
from cosched_plugin.core.engine import Policy, SchedulerCore
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.limits import MAGIC
from cosched_plugin.protocol.messages import Action, Actions, Event, Events, JobSubmitted, Message, Welcome
from cosched_plugin.testing.verdict import apart

SEGMENT: Final = 12  # batches after which a new scheduler is made
MOST_BATCHES: Final = 3_000  # of all runs: bounds the recording
LEAST_DEADLINE_S: Final = 30.0
PATIENCE: Final = 4.0  # factor on the time of the check itself, for the other process

_MOST_SEEDS: Final = 100  # seeds that are tried; about one in eight is suitable
_SHOW_ORDER: Final = (
    "import json, sys; print(json.dumps([sorted(group, key=hash) for group in json.loads(sys.argv[1])]))"
)


class Batch(NamedTuple):
    """One batch: the events and the answer; for the first one of a segment, the welcome of a new scheduler."""

    run: int
    welcome: Welcome | None
    events: Events
    actions: Actions

    def as_texts(self) -> list[str | None]:
        """Return its encoded messages as texts."""
        return [None if message is None else encode(message)[1].hex() for message in self[1:]]


class Difference(NamedTuple):
    """A batch that another process answers differently."""

    run: int
    now_us: int
    events: tuple[Event, ...]
    problem: str


class Recording:
    """The batches of a check."""

    def __init__(self) -> None:
        self._batches: list[Batch] = []

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, run: int, welcome: Welcome, events: Events, actions: Sequence[Action]) -> None:
        """Append a batch of a run; the welcome describes the state just before it."""
        if len(self._batches) < MOST_BATCHES:
            goes_on = bool(self._batches) and self._batches[-1].run == run
            first = not goes_on or events.seq % SEGMENT == 0
            answer = Actions(events.seq, events.now_us, tuple(actions))
            self._batches.append(Batch(run, welcome if first else None, events, answer))

    def cut(self, batches: int) -> None:
        """Keep the first ``batches`` only: the policy has declined the machine of the others."""
        del self._batches[batches:]

    def find_difference(self, arguments: Sequence[str], took_s: float) -> Difference | None:
        """Return a batch that another process answers differently; None if there is none.

        ``arguments`` make `cosched-plugin check` choose the same policy; ``took_s`` is the duration of the check in this process.
        """
        if not self._batches:
            return None
        deadline_s = max(LEAST_DEADLINE_S, PATIENCE * took_s)
        with TemporaryDirectory(prefix="cosched-check-") as folder:
            file = Path(folder, "batches")
            file.write_text(json.dumps([batch.as_texts() for batch in self._batches]), encoding="ascii")
            command = [sys.executable, "-P", "-m", "cosched_plugin", "check", "--replay", str(file), *arguments]
            places = os.pathsep.join([place or os.getcwd() for place in sys.path])
            environment = {**os.environ, "PYTHONPATH": places, "PYTHONHASHSEED": _other_hash_seed(self._owners())}
            try:
                ran = subprocess.run(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=deadline_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return self._at(0, f"another process does not answer the same batches within {deadline_s:.0f} s")
            if not answer_beside(file).exists():
                words = ran.stderr.decode(errors="replace").strip().splitlines()[-1:]
                return self._at(0, f"another process fails with exit code {ran.returncode}: {''.join(words)}")
            found = json.loads(answer_beside(file).read_text(encoding="utf-8"))
        return None if found is None else self._at(*found)

    def _at(self, place: int, problem: str) -> Difference:
        run, _, events, _ = self._batches[place]
        return Difference(run, events.now_us, events.events, problem)

    def _owners(self) -> list[list[str]]:
        """Return the users and the names of the jobs."""
        events = [event for batch in self._batches for event in batch.events.events]
        jobs = [event.job for event in events if isinstance(event, JobSubmitted)]
        return [sorted({job.user for job in jobs}), sorted({job.name for job in jobs})]


def read_batches(file: Path) -> list[Batch]:
    """Return the batches in a file that `Recording.find_difference` wrote."""
    return [_from_texts(*texts) for texts in json.loads(file.read_text(encoding="ascii"))]


def answer_beside(file: Path) -> Path:
    """Return the file in which the other process names the batch of ``file`` that it answers differently."""
    return file.with_suffix(".answer")


def _from_texts(welcome: str | None, events: str, actions: str) -> Batch:
    told, asked, answered = (None if welcome is None else _decode(welcome)), _decode(events), _decode(actions)
    assert told is None or isinstance(told, Welcome)
    assert isinstance(asked, Events)
    assert isinstance(answered, Actions)
    return Batch(0, told, asked, answered)


def _decode(text: str) -> Message:
    return decode([MAGIC, bytes.fromhex(text)])


def _other_hash_seed(groups: Sequence[Sequence[str]]) -> str:
    """Return a PYTHONHASHSEED that moves every text to another place in its group, in order of hashes, than in this process."""
    command = [sys.executable, "-S", "-c", _SHOW_ORDER, json.dumps([group for group in groups if len(group) > 1])]
    own = [sorted(group, key=hash) for group in groups if len(group) > 1]
    seed = ""
    for number in range(1, _MOST_SEEDS):
        seed = str(number)
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(command, env=environment, capture_output=True, check=True)
        there = json.loads(ran.stdout)
        if all(
            one != other for group, same in zip(own, there, strict=True) for one, other in zip(group, same, strict=True)
        ):
            break
    return seed


# The other process of a conformance check: it answers the batches of a `Recording`, and reports the first different answer.
#
# In this process texts have other hashes, clocks are wrong, all modules are newly imported, and the last batches come first. A
# policy that depends on any of these, or that stores state outside notes, gives different answers here.

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
            return place, f"another process decides otherwise: {apart(list(batch.actions.actions), actions, 'there')}"
    return None
