"""What takes turns: classes of jobs in time slices, and rows of jobs in gang scheduling."""
