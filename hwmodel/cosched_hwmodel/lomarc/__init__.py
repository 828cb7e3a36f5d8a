"""Pairwise slowdown on hyperthreaded nodes (LOMARC paper).

Hardware and beliefs named ``lomarc`` ask for the slowdown of two jobs. Open first: `lomarc_model`, the paper's formula;
`lomarc_matrix` gives the same numbers for one job and many others at once.
"""

C_SCOPES = ("all", "cpu_cpu")
CPUS = ("hyperthreaded", "standard")
