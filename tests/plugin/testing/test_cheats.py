"""The conformance check catches state outside notes, decisions that cannot be encoded, and parts that violate their protocols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, cast

import pytest
from tests.plugin.testing.cheats import CHEATS, LastEnds
from tests.plugin.testing.part_cheats import CHEATS as PART_CHEATS

from cosched_plugin.api import Action, JobSpec, SetNote, StartJob, View
from cosched_plugin.core.engine import Policy
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.testing import sites
from cosched_plugin.testing.check import PolicyCheckError, check_policy


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("cheat", CHEATS)
def test_counts_outside_notes_are_caught(cheat: Callable[[], Policy], seed: int) -> None:
    with pytest.raises(PolicyCheckError, match="a restart changes decisions"):
        check_policy(cheat, seed=seed)


@pytest.mark.parametrize("cheat", CHEATS)
def test_only_users_and_names_reveal_such_counts(cheat: Callable[[], Policy], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites, "with_owner", lambda _, spec: spec)
    assert check_policy(cheat, seed=1, runs=8).jobs > 200


def test_few_users_have_many_jobs_each() -> None:
    random = Random("owners")
    owned = [sites.with_owner(random, JobSpec(1, 0, 1, 1)) for _ in range(1000)]
    users = Counter(spec.user for spec in owned).most_common()
    assert 3 <= len(users) <= 6
    assert users[0][1] > 1.5 * users[1][1]  # about Zipf's law
    assert users[-1][1] > 50
    names = Counter(spec.name for spec in owned)
    assert 2 <= len(names) <= 5
    assert min(names.values()) > 100


def test_owners_leave_all_other_draws_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that ignores users and names is tried on the same machines, jobs and events with and without them."""
    report = check_policy(Plain, seed=4, runs=4)
    monkeypatch.setattr(sites, "with_owner", lambda _, spec: spec)
    assert check_policy(Plain, seed=4, runs=4) == report


# ---------------------------------------------------------------- decisions that cannot be encoded


class Plain(LastEnds):
    """Keep no state."""

    def note_ends(self, view: View) -> None:
        """Do nothing."""


class Noting(Plain):
    """Leave a note about each job that starts."""

    def note(self, job_id: int) -> SetNote:
        return SetNote(job_id, "started", True)

    def decide(self, view: View) -> Iterator[Action]:
        for action in super().decide(view):
            assert isinstance(action, StartJob)
            yield action
            yield self.note(action.job_id)


class NotingTooMuch(Noting):
    def note(self, job_id: int) -> SetNote:
        return SetNote(job_id, "started", ("x" * 60_000,) * job_id)  # from the 18th job on


class NotingTrueForOne(Noting):
    def note(self, job_id: int) -> SetNote:
        return SetNote(cast(int, True) if job_id == 1 else job_id, "started", job_id)


class Listing(Plain):
    """Give runs in a list, which arrives as a tuple."""

    def decide(self, view: View) -> Iterator[Action]:
        for action in super().decide(view):
            assert isinstance(action, StartJob)
            yield action._replace(runs=cast(Any, list(action.runs)))


class Unnamed(Plain):
    """Give runs as plain tuples."""

    def decide(self, view: View) -> Iterator[Action]:
        for action in super().decide(view):
            assert isinstance(action, StartJob)
            yield action._replace(runs=cast(Any, tuple([tuple(run) for run in action.runs])))


class Worded(str):
    """A string of a class of its own."""


class NotingWords(Noting):
    def note(self, job_id: int) -> SetNote:
        return SetNote(job_id, Worded("started"), 1)


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (NotingTooMuch, "the limit is 1048576"),
        (NotingTrueForOne, "the note cannot travel: job_id: expected an integer, got true"),
        (Listing, "a decision changes on its way to the manager: StartJob"),
        (Unnamed, "of type tuple arrives as Run(first="),
        (NotingWords, "the note cannot travel: key: expected a string"),
    ],
)
def test_decisions_that_another_process_would_not_receive_are_caught(
    policy: Callable[[], Policy], problem: str
) -> None:
    with pytest.raises(PolicyCheckError) as caught:
        check_policy(policy, seed=5)
    assert problem in caught.value.problem


def test_a_policy_with_plain_notes_passes() -> None:
    assert check_policy(Noting, seed=5, runs=5).jobs > 100


# ---------------------------------------------------------------- parts of a composition that violate their protocols


@pytest.mark.parametrize(("table", "problem"), PART_CHEATS, ids=lambda value: value if isinstance(value, str) else "")
def test_parts_that_violate_their_protocols_are_caught(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(PolicyCheckError) as caught:
        check_policy(lambda: compose(table), runs=3)
    assert problem in caught.value.problem
    assert caught.value.problem.startswith("PolicyError: policy.")


@pytest.mark.parametrize("above", [{"preset": "ssp"}, {"budget": "counted"}], ids=["slices", "budget"])
def test_parts_below_slices_and_budgets_are_checked(above: dict[str, Any]) -> None:
    table = {**above, "order": "tests.plugin.testing.part_cheats:Forgetful"}
    with pytest.raises(PolicyCheckError, match=r"policy\.order: Forgetful: arrange: expected jobs"):
        check_policy(lambda: compose(table), runs=3)
