"""A run in virtual time, from preparation to its results."""
