"""Walks over the keys of a scenario: what they are by their declarations, other values for each, and what came of a run."""

from __future__ import annotations

import hashlib
import json
import re
import types
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from cosched_emulator import offered, simulate
from cosched_emulator.bounds import Choice, marked, types_of
from cosched_emulator.errors import EmulatorError
from cosched_emulator.scenario.reader import scenario_of_table
from cosched_emulator.scenario.schema import Scenario
from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.models.by_name import OF_PAIRS
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
network_mbs = 100
disk_mbs = 100
integer_slots_ppm = 1000000
floating_slots_ppm = 1000000
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
    choices = {name: marks for name, _, marks in marked(kind, Choice)}
    for name, declared in types_of(kind).items():
        hint = declared
        if typing.get_origin(declared) in (types.UnionType, typing.Union):
            hint = next(option for option in typing.get_args(declared) if option is not types.NoneType)
        inner = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None
        if is_dataclass(hint) and isinstance(hint, type):
            yield from keys_of(hint, (*path, name))
        elif is_dataclass(inner) and isinstance(inner, type):
            yield from keys_of(inner, (*path, f"{name}[]"))
        else:
            yield Key((*path, name), hint, tuple(chain.from_iterable(each.names for each in choices[name])))


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
    few = [LOG.format(n, n, 3 + n * 7 % 9, *[1 + n % 4] * 2, 100, 3000, 1 + n % 4, 1, 1, 0, 0) for n in range(1, 7)]
    (folder / "few.swf").write_text("; MaxProcs: 4\n" + "".join(few))  # which take turns for a few quanta
    (folder / "log.swf").write_text("; MaxProcs: 16\n" + "".join(rows))
    for file, rise in (("pairs.csv", 0.1), ("other.csv", 0.2)):
        ratios = [
            f"{one},{other},{0.7 + rise * i + (0.05 + 0.02 * i) * j:.3f},{4 * (1 + i % 2)},{100 + 50 * i}\n"
            for i, one in enumerate("abcd")
            for j, other in enumerate("abcd")
        ]
        (folder / file).write_text("row,column,ratio,procs,compact_s\n" + "".join(ratios))
    SHEETS["workload.profiles"].write(str(folder / "profiles.csv"), {})
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
    "truth.contention": [*OF_PAIRS],
    "belief.contention": [*OF_PAIRS, "none"],
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
    "time_sharing.coscheduling": [*offered.COSCHEDULING],
    "time_sharing.coscheduling_parameters": [{"spin_us": 7}, {"interval_us": 700}, {"boost": "none"}],
    "manager.lags": ["lags.csv"],
    "script[]": [{"at_s": 30, "do": "fail-node", "node": 0}],
    "script[].nodes": ["0-1", "2"],
    "script[].until_s": [60.0],
    "partitions[]": [{"name": "small", "nodes": "0-2", "default": True, "max_nodes": 2, "max_time_s": 3000.0}],
    "partitions[].name": [""],
    "partitions[].nodes": ["0", "1-2"],
    "partitions[].max_nodes": [1],
    "partitions[].max_time_s": [1.0],
    "accounts[]": [{"name": "optics", "parent": "physics"}],
    "limits[]": [{"each": "user", "jobs": 1}],
    "limits[].user": ["1", "nobody"],
    "limits[].cpus": [3],
    "limits[].nodes": [1],
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
    """Run a scenario; what its folder has of the run is in the digest, not what else is told of jobs and counts for nobody."""
    told: list[str] = []
    try:
        run = simulate(table, policy, seed=7, warn=told.append)
    except (EmulatorError, PluginError, HardwareModelError) as error:
        return Outcome(REFUSED, frozenset({str(error)}))
    figures = (run.metrics(), run.summary.get("energy"))
    content = hashlib.sha256(json.dumps(figures, sort_keys=True, default=str).encode())
    for job, *came in run.records:
        spec = job.spec
        asked = (spec.id, spec.name, spec.user, spec.submit_us, spec.processes, spec.threads_per_process)
        content.update(repr((asked, job.run_us, job.source_id, came)).encode())
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


class Sheet(NamedTuple):
    """A file that a scenario names, in tables or rows: what it has, and for each of its keys other values in its last row, in turn."""

    rows: list[Table]
    others: dict[str, tuple[Table, ...]]

    def write(self, file: str, cells: Table) -> None:
        """Write the file with these cells in its last row."""
        rows = [*self.rows[:-1], {name: value for name, value in {**self.rows[-1], **cells}.items() if value != ""}]
        if file.endswith(".toml"):
            lines = [f"{name} = {_toml(value)}" for row in rows for name, value in [("[[nodes]]", None), *row.items()]]
            Path(file).write_text("\n".join(lines).replace("[[nodes]] = null", "[[nodes]]") + "\n")
        else:
            columns = list(dict.fromkeys(name for row in rows for name in row))
            text = [columns, *[[str(row.get(name, "")) for name in columns] for row in rows]]
            Path(file).write_text("".join(",".join(cells) + "\n" for cells in text))


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[{ " + ", ".join(f"{name} = {each}" for name, each in value[0].items()) + " }]"
    return json.dumps(value)


_CACHE = {"level": 2, "size_kb": 512, "cores": 1, "miss_ns": 10}
_WATTS = {"idle_w": 50.0, "busy_w": 20.0, "spin_w": 10.0}
_JOB = {"job": 1}
_SELVES = {"self_node": "1.1", "self_core": "1.1"}
_USE = {"cpu": ".5", "network": ".3", "disk": ".2", "memory": ".1"}
_FULL = {
    "cpu_ppm": 900_000, "integer_ppm": 700_000, "floating_ppm": 600_000, "stretch_ns": 50, "working_set_kb": 400,
    "accesses_ms": 50_000, "exposed_ppm": 800_000, "memory_mbs": 1000, "network_ppm": 500_000, "network_mbs": 60,
    "message_ns": 50, "disk_ppm": 400_000, "disk_mbs": 60, "request_ns": 50, "memory_mb": 200,
}  # fmt: skip
_PAIR = {"row": "a", "column": "a", "ratio": ".8", "procs": 4, "compact_s": 100}
_NODE = {"count": 6, "sockets": 1, "cores_per_socket": 2, "threads_per_core": 2, "memory_mb": 100_000}
SHEETS: dict[str, Sheet] = {
    "cluster.file": Sheet(
        [{**_NODE, "count": 2}, _NODE],
        {
            "name": ({"name": "x"},),
            "preset": ({"preset": "1x4x4", **dict.fromkeys(("sockets", "cores_per_socket", "threads_per_core"), "")},),
            **{name: ({name: value},) for name, value in {"count": 5, "sockets": 2, "cores_per_socket": 4}.items()},
            "threads_per_core": ({"threads_per_core": 3},),
            "memory_mb": ({"memory_mb": 1},),
            **{f"{name}_mbs": ({f"{name}_mbs": 90},) for name in ("memory_bandwidth", "network", "disk")},
            "swap_mb": ({"swap_mb": 100},),
            "resources": ({"resources": "gpu:2"},),
            "same_nodes": ({"same_nodes": True},),
            **{f"{kind}_slots_ppm": ({f"{kind}_slots_ppm": 900_000},) for kind in ("integer", "floating")},
            **{name: (_WATTS, {**_WATTS, name: 70.0}) for name in _WATTS},
            **{
                f"caches.{name}": ({"caches": [_CACHE]}, {"caches": [{**_CACHE, name: value}]})
                for name, value in {"level": 3, "size_kb": 64, "cores": 2, "miss_ns": 900, "accesses_ms": 100}.items()
            },
        },
    ),
    "workload.annotations": Sheet(
        [{"job": n, **_USE} for n in (5, 4, 2, 3)],
        {
            "job": ({"job": 6},),
            "application": ({"application": "none"},),
            "user": ({"user": "none"},),
            "bound": ({"bound": "disk"},),
            "cpu": ({"cpu": ".8", "network": ""},),
            "network": ({"network": ".5", "disk": ""},),
            "disk": ({"disk": ".5", "cpu": ""},),
            "memory": ({"memory": ".95"},),
            **{name: (_SELVES, {**_SELVES, name: "1.9"}) for name in _SELVES},
            "name": ({"name": "d"},),
            "ppn": ({"ppn": 1}, {"ppn": 2}),
            "priority": ({"priority": 7},),
            "eligible": ({"eligible": "9-12"},),
            "ran_on": ({"ran_on": "9-12"},),
            "memory_mb": ({"memory_mb": 1_000_000},),
            "partition": ({"partition": "none"},),
            "qos": ({"qos": "high"},),
            "account": ({"account": "physics"},),
            "after": ({"after": "afternotok:2"},),
            "begin_s": ({"begin_s": 9000},),
            "cancel_s": ({"cancel_s": 0},),
            "array": ({"array": 3}, {"array": 3, "at_once": 1}),
            "at_once": ({"array": 3}, {"array": 3, "at_once": 1}),
            **{name: ({name: "gpu:2"},) for name in ("resources", "licences")},
            **{name: ({name: "yes"},) for name in ("exclusive", "unpaired")},
        },
    ),
    "workload.profiles": Sheet(
        [{"application": n, **_FULL, "stretch_ns": 90, "message_ns": 90, "request_ns": 90} for n in (2, 3)]
        + [{"application": 1, **_FULL}],
        {
            "job": ({"job": 6},),
            "application": ({"application": 9},),
            "user": ({"user": "none"},),
            **{name: ({name: value // 10},) for name, value in _FULL.items()},
            "memory_mb": ({"memory_mb": 1000},),
        },
    ),
    "manager.lags": Sheet(
        [{"job": 2, "start_s": 70}, {**_JOB, "start_s": 90}],
        {
            "job": ({"job": 6},),
            "application": ({"application": "none"},),
            "user": ({"user": "none"},),
            **{f"{name}_s": ({f"{name}_s": 40},) for name in ("submitted", "start", "ended", "extra")},
        },
    ),
    "workload.programs": Sheet(
        [{"job": 2, "program": "uniform"}, {**_JOB, "program": "fine"}],
        {
            "job": ({"program": "io"}, {"program": "io", "job": 6}),
            "program": ({"program": "io"},),
            "cpu_share": ({"cpu_share": ".2"},),
            "null_statements": ({"program": "compute"}, {"program": "compute", "null_statements": 3}),
            "files": ({"program": "io"}, {"program": "io", "files": 3}),
            "iterations": ({"program": "io"}, {"program": "io", "iterations": 3}),
            "jitter": ({"jitter": ".9"},),
            "grain": ({"grain": "2"},),
            "unpaired": ({"program": "io"}, {"program": "io", "unpaired": "yes"}),
        },
    ),
    "workload.applications": Sheet(
        [{**_PAIR, "row": one} for one in "cba"],
        {"procs": ({"procs": 8},), "compact_s": ({"compact_s": 300},), "ratio": ({"ratio": "3"},)},
    ),
    "truth.pairs": Sheet(
        [{**_PAIR, "row": one, "column": other} for one in "cba" for other in "cba"],
        {
            "row": ({"row": "d"},),
            "column": ({"column": "d"},),
            "ratio": ({"ratio": ".72"},),
            "procs": ({"procs": ""},),
            "compact_s": ({"compact_s": ""},),
            "spread": ({"spread": ".9"},),
        },
    ),
}  # fmt: skip


KEYS_OF_ROWS = ("job", "application", "user")  # which say nothing else
ALIKE = ("co-execution", "glts")  # want nodes that are all alike


def silent_in_sheets(table: Table, policy: Any) -> list[str]:
    """Return the keys of side files of which no change can be seen; not those of a file that is itself refused or named."""
    found = []
    for name in SHEETS:
        sheet = _sheet_for(name, table, policy)
        file = "sheet.toml" if name == "cluster.file" else "sheet.csv"
        held = with_value({**table, "cluster": {}} if name == "cluster.file" else table, tuple(name.split(".")), file)
        for column, values in sheet.others.items():
            came = []
            for cells in ({}, *values)[-2:]:
                sheet.write(file, cells)
                came.append(outcome(held, policy))
            before, after = came
            if before.digest != REFUSED and not after.shows(before, "\0") and not _named(after, name, column, file):
                found.append(f"{name}: {column}")
    return found


def _sheet_for(name: str, table: Table, policy: Any) -> Sheet:
    """Return the file for a scenario: nodes are as these processes and this policy want them."""
    sheet = SHEETS[name]
    if name != "cluster.file":
        return sheet
    one_core = {"count": 8, "cores_per_socket": 1} if "time_sharing" in table else {}
    return Sheet([{**row, **one_core} for row in sheet.rows[policy in ALIKE :]], sheet.others)


def _named(came: Outcome, name: str, column: str, file: str) -> bool:
    """Tell whether a warning names the column, or says that the whole file has no effect, or names no job."""
    for text in came.said:
        words = re.findall(r"\w+", text)
        if name in text and (
            column in KEYS_OF_ROWS or column.split(".", maxsplit=1)[0] in words or "has no effect without" in text
        ):
            return True
        if file in text and "none of the" in text:
            return True
    return False


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
            "cluster": {"nodes": 4},
            "workload": {"swf": "few.swf", "programs": "uniform"},
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
