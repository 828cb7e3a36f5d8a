"""What the process that makes start estimates is told by a manager that comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.emulator.live.test_views import ROOT, Site, begin, submit
from tests.emulator.parts import node_class
from tests.runs import run_on

from cosched_emulator.live import start_estimates
from cosched_emulator.live.start_estimates import StartEstimates
from cosched_plugin.protocol.vocabulary import JOB


class Ear:
    """Stands in for the process, and keeps what it is told."""

    trouble = ""
    told: list[dict[str, Any]] = []  # noqa: RUF012 - of all

    def __init__(self, _allowed: Sequence[str], _on_start: Callable[[], None]) -> None:
        self.told.clear()

    def receive(self) -> list[dict[str, Any]]:
        return [{"kind": "ready"}]

    def send(self, **message: Any) -> bool:
        self.told.append(message)
        return True


def test_past_jobs_are_told_as_they_were_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_estimates, "EstimatingProcess", Ear)
    site = Site(node_class(2, 2)._replace(resources=(("gpu", 2),)))
    wish = submit(1, run_s=5, priority=-3, resources=(("gpu", 1),), eligible=((0, 1),), demand=(1, 2, 3))
    site.do(wish, 1)
    site.start(1, begin(1, run_on(0, 1, 1, 1)))
    site.do(submit(1, held=True), 2)
    site.advance(7)
    StartEstimates(site.live, site.books, lambda: ("easy",), ()).tend()
    (jobs,) = [message["rows"] for message in Ear.told if message["kind"] == "jobs"]
    past, waiting = [JOB.read(row) for row in jobs]
    assert past == wish.job._replace(id=1, submit_us=1_000_000, user=ROOT.name)
    assert waiting.id == 2
    (ended,) = [message["rows"] for message in Ear.told if message["kind"] == "ended"]
    assert ended == [[1, None, [ROOT.name, 100_000_000, 1_000_000, 5_000_000]]]
