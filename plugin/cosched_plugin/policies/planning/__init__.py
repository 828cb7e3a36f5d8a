"""What every backfilling policy uses: offers, reservations, availability over time, the protocols of the parts."""
