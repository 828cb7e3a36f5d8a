"""Predicted beside measured: the NAS pairs that were not measured, and a node that the program has measured itself."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from scripts.papers.figures import interval_text
from scripts.processes import PROJECT
from scripts.tables import NOTHING, number, table_head, table_row

from cosched_emulator.statistics.intervals import mean_interval
from cosched_hwmodel.measured import Method
from cosched_hwmodel.measured.calibration import calibrate
from cosched_hwmodel.measured.co_run_table import CoRunTable

HALVES: Final = 20
NODE: Final = PROJECT / "out" / "reproduce" / "hardware-node" / "node.json"
COMMAND: Final = (
    "cosched-hwmodel measure --json --out out/reproduce/hardware-node/node.toml > out/reproduce/hardware-node/node.json"
)
MOST_ERROR: Final[Mapping[str, float]] = {"bilinear": 0.030, "components": 0.026}  # wanted
WORST_SHOWN: Final = 8

# Of each half: mean error, absolute, in points of the ratio; share of intervals that hold; their width.
Halves = Sequence[Sequence[float]]


def nas_table(tables: Mapping[str, Mapping[Method, Halves]]) -> list[str]:
    """Return the table of both methods over random halves of the tables of co-runs, by machine; empty where there is none."""
    rows = []
    for name, methods in tables.items():
        for method, found in methods.items():
            errors, shares, widths = zip(*found, strict=True)
            cells = [
                interval_text(mean_interval(errors), _points),
                _points(MOST_ERROR[method]) if name == "ARIS" else NOTHING,
                interval_text(mean_interval(shares), factor=100.0),
                number(100 * min(shares)),
                interval_text(mean_interval(widths), _points),
            ]
            rows.append(table_row((name, method), cells))
    head = table_head(("", "method"), ("mean error", "wanted, at most", "covered, %", "least, %", "width of intervals"))
    text = (
        f"Half of the pairs of a table are known, with both directions, and the other half is predicted; mean over {HALVES} random"
        " halves. Errors are absolute, in points of the ratio; intervals are for 90 %. Marconi has 8 applications: too few for"
        " reliable intervals, as the command says of every table of fewer than 16."
    )
    return [text, "", *head, *rows, ""] if rows else []


def halves(table: CoRunTable, method: Method) -> Halves:
    """Return how well each of some random halves of the pairs is predicted from the other one."""
    return [_half(table, seed, method) for seed in range(1, HALVES + 1)]


def _half(table: CoRunTable, seed: int, method: Method) -> Sequence[float]:
    pairs = sorted({(min(pair), max(pair)) for pair in table.ratios})
    order = np.random.default_rng(seed).permutation(len(pairs))
    known = {pairs[place] for place in order[: len(pairs) // 2].tolist()}
    ratios = {pair: ratio for pair, ratio in table.ratios.items() if (min(pair), max(pair)) in known}
    calibration = calibrate(replace(table, ratios=ratios), method)
    others = [(calibration.predict(*pair), ratio) for pair, ratio in table.ratios.items() if pair not in ratios]
    return (
        statistics.fmean([abs(each.ratio - ratio) for each, ratio in others]),
        statistics.fmean([each.low <= ratio <= each.high for each, ratio in others]),
        statistics.fmean([each.high - each.low for each, _ in others]),
    )


def measured_node(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page says of the pairs of a node that the program has measured, and the composite model predicts."""
    pairs: Sequence[Mapping[str, Any]] = measured["predicted"]
    node = measured["node"]
    errors = {}
    for seat in dict.fromkeys(pair["seat"] for pair in pairs):
        found = [pair["predicted"] - pair["measured"] for pair in pairs if pair["seat"] == seat]
        errors[seat] = [len(found), statistics.fmean(found), statistics.fmean(map(abs, found)), max(map(abs, found))]
    fields = ("seat", "row", "column", "resource", "measured", "predicted")
    worst = sorted(pairs, key=lambda pair: -abs(pair["predicted"] - pair["measured"]))[:WORST_SHOWN]
    return {
        "shape": f"{node['sockets']} x {node['cores_per_socket']} cores x {node['threads_per_core']} threads",
        "made_by": measured["made_by"],
        "seconds": measured["seconds"],
        "errors": errors,
        "worst": [[pair[field] for field in fields] for pair in worst],
        "notes": measured["notes"],
    }


def node_table(node: Mapping[str, Any] | None) -> list[str]:
    """Return the errors of the pairs of a measured node."""
    if node is None:
        return [f"No node has been measured: `{COMMAND}`.", ""]
    errors = node["errors"].items()
    return [
        f"`{COMMAND}` on the machine that made the runs ({node['shape']}; {node['made_by']}; {node['seconds']:.0f} s). Kernels run"
        " alone and in pairs; rates alone give the node and what each kernel demands, the composite model predicts the pairs, and"
        " nothing is fitted to them.",
        "",
        *table_head(("both on one", "pairs"), ("mean error", "mean absolute", "largest")),
        *(
            table_row((seat, str(count)), [f"{mean:+.3f}", *map(_points, rest)])
            for seat, (count, mean, *rest) in errors
        ),
        "",
        f"The {len(node['worst'])} pairs with the largest errors:",
        "",
        *table_head(("both on one", "kernel", "beside", "through"), ("measured", "predicted")),
        *(
            table_row((*names, resource or "nothing"), [number(measured), number(predicted)])
            for *names, resource, measured, predicted in node["worst"]
        ),
        "",
        *[f"- {note}" for note in node["notes"]],
        "",
    ]


def _points(value: float | None) -> str:
    return number(value) if value is None else f"{value:.4f}"
