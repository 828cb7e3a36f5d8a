"""Messages that no honest peer sends: random, and valid ones that have been damaged. Number n of a seed is always the same."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]
from tests.runs import runs_on

from cosched_emulator.users import requests as r
from cosched_hwmodel.draws import key
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import write
from cosched_plugin.protocol.limits import INT64_MAX, INT64_MIN, MAGIC
from cosched_plugin.status_server import MAGIC as STATUS_MAGIC

Raw = dict[str, Any]
INTEGERS: Final = (
    0, 1, -1, 2, 3, 7, 255, 2**31, 2**32, 2**53, 2**61, 2**61 + 1, INT64_MAX - 1, INT64_MAX, INT64_MIN, 2**63, 2**64 - 1, 10**15,
)  # fmt: skip
FLOATS: Final = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e308, 5e-324, 1.5)
TEXTS: Final = (
    "",
    "x",
    "COMPLETED",
    "busy",
    "état",
    "\x00",
    "\x1b[2J",
    "a" * 200,
    "\U0010ffff",
    "type",
    "../../x",
    "'; DROP",
)
LONG: Final = 70_000  # characters, or bytes
DEEPEST: Final = 2_000

SPEC: Final = m.JobSpec(
    1, 0, 2, 60_000_000, 60_000_000, "ann", "name", 1, 2, 1, 10, demand=(1, 2, 3), self_slowdown=(1_000_000, 1_000_000)
)
START: Final = m.StartJob(1, runs_on((0, 1, 3, 2)), 60_000_000, 60_000_000)
ACTIONS: Final[tuple[m.Action, ...]] = (
    START,
    m.StartTogether((START, START._replace(job_id=2))),
    m.ReviseJob(1, 90_000_000, 90_000_000),
    m.SuspendJob(1),
    m.SuspendJob(2, to_disk=True),
    m.ResumeJob(1),
    m.SetNote(None, "key", (1, 2.5, "text", (None, True))),
    m.SetNote(1, "pace", 1),
    m.WakeAt(10**12),
    m.RejectJob(3, "no"),
    m.RequeueJob(1),
    m.KillJob(2),
    m.SubmitJob(SPEC),
)
EVENTS: Final[tuple[m.Event, ...]] = (
    m.JobSubmitted(SPEC),
    m.JobEnded(1, m.COMPLETED),
    m.JobRequeued(1),
    m.JobHeld(1),
    m.JobReleased(1),
    m.NodeFailed(0),
    m.NodeReturned(0),
    m.Woken(1),
    m.ProgressMeasured(1, 1_500_000),
    m.ActionRefused(1, 0, "no", (1,)),
    m.JobStarted(1, 0, START.runs, 60_000_000, 60_000_000, 0, SPEC),
    m.JobModified(SPEC),
    m.JobRevised(1, 60_000_000, 60_000_000),
    m.JobSuspended(1, 0),
    m.JobResumed(1, 0),
)
NODES: Final = (m.NodeClass(4, 1, 4, 1, 1_000, 1_000, 100, 100, 1_000),)
WELCOME: Final = m.Welcome(
    1, m.FEATURES, 0, 0, NODES, (3,), m.Belief("bandwidth", "bulk-synchronous", ("memory_bandwidth",)),
    (m.RunningJob(SPEC._replace(id=7), 0, runs_on((1, 1, 3, 2)), 60_000_000, 60_000_000),),
    (m.PendingJob(SPEC._replace(id=8), False), m.PendingJob(SPEC._replace(id=9), True)), (m.Note(7, "key", 1),), (10**9,),
)  # fmt: skip
MESSAGES: Final[tuple[m.Message, ...]] = (
    m.Hello((1,), m.FEATURES, "fuzz", "nonsense"),
    m.Hello((1,), m.FEATURES, "fuzz-standby", "nonsense", True, 3),
    WELCOME,
    m.Ready(0),
    m.Events(1, 1_000, EVENTS),
    m.Actions(1, 1_000, ACTIONS),
    m.Resync("fuzz", ((1, 0),)),
    m.Ping(1),
    m.Pong(1),
    m.ErrorReport("state", "type", "say hello first"),
    m.Bye("fuzz"),
)
SUBMISSION: Final = r.SubmitJob(
    m.JobSpec(0, 0, 2, 60_000_000, 60_000_000, "", "name", 1, 2, 1, 10, demand=(1, 2, 3), eligible=((0, 1),), priority=-3),
    30_000_000, (0, 1, 5), 1,
    after=(r.Dependency("afterok", 10**9),),
)  # fmt: skip
REQUESTS: Final[tuple[r.Request, ...]] = (
    SUBMISSION,
    r.CancelJobs((r.Target(10**9), r.Target(10**9, 3))),
    r.HoldJobs((r.Target(10**9),)),
    r.ReleaseJobs((r.Target(10**9),)),
    r.DrainNodes((0, 1), "reason"),
    r.ResumeNodes((0, 1)),
    r.ListJobs("nobody"),
    r.ListNodes(),
    r.ShowJobs((r.Target(1),)),
    r.ListHistory("nobody", 1),
    r.ShowStatus(),
    r.ShowConfig(),
    r.OpenWeb(),
    r.ShowOverview(1),
)
MAGICS: Final = {"scheduler": MAGIC, "plugin": MAGIC, "users": r.MAGIC, "status": STATUS_MAGIC}


def samples_for(endpoint: str) -> list[Raw]:
    """Return valid messages of every type, as maps."""
    if endpoint == "users":
        return [{**r.to_map(request), "ticket": 5} for request in REQUESTS]
    if endpoint == "status":
        return [{"type": "status"}]
    return [write(message) for message in MESSAGES]


class Fuzz:
    """Damaged messages for one endpoint."""

    def __init__(self, endpoint: str, seed: int, samples: Sequence[Mapping[str, Any]] | None = None) -> None:
        """``samples`` are the valid messages to begin with; by default those of the endpoint."""
        self._magic = MAGICS[endpoint]
        self._seed = seed
        # As decoded from the wire, so that they contain only plain values.
        chosen = samples_for(endpoint) if samples is None else samples
        self._samples: list[Raw] = [msgpack.unpackb(msgpack.packb(sample)) for sample in chosen]
        self._kinds: tuple[tuple[Callable[[Random], list[bytes]], int], ...] = (
            (self._damage, 60),
            (self._cut, 10),
            (self._flip_bit, 8),
            (self._valid, 6),
            (self._random_value, 5),
            (self._random_bytes, 3),
            (self._random_frames, 3),
            (self._double_keys, 3),
            (self._deep, 1),
            (self._large, 1),
        )

    def frames(self, number: int) -> list[bytes]:
        """Return message ``number``."""
        random = Random(key(self._seed, "fuzz", number))
        (kind,) = random.choices([kind for kind, _ in self._kinds], [weight for _, weight in self._kinds])
        return kind(random)

    def raw(self, number: int) -> Raw:
        """Return a damaged valid message as a map: for a caller that wraps it into a valid message."""
        random = Random(key(self._seed, "raw", number))
        return damage(random.choice(self._samples), random)

    def _body(self, random: Random) -> bytes:
        return pack(random.choice(self._samples))

    def _damage(self, random: Random) -> list[bytes]:
        return [self._magic, pack(damage(random.choice(self._samples), random))]

    def _valid(self, random: Random) -> list[bytes]:
        return [self._magic, self._body(random)]

    def _cut(self, random: Random) -> list[bytes]:
        body = self._body(random)
        return [self._magic, body[: random.randrange(len(body))]]

    def _flip_bit(self, random: Random) -> list[bytes]:
        body = bytearray(self._body(random))
        for _ in range(random.randint(1, 4)):
            body[random.randrange(len(body))] = random.randrange(256)
        return [self._magic, bytes(body)]

    def _random_value(self, random: Random) -> list[bytes]:
        return [self._magic, pack(any_value(random, 4))]

    def _random_bytes(self, random: Random) -> list[bytes]:
        return [self._magic, random.randbytes(random.choice((0, 1, 5, 50, 500)))]

    def _random_frames(self, random: Random) -> list[bytes]:
        count = random.choice((0, 1, 1, 2, 3, 5, 50))
        choices = (b"", self._magic, b"cosched/2", self._body(random), random.randbytes(20))
        return [random.choice(choices) for _ in range(count)] or [b""]

    def _double_keys(self, random: Random) -> list[bytes]:
        sample = random.choice(self._samples)
        entries = [*sample.items(), *random.choices(list(sample.items()), k=random.randint(1, 3))]
        random.shuffle(entries)
        head = bytes([0x80 | len(entries)]) if len(entries) < 16 else b"\xde" + len(entries).to_bytes(2, "big")
        return [self._magic, head + b"".join([pack(name) + pack(value) for name, value in entries])]

    def _deep(self, random: Random) -> list[bytes]:
        levels = random.choice((9, 100, 1_023, 1_025, DEEPEST))
        opening = random.choice((b"\x91", b"\x81\xa1a", b"\x81\xa4type"))
        return [self._magic, opening * levels + b"\x01"]

    def _large(self, random: Random) -> list[bytes]:
        raw = dict(random.choice(self._samples))
        name = random.choice([*raw, "extra"])
        match random.randrange(5):
            case 0:
                raw[name] = "x" * LONG
            case 1:
                raw[name] = [0] * LONG
            case 2:
                raw[name] = {str(number): number for number in range(1_000)}
            case 3:
                raw |= {f"key{number}": None for number in range(1_000)}
            case _:
                raw[name] = random.randbytes(LONG)
        return [self._magic, pack(raw)]


def to_plugin(seed: int) -> tuple[Fuzz, Fuzz, Fuzz]:
    """Return what a scheduler may be sent: anything, welcomes, and batches of one event."""
    batches = [write(m.Events(1, 1_000, (event,))) for event in EVENTS]
    return Fuzz("plugin", seed), Fuzz("plugin", seed, [write(WELCOME)]), Fuzz("plugin", seed, batches)


def of_scheduler(seed: int) -> tuple[Fuzz, Fuzz]:
    """Return what a scheduler may send: anything, and answers of one action."""
    actions = [write(m.Actions(1, 1, (action,)))["actions"] for action in ACTIONS]
    return Fuzz("scheduler", seed), Fuzz("scheduler", seed, [{"type": "actions", "actions": each} for each in actions])


def pack(value: Any) -> bytes:
    """Return ``value`` as msgpack."""
    body: bytes = msgpack.packb(value, use_bin_type=True)
    return body


def damage(sample: Raw, random: Random) -> Raw:
    """Return a copy of ``sample`` with one to three places changed."""
    copied: Raw = copy.deepcopy(sample)
    for _ in range(random.choice((1, 1, 2, 3))):
        place: Any = copied
        while True:
            inner = [item for item in _items(place) if isinstance(item, dict | list) and item]
            if not inner or random.random() < 0.3:
                break
            place = random.choice(inner)
        _damage_entry(place, random)
    return copied


def _items(place: Any) -> list[Any]:
    return list(place.values()) if isinstance(place, dict) else list(place)


def _damage_entry(place: Any, random: Random) -> None:
    """Change one entry of a map or a list."""
    if not place:
        return
    where = random.choice(list(place)) if isinstance(place, dict) else random.randrange(len(place))
    match random.randrange(8):
        case 0:
            del place[where]
        case 1 if isinstance(place, dict):
            place[random.choice((*TEXTS, 5, None, b"type"))] = any_value(random, 2)
        case 1:
            place.extend([copy.deepcopy(place[where])] * random.choice((1, 3, 100)))
        case 2 if isinstance(place[where], int):
            place[where] = max(INT64_MIN, min(2**64 - 1, place[where] + random.choice((-1, 1, 100, -100, 10**9))))
        case 3:
            place[where] = random.choice(INTEGERS)
        case 4 if isinstance(place, list):
            random.shuffle(place)
        case _:
            place[where] = any_value(random, 2)


def any_value(random: Random, depth: int) -> Any:
    """Return a random value that msgpack can carry, with at most ``depth`` levels of lists and maps."""
    match random.randrange(11 if depth else 8):
        case 0 | 1:
            return random.choice(INTEGERS)
        case 2:
            return random.randint(-200, 200)
        case 3:
            return random.choice(FLOATS)
        case 4 | 5:
            return random.choice(TEXTS)
        case 6:
            return random.choice((None, True, False))
        case 7:
            return random.choice((random.randbytes(3), msgpack.ExtType(5, b"ext"), msgpack.Timestamp(1, 2)))
        case 8 | 9:
            return [any_value(random, depth - 1) for _ in range(random.randrange(4))]
        case _:
            return {random.choice(TEXTS): any_value(random, depth - 1) for _ in range(random.randrange(4))}
