"""Partitions and limits of a live manager: who is told, in which order, with which reason; and what users say of their jobs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.emulator.live.test_submission import reasons, told_jobs
from tests.emulator.live.test_views import SECOND, Site, begin, submit
from tests.emulator.parts import manager, node_class
from tests.runs import run_on

from cosched_emulator.cli.user_tables import history_table, long_node_table, node_table, queue_table
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.live.watched import GAUGES, MOST_USERS, OTHERS, Watched
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.contended_nodes import NoContention
from cosched_emulator.manager.gate import Gate
from cosched_emulator.scenario.limits import Binding, Partition, Rules
from cosched_emulator.users import requests
from cosched_emulator.users.told import job_text, meanings, why_text
from cosched_emulator.workload.job import Terms, WorkloadJob
from cosched_plugin.common.limits import UNBOUND, Limit, Limited
from cosched_plugin.common.status import Status

ANN, BOB = requests.Requester("ann", operator=False), requests.Requester("bob", operator=False)


class Bound(Site):
    """A live manager of four nodes of four cores with rules, and two GPUs on each of the last two."""

    def __init__(self, *limits: Limit, partitions: tuple[Partition, ...] = (), parents: dict[str, str] | None = None):
        super().__init__()
        nodes = (node_class(2, 4), node_class(2, 4)._replace(resources=(("gpu", 2), ("gpu:a100", 2))))
        inner = manager(*nodes, model=NoContention())
        rules = Rules({each.name: each for each in partitions}, parents or {}, limits)
        agenda = Agenda(inner, gate=Gate(inner, Binding(rules, nodes)))
        self.live = LiveManager(inner, agenda, 1, self.books.ended_state, self.books.tasks)


@pytest.mark.parametrize(
    ("limit", "facts", "reason"),
    [
        ({"each": "user", "jobs": 1}, {}, "AssocMaxJobsLimit"),
        ({"user": "ann", "cpus": 5}, {}, "AssocGrpCpuLimit"),
        ({"account": "physics", "nodes": 1}, {"account": "optics"}, "AssocGrpNodeLimit"),
        ({"account": "physics", "gpus": 3}, {"account": "optics", "resources": (("gpu", 2),)}, "AssocGrpGRES"),
        ({"qos": "high", "jobs": 1}, {"qos": "high"}, "QOSGrpJobsLimit"),
        ({"qos": "high", "each": "user", "jobs": 1}, {"qos": "high"}, "QOSMaxJobsPerUserLimit"),
        ({"qos": "high", "each": "account", "cpus": 7}, {"qos": "high", "account": "optics"}, "MaxCpuPerAccount"),
        ({"partition": "all", "each": "user", "nodes": 1}, {}, "QOSMaxNodePerUserLimit"),
    ],
)
def test_a_job_beyond_a_limit_waits_with_slurms_reason(
    limit: dict[str, Any], facts: dict[str, Any], reason: str
) -> None:
    most = Limited(*[limit.pop(name, UNBOUND) for name in Limited._fields])
    everywhere = Partition("all", default=True)
    site = Bound(Limit(most, **limit), partitions=(everywhere,), parents={"optics": "physics"})
    for _ in range(3):
        site.do(submit(4, **facts), who=ANN)
    site.do(submit(4), who=BOB)
    assert reasons(site)[1] == "Resources"
    assert [reasons(site)[job] for job in (2, 3)] == [reason, reason]
    assert reason in meanings()
    others = "Resources" if limit.get("partition") != "all" else reasons(site)[4]
    assert reasons(site)[4] == others
    site.do(requests.CancelJobs((requests.Target(1),)))
    assert [reasons(site)[job] for job in (2, 3)] == ["Resources", reason]
    site.live.check()


def test_who_waits_goes_on_by_priority_and_what_does_not_fit_is_passed_over() -> None:
    site = Bound(Limit(Limited(cpus=8), each="user"))
    for cpus, priority in ((8, 0), (6, -1), (3, -2), (2, -3), (4, -1)):
        site.do(submit(cpus, priority=priority), who=ANN)
    assert told_jobs(site) == [1]
    site.live.answer(0, 1, ())
    site.do(requests.HoldJobs((requests.Target(5),)), who=ANN)
    site.do(requests.CancelJobs((requests.Target(1),)), who=ANN)
    assert told_jobs(site) == [2, 4]  # 3 and 5 have no room beside 2; 5 is held
    site.live.answer(0, 2, ())
    site.do(requests.CancelJobs((requests.Target(2),)), who=ANN)
    site.do(requests.ReleaseJobs((requests.Target(5),)), who=ANN)
    assert reasons(site) == {3: "Resources", 4: "Resources", 5: "AssocGrpCpuLimit"}
    site.live.check()


def test_dependencies_by_state_and_on_a_start() -> None:
    site = Bound()
    site.do(submit(run_s=5, exit_code=1), 0)
    for kind in ("after", "afterany", "afternotok", "afterok"):
        site.do(submit(after=(requests.Dependency(kind, 1),)), 0)
    assert list(reasons(site).values()) == ["Resources", *["Dependency"] * 4]
    site.start(0, begin(1, run_on(0, 1, 1, 1)))
    assert reasons(site)[2] == "Resources"
    site.advance(5)
    assert [reasons(site).get(job) for job in (3, 4, 5)] == ["Resources", "Resources", None]
    assert site.books.ended_state(5) == "CANCELLED"
    refused = site.live.command(6 * SECOND, ANN, submit(after=(requests.Dependency("afterok", 1),)))
    assert isinstance(refused, requests.Refused)
    assert refused.text == "job 1 has ended FAILED: afterok can never hold"


def test_partitions_become_nodes_and_a_part_of_the_priority() -> None:
    short = Partition("short", ((2, 2),), max_nodes=1, max_time_us=3600 * SECOND, tier=3)
    site = Bound(partitions=(Partition("long", ((0, 3),), default=True), short))
    site.do(submit(4, priority=-7), who=ANN)
    site.do(submit(4, partitions=("short",)), who=ANN)
    site.do(submit(4, partitions=("short", "long")), who=ANN)
    jobs = [site.live.manager.pending[job].job for job in (1, 2, 3)]
    assert [job.spec.eligible for job in jobs] == [((0, 3),), ((2, 2),), ()]
    assert [job.spec.priority >> 34 for job in jobs] == [-1, 2, 2]
    assert [job.terms.partitions for job in jobs] == [("long",), ("short",), ("short", "long")]
    for request, text in (
        (submit(4, partitions=("huge",)), "there is no partition huge"),
        (submit(8, partitions=("short",)), "2 nodes wanted, a job of partition short has at most 1"),
        (submit(1, limit_s=7200, partitions=("short",)), "7200 s wanted, a job of partition short has at most 3600 s"),
        (submit(16), "16 processes wanted, the machine holds 12 of this kind"),
    ):
        refused = site.live.command(0, ANN, request)
        assert isinstance(refused, requests.Refused)
        assert refused.text == text


def test_a_job_that_is_larger_than_its_limit_is_refused() -> None:
    site = Bound(Limit(Limited(gpus=2), each="user"))
    refused = site.live.command(0, ANN, submit(8, ppn_max=4, resources=(("gpu:a100", 1), ("gpu", 2))))
    assert isinstance(refused, requests.Refused)
    assert refused.text == "4 gpus wanted, its limit is 2"


def test_whole_nodes_count_as_those_that_a_job_may_have() -> None:
    nodes = (node_class(2, 4), node_class(1, 16))
    rules = Rules({"small": Partition("small", ((0, 2),)), "all": Partition("all")}, {}, (Limit(Limited(cpus=8)),))
    binding = Binding(rules, nodes)
    spec = submit(2, ppn_max=1, exclusive=True).job
    small, everywhere = (
        binding.placed(WorkloadJob(spec, 1, None, 1, terms=Terms(partitions=(name,)))) for name in ("small", "all")
    )
    assert not isinstance(small, str)
    assert not isinstance(everywhere, str)
    assert (binding.amounts(small.spec).cpus, binding.too_large(small)) == (8, None)
    assert binding.amounts(everywhere.spec).cpus == 32
    wide = small.spec._replace(processes=8, ppn_max=0, exclusive=False)
    assert binding.amounts(wide).nodes == 2  # though a node of another partition holds all of it


def test_queue_and_nodes_show_partitions_and_gpus() -> None:
    site = Bound(partitions=(Partition("all", default=True), Partition("gpu", ((2, 2),))))
    site.do(submit(2, partitions=("gpu",), qos="high", account="optics", resources=(("gpu", 1),)), who=ANN)
    site.do(submit(), who=BOB)
    site.start(0, begin(1, run_on(2, 1, 3, 2)))
    assert queue_table(site.rows(requests.ListJobs())).splitlines() == [
        "JOBID  NAME  USER  ST  TIME  TIME_LIMIT  NODES  SHARES_WITH  PARTITION  QOS   ACCOUNT  GRES   SLOWDOWN  NODELIST(REASON)",
        "    1  -     ann   R   0:00        1:40      1  -            gpu        high  optics   gpu:1         -  2",
        "    2  -     bob   PD  0:00        1:40      1  -            all        -     -        -             -  (Resources)",
    ]
    (pending,) = site.told(requests.ShowJobs((requests.Target(2),)))["jobs"]
    assert why_text({}, [{**pending, "job": "2"}]) == (
        "job 2 (partition all): Resources: the scheduler has not started it; only the scheduler knows more\n"
    )
    nodes = site.rows(requests.ListNodes())
    assert [line.split()[5:8] for line in node_table(nodes).splitlines()] == [
        ["GRES", "PARTITIONS", "NODELIST"],
        ["-", "all", "[0-1]"],
        ["gpu:0/2,gpu:a100:0/2", "all,gpu", "3"],
        ["gpu:1/2,gpu:a100:0/2", "all,gpu", "2"],
    ]
    assert long_node_table(nodes).splitlines()[3].split()[5:7] == ["gpu:1/2,gpu:a100:0/2", "all,gpu"]
    site.do(
        requests.CancelJobs((requests.Target(1), requests.Target(2))), who=requests.Requester("root", operator=True)
    )
    history = [requests.ended_job(row) for row in site.books.history("", 9)]
    assert [line.split()[9:] for line in history_table(history[::-1]).splitlines()] == [
        ["STARTS", "PARTITION", "QOS", "ACCOUNT", "GRES", "REASON"],
        ["1", "gpu", "high", "optics", "gpu:1", *history[1]["reason"].split()],
        ["0", "all", "-", "-", "-", *history[0]["reason"].split()],
    ]
    (ended,) = site.told(requests.ShowJobs((requests.Target(1),)))["jobs"]
    lines = [" ".join(line.split()) for line in job_text(ended).splitlines()]
    assert {"partitions gpu", "qos high", "account optics", "resources gpu:1"} <= {*lines}


def test_what_runs_waits_and_is_in_use_is_counted_by_partition() -> None:
    """A job counts in the first partition that it names; threads and GPUs are those of the nodes, whoever has them."""
    site = Bound(partitions=(Partition("all", default=True), Partition("gpu", ((2, 2),)), Partition("none", ((0, 1),))))
    site.do(submit(2, partitions=("gpu", "all"), resources=(("gpu:a100", 1), ("gpu", 1))), who=ANN)
    site.do(submit(3), who=BOB)
    site.do(submit(1), who=BOB)
    site.start(0, begin(1, run_on(2, 1, 3, 2)), begin(2, run_on(3, 1, 7, 3)))
    watched = Watched(site.live, None, lambda: True)
    watched.look()
    gpus = {"gpu": {"all": 4, "used": 1}, "gpu:a100": {"all": 4, "used": 1}}
    assert watched.figures["resources"] == gpus
    assert watched.figures["partitions"] == {
        "all": {"running": 1, "pending": 1, "threads": {"all": 16, "used": 5}, "resources": gpus},
        "gpu": {"running": 1, "pending": 0, "threads": {"all": 8, "used": 5}, "resources": gpus},
        "none": {"running": 0, "pending": 0, "threads": {"all": 4, "used": 0}, "resources": {}},
    }
    page = Status(lambda: watched.figures, GAUGES).prometheus("m")
    assert 'm_partition_threads_used{partition="gpu"} 5\n' in page
    assert 'm_partition_resources_used{partition="gpu",resource="gpu:a100"} 1\n' in page
    assert 'm_resources{resource="gpu"} 4\n' in page
    assert 'm_user_pending_jobs{user="bob"} 1\n' in page
    assert 'm_class_running_jobs{class="long"} 0\n' in page
    site.do(submit(1), who=BOB)
    site.start(0, begin(4, run_on(3, 1, 8, 1)))
    site.do(requests.HoldJobs((requests.Target(3),)), who=BOB)
    watched = Watched(site.live, None, lambda: True)
    watched.look()
    told = ("shared_nodes", "shared_jobs", "waits_held", "waits_scheduler")
    assert [watched.figures[name] for name in told] == [1, 2, 1, 0]
    site.do(requests.ReleaseJobs((requests.Target(3),)), who=BOB)
    site.live.advance(90_000_000)
    watched = Watched(site.live, None, lambda: True)
    watched.look()
    page = Status(lambda: watched.figures, GAUGES).prometheus("m")
    assert 'm_user_longest_wait_seconds{user="bob"} 90.0\n' in page
    assert 'm_partition_longest_wait_seconds{partition="none"} 0.0\n' in page


def test_metrics_by_user_are_of_a_bounded_number_of_users() -> None:
    """A thousand users would be a thousand series, for each of which Prometheus keeps memory."""
    site = Bound()
    for number in range(MOST_USERS + 20):
        for _ in range(1 + (number < MOST_USERS)):
            site.do(submit(1), who=requests.Requester(f"user{number}", operator=False))
    watched = Watched(site.live, None, lambda: True)
    watched.look()
    users = watched.figures["by"]["user"]
    assert len(users) == MOST_USERS + 1
    assert users[OTHERS]["pending"] == 20
    assert sum(each["pending"] for each in users.values()) == 2 * MOST_USERS + 20


def test_whatever_a_job_waits_for_is_counted_once() -> None:
    """A reason without a count would end the manager at its next look."""
    site = Bound()
    site.do(submit(1, delay_us=SECOND))
    (job_id,) = site.live.waiting
    for reason in meanings():
        site.live.gate.jobs[job_id] = site.live.gate.jobs[job_id]._replace(reason=reason)
        watched = Watched(site.live, None, lambda: True)
        watched.look()
        assert sum(count for name, count in watched.figures.items() if name.startswith("waits_")) == 1
