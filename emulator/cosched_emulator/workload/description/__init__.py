"""What a workload is like, in numbers and as text."""
