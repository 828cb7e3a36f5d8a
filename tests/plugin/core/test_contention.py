"""Which contention models a manager may choose as the site's belief, and what the scheduler requires of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.plugin.core.parts import WELCOME
from tests.runs import runs_on

from cosched_hwmodel.contention import Load
from cosched_hwmodel.errors import ContentionError
from cosched_hwmodel.models.by_name import BUILT_IN, AllowedModels
from cosched_hwmodel.topology import NodeShape
from cosched_plugin.api import JobFacts
from cosched_plugin.common.errors import UsageError
from cosched_plugin.config import allow_models, choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.state import believed_pairs
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.messages import Belief, JobSpec, PendingJob, RunningJob, StartJob

MODEL = """
from pathlib import Path
Path({mark!r}).touch()
class Table:
    def __init__(self, *, all=1.5):
        self.all = all
    def slowdown(self, job, other):
        return self.all
"""
HERE = f"{__name__}:Flat"


class Flat:
    def __init__(self, *, all: float = 1.5) -> None:
        self.all = all

    def slowdown(self, _job: JobFacts, _other: JobFacts) -> float:
        return self.all


class Crowd:
    """Every other job on the node costs the same."""

    def __init__(self, *, jobs: Mapping[int, JobFacts], each: float = 0.25) -> None:
        self.jobs = jobs
        self.each = each

    def penalties(self, _node: NodeShape, loads: Sequence[Load]) -> list[float]:
        assert all(load.job_id in self.jobs for load in loads)
        return [self.each * (len(loads) - 1)] * len(loads)


def belief_in(name: str, *parameters: tuple[str, float]) -> Belief:
    return Belief(name, "bulk-synchronous", (), parameters)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """Return a module that is not imported, and the file that it writes when imported."""
    name, mark = f"model_{tmp_path.name}".replace("-", "_"), tmp_path / "imported"
    (tmp_path / f"{name}.py").write_text(MODEL.format(mark=str(mark)))
    monkeypatch.syspath_prepend(str(tmp_path))
    return name, mark


def test_a_manager_does_not_choose_what_is_imported(module: tuple[str, Path]) -> None:
    name, mark = module
    welcome = WELCOME._replace(belief=belief_in(f"{name}:Table"))
    for models in (BUILT_IN, allow_models(()), allow_models(("lomarc",))):
        with pytest.raises(
            RemoteProtocolError, match=r"welcome\.belief\.contention.*expected one of none, bandwidth"
        ) as raised:
            choose("lomarc-r").scheduler(welcome, models=models)
        assert raised.value.code == "unsupported"
    assert not mark.exists()
    assert name not in sys.modules
    core = choose("lomarc-r").scheduler(welcome, models=allow_models((f"{name}:Table",)))
    assert mark.exists()
    assert core.view.pairs is not None
    assert core.view.pairs.name == f"{name}:Table"


def test_wrong_parameters_of_a_model_are_the_managers_fault() -> None:
    models = AllowedModels([HERE])
    with pytest.raises(RemoteProtocolError, match=r"welcome\.belief\.parameters.*TypeError") as raised:
        believed_pairs(belief_in(HERE, ("size", 1.5)), models)
    assert raised.value.code == "unsupported"
    with pytest.raises(KeyError):
        models["tides"]


@pytest.mark.parametrize(
    ("name", "text"), [("lomark", 'did you mean "lomarc"'), ("no.module:X", "no module 'no' on Python's path")]
)
def test_missing_models_on_the_command_line_are_an_error(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"--contention: .*{text}"):
        allow_models((name,))


def test_a_belief_may_be_a_model_of_nodes() -> None:
    """LessConsume places by it, and no two jobs are matched."""
    name = f"{__name__}:Crowd"
    models = allow_models((name,))
    running = RunningJob(JobSpec(9, 0, 1, 2000, None), 0, runs_on((0, 1, 1, 1)), 2000, None)
    job = JobSpec(2, 10, 2, 500, None)
    told = WELCOME._replace(
        nodes=WELCOME.nodes[:1], running=(running,), pending=(PendingJob(job, False),), belief=belief_in(name, ("each", 0.5))
    )  # fmt: skip
    core = choose("lc").scheduler(told, models=models)
    assert core.view.pairs is not None
    assert not core.view.pairs.knows(job)
    (start,) = core.handle(WELCOME.now_us, ())
    assert isinstance(start, StartJob)
    assert (start.runs, start.estimate_us) == (runs_on((1, 1, 3, 2)), 500)
    beside = told._replace(down=(1,), pending=(PendingJob(job._replace(processes=1), False),))
    (start,) = choose("lc").scheduler(beside, models=models).handle(WELCOME.now_us, ())
    assert isinstance(start, StartJob)
    assert (start.runs, start.estimate_us) == (runs_on((0, 1, 2, 1)), 750)
    with pytest.raises(RemoteProtocolError, match=r"welcome\.belief\.parameters.*TypeError"):
        believed_pairs(belief_in(name, ("size", 1.5)), models)


def test_an_impossible_slowdown_is_not_the_policys_fault() -> None:
    class Asking:
        def decide(self, _view: object) -> object:
            pairs = core.view.pairs
            assert pairs is not None
            pairs.slowdown(*core.view.queue[:2])
            return iter(())

    welcome = WELCOME._replace(belief=belief_in(HERE, ("all", 0.5)))
    core = SchedulerCore(Asking(), welcome, models=AllowedModels([HERE]))  # type: ignore[arg-type]  # a stub
    with pytest.raises(UsageError, match=r"what the site believes of contention cannot be used: .*got 0\.5") as raised:
        core.handle(WELCOME.now_us, ())
    assert isinstance(raised.value.__cause__, ContentionError)
