"""Benchmarks, run by scripts/bench.py."""
