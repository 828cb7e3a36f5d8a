"""Tables of measured co-runs: how long an application takes beside another one, on half of the cores of twice the nodes.

Scenarios and ``predict`` ask for the slowdown of two applications (`models.measured_pairs`). Open first: `co_run_table`; `bilinear`
and `components` predict pairs that were not measured, `calibration` says how well.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

# Here and not in `calibration`, as help texts offer them without loading numpy.
Method: TypeAlias = Literal["components", "bilinear"]
METHODS: Final[tuple[Method, ...]] = get_args(Method)  # the best first
