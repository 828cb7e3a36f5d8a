"""Models of pairs: defaults of third-party models, checks of their answers, arrays and single pairs, and pairs on a node."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.hwmodel.co_runs import Job
from tests.properties import drawn

from cosched_hwmodel.contention import ContentionModel, Load
from cosched_hwmodel.errors import ContentionError, HardwareModelError, UnknownNameError
from cosched_hwmodel.lomarc.lomarc_matrix import UsageColumns
from cosched_hwmodel.lomarc.lomarc_model import LomarcContention, LomarcModel
from cosched_hwmodel.models.custom import CustomModel, load_model
from cosched_hwmodel.models.paper_pairs import LomarcPairs, StatisticalPairs
from cosched_hwmodel.pairs import JobFacts, PairContention, PairModel
from cosched_hwmodel.statistical import StatisticalContention, StatisticalModel
from cosched_hwmodel.topology import load_preset
from cosched_hwmodel.units import ThreadMask
from cosched_hwmodel.usage import UNKNOWN_USAGE, UsageTuple

NODE = load_preset("g-lomarc-2x2")
CPU: UsageTuple = ("cpu", 600_000, 200_000, 200_000, 300_000)
DISK: UsageTuple = ("disk", 300_000, 100_000, 600_000, 800_000)


class Columns:
    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.usage = UsageColumns([job.id for job in jobs], [job.usage or UNKNOWN_USAGE for job in jobs])


class ByName:
    """A model that defines only the required method."""

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:
        return {"ab": 1.25, "ba": 1.5}.get(job.name + other.name, 2)


A, B, C = Job(1, "a"), Job(2, "b"), Job(3, "c")


def load(job_id: int, mask: int = 1) -> Load:
    return Load(job_id, mask.bit_count(), ThreadMask(mask), (0, 0, 0))


def made(model: object) -> PairModel:
    return CustomModel("some:Model", lambda: model).make_pairs(())


# ---------------------------------------------------------------- defaults


def test_a_model_needs_only_a_slowdown() -> None:
    model = made(ByName())
    assert (model.name, model.by_usage, model.knows(A), model.own(A, 2, 2)) == ("some:Model", False, True, None)
    assert (model.slowdown(A, B), model.slowdown(B, A), model.both(A, B), model.compete(A, B)) == (
        1.25,
        1.5,
        1.5,
        False,
    )
    beside = model.beside(A, Columns([B, C]))
    assert (beside.slowdowns.tolist(), beside.compete.tolist()) == ([1.5, 2.0], [False, False])
    assert beside.slowdowns.dtype == np.float64
    with_itself = model.beside(A, Columns([B, A]))
    assert (with_itself.slowdowns.tolist(), with_itself.compete.tolist()) == ([1.5, inf], [False, False])


def test_methods_that_a_model_defines_are_used() -> None:
    class Full(ByName):
        by_usage = True

    full: Any = Full()
    full.both = lambda _job, _other: 3
    full.compete = lambda _job, other: other.id == 2
    full.own = lambda _job, cpus, cores: 0.9 if cpus + cores > 2 else None
    full.knows = lambda job: job.id < 3
    full.beside = lambda _job, others: ([1.75] * len(others.jobs), [True] * len(others.jobs))
    model = made(full)
    assert (model.by_usage, model.both(A, B), model.compete(A, B), model.compete(B, A)) == (True, 3.0, True, False)
    assert (model.own(A, 1, 1), model.own(A, 2, 1), model.knows(B), model.knows(C)) == (None, 0.9, True, False)
    assert model.beside(A, Columns([B, C])).slowdowns.tolist() == [1.75, 1.75]


# ---------------------------------------------------------------- checks of answers


@pytest.mark.parametrize("value", [0.99, 0, -1, 1001, nan, -inf, True, "1.5", None])
def test_a_slowdown_is_a_number_from_1_to_1000(value: object) -> None:
    wrong: Any = ByName()
    wrong.slowdown = lambda _job, _other: value
    with pytest.raises(
        ContentionError, match=r"^contention some:Model: slowdown of job 1 and job 2: expected a number from 1 to 1000"
    ):
        made(wrong).slowdown(A, B)


@pytest.mark.parametrize(
    ("wrong", "ask", "text"),
    [
        ({"own": lambda *_: 0.0}, lambda model: model.own(A, 1, 1), "own slowdown of job 1: expected a number from 0.01 to 1000"),
        ({"knows": lambda job: job.nothing}, lambda model: model.knows(A), "knows of job 1: AttributeError"),
        ({"knows": lambda _: sys.exit(0)}, lambda model: model.knows(A), "knows of job 1: SystemExit: 0"),
        ({"beside": lambda *_: ([1.0], [False])}, lambda model: model.beside(A, Columns([B, C])), "beside: expected two arrays of 2"),
        ({"beside": lambda *_: 1}, lambda model: model.beside(A, Columns([B])), "beside: expected two arrays"),
        ({"beside": lambda *_: ([2.0, nan], [0, 0])}, lambda model: model.beside(A, Columns([B, C])), "beside of job 1 and job 3"),
    ],
)  # fmt: skip
def test_other_answers_are_checked(
    wrong: dict[str, Callable[..., object]], ask: Callable[[PairModel], object], text: str
) -> None:
    model = ByName()
    model.__dict__.update(wrong)
    with pytest.raises(ContentionError, match=text):
        ask(made(model))


def test_unknown_pairs_and_jobs() -> None:
    model: Any = ByName()
    model.slowdown = lambda _job, other: inf if other.name == "b" else 1.5
    assert made(model).beside(A, Columns([B, C])).slowdowns.tolist() == [inf, 1.5]
    model.knows = lambda job: job.name != "b"
    model.beside = lambda _job, _others: ([nan, 1.5], [False, False])  # any two of which one is unknown
    assert made(model).beside(A, Columns([B, C])).slowdowns.tolist()[1] == 1.5


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(ContentionError("some:Model", "it is tired")))
    assert (str(error), error.where) == ("contention some:Model: it is tired", "some:Model")


# ---------------------------------------------------------------- finding models


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nothing.of.this:Name", "contention nothing.of.this:Name: no module 'nothing' on Python's path"),
        ("math:none", "contention math:none: module 'math' ("),
        ("math:pi", "contention math:pi: expected a class, got 3.14"),
        (":x", "contention :x: expected MODULE:CLASS"),
        ("lomark", 'unknown contention model "lomark"; did you mean "lomarc"?'),
    ],
)
def test_missing_models_are_an_error(name: str, text: str) -> None:
    with pytest.raises(HardwareModelError) as raised:
        load_model(name, ("lomarc", "none"))
    assert str(raised.value).startswith(text)
    assert isinstance(raised.value, ContentionError) == (":" in name) != isinstance(raised.value, UnknownNameError)


def test_classes_that_are_not_models_are_refused() -> None:
    with pytest.raises(ContentionError, match=r"it has no method slowdown\(job, other\)"):
        CustomModel("some:Model", object).make_pairs(())
    with pytest.raises(ContentionError, match="some:Model: TypeError"):
        CustomModel("some:Model", ByName).make_pairs([("size", 3)])
    with pytest.raises(ContentionError, match="some:Model: SystemExit: 0"):
        CustomModel("some:Model", lambda: sys.exit(0)).make_pairs(())


# ---------------------------------------------------------------- jobs on a node


def test_excess_slowdowns_of_others_add_up() -> None:
    contention = PairContention(made(ByName()), {1: A, 2: B, 3: C})
    assert isinstance(contention, ContentionModel)
    assert contention.name == "some:Model"
    assert contention.penalties(NODE, [load(1)]) == [0.0]
    assert contention.penalties(NODE, [load(1), load(2)]) == [0.25, 0.5]
    assert contention.penalties(NODE, [load(2), load(3), load(1)]) == [1.5, 2.0, 1.25]
    assert contention.penalties(NODE, [load(1), load(4)]) == [0.0, 0.0]  # job 4 is unknown


def test_unknown_jobs_cost_nothing_and_unknown_pairs_are_an_error() -> None:
    model: Any = ByName()
    model.slowdown = lambda _job, other: inf if other.name == "b" else 1.5
    contention = PairContention(made(model), {1: A, 2: B, 3: C})
    with pytest.raises(ContentionError, match="slowdown of job 1 beside job 2: expected a finite number"):
        contention.penalties(NODE, [load(1), load(2)])
    model.knows = lambda job: job.name != "b"
    assert PairContention(made(model), {1: A, 2: B, 3: C}).penalties(NODE, [load(1), load(2), load(3)]) == [
        0.5,
        0.0,
        0.5,
    ]


JOBS = st.builds(
    Job,
    id=st.integers(1, 1000),
    usage=st.sampled_from([CPU, DISK, ("network", 100_000, 800_000, 100_000, 100_000), None]),
    self_slowdown=st.none() | st.tuples(st.integers(900_000, 1_400_000), st.integers(1_000_000, 1_700_000)),
)


@drawn(
    st.lists(JOBS, min_size=1, max_size=4, unique_by=lambda job: job.id), st.integers(0, 9), st.data(), few=12, many=100
)
def test_built_in_models_give_the_same_penalties_bit_by_bit(jobs: list[Job], seed: int, data: st.DataObject) -> None:
    loads = [load(job.id, 1 << place) for place, job in enumerate(jobs)]
    shuffled = data.draw(st.permutations(loads))
    lomarc, statistical = LomarcModel(pair_seed=seed, remainder=True), StatisticalModel(seed)
    facts = {job.id: job for job in jobs}
    usages = {job.id: job.usage for job in jobs if job.usage is not None}
    selves = {job.id: job.self_slowdown for job in jobs if job.self_slowdown is not None}
    for pairs, contention in (
        (LomarcPairs(lomarc), LomarcContention(lomarc, usages)),
        (StatisticalPairs(statistical), StatisticalContention(statistical, selves)),
    ):
        assert PairContention(pairs, facts).penalties(NODE, shuffled) == contention.penalties(NODE, shuffled)


@drawn(
    st.lists(JOBS, min_size=1, max_size=6, unique_by=lambda job: job.id),
    st.integers(0, 9),
    st.booleans(),
    few=30,
    many=100,
)
def test_arrays_agree_with_single_pairs(jobs: list[Job], seed: int, remainder: bool) -> None:
    job, *others = jobs
    for model in (
        LomarcPairs(LomarcModel(pair_seed=seed, remainder=remainder)),
        StatisticalPairs(StatisticalModel(seed)),
    ):
        beside = model.beside(job, Columns(others))
        plain = PairModel.beside(model, job, Columns(others))
        known = [model.knows(job) and model.knows(other) for other in others]
        for one, other in ((beside.slowdowns, plain.slowdowns), (beside.compete, plain.compete)):
            assert one[known].tolist() == other[known].tolist()
            assert one.dtype == other.dtype


# ---------------------------------------------------------------- seats


class SharedThreads:
    """Costs a quarter for each thread of the node's lower half, whoever holds it."""

    by_seat = True

    def __init__(self, answer: float | None = None) -> None:
        self.answer = answer

    def slowdown(self, _job: JobFacts, _other: JobFacts) -> float:
        return 1.0

    def slowdown_on(self, _job: JobFacts, mask: int, _other: JobFacts, other_mask: int) -> float:
        return 1.0 + 0.25 * (other_mask & 3).bit_count() if self.answer is None else self.answer


def test_a_model_may_tell_seats_apart() -> None:
    model = made(SharedThreads())
    assert model.by_seat
    assert not made(ByName()).by_seat
    jobs = {job.id: job for job in (A, B)}
    loads = [load(1, 0b0001), load(2, 0b1010)]
    assert PairContention(model, jobs).penalties(NODE, loads) == [0.25, 0.25]
    assert PairContention(model, jobs).penalties(NODE, [load(1, 0b0011), load(2, 0b1100)]) == [0.0, 0.5]
    assert made(ByName()).slowdown_on(A, ThreadMask(1), B, ThreadMask(2)) == 1.25
    with pytest.raises(ContentionError, match=r"slowdown_on of job 1 and job 2: .* got 0\.5"):
        made(SharedThreads(0.5)).slowdown_on(A, ThreadMask(1), B, ThreadMask(2))


def test_a_belief_may_give_unknown_pairs_a_slowdown() -> None:
    model = made(SharedThreads(inf))
    jobs = {job.id: job for job in (A, B)}
    loads = [load(1, 0b0001), load(2, 0b0010)]
    assert PairContention(model, jobs, 2.0).penalties(NODE, loads) == [1.0, 1.0]
    with pytest.raises(ContentionError, match="expected a finite number"):
        PairContention(model, jobs).penalties(NODE, loads)


def test_lomarc_says_which_resource_costs_a_pair_most() -> None:
    model = LomarcPairs(LomarcModel(remainder=True, good_share_ppm=1_000_000, paging_ppm=2_500_000))
    small = Job(3, usage=(*CPU[:4], 100_000))
    one, other = Job(1, usage=CPU), Job(2, usage=DISK)
    parts = dict(model.parts(one, other))
    c = model.model.c_ppm(1, "cpu", 2, "disk") / 1_000_000
    assert parts["cpu"] == pytest.approx((c - 1.0) * 0.3)
    assert (parts["network"], parts["disk"]) == (0.1, 0.2)
    assert 1.0 + sum(parts.values()) == pytest.approx(model.slowdown(one, other))  # paging included
    assert max(parts, key=parts.__getitem__) == "paging"
    assert dict(model.parts(small, other))["paging"] == 0.0
    assert model.parts(Job(4), other) == ()
