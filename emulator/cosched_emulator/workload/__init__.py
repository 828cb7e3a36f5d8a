"""Workloads: logs, models, demand and estimates.

A scenario asks for jobs (`scenario.scenario_jobs`), the command ``workload`` writes and describes them. Open first: `job`, one job
and a workload; `jobs_in_columns` keeps a million of them small. `lublin`, `nas` and ``swf`` make jobs; `scaling`, `beliefs`,
`characteristics` and ``side_files`` change what they are like and what the scheduler knows.
"""
