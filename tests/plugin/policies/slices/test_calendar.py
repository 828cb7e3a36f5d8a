"""The calendar of slices, compared with the reference, which steps through it slice by slice."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from tests.plugin.policies.glomarc.glts_cases import SECOND_US, nodes_of, spec_of, told, view_of
from tests.reference.slices import Calendar, Class, progress_between, slices_of, wall_of

from cosched_plugin.api import SetNote
from cosched_plugin.common.errors import UsageError
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.slices import (
    CLASSES,
    LONG,
    MEDIUM,
    SHORT,
    Classes,
    Lengths,
    Slice,
    present_slice,
    slice_at,
)
from cosched_plugin.protocol.messages import Note

HOUR_US = 3600 * SECOND_US
KINDS = (SHORT, MEDIUM, LONG)
OF: tuple[Class, Class, Class] = ("short", "medium", "long")


class Walk:
    """The slices of some intervals, each with or without a short one, in the order of the policy."""

    def __init__(self, random: Random, intervals: int) -> None:
        percent = random.randint(5, 95)
        interval_us = random.choice((60, 1000, 3600)) * SECOND_US
        short_us = random.randint(1, interval_us // 2)
        least_us = min(short_us, round((interval_us - short_us) * min(percent, 100 - percent) / 100))
        switch_us = random.choice((0, random.randrange(least_us)))
        self.lengths = Lengths(interval_us, short_us, percent / 100, switch_us)
        self.calendar = Calendar(interval_us, short_us, percent, switch_us)
        self.has_short = [random.random() < 0.5 for _ in range(intervals)]
        first = slice_at(0, (0, 0, 0), self.lengths)
        if self.has_short[0]:
            first = first._replace(short=True, kind=SHORT)
        self.slices = [first]
        for _ in range(3 * intervals):
            number = self.slices[-1].begin_us // interval_us + 1
            if number == intervals and self.slices[-1].kind == LONG:
                break
            following = self.slices[-1].successor(self.lengths, short=number < intervals and self.has_short[number])
            self.slices.append(following)

    def told_of(self, number: int) -> bool:
        return self.has_short[number]


@pytest.mark.parametrize("seed", range(25))
def test_slices_follow_one_another(seed: int) -> None:
    walk = Walk(Random(f"follow {seed}"), 6)
    exact = [one for number in range(6) for one in slices_of(number, walk.has_short[number], walk.calendar)]
    assert [CLASSES[one.kind] for one in walk.slices] == [one.of for one in exact]
    for one, reference in zip(walk.slices, exact, strict=True):
        assert abs(one.start_us(walk.lengths) - reference.start) <= 1  # the lengths of slices are whole microseconds
        assert abs(one.end_us(walk.lengths) - reference.end) <= 1
        assert abs(one.ready_us(walk.lengths) - reference.usable) <= 1
    for one, after in pairwise(walk.slices):
        assert one.end_us(walk.lengths) == after.start_us(walk.lengths)


@pytest.mark.parametrize("seed", range(25))
def test_clocks_count_the_time_of_progress(seed: int) -> None:
    random = Random(f"clock {seed}")
    walk = Walk(random, 6)
    for one in walk.slices:
        start_us, end_us = one.start_us(walk.lengths), one.end_us(walk.lengths)
        for now_us in (start_us, end_us, random.randint(start_us, end_us), min(one.ready_us(walk.lengths), end_us)):
            for kind in KINDS:
                exact = progress_between(
                    OF[kind], 0, min(now_us, 6 * walk.lengths.interval_us - 1), walk.told_of, walk.calendar
                )
                assert abs(one.clock_us(kind, now_us, walk.lengths) - exact) <= 2 * len(walk.slices)


@pytest.mark.parametrize("seed", range(25))
def test_wall_times_of_clocks_agree_with_the_reference(seed: int) -> None:
    """Future intervals count as without short slices; only short jobs expect further short slices."""
    random = Random(f"wall {seed}")
    walk = Walk(random, 4)
    later = 0
    for one in walk.slices:
        start_us, end_us = one.start_us(walk.lengths), one.end_us(walk.lengths)
        now_us = random.randint(start_us, end_us - 1)
        present = one.begin_us // walk.lengths.interval_us
        for kind in KINDS:
            needed_us = random.choice((0, 1, SECOND_US, random.randrange(3 * walk.lengths.interval_us)))

            def pattern(number: int, kind: int = kind, present: int = present) -> bool:
                return walk.has_short[number] if number <= present else kind == SHORT

            exact = wall_of(OF[kind], needed_us, now_us, pattern, walk.calendar)
            clock_us = one.clock_us(kind, now_us, walk.lengths)
            # The lengths of slices are whole microseconds, so a few microseconds of the needed time may fall into the next one.
            got = one.wall_us(kind, clock_us + needed_us, now_us, walk.lengths)
            nearby = [wall_of(OF[kind], max(0, needed_us + by_us), now_us, pattern, walk.calendar) for by_us in (-8, 8)]
            assert nearby[0] - 8 <= got <= nearby[1] + 8
            later += exact > end_us
    assert later > 5


def test_wall_times_of_the_papers_calendar() -> None:
    """The paper's: 0-600 s short, -1500 s medium, -3600 s long, where there are short jobs; 1080 and 2520 s where not; 60 s lost."""
    lengths = Lengths(HOUR_US, 600 * SECOND_US, 0.3, 60 * SECOND_US)
    short = Slice(0, True, SHORT, (0, 0, 0))
    at_us = 100 * SECOND_US

    def wall_s(kind: int, needed_s: float, one: Slice = short, now_us: int = at_us) -> float:
        clock_us = one.clock_us(kind, now_us, lengths)
        return one.wall_us(kind, clock_us + round(needed_s * SECOND_US), now_us, lengths) / SECOND_US

    assert short.clock_us(SHORT, at_us, lengths) == 40 * SECOND_US
    assert [wall_s(SHORT, needed) for needed in (0, 1, 500, 500.5, 1040, 1041)] == [
        100, 101, 600, 3660.5, 4200, 7261,
    ]  # fmt: skip
    assert [wall_s(MEDIUM, needed) for needed in (0, 1, 840, 841, 840 + 1020, 840 + 1021)] == [
        100, 661, 1500, 3661, 4680, 7261,
    ]  # fmt: skip
    assert [wall_s(LONG, needed) for needed in (1, 2040, 2041, 2040 + 2460, 2040 + 2461)] == [
        1561, 3600, 4741, 7200, 8341,
    ]  # fmt: skip
    medium = Slice(HOUR_US, False, MEDIUM, (0, 0, 0))
    now_us = HOUR_US + 30 * SECOND_US  # while the nodes switch to another class
    assert medium.clock_us(MEDIUM, now_us, lengths) == 0
    assert [wall_s(MEDIUM, needed, medium, now_us) for needed in (0, 1, 1020, 1021)] == [3630, 3661, 4680, 7261]
    assert [wall_s(SHORT, needed, medium, now_us) for needed in (1, 540, 541)] == [7261, 7800, 10861]


def test_on_an_empty_machine_the_slice_follows_from_the_time() -> None:
    """The slice is that of an interval without a short one."""
    lengths = Lengths(HOUR_US, 600 * SECOND_US, 0.3, 60 * SECOND_US)
    for second, kind in ((0, MEDIUM), (1079.999999, MEDIUM), (1080, LONG), (3599, LONG)):
        found = slice_at(5 * HOUR_US + round(second * SECOND_US), (1, 2, 3), lengths)
        assert found == Slice(5 * HOUR_US, False, kind, (1, 2, 3))
        clock_us = found.clock_us(kind, 5 * HOUR_US + round(second * SECOND_US), lengths)
        assert clock_us >= (1, 2, 3)[kind]


def test_the_slice_is_kept_in_a_note() -> None:
    one = Slice(7 * HOUR_US, True, MEDIUM, (3, 0, 1 << 60))
    note = one.note()
    assert isinstance(note, SetNote)
    assert (note.job_id, note.key) == (None, "slices")
    for notes, found in (
        ([], None),
        ([Note(None, note.key, note.value)], one),
        ([Note(None, note.key, (7, True, 3, 0, 0, 0))], None),
        ([Note(None, note.key, (7, True, 1, 0, 0))], None),
        ([Note(None, note.key, "monday")], None),
    ):
        assert present_slice(view_of(told(nodes_of(1), (), notes=notes))) == found


# ---------------------------------------------------------------- lengths


@pytest.mark.parametrize(
    ("settings", "resume_s", "kind"),
    [
        ({}, 600.0, "short"),
        ({"short_slice_s": 60.0}, 60.0, "short"),
        ({"medium_share": 0.02}, 60.0, "medium"),
        ({"medium_share": 0.98}, 60.0, "long"),
    ],
)
def test_slices_that_leave_no_time_are_refused(settings: dict[str, float], resume_s: float, kind: str) -> None:
    with pytest.raises(UsageError) as caught:
        Classes(**settings).lengths(round(resume_s * SECOND_US))
    assert str(caught.value) == (
        f"policy.slices: a slice of {kind} jobs is not longer than the {resume_s:g} s that jobs take to come back from disk"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"interval_s": 600.0}, "policy.slices.short_slice_s: expected less than interval_s, 600, got 600"),
        ({"interval_s": 500.0}, "policy.slices.short_slice_s: expected less than interval_s, 500, got 600"),
        ({"medium_s": 599.0}, "policy.slices.short_s: expected at most medium_s, 599, got 600"),
    ],
)
def test_lengths_that_contradict_one_another_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Classes(**settings)
    assert str(caught.value) == message
    with pytest.raises(UsageError) as caught:
        compose({"preset": "glts", "slices": settings})
    assert str(caught.value) == message


def test_slices_that_leave_a_microsecond_are_accepted() -> None:
    Classes(short_slice_s=60.000001).lengths(60 * SECOND_US)
    Classes().lengths(0)


def test_too_short_slices_are_an_error_at_the_first_batch() -> None:
    table = {"preset": "ssp", "slices": {"name": "classes", "short_slice_s": 60}}
    core = SchedulerCore(compose(table), told(nodes_of(2), [spec_of(1, 1, 100)]))
    with pytest.raises(UsageError, match=r"policy\.slices: a slice of short jobs is not longer than the 60 s"):
        core.handle(200, ())


@pytest.mark.parametrize(
    ("seconds", "kind"), [(1, SHORT), (600, SHORT), (600.000001, MEDIUM), (10_800, MEDIUM), (10_800.000001, LONG)]
)
def test_classes_by_estimate(seconds: float, kind: int) -> None:
    slices = Classes()
    job = spec_of(1, 1, seconds)
    assert slices.kind_of(job) == kind
    above_us, most_us = slices.range_us(kind)
    assert above_us < job.estimate_us <= most_us


def test_bounds_of_classes_are_parameters() -> None:
    slices = Classes(short_s=10, medium_s=20)
    assert [slices.kind_of(spec_of(1, 1, seconds)) for seconds in (10, 11, 20, 21)] == [SHORT, MEDIUM, MEDIUM, LONG]
