"""Views of the cluster for policies: everything, whole nodes only, or one class of jobs.

Asked by policies for all that they know. Open `view.py` first: it shows the state as it is. `whole_nodes.py` shows a node as
free only while no job is on it, `virtual_machine.py` one class of jobs with a clock of its own. All methods keep one meaning
of time and of free threads within a view, so parts work on each of them alike.
"""
