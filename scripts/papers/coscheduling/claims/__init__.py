"""The claims of the coscheduling paper, by subject: what it prints, what was measured, and whether that holds."""
