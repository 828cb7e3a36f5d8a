"""LOMARC: pairs of jobs on hyperthreaded nodes."""
