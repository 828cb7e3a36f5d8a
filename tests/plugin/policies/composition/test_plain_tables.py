"""The full tables that are known without a look at the parts."""

from __future__ import annotations

from itertools import product

from cosched_plugin.policies.composition.presets import PRESETS, plain_table
from cosched_plugin.policies.composition.resolved import resolve


def test_a_plain_table_is_what_the_parts_would_make_of_it() -> None:
    """Else a run in which counting decides would have another record, and a study another key, than with the parts' own word."""
    tables = [{"preset": name} for name in PRESETS]
    for preset, order, backfill, shape in product(
        ("easy", "fcfs", "rua"), ("fcfs", "shortest", "widest"), ("none", "easy", "sjbf", "skip"), ("threads", "nodes")
    ):
        tables.append({"preset": preset, "order": order, "backfill": backfill, "shape": shape})
    known = {str(table): plain for table in tables if (plain := plain_table(table)) is not None}
    assert len(known) == 2 * 2 * 3 * 2 + sum(plain_table({"preset": name}) is not None for name in PRESETS)
    assert known == {str(table): resolve(table) for table in tables if str(table) in known}
    for name in ("fcfs", "easy", "sjbf", "batch", "easy-shortest"):
        assert plain_table({"preset": name}) is not None
    for other in (
        {},
        {"preset": "none"},
        {"preset": "easy", "depth": 3},
        {"preset": "easy", "order": {"name": "fcfs"}},
    ):
        assert plain_table(other) == (resolve(other) if not other else None)
