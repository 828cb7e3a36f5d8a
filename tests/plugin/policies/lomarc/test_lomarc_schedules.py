"""Whole schedules of LOMARC and its baselines, checked by the reference's judge: valid, and every job does exactly its work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from tests.plugin.policies.lomarc.lomarc_cases import SECOND_US, belief_of, c_of, hyperthreaded, spec_of, usage_of
from tests.reference.lomarc import (
    MAX_SLOWDOWN,
    Cpu,
    FinishedJob,
    Number,
    Stay,
    Usage,
    check_schedule,
    job_class,
    matchable,
    slowdown,
)
from tests.reference.lomarc import Job as PlainJob

from cosched_emulator import prepare
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.contended_nodes import ContendedNodes
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.build import build_manager
from cosched_emulator.run.loop import Simulation
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.workload.job import WorkloadJob
from cosched_hwmodel.composition import composition_named
from cosched_hwmodel.lomarc.lomarc_model import LomarcContention, LomarcModel
from cosched_plugin.common.allocation import Machine
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.trace import TraceRecord
from cosched_plugin.protocol.messages import COMPLETED, UsageTuple, Welcome

ALL = ("pss", "ac", "am", "lomarc-fm", "lomarc-u1", "lomarc-u2", "lomarc-r", "lomarc-n")
CHOOSERS = ("am", "lomarc-fm", "lomarc-u1", "lomarc-u2", "lomarc-r", "lomarc-n")  # matchings that check constraints
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


def assert_matched_by_the_rules(played: Played) -> None:
    """Assert that all co-located jobs were a match by the scheduler's knowledge, also by host and size."""
    records = {record.job.spec.id: record for record in played.records}
    slowdown_of = played.slowdown_of()
    for one, other in played.pairs():
        a, b = (
            PlainJob(
                spec.id, spec.processes, Fraction(spec.estimate_us, SECOND_US), usage_of(records[spec.id].job.usage)
            )
            for spec in (records[one].job.spec, records[other].job.spec)
        )
        c = c_of(played.model, one, a.usage, other, b.usage)
        cpu = cast(Cpu, played.model.cpu)
        assert matchable(a, b, cpu, c) or matchable(b, a, cpu, c)
        assert float(slowdown_of(one, other)) <= float(MAX_SLOWDOWN)
        assert "short" not in (job_class(a.time), job_class(b.time))
        smaller, larger = sorted((nodes_of(records[one]), nodes_of(records[other])), key=len)
        assert smaller <= larger


def nodes_of(record: JobRecord) -> set[int]:
    return {node for first, count, _, _ in record.intervals[0].runs for node in range(first, first + count)}


@pytest.mark.by_default(8)
@pytest.mark.parametrize("remainder", [True, False])
@pytest.mark.parametrize("policy", ALL)
def test_with_exact_knowledge_jobs_end_as_expected(policy: str, remainder: bool) -> None:
    shared = 0
    for seed in (1, 2):
        played = play(policy, {"truth": {"remainder": remainder}}, seed=seed)
        played.judge(memory_rule=policy != "ac")
        assert_as_expected(played)
        if policy in CHOOSERS:
            assert_matched_by_the_rules(played)
        shared += len(played.pairs())
    assert shared == 0 if policy == "pss" else shared > 5


@pytest.mark.parametrize("policy", ["pss", "ac", "am", "lomarc-fm", "lomarc-r", "lomarc-n"])
def test_on_nodes_of_several_cores_guests_take_the_second_threads(policy: str, tmp_path: Path) -> None:
    """Four cores with two threads each: a job takes free nodes, one process a core, and a guest takes the other threads."""
    file = tmp_path / "machine.toml"
    file.write_text("[[nodes]]\ncount = 8\nsockets = 2\ncores_per_socket = 2\nthreads_per_core = 2\nmemory_mb = 512\n")
    played = play(policy, {"cluster": {"file": str(file)}}, seed=3)
    played.judge(memory_rule=policy != "ac")
    assert_as_expected(played)
    if policy in CHOOSERS:
        assert_matched_by_the_rules(played)
    assert bool(played.pairs()) == (policy != "pss")
    for record in played.records:
        for _, _, mask, processes in record.intervals[0].runs:
            firsts, seconds = mask & 15, mask >> 4
            assert not (firsts and seconds)
            assert (firsts | seconds).bit_count() == processes


@pytest.mark.parametrize("policy", ["ac", "am", "lomarc-fm", "lomarc-r"])
def test_co_location_kills_no_job(policy: str) -> None:
    """Limits are the exact estimates, and grow by the time lost to partners."""
    played = play(policy, {"workload": {"limits": "estimate"}}, seed=4)
    played.judge(memory_rule=policy != "ac")
    assert_as_expected(played)
    assert played.pairs()
    for record in played.records:
        assert abs(cast(int, record.limit_us) - record.estimate_us) <= NEAR_US


@pytest.mark.parametrize("policy", ["ac", "am", "lomarc-fm", "lomarc-u1", "lomarc-r"])
def test_with_long_estimates_no_job_is_killed_or_late(policy: str) -> None:
    """No job is killed or takes longer than expected, as partners can only leave early."""
    estimates = {"limits": "estimate", "estimates": "f-model", "estimate_factor": 2.0}
    played = play(policy, {"workload": estimates}, seed=5)
    played.judge(memory_rule=policy != "ac")
    assert played.pairs()
    for record in played.records:
        stay = record.intervals[0]
        assert stay.end_us - stay.start_us <= record.estimate_us + NEAR_US
        assert record.estimate_us <= cast(int, record.limit_us) + NEAR_US
    if policy in CHOOSERS:
        assert_matched_by_the_rules(played)


@pytest.mark.parametrize("policy", ["am", "lomarc-fm", "lomarc-u2", "lomarc-r"])
def test_one_job_of_a_slow_pair_is_suspended(policy: str) -> None:
    """Beliefs about jobs are wrong; pairs are measured after a minute, and one job of a pair that is too slow is suspended."""
    tables = {
        "truth": {"remainder": True},
        "belief": {"usage_noise": 0.9, "remainder": False},
        "monitoring": {"after_s": 60.0, "above": 1.6},
    }
    suspended = 0
    for seed in (1, 2):
        played = play(policy, tables, seed=seed)
        played.judge(memory_rule=False)  # the belief about memory has noise, too
        spans = played.spans()
        slowdown_of = played.slowdown_of()
        suspended += len(spans)
        for one, other in played.pairs():
            if float(slowdown_of(one, other)) > float(MAX_SLOWDOWN):
                both = _together_us(played, one, other, spans)
                assert both <= 60 * SECOND_US
    assert suspended > 1


def _together_us(played: Played, one: int, other: int, spans: Mapping[int, Sequence[tuple[int, int]]]) -> int:
    """Return for how long two jobs were on a node together and neither of them was suspended."""
    stays = {record.job.spec.id: record.intervals[0] for record in played.records}
    since = max(stays[one].start_us, stays[other].start_us)
    until = min(stays[one].end_us, stays[other].end_us)
    stopped = [span for job in (one, other) for span in spans.get(job, ())]
    return until - since - sum(max(0, min(end, until) - max(start, since)) for start, end in stopped)


@pytest.mark.parametrize("policy", ["ac", "lomarc-fm"])
def test_jobs_of_unknown_usage_share_only_under_ac(policy: str) -> None:
    """They share with no job, or under ac with any; their effect on others follows the truth."""
    played = play(policy, {"belief": {"usage_missing": 0.4}}, seed=6)
    played.judge(memory_rule=policy != "ac")
    unknown = {record.job.spec.id for record in played.records if record.job.spec.usage is None}
    assert len(unknown) > 20
    met = {job for pair in played.pairs() for job in pair}
    assert bool(met & unknown) == (policy == "ac")
    assert met - unknown


# ---------------------------------------------------------------- by hand

# A pair of one of each kind has a slowdown of 1.5: they compete only for reading, half of the time of both.
CPU = ("cpu", 500_000, 0, 500_000, 300_000)
NETWORK = ("network", 0, 500_000, 500_000, 300_000)


def test_partners_start_and_end() -> None:
    """Two nodes, seconds. Job 1 (cpu, 2 nodes, 1000) and three network jobs: 2 (2 nodes, 400), 3 (1 node, 300), 4 (2 nodes, 500).

       0  1, 2 and 3 are pending: they need 5 nodes of 2, which is no weak load. 1 starts, and 2 is its first match.
     100  4 arrives. All nodes have two jobs.
     600  2 has done its 400. 1 has done 400, too, and is alone: 3 joins it on node 0. It will take 450, and so will the next
          300 of 1; the last 300 of 1 alone, until 1350. 4 stays pending, as 1 has a partner.
    1050  3 ends. 1 has 300 left and is matched again, with 4: its 300 take 450.
    1500  1 ends, 300 after its expected end at the start. 4 has done 300 of 500.
    1700  4 ends.
    """
    jobs = [
        _job(1, 0, 2, 1000, CPU),
        _job(2, 0, 2, 400, NETWORK),
        _job(3, 0, 1, 300, NETWORK),
        _job(4, 100, 2, 500, NETWORK),
    ]
    model = LomarcModel(remainder=True)
    nodes = hyperthreaded(2)
    contention = LomarcContention(model, {job.spec.id: job.usage for job in jobs if job.usage is not None})
    cluster = ContendedNodes(Machine([nodes]), contention, composition_named("bulk-synchronous"))
    manager = Manager([nodes], belief_of(model), cluster)
    trace: list[TraceRecord] = []

    def core(welcome: Welcome) -> SchedulerCore:
        return SchedulerCore(choose("lomarc-fm").make(), welcome, trace=trace.append)

    records = Simulation(manager, Agenda(manager, jobs), DirectLink(core)).run()
    told = [
        (record.job.spec.id, stay.start_us // SECOND_US, stay.end_us // SECOND_US, stay.runs, record.estimate_us)
        for record in records
        for stay in record.intervals
    ]
    assert told == [
        (1, 0, 1500, ((0, 2, 1, 1),), 1500 * SECOND_US),
        (2, 0, 600, ((0, 2, 2, 1),), 600 * SECOND_US),
        (3, 600, 1050, ((0, 1, 2, 1),), 450 * SECOND_US),
        (4, 1050, 1700, ((0, 2, 2, 1),), 650 * SECOND_US),
    ]
    starts = {record["job"]: record for record in trace if record["kind"] == "start"}
    assert starts[1]["expected_us"] == 1200 * SECOND_US  # 400 slowed to 600, and 600 alone
    assert (starts[1]["partners"]["partner"], starts[1]["partners"]["slowdown"]) == (2, 1.5)
    assert [starts[job]["hosts"]["host"] for job in (3, 4)] == [1, 1]


def _job(number: int, submit_s: int, size: int, seconds: int, usage: UsageTuple) -> WorkloadJob:
    spec = spec_of(number, size, seconds, usage, submit_s * SECOND_US)
    return WorkloadJob(spec, seconds * SECOND_US, None, number, usage)
