"""What parts of a policy are and what passes between them: a protocol for each kind, and the objects that they exchange.

Asked by every policy, through `cosched_plugin.api`. Open `kinds.py` first: the protocols, and `Context`, which a pass hands
around. `offers.py` has what placements take and return, `colocated.py` seats for two jobs, `needs.py` the rule that refuses
compositions, `prices.py` what a look costs.
"""
