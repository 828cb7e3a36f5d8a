"""Everything that a policy may use: the only module of the plugin that `cosched_plugin.policies` and third parties import.

A policy is an object with `decide(view)`, a generator of decisions. It sees a read-only `View` and yields messages
(`StartJob`, `StartTogether`, `SetNote`, `WakeAt`, `RejectJob`); the core validates and applies each, then resumes it.
`docs/writing-a-policy.md` is the guide, `cosched_plugin.testing.check_policy` the conformance check.
"""

from __future__ import annotations

from cosched_hwmodel.bandwidth.matrix import Bools, Floats, Ints, NodeTable, Planned
from cosched_hwmodel.bandwidth.model import penalty_factor
from cosched_hwmodel.lomarc.matrix import UsageColumns
from cosched_hwmodel.pairs import Beside, JobColumns, JobFacts, PairModel
from cosched_hwmodel.rounding import round_up_us
from cosched_hwmodel.statistical.self_slowdown import self_factor
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM
from cosched_hwmodel.usage import BOUNDS, UNKNOWN_USAGE
from cosched_plugin.common.allocation import (
    Layers,
    Machine,
    bits_of,
    each_node,
    is_plain,
    layers_of,
    minus,
    room_on,
    share_nodes,
    size,
    started_by,
    union,
)
from cosched_plugin.common.errors import MachineError, PolicyError, UsageError
from cosched_plugin.core.engine import Policy
from cosched_plugin.core.first_fit import (
    any_layer,
    first_fit,
    lowest_nodes,
    lowest_threads,
    packed,
    runs_from,
    thread_mask,
)
from cosched_plugin.core.queue import Queue, short_or_narrow
from cosched_plugin.core.running import Running
from cosched_plugin.core.trace import Trace
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.virtual_machine import VirtualMachine
from cosched_plugin.core.views.whole_nodes import Occupancy, WholeNodesView
from cosched_plugin.protocol.messages import (
    Action,
    DemandTuple,
    JobSpec,
    NodeClass,
    NoteValue,
    RejectJob,
    ResumeJob,
    ReviseJob,
    Run,
    SetNote,
    StartJob,
    StartTogether,
    SuspendJob,
    UsageTuple,
    WakeAt,
)

__all__ = [
    "BOUNDS",
    "SECOND_US",
    "UNKNOWN_USAGE",
    "WHOLE_PPM",
    "Action",
    "Beside",
    "Bools",
    "DemandTuple",
    "Floats",
    "Ints",
    "JobColumns",
    "JobFacts",
    "JobSpec",
    "Layers",
    "Machine",
    "MachineError",
    "NodeClass",
    "NodeTable",
    "NoteValue",
    "Occupancy",
    "PairModel",
    "Planned",
    "Policy",
    "PolicyError",
    "Queue",
    "RejectJob",
    "ResumeJob",
    "ReviseJob",
    "Run",
    "Running",
    "SetNote",
    "StartJob",
    "StartTogether",
    "SuspendJob",
    "Trace",
    "UsageColumns",
    "UsageError",
    "UsageTuple",
    "View",
    "VirtualMachine",
    "WakeAt",
    "WholeNodesView",
    "any_layer",
    "bits_of",
    "each_node",
    "first_fit",
    "is_plain",
    "layers_of",
    "lowest_nodes",
    "lowest_threads",
    "minus",
    "packed",
    "penalty_factor",
    "room_on",
    "round_up_us",
    "runs_from",
    "self_factor",
    "share_nodes",
    "short_or_narrow",
    "size",
    "started_by",
    "thread_mask",
    "union",
]
