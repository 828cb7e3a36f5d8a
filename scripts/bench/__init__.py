"""The benchmarks of scripts/bench.py."""
