"""The live display: its content in windows of all sizes, and the command on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.emulator.cli.fake_manager import FakeManager, fake_manager, job_row, node_row, overview, slot_cell
from tests.processes import environment, fork_program

from cosched_emulator.cli import top_frame
from cosched_emulator.users.requests import Done, Refused, Request, ShowOverview

JOBS = [
    job_row(1, name="wide", shares_with=[2], slowdown=1.25),
    job_row(2, user="bob", shares_with=[1]),
    *[job_row(n, state="PENDING", reason="Resources", node_list="") for n in range(3, 40)],
]
NODES = [
    node_row(0, state="ALLOCATED", jobs=[1, 2], threads_used=4),
    node_row(1, state="MIXED", jobs=[1], threads_used=2),
    node_row(2),
    node_row(3, state="DRAINED", reason="fans"),
    node_row(4, state="DOWN"),
    node_row(5, state="DRAINING", jobs=[77], threads_used=1, slowed=1.5),
]
OVERVIEW = overview(JOBS, NODES)
SLOTS: dict[str, Any] = {
    "quantum_s": 1.0,
    "quantum": 58,
    "began_s": 57.0,
    "turn": {"slots": [0, 12], "quanta": 1, "guests": ["7"]},
    "left": 0,
    "turns": [
        {"slots": [0, 12], "quanta": 1, "guests": ["7"]},
        {"slots": [3], "quanta": 2, "guests": []},
        {"slots": [12, 0], "quanta": 1, "guests": []},
    ],
    "rows": [
        {"slot": 0, "jobs": [slot_cell("1", "[0-2]", 0.45, "row"), slot_cell("3_2", "5", 0.3, "row")]},
        {"slot": 3, "jobs": [slot_cell("7", "[1-2]", 0.97, "guest")]},
        {"slot": 12, "jobs": [slot_cell("2", "0", 0.1, "partner"), slot_cell("4", "0", 0.1, "partner")]},
    ],
}
SHARED_TIME = {**OVERVIEW, "slots": SLOTS}


def texts(lines: list[top_frame.Line]) -> list[str]:
    return ["".join([text for text, _ in line]) for line in lines]


# ---------------------------------------------------------------- the display


def test_the_display_shows_machine_nodes_and_queue() -> None:
    lines = top_frame.frame(OVERVIEW, top_frame.Look(), 120, 30)
    shown = texts(lines)
    assert len(shown) == 30
    assert shown[0] == "cosched  emulated 1-02:03:04   speed 100   policy easy"
    assert shown[4] == "21.dx1"
    assert lines[4] == [("2", top_frame.CHOSEN), ("1", top_frame.ALIKE), (".", "dim"), ("dx1", top_frame.OUT)]
    assert shown[5] == "node 0: ALLOCATED, 4 of 4 threads: 1 wide (ann) x1.25, 2 job2 (bob)"
    assert shown[6].split()[:3] == ["JOBID", "NAME", "USER"]
    assert shown[7].split()[:2] == ["1", "wide"]
    assert shown[-2:] == ["       0:02  start together 2, 3", "       0:01  start 1"]


def test_the_chosen_node_and_the_scrolled_queue_are_shown() -> None:
    lines = top_frame.frame(OVERVIEW, top_frame.Look(3, 5), 120, 20)
    assert lines[4] == [
        ("2", top_frame.SHARED),
        ("1", "one"),
        (".", "dim"),
        ("dx", top_frame.OUT),
        ("1", top_frame.CHOSEN),
    ]
    shown = texts(lines)
    assert shown[5] == "node 5: DRAINING, 1 of 4 threads, 1.5 times as slow: 77"
    assert shown[7].split()[0] == "4"
    far = texts(top_frame.frame(OVERVIEW, top_frame.Look(1000, 1000), 120, 20))
    assert any(line.split()[:1] == ["39"] for line in far)  # no further than the end
    assert (
        "node 3: DRAINED (fans), 0 of 4 threads;  . idle"
        in texts(top_frame.frame(OVERVIEW, top_frame.Look(0, 3), 120, 20))[5]
    )


def test_the_display_fits_any_window() -> None:
    many = overview([job_row(1, name="\x1b[31m\u4e2d" * 9)], [node_row(n) for n in range(1000)])
    for width in (1, 3, 10, 33, 80, 400):
        for height in (0, 1, 3, 8, 9, 24, 100):
            gpus = overview([GPU_JOB], [GPU_NODE], **COUNTED)
            for told in (
                OVERVIEW,
                many,
                gpus,
                overview([], []),
                SHARED_TIME,
                {**many, "slots": {**SLOTS, "turn": None}},
            ):
                for look in (top_frame.Look(), top_frame.Look(10**6, 10**6)):
                    lines = texts(top_frame.frame(told, look, width, height, "in trouble"))
                    assert len(lines) <= height
                    assert all(len(line) <= width for line in lines)
                    assert "\x1b" not in "".join(lines)
                    if height and width >= 10:
                        assert lines[0] == "in trouble"[:width]


COUNTED: dict[str, Any] = {
    "resources": {"gpu": {"all": 16, "used": 12}, "gpu:a100": {"all": 8, "used": 4}},
    "licences": {"matlab": {"all": 4, "used": 3}},
    "partitions": {
        name: {"running": 3, "pending": 9, "threads": {"all": 64, "used": 12}, "resources": resources}
        for name, resources in (
            ("standard", {}), ("short", {}), ("gpu", {"gpu": {"all": 16, "used": 12}}), ("old", {}), ("new", {}),
        )
    },
}  # fmt: skip
GPU_JOB = job_row(1, partitions=["gpu"], qos="high", account="optics", resources=[["gpu", 2]], licences=[["matlab", 3]])
GPU_NODE = node_row(0, state="MIXED", jobs=[1], resources=[["gpu", 2, 4]], partitions=["short", "gpu"])


def test_gpus_and_partitions_are_shown_in_eighty_columns() -> None:
    told = overview([GPU_JOB], [GPU_NODE], **COUNTED)
    shown = texts(top_frame.frame(told, top_frame.Look(), 80, 24))
    assert shown[2] == "counted  gpu 12 of 16, gpu:a100 4 of 8, matlab 3 of 4"
    assert shown[5:9] == [
        "PARTITION  RUNNING  PENDING  THREADS",
        "standard         3        9    12/64",
        "short            3        9    12/64",
        "and 3 more partitions",
    ]
    assert shown[10] == "node 0 of short,gpu: MIXED, 0 of 4 threads, 2 of 4 gpu: 1 job1 (ann)"
    # The whole queue is 126 columns wide: what is left says where the job is and what it has.
    assert " ".join(shown[11].split()) == "JOBID NAME USER ST TIME NODES PARTITION GRES NODELIST(REASON)"
    assert " ".join(shown[12].split()) == "1 job1 ann R 1:01:01 1 gpu gpu:2 3"
    tall = texts(top_frame.frame(told, top_frame.Look(), 80, 48))
    assert tall[8] == "gpu              3        9    12/64  gpu:12/16"
    assert "QOS   ACCOUNT" in texts(top_frame.frame(told, top_frame.Look(), 140, 24))[11]
    assert not any("PARTITION  RUNNING" in line for line in texts(top_frame.frame(told, top_frame.Look(), 80, 10)))
    assert "gpu              3        9    12/64  gpu:12/16\nold " in top_frame.plain_frame(told)


def test_the_chosen_node_of_many_is_visible() -> None:
    many = overview([], [node_row(n) for n in range(1000)])
    for node in (0, 499, 999):
        lines = top_frame.frame(many, top_frame.Look(0, node), 40, 24)
        assert [style for line in lines for _, style in line].count(top_frame.CHOSEN) == 1
        assert any(text.startswith(f"node {node}: IDLE") for text in texts(lines))


def test_the_matrix_has_rows_nodes_and_what_runs() -> None:
    lines = top_frame.frame(SHARED_TIME, top_frame.Look(0, 2), 80, 24)
    shown = texts(lines)
    assert shown[4] == "slots    quantum 58 of 1 s: 0+12 with 7; then 3 x2, 12+0"
    assert shown[7:11] == [
        "  SLOT  CPU    0   1   2   3   4   5",
        "> 0+12  45%    1   1   1   d   x 3_2",
        "* 3     97%    .   7   7   d   x   .",
        "+ 12+0  10%   2&   .   .   d   x   .",
    ]
    assert lines[7][:3] == [
        ("  SLOT  CPU    0   1   ", top_frame.BOLD),
        ("2", top_frame.CHOSEN),
        ("   ", top_frame.BOLD),
    ]
    assert lines[8][1] == ("   1   1   1", top_frame.ONE)
    assert lines[9][1:3] == [("   .", top_frame.DIM), ("   7   7", top_frame.SHARED)]
    assert lines[10][1] == ("  2&", top_frame.SHARED)
    plain = top_frame.plain_frame(SHARED_TIME)
    assert "slots    quantum 58 of 1 s: 0+12 with 7" in plain
    assert "\n> 0+12  45%    1   1   1   d   x 3_2\n" in plain


def test_the_rows_that_run_are_visible_in_a_small_window() -> None:
    rows = [{"slot": slot, "jobs": [slot_cell(str(slot), "[0-5]", 0.5, None)]} for slot in range(40)]
    turns = [{"slots": [slot], "quanta": 1, "guests": []} for slot in (30, *range(31, 40), *range(30))]
    slots = {**SLOTS, "turn": turns[0], "turns": turns, "rows": rows}
    shown = texts(top_frame.frame({**OVERVIEW, "slots": slots}, top_frame.Look(), 80, 24))
    assert shown[4] == "slots    quantum 58 of 1 s: 30; then 31, 32, 33, 34, ..."
    assert any(line.startswith("> 30 ") for line in shown)
    wide = overview([], [node_row(n) for n in range(400)])
    slots = {**SLOTS, "rows": [{"slot": 0, "jobs": [slot_cell("1", "[0-399]", 0.5, "row")]}]}
    shown = texts(top_frame.frame({**wide, "slots": slots}, top_frame.Look(0, 200), 60, 30))
    (head,) = [line for line in shown if "SLOT" in line]
    assert " 200 " in head
    assert len(head) <= 60


def test_what_runs_is_said_without_a_rotation_and_within_a_turn() -> None:
    alone = {**SLOTS, "turn": None, "quantum": None, "turns": [], "rows": SLOTS["rows"][:1]}
    assert top_frame.now_line(alone) == "slots    slot 0 runs all the time; quanta of 1 s"
    assert top_frame.now_line({**alone, "rows": []}) == "slots    no job can run; quanta of 1 s"
    turns = [SLOTS["turns"][1], SLOTS["turns"][2]]
    within = {**SLOTS, "turn": SLOTS["turns"][1], "left": 1, "turns": turns}
    assert top_frame.now_line(within) == "slots    quantum 58 of 1 s: 3 x2 (1 more); then 12+0"
    gone = {**SLOTS, "turn": {"slots": [9], "quanta": 1, "guests": []}}
    assert top_frame.now_line(gone) == "slots    quantum 58 of 1 s: 9; then 0+12 with 7, 3 x2, 12+0"


def test_the_queue_shows_slot_and_share_instead_of_slowdowns() -> None:
    jobs = [job_row(1, slot=2, share=0.443), job_row(2, state="PENDING", reason="Resources", slot=None, share=None)]
    plain = top_frame.plain_frame({**overview(jobs, NODES), "slots": SLOTS})
    assert "SLOWDOWN" not in plain
    found = [line.split() for line in plain.splitlines() if line.split()[1:2] in (["job1"], ["job2"])]
    assert [line[8:10] for line in found] == [["2", "44%"], ["-", "-"]]


def test_a_missing_scheduler_and_a_full_disk_are_shown() -> None:
    told = overview([], [], policy="", speed=None, accounting={"backlog": 9, "trouble": "disk full"})
    shown = texts(top_frame.frame(told, top_frame.Look(), 100, 10))
    assert shown[0] == "cosched  emulated 1-02:03:04   no scheduler: jobs wait"
    assert shown[2].endswith("accounting waits: disk full")
    plain = top_frame.plain_frame({**OVERVIEW, "jobs": {**OVERVIEW["jobs"], "left_out": 5}})
    assert "and 5 more jobs\n" in plain


# ---------------------------------------------------------------- on a terminal


class Terminal:
    """A program on a pseudo-terminal, and its output."""

    def __init__(self, *arguments: str, columns: int = 100, lines: int = 30, **more: str) -> None:
        self.master, slave = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(slave)
        self.written = b""
        known = {key: value for key, value in environment().items() if key not in ("LINES", "COLUMNS", "NO_COLOR")}
        self.child = fork_program(
            "cosched_emulator", *arguments, env={**known, "TERM": "xterm", **more}, terminal=slave
        )
        self.slave = slave

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def _read(self, seconds: float) -> None:
        if select.select([self.master], [], [], seconds)[0]:
            self.written += os.read(self.master, 65536)

    def until(self, pattern: bytes, seconds: float = 15.0) -> None:
        """Wait until a text is written; drop the output before it."""
        deadline = time.monotonic() + seconds
        while (found := re.search(pattern, self.written, re.DOTALL)) is None:
            assert time.monotonic() < deadline, self.written[-2000:]
            self._read(0.1)
        self.written = self.written[found.end() :]

    def until_true(self, happened: Callable[[], bool], seconds: float = 15.0) -> None:
        """Wait for a condition, and read the output meanwhile."""
        deadline = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < deadline, self.written[-2000:]
            self._read(0.05)

    def ended(self, seconds: float = 10.0) -> int:
        """Wait for the program's end; return its exit code."""
        deadline = time.monotonic() + seconds
        while self.child.poll() is None:
            assert time.monotonic() < deadline, self.written[-2000:]
            self._read(0.05)
        self._read(0)
        return self.child.wait()

    def is_restored(self) -> bool:
        """Return whether the terminal is restored."""
        return termios.tcgetattr(self.slave) == self.before

    def close(self) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(10)
        os.close(self.master)
        os.close(self.slave)


@contextmanager
def terminal(*arguments: str, **options: Any) -> Iterator[Terminal]:
    opened = Terminal(*arguments, **options)
    try:
        yield opened
    finally:
        opened.close()


def answer(request: Request) -> Done | Refused | None:
    assert isinstance(request, ShowOverview)
    return Done(OVERVIEW)


LEFT = rb"\x1b\[\?1049l"  # xterm: back to the previous screen


def test_top_follows_the_window_size_and_restores_the_terminal(endpoint: str) -> None:
    top = ("top", "--manager", endpoint, "--interval", "0.1")
    with fake_manager(endpoint, answer) as manager, terminal(*top) as screen:
        screen.until(rb"\x1b\[\?1049h.*cosched.*policy easy.*node 0: ALLOCATED.*JOBID.*last decisions")
        screen.until(b"")
        assert not screen.is_restored()
        screen.type(b"l")
        screen.until(rb"MIXED, 2")
        screen.written = b""
        screen.resize(60, 12)
        os.kill(screen.child.pid, signal.SIGWINCH)
        screen.until(rb"cosched.*node 1")
        for columns, lines in ((3, 2), (1, 1), (200, 50)):
            screen.resize(columns, lines)
            os.kill(screen.child.pid, signal.SIGWINCH)
            time.sleep(0.1)
        screen.until(rb"last decisions")
        screen.type(b"\x1b[6~jjkG")
        before = len(manager.requests)
        screen.until_true(lambda: len(manager.requests) > before + 1)
        assert screen.child.poll() is None
        screen.type(b"q")
        assert screen.ended() == 0
        assert screen.is_restored()
        screen.until(LEFT)


def test_top_shows_its_keys_and_what_they_do(endpoint: str) -> None:
    top = ("top", "--manager", endpoint, "--interval", "0.1")
    with fake_manager(endpoint, answer), terminal(*top, columns=60, lines=24) as screen:
        screen.until(rb"q quit   \? keys   up, down: queue   left, right: nodes.*last decisions")
        screen.type(b"?")
        screen.until(rb"Keys and marks.*scroll the queue by a line.*d drained, x down")
        screen.type(b"?")
        screen.until(rb"last decisions")
        screen.type(b"q")
        assert screen.ended() == 0


def test_the_help_fits_any_window() -> None:
    for width in (1, 20, 30, 60, 80, 200):
        shown = texts(top_frame.help_lines(width))
        assert max(map(len, shown)) <= width
    assert "choose a node" in " ".join(texts(top_frame.help_lines(60)))


def test_top_waits_for_a_manager_to_return(endpoint: str) -> None:
    first = FakeManager(endpoint, answer)
    with terminal("top", "--manager", endpoint, "--interval", "0.1", "--timeout", "0.5") as screen:
        try:
            screen.until(rb"policy easy")
        finally:
            first.close()
        screen.until(rb"(no manager there|did not answer) within 0.5 s; trying again")
        with fake_manager(endpoint, answer) as second:
            screen.until_true(lambda: len(second.requests) > 3)
            screen.type(b"q")
            assert screen.ended() == 0
        assert screen.is_restored()


@pytest.mark.parametrize("language", ["C.UTF-8", "unheard-of"])
def test_q_ends_top_without_an_answer(language: str, endpoint: str) -> None:
    waiting = ("top", "--manager", endpoint, "--timeout", "60")
    with fake_manager(endpoint, lambda _: None), terminal(*waiting, LC_ALL=language) as screen:
        screen.until(rb"asking the manager")
        began = time.monotonic()
        screen.type(b"q")
        assert screen.ended() == 0
        assert time.monotonic() - began < 20
        assert screen.is_restored()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, 130)])
def test_after_a_signal_the_terminal_is_restored(number: signal.Signals, code: int, endpoint: str) -> None:
    with fake_manager(endpoint, answer), terminal("top", "--manager", endpoint) as screen:
        screen.until(rb"policy easy")
        screen.child.send_signal(number)
        assert screen.ended() == code
        assert screen.is_restored()


COLOURS = rb"\x1b\[(?:\d+;)*3[0-7]m"


def test_colours_depend_on_the_terminal_and_no_color(endpoint: str) -> None:
    with fake_manager(endpoint, answer):
        for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "vt100"}, False)):
            with terminal("top", "--manager", endpoint, **environment) as screen:
                written = b""
                while b"last decisions" not in written:
                    screen.until(rb"(?=.)")
                    written += screen.written
                    screen.written = b""
                screen.type(b"q")
                assert screen.ended() == 0
                assert (re.search(COLOURS, written) is not None) == coloured


@pytest.mark.parametrize("kind", ["dumb", "unheard-of", ""])
def test_an_unsuitable_terminal_is_refused(kind: str, endpoint: str) -> None:
    with terminal("top", "--manager", endpoint, TERM=kind) as screen:
        assert screen.ended() == 2
        assert b"cosched-emulator: error: TERM: expected a terminal whose cursor can be moved" in screen.written
        assert screen.written.count(b"error") == 1


def test_waiting_shows_progress_on_a_terminal(endpoint: str) -> None:
    states = iter(["RUNNING", "RUNNING", "COMPLETED"])

    def end(_: Request) -> Done:
        return Done({"now_s": 1.0, "jobs": [job_row(1, state=next(states))], "missing": []})

    with fake_manager(endpoint, end), terminal("wait", "1", "--manager", endpoint) as screen:
        screen.until(rb"0 of 1 jobs have ended")
        screen.until(rb"1 of 1 jobs have ended")
        assert screen.ended() == 0
