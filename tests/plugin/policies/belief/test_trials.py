"""Trials of pairs of which nothing is known: few at a time, of the others nothing changes, and a restarted scheduler goes on."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest
from tests.plugin.policies.composition.combinations import NODES_ALIKE

from cosched_emulator import Run, simulate
from cosched_hwmodel.models.measured_pairs import MeasuredPairs, MeasuredRatios
from cosched_plugin.policies.belief.trials import TriedPairs
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol.messages import JobSpec
from cosched_plugin.testing.check import check_policy

KNOWN = MeasuredPairs(MeasuredRatios(("a", "b"), (1.5, 1.1, 1.2, 0.0), (1.0, 1.0)))


def job(number: int, name: str) -> JobSpec:
    return JobSpec(number, 0, 1, 1_000_000, None, name=name)


def test_only_what_is_not_known_is_assumed_of_pairs_on_trial() -> None:
    """Jobs 1 and 2 are on trial together, job 3 may join job 4; a and b are known but for b beside b."""
    jobs = [job(1, "b"), job(2, "b"), job(3, "c"), job(4, "a"), job(5, "b"), job(6, "a")]
    model = TriedPairs(KNOWN, 1.3, frozenset([frozenset([1, 2])]), frozenset([3]), frozenset([4, 1]))
    slow = {(one.id, other.id): model.slowdown(one, other) for one in jobs for other in jobs if one.id < other.id}
    assumed = {(1, 2): 1.3, (3, 4): 1.3, (1, 3): 1.3}
    known = {(1, 4): 1.2, (1, 6): 1.2, (2, 4): 1.2, (2, 6): 1.2, (4, 5): 1.1, (4, 6): 1.5, (5, 6): 1.2}
    assert slow == dict.fromkeys(slow, inf) | known | assumed
    assert model.knows(jobs[2])
    assert not model.knows(job(7, ""))

    class Columns:
        usage = None

        def __init__(self) -> None:
            self.jobs = tuple(jobs)

    for one in (jobs[2], jobs[3], jobs[4]):
        both = [inf if one is other else model.both(one, other) for other in jobs]
        found = model.beside(one, Columns()).slowdowns.tolist()  # type: ignore[arg-type]
        assert [slow for slow, other in zip(found, jobs, strict=True) if other is not one] == [
            slow for slow, other in zip(both, jobs, strict=True) if other is not one
        ]


@pytest.mark.parametrize("preset", ["guests", "symbiosis", "lomarc-r", "co-execution", "glts"])
def test_policies_that_share_decide_the_same_after_a_restart(preset: str) -> None:
    table = {"preset": preset, "belief": {"name": "trials", "most": 2}}
    check_policy(lambda: compose(table), seed=NODES_ALIKE, runs=3)


def ran(folder: Path, policy: str, *settings: str) -> Run:
    """Run jobs of four applications of which nothing is believed."""
    table = ["row,column,ratio,procs,compact_s,spread"]
    table += [f"{one},{other},{1.0 + 0.1 * other},1,100,1" for one in range(1, 5) for other in range(1, 5)]
    (folder / "pairs.csv").write_text("\n".join(table) + "\n")
    runs_s = [100 + place % 7 * 90 for place in range(160)]
    rows = [
        f"{place + 1} {place * 10} -1 {run_s} 1 -1 -1 1 {2 * run_s} -1 1 1 1 {1 + place % 4} 1 -1 -1 -1"
        for place, run_s in enumerate(runs_s)
    ]
    (folder / "jobs.swf").write_text("; MaxProcs: 8\n" + "\n".join(rows) + "\n")
    scenario = {
        "workload": {"swf": str(folder / "jobs.swf")},
        "cluster": {"nodes": 8, "preset": "lomarc-ht"},
        "truth": {"contention": "pairs", "pairs": str(folder / "pairs.csv")},
        "belief": {"pairs": "unknown"},
    }
    return simulate(scenario, policy, settings=list(settings))


def most_at_once(run: Run) -> int:
    """Return how many nodes had two jobs at one instant, at most."""
    rows = run.allocations
    changes = [(float(at_s), 1, int(node)) for at_s, node in zip(rows.start_s, rows.first_node, strict=True)]
    changes += [(float(at_s), -1, int(node)) for at_s, node in zip(rows.end_s, rows.first_node, strict=True)]
    there: dict[int, int] = {}
    most = 0
    for _, change, node in sorted(changes):
        there[node] = there.get(node, 0) + change
        most = max(most, sum(count > 1 for count in there.values()))
    return most


@pytest.mark.parametrize("policy", ["guests", "symbiosis", "lomarc-r"])
def test_no_more_than_asked_for_are_on_trial(tmp_path: Path, policy: str) -> None:
    assert most_at_once(ran(tmp_path, policy)) == 0
    for most in (1, 3):
        assert most_at_once(ran(tmp_path, policy, "belief=trials", f"belief.most={most}")) == most
