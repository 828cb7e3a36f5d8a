"""The command-line options that set keys of a scenario."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from cosched_emulator import offered
from cosched_emulator.cli.completing import SHAPES
from cosched_hwmodel.composition import COMPOSITIONS
from cosched_terminal.commands import Reader, option, several
from cosched_terminal.help_text import entitle

if TYPE_CHECKING:
    from cosched_terminal.commands import Kind

# Option -> its key in a scenario; `sets` fills it. The section of the seed is empty.
PLACES: dict[str, tuple[str, str]] = {}
# Options with a larger unit than their key, and the factor: 1024 for memory, 1000 for rates.
FACTORS: dict[str, int] = {}


def _name_of_file(text: str) -> str:
    """Return a file's name unchanged; refuse an empty one, which comes from an unset variable."""
    if text == "":
        raise ValueError("the name of a file")
    return text


class _Amount(click.FloatRange):
    """A number in a range; NaN, which click's ranges accept, is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number of a text."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail("expected a number, got nan", param, ctx)
        return number


A_FILE: Final = Reader(_name_of_file)
_ABOVE_ZERO, _FROM_ZERO = _Amount(0, 1e9, min_open=True), _Amount(0, 1e9)


def sets(key: str, words: str, text: str, kind: Kind = str, *, factor: int = 1, **settings: Any) -> Any:
    """Return the option that sets ``key``, SECTION.KEY of a scenario, to ``factor`` times its value, as a command's parameter.

    What the key means, its type and its bounds stand in `scenario.sections` and `scenario.schema`.
    """
    name = words.split(maxsplit=1)[0].partition("/")[0].removeprefix("--").replace("-", "_")
    section, _, place = key.rpartition(".")
    PLACES[name] = (section, place)
    if factor != 1:
        FACTORS[name] = factor
    return option(words, text, kind, **settings).parameter(name, bool | None if kind is bool else str | None)


# The title of a group in the help -> its options.
_GROUPS: Final = {
    "Jobs": (
        sets("workload.swf", "--swf", "Jobs: a log in Standard Workload Format (.gz or plain); - for standard input.", click.Path()),
        sets("workload.lublin", "--lublin N", "Jobs: N of the Lublin model.", click.IntRange(1, offered.MOST_JOBS)),
        sets("workload.nas", "--nas N", "Jobs: N random jobs of the NAS programs.", click.IntRange(min=1)),
        sets("workload.applications", "--applications FILE",
            "Jobs: applications of a table of co-runs, CSV; with a log or the model: names of its jobs.", A_FILE),
        sets("workload.first", "--first I", "Log: begin with usable job I, counted from 0.", click.IntRange(min=0)),
        sets("workload.jobs", "--jobs N", "Log: take N jobs; applications: draw N.", click.IntRange(min=1)),
        sets("results.warmup", "--warmup N", "Leave the first N jobs out of the figures.", click.IntRange(min=0)),
        sets("workload.skip_bad_rows", "--skip-bad-rows", "Log: leave malformed rows out.", bool),
        sets("workload.cap_runs", "--cap-runs/--no-cap-runs", "Log: cut run times to the estimate.  [default: cut]", bool),
        sets("workload.log_memory", "--log-memory/--no-log-memory", "Log: take the memory that jobs request.  [default: take]", bool),
        sets("workload.aarr", "--aarr", f"Lublin: arrival parameter, smaller is busier.  [default: {offered.AARR:g}]", float),
        sets("workload.gap_s", "--gap-s S", f"NAS, applications: mean gap in seconds.  [default: {offered.GAP_S:g}]", float),
        sets("workload.memory", "--memory", f"NAS: whether jobs' memory is known.  [default: {offered.MEMORY}]", offered.MEMORY_TOLD),
    ),
    "Jobs: load, limits and sizes": (
        sets("workload.load", "--load L", "Bring the jobs to this offered load, such as 0.9.", float),
        sets("workload.limits", "--limits", "Kill at estimates, or never.  [default: estimate for logs, else none]", offered.LIMITS),
        sets("workload.estimates", "--estimates", "Replace the estimates.", offered.ESTIMATES),
        sets("workload.estimate_factor", "--estimate-factor", "f-model: estimate = run x (1 + U x FACTOR).", float),
        sets("workload.grow", "--grow", "Sizes are drawn for one process a node, and grow to fill its cores.", bool),
        sets("workload.exclusive", "--exclusive", "Every job takes whole nodes.", bool),
        sets("preemption.resume_s", "--resume-s S", "Seconds that a job preempted to disk needs to come back.", float),
    ),
    "Jobs: what they need of nodes": (
        sets("workload.mix", "--mix", "Memory bandwidth demand: high, med, low, or shares such as 50:10:40.  [default: none]"),
        sets("workload.characteristics", "--characteristics MIX", "What bounds jobs: M1, M2, M3, or shares such as 40:30:30."),
        sets("workload.annotations", "--annotations FILE", "What bounds jobs: a side file, CSV or TOML.", A_FILE),
        sets("workload.self_slowdowns", "--self-slowdowns", "Draw the self slowdowns of jobs.", offered.SELF_SLOWDOWNS),
        sets("workload.profiles", "--profiles FILE", "What processes ask of nodes, by application or job, CSV.", A_FILE),
    ),
    "Nodes": (
        sets("cluster.nodes", "--nodes N", f"Nodes.  [default: the log's machine, or {offered.NODES}]", click.IntRange(min=1)),
        sets("cluster.processors", "--processors N", "Cores of the machine, instead of --nodes.", click.IntRange(min=1)),
        sets("cluster.cores", "--cores C", "Cores of a node, instead of the shape's.", click.IntRange(min=1)),
        sets("cluster.preset", "--node SHAPE", f"Node: one of `presets`, or SOCKETSxCORESxTHREADS.  [default: {offered.SHAPE}]",
            shell_complete=SHAPES),
        sets("cluster.file", "--machine FILE", "Nodes: a TOML file of [[nodes]], instead of these options.", A_FILE),
        sets("cluster.memory_mb", "--memory-gb GB", "Memory of a node.", _ABOVE_ZERO, factor=1024),
        sets("cluster.memory_bandwidth_mbs", "--bandwidth-gbs N", "GB/s of a node's memory; 0: no limit.", _FROM_ZERO, factor=1000),
        sets("cluster.idle_w", "--idle-w W", "Watts of a node with all cores idle.", _FROM_ZERO),
        sets("cluster.busy_w", "--busy-w W", "Additional watts of each busy core.", _FROM_ZERO),
        sets("cluster.spin_w", "--spin-w W", "Additional watts of each core whose process only polls.", _FROM_ZERO),
    ),
    "Contention, and what the scheduler believes of it": (
        sets("truth.contention", "--contention MODEL", f"{', '.join(offered.CONTENTION)}, MODULE:CLASS."),
        sets("truth.pairs", "--pairs FILE", "Contention pairs: a table of measured co-runs, CSV.", A_FILE),
        sets("truth.composition", "--composition", "How the slowest node slows a job.", list(COMPOSITIONS)),
        sets("belief.demand", "--belief-demand", "What the scheduler knows of demand.", offered.KNOWLEDGE),
        sets("belief.usage", "--belief-usage", "What the scheduler knows of jobs' usage.", offered.USAGE_KNOWLEDGE),
        sets("belief.usage_noise", "--usage-noise X", "Largest relative error of known usage.", click.FloatRange(0, 1, max_open=True)),
        sets("belief.pairs", "--belief-pairs", "What the scheduler knows of pairs of jobs.", offered.KNOWLEDGE),
        sets("belief.self_slowdowns", "--belief-self", "What the scheduler knows of self slowdowns.", offered.KNOWLEDGE),
    ),
    "Time sharing": (
        sets("time_sharing.nodes", "--time-sharing", "Nodes run processes, which share CPUs.", offered.NODE_KINDS),
        sets("time_sharing.quantum_s", "--quantum-s S",
            f"Time sharing: length of a quantum in seconds.  [default: {offered.QUANTUM_S:g}]", float),
        sets("time_sharing.local", "--local", "Time sharing: who gets a CPU next.", offered.LOCAL_SCHEDULERS),
        sets("time_sharing.coscheduling", "--coscheduling POLICY", f"Time sharing: {', '.join(offered.COSCHEDULING)}, MODULE:CLASS."),
        sets("time_sharing.windows", "--windows DIR", "Time sharing: where measured rates are kept for other runs.", A_FILE),
        sets("workload.programs", "--programs NAME", "Time sharing: what processes do, a program or FILE.csv.", A_FILE),
        sets("workload.cpu_share", "--cpu-share X",
            f"Program fine: part of the time that it computes.  [default: {offered.CPU_SHARE:g}]", float),
    ),
    "Run": (
        sets("clock.deadline_s", "--deadline --decision-timeout S",
            f"Seconds that a policy or plugin has to answer; the error names a policy's line.  [default: {offered.DEADLINE_S:g}]",
            click.FloatRange(min=0.1)),
        sets("seed", "--seed", f"Seed of all random draws.  [default: {offered.SEED}]", int),
    ),
}  # fmt: skip
_OPTIONS: Final = {str(each.name): each for options in _GROUPS.values() for each in options}
for _title, _group in _GROUPS.items():
    entitle(_title, _group)
SCENARIO: Final = several([*_OPTIONS.values()])

# What else several commands have.
AS_SUBMITTED: Final = option(
    "--as-submitted", "Dump: jobs arrive when they were submitted.  [default: when they were eligible]"
)
DB: Final = option("--db FILE", "Keep accounts in FILE; after a crash the run resumes from them.", A_FILE)
FAULTS: Final = option("--faults FILE", "Fault plan in TOML, or Batsim's events; replaces the scenario's.", A_FILE)


def some_of_scenario(*names: str) -> Any:
    """Return what makes a parameter of a command the values of some of these options, in this order; ``names`` are as in Python."""
    return several([_OPTIONS[name] for name in names])


def overrides(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given as a scenario table."""
    table: dict[str, Any] = {}
    for name, (section, key) in PLACES.items():
        if values.get(name) is not None:
            value = values[name]
            below = table.setdefault(section, {}) if section else table
            below[key] = round(value * FACTORS[name]) if name in FACTORS else value
    return table
