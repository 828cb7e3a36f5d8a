"""Changes of a whole workload before a run: the load that it offers, and small changes of run times."""
