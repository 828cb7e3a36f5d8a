"""Code of others that is called in this process and never returns is interrupted, and the caller's signals are left alone."""

from __future__ import annotations

import signal
import threading
import time
from itertools import count
from pathlib import Path

import pytest
from tests.processes import run_python

from cosched_plugin import config
from cosched_plugin.common.deadline import Overdue, overdue_after
from cosched_plugin.common.errors import UsageError

# Code that the signal does not interrupt: a loop in C, and one that catches everything.
DEAF = {
    "in C": "sum(itertools.count())",
    "catching": "while True:\n        try:\n            time.sleep(1)\n        except BaseException:\n            pass",
}


def test_it_ends_code_that_waits_for_the_same_thing_only() -> None:
    with overdue_after(1.0, lambda: None):
        time.sleep(0.1)
    numbers = count()
    with overdue_after(0.2, lambda: next(numbers)):
        time.sleep(0.5)
    with (
        pytest.raises(Overdue, match=r"it is at test_deadline.py:\d+, in test_it_ends"),
        overdue_after(0.2, lambda: "x"),
    ):
        time.sleep(20)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_there_is_none_in_another_thread_and_within_another_one() -> None:
    ended = []

    def work() -> None:
        with overdue_after(0.1, lambda: 1):
            time.sleep(0.3)
        ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended
    with overdue_after(20.0, lambda: 1), overdue_after(0.1, lambda: 1):
        time.sleep(0.3)


@pytest.mark.parametrize("how", DEAF)
def test_what_nothing_interrupts_ends_with_its_process(how: str, tmp_path: Path) -> None:
    script = tmp_path / "deaf.py"
    script.write_text(
        "import itertools, time\nfrom cosched_plugin.common.deadline import overdue_after\n"
        f"with overdue_after(0.2, lambda: 1, ends=True):\n    {DEAF[how]}\n"
    )
    ran = run_python(str(script))
    assert ran.code == 1
    assert "deaf.py" in ran.err


@pytest.mark.parametrize(
    "text", ["while True:\n    pass\n", "class Mine:\n    def __init__(self):\n        while True: pass\n"]
)
def test_a_policy_that_is_never_made_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"endless{len(text)}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(config, "MAKING_S", 0.3)
    with pytest.raises(
        UsageError, match=rf"policy {name}:Mine: it is not made within 0.3 s: it is at {name}.py:\d, in "
    ):
        config.choose(f"{name}:Mine")
