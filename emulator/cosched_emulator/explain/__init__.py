"""Explains from a decision trace why a job started when it did.

The command ``explain`` and a finished `Run` ask it. Open first: `facts`, which reads what the trace says of one job; `sentences`
puts that into words, `gang_facts` does both for jobs in rows of gang scheduling, `trace_reader` reads the file.
"""
