"""The way in from Python: one call that runs a scenario under a policy, and what it returns. Described in docs/python.md."""
