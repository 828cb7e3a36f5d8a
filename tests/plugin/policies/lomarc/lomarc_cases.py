"""Queues and machines for LOMARC, for the policies and for the reference."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from random import Random

from tests.plugin.policies.cases import NOW_US, welcome_of
from tests.reference.lomarc import WHOLE_PPM, Job, Number, Usage, effective_c
from tests.runs import draw_usage

from cosched_emulator.workload.characteristics import CHARACTERISTICS
from cosched_hwmodel.lomarc.lomarc_model import LomarcModel
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.trace import TraceRecord
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import WholeNodesView
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol import messages as m

SECOND_US = 1_000_000
GOOD = LomarcModel(remainder=True, good_share_ppm=WHOLE_PPM)  # every pair has the low c


def belief_of(model: LomarcModel) -> m.Belief:
    return m.Belief(model.name, "bulk-synchronous", (), model.parameters())


def hyperthreaded(nodes: int, cores: int = 1) -> m.NodeClass:
    return m.NodeClass(nodes, 1, cores, 2, 512, 0, 0, 0)


def spec_of(number: int, size: int, seconds: float, usage: m.UsageTuple | None, submit_us: int = NOW_US) -> m.JobSpec:
    return m.JobSpec(number, submit_us, size, round(seconds * SECOND_US), usage=usage)


def draw_spec(random: Random, number: int, nodes: int, mix: str = "M1") -> m.JobSpec:
    """Draw a job that takes from 20 s to 20 h, and mostly more than a minute."""
    seconds = round(20 * 3600 ** random.random())
    return spec_of(number, random.randint(1, nodes), seconds, draw_usage(CHARACTERISTICS[mix], 5, number))


def usage_of(usage: m.UsageTuple | None) -> Usage:
    assert usage is not None
    bound, *parts = usage
    assert bound in ("cpu", "network", "disk")
    cpu, network, disk, memory = (Fraction(part, WHOLE_PPM) for part in parts)
    return Usage(bound, cpu, network, disk, memory)  # type: ignore[arg-type]  # mypy does not narrow by membership


def job_of(spec: m.JobSpec) -> Job:
    return Job(spec.id, spec.processes, Fraction(spec.estimate_us, SECOND_US), usage_of(spec.usage))


def c_of(model: LomarcModel, one: int, a: Usage, other: int, b: Usage) -> Number:
    """Return the effective c of a pair by the reference; only the draw is the model's."""
    drawn = LomarcModel(pair_seed=model.pair_seed, good_share_ppm=model.good_share_ppm).c_ppm(one, "cpu", other, "cpu")
    return effective_c(
        a.bound,
        b.bound,
        Fraction(drawn, WHOLE_PPM),
        "standard" if model.cpu == "standard" else "hyperthreaded",
        "all" if model.c_scope == "all" else "cpu_cpu",
    )


def welcome(
    nodes: m.NodeClass,
    model: LomarcModel,
    waiting: Sequence[m.JobSpec],
    running: Sequence[m.RunningJob] = (),
    notes: Sequence[m.Note] = (),
) -> m.Welcome:
    return welcome_of([nodes], running, waiting, belief_of(model))._replace(notes=tuple(notes))


def view_of(told: m.Welcome) -> View:
    """Return the view of matchings: whole nodes."""
    return WholeNodesView(SchedulerCore(compose({"preset": "pss"}), told).view)


def decisions(told: m.Welcome, **table: object) -> tuple[list[m.Action], list[TraceRecord]]:
    """Return the first decisions and the trace of a composition; its order is fcfs by default."""
    trace: list[TraceRecord] = []
    settings = {"preset": "pss", "order": "fcfs", **table}
    core = SchedulerCore(compose(settings), told, trace=trace.append)
    actions = core.handle(NOW_US, ())
    core.check()
    assert core.handle(NOW_US, ()) == []
    return actions, trace


def running_on(spec: m.JobSpec, runs: tuple[m.Run, ...], left_s: float, start_us: int = 0) -> m.RunningJob:
    """Return a running job with this much left of its expected time."""
    end_us = NOW_US + round(left_s * SECOND_US)
    return m.RunningJob(spec._replace(submit_us=0), start_us, runs, end_us - start_us, None)
