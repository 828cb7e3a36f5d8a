"""Fits of the composite model's numbers to measured co-runs.

`calibrate` and scripts use `pair_fit`, for tables of pairs.
"""
