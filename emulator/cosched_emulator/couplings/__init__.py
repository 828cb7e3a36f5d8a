"""The ways in which manager and scheduler exchange messages."""
