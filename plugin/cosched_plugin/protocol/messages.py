"""The vocabulary of the protocol, version 1: what manager and scheduler tell each other.

Times and spans are integers of microseconds (``_us``). Jobs and nodes are dense integers from the manager. PROTOCOL.md has the rules.
"""

from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple, TypeAlias

from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.units import ThreadMask
from cosched_plugin.protocol.fields import (
    SPARSE,
    AnyInteger,
    Feature,
    Form,
    Items,
    Name,
    NodeCount,
    NodeNumber,
    Positive,
    SlotNumber,
)
from cosched_plugin.protocol.machine import ANY_LAYOUT as ANY_LAYOUT
from cosched_plugin.protocol.machine import APART as APART
from cosched_plugin.protocol.machine import CAPABILITIES as CAPABILITIES
from cosched_plugin.protocol.machine import DEVICES as DEVICES
from cosched_plugin.protocol.machine import FILLED as FILLED
from cosched_plugin.protocol.machine import HARDWARE as HARDWARE
from cosched_plugin.protocol.machine import LAYOUTS as LAYOUTS
from cosched_plugin.protocol.machine import MOST_SHARES as MOST_SHARES
from cosched_plugin.protocol.machine import PROFILE as PROFILE
from cosched_plugin.protocol.machine import RESOURCES as RESOURCES
from cosched_plugin.protocol.machine import SLOTS as SLOTS
from cosched_plugin.protocol.machine import Amounts as Amounts
from cosched_plugin.protocol.machine import CacheLevel as CacheLevel
from cosched_plugin.protocol.machine import Capabilities as Capabilities
from cosched_plugin.protocol.machine import NodeClass as NodeClass
from cosched_plugin.protocol.machine import NodeHardware as NodeHardware
from cosched_plugin.protocol.machine import SlotState as SlotState
from cosched_plugin.protocol.machine import Turn as Turn

Shares: TypeAlias = tuple[tuple[int, int], ...]  # pairs of numbers, such as a job and its share


class QuantumEnded(NamedTuple):
    """A quantum ended; ``shares`` are those of the jobs that could run for at least half of it, by job id.

    A share is the CPU time that was logged for the job, as a part of the time for which it could run, in millionths: the mean
    over its processes.
    """

    quantum: Positive  # its number, from 1
    slot: SlotNumber  # the first slot of the turn that it belonged to
    left: int = 0  # quanta of that turn that are still to come
    shares: Shares = ()  # (job id, share)


class SetRotation(NamedTuple):
    """Set the rotation: the first turn is that of quantum number ``quantum``; if that has ended, a later one.

    No two turns have the same first slot. Without turns, slot 0 runs all the time.
    """

    quantum: Positive  # number of the quantum with which the first turn begins: the next one, `view.quantum + 1`
    turns: tuple[Turn, ...]  # the turns; each slot has a running job. None: slot 0 runs all the time


class ChangeSlot(NamedTuple):
    """Move a running job to another slot, in which its threads are free; it stays on its nodes."""

    job_id: int  # the job
    slot: SlotNumber  # its new slot


# The vocabulary of the scheduler protocol: the events that a manager sends, and the actions that a scheduler may request.
#
# Plain immutable tuples with names. Events are in the past tense, actions in the imperative. Times and spans are integer
# microseconds (``_us``); memory is in MiB (``_mb``), rates are in MB/s (``_mbs``). Jobs and nodes are dense integers chosen by the
# manager. ``PROTOCOL.md`` is the specification; ``codec`` turns these into bytes and back.

# What one process asks of its node: (memory bandwidth, network, disk) in MB/s.
DemandTuple: TypeAlias = tuple[int, int, int]
# How a job uses its nodes: (class: cpu, network or disk; then, in millionths, the shares of its run time on cpu, network and disk,
# which make up the whole, and its memory as a part of a node's).
UsageTuple: TypeAlias = Annotated[tuple[str, int, int, int, int], Form("usage")]
# How a job slows itself down, in millionths: by how much longer it takes with a process on each CPU of its nodes than with one
# process a node, and by how much more with processes on all cores of a CPU than on one.
SelfSlowdown: TypeAlias = tuple[Positive, Positive]
# A value that a policy may leave with the manager.
NoteValue: TypeAlias = "bool | int | float | str | tuple[NoteValue, ...] | None"

PROTOCOL_VERSION = 1
# Features of managers that do more than they are asked to, and of jobs and machines that ask for more than threads and memory.
STARTED: Final = "started"  # `job_started`
MODIFIED: Final = "modified"  # `job_modified`, `job_revised`
SUSPENDED: Final = "suspended"  # `job_suspended`, `job_resumed`, `held` of a running job
UNKNOWN_ENDS: Final = "unknown"  # the final state `UNKNOWN`
RESYNC: Final = "resync"  # the message of that name, and refusals of earlier batches than the last
PRIORITY: Final = "priority"  # that field of a job
ELIGIBLE: Final = "eligible"  # that field of a job
REQUEUE: Final = "requeue"  # `requeue_job`; `leaving` of a running job
KILL: Final = "kill"  # `kill_job`; `leaving` of a running job
SUBMIT: Final = "submit"  # `submit_job`
FEATURES = (
    "notes", "groups", "wakes", "revise", "suspend", "disk", SLOTS, HARDWARE, PROFILE, STARTED, MODIFIED, SUSPENDED, UNKNOWN_ENDS,
    RESYNC, PRIORITY, ELIGIBLE, RESOURCES, CAPABILITIES, REQUEUE, KILL, SUBMIT, APART, DEVICES,
)  # fmt: skip

# Final states of a job, with Slurm's names. REJECTED stands for a submission that the manager refused; UNKNOWN for a job that is gone,
# while nobody looked how it ended.
COMPLETED = "COMPLETED"
FAILED = "FAILED"
TIMEOUT = "TIMEOUT"
CANCELLED = "CANCELLED"
NODE_FAIL = "NODE_FAIL"
REJECTED = "REJECTED"
UNKNOWN = "UNKNOWN"
END_STATES = frozenset({COMPLETED, FAILED, TIMEOUT, CANCELLED, NODE_FAIL, REJECTED, UNKNOWN})


class Run(NamedTuple):
    """Neighbouring nodes that a job uses in the same way; an allocation is a tuple of runs that have no node in common."""

    first: int  # number of the first node
    count: int  # type: ignore[assignment]  # how many, from `first` on
    mask: ThreadMask  # the threads that the job has on each of them
    processes: int  # on each of them


Runs: TypeAlias = Annotated[tuple[Run, ...], Form("runs")]


class JobSpec(NamedTuple):
    """A job as its user described it: all that a real manager knows before the job runs."""

    id: int  # number of the job, unique in a run
    submit_us: int  # instant of the submission
    processes: Positive  # how many it asks for, at least 1
    estimate_us: Positive  # span: the run time that the user expects. Plans are made with it
    limit_us: Positive | None = None  # span from its start after which the manager kills it; `None`: never
    user: str = ""  # its owner; empty if unknown
    name: str = ""  # its name; empty if it has none. Of an SWF log: the number of its program
    ppn_min: Positive = 1  # the least on a node; the last node may have fewer
    ppn_max: int = 0  # the most on a node; 0: as many as fit
    threads_per_process: Positive = 1  # how many each process takes
    memory_mb: int = 0  # memory of each process; 0: it asks for none
    exclusive: bool = False  # it takes all threads of its nodes, in its slot
    # nodes that it may have, as (first, count); none: all nodes
    eligible: tuple[tuple[NodeNumber, NodeCount], ...] = ()
    resources: Annotated[Amounts, Feature((RESOURCES,))] = ()  # what it takes of each of its nodes, by name
    licences: Annotated[Amounts, Feature((RESOURCES,))] = ()  # what it takes of the whole cluster, by name
    demand: DemandTuple | None = None  # what each process asks of its node; `None`: unknown
    usage: UsageTuple | None = None  # how it uses its nodes; `None`: unknown
    self_slowdown: SelfSlowdown | None = None  # how it slows itself down; `None`: unknown
    unpaired: bool = False  # it shares no core, and no job of another slot may run on its nodes in the same quantum
    # what each process asks of all of its node (`plugin/PROTOCOL.md`, "A profile"); `None`: unknown
    profile: Annotated[Profile | None, Feature((PROFILE,))] = None
    priority: Annotated[AnyInteger, Feature((PRIORITY,))] = 0  # the higher, the sooner, where a policy goes by it

    @property
    def longest_us(self) -> int:
        """Return the longest span that it may take alone: its limit; without one, its estimate."""
        return self.estimate_us if self.limit_us is None else self.limit_us


class RunningJob(NamedTuple):
    """A job that holds nodes: its spec and the start that the manager committed."""

    spec: JobSpec
    start_us: int
    runs: Runs
    estimate_us: Positive  # run time expected, from the start on, time suspended so far included; as last revised
    limit_us: Positive | None = None  # limit granted, from the start on; as last revised
    suspended_us: int | None = None  # since when it is suspended; None: it runs
    measured_ppm: int = 0  # slowdown last measured among its present neighbours, in millionths; 0: not measured
    idle_us: int = 0  # time since its start in which it was suspended, or came back from disk, up to `ready_us`
    on_disk: bool = False  # suspended to disk: others may have its threads and its memory
    ready_us: int = 0  # when it last came back from disk and went on, or will; 0: never
    slot: SlotNumber = 0
    quanta: int = 0  # quanta since its start in which a share was measured
    shares: tuple[int, ...] = ()  # the last of these shares, the newest first, in millionths; at most `MOST_SHARES`
    held: Annotated[bool, Feature((SUSPENDED,))] = False  # the manager has suspended it, and it alone resumes it
    # it is to be killed or requeued, and still holds its nodes
    leaving: Annotated[bool, Feature((REQUEUE, KILL))] = False


class PendingJob(NamedTuple):
    """A pending job; a held one must not be started."""

    spec: JobSpec
    held: bool = False


class Note(NamedTuple):
    """A value that a policy left with the manager, about one job or (``job_id`` None) about the whole cluster."""

    job_id: int | None
    key: Name
    value: Annotated[NoteValue, Form("value")]


# ---------------------------------------------------------------- events: manager -> scheduler


class JobSubmitted(NamedTuple):
    """A job entered the queue."""

    job: JobSpec


class JobEnded(NamedTuple):
    """A running job ended, or a pending one left the queue, for good."""

    job_id: int
    state: Annotated[str, END_STATES]


class JobRequeued(NamedTuple):
    """A running job lost its nodes and is pending again; it will start from its beginning."""

    job_id: int


class JobHeld(NamedTuple):
    """A pending job must not be started until it is released."""

    job_id: int


class JobReleased(NamedTuple):
    """A held job may be started again."""

    job_id: int


class JobStarted(NamedTuple):
    """The manager has started a job: one that the scheduler had not started, or elsewhere or later than it had decided."""

    job_id: int
    start_us: int
    runs: Runs
    estimate_us: Positive
    limit_us: Positive | None = None
    slot: SlotNumber = 0
    job: JobSpec | None = None  # the whole job, where the scheduler has never heard of it


class JobModified(NamedTuple):
    """The description of a pending or running job has changed; its notes stay."""

    job: JobSpec


class JobRevised(NamedTuple):
    """The manager has changed the expected run time and the limit of a running job, from its start on; a limit may fall."""

    job_id: int
    estimate_us: Positive
    limit_us: Positive | None = None


class JobSuspended(NamedTuple):
    """The manager has suspended a running job, in place or to disk; it alone resumes it."""

    job_id: int
    at_us: int
    to_disk: bool = False


class JobResumed(NamedTuple):
    """The manager has resumed a suspended job, as `ResumeJob` would have at that instant."""

    job_id: int
    at_us: int


class NodeFailed(NamedTuple):
    """A node takes no more work; what ran there is reported by events of its own.

    ``until_us``: it is announced to return then; 0: not known. Said again of a node, it replaces what was announced.
    """

    node: NodeNumber
    until_us: int = 0


class NodeReturned(NamedTuple):
    """A node takes work again."""

    node: NodeNumber


class Woken(NamedTuple):
    """The time of a `WakeAt` has come."""

    at_us: int


class ProgressMeasured(NamedTuple):
    """A running job's work was found to take ``slowdown_ppm`` / 1,000,000 times as long as alone; holds until its neighbours change."""

    job_id: int
    slowdown_ppm: Positive


class ActionRefused(NamedTuple):
    """Action number ``action`` of the reply to batch ``seq`` had no effect; ``job_ids`` are the jobs that it would have started.

    Of a reply before the last one, only starts are refused.
    """

    seq: Positive
    action: int
    reason: str
    job_ids: tuple[int, ...] = ()


Event: TypeAlias = (
    JobSubmitted
    | JobEnded
    | JobRequeued
    | JobHeld
    | JobReleased
    | JobStarted
    | JobModified
    | JobRevised
    | JobSuspended
    | JobResumed
    | NodeFailed
    | NodeReturned
    | ProgressMeasured
    | Woken
    | ActionRefused
    | QuantumEnded
)


# ---------------------------------------------------------------- actions: scheduler -> manager


class StartJob(NamedTuple):
    """Start a pending job now, on these nodes.

    ``estimate_us`` is the run time expected there; ``limit_us`` the time after which the manager kills, never below the job's
    own limit, None exactly when the job has none.
    """

    job_id: int  # the job
    runs: Runs  # its nodes
    estimate_us: Positive  # span: the run time expected there, at least 1
    # span from its start after which the manager kills it: at least the job's own; `None` exactly if the job has none
    limit_us: Positive | None = None
    slot: SlotNumber = 0  # the slot in which it is to run, on machines with slots


class StartTogether(NamedTuple):
    """Start several jobs in one decision: all of them, or none."""

    starts: Annotated[tuple[StartJob, ...], Items(1)]  # the starts


class ReviseJob(NamedTuple):
    """Set a running job's expected run time and its limit, both counted from its start.

    The limit never falls, and is None exactly when the job has none.
    """

    job_id: int  # the job
    estimate_us: Positive  # span from its start to the end that is now expected
    limit_us: Positive | None = None  # span from its start after which the manager kills it; it never falls


class SuspendJob(NamedTuple):
    """Stop a running job: it makes no progress, and its limit and its expected end move with it.

    It keeps its threads and its memory; with ``to_disk`` it leaves them to others, its memory goes to the disks of its nodes, and
    it can only go on where it was.
    """

    job_id: int  # the job
    to_disk: bool = False  # its memory goes to the disks of its nodes; other jobs may have its threads


class ResumeJob(NamedTuple):
    """Resume a suspended job where it stopped; from disk once its threads and memory are free; `Welcome` tells after how long."""

    job_id: int  # the job


# Key of a note about the cluster: the instant at which a budget last cut its plans short
CUT_SHORT: Final = "cut-short"
SET_ASIDE: Final = "set-aside"  # key of a note about a job on which the policy fails: why the scheduler leaves it out


class SetNote(NamedTuple):
    """Leave ``value`` with the manager under ``key``; None takes the note away."""

    job_id: int | None  # the job that the note is about; `None`: the cluster
    key: Name  # name of the note
    value: Annotated[NoteValue, Form("value")]  # its value; `None` takes the note away


class WakeAt(NamedTuple):
    """Ask for a `Woken` event at ``at_us``, which must lie ahead."""

    at_us: int  # the instant; it must be after now


class RejectJob(NamedTuple):
    """Take a pending job out of the queue for good, with a reason for its user."""

    job_id: int  # the job
    reason: str  # why, for its user


class RequeueJob(NamedTuple):
    """Ask the manager to take a running job off its nodes and to queue it again; it holds them until `JobRequeued` says so."""

    job_id: int  # the job


class KillJob(NamedTuple):
    """Ask the manager to end a running job; it holds its nodes until `JobEnded` says so."""

    job_id: int  # the job


class SubmitJob(NamedTuple):
    """Ask the manager to submit a job; it chooses the id, and the job is there once `JobSubmitted` says so."""

    job: JobSpec  # the job; its id and its instant of submission mean nothing


class UnknownAction(NamedTuple):
    """Stand-in for an action that this version does not know; the manager refuses it. No scheduler ever makes one."""

    type: str  # its name on the wire


Action: TypeAlias = (
    StartJob
    | StartTogether
    | ReviseJob
    | SuspendJob
    | ResumeJob
    | SetRotation
    | ChangeSlot
    | SetNote
    | WakeAt
    | RejectJob
    | RequeueJob
    | KillJob
    | SubmitJob
    | UnknownAction
)


def starts_of(action: Action) -> tuple[StartJob, ...]:
    """Return the starts in an action."""
    match action:
        case StartJob():
            return (action,)
        case StartTogether():
            return action.starts
        case _:
            return ()


def started_by(action: Action) -> tuple[int, ...]:
    """Return the jobs that an action starts."""
    return tuple(start.job_id for start in starts_of(action))


def count_actions(actions: Iterable[Action]) -> int:
    """Return how many actions a reply has for `most_actions`: one that starts jobs counts once for each."""
    return sum([max(1, len(started_by(action))) for action in actions])


# ---------------------------------------------------------------- session messages


# What jobs may ask for beyond threads and memory, and not every policy honours.
ELIGIBLE_NODES: Final = "eligible nodes"
COUNTABLE: Final = "countable resources"


class Hello(NamedTuple):
    """First message of a scheduler: the versions and features it can speak, and its identity."""

    versions: tuple[Positive, ...]
    features: Annotated[tuple[Name, ...], SPARSE]
    instance: Annotated[str, Form("filled")]  # unique to one scheduler process
    policy: str = ""  # for people
    standby: bool = False  # it waits to take over from a scheduler that falls silent
    greeting: int = 0  # counts this scheduler's hellos; what follows from one repeats its number. 0: not counted
    # what follows `--policy` where another process makes the same policy; none: not told
    arguments: tuple[str, ...] = ()
    # what a job may ask for and its policy does not honour, of `ELIGIBLE_NODES` and `COUNTABLE`
    ignores: tuple[str, ...] = ()


class Belief(NamedTuple):
    """The site's belief about contention on its nodes."""

    contention: str  # name of the model; `none`: jobs do not slow each other down
    composition: str  # how the slowdowns on its nodes make that of a job: `bulk-synchronous` or `paper`
    resources: tuple[Name, ...] = ()  # resources that count, of `memory_bandwidth`, `network` and `disk`
    parameters: Annotated[tuple[tuple[str, NoteValue], ...], Form("pairs")] = ()  # parameters of the model, by name


class Welcome(NamedTuple):
    """The manager's full state as of the last answered batch: all that a scheduler needs to continue."""

    version: Positive
    features: Annotated[tuple[Name, ...], SPARSE]
    seq: int  # last answered batch
    now_us: int
    nodes: Annotated[tuple[NodeClass, ...], Form("classes")]
    down: Annotated[tuple[NodeNumber, ...], SPARSE]
    belief: Belief
    running: tuple[RunningJob, ...]
    pending: tuple[PendingJob, ...]
    notes: tuple[Note, ...] = ()
    wakes: tuple[int, ...] = ()
    resume_us: int = 0  # how long a job that comes back from disk makes no progress
    greeting: int = 0  # of the hello that it answers
    slots: Annotated[SlotState | None, Feature((SLOTS,))] = None  # None: the machine has no slots
    capabilities: Capabilities = Capabilities()
    licences: Annotated[Amounts, Feature((RESOURCES,))] = ()  # countable resources of the whole cluster, by name
    switch_us: int = 0  # how long a job that was suspended on its nodes makes no progress when it is resumed
    image_mbs: int = 0  # at which a node writes the memory of a job to disk, and reads it back; 0: at once
    returns: tuple[int, ...] = ()  # when each node of `down` is announced to return, 0: not known; none: of no node


class Ready(NamedTuple):
    """The scheduler has taken over the state of `Welcome` and awaits events."""

    seq: int
    greeting: int = 0


class Events(NamedTuple):
    """All events of one instant."""

    seq: Positive
    now_us: int
    events: tuple[Event, ...]
    greeting: int = 0


class Actions(NamedTuple):
    """The answer to batch ``seq``."""

    seq: Positive
    now_us: int
    actions: tuple[Action, ...]
    greeting: int = 0


class Resync(NamedTuple):
    """The manager asks the scheduler to drop its state and to say hello again; ``reason`` is for people.

    ``unsettled`` are actions that may or may not have had an effect, as (batch, number): the next welcome tells.
    """

    reason: str = ""
    unsettled: Shares = ()
    greeting: int = 0


class Ping(NamedTuple):
    """Are you there?"""

    token: AnyInteger


class Pong(NamedTuple):
    """Yes, I am."""

    token: AnyInteger


class ErrorReport(NamedTuple):
    """The peer's last message could not be accepted."""

    code: str
    path: str = ""
    text: str = ""


class Bye(NamedTuple):
    """The sender leaves; ``reason`` is for people."""

    reason: str = ""


Message: TypeAlias = Hello | Welcome | Ready | Events | Actions | Resync | Ping | Pong | ErrorReport | Bye
