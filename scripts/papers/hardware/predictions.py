"""Predicted beside measured: the NAS pairs that were not measured, and a node that the program has measured itself."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from scripts.papers.figures import interval_text
from scripts.papers.hardware.co_runs import MADE
from scripts.processes import PROJECT
from scripts.tables import NOTHING, number, table_head, table_row

from cosched_emulator.statistics.intervals import mean_interval
from cosched_hwmodel.measured import METHODS, Method
from cosched_hwmodel.measured.calibration import calibrate
from cosched_hwmodel.measured.co_run_table import CoRunTable, read_table

HALVES: Final = 20
NODE: Final = PROJECT / "out" / "reproduce" / "hardware-node" / "node.json"
COMMAND: Final = (
    "cosched-hwmodel measure --json --out out/reproduce/hardware-node/node.toml > out/reproduce/hardware-node/node.json"
)
MOST_ERROR: Final[Mapping[str, float]] = {"bilinear": 0.030, "components": 0.026}  # wanted
WORST_SHOWN: Final = 8


class Half(NamedTuple):
    """How well the pairs of the other half were predicted."""

    error: float  # mean, absolute, in points of the ratio
    covered: float  # share of the pairs inside their 90 % interval
    width: float  # mean


def nas_table(aris: Path, marconi: Path | None) -> list[str]:
    """Return the table of both methods over random halves of the tables of co-runs."""
    rows = []
    files = {"ARIS": aris, **({} if marconi is None else {"Marconi": marconi})}
    for (name, file), method in product(files.items(), METHODS):
        halves = _halves(file, method)
        columns = [[getattr(half, field) for half in halves] for field in Half._fields]
        error, covered, width = (mean_interval(values) for values in columns)
        cells = [
            interval_text(error, _points),
            _points(MOST_ERROR[method]) if name == "ARIS" else NOTHING,
            interval_text(covered, factor=100.0),
            number(100 * min(columns[1])),
            interval_text(width, _points),
        ]
        rows.append(table_row((name, method), cells))
    head = table_head(("", "method"), ("mean error", "wanted, at most", "covered, %", "least, %", "width of intervals"))
    text = (
        f"Half of the pairs of a table are known, with both directions, and the other half is predicted; mean over {HALVES} random"
        " halves. Errors are absolute, in points of the ratio; intervals are for 90 %. Marconi has 8 applications: too few for"
        " intervals that hold what they promise, as the command says of every table of fewer than 16."
    )
    return [text, "", *head, *rows, ""]


def node_table(file: Path = NODE) -> list[str]:
    """Return the pairs of a node that `cosched-hwmodel measure` has measured, beside what the composite model predicts for it."""
    if not file.is_file():
        return [f"No node has been measured: `{COMMAND}`.", ""]
    found = json.loads(file.read_text(encoding="utf-8"))
    pairs: Sequence[Mapping[str, Any]] = found["predicted"]
    rows = []
    for seat in dict.fromkeys(pair["seat"] for pair in pairs):
        here = [pair for pair in pairs if pair["seat"] == seat]
        errors = [pair["predicted"] - pair["measured"] for pair in here]
        cells = [statistics.fmean(errors), statistics.fmean(map(abs, errors)), max(map(abs, errors))]
        rows.append(table_row((seat, str(len(here))), [f"{cells[0]:+.3f}", *map(_points, cells[1:])]))
    worst = sorted(pairs, key=lambda pair: -abs(pair["predicted"] - pair["measured"]))[:WORST_SHOWN]
    node = found["node"]
    shape = f"{node['sockets']} x {node['cores_per_socket']} cores x {node['threads_per_core']} threads"
    return [
        f"`{COMMAND}` on the machine that wrote this page ({shape}; {found['made_by']}; {found['seconds']:.0f} s). Kernels run alone"
        " and in pairs; rates alone give the node and what each kernel demands, the composite model predicts the pairs, and nothing"
        " is fitted to them.",
        "",
        *table_head(("both on one", "pairs"), ("mean error", "mean absolute", "largest")),
        *rows,
        "",
        f"The {len(worst)} pairs that are off most:",
        "",
        *table_head(("both on one", "kernel", "beside", "through"), ("measured", "predicted")),
        *[
            table_row(
                (pair["seat"], pair["row"], pair["column"], pair["resource"] or "nothing"),
                [number(pair["measured"]), number(pair["predicted"])],
            )
            for pair in worst
        ],
        "",
        *[f"- {note}" for note in found["notes"]],
        "",
    ]


def _halves(file: Path, method: Method) -> list[Half]:
    """Return the figures of all halves, kept in a file, as the better method takes a minute."""
    key = hashlib.sha256(file.read_bytes() + method.encode()).hexdigest()[:16]
    kept = MADE / f"halves-{key}.json"
    if not kept.is_file():
        table = read_table(file)
        found = [_half(table, seed, method) for seed in range(1, HALVES + 1)]
        MADE.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found), encoding="utf-8")
    return [Half(*values) for values in json.loads(kept.read_text(encoding="utf-8"))]


def _half(table: CoRunTable, seed: int, method: Method) -> Half:
    pairs = sorted({(min(pair), max(pair)) for pair in table.ratios})
    order = np.random.default_rng(seed).permutation(len(pairs))
    known = {pairs[place] for place in order[: len(pairs) // 2].tolist()}
    ratios = {pair: ratio for pair, ratio in table.ratios.items() if (min(pair), max(pair)) in known}
    calibration = calibrate(replace(table, ratios=ratios), method)
    others = [(calibration.predict(*pair), ratio) for pair, ratio in table.ratios.items() if pair not in ratios]
    return Half(
        statistics.fmean([abs(each.ratio - ratio) for each, ratio in others]),
        statistics.fmean([each.low <= ratio <= each.high for each, ratio in others]),
        statistics.fmean([each.high - each.low for each, _ in others]),
    )


def _points(value: float | None) -> str:
    return number(value) if value is None else f"{value:.4f}"
