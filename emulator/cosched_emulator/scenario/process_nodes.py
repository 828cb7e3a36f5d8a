"""Nodes that run processes: their settings, and the programs of jobs, from the sections of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Final

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.clusters import IterationNeed, NodeSettings, Program, WindowPlan
from cosched_emulator.nodeos.skeletons import paired_gang
from cosched_emulator.scenario.sections import WorkloadSection
from cosched_emulator.scenario.time_sharing import TimeSharingSection
from cosched_emulator.workload.job import WARNING, JobProgram, Programs, Workload, WorkloadJob
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_emulator.workload.nas import LABELS, PREFIX, NasKind, kind_of
from cosched_emulator.workload.side_files.job_programs import PROGRAMS, parameters_of, with_memory, with_programs
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM
from cosched_plugin.protocol.messages import NodeClass

ODD: Final = 0.05  # part of a job's run time by which its program may be off without a warning
_MS_US = 1_000
_QCRD = {"qcrd": "published", "qcrd-even": "even"}


def node_settings(section: TimeSharingSection) -> NodeSettings:
    """Return what the nodes are like inside. Raises ConfigurationError for a policy that does not exist, or wrong parameters."""
    same = {item.name for item in fields(NodeSettings)} & {item.name for item in fields(section)}
    values = {name: getattr(section, name) for name in same}
    if section.coscheduling is None:
        values["coscheduling"] = "nls" if section.nodes == "windows" else "none"
    values["coscheduling_parameters"] = tuple(sorted((section.coscheduling_parameters or {}).items()))
    try:
        return NodeSettings(
            **values,
            slice_us=round(section.slice_ms * _MS_US),
            tick_us=round(section.tick_ms * _MS_US),
            io_logged_ppm=round(section.io_logged * WHOLE_PPM),
        )
    except ConfigurationError as error:
        path = f"time_sharing.{error.path}"
        raise ConfigurationError(path, error.expected, error.got, error.suggestion) from None


def window_plan(section: TimeSharingSection) -> WindowPlan:
    """Return for how long nodes are simulated exactly after a change. Raises ConfigurationError for a range without values."""
    if section.window_max_s < section.window_min_s:
        expected = f"at least window_min_s, {section.window_min_s:g}"
        raise ConfigurationError("time_sharing.window_max_s", expected, f"{section.window_max_s:g}")
    return WindowPlan(round(section.window_min_s * SECOND_US), round(section.window_max_s * SECOND_US))


def check_nodes(section: TimeSharingSection, nodes: Sequence[NodeClass], workload: Workload) -> None:
    """Raise ConfigurationError for nodes that cannot be or cannot run the jobs' programs, and for jobs larger than a node's memory."""
    node_settings(section)
    window_plan(section)
    for item in nodes:
        cores = item.cores
        if cores > 1:
            expected = (
                'nodes of one core (preset = "single", or a layout such as "1x1x2"): [time_sharing] has one CPU a node'
            )
            raise ConfigurationError("cluster", expected, f"{cores} cores")
    programs = workload.programs
    assert programs is not None
    if section.nodes == "fluid":
        for program in (programs.usual, *programs.by_job.values()):
            if program.name.startswith(PREFIX):
                expected = f'"windows" or "exact": processes of {program.name} exchange messages'
                raise ConfigurationError("time_sharing.nodes", expected, '"fluid"')
    if section.memory_mb:
        most_mb = max(map(programs.memory_mb, workload.jobs), default=0)
        if most_mb > section.memory_mb:
            expected = f"at least the memory of the largest process, {most_mb}"
            raise ConfigurationError("time_sharing.memory_mb", expected, str(section.memory_mb))


def add_programs(workload: Workload, section: WorkloadSection) -> Workload:
    """Return the workload with what its jobs' processes do. Raises InputError or ConfigurationError."""
    jitter_ppm = None if section.jitter is None else round(section.jitter * WHOLE_PPM)
    share_ppm = round(section.cpu_share * WHOLE_PPM)
    usual = JobProgram("fine", share_ppm, section.null_statements, section.files, None, jitter_ppm, section.grain)
    jobs = columns_of(workload.jobs)
    if section.nas is not None:
        names = [name.rpartition(".")[0] for name in jobs.each(jobs.name)]  # without the number of processes
        own = {job: usual._replace(name=PREFIX + name) for job, name in zip(jobs.each(jobs.id), names, strict=True)}
        return workload._replace(programs=with_memory(Programs(usual, own), jobs))
    name = "fine" if section.programs is None else section.programs
    if parameters_of(name) is not None:
        return workload._replace(programs=with_memory(Programs(usual._replace(name=name), {}), jobs))
    if not name.endswith(".csv"):
        known = (*PROGRAMS, *[PREFIX + label for label in LABELS], "FILE.csv")
        raise ConfigurationError.unknown_name("workload.programs", name, known)
    return with_programs(workload, name, usual)


def with_odd_lengths(workload: Workload, section: TimeSharingSection, seed: int) -> Workload:
    """Add a warning where programs take other times alone than the run times of their jobs: they have whole iterations."""
    assert workload.programs is not None
    settings = node_settings(section)
    odd = []
    for job in workload.jobs:
        alone_us = _alone_us(workload.programs.of(job.spec.id), job, settings, seed)
        if alone_us is not None and abs(alone_us - job.run_us) > ODD * job.run_us:
            odd.append((job.spec.id, alone_us / SECOND_US, job.run_us / SECOND_US))
    if not odd:
        return workload
    job_id, alone_s, run_s = odd[0]
    text = (
        f"{WARNING}programs of {len(odd)} jobs take other times alone than the run times that the jobs have, as they have whole"
        f" iterations; job {job_id}: {alone_s:.3g} s, not {run_s:.3g} s. Slowdowns and loads are relative to the latter"
    )
    return workload._replace(notes=(*workload.notes, text))


def _alone_us(wanted: JobProgram, job: WorkloadJob, settings: NodeSettings, seed: int) -> float | None:
    """Return how long a job's program takes alone, without jitter; None where the number of iterations was asked for."""
    processes = job.spec.processes
    if wanted.name.startswith(PREFIX):
        kind = kind_of(wanted.name.removeprefix(PREFIX), processes, "workload.programs")
        iterations, whole = _iterations(wanted, kind, job.run_us)
        return kind.seconds * SECOND_US * iterations / whole
    if wanted.iterations is not None or not job.run_us:
        return None
    loops = _program(wanted, job, settings, seed).loops
    return sum(loop.times * IterationNeed(loop.body_of(0), processes, settings).length_us for loop in loops)


def program_maker(programs: Programs, settings: NodeSettings, seed: int) -> Callable[[WorkloadJob], Program]:
    """Return the function that makes the program of a job."""
    return partial(_program_of, programs, settings, seed)  # no closure: a live manager's state is written to a file


def _program_of(programs: Programs, settings: NodeSettings, seed: int, job: WorkloadJob) -> Program:
    return _program(programs.of(job.spec.id), job, settings, seed)


def _program(wanted: JobProgram, job: WorkloadJob, settings: NodeSettings, seed: int) -> Program:
    if wanted.name.startswith(PREFIX):
        return _skeleton(wanted, job)
    seconds = job.run_us / SECOND_US
    jitter_ppm = paired_gang.JITTER_PPM if wanted.jitter_ppm is None else wanted.jitter_ppm
    barrier_us = settings.barrier_us
    match wanted.name:
        case "fine":
            return paired_gang.fine_program(seconds, wanted.cpu_share_ppm, jitter_ppm, barrier_us)
        case "uniform":
            return paired_gang.fine_program(
                seconds, paired_gang.uniform_share_ppm(seed, job.spec.id), jitter_ppm, barrier_us
            )
        case "qcrd" | "qcrd-even":
            return paired_gang.qcrd_program(
                seconds, paired_gang.QCRD[_QCRD[wanted.name]], jitter_ppm=jitter_ppm, barrier_us=barrier_us
            )
        case "compute":
            jitter_ppm = paired_gang.STATIC_JITTER_PPM if wanted.jitter_ppm is None else wanted.jitter_ppm
            return _of_length(paired_gang.compute_program(1, wanted.null_statements, jitter_ppm), wanted, job, settings)
        case "io":
            return _of_length(paired_gang.io_program(1, wanted.files), wanted, job, settings)
    raise ValueError(f"no program {wanted.name!r}")


def _skeleton(wanted: JobProgram, job: WorkloadJob) -> Program:
    """Return a skeleton with as many iterations as wanted, or as fit the job's run time alone."""
    from cosched_emulator.nodeos.skeletons.nas_programs import JITTER_PPM as USUAL_PPM  # noqa: PLC0415 - few scenarios need it
    from cosched_emulator.nodeos.skeletons.nas_programs import skeleton_program  # noqa: PLC0415 - likewise

    kind = kind_of(wanted.name.removeprefix(PREFIX), job.spec.processes, "workload.programs")
    iterations, _ = _iterations(wanted, kind, job.run_us)
    jitter_ppm = USUAL_PPM if wanted.jitter_ppm is None else wanted.jitter_ppm
    return skeleton_program(*kind, kind.seconds, iterations, jitter_ppm, wanted.grain)


def _iterations(wanted: JobProgram, kind: NasKind, run_us: int) -> tuple[int, int]:
    """Return how many iterations a job's skeleton has, and how many it has in the whole time alone of its kind."""
    from cosched_emulator.nodeos.skeletons.nas_programs import iterations_of  # noqa: PLC0415 - few scenarios need it

    whole = iterations_of(*kind, wanted.grain)
    return wanted.iterations or max(1, round(whole * run_us / (kind.seconds * SECOND_US))), whole


def _of_length(program: Program, wanted: JobProgram, job: WorkloadJob, settings: NodeSettings) -> Program:
    """Return a program of one loop with as many iterations as wanted, or as fit the job's run time alone."""
    (loop,) = program.loops
    iterations = wanted.iterations
    if iterations is None:
        iterations = max(1, round(job.run_us / IterationNeed(loop.body_of(0), job.spec.processes, settings).length_us))
    return Program((loop._replace(times=iterations),))
