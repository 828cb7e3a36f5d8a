"""The runs of a study: one of them, processes on this machine or on a cluster, and what is left to do."""
