"""The command ``cosched-plugin``.

Open first: `main`, with the table of commands and the conversion of errors to exit codes; then `commands` and `slurm`.
"""
