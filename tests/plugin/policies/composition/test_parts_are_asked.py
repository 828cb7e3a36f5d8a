"""Every part of a composition is called for its note and its check of the machine, and its answers are checked."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import walk_packages
from typing import Any

import pytest
from tests.plugin.policies.glomarc.glts_cases import nodes_of, told

from cosched_plugin import api, policies
from cosched_plugin.common.errors import UsageError
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.backfilling.easy import Easy
from cosched_plugin.policies.composition.catalogue import own_notes
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.composition.resolved import resolve
from cosched_plugin.policies.orders import ClassPriority
from cosched_plugin.policies.placement.compact import FirstFit, Nodes
from cosched_plugin.protocol.messages import JobEnded, JobSubmitted
from cosched_plugin.testing.check import check_policy

ASKED: Counter[str] = Counter()


class Watched(api.Part):
    """Counts the calls, and notes how many jobs started or ended last."""

    @property
    def note(self) -> str:
        return type(self).__name__

    def check(self, view: api.View) -> None:
        ASKED[f"check {self.note}"] += 1

    def remember(self, changes: api.Changes, view: api.View) -> api.NoteValue:
        ASKED[f"remember {self.note}"] += 1
        return (len(changes.started), len(changes.ended))


class AOrder(Watched, api.Order):
    def arrange(self, jobs: list[api.JobSpec], view: api.View) -> list[api.JobSpec]:
        return jobs


class ABackfill(Watched, Easy):
    pass


class APlacement(Watched, FirstFit):
    pass


class AShape(Watched, Nodes):
    pass


class AMatching(Watched, api.Matching):
    needs = frozenset({api.WHOLE_NODES, api.COMPANY})

    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        return offer if gate.admit(offer) else None


class Wrapped(api.Matching):
    def __init__(self, inner: api.Matching) -> None:
        self.inner = inner

    def prepare(self, context: api.Context) -> Iterator[api.Action]:
        return self.inner.prepare(context)

    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        return self.inner.seat(offer, context, gate)


class AFairness(Watched, api.Fairness):
    def limit(self, matching: api.Matching) -> api.Matching:
        return Wrapped(matching)


class ASlices(Watched, api.Slices):
    def divide(self, make: Callable[[], api.ClassPolicy]) -> api.Policy:
        return make()


class ABudget(Watched, api.Budget):
    def units(self, view: api.View) -> int:
        return 10**9


class Tupled(api.Order):
    def arrange(self, jobs: list[api.JobSpec], view: api.View) -> Any:
        return tuple(reversed(jobs))


class OldOrder(ClassPriority):
    """Inherits the upkeep of the history, and so shares it."""


class Thief(AOrder):
    note = "slices"


class Outgrown(AOrder):
    """Doubles its note at each start, until it is beyond 64 bits."""

    def remember(self, changes: api.Changes, view: api.View) -> api.NoteValue:
        before = view.note(None, self.note)
        if not changes.started:
            return before
        return 2 * before if isinstance(before, int) else 2**61


class Twin(APlacement):
    note = "AOrder"

    def remember(self, changes: api.Changes, view: api.View) -> api.NoteValue:
        return len(changes.started)


class Shrinking(api.Budget):
    def __init__(self, *, to: float = 0) -> None:
        self.to = to

    def units(self, view: api.View) -> int:
        return self.to  # type: ignore[return-value]  # it lies


class Wordy(AOrder):
    def __init__(self, *, lie: str) -> None:
        self.lie = lie

    @property
    def needs(self) -> frozenset[str]:
        if self.lie == "raises":
            raise RuntimeError("no needs today")
        return self.lie  # type: ignore[return-value]  # it lies


class NoLimit(api.Fairness):
    def limit(self, matching: api.Matching) -> api.Matching:
        return None  # type: ignore[return-value]  # it lies


class Leaving(api.Order):
    def __init__(self) -> None:
        sys.exit(7)

    def arrange(self, jobs: list[api.JobSpec], view: api.View) -> list[api.JobSpec]:
        return jobs


class Picky(AMatching):
    note = ""

    def check(self, view: api.View) -> None:
        raise api.MachineError("not this machine")


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watched_parts", sys.modules[__name__])
    ASKED.clear()


def test_no_part_from_outside_may_take_the_note_of_any_of_ours() -> None:
    modules = [import_module(item.name) for item in walk_packages(policies.__path__, f"{policies.__name__}.")]
    assert {module.NOTE for module in modules if hasattr(module, "NOTE")} <= own_notes().keys()


def test_every_part_is_called_for_note_and_check() -> None:
    kinds = ("order", "backfill", "placement", "shape", "matching", "fairness", "slices", "budget")
    table = {kind: f"watched_parts:A{kind.capitalize()}" for kind in kinds}
    for without in ((), ("slices",), ("fairness",)):
        ASKED.clear()
        chosen = {kind: name for kind, name in table.items() if kind not in without}
        assert check_policy(lambda chosen=chosen: compose(chosen), runs=2).decisions > 10  # type: ignore[misc]
        names = {f"A{kind.capitalize()}" for kind in kinds if kind not in without}
        assert {key for key in ASKED if ASKED[key] >= 2} == {
            f"{what} {name}" for what in ("check", "remember") for name in names
        }


@pytest.mark.parametrize("fairness", ["slack", "watched_parts:AFairness"])
def test_a_matching_behind_a_fairness_rule_declines_machines(fairness: str) -> None:
    table = {"shape": "nodes", "matching": "watched_parts:Picky", "fairness": fairness}
    with pytest.raises(Exception, match="declines every machine"):
        check_policy(lambda: compose(table), runs=2)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"order": "watched_parts:Thief"},
            "policy.order: watched_parts:Thief: note: 'slices' is a key that cosched uses",
        ),
        (
            {"order": "watched_parts:AOrder", "placement": "watched_parts:Twin"},
            "policy: order watched_parts:AOrder and placement watched_parts:Twin both remember in the note 'AOrder'",
        ),
        ({"order": {"name": "watched_parts:Wordy", "lie": "x"}}, "Wordy: needs: expected a set of texts, got 'x'"),
        ({"order": {"name": "watched_parts:Wordy", "lie": "raises"}}, "Wordy: needs: RuntimeError: no needs today"),
        ({"order": "watched_parts:Leaving"}, "policy.order: watched_parts:Leaving: SystemExit: 7"),
        (
            {"budget": {"name": "watched_parts:Shrinking", "to": float("inf")}},
            "policy.budget.to: expected true or false, a whole number, a finite number, a text, or a list or table of these",
        ),
        ({5: "fcfs"}, "policy.5: no such key"),
    ],
)
def test_answers_of_parts_are_checked(table: dict[Any, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(table)
    assert message in str(caught.value)


def test_objects_made_by_parts_are_checked() -> None:
    with pytest.raises(
        UsageError, match=r"policy\.fairness: watched_parts:NoLimit: limit: expected a .*Matching, got None"
    ):
        choose("pss", ["fairness=watched_parts:NoLimit"])
    assert resolve({"order": "watched_parts:OldOrder", "shape": "nodes", "matching": "u1"})["order"]["age_s"] == 0.0


@pytest.mark.parametrize("to", [0, -3, 1.5])
def test_a_budget_is_a_whole_number_of_units(to: float) -> None:

    core = SchedulerCore(compose({"budget": {"name": "watched_parts:Shrinking", "to": to}}), told(nodes_of(2), []))
    with pytest.raises(api.PolicyError, match=r"policy\.budget: units: expected a whole number of units, 1 or more"):
        core.handle(0, ())


def test_a_note_that_has_outgrown_the_wire_is_begun_anew() -> None:
    """It stands with the manager: a scheduler that ended at it would be followed by others that end at it, too."""
    jobs = [api.JobSpec(number, 0, 1, api.SECOND_US) for number in range(5)]
    core = SchedulerCore(compose({"order": "watched_parts:Outgrown"}), told(nodes_of(1), jobs))
    kept = [action.value for action in core.handle(0, ()) if isinstance(action, api.SetNote)]
    assert kept == [2**61]
    for number in range(3):
        told_of = (JobEnded(number, "COMPLETED"), JobSubmitted(api.JobSpec(9 + number, 0, 1, api.SECOND_US)))
        kept += [action.value for action in core.handle(0, told_of) if isinstance(action, api.SetNote)]
    assert kept == [2**61, 2**62, None, 2**61]


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_an_order_may_return_any_sequence(backfill: str) -> None:
    jobs = [api.JobSpec(number, 0, 1, api.SECOND_US) for number in range(5)]
    core = SchedulerCore(compose({"order": "watched_parts:Tupled", "backfill": backfill}), told(nodes_of(2), jobs))
    assert [action.job_id for action in core.handle(0, ()) if isinstance(action, api.StartJob)] == [4, 3, 2, 1, 0]


def test_two_packages_with_one_name_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("fair", f"watched_parts:{name}", "cosched.order") for name in ("AOrder", "OldOrder")]

    def installed(**selection: str) -> object:
        return points if selection == {"group": "cosched.order"} else entry_points(**selection)

    monkeypatch.setattr("importlib.metadata.entry_points", installed)
    with pytest.raises(
        UsageError, match=r"policy\.order: fair: expected one package that has it installed, got .*AOrder.* and "
    ):
        resolve({"order": "fair"})
    points.pop()
    assert resolve({"order": "fair"})["order"] == {"name": "fair"}
