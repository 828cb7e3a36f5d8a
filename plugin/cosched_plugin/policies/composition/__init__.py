"""Compositions of parts: which parts there are, what a table means, and the policy that it makes."""
