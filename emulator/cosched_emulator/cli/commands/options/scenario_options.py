"""The command-line options that set keys of a scenario."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])

# Option -> its key in a scenario.
PLACES: Mapping[str, tuple[str, str]] = {
    "swf": ("workload", "swf"),
    "lublin": ("workload", "lublin"),
    "nas": ("workload", "nas"),
    "applications": ("workload", "applications"),
    "profiles": ("workload", "profiles"),
    "gap_s": ("workload", "gap_s"),
    "memory": ("workload", "memory"),
    "first": ("workload", "first"),
    "jobs": ("workload", "jobs"),
    "aarr": ("workload", "aarr"),
    "load": ("workload", "load"),
    "load_method": ("workload", "load_method"),
    "limits": ("workload", "limits"),
    "estimates": ("workload", "estimates"),
    "estimate_factor": ("workload", "estimate_factor"),
    "mix": ("workload", "mix"),
    "characteristics": ("workload", "characteristics"),
    "resume_s": ("preemption", "resume_s"),
    "annotations": ("workload", "annotations"),
    "self_slowdowns": ("workload", "self_slowdowns"),
    "grow": ("workload", "grow"),
    "exclusive": ("workload", "exclusive"),
    "skip_bad_rows": ("workload", "skip_bad_rows"),
    "cap_runs": ("workload", "cap_runs"),
    "log_memory": ("workload", "log_memory"),
    "nodes": ("cluster", "nodes"),
    "processors": ("cluster", "processors"),
    "cores": ("cluster", "cores"),
    "node": ("cluster", "preset"),
    "memory_gb": ("cluster", "memory_mb"),
    "bandwidth_gbs": ("cluster", "memory_bandwidth_mbs"),
    "idle_w": ("cluster", "idle_w"),
    "busy_w": ("cluster", "busy_w"),
    "spin_w": ("cluster", "spin_w"),
    "machine": ("cluster", "file"),
    "contention": ("truth", "contention"),
    "pairs": ("truth", "pairs"),
    "composition": ("truth", "composition"),
    "belief_demand": ("belief", "demand"),
    "belief_usage": ("belief", "usage"),
    "belief_pairs": ("belief", "pairs"),
    "belief_self": ("belief", "self_slowdowns"),
    "usage_noise": ("belief", "usage_noise"),
    "time_sharing": ("time_sharing", "nodes"),
    "quantum_s": ("time_sharing", "quantum_s"),
    "local": ("time_sharing", "local"),
    "coscheduling": ("time_sharing", "coscheduling"),
    "windows": ("time_sharing", "windows"),
    "programs": ("workload", "programs"),
    "cpu_share": ("workload", "cpu_share"),
    "warmup": ("results", "warmup"),
    "deadline": ("clock", "deadline_s"),
}
# Options with a larger unit than their key, and the factor: 1024 for memory, 1000 for rates.
FACTORS: Mapping[str, int] = {"memory_gb": 1024, "bandwidth_gbs": 1000}
_ABOVE_ZERO, _FROM_ZERO = click.FloatRange(0, 1e9, min_open=True), click.FloatRange(0, 1e9)


def a_file(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return a file's name unchanged; refuse an empty one, which comes from an unset variable."""
    if value == "":
        raise click.BadParameter("expected the name of a file, got ''")
    return value


def an_amount(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    """Return a number unchanged; refuse NaN, which click's ranges accept."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("expected a number, got nan")
    return value


# Over 50 lines: a line for each option.
def scenario_options(command: Command) -> Command:
    """Add the options that set keys of a scenario."""
    options = [
        click.option("--swf", type=click.Path(), help="Jobs: a log in Standard Workload Format (.gz or plain); - for standard input."),
        click.option("--lublin", type=click.IntRange(min=1), metavar="N", help="Jobs: N of the Lublin model."),
        click.option("--nas", type=click.IntRange(min=1), metavar="N", help="Jobs: N random jobs of the NAS programs."),
        click.option("--applications", callback=a_file, metavar="FILE", help="Jobs: applications of a table of co-runs, CSV."),
        click.option("--profiles", callback=a_file, metavar="FILE", help="What processes ask of nodes, by application or job, CSV."),
        click.option("--gap-s", type=float, metavar="S", help="NAS, applications: mean gap in seconds.  [default: 100]"),
        click.option("--memory", type=click.Choice(["aware", "unaware"]), help="NAS: is the scheduler told it?  [default: aware]"),
        click.option("--first", type=click.IntRange(min=0), metavar="I", help="Log: begin with usable job I, counted from 0."),
        click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Log: take N jobs; applications: draw N."),
        click.option("--warmup", type=click.IntRange(min=0), metavar="N", help="Leave the first N jobs out of the figures."),
        click.option("--aarr", type=float, help="Lublin: arrival parameter, smaller is busier.  [default: 10.2303]"),
        click.option("--load", type=float, metavar="L", help="Bring the jobs to this offered load, such as 0.9."),
        click.option("--load-method", type=click.Choice(["gaps", "users"]), help="By what: gaps, or users of a log.  [default: gaps]"),
        click.option("--limits", type=click.Choice(["estimate", "none"]), help="When to kill.  [default: logs estimate, else none]"),
        click.option("--estimates", type=click.Choice(["exact", "f-model", "day"]), help="Replace the estimates."),
        click.option("--estimate-factor", type=float, help="f-model: estimate = run x (1 + U x FACTOR)."),
        click.option("--mix", help="Memory bandwidth demand: high, med, low, or shares such as 50:10:40.  [default: none]"),
        click.option("--characteristics", metavar="MIX", help="What bounds jobs: M1, M2, M3, or shares such as 40:30:30."),
        click.option("--annotations", callback=a_file, metavar="FILE", help="What bounds jobs: a side file, CSV or TOML."),
        click.option("--self-slowdowns", type=click.Choice(["table4"]), help="Draw the self slowdowns of jobs."),
        click.option("--grow", is_flag=True, default=None, help="Sizes are for one process per node, and grow to fill cores."),
        click.option("--resume-s", type=float, metavar="S", help="Seconds that a job preempted to disk needs to come back."),
        click.option("--exclusive", is_flag=True, default=None, help="Every job takes whole nodes."),
        click.option("--skip-bad-rows", is_flag=True, default=None, help="Log: leave malformed rows out."),
        click.option("--cap-runs/--no-cap-runs", default=None, help="Log: cut run times to the estimate.  [default: cut]"),
        click.option("--log-memory/--no-log-memory", default=None, help="Log: take the memory that jobs request.  [default: take]"),
        click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Nodes.  [default: the log's machine, or 128]"),
        click.option("--processors", type=click.IntRange(min=1), metavar="N", help="Instead of --nodes: cores in all."),
        click.option("--cores", type=click.IntRange(min=1), metavar="C", help="Cores of a node, instead of the shape's."),
        click.option("--node", metavar="SHAPE", help="Node: one of `presets`, or SOCKETSxCORESxTHREADS.  [default: single]"),
        click.option("--memory-gb", type=_ABOVE_ZERO, callback=an_amount, metavar="GB", help="Memory of a node."),
        click.option("--bandwidth-gbs", type=_FROM_ZERO, callback=an_amount, metavar="N", help="GB/s of a node's memory; 0: no limit."),
        click.option("--idle-w", type=_FROM_ZERO, callback=an_amount, metavar="W", help="Watts of a node, all its cores idle."),
        click.option("--busy-w", type=_FROM_ZERO, callback=an_amount, metavar="W", help="More watts for each busy core."),
        click.option("--spin-w", type=_FROM_ZERO, callback=an_amount, metavar="W", help="The same where a process only polls."),
        click.option("--machine", callback=a_file, metavar="FILE", help="Nodes: a TOML file of [[nodes]], instead of these options."),
        click.option("--contention", metavar="MODEL", help="bandwidth, lomarc, statistical, pairs, composite, none, MODULE:CLASS."),
        click.option("--pairs", callback=a_file, metavar="FILE", help="Contention pairs: a table of measured co-runs, CSV."),
        click.option("--composition", type=click.Choice(["bulk-synchronous", "paper"]), help="How the slowest node slows a job."),
        click.option("--belief-demand", type=click.Choice(["exact", "unknown"]), help="What the scheduler knows of demand."),
        click.option("--belief-usage", type=click.Choice(["exact", "unknown"]), help="What the scheduler knows of jobs' usage."),
        click.option("--usage-noise", type=click.FloatRange(0, 1, max_open=True), metavar="X", help="Relative error in that, at most."),
        click.option("--belief-pairs", type=click.Choice(["exact", "unknown"]), help="What the scheduler knows of pairs of jobs."),
        click.option("--belief-self", type=click.Choice(["exact", "unknown"]), help="What it knows of self slowdowns."),
        click.option("--time-sharing", type=click.Choice(["fluid", "exact", "windows"]), help="Nodes run processes, which share CPUs."),
        click.option("--quantum-s", type=float, metavar="S", help="Time sharing: length of a quantum in seconds.  [default: 1]"),
        click.option("--local", type=click.Choice(["wake-first", "rr", "linux-epochs"]), help="Time sharing: who gets a CPU next."),
        click.option("--coscheduling", metavar="POLICY", help="Time sharing: nls, sb, cc, dcs, pb, hybrid, none, MODULE:CLASS."),
        click.option("--windows", callback=a_file, metavar="DIR", help="Time sharing: where measured rates are kept for other runs."),
        click.option("--programs", callback=a_file, metavar="NAME", help="Time sharing: what processes do, a program or FILE.csv."),
        click.option("--cpu-share", type=float, metavar="X", help="Program fine: part of the time that it computes.  [default: 0.45]"),
        click.option("--deadline", type=click.FloatRange(min=0.1), metavar="S", help="Seconds a plugin has to answer.  [default: 300]"),
        click.option("--seed", type=int, help="Seed of all random draws.  [default: 1]"),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def overrides(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given as a scenario table."""
    table: dict[str, Any] = {}
    for option, (section, key) in PLACES.items():
        if values.get(option) is not None:
            value = values[option]
            table.setdefault(section, {})[key] = round(value * FACTORS[option]) if option in FACTORS else value
    if values.get("seed") is not None:
        table["seed"] = values["seed"]
    return table
