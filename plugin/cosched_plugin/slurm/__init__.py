"""The adapter to Slurm: a policy decides for a real slurmctld, through slurmrestd, on the manager half in `cosched_plugin.site`.

Asked by `cosched-plugin slurm`. Open `loop.py` first: a poll, the look that it gives, the rounds that follow. `records.py` reads what
slurmrestd answers and is the one place that knows its shapes; `rest.py` is the conversation; `cluster.py` makes looks of records;
`actuator.py` carries orders out; `site_file.py` is what a site says of itself; `observing.py` looks on and touches nothing.
"""
