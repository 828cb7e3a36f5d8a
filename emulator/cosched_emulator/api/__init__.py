"""The Python interface: one call that runs a scenario under a policy, and its result. Described in docs/python.md."""
