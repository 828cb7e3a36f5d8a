"""The statistical model of slowdowns in a scenario: the truth, the scheduler's belief, and the jobs for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cosched_emulator import prepare
from cosched_emulator.cli.scenario_options import overrides
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.run.build import build_manager
from cosched_emulator.run.prepare import Prepared
from cosched_hwmodel.models.paper_pairs import StatisticalPairs
from cosched_hwmodel.statistical import StatisticalModel, draw_self_slowdown
from cosched_plugin.core.state import believed_model, believed_pairs
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.messages import Belief

NODE = {"nodes": 8, "preset": "g-lomarc-2x2"}
TABLE_4 = {"lublin": 200, "self_slowdowns": "table4"}


def prepared_of(**sections: Mapping[str, Any] | int) -> Prepared:
    table: dict[str, Any] = {"cluster": NODE, "workload": TABLE_4, "truth": {"contention": "statistical"}, **sections}
    return prepare(table)


def told_by(prepared: Prepared) -> Belief:
    return build_manager(prepared).inventory().belief


# ---------------------------------------------------------------- belief


def believed_statistical(belief: Belief) -> StatisticalModel:
    pairs = believed_pairs(belief)
    assert isinstance(pairs, StatisticalPairs)
    return pairs.model


def test_by_default_the_belief_is_the_truth() -> None:
    prepared = prepared_of(seed=5, truth={"contention": "statistical", "cos_shares": [50, 50]})
    belief = told_by(prepared)
    assert belief.contention == "statistical"
    assert belief.parameters == (("pair_seed", 5), ("shares", (50, 50)))
    assert believed_statistical(belief) == StatisticalModel(5, (50, 50))
    assert believed_model(belief).resources == ()
    for job in prepared.workload.jobs:
        assert job.spec.self_slowdown == job.self_slowdown == draw_self_slowdown(5, job.source_id)


def test_unknown_pairs_are_drawn_again_from_the_same_distribution() -> None:
    exact, unknown = (
        believed_statistical(told_by(prepared_of(seed=-1, belief={"pairs": pairs}))) for pairs in ("exact", "unknown")
    )
    assert exact == StatisticalModel(-1)
    assert unknown.shares == exact.shares
    pairs = [(job, other) for job in range(1, 60) for other in range(1, 60)]
    true, believed = ([model.coscheduling(*pair) for pair in pairs] for model in (exact, unknown))
    assert sum(believed) / len(pairs) == pytest.approx(sum(true) / len(pairs), abs=0.01)
    slow = [a > 1.25 for a in true]
    believed_slow = [b > 1.25 for b in believed]
    both = sum(a and b for a, b in zip(slow, believed_slow, strict=True)) / len(pairs)
    # Truth and belief of a pair are independent: a pair believed to be slow is not likelier to be slow.
    assert both == pytest.approx(sum(slow) * sum(believed_slow) / len(pairs) ** 2, abs=0.005)
    again = believed_statistical(told_by(prepared_of(seed=-1, belief={"pairs": "unknown"})))
    assert again == unknown
    assert unknown != believed_statistical(told_by(prepared_of(seed=3, belief={"pairs": "unknown"})))


@pytest.mark.parametrize("parameters", [(("pairs", 1),), (("shares", (1, 2)),), (("pair_seed", 1.5),)])
def test_invalid_parameters_are_refused(parameters: tuple[tuple[str, Any], ...]) -> None:
    with pytest.raises(RemoteProtocolError, match=r"welcome\.belief\.parameters"):
        believed_pairs(Belief("statistical", "paper", (), parameters))


# ---------------------------------------------------------------- workload


LOG = "; MaxProcs: 2\n" + "".join(f"{number} 0 -1 60 2 -1 -1 2 60 -1 1 7 1 9 -1 -1 -1 -1\n" for number in (4, 5))


def test_jobs_of_a_log_grow_on_a_machine_that_is_named(tmp_path: Path) -> None:
    log, selves = tmp_path / "log.swf", tmp_path / "self.csv"
    log.write_text(LOG)
    selves.write_text("job,self_node,self_core\n4,0.95,1.1\n")
    workload = {"swf": str(log), "annotations": str(selves), "grow": True}
    found = prepared_of(workload=workload, cluster={**NODE, "nodes": 1}).workload
    assert [job.spec.processes for job in found.jobs] == [8, 2]
    assert found.notes[-2] == (
        "sizes grown: 0 jobs twofold, 1 fourfold, 0 not, 1 without self slowdown; largest 8, 1 above the 4 cores"
    )
    with pytest.raises(ConfigurationError) as caught:
        prepared_of(workload=workload, cluster={"preset": "g-lomarc-2x2"})
    assert caught.value.path == "workload.grow"


@pytest.mark.parametrize(
    ("section", "keys", "path"),
    [
        ("workload", {"self_slowdowns": "table5"}, "workload.self_slowdowns"),
        ("workload", {"lublin_size": "node"}, "workload.lublin_size"),
        ("workload", {"lublin_size": ""}, "workload.lublin_size"),
        ("workload", {"grow_max_slowdown": -0.1}, "workload.grow_max_slowdown"),
        ("workload", {"grow_max_slowdown": float("nan")}, "workload.grow_max_slowdown"),
        ("workload", {"grow_max_slowdown_cpus": 1001}, "workload.grow_max_slowdown_cpus"),
        ("workload", {"grow": True}, "workload.grow"),
        ("truth", {"cos_shares": [50, 49]}, "truth"),
        ("truth", {"cos_shares": []}, "truth"),
        ("truth", {"cos_shares": [101, -1]}, "truth"),
        ("truth", {"cos_shares": [50.5, 49.5]}, "truth.cos_shares[0]"),
        ("belief", {"self_slowdowns": "exat"}, "belief.self_slowdowns"),
        ("belief", {"self_noise": 1.0}, "belief.self_noise"),
        ("belief", {"pairs": "mean"}, "belief.pairs"),
    ],
)
def test_invalid_values_are_refused(section: str, keys: Mapping[str, Any], path: str) -> None:
    table = {"workload": {"lublin": 5}, section: {"lublin": 5, **keys} if section == "workload" else keys}
    with pytest.raises(ConfigurationError) as caught:
        prepare(table)
    assert caught.value.path == path


def test_options_of_the_statistical_model_become_overrides() -> None:
    given = {"self_slowdowns": "table4", "grow": True, "belief_self": "unknown", "belief_pairs": "unknown"}
    assert overrides(given) == {
        "workload": {"self_slowdowns": "table4", "grow": True},
        "belief": {"self_slowdowns": "unknown", "pairs": "unknown"},
    }
