"""What the LOMARC paper prints of its results (sections 6.2, table 5). Its figures 6 to 9 have no numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Columns of the study.
RESPONSE: Final = "all_response_s_mean"
RBR: Final = "all_relative_response_60s_mean"
EFFICIENCY: Final = "node_efficiency"
MAKESPAN: Final = "makespan_s"
# Percent against PSS, by figure, workload with its mix, and scheduler.
AGAINST_PSS: Final[Mapping[str, Mapping[str, Mapping[str, float]]]] = {
    RESPONSE: {
        "W1 M1": {"L-N": -23, "L-FM": -40, "L-R": -48},
        "W2 M1": {"L-N": -27, "L-FM": -41},
        "W3 M1": {"L-N": -31, "L-FM": -48, "L-R": -56},
        "W1 M2": {"L-N": -34},
    },
    RBR: {
        "W1 M1": {"L-N": -7, "L-FM": -47, "L-R": -50},
        "W2 M1": {"L-N": -17, "L-FM": -42},
        "W3 M1": {"L-N": -40, "L-FM": -52, "L-R": -66},
        "W1 M2": {"L-N": -38},
    },
    EFFICIENCY: {
        "W1 M1": {"L-N": 2, "L-FM": 6, "L-U1": 8.5, "L-U2": 8.5, "L-R": 8.5},
        "W2 M1": {"L-N": 9, "L-FM": 15, "L-U1": 19, "L-U2": 19, "L-R": 19},
        "W3 M1": {"L-N": 18, "L-FM": 31, "L-U1": 38, "L-U2": 38, "L-R": 38},
    },
    MAKESPAN: {"W1 M1": {"L-R": -5}, "W2 M1": {"L-R": -20}, "W3 M1": {"L-R": -33}},
}
WEEKS: Final = 10.0  # makespan of W1
# Percent of the first against the second scheduler, under M1. "Almost the same" is 0.
BETWEEN: Final[Mapping[tuple[str, str, str], Mapping[str, float]]] = {
    (RESPONSE, "L-U1", "L-R"): {"W1 M1": 0, "W2 M1": 0, "W3 M1": 0},
    (RBR, "L-R", "L-U1"): {"W1 M1": -19, "W2 M1": -16, "W3 M1": -8},
    (RESPONSE, "L-FM", "L-R"): {"W3 M1": 17},
    (RBR, "L-FM", "L-R"): {"W3 M1": 24},
}
# Table 5: mean length of the queue, jobs left after each constraint, number of the candidate that was selected.
STAGES: Final = ("queue", "medium or long", "size", "memory", "matchable", "slowdown", "selected")
TABLE_5: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "L-U1": {
        "W1 M1": (36, 24, 10, 8, 6, 5, 3),
        "W2 M1": (81, 45, 21, 12, 10, 8, 4),
        "W3 M1": (213, 86, 40, 20, 16, 14, 6),
    },
    "L-U2": {
        "W1 M1": (40, 25, 11, 8, 6, 5, 3),
        "W2 M1": (77, 49, 25, 16, 12, 11, 5),
        "W3 M1": (233, 85, 39, 21, 16, 14, 7),
    },
    "L-R": {
        "W1 M1": (36, 24, 13, 11, 8, 7, 3),
        "W2 M1": (80, 51, 31, 21, 15, 14, 4),
        "W3 M1": (222, 87, 48, 25, 20, 17, 4),
    },
}
