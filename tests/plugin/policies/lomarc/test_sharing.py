"""Two jobs on the same nodes: worked by hand, decision by decision. All pairs here have a slowdown of 1.5 unless said otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from tests.plugin.core.parts import Scripted
from tests.plugin.policies.cases import NOW_US
from tests.plugin.policies.lomarc.lomarc_cases import (
    GOOD,
    SECOND_US,
    decisions,
    hyperthreaded,
    running_on,
    spec_of,
    welcome,
)
from tests.runs import runs_on

from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.parts.colocated import PairMonitor
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol.messages import (
    Action,
    Belief,
    JobEnded,
    JobRequeued,
    JobSpec,
    NodeClass,
    Note,
    RejectJob,
    ResumeJob,
    ReviseJob,
    RunningJob,
    SetNote,
    StartJob,
    StartTogether,
    SuspendJob,
)

S = SECOND_US
# A job computes or communicates half of its time, and reads for the other half: two kinds compete only for reading.
CPU = ("cpu", 500_000, 0, 500_000, 300_000)
NETWORK = ("network", 0, 500_000, 500_000, 300_000)
FIRST = {"name": "first", "weak_load": 1.0}


def decided(
    waiting: Sequence[JobSpec],
    matching: object = FIRST,
    *,
    running: Sequence[RunningJob] = (),
    nodes: NodeClass | None = None,
    **table: object,
) -> list[Action]:
    """Return the decisions except notes; four nodes of one core with two threads, jobs in order of submission."""
    told = welcome(nodes or hyperthreaded(4), GOOD, waiting, running)
    return [action for action in decisions(told, matching=matching, **table)[0] if not isinstance(action, SetNote)]


def cpu(number: int, size: int, seconds: float) -> JobSpec:
    return spec_of(number, size, seconds, CPU)


def network(number: int, size: int, seconds: float) -> JobSpec:
    return spec_of(number, size, seconds, NETWORK)


def alone(number: int, first: int, count: int, seconds: int) -> StartJob:
    return StartJob(number, runs_on((first, count, 1, 1)), seconds * S, None)


# ---------------------------------------------------------------- pairs that start together


def test_a_pair_starts_together() -> None:
    """300 and 1000 s: together until the shorter one has done its work, at 450; then the longer one has 700 s left."""
    host, guest = cpu(1, 3, 1000), network(2, 2, 300)
    assert decided([host, guest]) == [
        StartTogether(
            (StartJob(1, runs_on((0, 3, 1, 1)), 1150 * S, None), StartJob(2, runs_on((0, 2, 2, 1)), 450 * S, None)),
        )
    ]


def test_limits_grow_by_the_time_lost_to_a_partner() -> None:
    """Each loses 150 s, as above: one limit is twice the estimate, the other is the estimate."""
    host = cpu(1, 3, 1000)._replace(limit_us=2000 * S)
    guest = network(2, 2, 300)._replace(limit_us=300 * S)
    assert decided([host, guest]) == [
        StartTogether(
            (
                StartJob(1, runs_on((0, 3, 1, 1)), 1150 * S, 2150 * S),
                StartJob(2, runs_on((0, 2, 2, 1)), 450 * S, 450 * S),
            ),
        )
    ]


def test_on_nodes_of_several_cores_guests_take_the_second_threads() -> None:
    """Two cores a node: processes take the first thread of each core, 0 and 1, and guests the second ones, 2 and 3."""
    host, guest = cpu(1, 5, 1000), network(2, 3, 300)
    assert decided([host, guest], nodes=hyperthreaded(4, cores=2)) == [
        StartTogether(
            (
                StartJob(1, runs_on((0, 2, 3, 2), (2, 1, 1, 1)), 1150 * S, None),
                StartJob(2, runs_on((0, 1, 12, 2), (1, 1, 4, 1)), 450 * S, None),
            ),
        )
    ]


def test_a_guest_takes_the_nodes_that_it_may_have() -> None:
    chosen = network(2, 2, 300)._replace(eligible=((1, 2),))
    (pair,) = decided([cpu(1, 3, 1000), chosen])
    assert isinstance(pair, StartTogether)
    assert pair.starts[1].runs == runs_on((1, 2, 2, 1))
    (joins, _) = decided([chosen], running=[host(1000, 4)])
    assert isinstance(joins, StartJob)
    assert joins.runs == runs_on((1, 2, 2, 1))
    assert decided([chosen._replace(eligible=((2, 2),))], running=[host(1000, 3), host(2000, 1, 3)]) == []


@pytest.mark.parametrize(("gpus", "together"), [(2, True), (1, False)])
def test_a_host_and_its_guest_both_count(gpus: int, together: bool) -> None:
    both = [job._replace(resources=(("gpu", 1),)) for job in (cpu(1, 3, 1000), network(2, 2, 300))]
    nodes = hyperthreaded(4)._replace(resources=(("gpu", gpus),))
    assert [type(action) for action in decided(both, nodes=nodes)] == [StartTogether if together else StartJob]


def test_no_job_shares_under_weak_load() -> None:
    """Four nodes less a fifth are 3.2: jobs of 2 and 1 nodes are a weak load, jobs of 2 and 2 are not."""
    weak = {"name": "first", "weak_load": 0.2}
    assert decided([cpu(1, 2, 100), network(2, 1, 100)], weak) == [alone(1, 0, 2, 100), alone(2, 2, 1, 100)]
    (pair,) = decided([cpu(1, 2, 100), network(2, 2, 100)], weak)
    assert isinstance(pair, StartTogether)


@pytest.mark.parametrize("matching", ["adjacent", "first", "u1", "u2"])
@pytest.mark.parametrize(
    "guest",
    [
        network(2, 3, 60),  # short
        network(2, 4, 300),  # larger than the other
        spec_of(2, 3, 300, ("network", 0, 500_000, 500_000, 700_001)),  # memory
        cpu(2, 3, 300),  # the same bound: 1 + .4·.5 + .5, too much even for two that go well together
        spec_of(2, 3, 300, ("disk", 200_000, 200_000, 600_000, 1)),  # 1 + .4·.2 + .5 = 1.58, but as c is 2, 1.7
        spec_of(2, 3, 300, None),
        network(2, 3, 300)._replace(exclusive=True),
    ],
)
def test_jobs_that_violate_a_constraint_do_not_share(matching: str, guest: JobSpec) -> None:
    nodes = hyperthreaded(3)
    told = welcome(nodes, GOOD, [cpu(1, 3, 1000), guest])
    parameters = (*GOOD.parameters()[:4], ("good_share_ppm", 0))
    bad = told._replace(belief=Belief("lomarc", "bulk-synchronous", (), parameters))
    actions, _ = decisions(bad, matching={"name": matching, "weak_load": 1.0})
    assert [action for action in actions if not isinstance(action, SetNote | RejectJob)] == [alone(1, 0, 3, 1000)]


def test_two_that_compute_match_where_they_do_not_compete() -> None:
    """(.9, .1) and (.5, .5): 1 + .4·.5 + .1 = 1.3 where the pair goes well together."""
    host, guest = spec_of(1, 1, 100, ("cpu", 900_000, 0, 100_000, 0)), cpu(2, 1, 100)
    (pair,) = decided([host, guest], nodes=hyperthreaded(1))
    assert isinstance(pair, StartTogether)
    assert [start.estimate_us for start in pair.starts] == [130 * S, 130 * S]


def test_on_standard_cpus_only_cpu_and_disk_bound_jobs_match() -> None:
    """Only a cpu-bound and a disk-bound job: (.8, .2) and (.3, .1, .6) have 1 + .3 + .2, as the CPU is time-shared."""
    standard = {"name": "first", "cpu": "standard", "weak_load": 1.0}
    host = spec_of(1, 1, 100, ("cpu", 800_000, 0, 200_000, 0))
    disk = spec_of(2, 1, 100, ("disk", 300_000, 100_000, 600_000, 0))
    told = welcome(hyperthreaded(1), GOOD, [host, disk])
    parameters = (("cpu", "standard"), ("remainder", True))
    told = told._replace(belief=Belief("lomarc", "bulk-synchronous", (), parameters))
    pair = decisions(told, matching=standard)[0][0]
    assert isinstance(pair, StartTogether)
    assert [start.estimate_us for start in pair.starts] == [150 * S, 150 * S]
    assert decided([host, network(2, 1, 100)], standard, nodes=hyperthreaded(1)) == [alone(1, 0, 1, 100)]


# ---------------------------------------------------------------- matchings that consider the next job only


def test_always_takes_the_next_job() -> None:
    """The next job always starts with the first; if it is larger, the first job is placed on its nodes."""
    first, larger = cpu(1, 1, 100), cpu(2, 3, 200)._replace(usage=None)
    assert decided([first, larger], "always") == [  # one job is unknown: a slowdown of 2 is expected
        StartTogether(
            (StartJob(2, runs_on((0, 3, 1, 1)), 300 * S, None), StartJob(1, runs_on((0, 1, 2, 1)), 200 * S, None))
        )
    ]
    # 1 + .5 + .4·.5 = 1.7, though memory fits; 2.5 where it does not.
    (pair,) = decided([first, cpu(2, 1, 200)], "always")
    assert isinstance(pair, StartTogether)
    assert [start.estimate_us for start in pair.starts] == [170 * S, 270 * S]
    greedy = spec_of(2, 1, 200, (*CPU[:4], 900_000))
    (pair,) = decided([first, greedy], "always")
    assert isinstance(pair, StartTogether)
    assert [start.estimate_us for start in pair.starts] == [250 * S, 350 * S]


def test_always_starts_jobs_alone_without_room_for_a_pair() -> None:
    """The larger job would need more nodes than are free, or needs its nodes exclusively."""
    there = [running_on(cpu(9, 2, 1000), runs_on((0, 2, 1, 1)), 1000)]
    assert decided([cpu(1, 1, 100), cpu(2, 3, 200)], "always", running=there) == [alone(1, 2, 1, 100)]
    hermit = cpu(2, 1, 200)._replace(exclusive=True)
    assert decided([cpu(1, 1, 100), hermit], "always") == [
        alone(1, 0, 1, 100),
        StartJob(2, runs_on((1, 1, 3, 1)), 200 * S, None),
    ]


def test_adjacent_tries_only_the_next_job() -> None:
    adjacent = {"name": "adjacent", "weak_load": 1.0}
    actions = decided([cpu(1, 4, 1000), cpu(2, 1, 300), network(3, 1, 300)], adjacent)
    assert actions == [alone(1, 0, 4, 1000)]
    actions = decided([cpu(1, 4, 1000), network(3, 1, 300), cpu(4, 1, 300)], adjacent)
    assert [type(action) for action in actions] == [StartTogether]


# ---------------------------------------------------------------- joining a running job


def host(seconds: float, size: int = 2, first: int = 0) -> RunningJob:
    return running_on(cpu(10 + first, size, 5000), runs_on((first, size, 1, 1)), seconds)


def revised(number: int, seconds: int) -> ReviseJob:
    """Return the revision for a job that started at 0 and has this many seconds left."""
    return ReviseJob(number, NOW_US + seconds * S, None)


def test_a_guest_lengthens_its_host() -> None:
    """The host has 1000 s left. Beside a guest of 300 s the first 300 of them take 450 s, and the rest 700 s."""
    busy = host(2000, 2, 2)
    assert decided([network(1, 1, 300)], running=[host(1000), busy]) == [
        StartJob(1, runs_on((0, 1, 2, 1)), 450 * S, None),
        revised(10, 1150),
    ]
    # A host that ends first: the guest has 200 s left then.
    assert decided([network(1, 1, 1200)], running=[host(1000), busy]) == [
        StartJob(1, runs_on((0, 1, 2, 1)), 1700 * S, None),
        revised(10, 1500),
    ]


def test_limits_of_guest_and_host_grow() -> None:
    limited = host(1000)._replace(limit_us=6000 * S)
    limited = limited._replace(spec=limited.spec._replace(limit_us=5000 * S))
    guest = network(1, 1, 300)._replace(limit_us=310 * S)
    assert decided([guest], running=[limited, host(2000, 2, 2)]) == [
        StartJob(1, runs_on((0, 1, 2, 1)), 450 * S, 460 * S),
        ReviseJob(10, NOW_US + 1150 * S, 6150 * S),
    ]


def test_no_job_joins_shared_or_suspended_jobs() -> None:
    guest = running_on(network(20, 1, 5000), runs_on((0, 1, 2, 1)), 1000)
    still = host(1000, 2, 2)._replace(suspended_us=50, held=True)
    assert decided([network(1, 1, 300)], running=[host(1000), guest, still]) == []


def test_a_resume_that_the_manager_refused_is_asked_for_again() -> None:
    """The pair has ended, and with it the note that would tell of it."""
    still = host(1000, 2, 2)._replace(suspended_us=50)
    assert decided([], running=[still]) == [ResumeJob(still.spec.id)]
    assert decided([], running=[still._replace(held=True)]) == []


def test_a_lengthened_host_must_not_delay_the_head() -> None:
    """Both pairs of nodes are taken; the head needs all four. A guest of 500 s makes its host end at 1250 instead of 1000."""
    head, guest = cpu(1, 4, 100), network(2, 2, 500)
    assert decided([head, guest], running=[host(1000), host(1200, 2, 2)]) == []  # the head could start at 1200
    joined = [StartJob(2, runs_on((0, 2, 2, 1)), 750 * S, None), revised(10, 1250)]
    assert decided([head, guest], running=[host(1000), host(1250, 2, 2)]) == joined
    # The head needs two nodes only, and gets two others at 1000: either host may be delayed.
    assert decided([cpu(1, 2, 100), guest], running=[host(1000), host(1000, 2, 2)]) == joined
    # At 1000 only the first host's nodes will be free, which the head needs. The other host may end at any time.
    assert decided([cpu(1, 2, 100), guest], running=[host(1000), host(1001, 2, 2)]) == [
        StartJob(2, runs_on((2, 2, 2, 1)), 750 * S, None),
        revised(12, 1251),
    ]


def test_the_head_alone_joins_where_others_may_not() -> None:
    """Figure 1: the first job joins running ones, and others are backfilled onto free nodes."""
    hosts, only_head = [host(1000), host(1250, 2, 2)], {**FIRST, "all_join": False}
    head, guest = cpu(1, 4, 100), network(2, 2, 500)
    assert decided([head, guest], only_head, running=hosts) == []  # without it job 2 joins, as above
    joined = [StartJob(1, runs_on((0, 2, 2, 1)), 750 * S, None), revised(10, 1250)]
    assert decided([network(1, 2, 500), cpu(2, 4, 100)], only_head, running=hosts) == joined


def test_a_pair_must_not_delay_the_head() -> None:
    """Two nodes are free, the head gets all four at 700. Job 2 alone would run until 600; with job 3, which takes 300 s, until 750."""
    waiting = [cpu(1, 4, 100), cpu(2, 2, 600), network(3, 2, 300)]
    assert decided(waiting, running=[host(700)], order="fcfs") == [alone(2, 2, 2, 600)]
    (pair,) = decided(waiting, running=[host(750)], order="fcfs")
    assert isinstance(pair, StartTogether)
    # As a guest of job 2, job 3 would also delay its host to 750; a guest of 200 s does not delay the head.
    waiting[2] = network(3, 2, 200)
    (pair,) = decided(waiting, running=[host(700)], order="fcfs")
    assert isinstance(pair, StartTogether)


# ---------------------------------------------------------------- pairs over time


def pair_at(now_s: int, measured_ppm: int = 0, *, limited: bool = False) -> SchedulerCore:
    """Return a core at an instant with job 1 since 0 and job 2 since 100 s on one node, with 500 and 800 s left at that time.

    ``limited``: both are killed if they take longer than expected.
    """
    first, second = cpu(1, 1, 600), network(2, 1, 800)
    if limited:
        first, second = first._replace(limit_us=600 * S), second._replace(limit_us=800 * S)
    one = RunningJob(first, 0, runs_on((0, 1, 1, 1)), 850 * S, 850 * S if limited else None, None, measured_ppm)
    two = RunningJob(second, 100 * S, runs_on((0, 1, 2, 1)), 1050 * S, 1050 * S if limited else None)
    notes = [Note(1, "pace", (2, 100 * S, 500 * S, 1.5)), Note(2, "pace", (1, 0, 800 * S, 1.5))]
    told = welcome(hyperthreaded(1), GOOD, (), (one, two), notes)
    return SchedulerCore(compose({"preset": "lomarc-fm"}), told._replace(now_us=now_s * S))


def test_a_job_without_its_partner_runs_at_full_speed() -> None:
    """At 400 s each has done 200 s of its work. Job 2 ends for any reason: 300 s are left. The same holds for the end of job 1."""
    assert pair_at(400).handle(400 * S, (JobEnded(2, "CANCELLED"),)) == [
        ReviseJob(1, 700 * S, None),
        SetNote(1, "pace", None),
    ]
    assert pair_at(400).handle(400 * S, (JobEnded(1, "COMPLETED"),)) == [
        ReviseJob(2, 900 * S, None),
        SetNote(2, "pace", None),
    ]
    # At its expected end at 850 s job 1 leaves job 2 with 300 s, as expected.
    assert pair_at(850).handle(850 * S, (JobEnded(1, "COMPLETED"),)) == [SetNote(2, "pace", None)]


def test_of_a_pair_that_is_too_slow_one_job_is_suspended() -> None:
    """Measured at 300 s: 2 instead of 1.5. Of 200 s each has done 100: 400 and 700 s are left. The last started is suspended."""
    core = pair_at(300, measured_ppm=2_000_000)
    assert core.handle(300 * S, ()) == [
        SuspendJob(2),
        ReviseJob(1, 700 * S, None),
        ReviseJob(2, 1300 * S, None),  # at 1400 s, since 100 s
        SetNote(1, "pace", (2, 300 * S, 400 * S, 1.0)),
        SetNote(2, "pace", (1, 200 * S, 700 * S, 1.0)),
    ]
    assert core.view.running[2].suspended_us == 300 * S
    assert core.handle(500 * S, ()) == []
    assert core.handle(700 * S, (JobEnded(1, "COMPLETED"),)) == [
        ResumeJob(2),
        ReviseJob(2, 1300 * S, None),  # its expected end already includes these 400 s
        SetNote(2, "pace", None),
    ]
    assert core.view.running[2].end_us == 1400 * S


def test_limits_grow_by_the_measured_loss() -> None:
    """Measured at 800 s: 2.5 instead of 1.5. Of 700 s each has done 280: 220 s are left, to 1020 s, and 520 s, to 1320 s."""
    core = pair_at(800, measured_ppm=2_500_000, limited=True)
    assert core.handle(800 * S, ()) == [
        SuspendJob(2),
        ReviseJob(1, 1020 * S, 1020 * S),  # 170 s later than expected
        ReviseJob(
            2, 1440 * S, 1220 * S
        ),  # at 1540 s, since 100 s; 170 s are lost so far, and the limit is put off during the suspension
        SetNote(1, "pace", (2, 800 * S, 220 * S, 1.0)),
        SetNote(2, "pace", (1, 700 * S, 520 * S, 1.0)),
    ]
    assert core.handle(1020 * S, (JobEnded(1, "COMPLETED"),)) == [
        ResumeJob(2),
        ReviseJob(2, 1440 * S, (1220 + 220) * S),
        SetNote(2, "pace", None),
    ]
    assert core.view.running[2].limit_us == (1220 + 220) * S  # exactly the time that it needs


def test_an_early_end_of_a_partner_does_not_lower_the_limit() -> None:
    assert pair_at(400, limited=True).handle(400 * S, (JobEnded(2, "CANCELLED"),)) == [
        ReviseJob(1, 700 * S, 850 * S),
        SetNote(1, "pace", None),
    ]


def test_the_running_or_the_suspended_job_of_a_pair_may_end() -> None:
    core = pair_at(300, measured_ppm=2_000_000)
    core.handle(300 * S, ())
    assert core.handle(400 * S, (JobEnded(1, "FAILED"),)) == [
        ResumeJob(2),
        ReviseJob(2, 1000 * S, None),
        SetNote(2, "pace", None),
    ]
    core = pair_at(300, measured_ppm=2_000_000)
    core.handle(300 * S, ())
    assert core.handle(400 * S, (JobEnded(2, "CANCELLED"),)) == [
        SetNote(1, "pace", None)
    ]  # job 1 ran at full speed already


def test_time_on_disk_is_no_work() -> None:
    """Both go to disk at 200 s, each having done 200/3 s of its work since 100 s; job 1 is cancelled at 700 s."""
    core = pair_at(200, limited=True)
    policy = cast(Any, core)._policy
    cast(Any, core)._policy = Scripted([SuspendJob(1, to_disk=True), SuspendJob(2, to_disk=True)])
    core.handle(200 * S, ())
    cast(Any, core)._policy = policy
    left_us = 733_333_334  # 800 - 200/3, rounded up
    assert core.handle(700 * S, (JobEnded(1, "CANCELLED"),)) == [
        ResumeJob(2),  # by `Composed`, which resumes jobs left on disk
        ReviseJob(2, 600 * S + left_us, (1050 + 500) * S),  # its limit was put off, and it runs faster alone
        SetNote(2, "pace", None),
    ]
    assert core.view.running[2].end_us == 700 * S + left_us


def test_a_job_on_disk_is_not_resumed_when_its_partner_changes() -> None:
    """Only slices decide when a class resumes; changes of a pair must not."""
    core = pair_at(200)
    cast(Any, core)._policy = Scripted([SuspendJob(1, to_disk=True), SuspendJob(2, to_disk=True)])
    core.handle(200 * S, ())
    cast(Any, core)._policy = Scripted([])
    core.handle(700 * S, (JobEnded(1, "CANCELLED"),))
    assert list(PairMonitor(1.6).keep_up(core.view)) == [
        ReviseJob(2, 600 * S + 733_333_334, None),  # as if it resumed now
        SetNote(2, "pace", None),
    ]


def test_a_pair_within_the_limit_continues() -> None:
    assert pair_at(300, measured_ppm=1_500_000).handle(300 * S, ()) == []


def test_a_measured_slowdown_replaces_the_belief() -> None:
    """Measured at 300 s: 1.6 instead of 1.5. Of 200 s each has done 125: 375 s are left until 900 s, then 300 s of the other job."""
    core = pair_at(300, measured_ppm=1_600_000, limited=True)
    assert core.handle(300 * S, ()) == [
        ReviseJob(1, 900 * S, 900 * S),  # 50 s later, and so is its limit
        SetNote(1, "pace", (2, 300 * S, 375 * S, 1.6)),
        ReviseJob(2, 1100 * S, 1100 * S),
        SetNote(2, "pace", (1, 200 * S, 675 * S, 1.6)),
    ]
    assert core.handle(300 * S, ()) == []


@pytest.mark.parametrize("table", [{"preset": "am"}, {"preset": "ac", "order": "fcfs"}], ids=str)
def test_a_requeued_job_is_a_partner_no_longer(table: dict[str, object]) -> None:
    """It starts again on its nodes at the same instant; the note of its first stay must not count."""
    pair = [cpu(1, 1, 1000), network(2, 1, 300)]
    table = {**table, "matching": {"weak_load": 1.0}} if table["preset"] == "am" else table
    core = SchedulerCore(compose(table), welcome(hyperthreaded(2), GOOD, pair))
    actions = core.handle(NOW_US, ())
    assert isinstance(actions[0], StartTogether)
    later = NOW_US + 150 * S
    actions = core.handle(later, (JobRequeued(2),))
    assert SetNote(2, "pace", None) in actions
    assert StartJob(2, runs_on((1, 1, 1, 1)), 300 * S, None) in actions
    assert ReviseJob(1, 1050 * S, None) in actions  # 150 s at 1.5 were worth 100
    assert core.handle(later, ()) == []
    assert core.view.note(2, "pace") is None


# ---------------------------------------------------------------- jobs that whole nodes cannot hold


def test_a_job_with_more_processes_than_cores_is_rejected() -> None:
    """The manager accepts it, as it counts threads; it must not block the queue for ever."""
    for wide in (
        cpu(1, 5, 100),
        cpu(1, 5, 100)._replace(exclusive=True),
        cpu(1, 1, 100)._replace(threads_per_process=2),
    ):
        first, *others = decided([wide, cpu(2, 4, 100)], "none")
        assert isinstance(first, RejectJob)
        assert first.job_id == 1
        assert others == [alone(2, 0, 4, 100)]
