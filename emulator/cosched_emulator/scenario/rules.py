"""Rules for settings that depend on each other in other ways than by what they need, which their annotations say.

The builders of machine and jobs check the rules that depend on these.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Final

from cosched_emulator.bounds import changed
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.needs import SOURCES, unmet
from cosched_emulator.scenario.schema import ClockSection, Scenario, ScriptEntry
from cosched_emulator.scenario.sections import ClusterSection, WorkloadSection
from cosched_hwmodel.errors import Unwanted
from cosched_hwmodel.topology import parse_layout

if TYPE_CHECKING:
    from cosched_emulator.scenario.fault_sections import FaultEntry, FaultsSection

_NAMED: Final = ("swf", "lublin")  # whose jobs `applications` may name


def check_rules(scenario: Scenario) -> None:
    """Raise ConfigurationError for the first settings that contradict each other. Each alone is within its bounds."""
    _check_clock(scenario.clock)
    runs = scenario.clock.mode != "virtual"
    if runs and scenario.policy:
        raise ConfigurationError("policy", Unwanted("the scheduler that connects brings its own"))
    check_cluster(scenario.cluster)
    _check_workload(scenario.workload, users=runs)
    for setting, need in unmet(scenario, lambda need: not need.refused or need.met(scenario)):
        got = "a table" if is_dataclass(setting.value) else _toml(setting.value)
        raise ConfigurationError(setting.path, Unwanted(f"it has no effect {need.told}"), got)
    if scenario.faults is not None:
        for index, fault in enumerate(scenario.faults.at):
            _check_fault(fault, f"faults.at[{index}]")
    for index, entry in enumerate(scenario.script):
        _check_script_entry(entry, f"script[{index}]")
    if scenario.time_sharing is not None:
        _check_speeds(scenario.faults)


def settings_without_effect(scenario: Scenario) -> list[str]:
    """Return a line for each setting without effect, because something that it needs is missing."""
    idle = ["[manager] has no effect: all its keys have their defaults"] * (
        scenario.manager is not None and not any(changed(scenario.manager))
    )
    found = unmet(scenario, lambda need: need.met(scenario))
    return idle + [f"{setting.path} has no effect {need.told}" for setting, need in found]


def _check_clock(clock: ClockSection) -> None:
    scaled = clock.mode == "scaled"
    if (clock.speed is not None) != scaled:
        expected = "emulated seconds per second, a number" if scaled else Unwanted("only a scaled clock has a speed")
        raise ConfigurationError("clock.speed", expected, "none" if clock.speed is None else str(clock.speed))


def check_cluster(cluster: ClusterSection) -> None:
    """Raise ConfigurationError if settings of a machine contradict each other."""
    if cluster.file is not None and cluster != ClusterSection(file=cluster.file):
        plain = ClusterSection()
        others = [item.name for item in fields(plain) if getattr(cluster, item.name) != getattr(plain, item.name)]
        others.remove("file")
        raise ConfigurationError("cluster", "either a file or other keys", f"file and {', '.join(others)}")
    if cluster.cores is not None and parse_layout(cluster.preset) is not None:
        raise ConfigurationError(
            "cluster.cores", Unwanted(f"preset = {cluster.preset!r} gives the cores"), str(cluster.cores)
        )
    if cluster.nodes is not None and cluster.processors is not None:
        raise ConfigurationError("cluster", "either nodes or processors", "both")


def _check_workload(workload: WorkloadSection, *, users: bool) -> None:
    """Check the source of the jobs. ``users``: users may submit all jobs."""
    given = [key for key in SOURCES if getattr(workload, key) is not None]
    if not given and users:
        return
    if len(given) != 1 and not (len(given) == 2 and given[0] in _NAMED and given[1] == "applications"):
        expected = f"one source of jobs: {', '.join(SOURCES[:-1])} or {SOURCES[-1]}"
        raise ConfigurationError("workload", expected, " and ".join(given) or "none")


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_fault(fault: FaultEntry, path: str) -> None:
    slow = fault.do == "slow"
    if (fault.slowdown is None) == slow:
        expected = "a slowdown" if slow else f"nothing with do = {fault.do!r}"
        raise ConfigurationError(f"{path}.slowdown", expected, "none" if slow else str(fault.slowdown))


def _check_speeds(faults: FaultsSection | None) -> None:
    """Raise ConfigurationError for slow nodes where nodes run processes."""
    for index, fault in enumerate(() if faults is None else faults.at):
        if fault.do in ("slow", "normal"):
            raise ConfigurationError(
                f"faults.at[{index}].do", "fail or return: nodes of [time_sharing] have one speed", fault.do
            )


def _check_script_entry(entry: ScriptEntry, path: str) -> None:
    if entry.do in ("drain-nodes", "reserve"):
        if entry.node is not None or entry.job is not None:
            got = "a node" if entry.node is not None else "a job"
            raise ConfigurationError(f"{path}.nodes", f"the nodes to {entry.do.removesuffix('-nodes')}", got)
        if entry.until_s is None and entry.do == "reserve":
            raise ConfigurationError(f"{path}.until_s", "until when the nodes are reserved", "none")
        if entry.until_s is not None and entry.until_s <= entry.at_s:
            raise ConfigurationError(f"{path}.until_s", f"a time after at_s, {entry.at_s:g}", f"{entry.until_s:g}")
        return
    for key in ("nodes", "until_s"):
        if getattr(entry, key) is not None:
            raise ConfigurationError(f"{path}.{key}", f"nothing with do = {entry.do!r}", str(getattr(entry, key)))
    wants = "node" if entry.do.endswith("node") else "job"
    target = entry.node if wants == "node" else entry.job
    if target is None or (entry.node is not None) == (entry.job is not None):
        raise ConfigurationError(f"{path}.{wants}", f"the {wants} to {entry.do}", str(target))
