"""A belief that is corrected by what is measured: right ones stay as they are, wrong ones are noticed, and all of it is in a note."""

from __future__ import annotations

from math import exp, inf, log
from random import Random
from typing import Any

import pytest
from tests.plugin.policies.composition.combinations import NODES_ALIKE

from cosched_emulator import Run, prepare, simulate
from cosched_emulator.explain.facts import explain
from cosched_emulator.explain.sentences import sentences
from cosched_emulator.run.policy_warnings import idle_belief
from cosched_hwmodel.models.measured_pairs import MeasuredPairs, MeasuredRatios
from cosched_hwmodel.pairs import JobFacts, PairModel
from cosched_plugin.config import choose
from cosched_plugin.policies.belief.corrected import (
    CorrectedPairs,
    Correction,
    Pair,
    Rule,
    corrected_by,
    correction_of,
    effects_of,
)
from cosched_plugin.policies.belief.learned import Memory
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol.messages import JobSpec
from cosched_plugin.protocol.values import note_travels
from cosched_plugin.testing.check import check_policy

WINDOW = 50
TOLD = MeasuredPairs(MeasuredRatios(("a", "b", "c"), (1.1, 1.2, 1.3, 1.2, 1.1, 1.4, 1.3, 1.4, 0.0), (1.0,) * 3))


def job(name: str, user: str = "ann", number: int = 1) -> JobSpec:
    return JobSpec(number, 0, 1, 1_000_000, None, user=user, name=name)


def model_after(correction: Correction, given: PairModel | None = TOLD, trials: int = 0) -> CorrectedPairs:
    return corrected_by(correction, given, trials, learn=True)


@pytest.mark.parametrize("preset", ["lomarc-r", "symbiosis", "co-execution"])
def test_policies_that_share_decide_the_same_after_a_restart(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cache by pair must follow the belief: a scheduler that was restarted has the note alone."""
    learnt: list[float] = []
    learn = Correction.learn

    def counted(self: Correction, one: JobSpec, other: JobSpec, told: float, slowdown: float, window: int) -> None:
        learnt.append(told)
        learn(self, one, other, told, slowdown, window)

    monkeypatch.setattr(Correction, "learn", counted)
    table = {"preset": preset, "belief": {"name": "corrected", "trials": 3, "window": 5, "learn": True}}
    check_policy(lambda: compose(table), seed=NODES_ALIKE, runs=3)
    assert learnt


def test_a_right_belief_stays_as_it_is() -> None:
    correction, random = Correction(), Random(1)
    for _ in range(300):
        one, other = random.choice("ab"), random.choice("abc")
        told = TOLD.slowdown(job(one), job(other))
        correction.learn(job(one), job(other), told, told, WINDOW)
    assert correction.rule == Rule()
    model = model_after(correction)
    assert model.slowdown(job("a"), job("c")) == TOLD.slowdown(job("a"), job("c"))
    assert model.told(job("a"), job("c")) == 1.3


def test_a_belief_that_says_too_little_is_scaled_and_a_job_on_trial_believes_it() -> None:
    """All pairs take 1.4 times as long as was told."""
    correction = Correction()
    for number in range(60):
        told = 1.05 + 0.1 * (number % 4)
        correction.learn(job(""), job(""), told, 1.4 * told, WINDOW)
    model = model_after(correction, trials=4)
    each = {number: model.slowdown(job("a", number=number), job("b", number=503)) for number in range(1, 401)}
    scaled = [slowdown for slowdown in each.values() if slowdown != 1.2]
    assert 240 <= len(scaled) <= 360
    assert scaled == [pytest.approx(1.2 * 1.4, rel=0.06)] * len(scaled)


@pytest.mark.parametrize(("measured", "believed"), [(1.5, 1.2), (1.75, inf), (1.05, 1.05)])
def test_pairs_that_still_do_more_are_believed_as_told_where_none_are_better(measured: float, believed: float) -> None:
    class Plain(PairModel):
        name = "plain"

        def slowdown(self, job: JobFacts, other: JobFacts) -> float:
            return 1.2

    correction = Correction()
    for _ in range(200):
        correction.learn(job(""), job(""), 1.2, measured, 200)
    found = model_after(correction, Plain()).slowdown(job("a"), job("b"))
    assert found == pytest.approx(believed, rel=0.03)


def test_pairs_that_do_no_more_together_share_no_nodes() -> None:
    correction = Correction()
    for _ in range(20):
        correction.learn(job(""), job(""), 1.2, 2.5, WINDOW)
    assert model_after(correction).slowdown(job("a"), job("b")) == inf
    assert model_after(correction, trials=1).slowdown(job("a"), job("b")) == 1.2


def test_what_was_told_counts_for_nothing_where_it_says_nothing() -> None:
    """Told and measured slowdowns are drawn apart from each other: whatever was told, the mean is believed."""
    correction, random = Correction(), Random(2)
    for _ in range(400):
        correction.learn(job(""), job(""), exp(random.uniform(0, 0.4)), exp(random.uniform(0.1, 0.7)), 200)
    model = model_after(correction)
    few, many = (model.slowdown(job("a"), job(other)) for other in "ac")
    assert log(many / few) < 0.35 * log(1.3 / 1.1)
    assert few == pytest.approx(exp(0.4), rel=0.1)


def test_the_one_application_of_which_a_wrong_thing_is_told_is_found() -> None:
    """Whoever is beside ``c`` takes 1.5 times as long as was told: the pairs of the others stay nearly as they were."""
    correction, random = Correction(), Random(3)
    for number in range(200):
        one, other = random.choice("ab"), random.choice("abc")
        told = TOLD.slowdown(job(one), job(other))
        correction.learn(job(one, number=number), job(other), told, told * (1.5 if other == "c" else 1.0), WINDOW)
    model = model_after(correction)
    assert model.slowdown(job("a"), job("c")) == pytest.approx(1.3 * 1.5, rel=0.06)
    assert model.slowdown(job("a"), job("b")) == pytest.approx(1.2, rel=0.06)


def test_noise_makes_no_applications() -> None:
    """Measurements differ as much within an application as between them: nothing is said of any."""
    correction, random = Correction(), Random(4)
    for number in range(400):
        one, other = f"a{number % 20}", f"a{random.randrange(20)}"
        correction.learn(job(one, number=number), job(other), 1.2, 1.2 * exp(random.gauss(0.0, 0.2)), WINDOW)
    effects = effects_of(correction.cells, correction.rule)
    assert max(map(abs, effects.values()), default=0.0) < 0.12


def test_two_jobs_that_are_measured_again_say_nothing_new_of_their_applications() -> None:
    correction, random = Correction(), Random(5)
    for number in range(60):
        one, other = job(f"a{number}", number=number), job(f"b{number}", number=number + 100)
        out = 1.2 * exp(random.gauss(0.0, 0.2))
        for _ in range(5):
            correction.learn(one, other, 1.2, out, 200)
    assert {cell.times for cell in correction.cells.values()} == {1}
    assert not effects_of(correction.cells, Rule())


def test_of_pairs_of_which_nothing_is_told_is_learned() -> None:
    correction, memory = Correction(), Memory()
    for _ in range(5):
        memory.learn(job("x"), "y", 1_400_000)
    correction.learned = memory.note(10)
    model = model_after(correction)
    assert model.told(job("x"), job("y")) is None
    assert model.slowdown(job("x"), job("y")) > 1.35
    assert model.slowdown(job("", ""), job("y")) == inf
    assert corrected_by(correction, TOLD, 0).slowdown(job("x"), job("y")) == inf


def test_many_at_once_are_as_one_by_one() -> None:
    class Columns:
        jobs = tuple(
            job(name, user, number) for number, (name, user) in enumerate([*zip("abcz", "uvuv", strict=True)], 1)
        )
        usage = None

    wrong = Correction()
    for number in range(60):
        one, other = "abc"[number % 3], "ab"[number % 2]
        wrong.learn(
            job(one, "v", number), job(other), TOLD.slowdown(job(one), job(other)), 1.3 + 0.1 * (number % 3), WINDOW
        )
    plain = Correction()
    for _ in range(9):
        plain.learn(job(""), job(""), 1.2, 1.7, WINDOW)
    for model in (model_after(wrong, trials=3), model_after(plain, trials=3), model_after(Correction())):
        for own in Columns.jobs:
            both = [model.both(own, other) for other in Columns.jobs if other.id != own.id]
            slow = model.beside(own, Columns()).slowdowns.tolist()  # type: ignore[arg-type]
            assert [each for each, other in zip(slow, Columns.jobs, strict=True) if other.id != own.id] == both


def test_the_note_is_read_as_it_was_written_and_is_bounded() -> None:
    correction = Correction()
    for number in range(3_000):
        names = [f"{number:05}" + letter * 300 for letter in "nuo"]
        correction.learn(job(names[0], names[1]), job(names[2]), 1.1, 1.5, WINDOW)
        if number == 4:
            assert Correction(correction.note(10)).note(10) == correction.note(10)
    note = correction.note(2_000)
    assert note_travels("correction", note)
    assert len(Correction(note).cells) == 2_000


@pytest.mark.parametrize(
    "note", [7, ("a",), ((0, 1), (0, 0, 0, 0, 0), ("a",), (0, 0, 1, 1, 0, 0, 0), ()), ((0,), (0,) * 5, (), (), ())]
)
def test_a_note_of_another_form_counts_as_none(note: Any) -> None:
    assert Correction(note).note(5) == Correction().note(5)


def test_what_was_measured_elsewhere_counts_by_its_runs() -> None:
    """An accounting says that ``a`` beside ``b`` takes 1.6 times as long, not 1.2, and what pairs take of which nothing is told."""
    pairs = [
        Pair(job("a"), job("b"), 1.6, 9, 0.02),
        Pair(job("b"), job("a"), 1.2, 9, 0.02),
        Pair(job("c"), job("c"), 1.5, 9, 0.02),
    ]
    model = model_after(Correction(correction_of(pairs, TOLD)))
    assert model.slowdown(job("a"), job("b")) == pytest.approx(1.6, rel=0.05)
    assert model.slowdown(job("b"), job("a")) == pytest.approx(1.2, rel=0.05)
    assert model.slowdown(job("c"), job("c")) == pytest.approx(1.5, rel=0.05)
    assert model_after(Correction(correction_of([], TOLD))).slowdown(job("a"), job("b")) == 1.2


# What a policy makes of it.


SCENARIO: dict[str, Any] = {
    "workload": {"lublin": 150, "aarr": 9.83, "characteristics": "M1"},
    "cluster": {"nodes": 32, "preset": "lomarc-ht"},
    "truth": {"contention": "lomarc", "remainder": True},
    "monitoring": {"after_s": 60, "above": 0},
}


def ran(preset: str, belief: str, usage: str, trace: list[dict[str, Any]] | None = None) -> Run:
    return simulate({**SCENARIO, "belief": {"usage": usage}}, preset, settings={"belief": belief}, trace=trace)


@pytest.mark.parametrize("preset", ["symbiosis", "lomarc-u1-shortest"])
def test_a_right_belief_costs_nothing_and_a_wrong_one_changes_what_is_done(preset: str) -> None:
    ends = {
        (usage, belief): [record.end_us for record in ran(preset, belief, usage).records]
        for usage in ("exact", "inverted")
        for belief in ("given", "corrected")
    }
    assert ends["exact", "corrected"] == ends["exact", "given"]
    assert ends["inverted", "corrected"] != ends["inverted", "given"]


def test_explain_says_that_a_slowdown_was_corrected_and_by_what() -> None:
    records: list[dict[str, Any]] = []
    ran("symbiosis", "corrected", "shuffled", records)
    job_id, each = next(
        (record["job"], each) for record in records if record["kind"] == "start" for each in record.get("corrected", ())
    )
    assert each["told"] != each["slowdown"]
    told = f"Beside job {each['job']} the site states {each['told']:.3f}; the scheduler used {each['slowdown']:.3f}, corrected"
    assert any(told in line for line in sentences(explain(records, job_id, "t.jsonl")))
    given: list[dict[str, Any]] = []
    ran("symbiosis", "given", "shuffled", given)
    assert not any("corrected" in record for record in given)


def test_a_run_without_measurements_warns() -> None:
    prepared = prepare({"workload": {"lublin": 5}, "cluster": {"nodes": 4}})
    assert "monitoring.after_s" in (idle_belief(choose("symbiosis", ["belief=corrected"]), prepared) or "")
