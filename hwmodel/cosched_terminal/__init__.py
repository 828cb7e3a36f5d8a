"""What command lines need: commands as functions, the log, errors as exit codes, tables of text, progress bars, files that
are whole or not there.

The command lines of all packages ask it, and whoever opens or writes a file beside a path.
Open first: `console`; `command_line` is the one place where errors become exit codes.
"""
