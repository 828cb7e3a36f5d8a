"""The command ``cosched-hwmodel``: a node measured, shown, and who slows whom on it.

Open first: `main`, all commands with their help, which load their work when they run. ``measuring`` and ``predicting`` do it;
alone in this package, modules may import click and start processes.
"""
