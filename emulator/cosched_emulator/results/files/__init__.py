"""The files of a run folder: written, and read back.

A run writes them (`run_folder`, to open first: the folder appears at once or not at all), ``compare``, ``plot`` and studies read
them (`run_reader`). `run_files` has the columns.
"""
