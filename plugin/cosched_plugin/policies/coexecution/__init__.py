"""Co-execution: a job has all cores of its nodes, or half of the cores of twice as many, with other jobs on the other halves."""
