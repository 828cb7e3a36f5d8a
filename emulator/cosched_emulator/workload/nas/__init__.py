"""Jobs of the NAS parallel benchmarks and two other programs, as the paper on communication-driven coscheduling has them."""
