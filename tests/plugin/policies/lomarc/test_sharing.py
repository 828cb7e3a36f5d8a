"""Two jobs on the same nodes: worked by hand, decision by decision. All pairs here have a slowdown of 1.5 unless said otherwise."""

from __future__ import annotations

from collections.abc import Sequence

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

from cosched_plugin.protocol import messages as m

S = SECOND_US
# A job computes or communicates half of its time, and reads for the other half: two kinds compete only for reading.
CPU = ("cpu", 500_000, 0, 500_000, 300_000)
NETWORK = ("network", 0, 500_000, 500_000, 300_000)
FIRST = {"name": "first", "weak_load": 1.0}


def decided(
    waiting: Sequence[m.JobSpec],
    matching: object = FIRST,
    *,
    running: Sequence[m.RunningJob] = (),
    nodes: m.NodeClass | None = None,
    **table: object,
) -> list[m.Action]:
    """Return the decisions except notes; four nodes of one core with two threads, jobs in order of submission."""
    told = welcome(nodes or hyperthreaded(4), GOOD, waiting, running)
    return [action for action in decisions(told, matching=matching, **table)[0] if not isinstance(action, m.SetNote)]


def cpu(number: int, size: int, seconds: float) -> m.JobSpec:
    return spec_of(number, size, seconds, CPU)


def network(number: int, size: int, seconds: float) -> m.JobSpec:
    return spec_of(number, size, seconds, NETWORK)


def alone(number: int, first: int, count: int, seconds: int) -> m.StartJob:
    return m.StartJob(number, runs_on((first, count, 1, 1)), seconds * S, None)


# ---------------------------------------------------------------- pairs that start together


def test_no_job_shares_under_weak_load() -> None:
    """Four nodes less a fifth are 3.2: jobs of 2 and 1 nodes are a weak load, jobs of 2 and 2 are not."""
    weak = {"name": "first", "weak_load": 0.2}
    assert decided([cpu(1, 2, 100), network(2, 1, 100)], weak) == [alone(1, 0, 2, 100), alone(2, 2, 1, 100)]
    (pair,) = decided([cpu(1, 2, 100), network(2, 2, 100)], weak)
    assert isinstance(pair, m.StartTogether)


# ---------------------------------------------------------------- joining a running job


def host(seconds: float, size: int = 2, first: int = 0) -> m.RunningJob:
    return running_on(cpu(10 + first, size, 5000), runs_on((first, size, 1, 1)), seconds)


def revised(number: int, seconds: int) -> m.ReviseJob:
    """Return the revision for a job that started at 0 and has this many seconds left."""
    return m.ReviseJob(number, NOW_US + seconds * S, None)


def test_the_head_alone_joins_where_others_may_not() -> None:
    """Figure 1: the first job joins running ones, and others are backfilled onto free nodes."""
    hosts, only_head = [host(1000), host(1250, 2, 2)], {**FIRST, "all_join": False}
    head, guest = cpu(1, 4, 100), network(2, 2, 500)
    assert decided([head, guest], only_head, running=hosts) == []  # without it job 2 joins, as above
    joined = [m.StartJob(1, runs_on((0, 2, 2, 1)), 750 * S, None), revised(10, 1250)]
    assert decided([network(1, 2, 500), cpu(2, 4, 100)], only_head, running=hosts) == joined


# ---------------------------------------------------------------- jobs that whole nodes cannot hold


def test_a_job_with_more_processes_than_cores_is_rejected() -> None:
    """The manager accepts it, as it counts threads; it must not block the queue for ever."""
    for wide in (
        cpu(1, 5, 100),
        cpu(1, 5, 100)._replace(exclusive=True),
        cpu(1, 1, 100)._replace(threads_per_process=2),
    ):
        first, *others = decided([wide, cpu(2, 4, 100)], "none")
        assert isinstance(first, m.RejectJob)
        assert first.job_id == 1
        assert others == [alone(2, 0, 4, 100)]
