"""Side files of a workload: what bounds its jobs, and what their processes do.

A scenario reads them after its jobs. Open first: `side_file_rows`, rows with the place of every error; then `annotations` (demand,
use, profiles), `applications` and `job_programs`.
"""
