"""The energy of a run: of the machine over time, of the jobs, and by the paper's formula."""
