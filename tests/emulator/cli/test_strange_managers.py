"""The commands for users, with somebody else than a manager at the endpoint."""

from __future__ import annotations

from typing import Any

import pytest
from tests.emulator.cli.conftest import Run
from tests.emulator.cli.fake_manager import always, fake_manager, job_row, table

QUICK = ("--timeout", "0.3")
LIVE: dict[str, tuple[str, ...]] = {
    "submit": (), "queue": ("--start",), "why": ("1",), "job": ("1",), "cancel": ("1",), "hold": ("1",), "release": ("1",),
    "wait": ("1",), "history": (), "nodes": ("--long",), "drain": ("1",), "resume": ("1",), "status": (), "top": ("--once",),
}  # fmt: skip


@pytest.mark.parametrize("command", LIVE)
@pytest.mark.parametrize("form", range(6))
def test_whatever_a_manager_answers_ends_in_words(run: Run, endpoint: str, command: str, form: int) -> None:
    """Any user may listen where another one looks for the manager; its text must not drive the terminal either."""
    evil = "\x1b]0;gone\x07\x1b[2J"
    rows = {"columns": [evil], "rows": [[evil]], "left_out": evil, "now_s": float("inf")}
    row = {**job_row(1), "name": evil, "state": evil, "node_list": evil, "reason": evil, "elapsed_s": float("nan")}
    answers: list[dict[str, Any]] = [
        {},
        {"jobs": None, "nodes": 1, "job_ids": [], "missing": 3},
        {"jobs": rows, "nodes": rows, "job_ids": [evil], "missing": [], **rows},
        {"jobs": [row], "missing": [], "job_ids": [evil], "trouble": evil, "age_s": None, **table([row])},
        {"changed": [], "unchanged": [[evil, evil]], "jobs": table([row]), "job_ids": [[evil]], evil: evil},
        {"unchanged": 5, "jobs": [[row]], "missing": [evil], "nodes": {"rows": [[1]], "columns": []}, "status": {}},
    ]
    with fake_manager(endpoint, always(answers[form])):
        ran = run(command, *LIVE[command], *QUICK)
    assert "\x1b" not in ran.out + ran.err
    assert ran.code in (0, 1, 3)
    assert ran.code == 0 or ran.err.count("\n") == 1


def test_the_folder_of_a_service_is_where_manager_and_clients_look(
    run: Run, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = endpoint.removeprefix("ipc://").removesuffix("/door")
    for command in ("queue", "serve"):
        monkeypatch.setattr("cosched_plugin.protocol.endpoint.RUN_FOLDER", f"{folder}/none")
        assert run(command, *(["--lublin", "3"] * (command == "serve")), manager=False).code == 2
        monkeypatch.setattr("cosched_plugin.protocol.endpoint.RUN_FOLDER", folder)
        if command == "queue":
            with fake_manager(f"ipc://{folder}/users.sock", always({"now_s": 0.0, **table([job_row(1)])})):
                assert "job1" in run("queue", manager=False).out
    ran = run("serve", "--lublin", "3", "--wait", "0.2", manager=False)
    assert f"ipc://{folder}/scheduler.sock: no scheduler was ready within 0.2 s" in ran.err
