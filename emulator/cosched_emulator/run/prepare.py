"""From a scenario to a prepared run: all its settings are checked, and all its parts built, once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cosched_emulator.bounds import check_bounds
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.figures.metrics import Selection
from cosched_emulator.scenario.faults import Faults
from cosched_emulator.scenario.hardware import Hardware, build_belief, build_hardware, contends
from cosched_emulator.scenario.limits import NO_RULES, Rules, binds
from cosched_emulator.scenario.machine import BuiltMachine, build_nodes, cores_of, of_file
from cosched_emulator.scenario.planned_events import Scripted, build_faults, build_reservations, build_script
from cosched_emulator.scenario.rules import check_rules, settings_without_effect
from cosched_emulator.scenario.scenario_jobs import build_workload
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.scenario.sections import ClusterSection
from cosched_emulator.workload.job import WARNING, Workload
from cosched_emulator.workload.jobs_in_columns import Same, check_span, columns_of
from cosched_hwmodel.energy import NodePower
from cosched_hwmodel.quick_classes import frozen
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import Amounts, Belief, NodeClass

if TYPE_CHECKING:
    from cosched_emulator.scenario.difficult_manager import Lags, OwnPlan


@frozen
class Prepared:
    """A scenario that is checked and built. It never changes, so any number of runs can use it, also at the same time."""

    scenario: Scenario
    nodes: tuple[NodeClass, ...]
    workload: Workload
    hardware: Hardware
    contends: bool  # whether jobs of the workload can slow each other down
    belief: Belief
    faults: Faults
    script: tuple[Scripted, ...]
    selection: Selection  # the jobs that count
    described: ClusterSection  # [cluster], with the limits and watts that its file gives
    licences: Amounts = ()  # of the whole machine
    power: tuple[NodePower, ...] | None = None  # watts of each class of nodes; None: unknown, so no energy is computed
    lags: Lags | None = None  # of the manager; None: it has none
    own: OwnPlan | None = None  # what the manager does by itself; None: nothing
    rules: Rules = NO_RULES
    gated: bool = False  # whether anything but the scheduler keeps jobs back

    @property
    def quantum_us(self) -> int | None:
        """Return the length of a quantum; None: jobs do not share time."""
        section = self.scenario.time_sharing
        return None if section is None else round(section.quantum_s * SECOND_US)


def prepare(scenario: Scenario) -> Prepared:
    """Check the scenario, read or generate its jobs, and build the common parts of its runs.

    Raises InputError for a file that cannot be read, ConfigurationError for anything else that is wrong in the scenario.
    """
    check_bounds(scenario)
    check_rules(scenario)
    hardware = build_hardware(scenario)
    belief = build_belief(scenario, hardware)
    (nodes, names, licences, power, described), workload = _nodes_and_workload(scenario)
    nodes, apart = _of_table(scenario, hardware, nodes, names)
    check_span(columns_of(workload.jobs))
    _check_selection(scenario, len(workload.jobs))
    if scenario.time_sharing is not None:
        from cosched_emulator.scenario.process_nodes import check_nodes, with_odd_lengths  # noqa: PLC0415 - few scenarios share time

        check_nodes(scenario.time_sharing, nodes, workload)
        if workload.jobs and scenario.workload.nas is None:
            workload = with_odd_lengths(workload, scenario.time_sharing, scenario.seed)
    workload = _with_warnings(replace(scenario, cluster=described), nodes, workload)
    lags, own, notes = _difficult(scenario, workload)
    without = _without_ratios(hardware, workload)
    count = sum(item.nodes for item in nodes)
    rules, unknown = _rules(scenario, workload, count)
    rules = rules._replace(apart=apart)
    more = [note for note in (without, unknown) if note is not None]
    workload = workload._replace(notes=(*workload.notes, *notes, *more))
    return Prepared(
        scenario,
        nodes,
        workload,
        hardware,
        contends(hardware, workload),
        belief,
        build_faults(scenario, count),
        build_script(scenario, count, len(workload.jobs)),
        Selection(scenario.results.warmup, scenario.results.cooldown),
        described,
        licences,
        power,
        lags,
        own,
        rules,
        rules != NO_RULES or binds(workload),
    )


def _without_ratios(hardware: Hardware, workload: Workload) -> str | None:
    if hardware.pairs is None:
        return None
    from cosched_emulator.scenario.co_runs import jobs_without_ratios  # noqa: PLC0415 - few scenarios have a table

    return jobs_without_ratios(hardware.pairs, workload)


def _of_table(
    scenario: Scenario, hardware: Hardware, nodes: tuple[NodeClass, ...], names: tuple[str, ...]
) -> tuple[tuple[NodeClass, ...], frozenset[str]]:
    """Return the nodes with what the true table of co-runs says of them, and the applications some of which are never together."""
    if hardware.pairs is None:
        return nodes, frozenset()
    from cosched_emulator.scenario.co_runs import on_nodes  # noqa: PLC0415 - few scenarios have a table

    return on_nodes(scenario, nodes, names)


def _difficult(scenario: Scenario, workload: Workload) -> tuple[Lags | None, OwnPlan | None, list[str]]:
    """Return the lags of the manager, what it does by itself, and warnings about them."""
    if scenario.manager is None:
        return None, None, []
    from cosched_emulator.scenario import difficult_manager as manager  # noqa: PLC0415 - few scenarios have one

    lags = manager.build_lags(scenario.manager, scenario.seed)
    idle = lags is not None and scenario.clock.mode == "virtual" and manager.names_no_job(lags, workload)
    text = f"{WARNING}manager.lags: the file names none of the {len(workload.jobs)} jobs"
    return lags, manager.build_own_plan(scenario.manager, scenario.seed), [text] * idle


def _rules(scenario: Scenario, workload: Workload, nodes: int) -> tuple[Rules, str | None]:
    """Return the tables of a site, and a warning about jobs that name none of its partitions."""
    reservations = build_reservations(scenario, nodes)
    if not (scenario.partitions or scenario.accounts or scenario.limits):
        return NO_RULES._replace(reservations=reservations), None
    from cosched_emulator.scenario.site_tables import build_rules, unknown_partitions  # noqa: PLC0415 - few scenarios have these

    rules = build_rules(scenario.partitions, scenario.accounts, scenario.limits, nodes)
    return rules._replace(reservations=reservations), unknown_partitions(workload, rules)


def _nodes_and_workload(scenario: Scenario) -> tuple[BuiltMachine, Workload]:
    """Build the machine and the jobs: a model's jobs depend on the machine's size, and a log may give the machine's size."""
    cluster = scenario.cluster
    if scenario.workload.swf is None or cluster.nodes or cluster.processors or cluster.file:
        machine = build_nodes(cluster)
        nodes = machine.nodes
        return machine, build_workload(scenario, cores_of(nodes), sum(item.nodes for item in nodes))
    workload = build_workload(scenario, 0)
    if workload.processors is None:
        given = "a number of nodes (--nodes) or of processors (--processors), or a file of node classes (--machine)"
        why = "".join([f" ({note})" for note in workload.warnings if "MaxProcs" in note or "MaxNodes" in note])
        expected = f"{given}: the log names no MaxProcs or MaxNodes that can be read{why}"
        raise ConfigurationError("cluster.nodes", expected, "none")
    return build_nodes(cluster, workload.processors), workload


def _check_selection(scenario: Scenario, jobs: int) -> None:
    """Raise ConfigurationError if no job counts in the results, unless users will submit more."""
    left_out = scenario.results.warmup + scenario.results.cooldown
    if left_out and left_out >= jobs and scenario.clock.mode == "virtual":
        key = "warmup" if scenario.results.warmup else "cooldown"
        raise ConfigurationError(
            f"results.{key}", f"fewer jobs in warmup and cooldown than there are, {jobs}", str(left_out)
        )


def _with_warnings(scenario: Scenario, nodes: tuple[NodeClass, ...], workload: Workload) -> Workload:
    """Return the workload with notes of settings without effect, and of jobs that need more memory than any node has."""
    notes = [f"{WARNING}{of_file(text, scenario.cluster)}" for text in settings_without_effect(scenario)]
    if scenario.truth.contention == "composite" and scenario.workload.profiles is None:
        notes.append(f"{WARNING}composite slows jobs down by their profiles, and none has one (--profiles FILE)")
    if scenario.workload.swf is not None and not scenario.workload.memory_mb:
        jobs = columns_of(workload.jobs)
        most_mb = max(item.memory_mb for item in nodes)
        too_large = 0 if isinstance(jobs.memory_mb, Same) else sum(mb > most_mb for mb in jobs.each(jobs.memory_mb))
        if too_large:
            notes.append(
                f"{WARNING}{too_large} jobs request more memory a process than any node has, {most_mb} MiB, and cannot run "
                "(--no-log-memory ignores what they request)"
            )
    return workload._replace(notes=(*workload.notes, *notes))
