"""What a run leaves behind: records, figures, the run folder, tables and pictures."""
