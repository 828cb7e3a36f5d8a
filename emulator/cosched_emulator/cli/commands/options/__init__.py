"""Options that several commands have, and the values that they take.

The modules of ``cli.commands`` add them to their commands. Open first: `scenario_options`; `job_options` has those of ``submit``,
also as they stand in job scripts, `manager_options` those that say which manager is asked.
"""
