"""Co-execution: where jobs go, who is beside whom, how long they take, and what keeps the reservation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from tests.plugin.policies.cases import NOW_US, welcome_of
from tests.plugin.policies.glomarc.glts_cases import (
    belief_of,
    draw_jobs,
    mixed_machine,
    nodes_of,
    play,
    spec_of,
    with_wishes,
)
from tests.runs import runs_on

from cosched_emulator import Run, simulate
from cosched_emulator.explain.facts import explain
from cosched_emulator.explain.sentences import sentences
from cosched_plugin.common.allocation import Machine
from cosched_plugin.common.threads import bits_of
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol.messages import Belief, Note, RunningJob, SlotState, StartJob, Turn
from cosched_plugin.testing.check import check_policy

# Run times beside a partner over the compact ones. light and light: as compact; heavy beside light gains much; two heavy ones
# lose; light beside heavy loses 4 %; greedy gains beside light, which loses 20 %.
RATIOS = """row,column,ratio,procs,compact_s,spread
light,light,1,8,100,.98
light,heavy,1.04,8,100,.98
light,greedy,1.2,8,100,.98
heavy,light,.7,8,100,.6
heavy,heavy,1.5,8,100,.6
heavy,greedy,1.5,8,100,.6
greedy,light,.95,8,100,.9
greedy,heavy,1.5,8,100,.9
greedy,greedy,1.5,8,100,.9
"""


def ran(tmp_path: Any, jobs: Sequence[tuple[str, int, int]], nodes: int, policy: str | Mapping[str, Any]) -> Run:
    """Run jobs of (application, processes, seconds), all submitted at once, on nodes of two CPUs with two cores."""
    table = tmp_path / "ratios.csv"
    table.write_text(RATIOS)
    log = tmp_path / "jobs.swf"
    numbers = {"light": 1, "heavy": 2, "greedy": 3}
    text = RATIOS
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    table.write_text(text)
    lines = [
        f"{place} 0 0 {seconds} {size} -1 -1 {size} {seconds} -1 1 1 1 {numbers[name]} 1 -1 -1 -1"
        for place, (name, size, seconds) in enumerate(jobs, 1)
    ]
    log.write_text(f"; MaxProcs: {4 * nodes}\n" + "\n".join(lines) + "\n")
    scenario = {
        "workload": {"swf": str(log)},
        "cluster": {"nodes": nodes, "preset": "2x2x1"},
        "truth": {"contention": "pairs", "pairs": str(table)},
    }
    trace: list[Any] = []
    return simulate(scenario, policy, trace=trace)


def times(run: Run) -> dict[int, tuple[float, float]]:
    """Return start and end of each job, in seconds."""
    found = {record.job.spec.id: (record.last_stays[0].start_us, record.end_us) for record in run.records}
    return {job: (start_us / 1e6, (end_us or 0) / 1e6) for job, (start_us, end_us) in found.items()}


def started(run: Run, job: int) -> Any:
    return next(each for each in run.trace or () if each["kind"] == "start" and each["job"] == job)


def test_the_partner_with_most_work_is_taken_and_the_harmful_one_is_not(tmp_path: Any) -> None:
    """Four nodes hold two spread jobs of 8: heavy takes light beside it, and greedy, which would slow light by 20 %, waits."""
    run = ran(tmp_path, [("heavy", 8, 100), ("greedy", 8, 100), ("light", 8, 100)], 4, "co-execution")
    found = times(run)
    assert found[1] == pytest.approx((0, 70))
    assert found[3][0] == 0
    assert found[2][0] >= 70
    (beside,) = started(run, 3)["halves"]["beside"] or started(run, 1)["halves"]["beside"]
    assert sorted([beside["ratio"], beside["its_ratio"]]) == pytest.approx([0.7, 1.04])
    later = 3 if started(run, 3)["halves"]["beside"] else 1
    told = " ".join(sentences(explain(run.trace or (), later, "trace")))
    assert "half of the cores of its nodes it adds work" in told
    assert f"Beside job {beside['job']} it takes {beside['ratio']:.3f} of its run time on all cores" in told


def test_no_job_is_slower_than_the_limit(tmp_path: Any) -> None:
    jobs = [
        (name, 8, 100 + 7 * place) for place, name in enumerate(("light", "greedy", "heavy", "light", "greedy") * 6)
    ]
    for limit in (1.0, 1.05, 1.3):
        run = ran(tmp_path, jobs, 8, {"preset": "co-execution", "placement": {"name": "halves", "max_slowdown": limit}})
        spans = times(run)
        ratios = [(spans[place][1] - spans[place][0]) / jobs[place - 1][2] for place in spans]
        assert max(ratios) <= limit + 1e-6
    assert max(ratios) > 1.05  # a wider limit is used


def test_without_a_belief_every_job_has_its_nodes_alone(tmp_path: Any) -> None:
    jobs = [("light", 8, 100), ("light", 8, 60), ("heavy", 4, 70)]
    table = {"preset": "co-execution"}
    run = ran(tmp_path, jobs, 5, table)
    blind = simulate(run.prepared.scenario, table, overrides={"belief": {"contention": "none"}})
    nodes = [
        {node for first, count, _, _ in record.last_stays[0].runs for node in range(first, first + count)}
        for record in blind.records
    ]
    assert len(nodes) == 3
    assert all(not one & other for place, one in enumerate(nodes) for other in nodes[place + 1 :])


def test_expected_ends_are_the_true_ones_whoever_comes_and_goes(tmp_path: Any) -> None:
    """Neighbours of other sizes and lengths come and go; with an exact belief no job ends before or after what is expected."""
    names = ("heavy", "light", "light", "heavy", "greedy", "light")
    jobs = [(names[place * 7 % 6], (4, 8, 12, 2)[place % 4], 60 + 13 * place % 90) for place in range(40)]
    for policy in ("co-execution", "co-execution-easy", "spread"):
        run = ran(tmp_path, jobs, 8, policy)
        assert len(run.records) == 40
        for record in run.records:
            assert record.end_us is not None
            # Each revision rounds up to a microsecond.
            assert 0 <= record.last_stays[0].start_us + record.estimate_us - record.end_us <= 9


def test_spread_takes_half_of_the_cores_of_twice_the_nodes_alone(tmp_path: Any) -> None:
    run = ran(tmp_path, [("heavy", 8, 100), ("light", 8, 100)], 4, "spread")
    assert times(run) == {1: pytest.approx((0, 60)), 2: pytest.approx((60, 158))}
    (runs,) = {record.last_stays[0].runs for record in run.records}
    assert [(each.first, each.count, each.processes) for each in runs] == [(0, 4, 2)]
    assert [*bits_of(runs[0].mask)] == [0, 2]  # the lower core of each CPU


def test_a_job_too_large_to_be_spread_is_compact(tmp_path: Any) -> None:
    run = ran(tmp_path, [("heavy", 16, 100)], 4, "co-execution-easy")
    assert times(run) == {1: pytest.approx((0, 100))}


def test_the_head_of_the_queue_keeps_its_reservation(tmp_path: Any) -> None:
    """A wide job has to wait for the first one; a small long one that would be in its way does not start, a short one does."""
    jobs = [("light", 8, 100), ("light", 16, 100), ("light", 4, 300), ("light", 4, 50)]
    run = ran(
        tmp_path, jobs, 4, {"preset": "co-execution", "order": "fcfs", "placement": {"name": "halves", "share": False}}
    )
    found = times(run)
    head = found[2][0]
    assert head == pytest.approx(found[1][1])
    assert found[4][0] < head
    assert found[3][0] >= head


def test_a_half_beside_two_jobs_of_the_manager_stays_closed() -> None:
    """One of the two has no note, and its memory leaves too little for a third."""
    tenant = RunningJob(spec_of(8, 1, 100, submit_us=0), 0, runs_on((0, 1, 0b0001, 1)), 2 * NOW_US, None)
    other = RunningJob(spec_of(9, 1, 100, submit_us=0, memory_mb=10), 0, runs_on((0, 1, 0b0100, 1)), 2 * NOW_US, None)
    told = welcome_of([nodes_of(1, memory_mb=16)], [tenant, other], [spec_of(1, 1, 100, memory_mb=10)], belief_of())
    policy = compose({"preset": "co-execution-easy", "placement": {"max_slowdown": 9}})
    assert SchedulerCore(policy, told._replace(notes=(Note(8, "spread", 1.0),))).handle(NOW_US, ()) == []


@pytest.mark.parametrize("memory_mb", [0, 10])
def test_a_head_has_a_reservation_where_a_job_of_another_slot_is_on_its_nodes(memory_mb: int) -> None:
    """That job ends last. With memory it closes its node until then; else none: it must not close it for ever."""
    other = spec_of(8, 1, 3 * NOW_US, submit_us=0, memory_mb=memory_mb)
    ends = spec_of(9, 1, 2 * NOW_US, submit_us=0)
    running = [
        RunningJob(other, 0, runs_on((0, 1, 0b1111, 1)), 3 * NOW_US, None, slot=2),
        RunningJob(ends, 0, runs_on((1, 1, 0b1111, 1)), 2 * NOW_US, None),
    ]
    wide, long = spec_of(1, 12, NOW_US), spec_of(2, 1, 9 * NOW_US)
    told = welcome_of([nodes_of(3, memory_mb=16)], running, [wide, long], Belief("none", "bulk-synchronous", ()))
    records: list[dict[str, Any]] = []
    policy = compose({"preset": "spread", "placement": {"name": "halves", "share": False}})
    core = SchedulerCore(policy, told._replace(slots=SlotState(NOW_US, 1, (Turn((0,), 1),), 1)), trace=records.append)
    assert not [each for each in core.handle(NOW_US, ()) if isinstance(each, StartJob)]
    assert [(each["job"], each["shadow_us"]) for each in records if each["kind"] == "reserve"] == [
        (1, 3 * NOW_US if memory_mb else 2 * NOW_US)
    ]


@pytest.mark.parametrize("preset", ["co-execution", "co-execution-easy", "spread"])
def test_node_sets_and_amounts_are_honoured_on_nodes_that_differ(preset: str) -> None:
    """The judge's rules about sets, memory, GPUs and licences hold for halves of nodes in partitions of a mixed machine."""
    shared = 0
    for seed in range(2):
        random = Random(f"sets {seed}")
        machine = mixed_machine(random)
        jobs = with_wishes(random, draw_jobs(random, 50, 6, gap_s=300), machine)
        played = play(preset, jobs, machine, restart=True)
        played.judge(class_bounds_us=None, short_alone=False)
        starts = [record for record in played.trace if record["kind"] == "start"]
        shared += sum(bool(record.get("halves", {}).get("beside")) for record in starts)
    assert (shared > 5) == (preset != "spread")


@pytest.mark.parametrize("preset", ["co-execution", "co-execution-easy", "spread"])
def test_a_partition_is_a_machine_of_its_own(preset: str) -> None:
    """Jobs that may have the nodes of one partition alone run when, and where, they would without the other nodes."""
    jobs = draw_jobs(Random("partition"), 40, 6, gap_s=300, memory=True)
    partition = nodes_of(6)
    alone = play(preset, jobs, partition)
    there = [job._replace(spec=job.spec._replace(eligible=((2, 6),))) for job in jobs]
    among = play(preset, there, Machine([nodes_of(2, 2, 4), partition, nodes_of(9)]))
    for number, record in alone.records.items():
        (stay,) = record.intervals
        moved = tuple([run._replace(first=run.first + 2) for run in stay.runs])
        assert among.records[number].intervals == (stay._replace(runs=moved),)


@pytest.mark.parametrize("preset", ["co-execution", "co-execution-easy", "spread"])
def test_conforms(preset: str) -> None:
    assert check_policy(lambda: compose({"preset": preset}), runs=3).decisions > 0
