"""What command lines need: the log, errors as exit codes, tables of text, progress bars. All three commands use it."""
