"""What a policy sees of the cluster: everything, whole nodes only, or one class of jobs."""
