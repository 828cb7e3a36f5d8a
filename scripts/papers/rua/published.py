"""What the RUA paper prints of its results (its tables 1, 3, 5 and 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Cell = tuple[str, str]  # log, mix

# In the order of POLICIES without RUA, which the paper shows in figures only. None: lost or not printed.
PUBLISHED: Final[Mapping[str, Mapping[Cell, tuple[float | None, ...]]]] = {
    "killed": {
        ("CTC", "high"): (428, None, 70, 70, 87, 97),
        ("CTC", "med"): (247, 101, 76, 77, 102, 99),
        ("CTC", "low"): (64, 45, 36, 38, 58, 52),
        ("BLUE", "high"): (None, None, None, 130, 127, 130),
        ("BLUE", "med"): (255, 89, 76, 79, 103, 145),
        ("BLUE", "low"): (51, 34, 22, 27, 33, 41),
    },
    "penalised_p95": {
        ("CTC", "high"): (8.8, 8.01, 7.69, 7.87, 7.91, 8.1),
        ("CTC", "med"): (4.8, 3.81, 3.01, 3.52, 4.06, 3.90),
        ("CTC", "low"): (0.92, 0.78, 0.51, 0.72, 0.62, 0.80),
        ("BLUE", "high"): (11.8, 11.33, 8.31, 10.37, 11.58, 11.64),
        ("BLUE", "med"): (6.7, 6.01, 4.70, 4.85, 5.64, 5.96),
        ("BLUE", "low"): (1.4, 1.03, 0.75, 0.81, 0.94, 1.19),
    },
    "bsld_p95": {
        ("CTC", "high"): (4.2, 5.94, 7.92, 6.12, 5.32, 5.23),
        ("CTC", "med"): (2.8, 3.55, 4.22, 3.82, 3.65, 3.52),
        ("CTC", "low"): (2.2, 3.12, 3.62, 3.82, 3.45, 3.52),
        ("BLUE", "high"): (99.3, 110.21, 128.08, 115.28, 109.51, 106.23),
        ("BLUE", "med"): (55.4, 68.06, 74.32, 72.83, 71.37, 68.52),
        ("BLUE", "low"): (37.8, 45.37, 57.27, 52.86, 42.28, 42.28),
    },
    "wait_p95": {
        ("CTC", "high"): (10286, 12588, 17945, 15612, 14555, 10188),
        ("CTC", "med"): (8962, 9565, 13391, 13123, 9186, 9094),
        ("CTC", "low"): (4898, 5034, 6544, 7198, 5235, 5759),
        ("BLUE", "high"): (55667, 63293, 70964, 69632, 59978, 41779),
        ("BLUE", "med"): (44346, 45164, 58713, 59300, 47440, 45616),
        ("BLUE", "low"): (32730, 35092, 38265, 37499, 33374, 33785),
    },
}
