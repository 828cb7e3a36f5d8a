"""`simulate` as others call it: with arguments of any type, in threads and processes, under signals, again and again."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosched_emulator import prepare, simulate, study
from cosched_emulator.errors import EmulatorError
from cosched_hwmodel.draws import uniform
from cosched_plugin.common.errors import PluginError

SITE: dict[str, Any] = {"cluster": {"nodes": 16, "preset": "lomarc-ht"}, "truth": {"contention": "lomarc"},
                        "workload": {"lublin": 60, "characteristics": "M1"}}  # fmt: skip
SMALL: dict[str, Any] = {"cluster": {"nodes": 8}, "workload": {"lublin": 5}}
POLICIES = ("easy", "lomarc-r", "pss", "conservative")
ODD: tuple[Any, ...] = (
    float("nan"), float("inf"), -1, 2**63, 2**70, 1e308, 1e-320, True, "", "x", b"x", [1], {"x": 1}, (1, 2), np.int64(3),
    np.float64("nan"), np.bool_(True), np.array([1, 2]), np.str_("easy"), Fraction(1, 2), Decimal("1.5"), Path("x"), object(),
    1 + 2j, "\x00", "\ud800", "a" * 5_000, range(3),
)  # fmt: skip
ARGUMENTS = (
    "policy",
    "settings",
    "overrides",
    "seed",
    "link",
    "out",
    "force",
    "trace",
    "db",
    "progress",
    "warn",
    "began",
)


@pytest.fixture(autouse=True)
def other_threads_may_log() -> Iterator[None]:
    """Release the lock of logging, which Python holds around a fork: what a signal raises in between leaves it to this thread for ever.

    Whatever test comes next in this process and logs in a thread would hang, as one of dask did.
    """
    yield
    lock = vars(logging)["_lock"]

    def is_free() -> bool:
        return bool(lock.acquire(timeout=0.5)) and lock.release() is None

    with ThreadPoolExecutor(1) as other:
        while not other.submit(is_free).result():
            lock.release()


def ends(policy: str) -> list[float]:
    """Return when each job ends."""
    found: list[float] = simulate(SITE, policy, seed=2).jobs.end_s.tolist()
    return found


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize("name", ["scenario", *ARGUMENTS])
def test_an_argument_of_any_type_is_taken_or_refused_in_words(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = 0
    for odd in ODD:
        given = {"scenario": SMALL, "policy": "easy", name: odd}
        try:
            simulate(**given)
        except (EmulatorError, PluginError) as error:
            refused += bool(str(error))
    assert refused >= (3 if name == "settings" else 12)


@pytest.mark.parametrize("odd", ["a\x00b", "a\ud800b"])
def test_a_text_that_no_file_can_have_names_its_key(odd: str) -> None:
    with pytest.raises(
        EmulatorError, match=r"workload\.annotations: expected a text of Unicode characters, without NUL"
    ):
        simulate({**SMALL, "workload": {"lublin": 5, "annotations": odd}})


def test_a_load_that_no_gaps_have_is_refused() -> None:
    with pytest.raises(EmulatorError, match=r"workload\.load: expected a load that a factor of the gaps can give"):
        simulate({**SMALL, "workload": {"lublin": 5, "load": 1e-320}})


# ---------------------------------------------------------------- threads and processes


def test_threads_do_not_disturb_each_other() -> None:
    alone = {policy: ends(policy) for policy in POLICIES}
    prepared = prepare(SITE, seed=2)

    def together(policy: str) -> tuple[str, list[float]]:
        return policy, simulate(prepared, policy).jobs.end_s.tolist()

    with ThreadPoolExecutor(4) as pool:
        for policy, found in pool.map(together, POLICIES * 3):
            assert found == alone[policy]


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_processes_give_the_same(how: str) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(how)) as pool:
        assert list(pool.map(ends, POLICIES)) == [ends(policy) for policy in POLICIES]


# ---------------------------------------------------------------- signals


class OwnError(Exception):
    """What a caller's handler raises."""


@contextmanager
def struck(after_s: float, handler: Callable[..., Any]) -> Iterator[None]:
    """Interrupt the block by a signal."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, after_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def own(*_: object) -> None:
    raise OwnError


def real(*_: object) -> None:
    """Send what a user's Ctrl-C sends."""
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.by_default(3)
@pytest.mark.parametrize("handler", [interrupt, own, real])
@pytest.mark.parametrize("policy", ["lomarc-r", "glts"])
def test_what_a_signal_raises_comes_out_at_any_instant(handler: Callable[..., Any], policy: str) -> None:
    site: dict[str, Any] = SITE if policy == "lomarc-r" else {
        "cluster": {"nodes": 32, "preset": "g-lomarc-2x2"}, "truth": {"contention": "statistical"},
        "workload": {"lublin": 60, "self_slowdowns": "table4", "lublin_size": "nodes"},
    }  # fmt: skip
    prepared = prepare(site, seed=2)
    undisturbed = min(
        (simulate(prepared, policy) for _ in range(3)), key=lambda finished: finished.wall_s
    )  # the first is slower
    came: list[type[BaseException]] = []
    for number in range(96):  # some runs end earlier, and most do where the machine was busier before
        if len(came) > 5:
            break
        after_s = max(0.0002, undisturbed.wall_s * 0.95 * uniform(len(policy), "signal", number))
        try:
            with struck(after_s, handler):
                simulate(prepared, policy)
        except (KeyboardInterrupt, OwnError) as error:
            came.append(type(error))
    assert len(came) > 5
    assert {*came} == {OwnError if handler is own else KeyboardInterrupt}
    assert simulate(prepared, policy).jobs.end_s.tolist() == undisturbed.jobs.end_s.tolist()


# Python itself drops what a signal raises in its own hooks around a fork.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupted_study_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    experiment = {"title": "x", "scenario": SITE, "policies": ["easy", "lomarc-r"], "seeds": "1-8"}
    came = 0
    for number in range(4):
        try:
            with struck(0.02 + 0.3 * uniform(3, "study", number), real):
                study(experiment, jobs=2)
        except KeyboardInterrupt:
            came += 1
        assert os.listdir(tmp_path) == []
        for killed in multiprocessing.active_children():  # the system takes a moment to end one
            killed.join(5.0)
        assert multiprocessing.active_children() == []
    assert came


# ---------------------------------------------------------------- again and again


def left() -> dict[str, Any]:
    """Return what a call might leave behind."""
    return {
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "handlers": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)],
        "temporary": sorted(os.listdir(tempfile.gettempdir())),
        "collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 0),
        "folder": os.getcwd(),
        "mask": os.umask(os.umask(0o022)),
    }


@pytest.mark.parametrize("calls", [15, pytest.param(500, marks=pytest.mark.slow)])
def test_calls_leave_nothing_behind(calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "t"))
    for number in range(5):
        use(number, tmp_path)
    gc.collect()
    before, objects = left(), len(gc.get_objects())
    for number in range(calls):
        use(number, tmp_path)
    gc.collect()
    assert left() == before
    assert len(gc.get_objects()) - objects < 2 * calls  # a call makes tens of thousands


def use(number: int, folder: Path) -> None:
    policy = POLICIES[number % len(POLICIES)]
    match number % 5:
        case 0:
            simulate(SITE, policy, seed=number)
        case 1:
            simulate(SITE, policy, out=folder / "run", force=True, trace=folder / "run" / "trace.jsonl")
        case 2:
            simulate(SITE, policy, link="loopback", trace=[])
        case 3:
            simulate(SITE, policy, db=folder / f"{number}.db")
            (folder / f"{number}.db").unlink()
            (folder / f"{number}.db-mark").unlink()
        case _:
            with pytest.raises(EmulatorError):
                simulate(SITE, policy, overrides={"cluster": {"nodes": "many"}})
