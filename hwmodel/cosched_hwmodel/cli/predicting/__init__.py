"""Which jobs slow each other down on a node, and through which of its resources.

The commands ``predict`` and ``calibrate`` ask it. Open first: `blame`; `job_words` reads jobs as the command line names them,
`table_fits` has the same for tables of measured co-runs.
"""
