"""What command lines need: the log, errors as exit codes, tables of text, progress bars, files that are whole or not there.

The commands of all three packages ask it. Open first: `console`; `command_line` is the one place where errors become exit codes.
"""
