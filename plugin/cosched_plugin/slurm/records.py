"""What slurmrestd says of jobs and nodes, as plain tuples: the one module that knows the shapes of its answers.

In v0.0.37 and v0.0.38 of the interface numbers and states are plain. From v0.0.40 on numbers are maps with `set`, `infinite` and
`number`, and states are lists: `_whole` and `words_of` read both shapes, as 22.05, 24.11 and 26.05 answer.

What comes out of here is within bounds: whatever the driver computes from it fits the protocol's 64 bits.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Annotated, Any, Final, NamedTuple

from cosched_hwmodel.units import MIB
from cosched_plugin.common.limits import TRES, UNBOUND, Association, Limited, Qos
from cosched_plugin.common.slurm_notation import ENDED, WAITING, amounts, expand, state_of, tasks_in, words_of
from cosched_plugin.protocol.errors import Fault, refuse, refuse_integer
from cosched_plugin.protocol.limits import MAX_STRING_BYTES, MAX_THREADS
from cosched_plugin.protocol.messages import Amounts
from cosched_plugin.protocol.values import read_amounts, text_bytes

Record = Mapping[str, Any]

MOST: Final = 2**32 - 1  # of what is counted: Slurm's numbers have 32 bits
MOST_JOB: Final = 2**31 - 1  # numbers of jobs: those of tasks of arrays are made of two
MOST_S: Final = 2**38  # seconds since the epoch; Slurm shows moments some centuries ahead
MOST_MB: Final = 2**40
_COUNT: Final = re.compile(r"([0-9]{1,15})([KMGT]?)", re.IGNORECASE)
_NODE_NAME: Final = re.compile(r"[^\s,=\[\]]{1,255}")  # as it may stand in a list of nodes

_HOLDS: Final = {"JobHeldUser": "user", "JobHeldAdmin": "admin"}
_NEVER_HERE: Final = frozenset({"SPECIAL_EXIT", "REQUEUE_HOLD", "RESV_DEL_HOLD"})  # an operator must release these

# Wishes of a job that the driver does not plan with, by what a user calls them: a job that has one is left to Slurm. `--switches`
# and what says how tasks are bound, or files are named, ask for nothing that a list of nodes would break.
_NO_SPEC: Final = 0x7FFE  # `thread_spec` of a job without one, from v0.0.40 on
_PLAIN: Final[tuple[object, ...]] = (None, "", 0, [], False, "0")
_WISHES: Final = {
    "batch_features": "--batch", "burst_buffer": "--bb", "cluster_features": "--cluster-constraint", "core_spec": "--core-spec",
    "reboot": "--reboot", "tasks_per_board": "tasks per board", "thread_spec": "--thread-spec",
}  # fmt: skip
# A 1 asks for nothing on nodes with one thread a core
_ONES: Final = {"tasks_per_core": "--ntasks-per-core", "threads_per_core": "--threads-per-core"}
_PARTS_OF_GPUS: Final = frozenset({"shard", "mps"})  # what has lent them to some jobs is no device for others meanwhile

# States and flags of nodes in which they take no job. NOT_RESPONDING is none of them: it shows for seconds after a resume. Nor is a
# power that is off, or coming: Slurm puts a job there, which is CONFIGURING until the node is up (22.05 to 26.05).
_BASES: Final = frozenset({"IDLE", "ALLOCATED", "MIXED", "DOWN", "ERROR", "FUTURE", "UNKNOWN"})
_GOOD: Final = frozenset({"IDLE", "ALLOCATED", "MIXED"})
_BAD_FLAGS: Final = frozenset(
    {
        "DRAIN", "FAIL", "POWERING_DOWN", "POWER_DOWN", "REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED", "UNDRAIN", "PLANNED_DOWN",
        "INVALID_REG", "INVALID", "NO_RESPOND_DOWN", "BLOCKED",
    }
)  # fmt: skip


# ---------------------------------------------------------------- values of both shapes


def _set(value: Any) -> Any:
    """Return a value without the map around a number; None where it is not set, or infinite."""
    if isinstance(value, Mapping):
        return value["number"] if value.get("set") and not value.get("infinite") else None
    return value


def _plain(value: Any) -> Any:
    """Return a value without the map around a number; a number of all ones is not set either."""
    value = _set(value)
    return None if value in (0xFFFF, 0xFFFFFFFE) else value


def _whole(record: Record, name: str, most: int = MOST) -> int | None:
    """Return a whole number; None where it is not set, or infinite. Fault for anything else."""
    value = _set(record.get(name))
    if value is not None and (type(value) is not int or not 0 <= value <= most):
        refuse_integer(0, most, value, name)
    return value


def _text(record: Record, name: str, most: int = MAX_STRING_BYTES) -> str:
    """Return a text, which may be missing; Fault for anything else."""
    value = record.get(name)
    try:
        if value is not None and (type(value) is not str or text_bytes(value) > most):
            refuse(f"a string of at most {most} bytes", value)
    except Fault as fault:
        raise fault.under(name)  # noqa: B904 - the same fault, one level out
    return value or ""


def _names(name: str) -> Callable[[Record], tuple[str, ...]]:
    return lambda record: expand(",".join(words_of(record.get(name))))


def _job_state(record: Record) -> str:
    """Return one state: the flags of a newer Slurm go before the state that they are about."""
    try:
        return state_of(record["job_state"])
    except ValueError:
        refuse("a state", record["job_state"], "job_state")


def _is_exclusive(record: Record) -> bool:
    return "none" in words_of(record.get("shared")) or "EXCLUSIVE" in words_of(record.get("exclusive"))


def _is_choosy(record: Record) -> bool:
    """Return whether it shares nodes with jobs of its user, or of its label, alone."""
    return not {"user", "mcs"}.isdisjoint(words_of(record.get("shared")))


def _cores(record: Record) -> Mapping[str, int] | None:
    """Return the cores that a job has on each node; None for v0.0.37, which shows none as allocated."""
    resources = record.get("job_resources")
    if not isinstance(resources, Mapping):
        return None
    newer = resources.get("nodes")
    nodes = newer.get("allocation") if isinstance(newer, Mapping) else resources.get("allocated_nodes")
    if not isinstance(nodes, list):
        return None
    found: dict[str, int] = {}
    try:
        for node in nodes:
            name = node.get("nodename") or node.get("name")
            count = sum(_allocated(node.get("sockets")))
            if not name or not count:
                return None
            found[str(name)] = count
    except (AttributeError, KeyError, TypeError):
        raise Fault("field", "expected sockets and cores of nodes").under("job_resources") from None
    return found or None


def _allocated(sockets: Any) -> Iterable[bool]:
    for socket in sockets.values() if isinstance(sockets, Mapping) else sockets or ():
        cores = socket["cores"]
        for core in cores.values() if isinstance(cores, Mapping) else cores:
            words = core.get("status") if isinstance(core, Mapping) else core
            yield any(word.lower().startswith("allocated") for word in words_of(words))


# ---------------------------------------------------------------- jobs and nodes


def _texts(name: str, most: int = MAX_STRING_BYTES) -> Callable[[Record], str]:
    return lambda record: _text(record, name, most)


def _numbers(name: str, most: int = MOST, unset: int = 0) -> Callable[[Record], int]:
    return lambda record: _whole(record, name, most) or unset


def _small(name: str) -> Callable[[Record], int]:
    """Read a number of 16 bits, of which some versions show those that say that it is not set."""
    return lambda record: value if (value := _whole(record, name) or 0) < 0xFFFE else 0


def _nice(record: Record) -> int:
    value = _set(record.get("nice"))
    if value is not None and type(value) is not int:
        refuse("an integer", value, "nice")
    return 0 if value is None or not -MOST <= value < 0xFFFFFFFE else value


def _least_nodes(record: Record) -> int:
    found = re.search(r"\bnode=(\d{1,9})\b", _text(record, "tres_req_str"))
    return int(found[1]) if found else 0


def _eligible_s(record: Record) -> int:
    """Return when --begin lets a job start: without it, that is no time to wait for, as Slurm's clock may be ahead."""
    at_s = _whole(record, "eligible_time", MOST_S) or 0
    return at_s if at_s > (_whole(record, "submit_time", MOST_S) or 0) else 0


def _features(record: Record) -> str:
    """Return what nodes must have. What they should have they must, too: Slurm refuses a list of nodes that have not (24.11)."""
    texts = [text for name in ("features", "prefer") if (text := _text(record, name))]
    return (
        texts[0]
        if len(texts) == 1
        else "&".join(f"({text})" if "|" in text and "[" not in text else text for text in texts)
    )


def amounts_of(text: str) -> Amounts | None:
    """Return what ``gres:membw:60``, ``gpu:a100:2(S:0),disk`` or ``cpu=4,gres/gpu=1`` names; None where it is not understood.

    What has a type counts under its name, too: an untyped wish may get it. CPUs are counted elsewhere. Fault for too much.
    """
    found: dict[str, int] = {}
    for part in filter(None, re.sub(r"\([^)]*\)", "", text).split(",")):
        name, *more = re.split("[:=]", re.sub(r"^gres[:/]", "", part.strip()))
        count = _COUNT.fullmatch(more[-1]) if more else None
        kind = ":".join([name, *(more if count is None else more[:-1])])
        if "|" in part or "/" in kind or name in _PARTS_OF_GPUS:
            return None
        if kind == "cpu":
            continue
        many = 1 if count is None else int(count[1]) << 10 * " KMGT".index(count[2].upper() or " ")
        for each in {name, kind}:
            found[each] = found.get(each, 0) + many
    amounts: Amounts = read_amounts(tuple(sorted((name, count) for name, count in found.items() if count)))
    return amounts


def _in_all(record: Record) -> Mapping[str, int]:
    with suppress(ValueError):  # a job counts for less where it cannot be read, and that is all
        return amounts(_text(record, "tres_alloc_str"))
    return {}


class _Amounts:
    """Reads the countable resources of a field, and knows the option that asks for them."""

    def __init__(self, name: str, option: str) -> None:
        self._name = name
        self.option = option

    def __call__(self, record: Record) -> Amounts | None:
        """Return them."""
        return amounts_of(_text(record, self._name))


class SlurmJob(NamedTuple):
    """A job of Slurm; times are seconds since the epoch, memory is in MiB. An annotation says how a field is read from a record."""

    job_id: int
    array_id: Annotated[int, _numbers("array_job_id", MOST_JOB)]  # of its array; 0: it is in none
    task: int | None  # its number there; None for all tasks that still wait together
    waiting_tasks: str  # these, as `1,3,5-7%2`
    most_tasks: Annotated[int, _numbers("array_max_tasks")]  # of its array at a time; 0: no limit
    state: Annotated[str, _job_state]
    reason: Annotated[str, _texts("state_reason")]
    held: str  # `user`, `admin`, or empty
    partition: Annotated[str, _texts("partition")]
    user: Annotated[str, _texts("user_name")]
    account: Annotated[str, _texts("account")]
    name: Annotated[str, _texts("name")]
    comment: Annotated[str, _texts("comment")]
    admin_comment: Annotated[str, _texts("admin_comment")]
    nodes: Annotated[tuple[str, ...], lambda record: expand(_text(record, "nodes", MIB))]  # those that it has or had
    required: Annotated[tuple[str, ...], _names("required_nodes")]  # those that it is pinned to
    excluded: Annotated[tuple[str, ...], _names("excluded_nodes")]
    features: Annotated[str, _features]  # that its nodes have, as `a&[b|c]`
    reservation: Annotated[str, _texts("resv_name")]
    wishes: tuple[str, ...]  # what the driver does not plan with
    dependency: Annotated[str, _texts("dependency")]
    het_id: Annotated[int, _numbers("het_job_id", MOST_JOB)]
    node_count: Annotated[int, _numbers("node_count")]
    least_nodes: Annotated[int, _least_nodes]  # 0: not told; unlike the most, a restart of slurmctld does not change it
    most_nodes: Annotated[int, _numbers("max_nodes")]  # 0: as many as its tasks need
    tasks: Annotated[int, _numbers("tasks")]
    tasks_per_node: Annotated[int, _numbers("tasks_per_node")]  # 0: as Slurm fills nodes
    cpus: Annotated[int, _numbers("cpus")]
    cpus_per_task: Annotated[int, _numbers("cpus_per_task", unset=1)]
    threads_per_core: Annotated[int, _numbers("threads_per_core")]  # that it uses; 1: one of each core
    tasks_per_core: Annotated[int, _numbers("tasks_per_core")]  # at most
    least_cpus: Annotated[int, _numbers("minimum_cpus_per_node")]  # of each node
    tasks_per_socket: Annotated[int, _small("tasks_per_socket")]
    sockets: Annotated[int, _small("sockets_per_node")]  # that each node has at least
    cores_per_socket: Annotated[int, _small("cores_per_socket")]  # likewise
    contiguous: Annotated[bool, lambda record: record.get("contiguous") is True]
    exclusive: Annotated[bool, _is_exclusive]
    choosy: Annotated[bool, _is_choosy]
    memory_per_node: Annotated[int, _numbers("memory_per_node", MOST_MB)]
    memory_per_cpu: Annotated[int, _numbers("memory_per_cpu", MOST_MB)]
    disk_mb: Annotated[int, _numbers("minimum_tmp_disk_per_node", MOST_MB)]
    # Countable resources; None: in a form that is not understood, and then `wishes` has the option.
    per_node: Annotated[Amounts | None, _Amounts("tres_per_node", "--gres")]
    per_socket: Annotated[Amounts | None, _Amounts("tres_per_socket", "--gpus-per-socket")]
    per_task: Annotated[Amounts | None, _Amounts("tres_per_task", "--gpus-per-task")]
    per_job: Annotated[Amounts | None, _Amounts("tres_per_job", "--gpus")]
    cpus_per: Annotated[Amounts | None, _Amounts("cpus_per_tres", "--cpus-per-gpu")]
    memory_per: Annotated[Amounts | None, _Amounts("memory_per_tres", "--mem-per-gpu")]
    tasks_per_gpu: Annotated[int, _small("tasks_per_tres")]
    licences: Annotated[Amounts | None, _Amounts("licenses", "--licenses")]
    limit_min: Annotated[int | None, lambda record: _whole(record, "time_limit")]  # None: unlimited
    priority: Annotated[int, _numbers("priority")]  # 0: it is held, and Slurm works out none
    nice: Annotated[int, _nice]
    qos: Annotated[str, _texts("qos")]
    submit_s: Annotated[int, _numbers("submit_time", MOST_S)]
    eligible_s: Annotated[int, _eligible_s]  # 0: from its submission on
    start_s: Annotated[int, _numbers("start_time", MOST_S)]
    end_s: Annotated[int, _numbers("end_time", MOST_S)]
    suspend_s: Annotated[int, _numbers("suspend_time", MOST_S)]  # when it was last suspended, or resumed
    ran_s: Annotated[int, _numbers("pre_sus_time", MOST_S)]  # how long it had run by then, when it was ever suspended
    restarts: Annotated[int, _numbers("restart_cnt")]
    requeue: Annotated[bool, lambda record: record.get("requeue") is True]
    cores: Annotated[Mapping[str, int] | None, _cores]  # that it has on each node; None where Slurm does not tell
    allocated: Annotated[Mapping[str, int], _in_all]  # what it has in all, as limits count it

    @property
    def label(self) -> str:
        """Return the name by which Slurm's commands know it: of tasks of an array that wait together, the array's."""
        return str(self.array_id or self.job_id) + ("" if self.task is None else f"_{self.task}")

    @property
    def partitions(self) -> tuple[str, ...]:
        """Return those in which it may run, as its user has listed them; once it runs, the one in which it does."""
        return tuple(self.partition.split(","))

    @property
    def fixed_nodes(self) -> bool:
        """Tell whether it wants exactly so many nodes, or Slurm shows so many as its guess; else as many as its tasks need."""
        return self.most_nodes == self.node_count > 0

    @property
    def width(self) -> int:
        """Return how many CPUs each task takes: 22.05 does not tell `cpus_per_task`, and has multiplied `cpus` by it."""
        return max(1, self.cpus_per_task, -(-self.cpus // max(1, self.tasks)) if self.state in WAITING else 1)


class SlurmNode(NamedTuple):
    """A node of Slurm; memory is in MiB."""

    name: str
    takes_jobs: bool | None  # None: Slurm does not know itself, as for seconds after its restart
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mb: int
    resources: Amounts
    partitions: tuple[str, ...]
    features: frozenset[str] = frozenset()
    disk_mb: int = 0
    reserved: bool = False  # for some jobs, now
    planned: bool = False  # to be kept, free as it is, for a job that Slurm's backfill has planned
    cloud: bool = False  # while its power is off, Slurm may not show it


class SlurmPartition(NamedTuple):
    """What a partition lets a job have."""

    name: str
    up: bool  # it takes jobs, and starts them
    starts: bool  # those that wait there: also one that is drained does
    least_nodes: int
    most_nodes: int | None  # None: no limit
    most_min: int | None
    most_cpus: int | None  # of each node
    tier: int  # jobs of a higher one come first
    alone: bool  # each job has its nodes to itself
    qos: str = ""  # whose limits bind its jobs, too
    most_mb: int | None = None  # of each node


class Reservation(NamedTuple):
    """Nodes that are kept for some jobs, from one moment to another; times are seconds since the epoch."""

    name: str
    start_s: int
    end_s: int
    nodes: tuple[str, ...]


_READ: Final = {
    name: mark
    for name, hint in SlurmJob.__annotations__.items()
    for mark in getattr(hint, "__metadata__", ())
    if callable(mark)
}


def job_of(record: Record) -> SlurmJob:
    """Return a job from its record; Fault, or whatever else its parts raise, where it is none."""
    job_id = _whole(record, "job_id", MOST_JOB)
    if not job_id:
        refuse_integer(1, MOST_JOB, record.get("job_id"), "job_id")
    fields = {name: read(record) for name, read in _READ.items()}
    task = _whole(record, "array_task_id", MOST - 1) if fields["array_id"] else None
    waiting = _text(record, "array_task_string") if task is None else ""
    tasks_in(waiting)  # which says what is wrong with it
    state = fields["state"]
    held = "admin" if state in _NEVER_HERE else _HOLDS.get(fields["reason"], "") if state in WAITING else ""
    wishes = [option for name, option in _WISHES.items() if _plain(record.get(name)) not in (*_PLAIN, _NO_SPEC)]
    wishes += [option for name, option in _ONES.items() if (_whole(record, name) or 1) not in (1, 0xFFFF)]
    # Slurm keeps a block for it (topology/block), and starts it once no other job is there.
    wishes += ["--exclusive=topo"] if "topo" in words_of(record.get("shared")) else []
    # With `-N 2-4` alone Slurm shows a CPU, and a task for each of two nodes.
    if state in WAITING and 0 < fields["cpus"] < fields["tasks"] != fields["node_count"]:
        wishes.append("--overcommit")
    if fields["tasks_per_gpu"] and not (fields["per_job"] or fields["per_node"]):
        wishes.append("--ntasks-per-gpu without a number of GPUs, which Slurm cannot place either")
    wishes += [mark.option for name, mark in _READ.items() if isinstance(mark, _Amounts) and fields[name] is None]
    return SlurmJob(job_id, task=task, waiting_tasks=waiting, held=held, wishes=tuple(wishes), **fields)


class Dependencies:
    """The jobs of a poll, as others may wait for them: Slurm does not look at the dependencies of held jobs.

    What this cannot know, as of jobs that Slurm has forgotten, Slurm decides once a job is placed: it does not start, and is held.
    """

    def __init__(self, jobs: Sequence[SlurmJob]) -> None:
        self.jobs: dict[int, list[SlurmJob]] = {}  # a job, or the tasks of an array, by its number in Slurm
        self._tasks: dict[tuple[int, int | None], SlurmJob] = {
            (job.array_id, job.task): job for job in jobs if job.task is not None
        }
        self._same: dict[tuple[str, str], int] = {}  # by user and name the first job that waits, 0: one is on nodes
        for job in jobs:
            for number in {job.job_id, job.array_id or job.job_id}:
                self.jobs.setdefault(number, []).append(job)
            if job.state not in ENDED:
                key, first = (job.user, job.name), job.job_id if job.state in WAITING else 0
                self._same[key] = min(first, self._same.get(key, first))

    def opens_s(self, job: SlurmJob, task: int | None) -> float:
        """Return from when on a job, or this task of it, waits for no other; infinity where that is not known.

        It waits for one of those that `?` separates, or for all of them.
        """
        moments = [self._opens_s(word, job, task) for word in re.split(r"[,?]", job.dependency) if word]
        return (min if "?" in job.dependency else max)(moments, default=0)

    def _opens_s(self, word: str, job: SlurmJob, task: int | None) -> float:
        """Return from when on one dependency, such as ``afterok:12_3(unfulfilled)`` or ``after:7+10``, is fulfilled."""
        if word.endswith("(failed)"):  # Slurm has found out that it never will be
            return inf
        if word.partition("(")[0] == "singleton":
            return inf if self._same[job.user, job.name] < job.job_id else 0
        found = re.match(r"(after\w*):(\d{1,10})(?:_(\d{1,10}|\*))?(?:\+(\d{1,10}))?(?!\d)", word)
        if found is None:
            return 0
        kind, number, those = found[1], int(found[2]), found[3]
        if kind == "aftercorr" and (number, task) in self._tasks:
            others = [self._tasks[number, task]]  # each task waits for the one of the same number
        else:
            own = task if kind == "aftercorr" and those else None  # else it is no array that it waits for
            which = own if those in (None, "*") else int(those)
            others = [each for each in self.jobs.get(number, ()) if _may_have(each, which)]
        if kind == "after":
            delay_s = 60 * int(found[4] or 0)
            return max(
                [inf if each.state in WAITING else delay_s and each.start_s + delay_s for each in others], default=0
            )
        if any(each.state not in ENDED for each in others):
            return inf
        good = all(each.state == "COMPLETED" for each in others)
        never = good if kind == "afternotok" else kind in ("afterok", "aftercorr") and not good
        return inf if others and never else 0


def _may_have(job: SlurmJob, task: int | None) -> bool:
    """Return whether a record is of a task of its array, as far as it tells; None: of any."""
    shown = job.waiting_tasks
    return task in (None, job.task) or shown.endswith("...") or any(task in tasks for tasks in tasks_in(shown)[0])


def node_of(record: Record) -> SlurmNode:
    """Return a node from its record; Fault, or whatever else its parts raise, where it is none."""
    words = {word.upper() for word in (*words_of(record["state"]), *words_of(record.get("state_flags")))}
    base = words & _BASES
    takes: bool | None = bool(base & _GOOD) and not words & _BAD_FLAGS
    if not takes and not words & _BAD_FLAGS and base == {"UNKNOWN"}:
        takes = None
    sockets, cores, threads = [_whole(record, name, MAX_THREADS) or 0 for name in ("sockets", "cores", "threads")]
    if not 1 <= sockets * cores * threads <= MAX_THREADS:
        raise Fault("field", f"expected 1 to {MAX_THREADS} threads, got {sockets} x {cores} x {threads}")
    name = _text(record, "name")
    if not _NODE_NAME.fullmatch(name) or not name.isprintable():
        refuse("a node's name", name, "name")
    return SlurmNode(
        name,
        takes,
        sockets,
        cores,
        threads,
        _whole(record, "real_memory", MOST_MB) or 0,
        amounts_of(_text(record, "gres")) or (),
        tuple(words_of(record.get("partitions"))),
        frozenset(",".join(words_of(record.get("active_features"))).split(",")) - {""},
        _whole(record, "temporary_disk", MOST_MB) or 0,
        not {"MAINTENANCE", "RESERVED"}.isdisjoint(words),
        "PLANNED" in words,
        "CLOUD" in words,
    )


def partition_of(record: Record) -> SlurmPartition:
    """Return a partition from its record, of which 22.05 has all in one map; Fault, or whatever else its parts raise."""

    def limit(*names: str) -> int | None:
        value = _set(_there(record, *names))
        return None if value in (None, -1, 0) else _whole({names[-1]: value}, names[-1])

    state = {word.upper() for word in words_of(_there(record, "state", "partition.state"))}
    flags = words_of(_there(record, "maximums.oversubscribe.flags"))
    return SlurmPartition(
        _text(record, "name"),
        "UP" in state,
        not state.isdisjoint(("UP", "DRAIN")),
        limit("min nodes per job", "minimums.nodes") or 0,
        limit("maximum_nodes_per_job", "maximums.nodes"),
        limit("max_time_limit", "maximums.time"),
        limit("maximum_cpus_per_node", "maximums.cpus_per_node"),
        limit("priority_tier", "priority.tier") or 0,
        any(flag.lower().startswith("exclusive") for flag in flags),
        text if isinstance(text := _there(record, "qos.assigned", "qos"), str) else "",
        limit("maximum_memory_per_node", "maximums.partition_memory_per_node"),
    )


def reservation_of(record: Record) -> Reservation:
    """Return a reservation from its record; Fault, or what else is raised."""
    return Reservation(
        _text(record, "name"),
        _whole(record, "start_time", MOST_S) or 0,
        _whole(record, "end_time", MOST_S) or MOST_S,
        expand(_text(record, "node_list", MIB)),
    )


def licence_of(record: Record) -> tuple[str, int]:
    """Return the name of a licence, and how many of it the cluster has; Fault, or what else is raised."""
    return _text(record, "LicenseName"), _whole(record, "Total") or 0


def qos_of(record: Record) -> Qos:
    """Return a QOS from its record; Fault, or what else is raised."""
    flags, others = words_of(record.get("flags")), _others(record, _OTHERS_OF_QOS)
    together, of_user, of_account = [
        _most(record, name, f"limits.max.{jobs}", f"limits.max.{tres}", others)
        for name, jobs, tres in (
            ("GrpTRES", "active_jobs.count", "tres.total"),
            ("MaxTRESPU", "jobs.active_jobs.per.user", "tres.per.user"),
            ("MaxTRESPA", "jobs.active_jobs.per.account", "tres.per.account"),
        )
    ]
    if "RELATIVE" in flags:  # its TRES are percents of what the cluster has, or a partition
        together, of_user, of_account = [Limited(most.jobs) for most in (together, of_user, of_account)]
        others.append("TRES in percent")
    factor = _set(_there(record, "limits.factor"))
    return Qos(
        _text(record, "name"), _whole(record, "priority") or 0, together, of_user, of_account, tuple(others),
        first="OVERRIDE_PARTITION_QOS" in flags,
        factor=float(factor) if isinstance(factor, int | float) and factor > 0 else None,
    )  # fmt: skip


def association_of(record: Record) -> Association:
    """Return an association from its record; Fault, or what else is raised."""
    others = _others(record, _OTHERS_OF_ASSOCIATIONS)
    together = _most(record, "GrpTRES", "max.jobs.per.count", "max.tres.total", others)
    account, user, parent, partition = [
        _text(record, name) for name in ("account", "user", "parent_account", "partition")
    ]
    most = _whole({"jobs": _there(record, "max.jobs.active")}, "jobs")
    jobs, share = UNBOUND if most is None else most, _whole(record, "shares_raw")
    return Association(account, user, parent, share, together, jobs, tuple(others), partition)


# Limits of jobs alone, of what they use in the course of time, and of time, by where they stand: Slurm alone judges by them.
_OTHERS_OF_QOS: Final = {
    **{f"limits.max.tres.{path}": name for path, name in {
        "per.job": "MaxTRES", "per.node": "MaxTRESPerNode", "minutes.total": "GrpTRESMins", "minutes.per.qos": "GrpTRESRunMins",
        "minutes.per.job": "MaxTRESMins",
    }.items()},
    "limits.max.wall_clock.per.job": "MaxWall", "limits.max.wall_clock.per.qos": "GrpWall", "limits.min.tres.per.job": "MinTRES",
}  # fmt: skip
_OTHERS_OF_ASSOCIATIONS: Final = {
    **{f"max.tres.{path}": name for path, name in {
        "per.job": "MaxTRES", "per.node": "MaxTRESPerNode", "group.minutes": "GrpTRESMins", "group.active": "GrpTRESRunMins",
        "minutes.per.job": "MaxTRESMins",
    }.items()},
    "max.jobs.per.wall_clock": "MaxWall", "max.per.account.wall_clock": "GrpWall",
}  # fmt: skip


def _others(record: Record, names: Mapping[str, str]) -> list[str]:
    return [name for path, name in names.items() if _set(_there(record, path)) not in (None, [])]


def _most(record: Record, name: str, jobs: str, tres: str, others: list[str]) -> Limited:
    """Return the limits at two paths; those of other TRES go to ``others``."""
    found: dict[str, int] = {}
    for row in _there(record, tres) or ():
        kind, count = "/".join(filter(None, (_text(row, "type"), _text(row, "name")))), _whole(row, "count", UNBOUND)
        if kind not in TRES:
            others.append(f"{name} {kind}")
        elif count is not None:
            found[kind] = count
    return Limited.of_slurm(_whole({jobs: _there(record, jobs)}, jobs), found)


def _there(record: Any, *paths: str) -> Any:
    """Return what stands at the first of some paths, such as `a.b`, that is there; None for none."""
    for path in paths:
        value = record
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None
