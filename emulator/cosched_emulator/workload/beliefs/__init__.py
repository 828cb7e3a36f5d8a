"""What the scheduler is told of jobs, where that is not the truth."""
