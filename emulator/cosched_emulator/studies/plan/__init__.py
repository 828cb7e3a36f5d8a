"""What a study consists of: its experiment, and the runs that follow from it."""
