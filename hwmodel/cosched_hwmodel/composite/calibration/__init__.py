"""Fits of the composite model's numbers to measured co-runs.

`calibrate` and scripts use `pair_fit` for tables of pairs; open it first. `least_squares` is the fit of a few numbers, which
`scripts/papers/hardware/lomarc_fit.py` uses for the LOMARC paper's measurements.
"""
