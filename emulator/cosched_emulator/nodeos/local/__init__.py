"""Local CPU schedulers: which of the runnable processes of a node gets its CPU."""
