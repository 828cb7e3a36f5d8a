"""A resource manager and its nodes, emulated: workloads, clock, hardware, faults, results."""
