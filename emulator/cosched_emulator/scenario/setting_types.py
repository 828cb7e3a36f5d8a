"""The types of settings: each with its bounds, as the annotation of a section's field names it."""
# Under 60 lines: one table, which the sections of a scenario share.

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from cosched_emulator import offered
from cosched_emulator.bounds import Choice, Range, at_least, between
from cosched_emulator.workload.side_files.job_programs import LEAST_GRAIN, MOST_GRAIN
from cosched_hwmodel.composition import COMPOSITIONS
from cosched_hwmodel.lomarc.lomarc_model import C_SCOPES, CPUS
from cosched_hwmodel.measured import METHODS
from cosched_hwmodel.topology import MOST_WATTS
from cosched_hwmodel.units import SECOND_US
from cosched_hwmodel.usage import RESOURCES
from cosched_plugin.protocol.limits import INT64_MAX

LONGEST_S: Final = INT64_MAX // SECOND_US
SECONDS: Final = "a number of seconds"
Instant: TypeAlias = Annotated[float, at_least(0, SECONDS, LONGEST_S)]
Duration: TypeAlias = Annotated[float, at_least(0, SECONDS, LONGEST_S)]
DurationAboveZero: TypeAlias = Annotated[float, Range(f"{SECONDS} above 0", 0, LONGEST_S, least_open=True)]
Jump: TypeAlias = Annotated[float, Range(f"{SECONDS} other than 0", -LONGEST_S, LONGEST_S, excluded=0)]
FaultSpan: TypeAlias = Annotated[
    float, at_least(1, SECONDS, LONGEST_S)
]  # much shorter times would leave no time for anything else
Wait: TypeAlias = Annotated[float, between(0, 1_000_000_000, SECONDS)]  # every wait ends
# A scheduler may compute for half a second without being replaced.
Takeover: TypeAlias = Annotated[Wait, Range(f"{SECONDS} from 0.5 on", 0.5)]

AtLeastOne: TypeAlias = Annotated[int, at_least(1)]
PluginFaultCount: TypeAlias = Annotated[int, between(0, 100_000, "a whole number")]
Speed: TypeAlias = Annotated[float, between(1e-3, 1e6)]
Share: TypeAlias = Annotated[float, between(0, 1)]
Slowdown: TypeAlias = Annotated[float, between(1, 1_000)]
SlowdownLimit: TypeAlias = Annotated[float, between(0, 1_000)]
Noise: TypeAlias = Annotated[float, Range("a number from 0 to below 1", 0, 1, most_open=True)]
OfferedLoad: TypeAlias = Annotated[float, Range("a number above 0, at most 1000", 0, 1_000, least_open=True)]
Bias: TypeAlias = Annotated[float, Range("a number above -1, at most 1000", -1, 1_000, least_open=True)]

ClockMode: TypeAlias = Annotated[str, Choice(offered.CLOCK_MODES)]
Composition: TypeAlias = Annotated[str, Choice(tuple(COMPOSITIONS))]
Resource: TypeAlias = Annotated[str, Choice(RESOURCES)]
PairMethod: TypeAlias = Annotated[str, Choice(METHODS)]
CScope: TypeAlias = Annotated[str, Choice(C_SCOPES)]
Cpu: TypeAlias = Annotated[str, Choice(CPUS)]
Estimates: TypeAlias = Annotated[str, Choice(offered.ESTIMATES)]
JobLimits: TypeAlias = Annotated[str, Choice(offered.LIMITS)]
Knowledge: TypeAlias = Annotated[str, Choice(offered.KNOWLEDGE)]
UsageKnowledge: TypeAlias = Annotated[str, Choice(offered.USAGE_KNOWLEDGE)]
SelfSlowdowns: TypeAlias = Annotated[str, Choice(offered.SELF_SLOWDOWNS)]
LoadMethod: TypeAlias = Annotated[str, Choice(offered.LOAD_METHODS)]
LublinSize: TypeAlias = Annotated[str, Choice(offered.LUBLIN_SIZES)]
NodeKind: TypeAlias = Annotated[str, Choice(offered.NODE_KINDS)]
MemoryTold: TypeAlias = Annotated[str, Choice(offered.MEMORY_TOLD)]
Watts: TypeAlias = Annotated[float, between(0, MOST_WATTS, "a number of watts")]
Milliseconds: TypeAlias = Annotated[float, between(0, 1_000_000, "a number of milliseconds")]
WindowLength: TypeAlias = Annotated[float, between(1, 1_000_000, SECONDS)]
Grain: TypeAlias = Annotated[float, between(LEAST_GRAIN, MOST_GRAIN)]
