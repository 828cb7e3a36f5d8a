"""Contention models by name, built in or written by others."""
