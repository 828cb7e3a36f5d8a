"""Drawn slowdowns of a job on its own nodes and beside others (G-LOMARC-TS paper)."""
