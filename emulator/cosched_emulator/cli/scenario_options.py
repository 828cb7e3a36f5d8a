"""The command-line options that set keys of a scenario."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from cosched_emulator import offered
from cosched_hwmodel.composition import COMPOSITIONS

Command = TypeVar("Command", bound=Callable[..., object])

# Option -> its key in a scenario; `sets` fills it. The section of the seed is empty.
PLACES: dict[str, tuple[str, str]] = {}
# Options with a larger unit than their key, and the factor: 1024 for memory, 1000 for rates.
FACTORS: dict[str, int] = {}
_BY_NAME: dict[str, Callable[[Any], Any]] = {}  # the options of `scenario_options`
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


def sets(key: str, *words: str, factor: int = 1, **settings: Any) -> Callable[[Any], Any]:
    """Return the option that sets ``key``, SECTION.KEY of a scenario, to ``factor`` times its value.

    What the key means, its type and its bounds stand in `scenario.sections` and `scenario.schema`.
    """
    name = words[0].partition("/")[0].removeprefix("--").replace("-", "_")
    section, _, place = key.rpartition(".")
    PLACES[name] = (section, place)
    if factor != 1:
        FACTORS[name] = factor
    option = click.option(*words, **settings)
    _BY_NAME.setdefault(name, option)
    return option


# Of a dump of Slurm's accounting, which becomes a log: no key of a scenario.
AS_SUBMITTED = click.option(
    "--as-submitted", is_flag=True, help="Dump: jobs come when they were submitted.  [default: when they were eligible]"
)

_OPTIONS: list[Callable[[Any], Any]] = [
    sets("workload.swf", "--swf", type=click.Path(),
        help="Jobs: a log in Standard Workload Format (.gz or plain); - for standard input."),
    sets("workload.lublin", "--lublin", type=click.IntRange(1, offered.MOST_JOBS), metavar="N", help="Jobs: N of the Lublin model."),
    sets("workload.nas", "--nas", type=click.IntRange(min=1), metavar="N", help="Jobs: N random jobs of the NAS programs."),
    sets("workload.applications", "--applications", callback=a_file, metavar="FILE",
        help="Jobs: applications of a table of co-runs, CSV; with a log or the model: names of its jobs."),
    sets("workload.profiles", "--profiles", callback=a_file, metavar="FILE",
        help="What processes ask of nodes, by application or job, CSV."),
    sets("workload.gap_s", "--gap-s", type=float, metavar="S",
        help=f"NAS, applications: mean gap in seconds.  [default: {offered.GAP_S:g}]"),
    sets("workload.memory", "--memory", type=click.Choice(offered.MEMORY_TOLD),
        help=f"NAS: is the scheduler told it?  [default: {offered.MEMORY}]"),
    sets("workload.first", "--first", type=click.IntRange(min=0), metavar="I",
        help="Log: begin with usable job I, counted from 0."),
    sets("workload.jobs", "--jobs", type=click.IntRange(min=1), metavar="N", help="Log: take N jobs; applications: draw N."),
    sets("results.warmup", "--warmup", type=click.IntRange(min=0), metavar="N",
        help="Leave the first N jobs out of the figures."),
    sets("workload.aarr", "--aarr", type=float,
        help=f"Lublin: arrival parameter, smaller is busier.  [default: {offered.AARR:g}]"),
    sets("workload.load", "--load", type=float, metavar="L", help="Bring the jobs to this offered load, such as 0.9."),
    sets("workload.load_method", "--load-method", type=click.Choice(offered.LOAD_METHODS),
        help=f"By what: gaps, or users of a log.  [default: {offered.LOAD_METHOD}]"),
    sets("workload.limits", "--limits", type=click.Choice(offered.LIMITS),
        help="When to kill.  [default: logs estimate, else none]"),
    sets("workload.estimates", "--estimates", type=click.Choice(offered.ESTIMATES), help="Replace the estimates."),
    sets("workload.estimate_factor", "--estimate-factor", type=float, help="f-model: estimate = run x (1 + U x FACTOR)."),
    sets("workload.mix", "--mix", help="Memory bandwidth demand: high, med, low, or shares such as 50:10:40.  [default: none]"),
    sets("workload.characteristics", "--characteristics", metavar="MIX",
        help="What bounds jobs: M1, M2, M3, or shares such as 40:30:30."),
    sets("workload.annotations", "--annotations", callback=a_file, metavar="FILE",
        help="What bounds jobs: a side file, CSV or TOML."),
    sets("workload.self_slowdowns", "--self-slowdowns", type=click.Choice(offered.SELF_SLOWDOWNS),
        help="Draw the self slowdowns of jobs."),
    sets("workload.grow", "--grow", is_flag=True, default=None,
        help="Sizes are for one process per node, and grow to fill cores."),
    sets("preemption.resume_s", "--resume-s", type=float, metavar="S",
        help="Seconds that a job preempted to disk needs to come back."),
    sets("workload.exclusive", "--exclusive", is_flag=True, default=None, help="Every job takes whole nodes."),
    sets("workload.skip_bad_rows", "--skip-bad-rows", is_flag=True, default=None, help="Log: leave malformed rows out."),
    sets("workload.cap_runs", "--cap-runs/--no-cap-runs", default=None,
        help="Log: cut run times to the estimate.  [default: cut]"),
    sets("workload.log_memory", "--log-memory/--no-log-memory", default=None,
        help="Log: take the memory that jobs request.  [default: take]"),
    sets("cluster.nodes", "--nodes", type=click.IntRange(min=1), metavar="N",
        help=f"Nodes.  [default: the log's machine, or {offered.NODES}]"),
    sets("cluster.processors", "--processors", type=click.IntRange(min=1), metavar="N", help="Instead of --nodes: cores in all."),
    sets("cluster.cores", "--cores", type=click.IntRange(min=1), metavar="C", help="Cores of a node, instead of the shape's."),
    sets("cluster.preset", "--node", metavar="SHAPE",
        help=f"Node: one of `presets`, or SOCKETSxCORESxTHREADS.  [default: {offered.SHAPE}]"),
    sets("cluster.memory_mb", "--memory-gb", factor=1024, type=_ABOVE_ZERO, callback=an_amount, metavar="GB",
        help="Memory of a node."),
    sets("cluster.memory_bandwidth_mbs", "--bandwidth-gbs", factor=1000, type=_FROM_ZERO, callback=an_amount, metavar="N",
        help="GB/s of a node's memory; 0: no limit."),
    sets("cluster.idle_w", "--idle-w", type=_FROM_ZERO, callback=an_amount, metavar="W",
        help="Watts of a node, all its cores idle."),
    sets("cluster.busy_w", "--busy-w", type=_FROM_ZERO, callback=an_amount, metavar="W", help="More watts for each busy core."),
    sets("cluster.spin_w", "--spin-w", type=_FROM_ZERO, callback=an_amount, metavar="W",
        help="The same where a process only polls."),
    sets("cluster.file", "--machine", callback=a_file, metavar="FILE",
        help="Nodes: a TOML file of [[nodes]], instead of these options."),
    sets("truth.contention", "--contention", metavar="MODEL",
        help=f"{', '.join(offered.CONTENTION)}, MODULE:CLASS."),
    sets("truth.pairs", "--pairs", callback=a_file, metavar="FILE", help="Contention pairs: a table of measured co-runs, CSV."),
    sets("truth.composition", "--composition", type=click.Choice(list(COMPOSITIONS)), help="How the slowest node slows a job."),
    sets("belief.demand", "--belief-demand", type=click.Choice(offered.KNOWLEDGE), help="What the scheduler knows of demand."),
    sets("belief.usage", "--belief-usage", type=click.Choice(offered.USAGE_KNOWLEDGE), help="What the scheduler knows of jobs' usage."),
    sets("belief.usage_noise", "--usage-noise", type=click.FloatRange(0, 1, max_open=True), metavar="X",
        help="Relative error in that, at most."),
    sets("belief.pairs", "--belief-pairs", type=click.Choice(offered.KNOWLEDGE),
        help="What the scheduler knows of pairs of jobs."),
    sets("belief.self_slowdowns", "--belief-self", type=click.Choice(offered.KNOWLEDGE), help="What it knows of self slowdowns."),
    sets("time_sharing.nodes", "--time-sharing", type=click.Choice(offered.NODE_KINDS),
        help="Nodes run processes, which share CPUs."),
    sets("time_sharing.quantum_s", "--quantum-s", type=float, metavar="S",
        help=f"Time sharing: length of a quantum in seconds.  [default: {offered.QUANTUM_S:g}]"),
    sets("time_sharing.local", "--local", type=click.Choice(offered.LOCAL_SCHEDULERS), help="Time sharing: who gets a CPU next."),
    sets("time_sharing.coscheduling", "--coscheduling", metavar="POLICY",
        help=f"Time sharing: {', '.join(offered.COSCHEDULING)}, MODULE:CLASS."),
    sets("time_sharing.windows", "--windows", callback=a_file, metavar="DIR",
        help="Time sharing: where measured rates are kept for other runs."),
    sets("workload.programs", "--programs", callback=a_file, metavar="NAME",
        help="Time sharing: what processes do, a program or FILE.csv."),
    sets("workload.cpu_share", "--cpu-share", type=float, metavar="X",
        help=f"Program fine: part of the time that it computes.  [default: {offered.CPU_SHARE:g}]"),
    sets("clock.deadline_s", "--deadline", type=click.FloatRange(min=0.1), metavar="S",
        help=f"Seconds a plugin has to answer.  [default: {offered.DEADLINE_S:g}]"),
    sets("seed", "--seed", type=int, help=f"Seed of all random draws.  [default: {offered.SEED}]"),
]  # fmt: skip


def scenario_options(command: Command) -> Command:
    """Add the options that set keys of a scenario."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def some_scenario_options(*names: str) -> Callable[[Command], Command]:
    """Return the decorator that adds some of these options, in this order; ``names`` are as in Python."""

    def add(command: Command) -> Command:
        for name in reversed(names):
            command = _BY_NAME[name](command)
        return command

    return add


def overrides(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given as a scenario table."""
    table: dict[str, Any] = {}
    for option, (section, key) in PLACES.items():
        if values.get(option) is not None:
            value = values[option]
            below = table.setdefault(section, {}) if section else table
            below[key] = round(value * FACTORS[option]) if option in FACTORS else value
    return table
