"""What the RUA paper prints of its results (its tables 1 to 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scripts.papers.rua.experiment import POLICIES

# Columns of the study.
KILLED: Final = "killed_count"
PENALISED_P95: Final = "penalised_percent_p95"
PENALISED: Final = "penalised_percent_mean"
SLOWDOWN_P95: Final = "bounded_slowdown_10s_p95"
SLOWDOWN: Final = "bounded_slowdown_10s_mean"
WAIT_P95: Final = "wait_s_p95"
WAIT: Final = "wait_s_mean"

# In the order of POLICIES without RUA, which the paper shows in figures only. None: lost or not printed.
PUBLISHED: Final[Mapping[str, Mapping[str, tuple[float | None, ...]]]] = {
    KILLED: {
        "CTC HIGH": (428, None, 70, 70, 87, 97),
        "CTC MED": (247, 101, 76, 77, 102, 99),
        "CTC LOW": (64, 45, 36, 38, 58, 52),
        "BLUE HIGH": (None, None, None, 130, 127, 130),
        "BLUE MED": (255, 89, 76, 79, 103, 145),
        "BLUE LOW": (51, 34, 22, 27, 33, 41),
    },
    PENALISED_P95: {
        "CTC HIGH": (8.8, 8.01, 7.69, 7.87, 7.91, 8.1),
        "CTC MED": (4.8, 3.81, 3.01, 3.52, 4.06, 3.90),
        "CTC LOW": (0.92, 0.78, 0.51, 0.72, 0.62, 0.80),
        "BLUE HIGH": (11.8, 11.33, 8.31, 10.37, 11.58, 11.64),
        "BLUE MED": (6.7, 6.01, 4.70, 4.85, 5.64, 5.96),
        "BLUE LOW": (1.4, 1.03, 0.75, 0.81, 0.94, 1.19),
    },
    SLOWDOWN_P95: {
        "CTC HIGH": (4.2, 5.94, 7.92, 6.12, 5.32, 5.23),
        "CTC MED": (2.8, 3.55, 4.22, 3.82, 3.65, 3.52),
        "CTC LOW": (2.2, 3.12, 3.62, 3.82, 3.45, 3.52),
        "BLUE HIGH": (99.3, 110.21, 128.08, 115.28, 109.51, 106.23),
        "BLUE MED": (55.4, 68.06, 74.32, 72.83, 71.37, 68.52),
        "BLUE LOW": (37.8, 45.37, 57.27, 52.86, 42.28, 42.28),
    },
    WAIT_P95: {
        "CTC HIGH": (10286, 12588, 17945, 15612, 14555, 10188),
        "CTC MED": (8962, 9565, 13391, 13123, 9186, 9094),
        "CTC LOW": (4898, 5034, 6544, 7198, 5235, 5759),
        "BLUE HIGH": (55667, 63293, 70964, 69632, 59978, 41779),
        "BLUE MED": (44346, 45164, 58713, 59300, 47440, 45616),
        "BLUE LOW": (32730, 35092, 38265, 37499, 33374, 33785),
    },
    PENALISED: {
        "CTC HIGH": (7.8, 6.81, 6.98, 7.17, 7.39, 7.34),
        "CTC MED": (3.8, 2.54, 2.93, 3.02, 3.1, 3.20),
        "CTC LOW": (0.72, 0.7, 0.21, 0.42, 0.33, 0.64),
        "BLUE HIGH": (15.1, 10.32, 7.41, 11.73, 10.85, 12.32),
        "BLUE MED": (10.2, 7.2, 4.70, 4.85, 5.64, 5.96),
        "BLUE LOW": (5.2, 4.53, 2.56, 3.11, 4.58, 4.23),
    },
    SLOWDOWN: {
        "CTC HIGH": (8.2, 10.44, 18.02, 12.38, 11.32, 13.54),
        "CTC MED": (5.3, 6.65, 7.52, 8.05, 6.85, 7.75),
        "CTC LOW": (3.2, 5.62, 5.92, 5.82, 8.84, 8.56),
        "BLUE HIGH": (22.56, 24.41, 27.37, 25.54, 24.26, 23.53),
        "BLUE MED": (11.32, 12.51, 14.76, 14.46, 14.17, 13.6),
        "BLUE LOW": (7.54, 7.8, 9.08, 9.5, 8.47, 8.27),
    },
    WAIT: {
        "CTC HIGH": (20082, 24576, 35035, 30480, 28416, 19890),
        "CTC MED": (13443, 14347, 20086, 19684, 13779, 13641),
        "CTC LOW": (7124, 7322, 9518, 10469, 7614, 8376),
        "BLUE HIGH": (12647, 14379, 16122, 15819, 13626, 9491),
        "BLUE MED": (9061, 9228, 11996, 12116, 9693, 9320),
        "BLUE LOW": (3931, 4214, 4595, 4503, 4008, 4057),
    },
}


def published(key: str, workload: str, policy: str) -> float | None:
    """Return a value of the paper's tables; it shows RUA in figures only."""
    row = PUBLISHED.get(key, {}).get(workload, ())
    return dict(zip(POLICIES, row, strict=False)).get(policy)


def published_ratio(key: str, workload: str, policy: str, base: str = "FF") -> float | None:
    """Return a value of the paper's tables over that of another policy."""
    value, theirs = (published(key, workload, name) for name in (policy, base))
    return None if value is None or not theirs else value / theirs
