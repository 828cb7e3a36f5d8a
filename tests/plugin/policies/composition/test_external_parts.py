"""Parts and presets of other packages: by ``module:Class`` and by entry point, for every kind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pytest
from tests.runs import layers_on

from cosched_plugin import api
from cosched_plugin.common.errors import UsageError
from cosched_plugin.config import choose
from cosched_plugin.listing import catalogue, catalogue_lines
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.composition.finding import PROTOCOLS
from cosched_plugin.policies.composition.presets import ALIASES
from cosched_plugin.policies.composition.resolved import members, resolve
from cosched_plugin.testing.check import check_policy


class LongestFirst(api.Order):
    def __init__(self, *, least_s: float = 0.0) -> None:
        if least_s < 0:
            raise ValueError("least_s: expected seconds, 0 or more")
        self.least_us = least_s * 1e6

    def arrange(self, jobs: list[api.JobSpec], view: api.View) -> list[api.JobSpec]:
        return sorted(jobs, key=lambda job: -max(job.estimate_us, self.least_us))


class OneByOne(api.Backfill):
    def decide(self, context: api.Context) -> Iterator[api.Action]:
        view = context.view
        for job in context.arranged().jobs if not view.running else ():
            offer = context.placement.offer(job, api.snapshot_now(view))
            if offer is not None:
                yield offer.start()
                return


class Whole(api.Shape):
    provides = frozenset({api.WHOLE_NODES})

    def shaped(self, view: api.View) -> api.View:
        return api.WholeNodesView(view)


class HighestFirst(api.Placement):
    """Uses the highest nodes first."""

    def offer(self, job: api.JobSpec, snapshot: api.Snapshot) -> api.Offer | None:
        view = snapshot.view
        free = view.open_to(job, snapshot.free)
        for first in reversed(range(view.machine.nodes)):
            some = layers_on(*[layer >> first << first for layer in free])
            runs = api.first_fit(job, some, view.machine, snapshot.memory_for(job))
            if runs is not None:
                return self.offer_on(job, runs, snapshot)
        return None


class Alone(api.Matching):
    needs = frozenset({api.WHOLE_NODES, api.COMPANY})

    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        return offer if gate.admit(offer) else None


class Neighbours(api.Pairing):
    """The rows of two neighbouring slots, whatever their jobs are like."""

    needs = frozenset({api.ROWS})
    provides = frozenset({api.PAIRS})

    def fits(self, one_ppm: int, other_ppm: int) -> bool:
        return True

    def partners(self, rows: Sequence[api.RowLoad], of: Collection[int]) -> Mapping[int, int]:
        return {row.slot: row.slot ^ 1 for row in rows}


class NoLimit(api.Fairness):
    needs = frozenset({"patience"})

    def limit(self, matching: api.Matching) -> api.Matching:
        return matching


class OneClass(api.Slices):
    def divide(self, make: Callable[[], api.ClassPolicy]) -> api.Policy:
        return make()


class Little(api.Budget):
    def __init__(self, *, units: int) -> None:
        self.allowed = units

    def units(self, view: api.View) -> int:
        return self.allowed


class Kind(api.Believer):
    def pairs(self, view: api.View) -> api.PairModel | None:
        return view.given_pairs


class Generous(api.Ledger):
    """Hosts may always be asked for as long as they have waited."""

    def spare_us(self, running: api.Running, view: api.View) -> int:
        return running.start_us - running.job.submit_us


class Forgetful(api.Order):
    """An order without `arrange`."""


class NoPart:
    def arrange(self, jobs: list[api.JobSpec], view: api.View) -> list[api.JobSpec]:
        return jobs


QUICK = {"preset": "easy", "order": "own_parts:LongestFirst"}
QUICKER = {"preset": "quick", "placement": "packed"}
ROUND = {"preset": "round"}
NO_TABLE = ["easy"]
CLASSES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "order": ("LongestFirst", {"least_s": 0.0}),
    "backfill": ("OneByOne", {}),
    "shape": ("Whole", {}),
    "placement": ("HighestFirst", {}),
    "matching": ("Alone", {}),
    "pairing": ("Neighbours", {}),
    "fairness": ("NoLimit", {}),
    "slices": ("OneClass", {}),
    "budget": ("Little", {"units": 7}),
    "belief": ("Kind", {}),
    "ledger": ("Generous", {}),
}


@pytest.fixture(autouse=True)
def own_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this module importable by a name, and install its parts and presets."""
    monkeypatch.setitem(sys.modules, "own_parts", sys.modules[__name__])
    groups = {f"cosched.{kind}": {kind + "-of-ours": name} for kind, (name, _) in CLASSES.items()}
    groups["cosched.presets"] = {"quick": "QUICK", "quicker": "QUICKER", "round": "ROUND", "wrong": "NO_TABLE"}

    def installed(**selection: str) -> object:
        group = selection.get("group", "")
        if group not in groups:
            return entry_points(**selection)
        return [EntryPoint(name, f"own_parts:{attribute}", group) for name, attribute in groups[group].items()]

    monkeypatch.setattr("importlib.metadata.entry_points", installed)


def table_with(kind: str, name: str) -> dict[str, Any]:
    """Return a composition with this part that resolves."""
    table: dict[str, Any] = {kind: {"name": name, **({"units": 7} if kind == "budget" else {})}}
    if kind == "matching":
        table["shape"] = "nodes"
    if kind == "pairing":
        table["backfill"] = "gang"
    return table


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind != "fairness"])
@pytest.mark.parametrize("by", ["module:Class", "entry point"])
def test_every_kind_of_part_can_be_added(kind: str, by: str) -> None:
    name, settings = CLASSES[kind]
    name = f"own_parts:{name}" if by == "module:Class" else f"{kind}-of-ours"
    resolved = resolve(table_with(kind, name))
    assert resolved[kind] == {"name": name, **settings}
    assert resolve(resolved) == resolved
    assert check_policy(lambda: compose(resolved), runs=1).decisions > 10


def test_names_of_any_length_stay_apart_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALIASES, "a-name-of-forty-characters-and-some-more", "easy")
    lines = [*catalogue_lines(catalogue())]
    assert "  a-name-of-forty-characters-and-some-more  easy" in lines


def test_external_parts_can_be_chosen_on_the_command_line() -> None:
    choice = choose("sjbf", ["order=own_parts:LongestFirst", "order.least_s=60", "placement=placement-of-ours"])
    assert choice.settings["order"] == {"name": "own_parts:LongestFirst", "least_s": 60}
    assert choice.settings["placement"] == {"name": "placement-of-ours"}
    assert choice.settings["backfill"] == {"name": "sjbf"}
    policy, *settings = choice.arguments()[1:]
    assert choose(policy, settings[1::2]).settings == choice.settings


def test_presets_may_be_installed_and_extend_other_presets() -> None:
    quicker = choose("quicker", ["backfill=sjbf"])
    assert quicker.name == "quicker"
    names = {kind: part["name"] for kind, part in quicker.settings.items()}
    assert (names["order"], names["placement"], names["backfill"]) == ("own_parts:LongestFirst", "packed", "sjbf")
    assert resolve({"preset": "quicker", "placement": {"extend_limit": True}})["placement"]["extend_limit"] is True
    with pytest.raises(UsageError, match=r"policy\.preset: round -> round: a preset cannot be built on itself"):
        choose("round")
    with pytest.raises(UsageError, match=r"policy\.preset: wrong \(own_parts:NO_TABLE\): expected a table"):
        choose("wrong")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"order": "own_parts:Longest"}, "policy.order: own_parts:Longest: module 'own_parts' ("),
        ({"order": "no_such_parts:X"}, "policy.order: no_such_parts:X: no module 'no_such_parts' on Python's path"),
        ({"order": "own_parts:"}, "policy.order: own_parts:: expected MODULE:CLASS, such as "),
        ({"order": "own_parts:CLASSES"}, "policy.order: own_parts:CLASSES: expected a class, got "),
        ({"order": "own_parts:NoPart"}, "expected a part derived from cosched_plugin.api.Order, got NoPart"),
        ({"order": "own_parts:Alone"}, "expected a part derived from cosched_plugin.api.Order, got Alone"),
        ({"order": "own_parts:Forgetful"}, "policy.order: own_parts:Forgetful: TypeError: Can't instantiate"),
        (
            {"order": {"name": "own_parts:LongestFirst", "least_s": -1}},
            "policy.order: own_parts:LongestFirst: ValueError: least_s: expected seconds, 0 or more",
        ),
        (
            {"order": {"name": "own_parts:LongestFirst", "lest_s": 1}},
            "policy.order.lest_s: order own_parts:LongestFirst has no such parameter; did you mean 'least_s'?",
        ),
        ({"budget": "own_parts:Little"}, "policy.budget: own_parts:Little: TypeError: "),
        ({"placement": "placement-of-us"}, "no placement 'placement-of-us'; did you mean 'placement-of-ours'?"),
        ({"matching": "own_parts:Alone"}, "policy: matching own_parts:Alone needs whole nodes ("),
        (
            {"fairness": "own_parts:NoLimit"},
            "policy: fairness own_parts:NoLimit needs patience, which no part here provides; no known part would",
        ),
        (
            {"shape": "nodes", "backfill": "own_parts:OneByOne", "matching": "always"},
            "policy: matching always needs company (",
        ),
    ],
)
def test_invalid_parts_get_one_clear_message(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(table)
    assert message in str(caught.value)


def test_needs_of_external_parts_are_taken_from_the_class() -> None:
    found = {member.kind: member for member in members(resolve({"shape": "own_parts:Whole", "matching": "always"}))}
    assert found["shape"].provides == frozenset({api.WHOLE_NODES})
    assert found["matching"].needs == frozenset({api.WHOLE_NODES, api.COMPANY})


def test_only_names_that_mean_what_is_installed_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(group: str) -> list[EntryPoint]:
        names = ("easy", "g-lomarc-ts", "quick", "fcfs", "lomarc")
        taken = names[:2] if group == "cosched.presets" else names
        return [EntryPoint(name, f"own_parts:Of{number}", group) for number, name in enumerate(("quick", *taken))]

    monkeypatch.setattr("importlib.metadata.entry_points", installed)
    found = catalogue()
    assert [each["name"] for each in found["installed"]] == ["lomarc"]
    assert [each["name"] for each in found["installed_presets"]] == ["quick"]
    assert [each["name"] for each in found["installed_parts"]["order"]] == ["quick", "easy", "g-lomarc-ts", "lomarc"]
    assert [each["class"] for each in found["contention"] if each["name"] == "lomarc"] == [None]


def test_installed_parts_are_listed() -> None:
    found = catalogue()
    assert {kind: [each["name"] for each in parts] for kind, parts in found["installed_parts"].items()} == {
        kind: [f"{kind}-of-ours"] for kind in PROTOCOLS
    }
    assert [each["name"] for each in found["installed_presets"]] == ["quick", "quicker", "round", "wrong"]
    assert "  order-of-ours  own_parts:LongestFirst" in list(catalogue_lines(found))
