"""The input of a run: settings, planned faults, and the parts built from them.

``run.prepare`` asks it. Open first: `sections` and `schema`, what may be set; `reader` reads a file into them and `rules` refuses
what does not fit together. `scenario_jobs`, `machine`, `hardware`, `faults` and `process_nodes` build one part each.
"""
