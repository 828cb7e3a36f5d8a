"""G-LOMARC-TS: groups of jobs on the same nodes."""
