"""A difficult manager against every preset: no contradiction, and a scheduler that was restarted decides alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from tests.contract.cases import CASES, scenario_of
from tests.contract.links import DigestLink, ShadowLink

from cosched_emulator import prepare, simulate
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.run.run import Finished, run
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol.messages import Action, Event, Welcome

ROUNDS: Final = 95  # through all presets, of 22,000 events each in the mean
LAGS: Final[dict[str, Any]] = {
    "submitted_s": 20.0, "submitted_draw": "exponential", "start_s": 40.0, "start_draw": "uniform",
    "ended_s": 30.0, "ended_draw": "exponential", "extra_s": 5.0,
}  # fmt: skip
ACTS: Final[dict[str, Any]] = {
    "lost": 0.1, "modify_every_s": 900.0, "revise_every_s": 1200.0, "suspend_every_s": 1800.0, "restart_every_s": 3600.0,
}  # fmt: skip
STARTS: Final[dict[str, Any]] = {"elsewhere": 0.2, "refused": 0.2, "start_every_s": 1500.0}
# Jobs that share time start where and when it was decided.
SHARED_TIME: Final = {
    "submitted_s": 0.5,
    "lost": 0.1,
    **{key: 20.0 for key in ACTS if key != "lost"},
    "suspended_s": 5.0,
}


def cases(*quick: tuple[str, str]) -> list[Any]:
    """Return all cases; those that are not quick are slow tests."""
    assert {*quick} <= {*CASES}
    return [pytest.param(*case, marks=[pytest.mark.slow] * (case not in quick)) for case in CASES]


def difficult(scenario: str, folder: Path, manager: dict[str, Any], seed: int = 1) -> dict[str, Any]:
    table = scenario_of(scenario, folder)
    return {**table, "manager": {**(SHARED_TIME if "time_sharing" in table else manager), "seed": seed}}


def play(preset: str, table: dict[str, Any], *, own: bool) -> tuple[DigestLink, Finished]:
    """Run a scenario; a scheduler that knows only the manager's inventory, and one that was restarted, decide alike.

    With ``own`` the manager also puts jobs where policies do not: some then find more to do in a second pass.
    """
    choice = choose(preset)
    link = DigestLink(ShadowLink(DirectLink(choice.scheduler), choice.scheduler, settles=not own))
    return link, run(prepare(table), link)


@pytest.mark.parametrize(
    ("preset", "scenario"), cases(("easy", "lublin"), ("lomarc-r", "swf"), ("paired-gang", "time-shared"))
)
def test_lags_of_every_kind_suit_every_preset(preset: str, scenario: str, tmp_path: Path) -> None:
    link, finished = play(preset, difficult(scenario, tmp_path, LAGS), own=False)
    assert finished.unfinished == []
    if scenario != "time-shared":
        assert link.kinds["JobStarted"] >= len(finished.records) - 2


@pytest.mark.parametrize(
    ("preset", "scenario"),
    cases(("rua", "lublin"), ("conservative", "swf"), ("gang", "time-shared"), ("lomarc-u1", "lomarc")),
)
def test_what_a_manager_does_by_itself_suits_every_preset(preset: str, scenario: str, tmp_path: Path) -> None:
    link, finished = play(preset, difficult(scenario, tmp_path, {**LAGS, **ACTS, **STARTS}), own=True)
    assert finished.unfinished == []
    assert link.kinds["JobModified"] + link.kinds["JobRevised"] + link.kinds["JobSuspended"] > 0


def test_every_coupling_has_the_same_difficult_manager(tmp_path: Path) -> None:
    table = difficult("lublin", tmp_path, {**LAGS, **ACTS, **STARTS})
    direct, loopback, zmq = (simulate(table, "easy", link=link) for link in ("direct", "loopback", "zmq"))
    assert direct.records == loopback.records == zmq.records


class RebuiltLink:
    """A link that makes another scheduler from the manager's inventory before every batch, and counts events."""

    def __init__(self, factory: Callable[[Welcome], SchedulerCore]) -> None:
        self._factory = factory
        self._core: SchedulerCore | None = None
        self._inventory: Callable[[], Welcome] | None = None
        self.events = 0

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Make the scheduler that lasts until the manager restarts."""
        self._inventory, self._core = inventory, self._factory(inventory())

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Compare the answers of both schedulers."""
        assert self._inventory is not None
        assert self._core is not None
        rebuilt = self._factory(self._inventory()).handle(now_us, events)
        actions = self._core.handle(now_us, events)
        assert actions == rebuilt, f"batch {seq}: a scheduler made anew decides otherwise"
        self.events += len(events)
        return actions

    def close(self) -> None:
        """Do nothing."""


def drawn(seed: int) -> dict[str, Any]:
    """Return a random difficult manager: some keys have other values, and some are left out."""
    random = Random(seed)
    whole = {**LAGS, **ACTS, **STARTS}
    some = {key: value for key, value in whole.items() if random.random() < 0.8}
    scale = random.choice((0.2, 1.0, 3.0))
    return {key: value * scale if key.endswith("every_s") else value for key, value in some.items()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 1 + ROUNDS))
def test_two_million_events_of_random_difficult_managers(seed: int, tmp_path: Path) -> None:
    events = 0
    for preset, scenario in CASES:
        link = RebuiltLink(choose(preset).scheduler)
        run(prepare({**difficult(scenario, tmp_path, drawn(seed), seed), "seed": seed}), link)
        events += link.events
    print(f"{events} events")
    assert events > 10_000
