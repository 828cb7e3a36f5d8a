"""What a running process tells of itself: counters and a metrics page."""
