"""LOMARC's matchmaking: partners among pending jobs and hosts among running ones, compared with the reference."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import cast

import pytest
from tests.plugin.policies.cases import NOW_US
from tests.plugin.policies.lomarc.lomarc_cases import (
    SECOND_US,
    c_of,
    decisions,
    draw_spec,
    hyperthreaded,
    job_of,
    running_on,
    spec_of,
    view_of,
    welcome,
)
from tests.reference.lomarc import (
    MAX_SLOWDOWN,
    Cpu,
    Heuristic,
    Job,
    Number,
    find_match,
    matchable,
    response_time_impact,
    slowdown,
    u_gain_1,
    u_gain_2,
)
from tests.runs import runs_on

from cosched_hwmodel.lomarc.lomarc_model import LomarcModel
from cosched_hwmodel.models.paper_pairs import LomarcPairs
from cosched_plugin.api import PendingJobs, Unreserved
from cosched_plugin.parts.colocated import Guest
from cosched_plugin.parts.kinds import Context
from cosched_plugin.policies.lomarc.lookahead import First, Lookahead, ResponseImpact, SharedTimeGain, TimelessGain
from cosched_plugin.policies.lomarc.queue_table import JobTable
from cosched_plugin.policies.orders import Fcfs
from cosched_plugin.policies.placement.compact import FirstFit
from cosched_plugin.policies.placement.spread import Spread
from cosched_plugin.policies.planning.neutral import NoMatching, NoPairing
from cosched_plugin.protocol.messages import JobSpec, RunningJob, StartJob, StartTogether

HEURISTICS = {"first": First(), "u1": SharedTimeGain(), "u2": TimelessGain(), "response": ResponseImpact("none")}
MODELS = [
    LomarcModel(remainder=True),
    LomarcModel(remainder=False),
    LomarcModel(remainder=True, c_scope="cpu_cpu", good_share_ppm=600_000),
    LomarcModel(remainder=False, cpu="standard"),
]
IDS = ["remainder", "printed", "cpu_cpu", "standard"]


def c_by(model: LomarcModel) -> Callable[[Job, Job], Number]:
    return lambda one, other: c_of(model, one.id, one.usage, other.id, other.usage)


@pytest.mark.by_default(5)
@pytest.mark.parametrize("model", MODELS, ids=IDS)
@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_the_partner_of_the_head_is_that_of_the_reference(heuristic: str, model: LomarcModel) -> None:
    """Funnel, choice and slowdown of the first start are those of the reference, over many random queues."""
    cpu = cast(Cpu, model.cpu)
    table: dict[str, object] = {"name": heuristic, "cpu": cpu, "weak_load": 1.0}
    if heuristic == "response":
        table["future"] = "none"
    matched = 0
    for seed in range(25):
        random = Random(f"{heuristic}/{seed}")
        nodes = random.choice((2, 4, 16))
        specs = [draw_spec(random, number, nodes) for number in range(1, random.randint(10, 60))]
        head = specs[0]
        actions, trace = decisions(welcome(hyperthreaded(nodes), model, specs), matching=table, backfill="none")
        jobs = [job_of(spec) for spec in specs]
        index, funnel = find_match(
            jobs[0], jobs[1:], cast(Heuristic, heuristic), c_by(model), nodes, cpu, model.remainder
        )
        partners = trace[0].get("partners")
        assert trace[0]["job"] == head.id
        if partners is None:
            assert head.estimate_us <= 60 * SECOND_US
            assert (index, funnel.medium_or_long) == (None, 0)
            continue
        assert tuple(partners["left"].values()) == funnel[:-1]
        assert partners.get("selected", 0) == funnel.selected
        first = actions[0]
        if index is None:
            assert isinstance(first, StartJob)
            assert "partner" not in partners
            continue
        matched += 1
        chosen = specs[1:][index]
        assert isinstance(first, StartTogether)
        assert [start.job_id for start in first.starts] == [head.id, chosen.id]
        assert partners["partner"] == chosen.id
        usages = (jobs[0].usage, jobs[1 + index].usage)
        exact = slowdown(*usages, c_of(model, head.id, usages[0], chosen.id, usages[1]), model.remainder)
        assert partners["slowdown"] == pytest.approx(float(exact), rel=1e-12)
    assert matched > 5


def test_a_job_table_is_renewed() -> None:
    """Rows stay as long as they are needed; a renewed table starts empty, and owners of rows can detect that."""
    roster = JobTable()
    jobs = [spec_of(number, number % 9 + 1, 100, None) for number in range(1, 1501)]
    assert roster.rows(jobs[:3]).tolist() == [0, 1, 2]
    assert roster.rows(jobs[::-1])[-3:].tolist() == [2, 1, 0]
    assert (len(roster), roster.room >= 1500) == (1500, True)
    assert roster.columns(roster.rows(jobs[10:12])).sizes.tolist() == [3, 4]
    kept = roster.columns(roster.rows(jobs[10:12]))
    roster.renew(queued=250, model=None)
    assert (len(roster), roster.renewals) == (1500, 0)
    roster.renew(queued=249, model=None)
    assert (len(roster), roster.renewals) == (0, 1)
    assert kept.jobs == jobs[10:12]
    assert roster.rows(jobs[5:6]).tolist() == [0]
    assert roster.columns(roster.rows(jobs[5:6])).ids.tolist() == [6]
    roster.renew(queued=1000, model=LomarcPairs(MODELS[0]))  # with another model other jobs may share nodes
    assert (len(roster), roster.renewals) == (0, 2)


def best_host(
    newcomer: JobSpec, queue: list[JobSpec], hosts: list[RunningJob], heuristic: str, model: LomarcModel, nodes: int
) -> int | None:
    """Return the first of the hosts with the greatest profit above 0, by the reference."""
    best: int | None = None
    most: Number = 0
    job = job_of(newcomer)
    others = [(other.processes, Fraction(other.estimate_us, SECOND_US)) for other in queue if other.id != newcomer.id]
    for running in hosts:
        host = job_of(running.spec)
        c = c_of(model, host.id, host.usage, job.id, job.usage)
        sl = slowdown(host.usage, job.usage, c, model.remainder)
        if not matchable(host, job, cast(Cpu, model.cpu), c) or float(sl) > float(MAX_SLOWDOWN):
            continue
        left = Fraction(running.start_us + running.estimate_us - NOW_US, SECOND_US)
        profit: Number = 1
        if heuristic == "u1":
            profit = u_gain_1(host.size, left, job.size, job.time, sl)
        elif heuristic == "u2":
            profit = u_gain_2(host.size, job.size, sl)
        elif heuristic == "response":
            pair = ((host.size, left), (job.size, job.time))
            profit = response_time_impact(nodes, *pair, sl, (), others, running=True)
        if profit > most:
            best, most = host.id, profit
    return best


@pytest.mark.parametrize("model", MODELS, ids=IDS)
@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_the_host_of_each_newcomer_is_that_of_the_reference(heuristic: str, model: LomarcModel) -> None:
    """Running jobs that are alone on their nodes and not suspended may be joined; each pending job gets the reference's host."""
    joined = 0
    for seed in range(8):
        random = Random(f"{heuristic}/{seed}")
        nodes = 32
        running: list[RunningJob] = []
        alone: list[RunningJob] = []
        first = number = 0
        while first + 8 <= nodes:
            number += 1
            spec = draw_spec(random, 100 + number, 8)
            runs = runs_on((first, spec.processes, 1, 1))
            left_s = random.uniform(1, spec.estimate_us / SECOND_US)
            one = running_on(spec, runs, left_s, start_us=random.randint(0, 99))
            beside = random.choice(("nobody", "nobody", "nobody", "nobody", "somebody", "suspended"))
            if beside == "suspended":
                one = one._replace(suspended_us=99)
            running.append(one)
            if beside == "nobody":
                alone.append(one)
            if beside == "somebody":
                guest = draw_spec(random, 200 + number, 1)
                running.append(running_on(guest, runs_on((first, 1, 2, 1)), 100))
            first += spec.processes
        alone.sort(key=lambda job: (job.start_us, job.spec.id))
        queue = [draw_spec(random, number, 6) for number in range(1, 12)]
        view = view_of(welcome(hyperthreaded(nodes), model, queue, running))
        context = Context(view, Fcfs(), FirstFit(), NoMatching(), Spread(), NoPairing(), PendingJobs(queue))
        matching = Lookahead(HEURISTICS[heuristic], cpu=model.cpu, weak_load=1.0)
        join_candidates = set(matching.join_candidates(context))
        for job in queue:
            expected = best_host(job, queue, alone, heuristic, model, nodes)
            seat = matching.join(job, context, Unreserved())
            assert (job.id in join_candidates) == (expected is not None)
            assert (None if seat is None else cast(Guest, seat).host.job.id) == expected
            joined += expected is not None
    assert joined > 10
