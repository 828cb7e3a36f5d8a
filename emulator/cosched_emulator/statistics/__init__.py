"""Statistics over runs and within a run: intervals, verdicts, steady state, and figures by weight and class.

Everything takes plain numbers or numpy arrays, so that results, studies and scripts use the same definitions.
"""
