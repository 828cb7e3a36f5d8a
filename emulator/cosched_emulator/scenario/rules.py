"""Rules for settings that depend on each other. The builders of machine and jobs check the rules that depend on these."""

from __future__ import annotations

from dataclasses import fields

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.schema import (
    ClockSection,
    ClusterSection,
    FaultEntry,
    Scenario,
    ScriptEntry,
    WorkloadSection,
)
from cosched_hwmodel.topology import parse_layout


def check_rules(scenario: Scenario) -> None:
    """Raise ConfigurationError for the first settings that contradict each other. Each alone is within its bounds."""
    _check_clock(scenario.clock)
    runs = scenario.clock.mode != "virtual"
    if runs and scenario.policy:
        raise ConfigurationError("policy", "no policy: the scheduler that connects brings its own", "one")
    check_cluster(scenario.cluster)
    _check_workload(scenario.workload, users=runs)
    if scenario.faults is not None:
        for index, fault in enumerate(scenario.faults.at):
            _check_fault(fault, f"faults.at[{index}]")
    for index, entry in enumerate(scenario.script):
        _check_script_entry(entry, f"script[{index}]")


def _check_clock(clock: ClockSection) -> None:
    scaled = clock.mode == "scaled"
    if (clock.speed is not None) != scaled:
        expected = "a number of emulated seconds a second" if scaled else "nothing: only a scaled clock has one"
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
            "cluster.cores", f"nothing: preset = {cluster.preset!r} tells the cores", str(cluster.cores)
        )
    if cluster.nodes is not None and cluster.processors is not None:
        raise ConfigurationError("cluster", "either nodes or processors", "both")


def _check_workload(workload: WorkloadSection, *, users: bool) -> None:
    """Check the workload. ``users``: users may submit all jobs."""
    if workload.swf is None and workload.lublin is None and users:
        return
    if (workload.swf is None) == (workload.lublin is None):
        raise ConfigurationError("workload", "either swf or lublin", "both" if workload.swf else "neither")
    if workload.lublin is not None:
        for key in ("first", "jobs"):
            if value := getattr(workload, key):
                raise ConfigurationError(f"workload.{key}", "nothing: it selects jobs of a log", str(value))


def _check_fault(fault: FaultEntry, path: str) -> None:
    slow = fault.do == "slow"
    if (fault.slowdown is None) == slow:
        expected = "a slowdown" if slow else f"nothing with do = {fault.do!r}"
        raise ConfigurationError(f"{path}.slowdown", expected, "none" if slow else str(fault.slowdown))


def _check_script_entry(entry: ScriptEntry, path: str) -> None:
    wants = "node" if entry.do.endswith("node") else "job"
    target = entry.node if wants == "node" else entry.job
    if target is None or (entry.node is not None) == (entry.job is not None):
        raise ConfigurationError(f"{path}.{wants}", f"the {wants} to {entry.do}", str(target))
