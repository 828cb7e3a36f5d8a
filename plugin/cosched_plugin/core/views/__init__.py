"""Views of the cluster for policies: everything, whole nodes only, or one class of jobs."""
