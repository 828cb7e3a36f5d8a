"""A matching from outside that puts a job beside any number of running ones, with group seats and their monitor from the API alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import ClassVar

from tests.plugin.policies.symbiosis.test_symbiosis import Job, ran, times

from cosched_plugin import api
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.testing.check import check_policy


class Crowd(api.Matching):
    """Joins whatever runs alone, at any price."""

    needs: ClassVar[api.Needs] = frozenset({api.WHOLE_NODES, api.COMPANY, api.PAIR_BELIEF})
    protocol_features: ClassVar[api.Needs] = api.PAIRING
    ignores: ClassVar[api.Needs] = api.EVERYTHING
    works: ClassVar[
        dict[int, tuple[int, int]]
    ] = {}  # for the test: of each host, when it was looked at last, and its work

    def __init__(self) -> None:
        self._monitor = api.Tenancies()

    def prepare(self, context: api.Context) -> Iterator[api.Action]:
        return self._monitor.keep_up(context.view)

    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        return offer if gate.admit(offer) else None

    def may_host(self, job: api.JobSpec) -> bool:
        return True

    def has_hosts(self, view: api.View) -> bool:
        return view.pairs is not None and bool(self._hosts(view))

    def join_candidates(self, context: api.Context, gate: api.Gatekeeper = api.UNRESERVED) -> Collection[int]:
        return [job.id for job in context.pending.jobs]

    def join(self, job: api.JobSpec, context: api.Context, gate: api.Gate) -> api.Seat | None:
        view = context.view
        hosts = self._hosts(view)
        free = view.free
        for host in hosts:
            self.works[host.job.id] = (view.now_us, api.tenancy_of(host, view).work_us)
            free = api.union(free, api.open_beside(host.runs, view) or view.free)
        runs = api.first_fit(job, free, view.machine, view.free_memory_mb)
        if runs is None or view.pairs is None or not view.pairs.knows(job):
            return None
        there = [host for host in hosts if api.nodes_of(runs) & view.nodes_by_job[host.job.id]]
        seat = api.seat_among(job, runs, there, context)
        return seat if gate.admit(seat) else None

    def _hosts(self, view: api.View) -> list[api.Running]:
        shared = api.sharing(view)
        alone = [each for job_id, each in sorted(view.running.items()) if job_id not in shared]
        pairs = view.pairs
        return [
            each
            for each in alone
            if each.suspended_us is None
            and not each.slot
            and not each.leaving
            and pairs is not None
            and pairs.knows(each.job)
        ]


NAME = f"{__name__}:{Crowd.__name__}"


def test_a_job_runs_beside_two_hosts_and_the_monitor_keeps_their_ends(tmp_path: Path) -> None:
    """The guest (mild) makes both hosts (kind) take 1.05 times as long; job 5 looks at what they have done until then."""
    jobs = [Job("kind", 2, 1000), Job("kind", 2, 2000), Job("mild", 4, 420, 100), Job("kind", 4, 100, 400)]
    run = ran(tmp_path, jobs, 4, {"matching": {"name": NAME}})
    assert times(run)[3] == (100, 520)
    assert [round(times(run)[job][1]) for job in (1, 2)] == [1020, 2020]
    assert times(run)[4][0] == 520


def test_work_done_is_progress_less_what_neighbours_cost(tmp_path: Path) -> None:
    jobs = [Job("kind", 4, 1000), Job("mild", 4, 420, 100), Job("kind", 4, 100, 600)]
    Crowd.works.clear()
    ran(tmp_path, jobs, 4, {"matching": {"name": NAME}})
    assert Crowd.works[1] == (600_000_000, 580_000_000)


def test_it_conforms() -> None:
    table = {"order": "shortest", "shape": "nodes", "matching": NAME}
    assert check_policy(lambda: compose(table), seed=2, runs=3).decisions > 30
