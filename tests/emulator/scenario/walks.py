"""Walks over the keys of a scenario: what they are by their declarations, other values for each, and what came of a run."""

from __future__ import annotations

import hashlib
import json
import types
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cosched_emulator import simulate
from cosched_emulator.bounds import Choice
from cosched_emulator.errors import EmulatorError
from cosched_emulator.scenario.reader import scenario_of_table
from cosched_emulator.scenario.schema import Scenario
from cosched_hwmodel.errors import HardwareModelError
from cosched_plugin.common.errors import PluginError

Table = dict[str, Any]
Place = tuple[str, ...]
REFUSED = "refused"
LOG = "{} {} -1 {} {} -1 2000 {} {} {} 1 {} {} {} {} {} -1 -1\n"
NODES = """[[nodes]]
count = 6
sockets = 1
cores_per_socket = 2
threads_per_core = 2
memory_mb = 1000
memory_bandwidth_mbs = 3000
integer_slots_ppm = 1000000
caches = [{ level = 2, size_kb = 512, cores = 1, miss_ns = 10 }]
"""


class Outcome(NamedTuple):
    """What came out of a run, and what was said before it."""

    digest: str
    said: frozenset[str]

    def shows(self, before: Outcome, key: str) -> bool:
        """Tell whether a change of a key can be seen: the run differs, or was refused, or something new, or of the key, was said."""
        return self.digest != before.digest or not self.said <= before.said or any(key in text for text in self.said)


class Key(NamedTuple):
    """A key: its place, its type, and the names it may have; an inner key of a list of tables has the list's place before it."""

    path: Place
    hint: Any
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return ".".join(self.path)


def keys_of(kind: type, path: Place = ()) -> Iterator[Key]:
    """Yield all keys of a table and of those in it, lists of tables included."""
    plain, rich = typing.get_type_hints(kind), typing.get_type_hints(kind, include_extras=True)
    for name, declared in plain.items():
        hint = declared
        if typing.get_origin(declared) in (types.UnionType, typing.Union):
            hint = next(option for option in typing.get_args(declared) if option is not types.NoneType)
        inner = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None
        if is_dataclass(hint) and isinstance(hint, type):
            yield from keys_of(hint, (*path, name))
        elif is_dataclass(inner) and isinstance(inner, type):
            yield from keys_of(inner, (*path, f"{name}[]"))
        else:
            yield Key((*path, name), hint, tuple(_names(rich[name])))


def _names(hint: Any) -> Iterator[str]:
    for item in getattr(hint, "__metadata__", ()):
        if isinstance(item, Choice):
            yield from item.names
    for part in typing.get_args(hint):
        yield from _names(part)


KEYS = [key for key in keys_of(Scenario) if key.path[0] not in ("policy", "seed")]


def write_files(folder: Path) -> None:
    """Write the files that `samples` and `bases` name."""
    rows = [
        LOG.format(
            n, n * 40, 100 + n * 37 % 900, 1 + n * 7 % 8, 1 + n * 7 % 8, 1500 + n % 3 * 500, 3000 + n,
            1 + n % 4, 1, 1 + n % 3, n % 2, n % 3,
        )
        for n in range(1, 31)
    ]  # fmt: skip
    (folder / "log.swf").write_text("; MaxProcs: 16\n" + "".join(rows))
    for file, rise in (("pairs.csv", 0.1), ("other.csv", 0.2)):
        ratios = [
            f"{one},{other},{0.7 + rise * i + (0.05 + 0.02 * i) * j:.3f},{4 * (1 + i % 2)},{100 + 50 * i}\n"
            for i, one in enumerate("abcd")
            for j, other in enumerate("abcd")
        ]
        (folder / file).write_text("row,column,ratio,procs,compact_s\n" + "".join(ratios))
    (folder / "profiles.csv").write_text(
        "application,integer_ppm,memory_mbs\n1,800000,800\n2,300000,2000\n3,500000,9\n"
    )
    (folder / "nodes.toml").write_text(NODES)
    (folder / "annotations.csv").write_text("application,cpu,network,disk,memory_mb\n1,.5,.3,.2,100\n2,.2,.6,.2,10\n")
    (folder / "lags.csv").write_text("job,start_s\n1,50\n2,70\n3,100\n")
    (folder / "programs.csv").write_text("job,program\n1,io\n2,compute\n")


# Other values of keys whose types do not say them; a list of tables has a table in which each of its keys counts.
SAMPLES: dict[str, list[Any]] = {
    "cluster.nodes": [9, 20],
    "cluster.cores": [3, 6],
    "cluster.preset": ["2x2x1", "rua-4way"],
    "cluster.file": ["nodes.toml"],
    "truth.contention": ["lomarc", "statistical", "pairs", "composite"],
    "belief.contention": ["lomarc", "statistical", "pairs", "composite", "none"],
    "belief.composition": ["paper"],
    "belief.resources": [["network"]],
    "truth.cos_shares": [[20, 20, 20, 40]],
    "truth.pairs": ["other.csv"],
    "belief.pair_table": ["other.csv"],
    "workload.swf": ["log.swf"],
    "workload.lublin": [23],
    "workload.nas": [2, 4],
    "workload.applications": ["pairs.csv"],
    "workload.application_names": [["a", "b"], ["c"]],
    "workload.application_processes": [[4], [8]],
    "workload.nas_programs": [["CG"], ["MG.A"], ["EP.A.4"]],
    "workload.nas_classes": [["A"], ["B"]],
    "workload.nas_sizes": [[4], [16]],
    "workload.limits": ["estimate"],
    "workload.estimates": ["f-model", "day"],
    "workload.mix": ["high", "low"],
    "workload.demand_high": [[900, 10, 10]],
    "workload.demand_medium": [[3000, 10, 10]],
    "workload.demand_low": [[3000, 10, 10]],
    "workload.characteristics": ["M1", "M3"],
    "workload.annotations": ["annotations.csv"],
    "workload.profiles": ["profiles.csv"],
    "workload.programs": ["uniform", "qcrd", "qcrd-even", "compute", "io", "programs.csv", "nas:CG.A"],
    "time_sharing.windows": ["kept"],
    "time_sharing.coscheduling": ["none", "nls", "sb", "cc", "dcs", "pb", "hybrid"],
    "time_sharing.coscheduling_parameters": [{"spin_us": 7}, {"interval_us": 700}, {"boost": "none"}],
    "manager.lags": ["lags.csv"],
    "script[]": [{"at_s": 30, "do": "fail-node", "node": 0}],
    "faults.at[]": [{"at_s": 30, "do": "fail", "node": 0}],
    "faults.clock[]": [{"at_s": 5, "jump_s": 3}],
    "faults.disk[]": [{"at_s": 5, "for_s": 30}],
}


def others(key: Key, present: Any) -> list[Any]:
    """Return other values of a key."""
    if key.name in SAMPLES:
        return [value for value in SAMPLES[key.name] if value != present]
    if typing.get_origin(key.hint) is tuple and key.names:
        return [[name] for name in key.names if [name] != present]
    if key.names:
        return [name for name in key.names if name != present]
    if key.hint is bool:
        return [not present]
    if key.hint is int:
        return [(present or 0) + 3, 1000]
    if key.hint is float:
        return [(present or 0) * 2 + 0.5, 0.01 if present != 0.01 else 0.02]
    return ["1", "x"] if key.hint is str else [{"x": 1}, ["x"]]


def with_value(table: Table, path: Place, value: object) -> Table:
    """Return a table with another value at a place; of a list of tables, in its one table."""
    inner = made = json.loads(json.dumps(table))
    for place, part in enumerate(path[:-1]):
        name = part.removesuffix("[]")
        if name != part:
            inner = inner.setdefault(name, [dict(SAMPLES[".".join(path[: place + 1])][0])])[0]
        else:
            inner = inner.setdefault(name, {})
    inner[path[-1]] = value
    return dict(made)


def before_of(table: Table, key: Key) -> tuple[Table, Any]:
    """Return the table to which a change of ``key`` is compared, and the key's value in it."""
    listed = next((place for place, part in enumerate(key.path) if part.endswith("[]")), None)
    if listed is not None:
        sample = SAMPLES[".".join(key.path[: listed + 1])][0]
        head = (*key.path[:listed], key.path[listed].removesuffix("[]"))
        return with_value(table, head, [sample]), sample.get(key.path[-1])
    present: Any = scenario_of_table(table, {})
    for name in key.path:
        present = getattr(present, name, None)
    if present is None and key.path[0] == "belief":  # it is that of the truth
        present = table.get("truth", {}).get(key.path[1])
    return table, list(present) if isinstance(present, tuple) else present


def outcome(table: Table, policy: Any = "easy") -> Outcome:
    """Run a scenario; what stands in its folder beside the scenario is in the digest."""
    told: list[str] = []
    try:
        run = simulate(table, policy, seed=7, warn=told.append)
    except (EmulatorError, PluginError, HardwareModelError) as error:
        return Outcome(REFUSED, frozenset({str(error)}))
    content = hashlib.sha256(json.dumps(run.metrics(), sort_keys=True, default=str).encode())
    for record in run.records:
        content.update(repr(record).encode())
    return Outcome(content.hexdigest(), frozenset(told))


def silent(table: Table, policy: Any, keys: list[Key], *, each: bool = False) -> list[str]:
    """Return the keys of which no change can be seen, or not each; not those of a list that is itself refused."""
    known: dict[str, Outcome] = {}
    found = []
    for key in keys:
        before, present = before_of(table, key)
        text = json.dumps(before)
        if text not in known:
            known[text] = outcome(before, policy)
        if known[text].digest == REFUSED:
            continue
        seen = (
            outcome(with_value(before, key.path, value), policy).shows(known[text], key.name)
            for value in others(key, present)
        )
        if not (all(seen) if each else any(seen)) and others(key, present):
            found.append(key.name)
    return found


# Scenarios in which different mechanisms are at work, each with its policy.
BASES: dict[str, tuple[Table, str]] = {
    "model": ({"cluster": {"nodes": 16}, "workload": {"lublin": 20}}, "easy"),
    "log": ({"workload": {"swf": "log.swf"}}, "easy"),
    "pairs": (
        {
            "cluster": {"nodes": 4, "preset": "2x4x1"},
            "truth": {"contention": "pairs", "pairs": "pairs.csv"},
            "workload": {"applications": "pairs.csv", "jobs": 30},
        },
        "co-execution",
    ),
    "bandwidth": (
        {"cluster": {"nodes": 8, "preset": "rua-4way"}, "workload": {"swf": "log.swf", "mix": "med"}},
        "rua",
    ),
    "lomarc": (
        {
            "cluster": {"nodes": 8, "preset": "lomarc-ht"},
            "truth": {"contention": "lomarc"},
            "workload": {"swf": "log.swf", "characteristics": "M1"},
        },
        "lomarc-r",
    ),
    "statistical": (
        {
            "cluster": {"nodes": 8, "preset": "g-lomarc-2x2", "swap_mb": 100_000},
            "truth": {"contention": "statistical"},
            "workload": {"swf": "log.swf", "grow": True, "self_slowdowns": "table4"},
        },
        "glts",
    ),
    "composite": (
        {
            "cluster": {"file": "nodes.toml"},
            "truth": {"contention": "composite"},
            "workload": {"swf": "log.swf", "profiles": "profiles.csv"},
        },
        "symbiosis",
    ),
    "lags": (
        {
            "cluster": {"nodes": 8, "preset": "lomarc-ht"},
            "workload": {"swf": "log.swf"},
            "manager": {
                "submitted_s": 20, "start_s": 10, "ended_s": 10, "extra_s": 5, "elsewhere": 0.2, "refused": 0.1, "lost": 0.1,
                "suspend_every_s": 300,
            },
        },
        "easy",
    ),
    "faults": (
        {
            "cluster": {"nodes": 8, "preset": "rua-4way"},
            "workload": {"swf": "log.swf", "mix": "med"},
            "requeue": True,
            "faults": {
                "nodes": {"mean_up_s": 900, "mean_down_s": 100},
                "slow": {"mean_normal_s": 500, "mean_slow_s": 100, "slowdown": 2.0},
            },
        },
        "easy",
    ),
    "gang": (
        {
            "cluster": {"nodes": 8},
            "workload": {"lublin": 6, "run_factor": 0.02, "gap_factor": 0.01, "programs": "uniform"},
            "time_sharing": {},
        },
        "paired-gang",
    ),
    "messages": (
        {
            "cluster": {"nodes": 4, "preset": "1x1x3"},
            "workload": {"nas": 3, "nas_classes": ["A"], "nas_programs": ["IS", "CG"], "nas_sizes": [4], "gap_s": 0.3},
            "time_sharing": {"nodes": "exact", "coscheduling": "cc", "local": "linux-epochs"},
        },
        "coscheduling",
    ),
}  # fmt: skip
