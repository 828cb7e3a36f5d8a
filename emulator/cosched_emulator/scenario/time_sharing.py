"""The section of a scenario whose nodes run processes: jobs share the CPU of a node, in slots that take turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

from cosched_emulator import needs, offered
from cosched_emulator.bounds import SECONDS, Choice, Noise, Share, between
from cosched_emulator.nodeos.settings import SLICE_US, TICK_US, CommonSettings, WindowPlan
from cosched_emulator.scenario.sections import Late, T
from cosched_hwmodel.units import SECOND_US

_WINDOWS: Final = WindowPlan()
Fluid: TypeAlias = Annotated[T, needs.one_of("time_sharing.nodes", "fluid")]
Windowed: TypeAlias = Annotated[T, needs.one_of("time_sharing.nodes", "windows")]
WindowLength: TypeAlias = Windowed[Annotated[float, between(1, 1_000_000, SECONDS)]]
OfPolicy: TypeAlias = Annotated[T, needs.one_of("time_sharing.nodes", "windows", "exact"), needs.MESSAGES_OR_OTHERS]

_COSCHEDULING: Final = ", ".join([f'`"{name}"`' for name in offered.COSCHEDULING])
_WHILE_IT_WAITS: Final = (
    f"what a process does while it waits for a message, and which process the node prefers: {_COSCHEDULING}, or a third party's "
    'class, `"module:Class"`. Default: `"nls"` with `nodes = "windows"`, else `"none"`'
)


@dataclass(frozen=True, slots=True)
class TimeSharingSection(CommonSettings):
    """Nodes that run processes: jobs share the CPU of a node, in slots that take turns."""

    nodes: Annotated[
        str,
        Choice(offered.NODE_KINDS),
        '`"fluid"`: jobs progress at rates that are measured in exact nodes; `"exact"`: every burst is simulated, which '
        'takes far longer; `"windows"`: exact for a while after each change, then at the rates measured then. '
        'Programs with messages need `"windows"` or `"exact"`',
    ] = "fluid"
    quantum_s: Annotated[float, needs.TURNS, between(1e-3, 1_000_000, SECONDS), "length of a quantum"] = (
        offered.QUANTUM_S
    )
    slice_ms: Annotated[
        float,
        (needs.one_of("time_sharing.local", "wake-first", "rr"), needs.SHARED_CPU),
        between(0.1, 1_000_000, "a number of milliseconds"),
        "length of a process's turn",
    ] = SLICE_US / 1000
    tick_ms: Annotated[
        float,
        (between(0, 1_000_000, "a number of milliseconds"), needs.TURNS),
        "CPU time is logged in ticks, rounded at random; 0: exactly",
    ] = TICK_US / 1000
    io_logged: Annotated[
        Share, needs.FILES, needs.TURNS, "share of the CPU time of I/O that is logged to the process"
    ] = 0.0
    rounded: Annotated[Fluid[bool], "similar situations are measured once"] = True
    windows: Annotated[
        Fluid[str | None],
        "a folder in which measured rates are kept, for other runs and processes with the same nodes and quantum. "
        "The results are the same with and without it",
    ] = None
    window_min_s: Annotated[WindowLength, "least time for which jobs are simulated exactly after each change"] = (
        _WINDOWS.least_us / SECOND_US
    )
    window_max_s: Annotated[WindowLength, "longest time for which jobs are simulated exactly after each change"] = (
        _WINDOWS.most_us / SECOND_US
    )
    turn_overhead: Annotated[
        Windowed[Noise], needs.TURNS, "share of a quantum for which nothing runs when turns change"
    ] = 0.03
    coscheduling: Annotated[
        OfPolicy[str | None],
        _WHILE_IT_WAITS,
    ] = None
    coscheduling_parameters: Annotated[
        Late[OfPolicy[Mapping[str, Any] | None]],
        "parameters of the coscheduling policy, such as `{ spin_us = 1000 }`. An option, an override or a study that "
        "names another policy must replace them, too",
    ] = None
