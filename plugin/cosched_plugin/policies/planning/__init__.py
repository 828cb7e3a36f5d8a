"""The base of every backfilling policy: reservations, profiles of availability over time, starts in queue order."""
