"""The division of nodes among the jobs of a group, where the site's belief tells threads apart."""

from __future__ import annotations

from typing import Any

from tests.plugin.policies.cases import NOW_US, welcome_of
from tests.plugin.policies.glomarc.glts_cases import nodes_of, spec_of
from tests.plugin.policies.lomarc.test_seats import NAME, Seats
from tests.runs import runs_on

from cosched_hwmodel.models.by_name import AllowedModels
from cosched_hwmodel.models.custom import CustomModel
from cosched_plugin.api import Running, StartTogether
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.glomarc.formation import CPUS, SIDES, Found, best_division
from cosched_plugin.policies.glomarc.upkeep import Member, evolve
from cosched_plugin.policies.placement.spread import NodeHalves
from cosched_plugin.protocol.messages import Belief, JobSpec

MODELS = AllowedModels([NAME])
ALIKE = (1_000_000, 1_000_000)  # a job that does not slow itself down, wherever it is


def core_of(*jobs: JobSpec) -> tuple[SchedulerCore, list[dict[str, Any]]]:
    """Return a core for one node of two CPUs with two cores each."""
    records: list[dict[str, Any]] = []
    welcome = welcome_of([nodes_of(1)], (), jobs, Belief(NAME, "bulk-synchronous", ()))
    settings = {"preset": "cst", "matching": {"name": "group", "low_load": "none", "short_s": 0.0}, "slices": "none"}
    return SchedulerCore(compose(settings), welcome, records.append, models=MODELS), records


def found_of(primary: JobSpec, matched: JobSpec, halves: NodeHalves, running: Running | None = None) -> Found:
    members = [
        Member(job, float(job.estimate_us), halves.footprint(job, 2).factor, 2, 1, started)
        for job, started in ((primary, running), (matched, None))
    ]
    return Found(members[0], (members[1],), evolve(members[0], members[1:]))


def divide(primary: JobSpec, matched: JobSpec, running: Running | None = None, **costs: float) -> Any:
    core, _ = core_of(primary, matched)
    halves = NodeHalves(core.view.machine.classes[0])
    model = CustomModel("seats", lambda: Seats(**costs)).make_pairs(())
    division, compared = best_division(
        found_of(primary, matched, halves, running), [[0], [0]], halves, model, core.view
    )
    return division, compared


def test_jobs_get_a_cpu_each_where_sockets_are_shared() -> None:
    division, compared = divide(spec_of(1, 2, 9000, ALIKE), spec_of(2, 2, 9000, ALIKE))
    assert compared == {SIDES: 1.25, CPUS: 1.0}
    assert division.name == CPUS
    assert division.runs == (runs_on((0, 1, 0b0011, 2)), runs_on((0, 1, 0b1100, 2)))
    (matched,) = division.found.matched
    assert (matched.beside, matched.beside_it) == (1.0, 1.0)
    assert division.found.outcome.spans_us == (9_000_000_000, 9_000_000_000)


def test_a_running_job_stays_where_it_is() -> None:
    job = spec_of(1, 2, 9000, ALIKE)
    running = Running(job, 0, NOW_US + 5, runs_on((0, 1, 0b0101, 2)), (), 0, 2, None)
    division, compared = divide(job, spec_of(2, 2, 9000, ALIKE), running)
    assert compared == {SIDES: 1.25}
    assert division.runs[1] == runs_on((0, 1, 0b1010, 2))


def test_a_group_starts_on_its_threads_and_says_why() -> None:
    core, records = core_of(*[spec_of(number, 2, 9000, ALIKE) for number in (1, 2)])
    together = next(action for action in core.handle(NOW_US, ()) if isinstance(action, StartTogether))
    assert [start.runs for start in together.starts] == [runs_on((0, 1, 0b0011, 2)), runs_on((0, 1, 0b1100, 2))]
    told = next(record["group"] for record in records if record["kind"] == "start")
    assert told["seat"] == {"chosen": CPUS, "compared": {SIDES: 1.25, CPUS: 1.0}}
    assert told["resource"] == "slots"
