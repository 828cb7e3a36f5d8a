"""FCFS, EASY, SJBF and conservative backfilling."""
