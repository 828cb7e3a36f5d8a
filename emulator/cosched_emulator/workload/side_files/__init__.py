"""Side files of a workload: what bounds its jobs, and what their processes do."""
