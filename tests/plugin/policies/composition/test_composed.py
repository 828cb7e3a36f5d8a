"""A policy from a table, a file or a command line: valid settings, and one clear message for each invalid one."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest

from cosched_plugin import config
from cosched_plugin.api import Action, View
from cosched_plugin.common.errors import UsageError
from cosched_plugin.config import choose, from_table, parse_assignments
from cosched_plugin.core.engine import Policy
from cosched_plugin.policies.composition.catalogue import KINDS
from cosched_plugin.policies.composition.composed import Composed, OneSlot, Remembering, Sited, compose
from cosched_plugin.policies.composition.presets import DEFAULTS, PRESETS
from cosched_plugin.policies.composition.resolved import resolve
from cosched_plugin.policies.placement.compact import Nodes, Threads
from cosched_plugin.policies.slices import Sliced

FIRST_FIT = {"name": "first-fit", "extend_limit": False}
LESSCONSUME = {"name": "lessconsume", "extend_limit": True, "limit_factors": [1.0], "may_wait": False}
LCT = {"name": "lessconsume-threshold", "threshold": 1.15, "extend_limit": True, "limit_factors": [1.0]}
RUA = {"name": "rua", "thresholds": [1.15, 1.2, 1.25, 1.5]}
BELIEVED = {"max_slowdown": 1.6, "cpu": "hyperthreaded", "weak_load": 0.2}
MATCH = BELIEVED | {"all_join": True}
UNLAYERED = {"fairness": {"name": "none"}, "slices": {"name": "none"}, "budget": {"name": "none"}}
GROUP = {
    "max_slowdown": 1.25, "min_gain": 0.45, "block": 16, "larger": 0.125, "longer_s": 3000.0, "running": 8, "most": 0,
    "choice": "best", "blocks": "all", "sort": True, "sort_running": True, "absolute": False, "fairness_tries": "all",
    "short_s": 600.0, "space": True, "low_load": "all",
}  # fmt: skip
SLACK = {"name": "slack", "factor": 1.5, "adjust": 0.75, "members": False}
CLASSES = {
    "name": "classes", "interval_s": 3600.0, "short_slice_s": 600.0, "medium_share": 0.3, "short_s": 600.0, "medium_s": 10_800.0,
}  # fmt: skip


def parts(order: str, backfill: str | Mapping[str, Any], placement: Mapping[str, Any]) -> dict[str, Any]:
    named = {"name": backfill} if isinstance(backfill, str) else dict(backfill)
    return {
        "order": {"name": order},
        "backfill": named,
        "shape": {"name": "threads"},
        "placement": dict(placement),
        "matching": {"name": "none"},
        **UNLAYERED,
    }


def lomarc(matching: str, **parameters: Any) -> dict[str, Any]:
    return {
        "order": {"name": "class-priority", "age_s": 0.0},
        "backfill": {"name": "easy"},
        "shape": {"name": "nodes"},
        "placement": FIRST_FIT,
        "matching": {"name": matching, **parameters},
        **UNLAYERED,
    }


def scojo(**search: Any) -> dict[str, Any]:
    """Return conservative backfilling in slices; ``search`` adds groups with these changes to the parameters of GLTS."""
    return {
        "order": {"name": "fcfs"},
        "backfill": {"name": "conservative"},
        "shape": {"name": "nodes"},
        "placement": {"name": "spread", "max_slowdown": 1.25, "max_slowdown_cpus": 1.12},
        "matching": {"name": "group", **(GROUP | search)},
        "fairness": SLACK,
        "slices": CLASSES,
        "budget": {"name": "none"},
    }


# ---------------------------------------------------------------- resolve


@pytest.mark.parametrize(
    ("table", "resolved"),
    [
        ({"order": "shortest"}, parts("shortest", "easy", FIRST_FIT)),
        ({"preset": "lct", "placement": {"threshold": 1}}, parts("fcfs", "sjbf", LCT | {"threshold": 1})),
        ({"preset": "lct", "placement": "packed"}, parts("fcfs", "sjbf", FIRST_FIT | {"name": "packed"})),
        (
            {"placement": {"name": "first-fit", "extend_limit": True}},
            parts("fcfs", "easy", FIRST_FIT | {"extend_limit": True}),
        ),
        (
            {"preset": "rua", "backfill": {"thresholds": (1, 2.5)}},
            parts("fcfs", RUA | {"thresholds": (1, 2.5)}, LESSCONSUME),
        ),
        (
            {"preset": "lomarc-n", "matching": {"weak_load": 0}},
            lomarc("u1", **(MATCH | {"cpu": "standard", "weak_load": 0})),
        ),
        ({"preset": "lomarc-n", "matching": "u2"}, lomarc("u2", **MATCH)),
        ({"preset": "easy", "backfill": "none", "order": {}}, parts("fcfs", "none", FIRST_FIT)),
        ({"preset": "glts-fbo", "matching": {"block": 4}}, scojo(blocks="first", block=4)),
        ({"preset": "cst", "matching": "group"}, scojo(most=1, space=False)),
        ({"preset": "glts", "slices": "none"}, scojo() | {"slices": {"name": "none"}}),
        (
            {"preset": "lomarc-r", "slices": {"name": "classes", "medium_share": 0.5}},
            lomarc("response", **MATCH, future="longer") | {"slices": CLASSES | {"medium_share": 0.5}},
        ),
    ],
)
def test_missing_parts_take_defaults(table: dict[str, Any], resolved: dict[str, Any]) -> None:
    assert resolve(table) == resolved
    assert resolve(resolved) == resolved  # the stored settings of a run give the same policy


def test_easy_is_the_default_and_other_names_are_known() -> None:
    assert resolve({}) == resolve({"preset": "easy"})
    assert resolve({"preset": "g-lomarc-ts"}) == resolve({"preset": "glts"})


def test_every_part_can_be_built() -> None:
    for kind, entries in KINDS.items():
        for name in entries:
            table = {kind: name}
            if name == "rua":
                table["placement"] = "lessconsume"
            elif name in ("by-gain", "neighbours"):
                table["placement"] = "halves"
            elif kind in ("matching", "fairness", "slices", "ledger") or name == "spread":
                table["shape"] = "nodes"
            if name == "group":
                table["placement"] = "spread"
            table |= {"pairing": {"backfill": "gang"}, "ledger": {"matching": "guests"}}.get(kind, {})
            policy = inner(compose(table))
            assert callable(policy.decide)
            match kind, name:
                case "shape", _:
                    assert isinstance(policy._shape, {"threads": Threads, "nodes": Nodes}[name])
                case "fairness", "slack":
                    assert policy._matching._slack.factor == 1.5
                case "slices", "classes":
                    assert isinstance(policy, Sliced)
                case "budget", "counted":
                    assert policy._budget._units == 2000
                case "fairness" | "slices" | "budget" | "belief" | "ledger", _:
                    assert isinstance(policy, Composed)
                case _:
                    entry = entries[name]
                    alike = entry.build(**entry.defaults())
                    assert type(getattr(policy, f"_{kind}")) is type(alike)


def inner(policy: Policy) -> Any:
    """Return the policy in its wrappers."""
    while isinstance(policy, OneSlot | Remembering | Sited):
        policy = policy._policy
    return policy


BAD: list[tuple[dict[str, Any], str]] = [
    ({"presett": "easy"}, "policy.presett: no such key; did you mean 'preset'?"),
    (
        {"colour": "red"},
        "policy.colour: no such key; known: preset, order, backfill, shape, placement, matching, pairing, fairness",
    ),
    ({"preset": "easyy"}, "policy.preset: no policy 'easyy'; did you mean 'easy'?"),
    (
        {"preset": 7},
        f"policy.preset: no policy 7; known: {', '.join(PRESETS)}",
    ),
    ({"order": "shortst"}, "policy.order: no order 'shortst'; did you mean 'shortest'?"),
    (
        {"backfill": "hard"},
        "policy.backfill: no backfill 'hard'; known: none, skip, easy, sjbf, conservative, conservative-starts, rua, by-gain, gang",
    ),
    ({"placement": {"name": "firstfit"}}, "policy.placement: no placement 'firstfit'; did you mean 'first-fit'?"),
    ({"placement": {"name": ["packed"]}}, "policy.placement: no placement ['packed']"),
    ({"placement": 3}, "policy.placement: expected a name or a table, got 3"),
    ({"order": ["fcfs"]}, "policy.order: expected a name or a table, got ['fcfs']"),
    ({"order": {"name": "fcfs", "aging": 3}}, "policy.order.aging: order fcfs has no such parameter"),
    (
        {"preset": "lct", "placement": {"treshold": 1.5}},
        "policy.placement.treshold: placement lessconsume-threshold has no such parameter; did you mean 'threshold'?",
    ),
    (
        {"placement": {"name": "lessconsume", "threshold": 1.5}},
        "policy.placement.threshold: placement lessconsume has no such",
    ),
    ({"preset": "lct", "placement": {"threshold": 0.9}}, "policy.placement.threshold: expected a number >= 1, got 0.9"),
    (
        {"preset": "lct", "placement": {"threshold": True}},
        "policy.placement.threshold: expected a number >= 1, got True",
    ),
    (
        {"preset": "lct", "placement": {"threshold": "1.5"}},
        "policy.placement.threshold: expected a number >= 1, got '1.5'",
    ),
    ({"preset": "lct", "placement": {"threshold": float("inf")}}, "expected a number >= 1, got inf"),
    ({"preset": "lct", "placement": {"threshold": float("nan")}}, "expected a number >= 1, got nan"),
    (
        {"preset": "lc", "placement": {"extend_limit": "yes"}},
        "policy.placement.extend_limit: expected true or false, got 'yes'",
    ),
    (
        {"preset": "lc", "placement": {"extend_limit": 1}},
        "policy.placement.extend_limit: expected true or false, got 1",
    ),
    (
        {"preset": "rua", "backfill": {"thresholds": []}},
        "policy.backfill.thresholds: expected a list of numbers >= 1, got []",
    ),
    (
        {"preset": "rua", "backfill": {"thresholds": 1.5}},
        "policy.backfill.thresholds: expected a list of numbers >= 1, got 1.5",
    ),
    ({"preset": "rua", "backfill": {"thresholds": [1.5, 0]}}, "policy.backfill.thresholds: expected a list"),
    ({"preset": "rua", "placement": "first-fit"}, "policy: backfill rua needs least penalty ("),
    ({"preset": "rua", "placement": "lessconsume-threshold"}, "no part here provides; placement lessconsume would"),
    (
        {"preset": "conservative", "placement": "lessconsume"},
        "policy: backfill conservative needs fixed run times (the expected run time of a job that is alone follows from the "
        "job, not from its neighbours), which no part here provides; placement first-fit or placement ",
    ),
    (
        {"preset": "conservative", "placement": "lessconsume-threshold"},
        "policy: backfill conservative needs fixed run times",
    ),
    (
        {"preset": "conservative", "placement": {"extend_limit": True}},
        "policy: backfill conservative needs fixed run times",
    ),
    ({"preset": "coscheduling", "shape": "nodes"}, "policy: placement contiguous needs threads ("),
    (
        {"preset": "coscheduling", "placement": {"contexts": -1}},
        "policy.placement.contexts: expected a whole number from 0 to 4096, got -1",
    ),
    (
        {"preset": "coscheduling", "placement": {"seed": 1}},
        "policy.placement.seed: placement contiguous has no such parameter",
    ),
    ({"preset": "gang", "shape": "nodes"}, "policy: backfill gang needs threads (a job takes free hardware threads"),
    ({"preset": "gang", "placement": "lessconsume"}, "policy: backfill gang needs fixed run times ("),
    ({"preset": "gang", "slices": "classes"}, "policy: slices classes needs whole nodes ("),
    ({"preset": "gang", "matching": "always"}, "policy: matching always needs company ("),
    ({"preset": "easy", "pairing": "blind"}, "policy: pairing blind needs rows (jobs are put into rows"),
    (
        {"preset": "gang", "backfill": {"sharp_change": "any"}},
        "policy: backfill gang needs pairs (two rows may run together), which no part here provides; pairing predesigned or ",
    ),
    ({"preset": "gang", "backfill": {"alternates_when_unmatched": True}}, "policy: backfill gang needs pairs ("),
    (
        {"preset": "paired-gang", "backfill": {"band": 0}},
        "policy.backfill.alternates: 'band' needs a band: expected policy.backfill.band above 0",
    ),
    ({"preset": "paired-gang", "backfill": {"alternates": "all"}}, "expected max, band, node or off, got 'all'"),
    (
        {"preset": "paired-gang", "pairing": {"margin": -1}},
        "policy.pairing.margin: expected a number from 0 to 100, got -1",
    ),
    ({"preset": "paired-gang", "pairing": "bestfit"}, "policy.pairing: no pairing 'bestfit'; did you mean 'best-fit'?"),
    ({"preset": "gltss"}, "policy.preset: no policy 'gltss'; did you mean 'glts'?"),
    ({"fairness": "slak"}, "policy.fairness: no fairness 'slak'; did you mean 'slack'?"),
    ({"slices": "clases"}, "policy.slices: no slices 'clases'; did you mean 'classes'?"),
    ({"placement": "spread"}, "policy: placement spread needs whole nodes ("),
    ({"shape": "nodes", "matching": "group"}, "policy: matching group needs footprints ("),
    ({"fairness": "slack"}, "policy: fairness slack needs whole nodes ("),
    ({"slices": "classes"}, "policy: slices classes needs whole nodes ("),
    (
        {"shape": "nodes", "backfill": "rua", "placement": "lessconsume", "fairness": "slack"},
        "policy: fairness slack needs company (",
    ),
    ({"preset": "glts", "slices": {"medium_share": 1}}, "policy.slices.medium_share: expected a share from 0.001 to"),
    ({"preset": "glts", "slices": {"interval_s": 0}}, "policy.slices.interval_s: expected seconds, 1 or more, got 0"),
    ({"preset": "glts", "fairness": {"factor": 0}}, "policy.fairness.factor: expected a number from 0.01 to 1000000"),
    ({"preset": "glts", "matching": {"block": 0}}, "policy.matching.block: expected a whole number from 1 to 1000000"),
    ({"preset": "glts", "matching": {"most": 1.0}}, "policy.matching.most: expected a whole number from 0 to 1000000"),
    ({"preset": "glts", "matching": {"most": True}}, "policy.matching.most: expected a whole number from 0 to"),
    ({"preset": "glts", "matching": {"blocks": "some"}}, "policy.matching.blocks: expected all, first or none, got"),
    ({"preset": "glts", "matching": {"choice": "any"}}, "policy.matching.choice: expected best or first, got 'any'"),
    (
        {"preset": "glts", "matching": {"fairness_tries": "two"}},
        "policy.matching.fairness_tries: expected all or one, got 'two'",
    ),
    ({"preset": "glts", "matching": {"sort": 1}}, "policy.matching.sort: expected true or false, got 1"),
]


@pytest.mark.parametrize(("table", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_tables_get_one_clear_message(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(table)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    with pytest.raises(UsageError):
        compose(table)
    with pytest.raises(UsageError):
        from_table(table)


# ---------------------------------------------------------------- assignments


@pytest.mark.parametrize(
    ("assignments", "table"),
    [
        ([], {}),
        (["order=shortest"], {"order": "shortest"}),
        (["placement.threshold=1.25"], {"placement": {"threshold": 1.25}}),
        (["backfill.thresholds=[1, 1.5]"], {"backfill": {"thresholds": [1, 1.5]}}),
        (["placement.extend_limit=true", "a=1"], {"placement": {"extend_limit": True}, "a": 1}),
        (["a = b c "], {"a": "b c"}),
        (["a='1'"], {"a": "1"}),
        (["a=x=y"], {"a": "x=y"}),
        (["a="], {"a": ""}),
        (["placement=packed", "placement.extend_limit=true"], {"placement": {"name": "packed", "extend_limit": True}}),
        (["placement.extend_limit=true", "placement=packed"], {"placement": {"name": "packed", "extend_limit": True}}),
        (["a=1", "a=2"], {"a": 2}),
    ],
)
def test_assignments_change_settings(assignments: list[str], table: dict[str, Any]) -> None:
    assert parse_assignments(assignments) == table


@pytest.mark.parametrize("assignment", ["order", "", "=1", ".a=1", "a.=1", "a..b=1"])
def test_bad_assignments_get_one_clear_message(assignment: str) -> None:
    with pytest.raises(UsageError, match="expected KEY=VALUE"):
        parse_assignments([assignment])


# ---------------------------------------------------------------- choose


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_by_name(preset: str) -> None:
    choice = choose(preset)
    assert (choice.name, choice.settings) == (preset, resolve({"preset": preset}))
    assert choice.make() is not choice.make()
    assert choose(*_as_typed(choice.arguments())).settings == choice.settings


def _as_typed(arguments: list[str]) -> tuple[str, list[str]]:
    assert arguments[0] == "--policy"
    assert arguments[2::2] == ["--set"] * len(arguments[2::2])
    return arguments[1], arguments[3::2]


def test_a_preset_with_changes() -> None:
    assert choose("lct", ["placement.threshold=1.25"]).settings["placement"] == LCT | {"threshold": 1.25}
    assert choose("lct", ["placement=packed"]).settings["placement"] == FIRST_FIT | {"name": "packed"}
    assert choose("easy", ["placement=lessconsume-threshold", "placement.threshold=2"]).settings["placement"] == LCT | {
        "threshold": 2
    }
    with pytest.raises(UsageError, match=r"policy\.plcement: no such key; did you mean 'placement'\?"):
        choose("easy", ["plcement=packed"])


def test_a_policy_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[policy]\npreset = "lct"\norder = "shortest"\n[policy.placement]\nthreshold = 1.5\n')
    choice = choose(str(file))
    assert (choice.name, choice.settings) == ("mine", parts("shortest", "sjbf", LCT | {"threshold": 1.5}))
    changed = choose(str(file), ["placement.extend_limit=false", "order=fcfs"])
    assert changed.settings == parts("fcfs", "sjbf", LCT | {"threshold": 1.5, "extend_limit": False})
    assert choose(str(file), ["placement=packed"]).settings["placement"]["name"] == "packed"
    assert choose(*_as_typed(changed.arguments())).settings == changed.settings
    assert from_table(tomllib.loads(file.read_text())["policy"]).settings == choice.settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file"),
        ("[policy", "not a TOML file"),
        ("order = 'fcfs'", "expected a [policy] table"),
        ("policy = 'easy'", "expected a [policy] table"),
        ("[policy]\nordr = 'fcfs'", "policy.ordr: no such key; did you mean 'order'?"),
    ],
)
def test_bad_files_get_one_clear_message(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "bad.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError) as caught:
        choose(str(file))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("esy", "no policy 'esy'; did you mean 'easy'?"),
        ("zzz", f"no policy 'zzz'; known: {', '.join(PRESETS)}"),
        ("", "no policy ''; known:"),
    ],
)
def test_unknown_names_get_a_suggestion(name: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(name)
    assert message in str(caught.value)


# ---------------------------------------------------------------- third-party policies


class Patient:
    """A third-party policy."""

    def __init__(self, depth: int = 1, *, name: str = "") -> None:
        if depth < 1:
            raise ValueError("depth must be at least 1")
        if depth > 9:
            sys.exit(0)  # which must not end a program as if all were well
        self.depth = depth
        self.name = name

    def decide(self, view: View) -> Iterator[Action]:
        yield from ()


class NotAPolicy:
    pass


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    """Give this module a name under which it can be imported."""
    monkeypatch.setitem(sys.modules, "patient_policies", sys.modules[__name__])
    return "patient_policies"


def test_a_class_is_found_by_its_path(module: str) -> None:
    choice = choose(f"{module}:Patient", ["depth=3", "name=x"])
    policy = choice.make()
    assert isinstance(policy, Patient)
    assert (policy.depth, policy.name) == (3, "x")
    assert policy is not choice.make()
    assert choice.settings == {"depth": 3, "name": "x"}
    again = choose(*_as_typed(choice.arguments()))
    assert (again.name, again.settings) == (choice.name, choice.settings)


@pytest.mark.parametrize(
    ("attribute", "assignments", "message"),
    [
        ("Patientt", [], "has no 'Patientt'; did you mean"),
        ("NotAPolicy", [], "it has no method decide(view)"),
        ("Patient", ["deep=3"], "no such setting 'deep'; did you mean 'depth'?"),
        ("Patient", ["depth=0"], "depth must be at least 1"),
        ("Patient", ["depth=10"], "SystemExit: 0"),
    ],
)
def test_bad_classes_get_one_clear_message(module: str, attribute: str, assignments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(f"{module}:{attribute}", assignments)
    assert message in str(caught.value)
    assert f"{module}:{attribute}" in str(caught.value)


@pytest.mark.parametrize("path", ["no_such_module_here:Policy", ":Policy", "sys:"])
def test_missing_modules_get_one_clear_message(path: str) -> None:
    with pytest.raises(UsageError, match="policy "):
        choose(path)


def test_installed_policies_are_found_by_name(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("patient", f"{module}:Patient", config.ENTRY_POINTS),
        EntryPoint("broken", f"{module}:Missing", config.ENTRY_POINTS),
    ]

    def installed(**selection: str) -> object:
        return points if selection == {"group": config.ENTRY_POINTS} else entry_points(**selection)

    monkeypatch.setattr("importlib.metadata.entry_points", installed)
    choice = choose("patient", ["depth=2"])
    policy = choice.make()
    assert isinstance(policy, Patient)
    assert policy.depth == 2
    assert choose(*_as_typed(choice.arguments())).settings == {"depth": 2}
    with pytest.raises(UsageError, match="policy broken"):
        choose("broken")
    with pytest.raises(UsageError, match="did you mean 'patient'"):
        choose("patiennt")
    points.append(EntryPoint("patient", f"{module}:NotAPolicy", config.ENTRY_POINTS))
    with pytest.raises(
        UsageError, match=r"policy: patient: expected one package that has it installed, got .*NotAPolicy"
    ):
        choose("patient")


def test_defaults_are_existing_parts() -> None:
    assert all(name in KINDS[kind] for kind, name in DEFAULTS.items())
