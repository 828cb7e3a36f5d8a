"""Whole schedules of LOMARC and its baselines, checked by the reference's judge: valid, and every job does exactly its work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import pytest
from tests.plugin.policies.lomarc.lomarc_cases import c_of, usage_of
from tests.reference.lomarc import FinishedJob, Number, Stay, Usage, check_schedule, slowdown

from cosched_emulator import prepare
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.build import build_manager
from cosched_emulator.run.loop import Simulation
from cosched_emulator.run.prepare import Prepared
from cosched_hwmodel.lomarc.lomarc_model import LomarcModel
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.trace import TraceRecord
from cosched_plugin.protocol.messages import COMPLETED, Welcome

NEAR_US = 5  # several roundings to a microsecond


class Played(NamedTuple):
    """A finished run, with the scheduler's trace and the truth about pairs."""

    records: list[JobRecord]
    trace: list[TraceRecord]
    prepared: Prepared
    model: LomarcModel

    def slowdown_of(self) -> Callable[[int, int], Number]:
        """Return the reference's slowdown of two jobs, by the true usage; a float for all pairs that matter often."""
        usages: dict[int, Usage] = {job.spec.id: usage_of(job.usage) for job in self.prepared.workload.jobs}

        def of(one: int, other: int) -> Number:
            a, b = usages[one], usages[other]
            return slowdown(a, b, c_of(self.model, one, a, other, b), self.model.remainder)

        return of

    def pairs(self) -> set[tuple[int, int]]:
        """Return the pairs (earlier start, later) of jobs that were on a node at the same time."""
        on_node: defaultdict[int, list[JobRecord]] = defaultdict(list)
        found = set()
        for record in sorted(self.records, key=lambda record: (record.intervals[0].start_us, record.job.spec.id)):
            stay = record.intervals[0]
            for first, count, _, _ in stay.runs:
                for node in range(first, first + count):
                    there = [other for other in on_node[node] if cast(int, other.end_us) > stay.start_us]
                    found |= {(other.job.spec.id, record.job.spec.id) for other in there}
                    on_node[node] = [*there, record]
        return found

    def spans(self) -> dict[int, list[tuple[int, int]]]:
        """Return the spans in which the scheduler had suspended jobs."""
        ends = {record.job.spec.id: record.end_us for record in self.records}
        spans: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        since: dict[int, int] = {}
        for record in self.trace:
            if record["kind"] == "suspend":
                since[record["job"]] = record["at_us"]
            elif record["kind"] == "resume":
                spans[record["job"]].append((since.pop(record["job"]), record["at_us"]))
        for job, since_us in since.items():
            spans[job].append((since_us, cast(int, ends[job])))
        return spans

    def judge(self, *, memory_rule: bool = True) -> None:
        """Check the schedule with the judge; every job has completed in one stay."""
        for record in self.records:
            assert (record.state, len(record.intervals), record.work_us) == (COMPLETED, 1, record.job.run_us)
        spans = self.spans()
        assert {record.job.spec.id: record.suspended_us for record in self.records if record.suspended_us} == {
            job: sum(until - since for since, until in one) for job, one in spans.items()
        }
        (nodes,) = self.prepared.nodes
        check_schedule(
            [FinishedJob(job.spec.id, job.run_us, job.usage[4]) for job in self.prepared.workload.jobs if job.usage],
            [
                Stay(
                    record.job.spec.id, stay.start_us, stay.end_us, stay.runs, tuple(spans.get(record.job.spec.id, ()))
                )
                for record in self.records
                for stay in record.intervals
            ],
            nodes.nodes,
            self.slowdown_of(),
            nodes.threads,
            memory_rule,
            exact=False,
        )


def play(policy: str, tables: Mapping[str, Any], *, sets: Sequence[str] = (), seed: int = 1, jobs: int = 120) -> Played:
    """Run a busy Lublin workload under a preset; ``tables`` of the scenario extend those here."""
    base: dict[str, dict[str, Any]] = {
        "cluster": {"nodes": 16, "preset": "lomarc-ht"},
        "workload": {"lublin": jobs, "aarr": 8.83, "characteristics": "M1"},
        "truth": {"contention": "lomarc"},
    }
    for name, table in tables.items():
        base[name] = {**base.get(name, {}), **table}
    if "file" in base["cluster"]:
        base["cluster"] = {"file": base["cluster"]["file"]}
    if policy == "lomarc-n":
        base["truth"].setdefault("cpu", "standard")
    prepared = prepare({"seed": seed, **base})
    manager = build_manager(prepared)
    trace: list[TraceRecord] = []
    choice = choose(policy, sets)

    def core(welcome: Welcome) -> SchedulerCore:
        return SchedulerCore(choice.make(), welcome, trace=trace.append)

    records = Simulation(manager, Agenda(manager, prepared.workload.jobs), DirectLink(core)).run()
    assert manager.refused == 0
    manager.check()
    return Played(records, trace, prepared, _truth(prepared))


def _truth(prepared: Prepared) -> LomarcModel:
    truth = prepared.scenario.truth
    return LomarcModel(
        remainder=truth.remainder,
        c_scope=truth.c_scope,
        cpu=truth.cpu,
        pair_seed=prepared.scenario.seed,
        good_share_ppm=round(truth.good_share * 1_000_000),
    )


def assert_as_expected(played: Played) -> None:
    """Assert that every job ended when the scheduler, with complete knowledge, expected it to."""
    for record in played.records:
        stay = record.intervals[0]
        assert abs(stay.end_us - stay.start_us - record.estimate_us) <= NEAR_US, record


@pytest.mark.parametrize("policy", ["ac", "am", "lomarc-fm", "lomarc-r"])
def test_co_location_kills_no_job(policy: str) -> None:
    """Limits are the exact estimates, and grow by the time lost to partners."""
    played = play(policy, {"workload": {"limits": "estimate"}}, seed=4)
    played.judge(memory_rule=policy != "ac")
    assert_as_expected(played)
    assert played.pairs()
    for record in played.records:
        assert abs(cast(int, record.limit_us) - record.estimate_us) <= NEAR_US
