"""Policies: orders, backfills and placements, and their compositions."""
