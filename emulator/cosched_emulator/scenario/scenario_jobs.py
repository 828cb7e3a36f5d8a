"""The jobs of a scenario: read from a log or drawn from a model, then completed with the scenario's settings for jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from cosched_emulator import offered
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.scenario.sections import WorkloadSection
from cosched_emulator.workload import beliefs
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.jobs_in_columns import Same, columns_of
from cosched_hwmodel.units import WHOLE_PPM
from cosched_hwmodel.usage import RESOURCES
from cosched_plugin.protocol.messages import DemandTuple


def build_workload(scenario: Scenario, cores: int, nodes: int = 0) -> Workload:
    """Return the scenario's jobs, for a machine with these numbers of cores and nodes; a log needs them only if its jobs grow.

    A log's load without them is that on the machine that it names.

    Raises InputError for a file that cannot be read, and ConfigurationError for an impossible workload.
    """
    section = scenario.workload
    workload = _source(scenario, cores, nodes)
    if section.estimates not in (None, offered.PREDICTED):
        workload = beliefs.with_estimates(workload, section.estimates, section.estimate_factor, scenario.seed)
    workload = _with_demand(workload, scenario)
    workload = _with_usage(workload, scenario)
    workload = _with_self_slowdowns(workload, scenario, cores)
    if section.profiles is not None:
        from cosched_emulator.workload.side_files.annotations import with_profiles  # noqa: PLC0415 - few workloads have them

        workload = with_profiles(workload, section.profiles, told=scenario.belief.profiles == "exact")
    if section.exclusive or section.memory_mb:
        jobs = columns_of(workload.jobs)
        workload = workload._replace(
            jobs=jobs.having(
                exclusive=Same(section.exclusive),
                memory_mb=Same(section.memory_mb) if section.memory_mb else jobs.memory_mb,
            )
        )
    if section.opted_in < 1.0:
        workload = beliefs.with_opted_in(workload, section.opted_in, scenario.seed)
    workload = _with_load(workload, scenario, cores)
    if section.annotations is not None:
        from cosched_emulator.workload.side_files.annotations import by_run  # noqa: PLC0415 - as above

        workload = by_run(workload)
    if scenario.time_sharing is not None:
        from cosched_emulator.scenario.process_nodes import add_programs  # noqa: PLC0415 - few scenarios share time

        workload = add_programs(workload, section)
    return workload


def _with_load(workload: Workload, scenario: Scenario, cores: int) -> Workload:
    """Return the complete jobs brought to the scenario's load, and then shaken: load and submissions do not depend on shaking.

    Predicted estimates come between: what is known at a submission depends on the load.
    """
    section = scenario.workload
    predicted = section.estimates == offered.PREDICTED
    if section.load is None and not section.shake and not predicted:
        return workload
    from cosched_emulator.workload.scaling import with_load, with_shaken_runs  # noqa: PLC0415 - as above

    if section.load is not None:
        machine = cores or workload.processors
        if machine is None:
            raise ConfigurationError("workload.load", "a size of the cluster: the log names no machine", "none")
        workload = with_load(workload, section.load, machine)
    if predicted:
        workload = beliefs.with_estimates(workload, offered.PREDICTED)
    if section.shake:
        workload = with_shaken_runs(workload, section.shake, section.shake_seed, scenario.seed)
    return workload


def _source(scenario: Scenario, cores: int, nodes: int) -> Workload:
    """Return the jobs of the log or the model, unchanged."""
    section = scenario.workload
    if section.swf is not None:
        return _named(read_log(section), scenario)
    if section.nas is not None:
        return _nas(section, section.nas, scenario.seed)
    if section.lublin is None:
        if section.applications is not None:
            return _applications(section, section.applications, scenario.seed)
        return Workload((), None, "users")  # users will submit all jobs
    from cosched_emulator.workload.lublin import LublinParameters, generate  # noqa: PLC0415 - only the model needs it

    parameters = LublinParameters(aarr=section.aarr, gap_factor=section.gap_factor, run_factor=section.run_factor)
    size = section.lublin_size or ("nodes" if section.grow else "cores")
    processors = nodes if size == "nodes" else cores
    return _named(generate(section.lublin, processors, parameters, scenario.seed, section.limits or "none"), scenario)


def read_log(section: WorkloadSection) -> Workload:
    """Return the jobs of the section's log, or of its window."""
    from cosched_emulator.workload.swf.swf_reader import Limits, SwfOptions, read_swf  # noqa: PLC0415 - only logs need it

    assert section.swf is not None
    options = SwfOptions(
        cap_run_at_estimate=section.cap_runs,
        minimum_estimate_s=section.minimum_estimate_s,
        skip_bad_rows=section.skip_bad_rows,
        limits=cast(Limits, section.limits or "estimate"),
        memory=section.log_memory and not section.memory_mb,
    )
    return read_swf(section.swf, options, section.first, section.jobs)


def _nas(section: WorkloadSection, jobs: int, seed: int) -> Workload:
    """Return random jobs of the NAS programs."""
    from cosched_emulator.workload.nas import NasParameters, generate  # noqa: PLC0415 - few scenarios need it

    parameters = NasParameters(
        section.nas_programs, section.nas_classes, section.nas_sizes, section.gap_s, section.nas_memory_mb
    )
    return generate(jobs, parameters, seed, section.limits or "none", told_memory=section.memory == "aware")


def _applications(section: WorkloadSection, file: str, seed: int) -> Workload:
    """Return random jobs of the applications in a table of co-runs."""
    from cosched_emulator.scenario.co_runs import co_run_table  # noqa: PLC0415 - few scenarios need it
    from cosched_emulator.workload.side_files.applications import ApplicationParameters, generate  # noqa: PLC0415 - likewise

    parameters = ApplicationParameters(
        section.application_names, section.application_processes, section.gap_s, section.shuffle_seed
    )
    table = co_run_table(file, "workload.applications")
    return generate(table, section.jobs, parameters, seed, section.limits or "none")


def _named(workload: Workload, scenario: Scenario) -> Workload:
    """Return the workload with applications of a table as the jobs' names, where the scenario says so."""
    section = scenario.workload
    if section.applications is None:
        return workload
    from cosched_emulator.scenario.co_runs import co_run_table  # noqa: PLC0415 - few scenarios need it
    from cosched_emulator.workload.side_files.applications import with_applications  # noqa: PLC0415 - likewise

    table = co_run_table(section.applications, "workload.applications")
    return with_applications(workload, table, section.application_names, scenario.seed)


def _with_demand(workload: Workload, scenario: Scenario) -> Workload:
    """Return the workload with the jobs' bandwidth demand, and the scheduler's knowledge of it."""
    section = scenario.workload
    if section.mix is None:
        return workload
    from cosched_emulator.workload.characteristics import DemandLevels, parse_mix, with_demand  # noqa: PLC0415 - few workloads have demands

    levels = DemandLevels(
        *(_demand(getattr(section, f"demand_{name}"), f"workload.demand_{name}") for name in DemandLevels._fields)
    )
    return with_demand(workload, parse_mix(section.mix), scenario.seed, levels, scenario.belief.demand)


def _demand(rates: Sequence[int], path: str) -> DemandTuple:
    if len(rates) != len(RESOURCES):
        raise ConfigurationError(path, f"three rates in MB/s ({', '.join(RESOURCES)})", str(list(rates)))
    return (rates[0], rates[1], rates[2])


def _with_usage(workload: Workload, scenario: Scenario) -> Workload:
    """Return the workload with the jobs' true usage of their nodes, and the scheduler's knowledge of it."""
    section, belief = scenario.workload, scenario.belief
    if section.characteristics is not None:
        from cosched_emulator.workload.characteristics import with_characteristics_of  # noqa: PLC0415 - likewise

        workload = with_characteristics_of(workload, section.characteristics, scenario.seed)
    if section.self_slowdowns is not None:
        from cosched_emulator.workload.multicore import with_self_slowdowns  # noqa: PLC0415 - likewise

        workload = with_self_slowdowns(workload, scenario.seed)
    if section.annotations is not None:
        from cosched_emulator.workload.side_files.annotations import read_annotations, with_annotations  # noqa: PLC0415 - few workloads have a side file

        workload = with_annotations(workload, read_annotations(section.annotations))
    told = beliefs.UsageBelief(belief.usage, belief.usage_noise, belief.usage_bias, belief.usage_missing)
    return beliefs.with_usage_belief(workload, told, scenario.seed)


def _with_self_slowdowns(workload: Workload, scenario: Scenario, cores: int) -> Workload:
    """Return the workload with the sizes that result from self slowdowns, and the scheduler's knowledge of the slowdowns."""
    section, belief = scenario.workload, scenario.belief
    if section.grow:
        if not cores:
            raise ConfigurationError("workload.grow", "a size of the cluster: jobs outgrow the log's machine", "none")
        from cosched_emulator.workload.multicore import with_grown_sizes  # noqa: PLC0415 - few workloads grow

        max_slowdown_ppm = round(section.grow_max_slowdown * WHOLE_PPM)
        cpus_ppm = round(section.grow_max_slowdown_cpus * WHOLE_PPM)
        workload = with_grown_sizes(workload, cores, max_slowdown_ppm, cpus_ppm)
    told = beliefs.SelfBelief(belief.self_slowdowns, belief.self_noise)
    return beliefs.with_self_belief(workload, told, scenario.seed)
