"""The Standard Workload Format: read and written.

A scenario reads logs, a run folder holds its own. Open first: `swf_reader`, with the rules that repair real logs; `swf_table` reads
the raw numbers fast, `swf_header` the comments, `swf_writer` writes what the reader takes back to the microsecond.
"""
