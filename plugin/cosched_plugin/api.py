"""All names that a policy may use: the only module of the plugin that `cosched_plugin.policies` and third parties import.

A policy is an object with `decide(view)`, a generator of decisions. It sees a read-only `View` and yields messages, such as
`StartJob`, `StartTogether`, `SetRotation`, `SetNote`, `WakeAt`; the core validates and applies each, then resumes it.
`docs/writing-a-policy.md` is the guide, `cosched_plugin.testing.check_policy` the conformance check.
"""

# One statement a module; by default the sorter would write one a name.
# isort: skip_file

from __future__ import annotations

from typing import Final

from cosched_hwmodel.bandwidth.bandwidth_matrix import (
    Bools as Bools,
    Floats as Floats,
    Ground as Ground,
    Ints as Ints,
    Load as Load,
    NodeTable as NodeTable,
    Planned as Planned,
    loads_of as loads_of,
)
from cosched_hwmodel.bandwidth.bandwidth_model import penalty_factor as penalty_factor
from cosched_hwmodel import contention
from cosched_hwmodel.contention import Neighbour as Neighbour, penalised_us as penalised_us
from cosched_hwmodel.draws import Beginnings as Beginnings
from cosched_hwmodel.errors import from_outside as from_outside
from cosched_hwmodel.lomarc.lomarc_matrix import UsageColumns as UsageColumns
from cosched_hwmodel.models.importing import NamedImportError as NamedImportError, import_named as import_named
from cosched_hwmodel.pairs import (
    LEAST_SLOWDOWN as LEAST_SLOWDOWN,
    MOST_SLOWDOWN as MOST_SLOWDOWN,
    Beside as Beside,
    JobColumns as JobColumns,
    JobFacts as JobFacts,
    OnGiven as OnGiven,
    PairModel as PairModel,
    known_slowdown as known_slowdown,
)
from cosched_hwmodel.statistical import self_factor as self_factor
from cosched_hwmodel.units import (
    SECOND_US as SECOND_US,
    WHOLE_PPM as WHOLE_PPM,
    NodeSet as NodeSet,
    ThreadMask as ThreadMask,
    round_up_us as round_up_us,
)
from cosched_hwmodel.usage import BOUNDS as BOUNDS, UNKNOWN_USAGE as UNKNOWN_USAGE
from cosched_plugin.common.allocation import (
    Counts as Counts,
    Machine as Machine,
    both_amounts as both_amounts,
    is_plain as is_plain,
    kinds_of as kinds_of,
    room_on as room_on,
    stretch as stretch,
)
from cosched_plugin.common.threads import (
    Layers as Layers,
    any_layer as any_layer,
    apart as apart,
    bits_of as bits_of,
    common as common,
    each_mask as each_mask,
    each_node as each_node,
    is_empty as is_empty,
    layers_of as layers_of,
    lowest_nodes as lowest_nodes,
    lowest_threads as lowest_threads,
    minus as minus,
    nodes_of as nodes_of,
    none_of as none_of,
    on_nodes as on_nodes,
    share_nodes as share_nodes,
    side_by_side as side_by_side,
    size as size,
    thread_mask as thread_mask,
    union as union,
    with_all as with_all,
)
from cosched_plugin.common.errors import (
    MachineError as MachineError,
    PolicyError as PolicyError,
    UsageError as UsageError,
)
from cosched_plugin.common.slots import Rotation as Rotation, predict as predict
from cosched_plugin.core.engine import Policy as Policy
from cosched_plugin.core.first_fit import (
    fill_nodes as fill_nodes,
    first_fit as first_fit,
    lowest_runs as lowest_runs,
    packed as packed,
    rooms_of as rooms_of,
    runs_from as runs_from,
    thread_counts as thread_counts,
)
from cosched_plugin.core.state import Neighbours as Neighbours, load_of as load_of
from cosched_plugin.core.trace import Trace as Trace
from cosched_plugin.core.views.view import View as View
from cosched_plugin.core.views.virtual_machine import VirtualMachine as VirtualMachine
from cosched_plugin.core.views.whole_nodes import (
    Occupancy as Occupancy,
    WholeNodesView as WholeNodesView,
    nodes_view as nodes_view,
    other_threads as other_threads,
    whole_nodes as whole_nodes,
)
from cosched_plugin.core.work import Price as Price, Rate as Rate, Work as Work
from cosched_plugin.ledger.ledger import Queue as Queue, short_or_narrow as short_or_narrow
from cosched_plugin.ledger.running import Ended as Ended, Running as Running
from cosched_plugin.parts import colocated, tenancies, prices as prices
from cosched_plugin.parts.colocated import (
    PAIRING as PAIRING,
    Guest as Guest,
    Pair as Pair,
    PairMonitor as PairMonitor,
    SeatOf as SeatOf,
    beside as beside,
    delete_stale_notes as delete_stale_notes,
    expect_end as expect_end,
    join_host as join_host,
    may_meet as may_meet,
    open_beside as open_beside,
    pair_up as pair_up,
    partner_of as partner_of,
    running_with_note as running_with_note,
    slowdowns_on as slowdowns_on,
    slowed as slowed,
    worst_resource as worst_resource,
)
from cosched_plugin.parts.kinds import (
    Backfill as Backfill,
    Believer as Believer,
    Budget as Budget,
    Changes as Changes,
    ClassPolicy as ClassPolicy,
    Context as Context,
    Fairness as Fairness,
    Footprint as Footprint,
    FoundPlace as FoundPlace,
    Ledger as Ledger,
    Matching as Matching,
    NodePlacement as NodePlacement,
    Order as Order,
    Pairing as Pairing,
    Part as Part,
    PenaltyPlacement as PenaltyPlacement,
    Placement as Placement,
    Placer as Placer,
    RowLoad as RowLoad,
    Shape as Shape,
    Slices as Slices,
)
from cosched_plugin.parts.needs import (
    COMPANY as COMPANY,
    DISK as DISK,
    EVERYTHING as EVERYTHING,
    FILLED_LAYOUTS as FILLED_LAYOUTS,
    SAME_NODES as SAME_NODES,
    FIXED_RUN_TIMES as FIXED_RUN_TIMES,
    FOOTPRINTS as FOOTPRINTS,
    HALVES as HALVES,
    LEAST_PENALTY as LEAST_PENALTY,
    NONE as NONE,
    PAIR_BELIEF as PAIR_BELIEF,
    PAIRS as PAIRS,
    PAYMENTS as PAYMENTS,
    PROMISES as PROMISES,
    ROWS as ROWS,
    SLOTS as SLOTS,
    THREADS as THREADS,
    WHOLE_NODES as WHOLE_NODES,
    Member as Member,
    Needs as Needs,
    refusal as refusal,
)
from cosched_plugin.parts.offers import (
    UNRESERVED as UNRESERVED,
    Gate as Gate,
    Gatekeeper as Gatekeeper,
    Offer as Offer,
    PendingJobs as PendingJobs,
    Seat as Seat,
    Snapshot as Snapshot,
    Unreserved as Unreserved,
    snapshot_at as snapshot_at,
    snapshot_now as snapshot_now,
)
from cosched_plugin.parts.tenancies import (
    Arrival as Arrival,
    GroupSeat as GroupSeat,
    Moved as Moved,
    Newcomer as Newcomer,
    Sharer as Sharer,
    Tenancies as Tenancies,
    Tenancy as Tenancy,
    alone_on as alone_on,
    forecast as forecast,
    resettled as resettled,
    seat_among as seat_among,
    sharing as sharing,
    slowdown_by as slowdown_by,
    tenancy_of as tenancy_of,
)
from cosched_plugin.protocol.limits import MAX_SPAN_US as MAX_SPAN_US
from cosched_plugin.protocol.messages import (
    COUNTABLE as COUNTABLE,
    CUT_SHORT as CUT_SHORT,
    ELIGIBLE_NODES as ELIGIBLE_NODES,
    Action as Action,
    ChangeSlot as ChangeSlot,
    DemandTuple as DemandTuple,
    JobSpec as JobSpec,
    NodeClass as NodeClass,
    NoteValue as NoteValue,
    RejectJob as RejectJob,
    ResumeJob as ResumeJob,
    ReviseJob as ReviseJob,
    Run as Run,
    SetNote as SetNote,
    SetRotation as SetRotation,
    StartJob as StartJob,
    StartTogether as StartTogether,
    SuspendJob as SuspendJob,
    Turn as Turn,
    UsageTuple as UsageTuple,
    WakeAt as WakeAt,
    started_by as started_by,
    starts_of as starts_of,
)
from cosched_plugin.protocol.values import (
    note_of_runs as note_of_runs,
    note_travels as note_travels,
    read_table as read_table,
    runs_of_note as runs_of_note,
    table_note as table_note,
)

NodeLoad = contention.Load
PAIR_NOTE: Final = colocated.NOTE
TENANCY_NOTE: Final = tenancies.NOTE
