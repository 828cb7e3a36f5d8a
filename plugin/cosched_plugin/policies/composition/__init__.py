"""Compositions of parts: which parts there are, what a table means, and the policy that it makes.

Asked by `cosched_plugin.config` for a policy by name or table. Open `composed.py` first: `compose`, and `Composed.decide`,
which runs a pass. On the way from a table to parts: `presets.py` (names of whole tables), `resolved.py` (what a table means,
what is refused), `catalogue.py` (names of parts, imported when asked for), `part_settings.py` (what their settings accept),
`finding.py` (parts of others).
"""
