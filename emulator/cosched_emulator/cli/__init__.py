"""The commands of cosched-emulator, one module for each group of them.

A command is one function: its parameters are its options (`cosched_terminal.commands`), and it imports what it works with when it
runs, so that help and typing errors cost a twentieth of a second. Open first: `main`, the list of commands, and where errors become
exit codes. `asking` has what commands for users share, `scenario_options` the options that set keys of a scenario, `job_options`
those that describe a job, on the command line and in scripts.
"""
