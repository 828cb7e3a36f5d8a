"""Which jobs respond later than the same jobs in a baseline run, by how much, and why."""
