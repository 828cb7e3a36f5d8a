"""What a running process tells of itself: counters, a status endpoint, a metrics page."""
