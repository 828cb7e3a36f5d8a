"""Fits of the composite model's numbers to measured co-runs.

Tests repeat the fit that the model's parameters come from, scripts use `pair_fit` for tables of their own. Open first:
`lomarc_fit`; `least_squares` has the steps of both.
"""
