"""Parts that share the time of a machine: classes of jobs in time slices, and rows of jobs that run in pairs."""
