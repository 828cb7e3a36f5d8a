"""The files of a run folder: written, and read back."""
