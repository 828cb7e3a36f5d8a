"""Memory, network and disk bandwidth shared by co-located jobs (RUA paper)."""
