"""All names that a policy may use: the only module of the plugin that `cosched_plugin.policies` and third parties import.

A policy is an object with `decide(view)`, a generator of decisions. It sees a read-only `View` and yields messages, such as
`StartJob`, `StartTogether`, `SetRotation`, `SetNote`, `WakeAt`; the core validates and applies each, then resumes it.
`docs/writing-a-policy.md` is the guide, `cosched_plugin.testing.check_policy` the conformance check.
"""

from __future__ import annotations

from cosched_hwmodel.bandwidth.matrix import Bools, Floats, Ground, Ints, Load, NodeTable, Planned, loads_of
from cosched_hwmodel.bandwidth.model import penalty_factor
from cosched_hwmodel.contention import Load as NodeLoad
from cosched_hwmodel.contention import Neighbour, penalised_us
from cosched_hwmodel.draws import Beginnings
from cosched_hwmodel.lomarc.matrix import UsageColumns
from cosched_hwmodel.models.importing import NamedImportError, import_named
from cosched_hwmodel.pairs import Beside, JobColumns, JobFacts, PairModel
from cosched_hwmodel.statistical.self_slowdown import self_factor
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM, NodeSet, ThreadMask, round_up_us
from cosched_hwmodel.usage import BOUNDS, UNKNOWN_USAGE
from cosched_plugin.common.allocation import (
    Layers,
    Machine,
    bits_of,
    each_mask,
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
from cosched_plugin.common.shares import predict
from cosched_plugin.common.slots import Rotation
from cosched_plugin.core.availability import side_by_side
from cosched_plugin.core.engine import Policy
from cosched_plugin.core.first_fit import (
    any_layer,
    fill_nodes,
    first_fit,
    lowest_nodes,
    lowest_threads,
    packed,
    runs_from,
    thread_mask,
)
from cosched_plugin.core.note_table import read_table, table_note
from cosched_plugin.core.queue import Queue, short_or_narrow
from cosched_plugin.core.residents import Neighbours, load_of
from cosched_plugin.core.running import Ended, Running
from cosched_plugin.core.trace import Trace
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.virtual_machine import VirtualMachine
from cosched_plugin.core.views.whole_nodes import Occupancy, WholeNodesView, nodes_view, whole_nodes
from cosched_plugin.core.work import Price, Rate, Work
from cosched_plugin.parts import prices
from cosched_plugin.parts.backfill import Backfill
from cosched_plugin.parts.budget import Budget
from cosched_plugin.parts.colocated.expected_ends import delete_stale_notes, expect_end, running_with_note
from cosched_plugin.parts.colocated.pair_monitor import PairMonitor
from cosched_plugin.parts.colocated.pairs import NOTE as PAIR_NOTE
from cosched_plugin.parts.colocated.pairs import Guest, Pair, join_host, pair_up, partner_of
from cosched_plugin.parts.colocated.seating import SeatOf, slowdowns_on, worst_resource
from cosched_plugin.parts.fairness import Fairness
from cosched_plugin.parts.matching import Context, Matching
from cosched_plugin.parts.needs import (
    COMPANY,
    DISK,
    FIXED_RUN_TIMES,
    FOOTPRINTS,
    HALVES,
    LEAST_PENALTY,
    NONE,
    PAIR_BELIEF,
    PAIRS,
    PROMISES,
    ROWS,
    SLOTS,
    THREADS,
    WHOLE_NODES,
    Member,
    Needs,
    refusal,
)
from cosched_plugin.parts.offers import Offer, Snapshot, nodes_of, snapshot_at, snapshot_now
from cosched_plugin.parts.order import Order
from cosched_plugin.parts.part import Changes, Part
from cosched_plugin.parts.penalty_placement import FoundPlace, PenaltyPlacement
from cosched_plugin.parts.pending import PendingJobs
from cosched_plugin.parts.placement import Footprint, NodePlacement, Placement, Placer
from cosched_plugin.parts.seats import UNRESERVED, Gate, Gatekeeper, Seat, Unreserved
from cosched_plugin.parts.shape import Shape
from cosched_plugin.parts.turns.pairing import Pairing, RowLoad
from cosched_plugin.parts.turns.slices import ClassPolicy, Slices
from cosched_plugin.protocol.messages import (
    Action,
    ChangeSlot,
    DemandTuple,
    JobSpec,
    NodeClass,
    NoteValue,
    RejectJob,
    ResumeJob,
    ReviseJob,
    Run,
    SetNote,
    SetRotation,
    StartJob,
    StartTogether,
    SuspendJob,
    Turn,
    UsageTuple,
    WakeAt,
)

__all__ = [
    "BOUNDS",
    "COMPANY",
    "DISK",
    "FIXED_RUN_TIMES",
    "FOOTPRINTS",
    "HALVES",
    "LEAST_PENALTY",
    "NONE",
    "PAIRS",
    "PAIR_BELIEF",
    "PAIR_NOTE",
    "PROMISES",
    "ROWS",
    "SECOND_US",
    "SLOTS",
    "THREADS",
    "UNKNOWN_USAGE",
    "UNRESERVED",
    "WHOLE_NODES",
    "WHOLE_PPM",
    "Action",
    "Backfill",
    "Beginnings",
    "Beside",
    "Bools",
    "Budget",
    "ChangeSlot",
    "Changes",
    "ClassPolicy",
    "Context",
    "DemandTuple",
    "Ended",
    "Fairness",
    "Floats",
    "Footprint",
    "FoundPlace",
    "Gate",
    "Gatekeeper",
    "Ground",
    "Guest",
    "Ints",
    "JobColumns",
    "JobFacts",
    "JobSpec",
    "Layers",
    "Load",
    "Machine",
    "MachineError",
    "Matching",
    "Member",
    "NamedImportError",
    "Needs",
    "Neighbour",
    "Neighbours",
    "NodeClass",
    "NodeLoad",
    "NodePlacement",
    "NodeSet",
    "NodeTable",
    "NoteValue",
    "Occupancy",
    "Offer",
    "Order",
    "Pair",
    "PairModel",
    "PairMonitor",
    "Pairing",
    "Part",
    "PenaltyPlacement",
    "PendingJobs",
    "Placement",
    "Placer",
    "Planned",
    "Policy",
    "PolicyError",
    "Price",
    "Queue",
    "Rate",
    "RejectJob",
    "ResumeJob",
    "ReviseJob",
    "Rotation",
    "RowLoad",
    "Run",
    "Running",
    "Seat",
    "SeatOf",
    "SetNote",
    "SetRotation",
    "Shape",
    "Slices",
    "Snapshot",
    "StartJob",
    "StartTogether",
    "SuspendJob",
    "ThreadMask",
    "Trace",
    "Turn",
    "Unreserved",
    "UsageColumns",
    "UsageError",
    "UsageTuple",
    "View",
    "VirtualMachine",
    "WakeAt",
    "WholeNodesView",
    "Work",
    "any_layer",
    "bits_of",
    "delete_stale_notes",
    "each_mask",
    "each_node",
    "expect_end",
    "fill_nodes",
    "first_fit",
    "import_named",
    "is_plain",
    "join_host",
    "layers_of",
    "load_of",
    "loads_of",
    "lowest_nodes",
    "lowest_threads",
    "minus",
    "nodes_of",
    "nodes_view",
    "packed",
    "pair_up",
    "partner_of",
    "penalised_us",
    "penalty_factor",
    "predict",
    "prices",
    "read_table",
    "refusal",
    "room_on",
    "round_up_us",
    "running_with_note",
    "runs_from",
    "self_factor",
    "share_nodes",
    "short_or_narrow",
    "side_by_side",
    "size",
    "slowdowns_on",
    "snapshot_at",
    "snapshot_now",
    "started_by",
    "table_note",
    "thread_mask",
    "union",
    "whole_nodes",
    "worst_resource",
]
