"""Where counting decides, one loop writes the files that manager and scheduler would have written; all else is not its business."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosched_emulator.api.simulate import prepare, simulate
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.run.counted import rule_of
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.workload.jobs_in_columns import Jobs, Numbers, intern_values
from cosched_plugin.config import choose

POLICIES = ("fcfs", "easy", "sjbf")
ORDERS = ("fcfs", "shortest")
PLAIN = {"workload": {"lublin": 20}, "cluster": {"nodes": 16}}


def _random(seed: int, most_cores: int = 1) -> Prepared:
    """Return jobs that come at once or late, take no time, are killed, are as long as each other, or too wide."""
    draw = random.Random(seed)
    number, jobs = draw.choice((3, 8, 70)), draw.randint(1, 120)
    cores = 1 if most_cores == 1 else draw.randint(2, most_cores)
    nodes = number * cores
    unit = draw.choice((1, 1_000_000))
    spread = draw.choice((0, jobs, 8 * jobs))
    submits = sorted(draw.randint(0, spread) * unit for _ in range(jobs))
    runs = [draw.choice((0, 1, draw.randint(1, 30))) * unit for _ in range(jobs)]
    estimates = [max(1, draw.choice((run, 5 * unit, run // 2, run * 3))) for run in runs]
    limits = [draw.choice((None, estimate, max(1, run - 1))) for run, estimate in zip(runs, estimates, strict=True)]
    widths = [draw.choice((1, 2, draw.randint(1, nodes), draw.randint(1, nodes + 2))) for _ in range(jobs)]

    def column(values: list[int]) -> Numbers:
        return Numbers(np.array(values, dtype=np.int64))

    ids = column(list(range(1, jobs + 1)))
    columns = Jobs(
        id=ids,
        submit_us=column([at_us - submits[0] for at_us in submits]),
        processes=column(widths),
        estimate_us=column(estimates),
        limit_us=intern_values(limits),
        run_us=column(runs),
        source_id=ids,
        user=intern_values([draw.choice(("", "7", "a b")) for _ in range(jobs)]),
    )
    plain = prepare({**PLAIN, "cluster": {"nodes": number, "cores": cores}})
    return replace(plain, workload=plain.workload._replace(jobs=columns))


@pytest.mark.by_default(113)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("cores", "shape"), [((1,), "threads"), ((8,), "threads"), ((1, 8, 24), "nodes")])
@pytest.mark.parametrize("seed", range(40))
def test_one_loop_writes_what_two_ends_write(
    tmp_path: Path, policy: str, order: str, cores: tuple[int, ...], shape: str, seed: int
) -> None:
    _same_files(tmp_path, _random(seed, most_cores=cores[seed % len(cores)]), policy, order, shape)


def test_it_does_so_on_nodes_of_several_kinds(tmp_path: Path) -> None:
    nodes = "".join(
        [f"[[nodes]]\ncount = {count}\npreset = '{shape}'\n" for count, shape in ((3, "single"), (2, "1x2x2"))]
    )
    (tmp_path / "machine.toml").write_text(nodes)
    prepared = prepare({"workload": {"lublin": 60, "load": 1.2}, "cluster": {"file": str(tmp_path / "machine.toml")}})
    _same_files(tmp_path, prepared, "easy", "fcfs")


@pytest.mark.parametrize("preset", ["1x1x2", "1x2x2", "2x8x2"])
def test_it_does_so_on_whole_nodes_with_second_threads(tmp_path: Path, preset: str) -> None:
    cluster = {"nodes": 12, "preset": preset}
    prepared = prepare({"workload": {"lublin": 80, "load": 1.1}, "cluster": cluster})
    _same_files(tmp_path, prepared, "easy", "fcfs", "nodes")


def _same_files(tmp_path: Path, prepared: Prepared, policy: str, order: str, shape: str = "threads") -> None:
    settings = {"order": order, "shape": shape}
    assert rule_of(choose(policy, settings), prepared) is not None
    told: dict[str, list[tuple[int, int]]] = {"one": [], "two": []}
    batches = []
    for name, link in (("one", "direct"), ("two", DirectLink)):
        run = simulate(
            prepared,
            policy,
            settings=settings,
            link=link,
            out=tmp_path / name,
            progress=lambda *at, to=told[name]: to.append(at),
        )
        batches.append(run.batches)
    files = sorted(file.name for file in (tmp_path / "two").iterdir())
    assert sorted(file.name for file in (tmp_path / "one").iterdir()) == files
    for file in files:
        if file != "timing.json":
            assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file
    assert batches[0] == batches[1]
    assert told["one"] == told["two"]


def test_records_are_the_same() -> None:
    prepared = _random(3)
    one, two = simulate(prepared, "easy"), simulate(prepared, "easy", link=DirectLink)
    assert one.records == two.records
    assert json.dumps(one.summary) == json.dumps(two.summary)


@pytest.mark.parametrize(
    ("changes", "policy", "settings"),
    [
        ({}, "conservative", ()),
        ({}, "easy", {"backfill.depth": 5}),
        ({}, "easy", {"placement.extend_limit": True}),
        ({}, "easy", {"order": "widest"}),
        ({}, "easy", {"budget": "counted"}),
        ({"cluster": {"nodes": 16, "cores": 16}}, "easy", ()),
        ({"script": [{"at_s": 1.0, "do": "cancel", "job": 1}]}, "easy", ()),
        ({"clock": {"deadline_s": 5.0}}, "easy", ()),
        ({"monitoring": {"after_s": 10.0}}, "easy", ()),
        ({"workload": {"lublin": 20, "mix": "high"}}, "easy", ()),
    ],
)
def test_all_else_takes_the_ordinary_path(changes: dict[str, Any], policy: str, settings: Any) -> None:
    prepared = prepare({**PLAIN, **changes})
    assert rule_of(choose(policy, settings), prepared) is None
