"""A learned belief: what it estimates, when it gives up what it knew, and that all of it is in a note."""

from __future__ import annotations

from math import exp
from pathlib import Path
from typing import Any

import pytest
from tests.plugin.policies.composition.combinations import NODES_ALIKE

from cosched_emulator import Run, prepare, simulate
from cosched_emulator.run.policy_warnings import idle_belief
from cosched_plugin.config import choose
from cosched_plugin.policies.belief.learned import LearnedPairs, Memory, estimate
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol.messages import JobSpec
from cosched_plugin.protocol.values import note_travels
from cosched_plugin.testing.check import check_policy


def job(name: str, user: str = "ann", number: int = 1) -> JobSpec:
    return JobSpec(number, 0, 1, 1_000_000, None, user=user, name=name)


def model_of(memory: Memory, trials: int = 0, users: dict[tuple[str, str], float] | None = None) -> LearnedPairs:
    return LearnedPairs(estimate(memory.pairs), users or {}, errors=1.0, trials=trials, given=None)


def taught(*measured: tuple[str, str, float]) -> Memory:
    memory = Memory()
    for own, other, slowdown in measured:
        memory.learn(job(own), other, round(slowdown * 1e6))
    return memory


@pytest.mark.parametrize(
    ("preset", "run"), [("lomarc-r", 3), ("symbiosis", 3), ("co-execution", 6), ("glts", 6), ("lct", 2)]
)
def test_policies_that_share_decide_the_same_after_a_restart(
    preset: str, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cache by pair must follow the belief: a scheduler that was restarted has the note alone."""
    learnt: list[str] = []
    learn = Memory.learn

    def counted(memory: Memory, of: JobSpec, other: str, slowdown_ppm: int) -> None:
        learnt.append(other)
        learn(memory, of, other, slowdown_ppm)

    monkeypatch.setattr(Memory, "learn", counted)
    table = {"preset": preset, "belief": {"name": "learned", "trials": 2}}
    check_policy(lambda: compose(table), seed=NODES_ALIKE, runs=1, first=run)
    assert learnt


def test_what_was_measured_is_believed_and_the_rest_follows_from_it() -> None:
    """``a`` is sensitive, ``y`` aggressive: their pair was not measured, and must be dearer than the pairs without one of them."""
    memory = taught(*[("a", "x", 1.3), ("b", "x", 1.02), ("b", "y", 1.2), ("c", "x", 1.02), ("c", "y", 1.2)] * 3)
    model = model_of(memory)
    assert model.slowdown(job("a"), job("x")) == pytest.approx(1.3, abs=0.03)
    assert model.slowdown(job("b"), job("x")) == pytest.approx(1.02, abs=0.03)
    assert model.slowdown(job("a"), job("y")) > model.slowdown(job("a"), job("x"))
    never = Memory()
    assert model.slowdown(job("a"), job("y")) > model_of(never).slowdown(job("a"), job("y"))


def test_a_trial_is_for_some_jobs_and_ends_when_the_pair_is_known() -> None:
    unknown = model_of(Memory(), trials=4)
    tried = [number for number in range(1, 401) if unknown.slowdown(job("a", number=number), job("b")) < 1.05]
    assert 60 <= len(tried) <= 140
    known = model_of(taught(*[("a", "b", 1.4)] * 5), trials=4)
    assert min(known.slowdown(job("a", number=number), job("b", number=500)) for number in tried) > 1.3


def test_many_at_once_are_as_one_by_one() -> None:
    class Columns:
        jobs = tuple(
            job(name, user, number)
            for number, (name, user) in enumerate(zip("abcz", ["ann", "bob"] * 2, strict=True), 1)
        )
        usage = None

    model = model_of(taught(("a", "b", 1.2), ("b", "a", 1.4), ("c", "a", 1.1)), trials=3, users={("b", "bob"): 0.05})
    for own in Columns.jobs:
        both = [model.both(own, other) for other in Columns.jobs]
        assert model.beside(own, Columns()).slowdowns.tolist() == both  # type: ignore[arg-type]


def test_an_application_that_has_changed_is_noticed() -> None:
    """Six runs at 1.02, and then a new version at 1.4: the belief must not be a mean of both."""
    memory = taught(*[("a", "x", 1.02), ("a", "y", 1.04), ("b", "x", 1.01)] * 6)
    for measured in range(1, 4):
        memory.learn(job("a"), "x" if measured % 2 else "y", 1_400_000)
    assert exp(memory.pairs["a", "x"].mean / 1e6) == pytest.approx(1.4, abs=0.001)
    assert ("a", "y") not in memory.pairs
    assert model_of(memory).slowdown(job("a"), job("x")) > 1.3


def test_one_odd_measurement_changes_little() -> None:
    memory = taught(*[("a", "x", 1.02)] * 8, ("a", "x", 1.5), *[("a", "x", 1.02)] * 3)
    assert exp(memory.pairs["a", "x"].mean / 1e6) < 1.06
    assert not memory.strikes


def test_users_of_one_application_are_told_apart() -> None:
    memory = Memory()
    for _ in range(8):
        memory.learn(job("a", "ann"), "x", 1_100_000)
        memory.learn(job("a", "bob"), "x", 1_180_000)
    assert memory.users["a", "bob"].mean - memory.users["a", "ann"].mean > 40_000


def test_the_note_is_read_as_it_was_written_and_is_bounded() -> None:
    memory = taught(("a", "x", 1.2), ("a", "x", 1.3), ("x", "a", 1.9), ("x", "a", 1.01))
    assert Memory(memory.note(10)).note(10) == memory.note(10)
    assert Memory(memory.note(10)).strikes == {"x": 1, "a": 1}
    for number in range(3_000):
        memory.learn(job(f"{number:05}" + "n" * 300, f"{number:05}" + "u" * 300), f"{number:05}" + "o" * 300, 1_100_000)
    note = memory.note(2_000)
    assert note_travels("belief", note)
    assert len(Memory(note).pairs) == 2_000
    assert ("02999" + "n" * 59, "02999" + "o" * 300) in Memory(note).pairs


@pytest.mark.parametrize(
    "note", [7, ("a",), (("a",), (0, 0, 1, 1), (), ()), (("a",), (0, 1, 1, 1, 0), (), ()), ((1,), (), (), ())]
)
def test_a_note_of_another_form_counts_as_none(note: Any) -> None:
    assert Memory(note).note(5) == ((), (), (), ())


# What a policy makes of it: jobs of two kinds, of which one is a bad neighbour.


def ran(folder: Path, belief: str) -> Run:
    """Run jobs of two applications beside each other: 1 costs nobody anything, 2 makes everybody take twice as long."""
    table = ["row,column,ratio,procs,compact_s,spread"]
    table += [f"{one},{other},{2.0 if other == 2 else 1.001},1,100,1" for one in (1, 2) for other in (1, 2)]
    (folder / "pairs.csv").write_text("\n".join(table) + "\n")
    rows = [f"{i} {i * 10} -1 1000 1 -1 -1 1 1000 -1 1 1 1 {1 + i % 2} 1 -1 -1 -1" for i in range(1, 301)]
    (folder / "jobs.swf").write_text("; MaxProcs: 4\n" + "\n".join(rows) + "\n")
    scenario = {
        "workload": {"swf": str(folder / "jobs.swf"), "limits": "none"},
        "cluster": {"nodes": 4, "preset": "lomarc-ht"},
        "truth": {"contention": "pairs", "pairs": str(folder / "pairs.csv")},
        "belief": {"pairs": "unknown"},
        "monitoring": {"after_s": 60, "above": 0},
    }
    return simulate(scenario, "lomarc-u1", settings={"belief": belief})


def mean_response_s(run: Run) -> float:
    return sum([(record.end_us or 0) - record.job.spec.submit_us for record in run.records]) / len(run.records) / 1e6


def test_a_policy_learns_which_jobs_may_share_nodes(tmp_path: Path) -> None:
    """Nothing is known: without learning nobody shares; with it, half of the jobs are found to be good company."""
    assert mean_response_s(ran(tmp_path, "learned")) < 0.9 * mean_response_s(ran(tmp_path, "given"))


def test_a_run_without_measurements_warns() -> None:
    table: dict[str, Any] = {"workload": {"lublin": 5}, "cluster": {"nodes": 4}}
    prepared = prepare(table)
    assert "monitoring.after_s" in (idle_belief(choose("lomarc-r", ["belief=learned"]), prepared) or "")
    assert idle_belief(choose("lomarc-r"), prepared) is None
