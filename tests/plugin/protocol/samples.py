"""Messages of every kind, with every field in use somewhere."""

from __future__ import annotations

from typing import Any

import msgpack  # type: ignore[import-untyped]
from tests.runs import runs_on

from cosched_hwmodel.composite.job_profile import Profile
from cosched_plugin.common.errors import RemoteProtocolError
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.limits import MAGIC

JOB = m.JobSpec(3, 1_000_000, 4, 60_000_000, 60_000_000, "ada", "wave", 2, 4, 2, 512, True, demand=(500, 0, 10))
USAGE: m.UsageTuple = ("cpu", 700_000, 100_000, 200_000, 250_000)
START = m.StartJob(3, runs_on((0, 2, 15, 4), (7, 1, 3, 1)), 60_000_000, 90_000_000)
PARAMETERS = (("remainder", True), ("c_scope", "all"), ("pair_seed", -1), ("levels", (1, 2.5, None)))
BELIEF = m.Belief("bandwidth", "bulk-synchronous", ("memory_bandwidth",), PARAMETERS)
HARDWARE = m.NodeHardware(1_000_000, 2_000_000, (m.CacheLevel(2, 512, 1, 10), m.CacheLevel(3, 32_768, 2, 80, 500_000)))
PROFILE = Profile(integer_ppm=535_000, network_ppm=400_000, network_mbs=70, memory_mb=400)
WELCOME = m.Welcome(
    1,
    m.FEATURES,
    7,
    5_000_000,
    (
        m.NodeClass(84, 1, 4, 1, 16_384, 6_000, 256, 100),
        m.NodeClass(1, 1, 2, 1, 16_384, 6_000, 256, 100, 32_768, HARDWARE, (("gpu", 2), ("a", 9)), (("gpu", "a"),)),
        m.NodeClass(8, 1, 1, 2, 16_384, 0, 0, 0, type="v100", same_nodes=True),
    ),
    (3, 4),
    BELIEF,
    (
        m.RunningJob(JOB, 2_000_000, START.runs, 60_000_000, None),
        m.RunningJob(JOB._replace(id=8), 2_000_000, START.runs, 60_000_000, 90_000_000, 4_000_000, 1_500_000),
        m.RunningJob(JOB._replace(id=11), 0, START.runs, 60_000_000, None, 4_500_000, 0, 700_000, True, 3_900_000),
        m.RunningJob(JOB._replace(id=15), 0, START.runs, 60_000_000, None, 4_000_000, held=True, leaving=True),
        m.RunningJob(
            JOB._replace(id=12, unpaired=True), 0, START.runs, 60_000_000, None, slot=3, quanta=7, shares=(450_000, 0)
        ),
    ),
    (m.PendingJob(JOB._replace(id=9), True), m.PendingJob(m.JobSpec(10, 0, 1, 1), False)),
    (m.Note(3, "group", (1, "a", (None, 2.5))), m.Note(None, "mean_wait_us", 12)),
    (6_000_000, 7_000_000),
    30_000_000,
    3,
    m.SlotState(1_000_000, 12, (m.Turn((0, 2)), m.Turn((1,), 3, (11, 8))), 1),
    m.Capabilities(False, 60_000_000, 30_000_000, False, True, m.FILLED),
    (("solver", 5),),
    500_000,
    200,
    (0, 9_000_000),
)
ACTIONS: tuple[m.Action, ...] = (
    START,
    m.StartTogether((START, START._replace(job_id=4, limit_us=None))),
    m.ReviseJob(3, 70_000_000, 95_000_000),
    m.ReviseJob(4, 70_000_000, None),
    m.SuspendJob(3),
    m.SuspendJob(3, to_disk=True),
    m.ResumeJob(4),
    START._replace(slot=5),
    m.SetRotation(13, (m.Turn((3, 0)), m.Turn((0,), 2, (12,)))),
    m.SetRotation(13, ()),
    m.ChangeSlot(12, 4),
    m.SetNote(3, "level", 2),
    m.SetNote(None, "mean_wait_us", None),
    m.WakeAt(5_000_001),
    m.RejectJob(8, "asks for more nodes than there are"),
    m.RequeueJob(3),
    m.KillJob(4),
    m.SubmitJob(
        JOB._replace(eligible=((0, 2), (5, 1)), resources=(("gpu", 2),), licences=(("solver", 1),), priority=-3)
    ),
)
EVENTS: tuple[m.Event, ...] = (
    m.JobEnded(1, m.COMPLETED),
    m.JobRequeued(2),
    m.NodeFailed(5),
    m.NodeFailed(5, 9_000_000),
    m.NodeReturned(6),
    m.JobHeld(7),
    m.JobReleased(7),
    m.JobSubmitted(JOB),
    m.JobSubmitted(m.JobSpec(4, 1, 2, 3)),
    m.JobSubmitted(m.JobSpec(5, 1, 2, 3, 4, "bob")),
    m.JobSubmitted(m.JobSpec(6, 1, 2, 3, 4, "bob", usage=USAGE)),
    m.JobSubmitted(m.JobSpec(7, 1, 2, 3, 4, "bob", self_slowdown=(950_000, 1_250_000))),
    m.JobSubmitted(m.JobSpec(9, 1, 2, 3, unpaired=True)),
    m.JobSubmitted(m.JobSpec(13, 1, 2, 3, profile=PROFILE)),
    m.JobSubmitted(
        m.JobSpec(
            16, 1, 2, 3, eligible=((0, 2), (5, 1)), resources=(("gpu", 2),), licences=(("solver", 1),), priority=-3
        )
    ),
    m.ProgressMeasured(3, 1_730_000),
    m.QuantumEnded(12, 1, 2, ((3, 450_000), (12, 0))),
    m.QuantumEnded(13, 0),
    m.Woken(5_000_001),
    m.ActionRefused(6, 0, "stale", (3, 4)),
    m.JobEnded(14, m.UNKNOWN),
    m.JobStarted(3, 4_000_000, START.runs, 60_000_000, 90_000_000),
    m.JobStarted(20, 4_000_000, START.runs, 60_000_000, 90_000_000, 2, JOB._replace(id=20)),
    m.JobModified(JOB._replace(name="tide")),
    m.JobRevised(3, 70_000_000, 80_000_000),
    m.JobSuspended(3, 4_900_000),
    m.JobSuspended(3, 4_900_000, to_disk=True),
    m.JobResumed(3, 4_950_000),
)
SPECS = [event.job for event in EVENTS if isinstance(event, m.JobSubmitted)]
SAMPLES: tuple[m.Message, ...] = (
    m.Hello((1,), m.FEATURES, "42-beef", "easy", True, 3, (), (m.COUNTABLE,)),
    WELCOME,
    m.Ready(7, 3),
    m.Events(8, 5_000_001, EVENTS, 3),
    m.Actions(8, 5_000_001, ACTIONS, 3),
    m.Resync("it did not answer", ((8, 0), (8, 3)), 3),
    m.Ping(1),
    m.Pong(-1),
    m.ErrorReport("state", "type", "say hello first"),
    m.Bye("done"),
)


def raw_of(message: m.Message) -> Any:
    return msgpack.unpackb(encode(message)[1])


def decode_raw(raw: Any) -> m.Message:
    return decode([MAGIC, msgpack.packb(raw)])


def outcome(body: bytes) -> str:
    try:
        return repr(decode([MAGIC, body]))
    except RemoteProtocolError as error:
        return f"{error.code}|{error.path}|{error.text}"


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


JOB_RAW = {"id": 1, "submit_us": 0, "processes": 1, "estimate_us": 1}
