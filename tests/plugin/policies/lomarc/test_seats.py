"""Seats: which threads of a node a partner gets where the site's belief tells threads apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from tests.plugin.policies.cases import NOW_US, welcome_of
from tests.runs import runs_on

from cosched_hwmodel.models.by_name import AllowedModels
from cosched_hwmodel.pairs import JobFacts
from cosched_plugin.api import StartTogether
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol.messages import Belief, JobSpec, NodeClass, RunningJob

NODE = NodeClass(1, 2, 2, 2, 16, 0, 0, 0)  # threads 0 and 4 are those of core 0; cores 0 and 1 are socket 0
HOUR_US = 3_600_000_000


def cores_of(mask: int) -> set[int]:
    return {thread % 4 for thread in range(8) if mask >> thread & 1}


class Seats:
    """A pair costs ``core`` where it shares a core, and ``socket`` where it shares a socket."""

    by_seat = True

    def __init__(self, *, core: float = 0.5, socket: float = 0.25) -> None:
        self.core = core
        self.socket = socket

    def slowdown(self, _job: JobFacts, _other: JobFacts) -> float:
        return 1.0

    def slowdown_on(self, _job: JobFacts, mask: int, _other: JobFacts, other_mask: int) -> float:
        own, its = cores_of(mask), cores_of(other_mask)
        sockets = {core // 2 for core in own} & {core // 2 for core in its}
        return 1.0 + self.core * bool(own & its) + self.socket * bool(sockets)

    def parts(self, _job: JobFacts, _other: JobFacts) -> list[tuple[str, float]]:
        return [("slots", self.core), ("memory bandwidth", self.socket)]


NAME = f"{__name__}:Seats"
MODELS = AllowedModels([NAME])


def decide(
    jobs: Sequence[JobSpec], running: Sequence[RunningJob] = (), costs: Mapping[str, float] = MappingProxyType({})
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the decisions and the trace of LOMARC's first match on one node."""
    belief = Belief(NAME, "bulk-synchronous", (), tuple(costs.items()))
    records: list[dict[str, Any]] = []
    policy = compose({"preset": "lomarc-fm", "matching": {"name": "first", "weak_load": 1.0}})
    core = SchedulerCore(policy, welcome_of([NODE], running, jobs, belief), records.append, models=MODELS)
    return list(core.handle(NOW_US, ())), records


def job(number: int, processes: int) -> JobSpec:
    return JobSpec(number, 0, processes, HOUR_US, None)


@pytest.mark.parametrize(
    ("processes", "costs", "guest", "seat", "slowdown"),
    [
        ((1, 1), {}, 0b0100, "other sockets", 1.0),
        ((1, 1), {"socket": 0.0}, 0b0010, "other cores", 1.0),
        ((1, 1), {"socket": 0.0, "core": 0.0}, 0b10000, "same cores", 1.0),
        ((2, 2), {}, 0b1100, "other cores", 1.0),
        ((4, 2), {"core": 0.25}, 0b110000, "same cores", 1.5),
    ],
)
def test_partners_get_the_threads_that_cost_least(
    processes: tuple[int, int], costs: dict[str, float], guest: int, seat: str, slowdown: float
) -> None:
    actions, records = decide([job(1, processes[0]), job(2, processes[1])], (), costs)
    together = actions[0]
    assert isinstance(together, StartTogether)
    assert [start.runs for start in together.starts] == [
        runs_on((0, 1, (1 << processes[0]) - 1, processes[0])),
        runs_on((0, 1, guest, processes[1])),
    ]
    assert together.starts[1].estimate_us == round(HOUR_US * slowdown)
    told = next(record for record in records if record.get("job") == 2)
    assert told["seat"]["chosen"] == seat
    assert told["slowdown"] == told["seat"]["compared"][seat] == slowdown
