"""LessConsume and Resource-Usage-Aware backfilling (RUA paper)."""
