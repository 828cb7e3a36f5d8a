"""Fairness: expected responses at submission, and groups that would delay a job too much, compared with the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from tests.plugin.policies.cases import NOW_US
from tests.plugin.policies.glomarc.glts_cases import PPM, SECOND_US, draw_jobs, nodes_of, play, spec_of, told, view_of
from tests.reference.glomarc import Waiting, nodes_for, ppn, run_factor
from tests.reference.glomarc import forecast as exact_forecast
from tests.reference.slices import Calendar, wall_of
from tests.runs import runs_on

from cosched_plugin import api
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.work import Price, Work
from cosched_plugin.parts.kinds import Context
from cosched_plugin.policies import slack as fairness
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.placement.spread import Spread
from cosched_plugin.policies.slack import Slack, delay_of, expected_ends, expected_response_us
from cosched_plugin.policies.slices import CLASSES, Classes, present_slice
from cosched_plugin.protocol.messages import Note, RunningJob, SetNote

NODES = 6
SLICES = Classes()


def span_us(job: api.JobSpec, per_node: int) -> int:
    """Return the reference's duration of a job in whole microseconds, rounded up."""
    sno, scr = (Fraction(value, PPM) for value in job.self_slowdown or (PPM, PPM))
    full, rest = divmod(job.processes, per_node)
    counts = {per_node if full else rest, rest or per_node}
    return -int(-job.estimate_us * max(run_factor(count, sno, scr) for count in counts) // 1)


def waiting_of(job: api.JobSpec, nodes: int) -> Waiting | None:
    """Return a job alone on its nodes; None if the machine does not hold it."""
    sno, scr = (Fraction(value, PPM) for value in job.self_slowdown or (PPM, PPM))
    try:
        per_node = ppn(job.processes, sno, scr, nodes=nodes)
    except ValueError:
        return None
    return Waiting(job.id, nodes_for(job.processes, per_node), span_us(job, per_node))


def reference_ends(jobs: Sequence[api.JobSpec], view: api.View, stays: Sequence[api.Occupancy] = ()) -> dict[int, int]:
    """Return the reference's ends of pending jobs, in the view's time."""
    assert isinstance(view, api.WholeNodesView)
    now_us, nodes = view.now_us, view.machine.nodes
    running = [
        (max(there.end_us, now_us + 1), sorted({node for run in there.runs for node in range(run[0], run[0] + run[1])}))
        for there in view.running.values()
    ]
    running += [(stay.end_us, [*api.bits_of(stay.nodes)]) for stay in stays]
    held = {node for _, there in running for node in there}
    free = set(api.bits_of(view.free_nodes))
    closed = [node for node in range(nodes) if node not in held and node not in free]
    if closed:
        running.append((now_us + 1, closed))
    waiting = [one for job in jobs if (one := waiting_of(job, nodes)) is not None]
    return {job: int(plan.end) for job, plan in exact_forecast(nodes, now_us, running, waiting).items()}


class Witness:
    """Compares every forecast and every decision of the fairness check with the reference."""

    def __init__(self, *, sliced: bool) -> None:
        self.sliced = sliced
        self.seen: Counter[str] = Counter()

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        original = fairness.expected_ends
        is_fair = fairness._FairGate._is_fair
        prepare = fairness._FairMatching.prepare

        def watched_forecast(
            jobs: Sequence[api.JobSpec], view: api.View, spread: Spread, stays: Sequence[api.Occupancy] = ()
        ) -> Iterator[tuple[int, int]]:
            found = dict(original(jobs, view, spread, stays))
            assert found == reference_ends(jobs, view, stays)
            self.seen["forecasts"] += 1
            return iter(found.items())

        def watched_is_fair(gate: Any, seat: api.Seat) -> bool:
            verdict = is_fair(gate, seat)
            delayed = self.delayed(gate._jobs, gate._view, seat)
            assert verdict == (not delayed), f"{delayed} would be delayed too much by {seat.job_ids}"
            self.seen["fair" if verdict else "unfair"] += 1
            return verdict

        def watched_prepare(matching: Any, context: Context) -> Iterator[Any]:
            view = context.view
            for action in prepare(matching, context):
                if isinstance(action, SetNote) and action.key == fairness.NOTE:
                    job = next(job for job in view.queue if job.id == action.job_id)
                    response_us = self.wall_us(reference_ends(view.queue, view)[job.id], view, job) - job.submit_us
                    assert action.value == round(response_us * 0.75)
                    self.seen["expected"] += 1
                yield action

        monkeypatch.setattr(fairness, "expected_ends", watched_forecast)
        monkeypatch.setattr(fairness._FairGate, "_is_fair", watched_is_fair)
        monkeypatch.setattr(fairness._FairMatching, "prepare", watched_prepare)

    def delayed(self, jobs: Sequence[api.JobSpec], view: api.View, seat: api.Seat) -> list[int]:
        """Return the other jobs that the seat delays, beyond 1.5 times their expected response."""
        own = {stay.job_id for stay in seat.occupancies}
        without = reference_ends(jobs, view)
        without |= {job: max(there.end_us, view.now_us + 1) for job, there in view.running.items()}
        ends_us = reference_ends([job for job in jobs if job.id not in own], view, seat.occupancies)
        specs = {job.id: job for job in jobs} | {job: there.job for job, there in view.running.items()}
        late = []
        for number, end_us in ends_us.items():
            expected_us = view.note(number, "response")
            if number not in without or not isinstance(expected_us, int):
                continue
            response_us, without_us = (
                self.wall_us(at_us, view, specs[number]) - specs[number].submit_us
                for at_us in (end_us, without[number])
            )
            if response_us > without_us and response_us > Fraction(3, 2) * expected_us:
                late.append(number)
        return late

    def wall_us(self, at_us: int, view: api.View, job: api.JobSpec) -> int:
        """Return the wall time of an instant of the class's time, by the reference's calendar; only short jobs cause short slices."""
        if not self.sliced:
            return at_us
        present = present_slice(view)
        assert present is not None
        calendar = Calendar(3600 * SECOND_US, 600 * SECOND_US, 30, view.resume_us)
        number, kind = present.begin_us // calendar.interval, SLICES.kind_of(job)
        exact = wall_of(
            CLASSES[kind],
            max(0, at_us - view.now_us),
            view._state.now_us,
            lambda interval: present.short if interval <= number else kind == 0,
            calendar,
        )
        return int(exact)


@pytest.mark.parametrize(
    ("policy", "slices", "tries"),
    [
        ("glts", "none", "all"),
        ("glts", "classes", "one"),
        pytest.param("cstws", "none", "all", marks=pytest.mark.slow),
        ("glts-nh", "classes", "all"),
    ],
)
def test_fairness_checks_agree_with_the_reference(
    policy: str, slices: str, tries: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every expected response, forecast and decision is that of the reference; refused groups do delay a job too much."""
    witness = Witness(sliced=slices == "classes")
    witness.install(monkeypatch)
    for seed in range(2):
        random = Random(f"fair {seed}")
        jobs = draw_jobs(random, 30, NODES, gap_s=300, over=seed % 2 == 1)
        table = {"preset": policy, "slices": slices, "matching": {"fairness_tries": tries}}
        play(table, jobs, nodes_of(NODES, swap_mb=1_000_000))
    assert witness.seen["expected"] == 60
    assert witness.seen["fair"] > 5
    assert witness.seen["unfair"] > 0


# ---------------------------------------------------------------- by hand


TABLE: dict[str, Any] = {
    "preset": "glts",
    "slices": "none",
    "matching": {"min_gain": -1, "max_slowdown": 3, "low_load": "none"},
}
HELD: dict[str, Any] = {"name": "slack", "members": True}
OWN = (1_000_000, 1_500_000)  # two processes on a node, and no more


def decided(
    waiting: Sequence[api.JobSpec], notes: Sequence[Note] = (), **table: Any
) -> tuple[dict[int, int], set[int]]:
    """Return the expected response of each job, and the started jobs, on two nodes."""
    core = SchedulerCore(compose({**TABLE, **table}), told(nodes_of(2), waiting, notes=notes))
    actions = core.handle(NOW_US, ())
    expected = {
        action.job_id: action.value
        for action in actions
        if isinstance(action, SetNote) and action.key == "response" and isinstance(action.value, int)
    }
    return {job or 0: value for job, value in expected.items()}, set(core.view.running)


def test_responses_are_expected_at_submission() -> None:
    """One after the other on both nodes, the responses are 1000, 3000 and 6000 s; three quarters of that are expected."""
    jobs = [spec_of(number, 4, 1000 * number, OWN, limit_us=None) for number in (1, 2, 3)]
    expected, _ = decided(jobs)
    assert expected == {1: 750 * SECOND_US, 2: 2250 * SECOND_US, 3: 4500 * SECOND_US}
    expected, _ = decided(jobs, fairness={"name": "slack", "adjust": 1.0})
    assert expected == {1: 1000 * SECOND_US, 2: 3000 * SECOND_US, 3: 6000 * SECOND_US}
    # An expected response is kept; for a later job the notes of the others do not matter.
    expected, _ = decided(jobs, [Note(1, "response", 5), Note(2, "response", 6)])
    assert expected == {3: 4500 * SECOND_US}


def test_no_expectations_without_fairness() -> None:
    assert decided([spec_of(1, 4, 1000, OWN)], fairness="none")[0] == {}


@pytest.mark.parametrize(("factor", "adjust", "together"), [(0.5, 1.0, False), (1.0, 0.5, False), (3.0, 1.0, True)])
def test_slack_is_a_factor_of_the_expected_response(factor: float, adjust: float, *, together: bool) -> None:
    """Co-location ends a job later: beyond half of its expected response in any case, but never beyond three times that."""
    jobs = [spec_of(number, 4, 4000, OWN) for number in (1, 2)]
    _, started = decided(jobs, fairness={**HELD, "factor": factor, "adjust": adjust})
    assert (started == {1, 2}) == together
    assert 1 in started


@pytest.mark.parametrize("members", [True, False])
def test_the_jobs_of_a_group_may_delay_each_other_unless_members_are_held_to_the_limit(*, members: bool) -> None:
    """Beside job 2, job 1 would end after 4163 s, beyond its 4100."""
    jobs = [spec_of(number, 4, 4000, OWN) for number in (1, 2)]
    notes = [Note(1, "response", round(4100 * SECOND_US / 1.5))]
    assert decided(jobs, notes, fairness=HELD if members else "slack")[1] == ({1} if members else {1, 2})


@pytest.mark.parametrize("choice", [{"choice": "best"}, {"choice": "first", "blocks": "none"}])
def test_a_refused_window_is_followed_by_others_only_where_all_are_tried(
    choice: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With job 2, the first and best partner, job 1 would end after 4163 s, beyond its 4100; with job 3 after 4007 s.

    Both the best and the first suitable window are that of job 2. Each try is paid for: the nodes of a group, and simulations
    of the three pending jobs, twice for the first one.
    """
    paid: list[tuple[Price, tuple[int, ...]]] = []

    def pay(_work: Work, price: Price, *counts: int) -> bool:
        paid.append((price, counts))
        return True

    monkeypatch.setattr(Work, "pay", pay)
    monkeypatch.setattr(Work, "pay_in_full", pay)
    jobs = [spec_of(number, 4, seconds, OWN) for number, seconds in ((1, 4000), (2, 4000), (3, 700))]
    notes = [Note(1, "response", round(4100 * SECOND_US / 1.5))]

    def tried(tries: str) -> tuple[set[int], dict[str, Any]]:
        matching = {**TABLE["matching"], **choice, "fairness_tries": tries}
        trace: list[dict[str, Any]] = []
        table = {**TABLE, "fairness": HELD, "matching": matching, "budget": {"name": "counted", "units": 10**6}}
        paid.clear()
        core = SchedulerCore(compose(table), told(nodes_of(2), jobs, notes=notes), trace=trace.append)
        core.handle(NOW_US, ())
        (start,) = [record for record in trace if record["kind"] == "start" and record["job"] == 1]
        return set(core.view.running), start

    started, start = tried("one")
    assert started == {1}
    assert (start["unfair_to"], start["refused_groups"]) == (1, 1)
    assert "group" not in start
    started, start = tried("all")
    assert started == {1, 3}
    assert (start["unfair_to"], start["group"]["matched"], start["group"]["tried"]) == (1, [3], 2)
    assert "refused_groups" not in start
    tries = [found for found in paid if found[0] in (api.prices.GROUP_SEAT, api.prices.SIMULATION)]
    seat = (api.prices.GROUP_SEAT, ())
    assert tries[1:] == [
        seat,
        (api.prices.SIMULATION, (6,)),
        seat,
        (api.prices.SIMULATION, (3,)),
    ]  # tries[0]: expected responses


def test_jobs_that_are_late_anyway_block_no_group() -> None:
    """Job 3 is late already: a group of jobs 1 and 2 that does not delay it is fair."""
    jobs = [spec_of(number, 4, 4000, OWN) for number in (1, 2, 3)]
    notes = [Note(number, "response", response) for number, response in ((1, 1 << 50), (2, 1 << 50), (3, 1))]
    _, started = decided(jobs, notes)
    assert started == {1, 2}  # one after the other takes 8000 s, together at most 1.8 times 4000


def test_jobs_without_an_expected_response_do_not_count() -> None:
    view = view_of(told(nodes_of(2), [spec_of(1, 4, 100)], notes=[Note(1, "response", "soon")]))
    assert expected_response_us(1, view) is None
    assert expected_response_us(2, view) is None


@pytest.mark.parametrize(("notes", "delay"), [([], 1.25), ([Note(1, "response", 500 * SECOND_US)], 2.5)])
def test_delay_of_a_running_job_is_relative_to_its_expected_response(notes: list[Note], delay: float) -> None:
    """The ratio of its response to the expected one, or to its estimate; it started 250 s after its submission."""
    job = spec_of(1, 4, 1000, submit_us=NOW_US - 750 * SECOND_US)
    running = RunningJob(job, NOW_US - 500 * SECOND_US, runs_on((0, 2, 5, 2)), 1000 * SECOND_US, None)
    view = view_of(told(nodes_of(2), (), [running], notes))
    assert delay_of(view.running[1], view) == pytest.approx(delay)


def test_the_forecast_omits_jobs_that_never_fit() -> None:
    jobs = [spec_of(1, 9, 100), spec_of(2, 4, 100, OWN), spec_of(3, 1, 50)]
    view = view_of(told(nodes_of(2), jobs))
    assert dict(expected_ends(jobs, view, Spread())) == {2: NOW_US + 100 * SECOND_US, 3: NOW_US + 150 * SECOND_US}


def test_a_job_alone_on_its_nodes_is_fair() -> None:
    """With a slack so small that all jobs are late, all start as without groups."""
    slack = Slack(factor=0.01, adjust=0.01)
    assert (slack.factor, slack.adjust) == (0.01, 0.01)
    jobs = [spec_of(1, 2, 4000, OWN), spec_of(2, 2, 4000, OWN)]
    _, started = decided(jobs, fairness={"name": "slack", "factor": 0.01, "adjust": 0.01})
    assert started == {1, 2}
