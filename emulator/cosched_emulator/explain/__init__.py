"""Explains from a decision trace why a job started when it did."""
