"""Watts of nodes, and the formula against the measured energies of the coscheduling paper."""

from __future__ import annotations

from typing import Any

import pytest

from cosched_hwmodel.energy import NodePower, formula_j
from cosched_hwmodel.errors import TopologyError
from cosched_hwmodel.topology import from_table, load_preset, preset_names

# One 1.76 GHz processor, measured at the plug. The text has 18.839 W as well; 18.968 stands with the formula.
PAPER_NODE = NodePower(219.10, 18.968, 18.968)
# Busy and idle energy in MJ, utilisation in percent, total running time in seconds.
TABLE_3 = {
    "NLS, not packed": (9.40, 86.63, 96, 24710),
    "PB, not packed": (9.25, 86.52, 96, 24679),
    "DCS, not packed": (8.63, 81.90, 96, 23361),
    "CC/SB, not packed": (4.24, 65.56, 94, 18700),
    "HYBRID, not packed": (4.98, 62.88, 94, 17938),
    "NLS": (8.60, 81.32, 91, 23198),
    "PB": (8.20, 79.42, 92, 22655),
    "DCS": (7.66, 74.69, 92, 21305),
    "CC/SB": (4.56, 58.02, 91, 16549),
    "HYBRID": (4.82, 56.38, 91, 16083),
    "GANG": (2.99, 61.42, 95, 17520),
    "BATCH": (4.35, 94.55, 63, 26971),
}
TABLE_4 = {
    "NLS": (9.20, 91.68, 97, 26151),
    "PB": (7.84, 79.09, 92, 22559),
    "DCS": (6.92, 69.05, 91, 19695),
    "CC/SB": (4.73, 89.55, 87, 25545),
    "HYBRID": (4.16, 59.94, 90, 17098),
    "GANG": (6.19, 61.27, 99, 17477),
    "NLS, aware": (7.59, 74.19, 97, 21164),
    "PB, aware": (7.09, 70.44, 66, 21551),
    "DCS, aware": (7.57, 75.55, 81, 20092),
    "CC/SB, aware": (3.99, 45.59, 79, 13003),
    "HYBRID, aware": (3.84, 43.90, 78, 12522),
    "GANG, aware": (4.24, 50.85, 94, 14505),
    "BATCH": (5.12, 51.62, 99, 14724),
}
EXCHANGED = ("PB, aware", "DCS, aware")  # their idle energies fit each other's run times


def errors(table: dict[str, tuple[float, float, int, int]]) -> dict[str, float]:
    """Return by how many percent the formula is off the measured total, for each row."""
    return {
        name: 100 * (formula_j(PAPER_NODE, percent / 100, 16, time_s) / (1e6 * (busy_mj + idle_mj)) - 1)
        for name, (busy_mj, idle_mj, percent, time_s) in table.items()
    }


def test_the_formula_gives_table_3_within_3_3_percent() -> None:
    found = errors(TABLE_3)
    assert max(found, key=lambda name: abs(found[name])) == "GANG"
    assert found["GANG"] == pytest.approx(3.20, abs=0.01)
    assert found["HYBRID"] == pytest.approx(-0.62, abs=0.01)
    assert max(map(abs, found.values())) < 3.3


def test_the_formula_gives_table_4_within_2_2_percent_but_for_two_rows() -> None:
    found = errors(TABLE_4)
    assert found["PB, aware"] == pytest.approx(3.01, abs=0.01)
    assert found["DCS, aware"] == pytest.approx(-9.32, abs=0.01)
    assert max(abs(error) for name, error in found.items() if name not in EXCHANGED) < 2.2


def test_the_idle_energy_of_both_tables_is_computed() -> None:
    rows = {
        **{f"3 {name}": row for name, row in TABLE_3.items()},
        **{f"4 {name}": row for name, row in TABLE_4.items()},
    }
    off = [
        name
        for name, (_, idle_mj, _, time_s) in rows.items()
        if abs(PAPER_NODE.idle_w * 16e-6 * time_s / idle_mj - 1) > 5e-4
    ]
    assert off == [f"4 {name}" for name in EXCHANGED]


def test_the_formula_counts_the_cores_of_a_node() -> None:
    assert formula_j(NodePower(200.0, 20.0, 25.0), 0.5, 4, 10, cores=8) == (200 + 0.5 * 8 * 20) * 40


def test_watts_in_a_description() -> None:
    table: dict[str, Any] = {"preset": "single", "idle_w": 219.1, "busy_w": 19}
    assert from_table({"nodes": [table]}).classes[0][1].power == NodePower(219.1, 19.0, 19.0)
    assert from_table({"nodes": [{**table, "spin_w": 25}]}).classes[0][1].power == NodePower(219.1, 19.0, 25.0)
    assert [name for name in preset_names() if load_preset(name).power is not None] == []


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([{"idle_w": 1}], r"nodes\[0\].busy_w: is missing, and idle_w is there: energy needs idle_w and busy_w"),
        ([{"spin_w": 1}], r"nodes\[0\].idle_w: is missing, and spin_w is there"),
        ([{"idle_w": -1, "busy_w": 1}], r"nodes\[0\].idle_w: must be a number of watts from 0 to 1000000, not -1"),
        ([{"idle_w": float("nan"), "busy_w": 1}], r"nodes\[0\].idle_w: must be a number of watts"),
        ([{"idle_w": True, "busy_w": 1}], r"nodes\[0\].idle_w: must be a number, not bool True"),
        ([{"idle_w": 1, "busy_w": 1}, {}], r"nodes\[1\].idle_w: is missing: other nodes of this machine have watts"),
        ([{"idel_w": 1}], r'idel_w: is no key here; did you mean "idle_w"'),
    ],
)  # fmt: skip
def test_wrong_watts(nodes: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        from_table({"nodes": [{"preset": "single", **node} for node in nodes]})
