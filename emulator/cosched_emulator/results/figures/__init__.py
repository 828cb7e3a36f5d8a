"""Metrics, energy, tables and pictures of a run.

A run asks for its summary, ``compare`` and ``plot`` for tables and pictures. Open first: `metrics`, the summary; `comparison` has
the list of figures that runs are compared by.
"""
