"""Code that the scheduler's and the manager's programs share: allocations, keys, endpoints, log, signals, status."""
