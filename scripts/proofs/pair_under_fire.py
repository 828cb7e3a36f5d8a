"""A manager and its scheduler as two processes that are killed -9 at random moments, and restarted immediately.

The schedule of kills follows the run's own progress (emulated time, as the scheduler's `paced_policy` marks it), so that kills
hit all parts of the run on a machine of any speed. A share of the kills directly follows a restart: the process is still
starting, being greeted, or replaying its journal.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from scripts.processes import Programs, environment
from scripts.proofs.paced_policy import last_mark

from cosched_hwmodel.draws import uniform

PLUGIN, MANAGER = "plugin", "manager"
PROGRESS, RESTART = "progress", "restart"
FOLLOW_SHARE: Final = 0.25  # share of kills that directly follow the preceding restart, of either process
AGAIN_SHARE: Final = 0.25  # share of kills that hit the restarted process once more
PAUSES: Final = 3.0  # longest delay after the drawn moment of progress, in pauses of the policy
STARTING_S: Final = {PLUGIN: 0.6, MANAGER: 1.2}  # approximate time from the start of a process until it works
ENDING_S: Final = 0.1  # time after the last batch in which the manager writes its results
LAST_KILLS: Final = 2  # kills of the manager after the last batch, at most half of its kills
LOOK_S: Final = 0.001


class Kill(NamedTuple):
    """One kill: ``delay_s`` after the run has reached ``at_us`` (progress), or after a process was restarted (restart)."""

    victim: str
    after: str
    at_us: int
    delay_s: float


class FireError(Exception):
    """One of the processes behaved wrongly, or made no progress."""


def draw_kills(seed: int, plugin_kills: int, manager_kills: int, times_us: Sequence[int], pause_s: float) -> list[Kill]:
    """Return the kills in order; ``times_us`` are the emulated times of an undisturbed run's batches."""
    ordered: list[tuple[float, Kill]] = []
    last = min(LAST_KILLS, manager_kills // 2)
    for victim, count in ((PLUGIN, plugin_kills), (MANAGER, manager_kills - last)):
        position = 0.0
        for number in range(count):
            share = uniform(seed, f"kill {victim} delay", number)
            kind = uniform(seed, f"kill {victim} kind", number)
            after, longest_s = PROGRESS, PAUSES * pause_s
            if kind < AGAIN_SHARE + FOLLOW_SHARE:
                after, longest_s = RESTART, STARTING_S[victim]
            if kind >= AGAIN_SHARE or not number:
                position = uniform(seed, f"kill {victim}", number)  # otherwise that of the preceding kill
            ordered.append((position, Kill(victim, after, times_us[int(position * len(times_us))], share * longest_s)))
    kills = [kill for _, kill in sorted(ordered, key=lambda item: item[0])]
    for number in range(last):
        share = uniform(seed, "kill at the end", number)
        after, longest_s = (RESTART, STARTING_S[MANAGER]) if number else (PROGRESS, ENDING_S)
        kills.append(Kill(MANAGER, after, times_us[-1], share * longest_s))
    return kills


class Fired(NamedTuple):
    """The results of the kills, and the duration."""

    wall_s: float
    hits: dict[str, int]  # by victim
    places: dict[str, int]  # by victim and its activity
    missed: int  # kills that came after the end of the run
    starts: dict[str, int]  # processes started, by kind
    passes: int  # passes of the scheduler, including lost ones


class PairUnderFire:
    """The two processes, as a context; ``commands`` follow ``python -m``, ``marks`` is the file of the scheduler's policy."""

    def __init__(self, commands: Mapping[str, Sequence[str]], folder: Path, marks: Path) -> None:
        self._commands = commands
        self._marks = marks
        self._programs = Programs(folder, environment())
        self._marks_at_start = {PLUGIN: 0, MANAGER: 0}
        self._restarted_s = 0.0
        self._starts: Counter[str] = Counter()
        self._hits: Counter[str] = Counter()
        self._places: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._marks.touch()
        return self

    def __exit__(self, *_: object) -> None:
        self._programs.close()

    def run(self, kills: Sequence[Kill], deadline_s: float, tell: Callable[[int], None] = lambda _kills: None) -> Fired:
        """Run to the manager's end, with these kills; FireError if a process fails or the run takes too long."""
        begun_s = time.monotonic()
        self._start(MANAGER)
        self._start(PLUGIN)
        waiting = list(reversed(kills))
        due_s: float | None = None  # of the next kill
        while self._is_going_on():
            if time.monotonic() - begun_s > deadline_s:
                raise FireError(f"not over within {deadline_s:g} s; {self._programs.tail()}")
            if waiting:
                if due_s is None:
                    due_s = self._due_s(waiting[-1])
                if due_s is not None and time.monotonic() >= due_s:
                    due_s = None
                    self._kill(waiting.pop().victim)
                    tell(len(kills) - len(waiting))
            time.sleep(LOOK_S)
        self._dismiss_plugin()
        hits, places = dict(self._hits), dict(sorted(self._places.items()))
        wall_s, missed = time.monotonic() - begun_s, len(kills) - self._hits.total()
        return Fired(wall_s, hits, places, missed, dict(self._starts), last_mark(self._marks)[0])

    def _start(self, name: str) -> None:
        self._starts[name] += 1
        self._marks_at_start[name] = last_mark(self._marks)[0]
        self._programs.start(name, *self._commands[name])
        self._restarted_s = time.monotonic()

    def _is_going_on(self) -> bool:
        """Return whether the manager is running; FireError if either process has failed."""
        codes = self._programs.exit_codes()
        for name, code in codes.items():
            if code:
                raise FireError(f"the {name}'s exit code is {code}; {self._programs.tail()}")
        return MANAGER not in codes

    def _due_s(self, kill: Kill) -> float | None:
        """Return when that kill is due; None if the event that it follows has not happened."""
        if kill.after == RESTART:
            return self._restarted_s + kill.delay_s
        happened = last_mark(self._marks)[1] >= kill.at_us
        return time.monotonic() + kill.delay_s if happened else None

    def _kill(self, victim: str) -> None:
        process = self._programs[victim]
        doing = self._doing(victim)
        process.kill()
        if process.wait(10) != -signal.SIGKILL:
            return  # it had already ended
        self._hits[victim] += 1
        self._places[f"{victim} {doing}"] += 1
        self._start(victim)

    def _doing(self, victim: str) -> str:
        """Return the activity of a process that is about to be killed."""
        if self._programs[PLUGIN].poll() == 0:
            return "after the last batch"
        at_work = last_mark(self._marks)[0] > self._marks_at_start[victim]
        return "at work" if at_work else "starting, being greeted or replaying"

    def _dismiss_plugin(self) -> None:
        """End a plugin that the manager, restarted after its last batch, did not need any more."""
        plugin = self._programs[PLUGIN]
        try:
            code = plugin.wait(2)
        except subprocess.TimeoutExpired:
            plugin.terminate()
            code = plugin.wait(10)
        if code not in (0, 128 + signal.SIGTERM):
            raise FireError(f"the plugin's exit code is {code}; {self._programs.tail()}")
