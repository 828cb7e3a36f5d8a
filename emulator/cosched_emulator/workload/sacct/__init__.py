"""Slurm's accounting as a log: what `sacct` prints becomes jobs in SWF, with a count of everything that was dropped or guessed.

The command ``workload import`` and `whatif` ask it (docs/site.md). Open first: `sacct_log`, which writes the folder;
`sacct_jobs` makes jobs of rows, `sacct_machine` guesses on which nodes they ran, `sacct_unmodelled` counts what else bound them. What
a site says of itself is read by `site_facts`, and becomes parts of the scenario in `site_scenario`. Dumps are read by
`cosched_plugin.common.sacct_dump`, as the Slurm driver learns from them, too.
"""
