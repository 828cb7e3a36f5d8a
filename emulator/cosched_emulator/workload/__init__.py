"""Workloads: logs, models, demand and estimates."""
