"""The trace of what jobs use on nodes, with and without a cluster that counts polling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cosched_emulator.manager.time_sharing.cpu_meter import CpuMeter, CpuUse
from cosched_emulator.nodeos.process_cluster import ProcessUse, Reached
from cosched_emulator.nodeos.programs import Program

S = 1_000_000


class PlainCluster:
    """A cluster whose usage a test sets."""

    def __init__(self) -> None:
        self.usages: list[ProcessUse] = []

    def start(self, job: int, program: Program, places: Sequence[int], memory_mb: int = 0) -> None:
        raise NotImplementedError

    def allow(self, now_us: int, runnable: Mapping[int, Sequence[int]]) -> None:
        raise NotImplementedError

    def remove(self, job: int) -> None:
        raise NotImplementedError

    def advance(self, until_us: int) -> Reached:
        raise NotImplementedError

    def progress(self, job: int) -> float:
        raise NotImplementedError

    def consumed_us(self, job: int) -> int:
        raise NotImplementedError

    def counters(self) -> None:
        raise NotImplementedError

    @property
    def simulated(self) -> float:
        raise NotImplementedError

    def collect(self) -> list[ProcessUse]:
        return self.usages


class PollingCluster(PlainCluster):
    """The same, with polling."""

    def __init__(self) -> None:
        super().__init__()
        self.spun: dict[int, int] = {}

    def spun_us(self, job: int) -> int:
        return self.spun[job]


def test_usage_is_passed_on_with_its_time() -> None:
    cluster, seen = PlainCluster(), list[CpuUse]()
    meter = CpuMeter(cluster, seen.extend)
    meter.allow(0, [1])
    cluster.usages = [ProcessUse(1, 0, 2 * S, 0, 2 * S), ProcessUse(1, 1, 0, 0, 2 * S)]
    assert meter.collect(2 * S) == cluster.usages
    meter.allow(2 * S, [1, 2])
    cluster.usages = [ProcessUse(1, 0, S, 0, 2 * S), ProcessUse(2, 0, S, 0, 2 * S)]
    meter.leave(1, 4 * S)
    meter.collect()
    expected = [CpuUse(1, 0, 0, 2 * S, 2 * S, 0), CpuUse(1, 0, 2 * S, 4 * S, S, 0), CpuUse(2, 0, 2 * S, 4 * S, S, 0)]
    assert seen == expected
    seen.clear()
    cluster.usages = [ProcessUse(2, 0, S, 0, S)]
    meter.resume(7 * S)
    meter.collect(8 * S)
    assert seen == [CpuUse(2, 0, 7 * S, 8 * S, S, 0)]


def test_polling_is_counted_once_and_split_over_the_nodes_of_a_job() -> None:
    cluster, seen = PollingCluster(), list[CpuUse]()
    meter = CpuMeter(cluster, seen.extend)
    meter.allow(0, [1, 2])
    cluster.spun = {1: 400, 2: 10}
    cluster.usages = [ProcessUse(1, 0, 600, 0, S), ProcessUse(1, 1, 200, 0, S), ProcessUse(2, 1, 20, 0, S)]
    meter.collect()
    assert [use.spun_us for use in seen] == [300, 100, 10]
    seen.clear()
    cluster.spun = {1: 500, 2: 10}
    meter.leave(1, S)
    del cluster.spun[1]
    cluster.spun[1] = 0  # the number is used again
    meter.allow(S, [1, 2])
    cluster.spun[1] = 50
    cluster.usages = [ProcessUse(1, 0, 300, 0, S), ProcessUse(2, 1, 20, 0, S)]
    meter.collect()
    assert [use.spun_us for use in seen] == [150, 0]
