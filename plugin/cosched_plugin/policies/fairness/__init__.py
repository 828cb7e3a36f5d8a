"""Fairness rules: which jobs a co-located start may delay, and by how much."""
