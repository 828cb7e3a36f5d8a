"""Placements: which threads or nodes a job gets."""
