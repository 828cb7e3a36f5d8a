"""The couplings, with real sockets and real processes: same answers, no wait without an end, nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import zmq

from cosched_emulator.couplings.direct import DirectLink
from cosched_emulator.couplings.link import Link
from cosched_emulator.couplings.loopback import LoopbackLink
from cosched_emulator.couplings.scheduler_port import SchedulerPort
from cosched_emulator.couplings.spawned_plugin import ENDPOINT, SpawnedPlugin, remove_stale
from cosched_emulator.couplings.zmq_link import ZmqLink
from cosched_emulator.errors import ConfigurationError, LinkError
from cosched_plugin.errors import LocalProtocolError, PolicyError, ProtocolError, UsageError
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.endpoint import why_not
from cosched_plugin.protocol.limits import MAGIC
from cosched_plugin.server import serve

ROOT = Path(__file__).parents[3]
NODE = m.NodeClass(4, 1, 4, 1, 1, 1, 1, 1)

# A scheduler with a memory that a restart must rebuild: the sum of all estimates so far. What it does besides is in its arguments.
SCRIPT = """
import os, sys, time
from cosched_plugin.errors import PluginError, PolicyError
from cosched_plugin.protocol.messages import JobSubmitted, SetNote, StartJob
from cosched_plugin.server import serve

endpoint, wait_s, silence_s, trouble = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]

class Summing:
    def __init__(self, welcome):
        self.sum_us = sum(note.value for note in welcome.notes)
        if "unable" in trouble:
            raise ValueError("cannot do with this machine")

    def handle(self, now_us, events):
        actions = []
        for event in events:
            if isinstance(event, JobSubmitted):
                job = event.job
                self.sum_us += job.estimate_us
                if "policy" in trouble:
                    raise PolicyError("start job 1", "there is no job 1")
                if job.name in trouble:
                    print("hanging", file=sys.stderr, flush=True)
                    time.sleep(60)
                actions.append(StartJob(job.id, ((0, 1, 1, 1),), self.sum_us, job.limit_us))
                actions.append(SetNote(None, "sum_us", self.sum_us))
        return actions

def log(text):
    print(text, file=sys.stderr, flush=True)

try:
    sys.exit(serve(endpoint, Summing, policy_name="summing", wait_s=wait_s, silence_s=silence_s, log=log))
except PluginError as error:
    log(f"error: {error}")
    sys.exit(error.exit_code)
"""


class Summing:
    """The same, in this process."""

    def __init__(self, welcome: m.Welcome) -> None:
        self.sum_us = 0
        for note in welcome.notes:
            assert isinstance(note.value, int)
            self.sum_us += note.value

    def handle(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:  # noqa: ARG002 - Scheduler
        actions: list[m.Action] = []
        for event in events:
            if isinstance(event, m.JobSubmitted):
                self.sum_us += event.job.estimate_us
                actions.append(m.StartJob(event.job.id, ((0, 1, 1, 1),), self.sum_us, event.job.limit_us))
                actions.append(m.SetNote(None, "sum_us", self.sum_us))
        return actions


class Manager:
    """As much of a manager as a link can see: it commits after each exchange."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.seq = 0
        self.sum_us = 0
        self.replies: list[tuple[m.Action, ...]] = []

    def inventory(self) -> m.Welcome:
        notes = (m.Note(None, "sum_us", self.sum_us),) if self.seq else ()
        belief = m.Belief("none", "bulk-synchronous", ())
        return m.Welcome(0, (), self.seq, self.seq * 1_000, (NODE,), (), belief, (), (), notes, ())

    def step(self, name: str = "") -> None:
        seq = self.seq + 1
        events: tuple[m.Event, ...] = (
            m.JobSubmitted(m.JobSpec(seq, seq * 1_000, 1, seq * 7, None, "ada", name)),
            m.JobEnded(seq, m.COMPLETED),
        )
        actions = tuple(self.link.exchange(seq, seq * 1_000, events))
        self.seq = seq
        self.sum_us += seq * 7
        self.replies.append(actions)


def expected(steps: int) -> list[tuple[m.Action, ...]]:
    sums = [7 * seq * (seq + 1) // 2 for seq in range(1, steps + 1)]
    return [
        (m.StartJob(seq, ((0, 1, 1, 1),), total, None), m.SetNote(None, "sum_us", total))
        for seq, total in enumerate(sums, 1)
    ]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(ROOT / part) for part in ("hwmodel", "plugin", "emulator")))
    path = tmp_path / "scheduler.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def endpoint() -> Iterator[str]:
    with tempfile.TemporaryDirectory(
        prefix="link-", dir="/tmp"
    ) as directory:  # pytest's paths may be too long for a socket
        yield f"ipc://{directory}/socket"


@pytest.fixture
def launch(script: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    children: list[subprocess.Popen[bytes]] = []

    def start(endpoint: str, *trouble: str, wait_s: float = 10, silence_s: float = 10) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(script), endpoint, str(wait_s), str(silence_s), *trouble]
        children.append(subprocess.Popen(command, stderr=subprocess.PIPE))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.communicate(timeout=10)


def tend(link: ZmqLink, seconds: float) -> None:
    """Let the link hear what comes in for so long, with nothing to ask."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        link.port.receive()


def words_of(child: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Return a child's exit code and what it said."""
    _, said = child.communicate(timeout=15)
    return child.returncode, said.decode()


def spawn_argv(script: Path, *trouble: str) -> list[str]:
    return [sys.executable, str(script), ENDPOINT, "10", "10", *trouble]


# ---------------------------------------------------------------- the contract


@pytest.mark.parametrize("link", [DirectLink(Summing), LoopbackLink(Summing)], ids=lambda link: type(link).__name__)
def test_links_within_one_process(link: Link) -> None:
    manager = Manager(link)
    with pytest.raises(LocalProtocolError, match="not open"):
        manager.step()
    link.open(manager.inventory)
    for _ in range(20):
        manager.step()
    link.close()
    link.close()
    assert manager.replies == expected(20)


def test_a_process_gives_the_same_answers_and_leaves_nothing_behind(script: Path) -> None:
    with SpawnedPlugin(spawn_argv(script)) as plugin:
        assert plugin.directory.stat().st_mode & 0o777 == 0o700
        link = ZmqLink(
            SchedulerPort(plugin.endpoint, child=lambda: plugin.process, diagnose=plugin.stderr_tail),
            deadline_s=10,
            wait_s=10,
        )
        manager = Manager(link)
        link.open(manager.inventory)
        assert link.policy == "summing"
        for _ in range(200):
            manager.step()
        link.close()
        link.close()
        assert plugin.process.wait(5) == 0
        assert "the manager said bye" in plugin.stderr_tail()
        assert plugin.close() == 0
    assert not plugin.directory.exists()
    assert manager.replies == expected(200)


def test_tcp_on_loopback_works_too() -> None:
    link = ZmqLink(SchedulerPort("tcp://127.0.0.1:*"), deadline_s=10, wait_s=10)
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(serve_here(link.port.endpoint)))
    thread.start()
    manager = Manager(link)
    link.open(manager.inventory)
    for _ in range(5):
        manager.step()
    link.close()
    thread.join(10)
    assert codes == [0]
    assert manager.replies == expected(5)


def serve_here(endpoint: str, wait_s: float = 10, silence_s: float = 10) -> int:
    return serve(endpoint, Summing, policy_name="summing", wait_s=wait_s, silence_s=silence_s, log=lambda _: None)


# ---------------------------------------------------------------- restarts


def test_a_killed_and_restarted_scheduler_changes_nothing(
    endpoint: str, launch: Callable[..., subprocess.Popen[bytes]]
) -> None:
    link = ZmqLink(SchedulerPort(endpoint, resend_s=0.3), deadline_s=20, wait_s=10)
    try:
        manager = Manager(link)
        child = launch(endpoint)
        link.open(manager.inventory)
        for number in range(1, 31):
            if number % 10 == 0:  # between two batches
                child.send_signal(signal.SIGKILL)
                child.wait(5)
                child = launch(endpoint)
            manager.step()
    finally:
        link.close()
    assert manager.replies == expected(30)
    assert words_of(child)[0] == 0


def test_a_scheduler_killed_within_a_batch_is_replaced_within_it(
    endpoint: str, launch: Callable[..., subprocess.Popen[bytes]]
) -> None:
    link = ZmqLink(SchedulerPort(endpoint, resend_s=0.3), deadline_s=20, wait_s=10)
    try:
        manager = Manager(link)
        child = launch(endpoint, "heavy")
        link.open(manager.inventory)
        manager.step()

        def replace() -> None:
            assert child.stderr is not None
            for line in child.stderr:
                if line == b"hanging\n":
                    break
            child.send_signal(signal.SIGKILL)
            launch(endpoint)

        thread = threading.Thread(target=replace)
        thread.start()
        manager.step("heavy")
        thread.join(10)
        manager.step()
    finally:
        link.close()
    assert manager.replies == expected(3)


def test_a_second_scheduler_is_refused_while_the_first_lives(
    endpoint: str, launch: Callable[..., subprocess.Popen[bytes]]
) -> None:
    link = ZmqLink(SchedulerPort(endpoint), deadline_s=10, wait_s=10)
    try:
        manager = Manager(link)
        launch(endpoint)
        link.open(manager.inventory)
        second = launch(endpoint, wait_s=0.7)
        while second.poll() is None:
            manager.step()
            time.sleep(0.01)
        code, said = words_of(second)
        assert code == 3
        assert re.search(r"error: no manager welcomed us .* within 0.7 s: the manager reports busy: .*", said)
        manager.step()
    finally:
        link.close()
    assert manager.replies == expected(manager.seq)


# ---------------------------------------------------------------- waits that end


def test_nobody_comes(endpoint: str) -> None:
    link = ZmqLink(SchedulerPort(endpoint), deadline_s=1, wait_s=0.3)
    started = time.monotonic()
    with pytest.raises(LinkError, match=r"no scheduler was ready within 0\.3 s") as caught:
        link.open(Manager(link).inventory)
    link.close()
    assert time.monotonic() - started < 1.5
    assert caught.value.endpoint == endpoint
    assert caught.value.exit_code == 3


def test_a_scheduler_without_manager_gives_up(endpoint: str, launch: Callable[..., subprocess.Popen[bytes]]) -> None:
    code, said = words_of(launch(endpoint, wait_s=0.3))
    assert (code, said) == (3, f"error: no manager welcomed us at {endpoint} within 0.3 s\n")


def test_a_late_manager_finds_one_greeting_not_a_queue_of_them(
    endpoint: str, launch: Callable[..., subprocess.Popen[bytes]]
) -> None:
    child = launch(endpoint, wait_s=2.5)
    time.sleep(1.8)
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.bind(endpoint)
    router.rcvtimeo = 300
    greetings = 0
    try:
        while True:
            assert isinstance(decode(router.recv_multipart()[1:]), m.Hello)
            greetings += 1
    except zmq.Again:
        pass
    router.close(0)
    context.term()
    assert 1 <= greetings <= 2
    assert words_of(child)[0] == 3


def test_a_peer_that_never_answers(script: Path) -> None:
    with SpawnedPlugin(spawn_argv(script, "heavy")) as plugin:
        link = ZmqLink(
            SchedulerPort(plugin.endpoint, child=lambda: plugin.process, diagnose=plugin.stderr_tail),
            deadline_s=0.6,
            wait_s=10,
        )
        manager = Manager(link)
        link.open(manager.inventory)
        manager.step()
        started = time.monotonic()
        with pytest.raises(LinkError, match=r"no answer to batch 2 within 0\.6 s(.|\n)*hanging"):
            manager.step("heavy")
        assert time.monotonic() - started < 2
        link.close()
    assert plugin.process.returncode == -signal.SIGKILL  # SIGTERM is honoured only between two batches
    assert not plugin.directory.exists()


def test_a_dead_child_is_noticed_at_once(script: Path) -> None:
    with SpawnedPlugin(spawn_argv(script)) as plugin:
        link = ZmqLink(
            SchedulerPort(plugin.endpoint, child=lambda: plugin.process, diagnose=plugin.stderr_tail),
            deadline_s=30,
            wait_s=30,
        )
        manager = Manager(link)
        link.open(manager.inventory)
        plugin.process.kill()
        plugin.process.wait(5)
        started = time.monotonic()
        with pytest.raises(LinkError, match=r"process was killed by signal 9(.|\n)*welcomed by the manager"):
            manager.step()
        assert time.monotonic() - started < 1
        link.close()


def test_a_child_that_cannot_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    with SpawnedPlugin([sys.executable, "-c", "import sys; sys.exit('no such policy')"]) as plugin:
        link = ZmqLink(
            SchedulerPort(plugin.endpoint, child=lambda: plugin.process, diagnose=plugin.stderr_tail),
            deadline_s=30,
            wait_s=30,
        )
        with pytest.raises(LinkError, match="ended with exit code 1\nno such policy"):
            link.open(Manager(link).inventory)
        link.close()
    with pytest.raises(LinkError, match="cannot start"):
        SpawnedPlugin([str(tmp_path / "nothing")])


def test_interrupting_a_wait(endpoint: str) -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach only the main thread")
    link = ZmqLink(SchedulerPort(endpoint), deadline_s=30, wait_s=30)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    started = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        link.open(Manager(link).inventory)
    assert time.monotonic() - started < 1
    link.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_scheduler_says_bye_when_told_to_stop(
    number: signal.Signals, code: int, endpoint: str, launch: Callable[..., subprocess.Popen[bytes]]
) -> None:
    link = ZmqLink(SchedulerPort(endpoint), deadline_s=0.6, wait_s=10)
    manager = Manager(link)
    child = launch(endpoint)
    link.open(manager.inventory)
    manager.step()
    child.send_signal(number)
    assert words_of(child)[0] == code
    with pytest.raises(LinkError, match=f"within 0.6 s\nthe scheduler left: {number.name}"):
        manager.step()
    link.close()


def test_a_silent_manager_is_asked_and_given_up(endpoint: str, launch: Callable[..., subprocess.Popen[bytes]]) -> None:
    link = ZmqLink(SchedulerPort(endpoint), deadline_s=10, wait_s=10)
    try:
        child = launch(endpoint, silence_s=0.4)
        link.open(Manager(link).inventory)
        tend(link, 2.0)  # answers pings
        assert child.poll() is None
        code, said = words_of(child)  # nobody answers now
        assert code == 3
        assert re.search(r"error: the manager at .* has been silent for \d\.\d s\n$", said)
    finally:
        link.close()


# ---------------------------------------------------------------- errors on either side


def test_an_impossible_decision_ends_both_with_its_reason(script: Path) -> None:
    with SpawnedPlugin(spawn_argv(script, "policy")) as plugin:
        link = ZmqLink(
            SchedulerPort(plugin.endpoint, child=lambda: plugin.process, diagnose=plugin.stderr_tail),
            deadline_s=10,
            wait_s=10,
        )
        manager = Manager(link)
        link.open(manager.inventory)
        with pytest.raises(LinkError, match="the scheduler reports policy: impossible decision 'start job 1'"):
            manager.step()
        assert plugin.process.wait(5) == 4
        link.close()
    with pytest.raises(PolicyError):
        raise PolicyError(1, "x")


def test_a_defect_of_the_scheduler_is_reported(script: Path) -> None:
    with SpawnedPlugin(spawn_argv(script, "unable")) as plugin:
        link = ZmqLink(SchedulerPort(plugin.endpoint, child=lambda: plugin.process), deadline_s=10, wait_s=10)
        with pytest.raises(LinkError, match="reports internal: ValueError: cannot do with this machine"):
            link.open(Manager(link).inventory)
        link.close()


def test_strangers_and_rubbish_do_not_disturb_a_run(
    endpoint: str, launch: Callable[..., subprocess.Popen[bytes]]
) -> None:
    link = ZmqLink(SchedulerPort(endpoint), deadline_s=10, wait_s=10)
    context = zmq.Context()
    stranger = context.socket(zmq.DEALER)
    try:
        manager = Manager(link)
        launch(endpoint)
        link.open(manager.inventory)
        stranger.connect(endpoint)
        stranger.rcvtimeo = 5000
        for frames, code in (
            ([b"rubbish"], "frame"),
            ([MAGIC, b"\xc1"], "malformed"),
            (encode(m.Actions(1, 1_000, ())), "state"),
            (encode(m.Ping(1)), "state"),
            (encode(m.Hello((1,), (), "stranger", "")), "busy"),
        ):
            stranger.send_multipart(frames)
            tend(link, 0.2)
            manager.step()
            answer = decode(stranger.recv_multipart())
            assert isinstance(answer, m.ErrorReport)
            assert answer.code == code
    finally:
        stranger.close(0)
        context.term()
        link.close()
    assert manager.replies == expected(5)


def test_a_scheduler_that_breaks_the_protocol_ends_the_run(endpoint: str) -> None:
    link = ZmqLink(SchedulerPort(endpoint), deadline_s=10, wait_s=10)
    context = zmq.Context()
    peer = context.socket(zmq.DEALER)
    peer.rcvtimeo = 5000
    peer.connect(endpoint)
    try:
        manager = Manager(link)
        peer.send_multipart(encode(m.Hello((7,), (), "newer", "")))
        peer.send_multipart(encode(m.Hello((1,), (), "liar", "")))
        peer.send_multipart(encode(m.Ready(0)))
        peer.send_multipart(encode(m.Actions(1, 1_001, ())))
        link.open(manager.inventory)
        with pytest.raises(LinkError, match=r"cannot be accepted \(.*\): "):
            manager.step()
        kinds = [decode(peer.recv_multipart()) for _ in range(4)]
        assert [type(each).__name__ for each in kinds] == ["ErrorReport", "Welcome", "Events", "ErrorReport"]
        codes = [each.code for each in kinds if isinstance(each, m.ErrorReport)]
        assert codes == ["version", "clock"]
    finally:
        peer.close(0)
        context.term()
        link.close()


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        ([b"rubbish"], "expected 2 frames"),
        (encode(m.ErrorReport("version", "versions", "none in common")), "reports version: versions: none in common"),
        (encode(m.Ready(1)), "only a scheduler says Ready"),
    ],
)
def test_a_manager_that_breaks_the_protocol_ends_the_scheduler(answer: list[bytes], match: str, endpoint: str) -> None:
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.rcvtimeo = 5000
    router.bind(endpoint)

    def manage() -> None:
        sender, *_ = router.recv_multipart()
        router.send_multipart([sender, *answer])

    thread = threading.Thread(target=manage)
    thread.start()
    with pytest.raises(ProtocolError, match=match) as caught:
        serve_here(endpoint)
    thread.join(10)
    router.close(0)
    context.term()
    assert caught.value.exit_code == 3


# ---------------------------------------------------------------- endpoints and directories


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("tcp://10.0.0.4:5555", "not a loopback address"),
        ("tcp://*:5555", "not a loopback address"),
        ("tcp://0.0.0.0:5555", "not a loopback address"),
        ("tcp://example.org:5555", "not a loopback address"),
        ("tcp://[::]:5555", "not a loopback address"),
        ("tcp://127.0.0.1", "port number"),
        ("tcp://127.0.0.1:http", "port number"),
        ("tcp://127.0.0.1:99999", "port number"),
        ("inproc://x", "expected ipc"),
        ("somewhere", "expected ipc"),
        ("ipc://", "path"),
        ("ipc:///" + "x" * 107, "107 bytes"),
    ],
)
def test_endpoints_that_leave_the_machine_are_refused_on_both_sides(endpoint: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as refused:
        ZmqLink(SchedulerPort(endpoint), deadline_s=1, wait_s=1)
    assert refused.value.exit_code == 2
    with pytest.raises(UsageError, match=reason) as caught:
        serve_here(endpoint)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "endpoint", ["tcp://127.0.0.1:5555", "tcp://[::1]:1", "tcp://localhost:*", "ipc:///tmp/x", "ipc://x"]
)
def test_local_endpoints_are_allowed(endpoint: str) -> None:
    assert why_not(endpoint) is None


def test_an_endpoint_that_cannot_be_bound(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="one to listen at"):
        ZmqLink(SchedulerPort("ipc:///proc/nothing/here"), deadline_s=1, wait_s=1)


def test_directories_of_killed_runs_are_removed_and_others_kept(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    hour_ago = time.time() - 3600
    for name in ("cosched-killed", "cosched-fresh", "cosched-foreign", "other"):
        (tmp_path / name).mkdir()
        if name != "cosched-foreign":
            (tmp_path / name / "lock").touch()
        if name != "cosched-fresh":
            os.utime(tmp_path / name, (hour_ago, hour_ago))
    (tmp_path / "cosched-link").symlink_to(tmp_path / "other")
    command = [sys.executable, "-c", "import time; time.sleep(30)"]
    with SpawnedPlugin(command) as first:
        if first.directory.parent != tmp_path:  # pytest's path is too long for a socket
            assert remove_stale(tmp_path) == [tmp_path / "cosched-killed"]
        os.utime(first.directory, (hour_ago, hour_ago))
        with SpawnedPlugin(command) as second:
            assert first.directory.exists()  # alive, however old
            assert second.directory != first.directory
    assert not first.directory.exists()
    assert first.process.returncode == -signal.SIGTERM
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["cosched-foreign", "cosched-fresh", "cosched-link", "other", "scheduler.py"]
