"""Fits of the composite model's numbers to measured co-runs."""
