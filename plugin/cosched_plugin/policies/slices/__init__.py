"""Time slices per class of job, with preemption to disk."""
