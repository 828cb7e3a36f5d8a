"""The status of a running process: counters and a metrics page."""
