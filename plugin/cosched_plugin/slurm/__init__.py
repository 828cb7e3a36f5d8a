"""The adapter to Slurm: a policy decides for a real slurmctld, through slurmrestd, on the manager half in `cosched_plugin.site`.

Asked by `cosched-plugin slurm`. Open `adapter.py` first: what is enforced, observed, released. `records.py` reads what slurmrestd
answers and is the one place that knows its shapes; `rest.py` is the conversation, and the polls; `cluster.py` makes snapshots of
records; `actuator.py` carries orders out; `site_file.py` is what a site says of itself.
"""
