"""Metrics, tables and pictures of a run."""
