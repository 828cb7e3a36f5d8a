"""Requests of users to a running manager, and their form on the wire.

Two frames each way: the name of the framing, ``cosched-user/1``, and one msgpack map. A request has a ``type`` and a ``ticket`` (an
integer that the answer repeats, so that an answer to an earlier request is told apart); an answer is either ``{"type": "done",
"ticket", "result"}`` with a map, or ``{"type": "refused", "ticket", "code", "path", "text"}``. The limits are those of the scheduler
protocol, with smaller frames.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, NamedTuple, TypeAlias

from cosched_emulator.offered import DEPENDENCIES
from cosched_hwmodel.units import MIB, SECOND_US
from cosched_plugin.protocol.codec import pack, unpack
from cosched_plugin.protocol.errors import Fault, RemoteProtocolError
from cosched_plugin.protocol.fields import Inline, Items, NodeNumber, Positive, Range
from cosched_plugin.protocol.limits import INT64_MIN
from cosched_plugin.protocol.messages import JobSpec
from cosched_plugin.protocol.vocabulary import Record, read_tagged, record

# The user of a request: the name that the endpoint has verified, and its rights.


class Requester(NamedTuple):
    """A user; an ``operator`` may also change other users' jobs, and nodes."""

    name: str
    operator: bool


# The form of a manager's answers to users: seconds under names that end in ``_s``.


def seconds(span_us: int | None) -> float | None:
    """Return a span of microseconds in seconds; None for None."""
    return None if span_us is None else span_us / SECOND_US


def with_seconds(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a map with the microseconds (names that end in ``_us``) replaced by seconds."""
    return {
        f"{key.removesuffix('_us')}_s" if key.endswith("_us") else key: seconds(value) if key.endswith("_us") else value
        for key, value in row.items()
    }


def ended_job(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer about a job that has ended, from its row in the accounting."""
    answer = with_seconds(row)
    if "id" in answer:
        answer = {"job_id": answer.pop("id"), **answer}
    submit_s, start_s, end_s = (answer.get(key) for key in ("submit_s", "start_s", "end_s"))
    answer["wait_s"] = None if start_s is None or submit_s is None else round(start_s - submit_s, 6)
    answer["elapsed_s"] = None if start_s is None or end_s is None else round(end_s - start_s, 6)
    return answer


class Fields(Mapping[str, Any]):
    """The fields of one of many jobs in an answer, with the names of all: as dicts, ten thousand jobs take 40 MB."""

    __slots__ = ("_names", "_values")
    _shared: ClassVar[dict[tuple[str, ...], tuple[str, ...]]] = {}

    def __init__(self, fields: Mapping[str, Any]) -> None:
        names = tuple(fields)
        self._names = self._shared.setdefault(names, names)
        self._values = tuple(fields.values())

    def __getitem__(self, name: str) -> Any:
        return self.plain()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def plain(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return dict(zip(self._names, self._values, strict=True))


def _plain(value: object) -> dict[str, Any]:
    if isinstance(value, Fields):
        return value.plain()
    raise TypeError(f"a {type(value).__name__} has no form")


MAGIC: Final = b"cosched-user/1"
MAX_REQUEST_BYTES: Final = MIB
MAX_ANSWER_BYTES: Final = 64 * MIB
MOST_TASKS: Final = 10_000  # of one array
MOST_TARGETS: Final = 10_000  # jobs or nodes of one request
MOST_TOKENS: Final = 1_000
MOST_TOLD: Final = 10_000  # ended jobs of one answer


class Target(NamedTuple):
    """A job, or with ``task`` one task of the array that begins with that job; without it, all of the array."""

    job_id: int
    task: int | None = None


Targets: TypeAlias = Annotated[tuple[Target, ...], Items(1, MOST_TARGETS)]
Nodes: TypeAlias = Annotated[tuple[NodeNumber, ...], Items(0, MOST_TARGETS)]


class Dependency(NamedTuple):
    """Start only after that job has ended: well (``afterok``), not well (``afternotok``), or in any way (``afterany``).

    With ``after`` only once it has started, or was cancelled.
    """

    kind: Annotated[str, frozenset(DEPENDENCIES)]
    job_id: int


class SubmitJob(NamedTuple):
    """Submit a job, or an array of them: ``job`` is as its user describes it. Spans in microseconds.

    ``run_us`` is how long the emulated job takes alone (None: as long as ``estimate_us``), ``exit_code`` how it ends; ``tasks`` are
    the indices of an array, of which ``at_once`` may run at a time (0: all). The job may start ``delay_us`` after its submission.
    Its ``partitions`` (any of them; none: the default one), ``qos`` and ``account`` say which limits bind it.
    With ``all_memory`` it gets all memory of its nodes, on each of which it has ``ppn_max`` processes, instead of ``memory_mb``.
    The answer is ``{"job_ids": [...]}``; to a request that repeats one of the last `MOST_TOKENS` ``token``s of this user, which submits
    nothing, that of the first one and ``"repeated": true``.
    """

    job: Annotated[JobSpec, Inline(without=("id", "submit_us", "user"))]
    run_us: Positive | None = None
    tasks: tuple[int, ...] = ()
    at_once: int = 0
    after: tuple[Dependency, ...] = ()
    held: bool = False
    requeue: bool = True
    exit_code: Annotated[int, Range(0, 255)] = 0
    delay_us: int = 0
    all_memory: bool = False
    token: str = ""
    partitions: tuple[str, ...] = ()
    qos: str = ""
    account: str = ""


class CancelJobs(NamedTuple):
    """End jobs. The answer, as that of hold and release, is ``{"changed": [job], "unchanged": [[job, why]]}``."""

    jobs: Targets


class HoldJobs(NamedTuple):
    """Hold pending jobs: they do not start until released."""

    jobs: Targets


class ReleaseJobs(NamedTuple):
    """Release held jobs."""

    jobs: Targets


class DrainNodes(NamedTuple):
    """Give nodes no more work; running jobs continue. Operators only. The answer is ``{"changed": [node], "unchanged": [...]}``."""

    nodes: Nodes
    reason: str = ""


class ResumeNodes(NamedTuple):
    """Put drained or failed nodes back into service. Operators only."""

    nodes: Nodes


class ListJobs(NamedTuple):
    """List the jobs that have not ended; only those of ``user`` if it is not empty."""

    user: str = ""


class ListStarts(NamedTuple):
    """List when pending jobs are expected to start, and why they have not; only those of ``user`` if it is not empty."""

    user: str = ""


class EstimateStart(NamedTuple):
    """Estimate when a job would start if it were submitted now; of an array, its first task."""

    job: SubmitJob


class ListNodes(NamedTuple):
    """List the nodes and their jobs."""


class ShowJobs(NamedTuple):
    """Show the details of some jobs, also of ended ones."""

    jobs: Targets


class ListHistory(NamedTuple):
    """List jobs that have ended, the latest first; only those of ``user`` if it is not empty."""

    user: str = ""
    most: Annotated[int, Range(1, MOST_TOLD)] = 100


class ShowStatus(NamedTuple):
    """Show the state of the manager and its scheduler."""


class OpenWeb(NamedTuple):
    """Tell at which address the manager's pages are, with a ticket for the user."""


class ShowConfig(NamedTuple):
    """Show the settings of the manager: the answer is ``{"run": name, "config": {section: {key: value}}}``."""


class ShowOverview(NamedTuple):
    """Return the content of a live display: status, the head of the queue, nodes, last decisions."""

    most: Annotated[int, Range(1, 10_000)] = 200


JobChange: TypeAlias = CancelJobs | HoldJobs | ReleaseJobs
NodeChange: TypeAlias = DrainNodes | ResumeNodes
Change: TypeAlias = SubmitJob | JobChange | NodeChange  # the others are questions
Request: TypeAlias = (
    Change
    | ListJobs
    | ListStarts
    | EstimateStart
    | ListNodes
    | ShowJobs
    | ListHistory
    | ShowStatus
    | ShowConfig
    | ShowOverview
    | OpenWeb
)


class Done(NamedTuple):
    """The answer to a request that was carried out."""

    result: Mapping[str, Any]


class Refused(NamedTuple):
    """The answer to a refused request; ``path`` is the place in the request, if there is one."""

    # request: malformed or unknown; value: invalid; permission: not yours; missing: no such job or node; rate: too many requests;
    # limit: beyond a limit; accounting: the database cannot be written at present; busy: not now.
    code: str
    text: str
    path: str = ""


TOO_MANY: Final = Refused(
    "rate", "too many requests, or too much work, for one user in a second: try again in a moment"
)
TOO_MANY_CHANGES: Final = Refused(
    "rate", "you have submitted, cancelled, held or released too many jobs recently: try again later"
)

_RECORDS: Final = (
    record(SubmitJob, "submit"),
    record(CancelJobs, "cancel"),
    record(HoldJobs, "hold"),
    record(ReleaseJobs, "release"),
    record(DrainNodes, "drain"),
    record(ResumeNodes, "resume"),
    record(ListJobs, "queue"),
    record(ListStarts, "starts"),
    record(EstimateStart, "test"),
    record(ListNodes, "nodes"),
    record(ShowJobs, "jobs"),
    record(ListHistory, "history"),
    record(ShowStatus, "status"),
    record(ShowConfig, "config"),
    record(ShowOverview, "overview"),
    record(OpenWeb, "web"),
)
_BY_TAG: Final[dict[str, Record]] = {each.tag: each for each in _RECORDS if each.tag is not None}
_BY_KIND: Final[dict[type, Record]] = {each.kind: each for each in _RECORDS}


def to_map(request: Request) -> dict[str, Any]:
    """Return ``request`` as a map."""
    return _BY_KIND[type(request)].write(request)


def from_map(raw: Any) -> Request:
    """Return the request in a map; raises RemoteProtocolError."""
    try:
        request: Request = read_tagged(_BY_TAG, raw, None)
    except Fault as fault:
        raise RemoteProtocolError(fault.code, fault.path, fault.text) from None
    return request


def encode_request(request: Request, ticket: int) -> list[bytes]:
    """Return the frames of a request."""
    return [MAGIC, pack({**to_map(request), "ticket": ticket})]


def decode_request(frames: Sequence[bytes]) -> tuple[int, Request]:
    """Return the ticket and the request in ``frames``; RemoteProtocolError for anything unacceptable."""
    raw = _unpack(frames, MAX_REQUEST_BYTES)
    return _ticket(raw), from_map(raw)


def encode_answer(answer: Done | Refused, ticket: int) -> list[bytes]:
    """Return the frames of an answer."""
    raw: dict[str, Any] = (
        {"type": "done", "result": dict(answer.result)}
        if isinstance(answer, Done)
        else {"type": "refused", **answer._asdict()}
    )
    return [MAGIC, pack({**raw, "ticket": ticket}, _plain)]


def decode_answer(frames: Sequence[bytes]) -> tuple[int, Done | Refused]:
    """Return the ticket and the answer in ``frames``; RemoteProtocolError for anything unacceptable."""
    raw = _unpack(frames, MAX_ANSWER_BYTES)
    ticket = _ticket(raw)
    if raw.get("type") == "done" and isinstance(raw.get("result"), dict):
        return ticket, Done(raw["result"])
    parts = [raw.get(key) for key in Refused._fields]
    if raw.get("type") == "refused" and all(isinstance(part, str) for part in parts):
        return ticket, Refused(*[str(part) for part in parts])
    raise RemoteProtocolError(
        "field", "type", "expected an answer: done with a result, or refused with code, text and path"
    )


def _unpack(frames: Sequence[bytes], most_bytes: int) -> dict[str, Any]:
    if len(frames) != 2 or frames[0] != MAGIC:
        raise RemoteProtocolError("frame", "", f"expected 2 frames, the first of them {MAGIC.decode()}")
    raw = unpack(frames[1], most_bytes)
    if not isinstance(raw, dict):
        raise RemoteProtocolError("field", "", "expected a map")
    return raw


def _ticket(raw: Mapping[str, Any]) -> int:
    ticket = raw.get("ticket")
    if type(ticket) is not int or not INT64_MIN <= ticket < -INT64_MIN:
        raise RemoteProtocolError("field", "ticket", "expected an integer of 64 bits")
    return ticket
