"""Pairwise slowdown on hyperthreaded nodes (LOMARC paper)."""
