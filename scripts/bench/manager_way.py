#!/usr/bin/env python3
"""The way of one submit, and of one batch of an emulated run, through the files of the emulator.

Usage: .venv/bin/python scripts/bench/manager_way.py

It prints the files in the order in which calls enter them, the number of switches between files and between folders, and how many of
these lead back to a file or folder that has been left before. The submit goes from the user's request to the start of its job; a batch
is an instant of a run of EASY under contention, the median of all that carry out an action.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cosched_emulator import prepare
from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.live.clock import LiveClock
from cosched_emulator.live.live_server import LiveServer
from cosched_emulator.live.serving import restore_manager
from cosched_emulator.run.build import build_agenda, build_manager
from cosched_emulator.run.loop import Simulation
from cosched_emulator.users.door import Asked
from cosched_emulator.users.requests import Done, Requester, SubmitJob
from cosched_hwmodel.units import ThreadMask
from cosched_plugin.config import choose
from cosched_plugin.protocol.messages import Action, Actions, Event, JobSpec, Run, StartJob
from cosched_terminal.console import Log

PACKAGE: Final = "/cosched_emulator/"
BATCH: Final = {
    "cluster": {"nodes": 16, "cores": 4, "memory_bandwidth_mbs": 6000},
    "workload": {"lublin": 200, "load": 0.9},
    "truth": {"contention": "bandwidth"},
}
SITE: Final = {"cluster": {"nodes": 4}, "workload": {"lublin": 1}}


class Way(NamedTuple):
    """The files that calls enter, in order; a call within a file is no step."""

    files: tuple[str, ...]

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the folders in order."""
        return _steps([name.rpartition("/")[0] or "." for name in self.files])

    def figures(self) -> str:
        """Return the numbers of switches, and of those back to a place that was left before."""
        told = [f"{len(self.files) - 1} switches between {len(set(self.files))} files, {_back(self.files)} back"]
        folders = self.folders
        told.append(f"{len(folders) - 1} between {len(set(folders))} folders, {_back(folders)} back")
        return "; ".join(told)


def _steps(places: list[str]) -> tuple[str, ...]:
    return tuple(place for number, place in enumerate(places) if number == 0 or place != places[number - 1])


def _back(places: tuple[str, ...]) -> int:
    return sum([place in places[:number] for number, place in enumerate(places)])


@contextmanager
def way() -> Iterator[Callable[[], Way]]:
    """Yield a function that returns the way since it was called last."""
    entered: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        # A named tuple, a comprehension or a generated method is no step.
        if event == "call" and PACKAGE in file and not frame.f_code.co_name.startswith("<"):
            entered.append(file.rpartition(PACKAGE)[2])

    def take() -> Way:
        taken = Way(_steps(entered))
        entered.clear()
        return taken

    sys.setprofile(note)
    try:
        yield take
    finally:
        sys.setprofile(None)


class _NoPort:
    """The scheduler's port of a server that is asked in this process."""

    instance = ""


def submit_way() -> tuple[Way, Way]:
    """Return the way of a submit to its answer, and of the scheduler's answer that starts its job."""
    prepared = prepare(SITE)
    accounting = Accounting.create(None, {})
    log = Log("manager", quiet=True)
    live = restore_manager(prepared, accounting, log)
    port: Any = _NoPort()
    server = LiveServer(live, accounting, LiveClock(0, 1.0), port, None, log, faults=prepared.faults)
    asked = Asked(b"", 1, Requester("ann", operator=False), SubmitJob(JobSpec(0, 0, 1, 60_000_000)))
    server._answer(asked)
    live.batch()
    with way() as take:
        done = server._answer(asked)
        live.batch()
        submitted = take()
        assert isinstance(done, Done)
        start = StartJob(done.result["job_ids"][0], (Run(0, 1, ThreadMask(1), 1),), 60_000_000, None)
        server._apply_answer(Actions(1, 0, (start,)))
        return submitted, take()


class _Noted(DirectLink):
    """A link that notes which batches were answered by actions."""

    acted = False

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> list[Action]:
        actions = list(super().exchange(seq, now_us, events))
        self.acted = self.acted or bool(actions)
        return actions


def batch_way() -> Way:
    """Return the way of an instant at which the scheduler acts: the one with the median number of switches."""
    prepared = prepare(BATCH)
    manager = build_manager(prepared, live=True)  # with hardware, whether or not the demand of jobs is known
    agenda = build_agenda(prepared, manager)
    link = _Noted(choose("easy").scheduler)
    ways: list[Way] = []
    with way() as take:

        def instant(_: int) -> None:
            """Begin an instant: the one before is over when the next one's events are known."""
            passed = take()
            if link.acted:
                ways.append(passed)
            link.acted = False

        Simulation(manager, agenda, link, progress=instant).run()
    return sorted(ways, key=lambda each: len(each.files))[len(ways) // 2]


def main() -> int:
    """Print the ways."""
    submitted, started = submit_way()
    for title, taken in (("submit", submitted), ("start of its job", started), ("batch of a run", batch_way())):
        print(f"{title}: {taken.figures()}")
        print(f"  files: {' > '.join(taken.files)}")
        print(f"  folders: {' > '.join(taken.folders)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
