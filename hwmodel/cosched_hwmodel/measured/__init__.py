"""Tables of measured co-runs: how long an application takes beside another one, on half of the cores of twice the nodes.

Scenarios and ``predict`` ask for the slowdown of two applications (`models.measured_pairs`). Open first: `co_run_table`; `bilinear`
and `components` predict pairs that were not measured, `calibration` says how well.
"""
