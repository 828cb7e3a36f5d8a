"""Groups: their evolution, formation, places and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from random import Random
from typing import Any

import pytest
from tests.plugin.policies.cases import NOW_US
from tests.plugin.policies.glomarc.glts_cases import MODEL, PPM, SECOND_US, job_of, nodes_of, play, spec_of, told
from tests.plugin.policies.harness import NO_CONTENTION
from tests.reference import glomarc
from tests.reference.glomarc import coscheduled, form_groups, preselect, u_gain

from cosched_emulator.scenario.planned_events import Scripted
from cosched_hwmodel.statistical import draw_self_slowdown
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.glomarc.formation import Found, Search, groups, select_candidates
from cosched_plugin.policies.glomarc.upkeep import Member, Slowdown, evolve, gain_alone
from cosched_plugin.policies.placement.spread import NodeHalves
from cosched_plugin.protocol.messages import CANCELLED, COMPLETED, JobSpec

ROUNDING_US = Fraction(1, 32)
ANY_GAIN = -1.0


def slowdown_of(random: Random, count: int, most: float = 1.4) -> dict[tuple[int, int], int]:
    """Draw the slowdown of each job beside each other one, in millionths."""
    return {
        (one, other): random.choice((PPM, 1_250_000, random.randint(PPM, round(most * PPM))))
        for one in range(count)
        for other in range(count)
        if one != other
    }


def as_function(ppm: dict[tuple[int, int], int]) -> Slowdown:
    return lambda job, other: ppm[job.id, other.id] / PPM


def sides_of(nodes: int = 64) -> NodeHalves:
    return NodeHalves(nodes_of(nodes))


class Case:
    """A primary job, candidates and their slowdowns, for the policy and for the reference."""

    def __init__(self, random: Random, candidates: int, *, alike: bool = False) -> None:
        sides = sides_of()
        self.ppm = slowdown_of(random, candidates + 1)
        self.slowdown = as_function(self.ppm)
        self.members: list[Member] = []
        self.references: list[glomarc.Member] = []
        for number in range(candidates + 1):
            size = random.choice((1, 2, 3, 4, 6, 8, 12, 16)) if number else random.choice((1, 4, 8, 16, 24))
            # Equal times of several jobs, whose order sorting must keep.
            seconds = random.choice((3600, 7200, 7200.5)) if alike else random.randint(601, 20_000)
            own = draw_self_slowdown(random.randint(1, 9), number)
            job = spec_of(number, size, seconds, own)
            footprint = sides.footprint(job, sides.most_shared(job))
            self.members.append(Member(job, job.estimate_us, footprint.factor, footprint.per_node, footprint.nodes))
            sno, scr = (Fraction(value, PPM) for value in own)
            # Of three processes the last has a node for itself; the slower node counts.
            alone = [Fraction(1)] if size % 2 else []
            factor = max([*alone, coscheduled(number, size, 1, sno, scr).factor]) if size > 1 else 1
            self.references.append(coscheduled(number, size, job.estimate_us, sno, scr)._replace(factor=factor))

    def cos(self, one: int, other: int) -> Fraction:
        return Fraction(self.ppm[one, other], PPM)

    def beside(self, member: Member) -> Member:
        own = self.members[0].job
        return member._replace(beside=self.slowdown(member.job, own), beside_it=self.slowdown(own, member.job))


def ids(members: Sequence[Member]) -> list[int]:
    return [member.job.id for member in members]


# ---------------------------------------------------------------- evolution


@pytest.mark.parametrize("seed", range(150))
def test_evolution_agrees_with_the_reference(seed: int) -> None:
    """Spans are those of the reference in whole microseconds, rounded up; the gain is formula 6."""
    random = Random(f"evolve {seed}")
    case = Case(random, random.randint(1, 6), alike=seed % 3 == 0)
    outcome = evolve(case.members[0], [case.beside(member) for member in case.members[1:]])
    exact = glomarc.evolve(case.references[0], case.references[1:], case.cos)
    assert len(outcome.spans_us) == len(case.members)
    for number, span_us in enumerate(outcome.spans_us):
        assert -ROUNDING_US <= span_us - exact.ends[number] < 1
    assert abs(outcome.together_us - exact.length) <= ROUNDING_US
    assert abs(outcome.gain - u_gain(case.references[0], case.references[1:], case.cos)) <= 1e-9


def test_evolution_by_hand() -> None:
    """Four nodes. Job 1 (4 processes, 200 s) slows the primary (8, 1000 s) to 1.5, job 2 (4, 400 s) to 1.2, at 1 and 1.25.

    Job 1 ends at 200 s, when the primary has done 133 1/3 of 1000. Job 2 ends at 500 s: by then it has done 133 1/3 + 250. It is alone
    for the last 616 2/3, until 1116 2/3. Work, in node time at one process a node: 8·383 1/3 + 4·200 + 4·400 = 5466 2/3, on 4 nodes
    for 500 s: 5466 2/3 / 2000 - 1.
    """
    primary = Member(spec_of(0, 8, 1000), 1000 * SECOND_US, 1.0, 2, 4)
    first = Member(spec_of(1, 4, 200), 200 * SECOND_US, 1.0, 2, 2, beside=1.0, beside_it=1.5)
    second = Member(spec_of(2, 4, 400), 400 * SECOND_US, 1.0, 2, 2, beside=1.25, beside_it=1.2)
    spans_us, together_us, gain = evolve(primary, [first, second])
    assert spans_us == (1_116_666_667, 200 * SECOND_US, 500 * SECOND_US)
    assert together_us == 500 * SECOND_US
    assert gain == pytest.approx(5466 / 2000 + 2 / 3 / 2000 - 1, abs=1e-12)
    # With less work the primary ends first, and job 2 continues alone, at its own pace.
    hurried = primary._replace(left_us=100 * SECOND_US)
    spans_us, together_us, _ = evolve(hurried, [first, second])
    assert (spans_us, together_us) == ((150_000_000, 200_000_000, 430_000_000), 150_000_000)


def test_a_job_alone_gains_by_its_processes() -> None:
    assert gain_alone(4, 1.25) == pytest.approx(2.2)
    assert gain_alone(1, 1.0) == 0.0
    assert gain_alone(4, 1.25) == pytest.approx(float(glomarc.space_gain(4, 1.25)))


# ---------------------------------------------------------------- formation


@pytest.mark.parametrize("seed", range(60))
def test_preselection_agrees_with_the_reference(seed: int) -> None:
    """The reference's candidates, without those larger than any window; a slowdown at the threshold is accepted."""
    random = Random(f"preselect {seed}")
    case = Case(random, 25, alike=seed % 2 == 0)
    search = Search(max_slowdown=random.choice((1.1, 1.25)), longer_s=random.choice((0.0, 3000.0, 100_000.0)))
    found = select_candidates(case.members[0], case.members[1:], search, case.slowdown, sides_of())
    exact = preselect(
        case.references[0], case.references[1:], case.cos, search.max_slowdown, round(search.longer_s * SECOND_US)
    )
    room = case.references[0].nodes * Fraction(9, 8)
    assert ids(found) == [one.id for one in exact if one.nodes <= room]
    for member in found:
        assert member == case.beside(case.members[member.job.id])


VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "glts": ({}, {}),
    "fbo": ({"blocks": "first"}, {"first_block_only": True}),
    "ns": ({"sort": False}, {"sort": False}),
    "both": ({"blocks": "first", "sort": False}, {"first_block_only": True, "sort": False}),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_groups_are_formed_as_in_the_reference(variant: str) -> None:
    """All groups, best first, that steps 1 to 5 leave; those of the reference without the candidates that fit no window."""
    seen: set[int] = set()
    several = 0
    for seed in range(60):
        random = Random(f"form {seed}")
        case = Case(random, random.randint(1, 30), alike=seed % 4 == 0)
        block = random.choice((3, 6, 16))
        changes, changed = VARIANTS[variant]
        search = Search(min_gain=ANY_GAIN, block=block, fairness_tries="one", **changes)
        primary = case.members[0]
        chosen = select_candidates(primary, case.members[1:], search, case.slowdown, sides_of())
        room = case.references[0].nodes * Fraction(9, 8)
        small = [one for one in case.references[1:] if one.nodes <= room]
        found = [
            (ids(group.matched), group.gain) for group in groups(primary, chosen, search, lambda _one, _others: True)
        ]
        exact = form_groups(
            case.references[0], small, case.cos, block_size=block, matched_longer=3000 * SECOND_US, **changed
        )
        once = [
            one for index, one in enumerate(found) if one not in found[:index]
        ]  # step 5 may reduce two groups to the same one
        assert [one for one, _ in once] == [list(group.matched) for group in exact]
        assert [gain for _, gain in once] == pytest.approx([float(group.gain) for group in exact], abs=1e-9)
        seen |= {len(one) for one, _ in once}
        several += len(once) > 1
    assert len(seen) > 3
    assert several > 5 or "blocks" in VARIANTS[variant][0]


@pytest.mark.parametrize("seed", range(30))
def test_the_best_pair_is_from_the_first_block(seed: int) -> None:
    """With one matched job at most, it is the one of the first block with which the gain is best."""
    random = Random(f"pair {seed}")
    case = Case(random, 20)
    search = Search(min_gain=ANY_GAIN, most=1)
    primary = case.members[0]
    chosen = select_candidates(primary, case.members[1:], search, case.slowdown, sides_of())
    found = [*groups(primary, chosen, search, lambda _one, _others: True)]
    gains = [(u_gain(case.references[0], [case.references[member.job.id]], case.cos)) for member in chosen[:16]]
    if not chosen:
        assert found == []
        return
    assert all(len(group.matched) == 1 for group in found)
    assert found[0].gain == pytest.approx(float(max(gains)), abs=1e-9)
    first = Search(min_gain=0.45, most=1, choice="first", blocks="none")
    shown = [*groups(primary, chosen, first, lambda _one, _others: True)]
    all_gains = [u_gain(case.references[0], [case.references[member.job.id]], case.cos) for member in chosen]
    good = [member.job.id for member, gain in zip(chosen, all_gains, strict=True) if gain >= Fraction(45, 100)]
    assert [ids(group.matched) for group in shown] == [[number] for number in good]


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_windows_of_the_first_block_are_tried_where_that_is_wanted(variant: str) -> None:
    """First the groups that are tried otherwise, then the reference's other windows of the first block after step 5, each once."""
    more = 0
    for seed in range(40):
        random = Random(f"all {seed}")
        case = Case(random, random.randint(1, 30), alike=seed % 4 == 0)
        own = case.references[0]
        changes, changed = VARIANTS[variant]
        search = Search(min_gain=ANY_GAIN, block=6, fairness_tries="all", **changes)
        chosen = select_candidates(case.members[0], case.members[1:], search, case.slowdown, sides_of())
        found = [*groups(case.members[0], chosen, search, lambda _one, _others: True)]
        few = [*groups(case.members[0], chosen, replace(search, fairness_tries="one"), lambda _one, _others: True)]
        first = glomarc.blocks_of([case.references[one.job.id] for one in chosen], 6, changed.get("sort", True))[:1]
        windows = [glomarc.purify(own, shown, case.cos) for block in first for shown in glomarc.windows(own, block)]
        expected = {frozenset(one.id for one in window) for window in windows}
        expected |= {frozenset(ids(group.matched)) for group in few}
        assert {frozenset(ids(group.matched)) for group in found} == expected
        assert len(found) - len(few) == len(expected - {frozenset(ids(group.matched)) for group in few})
        assert found[: len(few)] == few
        rest = found[len(few) :]
        assert all(group.falls_back for group in rest)
        assert [group.gain for group in rest] == sorted([group.gain for group in rest], reverse=True)
        more += len(found) > len(few)
    assert more > 20


def test_groups_may_be_ranked_by_the_node_time_that_they_save() -> None:
    """The best pair saves most, work less what is held, larger groups come in that order; what one must gain stays a share."""
    different = 0
    for seed in range(40):
        case = Case(Random(f"saved {seed}"), 30, alike=seed % 4 == 0)
        pairs = Search(min_gain=0.3, most=1, fairness_tries="one", blocks="first")
        chosen = select_candidates(case.members[0], case.members[1:], pairs, case.slowdown, sides_of())

        def found(search: Search, case: Case = case, chosen: Sequence[Member] = chosen) -> list[Found]:
            return [*groups(case.members[0], chosen, search, lambda _one, _others: True)]

        relative, absolute = found(pairs), found(replace(pairs, absolute=True))
        assert len(relative) == len(absolute) <= 1
        for share, time in zip(relative, absolute, strict=True):
            assert share.gain >= time.gain >= 0.3
            assert time.saved_us >= share.saved_us
            assert time.saved_us == pytest.approx(time.gain * time.outcome.together_us * time.nodes)
            different += ids(share.matched) != ids(time.matched)
        saved = [group.saved_us for group in found(Search(min_gain=0.3, block=6, fairness_tries="one", absolute=True))]
        assert saved == sorted(saved, reverse=True)
    assert different > 3


@pytest.mark.parametrize("seed", range(30))
def test_a_required_job_is_in_every_group(seed: int) -> None:
    """Case 3: it is in every group, also after step 5, and the best window with it is among the groups."""
    random = Random(f"must {seed}")
    case = Case(random, 20)
    search = Search(min_gain=ANY_GAIN)
    chosen = select_candidates(case.members[0], case.members[1:], search, case.slowdown, sides_of())
    if not chosen:
        return
    must = chosen[0].job.id
    for group in groups(case.members[0], chosen, search, lambda _one, _others: True, must):
        assert must in ids(group.matched)
        assert sum(member.nodes for member in group.matched) <= case.members[0].nodes * 1.125


# ---------------------------------------------------------------- the end

OPEN: dict[str, Any] = {
    "preset": "glts",
    "slices": "none",
    "fairness": "none",
    "matching": {"min_gain": -1, "max_slowdown": 3, "low_load": "none", "longer_s": 1_000_000, "short_s": 10},
}
OWN = (1_050_000, 1_500_000)


def cos(job: int, other: int) -> Fraction:
    return Fraction(round(MODEL.coscheduling(job, other) * PPM), PPM)


def as_reference(specs: dict[int, JobSpec], left: dict[int, Fraction]) -> dict[int, glomarc.Member]:
    sno, scr = (Fraction(value, PPM) for value in OWN)
    return {number: coscheduled(number, specs[number].processes, work, sno, scr) for number, work in left.items()}


def left_after(members: dict[int, glomarc.Member], span_us: int) -> dict[int, Fraction]:
    """Return the remaining work of a group of job 1 and others after a time in which no job ends."""
    own, *others = members.values()
    slowest = max(cos(1, other.id) for other in others)
    left = {1: Fraction(own.left) - span_us / (Fraction(own.factor) * slowest)}
    left |= {other.id: Fraction(other.left) - span_us / (Fraction(other.factor) * cos(other.id, 1)) for other in others}
    assert min(left.values()) > 0
    return left


@pytest.mark.parametrize(
    ("seconds", "gone"),
    [
        ((1000, 3000, 2500), None),  # the primary ends first
        ((5000, 1000, 2000), None),  # all matched ones end first, one after the other
        ((3000, 1000, 9000), None),
        ((5000, 3000, 2500), 2),
        ((5000, 3000, 2500), 3),
        ((5000, 3000, 2500), 1),
    ],
)
def test_jobs_of_a_group_end_as_in_the_reference(seconds: tuple[int, int, int], gone: int | None) -> None:
    """Job 1 on two nodes, one matched job on each; ``gone`` is cancelled after 600 s. Ends are the reference's."""
    sizes = {1: 4, 2: 2, 3: 2}
    jobs = [job_of(spec_of(number, sizes[number], time, OWN, submit_us=0)) for number, time in enumerate(seconds, 1)]
    specs = {job.spec.id: job.spec for job in jobs}
    at_us = 600 * SECOND_US
    script = [] if gone is None else [Scripted(at_us, "cancel", gone)]
    noted: dict[int, set[int]] = {}

    def look(core: Any, now_us: int, _events: object, _actions: object) -> None:
        noted[now_us] = {job for job in core.view.running if core.view.note(job, "group") is not None}

    played = play(OPEN, jobs, nodes_of(2), script=script, restart=True, look=look)
    (group,) = played.groups()
    assert (group["primary"], sorted(group["matched"]), group["running"]) == (1, [2, 3], [])
    members = as_reference(specs, {job.spec.id: Fraction(job.run_us) for job in jobs})
    offset_us = 0
    if gone is not None:
        left = left_after(members, at_us)
        del left[gone]
        members = as_reference(specs, left)
        offset_us = at_us
    if 1 in members:
        ends = glomarc.evolve(members[1], [one for number, one in members.items() if number != 1], cos).ends
    else:  # the matched job is alone
        ends = {number: Fraction(one.left) * Fraction(one.factor) for number, one in members.items()}
    for number, record in played.records.items():
        assert record.state == (CANCELLED if number == gone else COMPLETED)
        if number != gone:
            assert record.end_us == pytest.approx(offset_us + ceil(ends[number]), abs=2)
            assert record.end_us == pytest.approx(record.estimate_us, abs=2)  # the last expected end
    # The group is remembered as long as its primary and a matched job are there.
    over_us = min(played.records[1].end_us or 0, max(played.records[number].end_us or 0 for number in (2, 3)))
    for now_us, known in noted.items():
        there = {number for number, record in played.records.items() if (record.end_us or 0) > now_us}
        assert known == (there if now_us < over_us else set())
    played.judge(ended_early={} if gone is None else {gone: CANCELLED}, class_bounds_us=None)


def test_an_unknown_job_stays_alone() -> None:
    """Without a belief about contention no pair is known, and no group is formed."""
    jobs = [job_of(spec_of(number, 4, 4000, (1_000_000, 1_500_000), submit_us=0)) for number in (1, 2)]
    believed = play(OPEN, jobs, nodes_of(2))
    assert len(believed.groups()) == 1
    assert {record["no_search"] for record in decided_without_belief(jobs)} == {"no-belief"}


def decided_without_belief(jobs: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the starts of jobs at a site without a belief about pairs."""
    welcome = told(nodes_of(2), [job.spec for job in jobs])._replace(belief=NO_CONTENTION)
    trace: list[dict[str, Any]] = []
    core = SchedulerCore(compose(OPEN), welcome, trace=trace.append)
    core.handle(NOW_US, ())
    return [record for record in trace if record["kind"] == "start"]


@pytest.mark.parametrize(
    ("load", "sizes", "alone"), [("all", (2, 4), True), ("all", (2, 5), False), ("none", (2, 2), False)]
)
def test_under_low_load_no_groups_are_formed(load: str, sizes: tuple[int, int], *, alone: bool) -> None:
    """Six nodes: if they can hold all jobs with one process a node, every job gets its nodes like that (section 4.3)."""
    own = (1_000_000, 1_500_000)
    jobs = [job_of(spec_of(number, size, 4000, own, submit_us=0)) for number, size in enumerate(sizes, 1)]
    table = {**OPEN, "matching": {**OPEN["matching"], "low_load": load}}
    played = play(table, jobs, nodes_of(6))
    runs = [record.intervals[0].runs for record in played.records.values()]
    assert (max(run[3] for one in runs for run in one) == 1) == alone
    assert bool(played.groups()) == (not alone)
