"""Defects that the conformance check finds with another process, with messages, and with many further jobs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.plugin.testing import cheats
from tests.plugin.testing.cheats import ByClock, ByHash, ByIdentity, InModule, StartsPerUser
from tests.processes import run_python

from cosched_plugin.core.engine import Policy
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.testing import recording
from cosched_plugin.testing.check import PolicyCheckError, check_policy


@pytest.mark.parametrize("cheat", [ByHash, ByClock, InModule])
def test_decisions_that_differ_in_another_process_are_caught(cheat: type[Policy]) -> None:
    with pytest.raises(PolicyCheckError) as caught:
        check_policy(cheat, runs=4, arguments=[f"{cheats.__name__}:{cheat.__name__}"])
    assert caught.value.problem.startswith("another process decides otherwise: ")
    assert 1 <= caught.value.run <= 4
    assert caught.value.events


def test_decisions_by_object_identity_are_caught() -> None:
    with pytest.raises(PolicyCheckError, match="a restart changes decisions"):
        check_policy(ByIdentity, runs=4)


def test_a_sound_policy_decides_the_same_in_another_process() -> None:
    report = check_policy(lambda: compose({"preset": "lomarc-r"}), runs=3, first=3, arguments=["lomarc-r"])
    assert report.replayed == report.batches
    assert f"another process answered {report.batches} of them as well" in str(report)
    assert check_policy(lambda: compose({"preset": "lomarc-r"}), runs=2).replayed == 0


@pytest.mark.parametrize(
    ("text", "deadline_s", "problem"),
    [
        ("import os; os._exit(9)", 60.0, "another process fails with exit code 9: "),
        ("import time; time.sleep(60)", 1.0, "another process does not answer the same batches within 1 s"),
    ],
)
def test_a_policy_that_fails_in_another_process_is_an_error(
    text: str, deadline_s: float, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(recording, "LEAST_DEADLINE_S", deadline_s)
    monkeypatch.setattr(recording, "PATIENCE", 0.0)
    began = time.monotonic()
    with pytest.raises(PolicyCheckError) as caught:
        check_policy(lambda: compose({}), runs=1, arguments=["only_here:Policy"])
    assert caught.value.problem == problem
    assert time.monotonic() - began < 50


def test_the_other_process_has_different_hashes() -> None:
    """No text keeps its place in the order of hashes."""
    texts = ["", "ann", "ben", "cleo"]
    seed = recording._other_hash_seed([texts, ["mesh"]])
    show = f"print(*sorted({texts}, key=hash), sep=',')"
    code, out, _ = run_python("-S", "-c", show, env={**os.environ, "PYTHONHASHSEED": seed})
    assert code == 0
    there = out.rstrip("\n").split(",")
    assert sorted(there) == texts
    assert all(one != other for one, other in zip(there, sorted(texts, key=hash), strict=True))


@pytest.mark.parametrize("order", ["Notebook", pytest.param("ShortNotebook", marks=pytest.mark.slow)])
def test_a_note_that_keeps_growing_is_caught(order: str) -> None:
    table = {"order": f"{cheats.__name__}:{order}"}
    if order == "ShortNotebook":
        arguments = ["easy", "--set", f"order={table['order']}"]
        report = check_policy(
            lambda: compose(table), runs=2, arguments=arguments
        )  # and the first run is continued at the end
        assert report.jobs > 400
        assert report.replayed == report.batches
        return
    with pytest.raises(PolicyCheckError, match="the note 'notebook' about the cluster has no bound: it has") as caught:
        check_policy(lambda: compose(table), runs=1)
    assert "another process" not in caught.value.problem


def test_a_count_in_an_attribute_is_caught_without_another_process() -> None:
    with pytest.raises(PolicyCheckError, match="a restart changes decisions"):
        check_policy(StartsPerUser, arguments=["no:such"])
