"""What the LOMARC paper prints of its results (sections 6.2, table 5). Its figures 6 to 9 have no numbers."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

# Columns of the study.
RESPONSE: Final = "all_response_s_mean"
RBR: Final = "all_relative_response_60s_mean"
EFFICIENCY: Final = "node_efficiency"
MAKESPAN: Final = "makespan_s"
# Tables that stand in a file beside this one, by name.
_TABLES: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
AGAINST_PSS: Final[Mapping[str, Mapping[str, Mapping[str, float]]]] = _TABLES["AGAINST_PSS"]
WEEKS: Final = 10.0  # makespan of W1
# Percent of the first against the second scheduler, under M1. "Almost the same" is 0.
BETWEEN: Final[Mapping[tuple[str, str, str], Mapping[str, float]]] = {
    (RESPONSE, "L-U1", "L-R"): {"W1 M1": 0, "W2 M1": 0, "W3 M1": 0},
    (RBR, "L-R", "L-U1"): {"W1 M1": -19, "W2 M1": -16, "W3 M1": -8},
    (RESPONSE, "L-FM", "L-R"): {"W3 M1": 17},
    (RBR, "L-FM", "L-R"): {"W3 M1": 24},
}
STAGES: Final = ("queue", "medium or long", "size", "memory", "matchable", "slowdown", "selected")
TABLE_5: Final[Mapping[str, Mapping[str, Sequence[int]]]] = _TABLES["TABLE_5"]
