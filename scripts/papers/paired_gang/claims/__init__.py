"""The claims of the paired gang paper, by experiment: what it prints, what was measured, and whether that holds."""
