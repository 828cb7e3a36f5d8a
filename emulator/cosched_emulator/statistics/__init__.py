"""Statistics over runs and within a run: intervals, verdicts, steady state, and figures by weight and class.

Results, studies and the scripts of papers ask it, so that all use the same definitions; everything takes plain numbers or numpy
arrays. Open first: `intervals`, over seeds; `bootstrap` is within a run, `saturation` tells whether a run has a steady part.
"""
